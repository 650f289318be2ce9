"""A barrier with its state between two events. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pgdb.errors import UsageError
from pgdb.frontend.api import absentees
from pgdb.frontend.api.absentees import Absent, Barrier, BarrierThen
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.job_state import JobState
from pgdb.ranks import RankSet

_FOR_EVER = ("ended", "error", "lost", "detached")


class Point(msgspec.Struct):
    """A barrier and its state."""

    number: int
    """The number of its breakpoint."""
    location: str
    ranks: RankSet
    condition: str
    """The condition with which it was made."""
    then: BarrierThen
    times: int
    met: int = 0
    incomplete: int = 0
    """The number of these times at which a rank was missing that could not come."""
    reported: tuple[Absent, ...] = ()
    """The ranks that are not there, as last reported."""
    held: RankSet = RankSet()
    """The ranks that were held at that report, for any reason."""
    awaited: tuple[RankSet, ...] = ()
    """The ranks that have arrived, the ranks that have not, and the stopped ones of the latter."""
    disabled: RankSet = RankSet()
    """The ranks that have not come and pass it, as last reported."""
    is_stuck: bool = False
    """Whether all ranks that are not there seem to wait for others."""
    has_news: bool = False
    """Whether ranks have arrived since the last report about those that are not there."""
    is_over: bool = False
    """Whether its breakpoint is deleted."""
    waits: int = 0
    """The number of callers that wait for it."""

    @property
    def reason(self) -> str:
        """The reason for which ranks are held at it."""
        return f"barrier {self.number}"

    def forget_waits(self) -> None:
        """Forget the report about ranks that may still come."""
        self.reported = tuple(each for each in self.reported if each.kind in _FOR_EVER)

    def forget_outdated(self, state: JobState) -> bool:
        """Forget the report about ranks that waited for released ones; return whether it did."""
        if not absentees.are_outdated(self.reported, self.held, state):
            return False
        self.forget_waits()
        self.is_stuck = False
        return True

    def forget_returned(self, never: tuple[Absent, ...], state: JobState) -> None:
        """Forget the report about ranks that can come again; *never* are all that cannot."""
        gone = RankSet.union(each.ranks for each in never)
        # A rank that runs on from a fault mostly ends by it, which is no news then.
        dying = gone | state.running
        self.reported = tuple(
            each
            for each in self.reported
            if each.kind not in _FOR_EVER or each.ranks <= (dying if each.kind == "error" else gone)
        )

    def take_ends(self, never: tuple[Absent, ...], state: JobState) -> bool:
        """Return whether to report ranks that will *never* come, where no rank is there.

        A fault is reported at once; of ends, which follow each other, the first one, and once none
        is left to come. Behind a meeting, ranks that end well are no news: the job has gone on to
        its end, as it should.
        """
        if self.is_over:
            return False
        known = RankSet.union(each.ranks for each in self.reported)
        fresh = tuple(each for each in never if not each.ranks <= known)
        gone = RankSet.union(each.ranks for each in never)
        is_lonely = not self.met and gone == self.ranks and not gone <= state.killed
        is_news = is_lonely and any(each.kind == "ended" for each in fresh)
        is_news |= any(each.kind in ("error", "lost") for each in fresh)
        if not self.reported:
            ended = RankSet.union(each.ranks for each in fresh if each.kind == "ended")
            is_news |= not ended <= state.killed | (state.ended_well if self.met else RankSet())
        if is_news:
            self.reported = never
        return is_news

    def conditions(self, journal: BreakpointJournal) -> dict[str, RankSet]:
        """Return the conditions that it has now, with the ranks; an empty text for none."""
        found = journal.conditions_of(self.number, self.ranks)
        if left := self.ranks - RankSet.union(found.values()):
            found[self.condition] = found.get(self.condition, RankSet()) | left
        return found

    def disabled_on(self, journal: BreakpointJournal) -> RankSet:
        """Return the ranks on which its breakpoint is disabled."""
        return self.ranks & journal.disabled_on(self.number)

    def arrived(self, state: JobState) -> RankSet:
        """Return the ranks that are held at it."""
        return state.held_for.get(self.reason, RankSet())

    def shown(self, state: JobState, journal: BreakpointJournal) -> Barrier:
        """Return the barrier as others see it."""
        never = absentees.gone(state, self.ranks)
        left = self.ranks - RankSet.union(each.ranks for each in never)
        others = [each for each in self.reported if each.ranks <= left]
        if absentees.are_outdated(others, self.held, state):
            others = []
        arrived = self.arrived(state)
        unnamed = left - arrived - RankSet.union(each.ranks for each in others)
        if arrived and (stopped := unnamed & state.stopped - state.passing):
            # They have stopped since the report, and no further rank has come.
            others += absentees.waited_for(state, stopped, (), journal=journal)
        return Barrier(
            number=self.number,
            location=self.location,
            ranks=self.ranks,
            condition=_condition_text(self.conditions(journal)),
            then=self.then,
            times=self.times,
            met=self.met,
            incomplete=self.incomplete,
            arrived=arrived,
            disabled=self.disabled_on(journal),
            absent=absentees.in_order((*never, *absentees.renewed(others, state, journal))),
        )


def check_change(points: Mapping[int, Point], command: str, numbers: Sequence[str]) -> None:
    """Check that a change of breakpoints leaves each of the barriers among them one.

    :raises UsageError: if not.
    """
    for text in numbers:
        first, has_place, _ = text.partition(".")
        start, _, end = first.partition("-")
        if not start.isdecimal() or not (end or start).isdecimal():
            continue
        for number in points:
            if points[number].is_over or not int(start) <= number <= int(end or start):
                continue
            if command == "enable delete":
                raise UsageError(
                    f"breakpoint {number} is a barrier, and each rank would delete it on its own; "
                    "'barrier LOCATION --times 1' deletes it when all have met"
                )
            if has_place:
                raise UsageError(
                    f"breakpoint {number} is a barrier, which is at all of its places; "
                    f"'disable {number}' and 'enable {number}' are for all of them"
                )


def _condition_text(conditions: dict[str, RankSet]) -> str:
    """Return the condition of all ranks, or each condition with its ranks."""
    if len(conditions) < 2:
        return next(iter(conditions), "")
    parts = sorted(conditions.items(), key=lambda item: item[1].first)
    return ", ".join(f"{condition or '1'} on [{ranks}]" for condition, ranks in parts)
