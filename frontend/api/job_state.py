"""The state of every rank, as the front end knows it. No I/O.

Stops can overtake the acknowledgement of the command that led to them, and an old stop can be
in flight while a rank has been set running again. Every run therefore has a number, that of the
request that started it; a stop counts only for ranks that have not been started again since.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.first_deaths import FirstDeaths, has_failed
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Running, Stop, stopped_at

BY_USER = "hold"
"""The reason of a hold that the user has asked for."""
_MOST_REPLACED = 100
"""Runs whose predecessor is kept, so that a late refusal can be undone."""


class JobState:
    """The ranks of a session, by their state."""

    def __init__(self, ranks: RankSet) -> None:
        self.ranks = ranks
        """All ranks of the session."""
        self.stopped = RankSet()
        self.running = RankSet()
        self.exited = RankSet()
        self.lost = RankSet()
        """Ranks whose debugger, aggregator or host is gone."""
        self.detached = RankSet()
        self.held_for: dict[str, RankSet] = {}
        """The held ranks by the reason, as in ``barrier 3``; :data:`BY_USER` for those of the user.
        A rank can be held for several reasons."""
        self.passing = RankSet()
        """Stopped ranks that PGDB is about to set running by itself. They count as running for
        commands that wait for stops."""
        self._runs: dict[int, RankSet] = {}
        self._origins: dict[int, int] = {}  # of runs that go on after a stop nobody sees
        self._replaced: dict[int, dict[int, RankSet]] = {}  # what a run that may fail took over
        self._latest: list[EquivalenceClass[Event]] = []
        self._deaths = FirstDeaths()
        self.killed = RankSet()
        """Ranks that the user kills or has killed."""

    @property
    def live(self) -> RankSet:
        """Ranks that can be asked."""
        return self.stopped | self.running

    @property
    def held(self) -> RankSet:
        """Ranks that ignore run commands."""
        return RankSet.union(self.held_for.values())

    def hold(self, ranks: RankSet, reason: str) -> RankSet:
        """Hold live and lost ranks for a reason; return those that were not held for it before."""
        before = self.held_for.get(reason, RankSet())
        ranks = ranks & (self.live | self.lost) - before
        if ranks:
            self.held_for[reason] = before | ranks
        return ranks

    def release(self, ranks: RankSet, reason: str | None = None) -> RankSet:
        """Hold ranks no longer for a reason, None for all; return those that are free now."""
        before = self.held
        self.held_for = {
            name: left
            for name, members in self.held_for.items()
            if (left := members - ranks if reason in (None, name) else members)
        }
        return before - self.held

    @property
    def ended_well(self) -> RankSet:
        """Ranks that have ended with status 0."""
        return self.exited & self._where(
            lambda event: isinstance(event, Exit) and event.code == 0 and not event.signal
        )

    def named(self, name: str) -> RankSet | None:
        """Return the automatic set of a name: running, stopped, exited, lost, held, error, bpN."""
        match name:
            case "running":
                return self.running
            case "stopped":
                return self.stopped
            case "exited":
                return self.exited
            case "lost":
                return self.lost
            case "held":
                return self.held
            case "error":
                bad = self._where(lambda event: isinstance(event, Stop | Exit) and is_bad(event))
                return bad - self.running - self.detached
        if name.startswith("bp") and name[2:].isdecimal() and len(name) < 20:
            number = int(name[2:])
            return self.stopped & self._where(lambda event: number in stopped_at(event))
        return None

    def absent(self, ranks: RankSet) -> list[str]:
        """Return a line for each reason why some of *ranks* cannot be asked, with the remedy."""
        reasons = (
            (ranks & self.lost, "lost; 'reattach' attaches to {them} again"),
            (ranks & self.detached, "detached; 'reattach' attaches to {them} again"),
            (ranks & self.exited, "ended"),
            (ranks & self.live, "not there when it was asked"),
        )
        return [
            f"[{part}] {text.format(them=by_number(part, 'it', 'them'))}"
            for part, text in reasons
            if part
        ]

    def add(self, ranks: RankSet) -> None:
        """Add ranks to the session; they count as running until they have stopped."""
        self.ranks = self.ranks | ranks
        self._set(ranks, "running")
        self._runs[0] = self._runs.get(0, RankSet()) | ranks

    def start_run(self, run: int, ranks: RankSet) -> None:
        """Note that *ranks* are being set running by request *run*."""
        self._replaced[run] = {
            other: part for other, members in self._runs.items() if (part := members & ranks)
        }
        while len(self._replaced) > _MOST_REPLACED:
            del self._replaced[next(iter(self._replaced))]
        self._runs = {
            other: left for other, members in self._runs.items() if (left := members - ranks)
        }
        self._runs[run] = ranks
        self.stopped = self.stopped - ranks
        self.running = self.running | ranks
        self._deaths.forget(ranks)
        self.killed = self.killed - ranks

    def start_unasked(self, run: int, ranks: RankSet) -> None:
        """Note that request *run* has set *ranks* running, which was not known before its answer.

        Their stops can have overtaken the answer.
        """
        has_ended = self._where(lambda event: isinstance(event, Stop | Exit) and event.run >= run)
        if ranks := self._not_restarted(run, ranks & self.live) - has_ended:
            self.start_run(run, ranks)

    def cancel_run(self, run: int, ranks: RankSet) -> None:
        """Note that request *run* has not set *ranks* running after all."""
        ranks = ranks & self._runs.get(run, RankSet()) & self.running
        self.running = self.running - ranks
        self.stopped = self.stopped | ranks
        self._runs[run] = self._runs[run] - ranks if run in self._runs else RankSet()
        for other, members in self._replaced.get(run, {}).items():
            self._runs[other] = self._runs.get(other, RankSet()) | (members & ranks)

    def continue_run(self, run: int, before: int, ranks: RankSet) -> None:
        """Note that PGDB lets ranks of run *before* go on by request *run*: it is one run."""
        self._runs[before] = self._runs.get(before, RankSet()) - ranks
        self._runs[run] = ranks
        self._origins[run] = self._origins.get(before, before)
        while len(self._origins) > _MOST_REPLACED:
            del self._origins[next(iter(self._origins))]

    def origin(self, run: int) -> int:
        """Return the run that request *run* continues, *run* itself if it continues none."""
        return self._origins.get(run, run)

    def members(self, run: int) -> RankSet:
        """Return the ranks whose last run is that of request *run*."""
        origin = self.origin(run)
        same = [number for number, first in self._origins.items() if first == origin]
        return RankSet.union(self._runs.get(number, RankSet()) for number in (origin, *same))

    def runners(self, run: int) -> RankSet:
        """Return the ranks that run since request *run*."""
        return self.members(run) & self.running

    def stay_with(self, cause: str, ranks: RankSet) -> tuple[EquivalenceClass[Event], ...]:
        """Note that ranks stay stopped with others, not for a look; return their stops."""
        for each in self.latest(ranks & self.stopped):
            stop = each.record
            if isinstance(stop, Stop) and stop.reason == "interrupted":
                record = replace(stop, stopped_with=cause)
                self._remember(EquivalenceClass(each.ranks, record, each.slots))
        return self.latest(ranks & self.stopped)

    def latest(self, ranks: RankSet) -> tuple[EquivalenceClass[Event], ...]:
        """Return the last stop or end of *ranks*, as classes, least rank first."""
        found = [
            EquivalenceClass(ranks=each.ranks & ranks, record=each.record, slots=each.slots)
            for each in self._latest
            if not each.ranks.isdisjoint(ranks)
        ]
        return tuple(sorted(found, key=lambda each: each.ranks.first))

    def place(self, ranks: RankSet) -> str:
        """Return the line at which all of *ranks* have stopped, empty for several lines or none.

        >>> JobState(RankSet()).place(RankSet([0]))
        ''
        """
        if not ranks or ranks - self.stopped:
            return ""
        records = [each.filled for each in self.latest(ranks)]
        frames = [each.frame for each in records if isinstance(each, Stop) and each.frame]
        lines = {(each.file, each.line) for each in frames}
        if len(frames) < len(records) or len(lines) != 1:
            return ""
        ((file, line),) = lines
        return f"{file}:{line}" if file and line else ""

    def apply(
        self, classes: Iterable[EquivalenceClass[Event]], *, are_announced: bool = False
    ) -> tuple[EquivalenceClass[Event], ...]:
        """Apply events; return those that are news, without ranks for which they are stale.

        With *are_announced* they are the current states of ranks. After a loss, aggregators
        announce them again; a stop that is known is then no news.
        """
        news = []
        classes = tuple(classes)
        self._deaths.begin(classes, self.live - self.killed)
        for each in classes:
            event, ranks = each.record, each.ranks & self.ranks
            match event:
                case Stop(run=run):
                    ranks = self._current(run, ranks)
                    if are_announced:
                        same = (old.ranks for old in self._latest if _are_same(old, each))
                        ranks -= self.stopped & RankSet.union(same)
                    self._set(ranks, "stopped")
                case Running(run=run):
                    ranks = self._current(run, ranks)
                    ranks -= self.runners(run)
                    self._set(ranks, "running")
                    self._runs[run] = self._runs.get(run, RankSet()) | ranks
                case Exit():
                    ranks = ranks - self.exited
                    self._set(ranks, "exited")
                case Gone():
                    ranks = ranks - self.exited - self.lost
                    self._set(ranks, "lost")
                case _:
                    pass
            if not ranks:
                continue
            for part in self._deaths.parts(event, ranks, self.killed):
                shown = event
                if isinstance(event, Stop | Exit):
                    shown = self._deaths.with_first(event, part, self.killed)
                kept = EquivalenceClass(ranks=part, record=shown, slots=each.slots)
                if isinstance(shown, Stop | Exit):
                    self._remember(kept)
                news.append(kept)
        return tuple(news)

    def lose(self, ranks: RankSet) -> RankSet:
        """Note that *ranks* cannot be reached; return those for which that is news."""
        ranks = ranks & (self.ranks - self.exited - self.lost - self.detached)
        self._set(ranks, "lost")
        return ranks

    def detach(self, ranks: RankSet) -> None:
        """Note that *ranks* run free."""
        self._set(ranks & (self.ranks - self.exited), "detached")

    def take_back(self, ranks: RankSet) -> None:
        """Note that lost or detached ranks are under a debugger again."""
        self._set(ranks & (self.lost | self.detached), "stopped")

    def started_late(self, run: int, ranks: RankSet) -> RankSet:
        """Return those of *ranks* that request *run* has set running, unknown to the session.

        The aggregator of these ranks was lost with the request in flight. Since then it has
        announced that they are stopped; they were not running yet.
        """
        has_ended = self._where(lambda event: isinstance(event, Stop | Exit) and event.run >= run)
        return self._not_restarted(run, ranks & self.stopped) - has_ended

    def _current(self, run: int, ranks: RankSet) -> RankSet:
        """Return those of *ranks* for which an event that belongs to *run* is not stale.

        A request that was in flight when ranks were lost may not have reached them. So their
        aggregator's announcement counts, and a run that it does not know has not begun.
        """
        if back := ranks & self.lost:
            self._runs = {
                other: left for other, members in self._runs.items() if (left := members - back)
            }
            self._runs[run] = self._runs.get(run, RankSet()) | back
        return self._not_restarted(run, ranks) - self.exited - self.detached

    def _not_restarted(self, run: int, ranks: RankSet) -> RankSet:
        newer = (members for number, members in self._runs.items() if number > run)
        return ranks - RankSet.union(newer)

    def _set(self, ranks: RankSet, where: str) -> None:
        for name in ("stopped", "running", "exited", "lost", "detached"):
            members: RankSet = getattr(self, name)
            setattr(self, name, members | ranks if name == where else members - ranks)
        if self.held_for and where in ("exited", "detached"):
            self.release(ranks)

    def _remember(self, each: EquivalenceClass[Event]) -> None:
        kept = []
        for other in self._latest:
            if left := other.ranks - each.ranks:
                kept.append(EquivalenceClass(ranks=left, record=other.record, slots=other.slots))
        kept.append(each)
        self._latest = kept

    def _where(self, holds: object) -> RankSet:
        assert callable(holds)
        return RankSet.union(each.ranks for each in self._latest if holds(each.record))


def _are_same(one: EquivalenceClass[Event], other: EquivalenceClass[Event]) -> bool:
    record = one.record
    if isinstance(record, Stop) and (record.after or record.stopped_with):
        record = replace(record, after="", stopped_with="")
    return record == other.record and one.slots == other.slots


def is_bad(event: Stop | Exit) -> bool:
    """Return whether an event means that something went wrong on a rank."""
    if isinstance(event, Exit):
        return has_failed(event)
    return event.reason in ("signal-received", "death", "sanitizer-report")
