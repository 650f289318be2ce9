"""Run control: set ranks running, and wait until they have stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast, get_args

from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import gdb_words
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.messages import Console, Resume, RunWord
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Record, Running, Stop

_STEPS: tuple[RunWord, ...] = ("step", "next", "stepi", "nexti", "finish", "until", "advance")


class RunControl:
    """Starter of runs of ranks, which also waits for their stops."""

    def __init__(self, core: Core, traffic: Traffic) -> None:
        self._core = core
        self._traffic = traffic
        self.has_run = False
        """Whether a command has set ranks running."""
        self.words: dict[str, RankSet] = {}
        """The ranks by the word of their last run command, such as ``next``, which held ranks have
        not carried out."""
        self.interrupted = RankSet()
        """Ranks that the user has interrupted since they were set running last."""
        self.begin = core.begin
        """Function that starts work that outlives a command."""

    @property
    def continued(self) -> RankSet:
        """Ranks whose last run was a ``continue``, which an interrupt does not spoil."""
        return self.words.get("continue", RankSet())

    @property
    def stepped(self) -> RankSet:
        """Ranks whose last run was to end at a place nearby: a stop for others ends it, too."""
        return RankSet.union(self.words.get(word, RankSet()) for word in _STEPS)

    async def start(
        self,
        word: RunWord,
        argument: str,
        ranks: RankSet,
        *,
        held_too: bool = False,
        continues: int | None = None,
    ) -> Answer:
        """Set ranks running; return at once, with the ranks that run and those that could not.

        Held ranks stay where they are, except with *held_too*: PGDB has stopped them for itself.
        With *continues* it is the same run as that of an earlier request.

        :raises UsageError: if there is no location to run to.
        :raises CommandError: if all ranks that could be set running are held.
        """
        if word == "advance" and not argument.rstrip("& \t"):
            # In the background, GDB 13.1 looks for a location where there is none, and dies.
            raise UsageError("'advance' needs a location: 'advance FILE:LINE', 'advance FUNCTION'")
        line = f"{word} {argument}".strip()
        operation = Resume(command=word, argument=argument)
        return await self._start(
            line, operation, ranks, None, held_too=held_too, continues=continues
        )

    async def start_console(
        self, line: str, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Set ranks running by any GDB command; return at once.

        :raises CommandError: if all ranks that could be set running are held.
        """
        return await self._start(line, Console(command=line, run=True), ranks, timeout_s)

    async def start_line(self, line: str, ranks: RankSet, *, continues: int) -> Answer:
        """Set ranks running by a run command, as a part of the run of request *continues*.

        Held ranks stay where they are.

        :raises UsageError: as :meth:`start`.
        :raises CommandError: as :meth:`start`.
        """
        word = gdb_words.resolve(line)
        if word in get_args(RunWord):
            argument = argument_of(line)
            return await self.start(cast("RunWord", word), argument, ranks, continues=continues)
        operation = Console(command=line, run=True)
        return await self._start(line, operation, ranks, None, continues=continues)

    async def _start(
        self,
        line: str,
        operation: Resume | Console,
        ranks: RankSet,
        timeout_s: float | None,
        *,
        held_too: bool = False,
        continues: int | None = None,
    ) -> Answer:
        core, state = self._core, self._core.state
        held = RankSet() if held_too else ranks & state.stopped & state.held
        stopped = ranks & state.stopped - held
        if held and not stopped and not ranks & state.running:
            raise all_held(line, held)
        number = core.transport.next_id()
        # GDB says that the program is not being run.
        asked = stopped if ranks & state.live else ranks & state.exited
        if passed := self._traffic.stop_modes.passed(operation.command, stopped):
            operation = replace(operation, passed=passed)
        self.has_run = True
        self._note_word(operation.command.partition(" ")[0], stopped | held)
        # A held rank would run as well: the interrupt that it stopped for is over.
        self.interrupted -= stopped | held
        state.start_run(number, stopped)
        if continues is not None:
            state.continue_run(number, continues, stopped)
            self._traffic.stop_modes.continues(number, continues)
        try:
            answer = await self._traffic.ask(
                line, operation, asked, timeout_s=timeout_s, request_id=number, of_ended=True
            )
        except Exception:
            # The request was not sent. Ranks of a cancelled request still answer.
            state.cancel_run(number, stopped)
            raise
        started = _started(answer)
        # Ranks that stopped again before the acknowledgement came keep their state.
        state.cancel_run(number, stopped - started - answer.missing.late)
        if still := state.runners(number) - core.notifier.hushed:
            going = EquivalenceClass[Event](ranks=still, record=Running(run=number))
            core.notifier.notify(RankEvents(classes=(going,)))
        core.wake()
        return replace(
            answer,
            ranks=ranks,
            missing=answer.missing
            | Missing(
                running=ranks & state.running - stopped,
                lost=ranks - state.live - asked,
                held=held & state.stopped,
            ),
        )

    def _note_word(self, word: str, ranks: RankSet) -> None:
        words = {other: left for other, those in self.words.items() if (left := those - ranks)}
        self.words = {**words, word: words.get(word, RankSet()) | ranks}

    async def finish(
        self,
        started: Answer,
        *,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Wait for the ranks that a run command has started; return where they have stopped."""
        running = _started(started)
        if not running:
            return started
        # Ranks that ran before the command may stop or end during the wait.
        state, before = self._core.state, started.missing.running - running
        stopped = await self.wait_stopped(
            started.command,
            running,
            timeout_s=timeout_s,
            settle_s=settle_s,
            is_new_run=True,
            besides=before,
        )
        others = [each for each in started.classes if not isinstance(each.record, Running)]
        left = before & state.running
        lost = before & state.lost
        others += _ends(state, before - left - lost)
        found = replace(
            started,
            classes=tuple(sorted((*stopped.classes, *others), key=lambda each: each.ranks.first)),
            missing=(started.missing - running - before)
            | stopped.missing
            | Missing(running=left, lost=lost),
            elapsed_s=started.elapsed_s + stopped.elapsed_s,
        )
        return without_released(found, state)

    def note_unmoved(self, started: Answer) -> None:
        """Send a notice about ranks that ran before a run command, and still run.

        The others have stopped or ended meanwhile: nothing is left to wait for.
        """
        state = self._core.state
        if still := started.missing.running & (state.running | state.passing):
            self._core.note(
                f"[{still}] ran already, so '{started.command}' did nothing there; 'wait' waits "
                "for their stop, 'interrupt' stops them"
            )

    def with_news(self, answer: Answer) -> Answer:
        """Return *answer* with the stops and ends of ranks that ran when it was made."""
        state, running = self._core.state, answer.missing.running
        still = running & (state.running | state.passing)
        lost = running & state.lost
        news = _ends(state, running - still - lost)
        found = replace(
            answer,
            classes=tuple(sorted((*answer.classes, *news), key=lambda each: each.ranks.first)),
            missing=(answer.missing - running) | Missing(running=still, lost=lost),
        )
        return without_released(found, state)

    async def wait_stopped(
        self,
        command: str,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        settle_s: float | None = None,
        counts_passing: bool = True,
        is_new_run: bool = False,
        besides: RankSet = RankSet(),
    ) -> Answer:
        """Wait until *ranks* have stopped or ended; see :meth:`RankView.run` for the rules.

        With *counts_passing*, ranks that PGDB has stopped for itself still run. With *is_new_run*,
        all *ranks* have just been set running, so that those that are stopped by now have stopped
        since: a stop can overtake the acknowledgement of its command. The settle time begins at
        stops of ranks *besides*, too, for which *ranks* may wait in MPI.

        :raises CommandError: if some of them ran when a recording was made: they never stop.
        """
        core, state = self._core, self._core.state
        if core.transport.is_recorded and (running := ranks & state.running):
            raise CommandError(
                f"'{command}' needs the job, and this is a recording of it; [{running}] ran when "
                "it was written"
            )
        begun = time.monotonic()
        timeout_s = deadline.stops_s(timeout_s)
        end_s = begun + timeout_s if timeout_s is not None else None

        everybody = ranks | besides

        def moving() -> RankSet:
            passing = state.passing if counts_passing else RankSet()
            return everybody & (state.running | passing)

        before, known = moving(), state.ranks
        has_stopped = is_new_run and bool(everybody & (state.stopped | state.exited) - before)
        quiet_since = begun if has_stopped else None
        while (running := moving()) & ranks and not core.is_over:
            now = time.monotonic()
            # Ranks that wait for those of MPI_Comm_spawn do not stop before these are continued.
            if running != before or state.ranks != known:
                before, known, quiet_since = running, state.ranks, now
            limits = [end_s] if end_s is not None else []
            if settle_s is not None and quiet_since is not None:
                limits.append(quiet_since + settle_s)
            left = min(limits) - now if limits else None
            if left is not None and left <= 0:
                break
            await core.wait_change(left)
        self._traffic.stop_modes.flush()
        still = moving() & ranks
        return Answer(
            command=command,
            ranks=ranks,
            classes=tuple(_ends(state, ranks - still - state.lost)),
            missing=Missing(running=still, lost=ranks & state.lost),
            elapsed_s=time.monotonic() - begun,
        )


def without_released(answer: Answer, state: JobState) -> Answer:
    """Return *answer* without ranks that were held when it began, and are no longer.

    A barrier that was met meanwhile has released them, and has reported that.
    """
    released = answer.missing.held - state.held
    return replace(answer, ranks=answer.ranks - released, missing=answer.missing - released)


def all_held(line: str, held: RankSet) -> CommandError:
    """Return the error of a run command that only held ranks could carry out."""
    them = by_number(held, "it", "them")
    are = f"rank {held} is" if len(held) == 1 else f"ranks {held} are"
    return CommandError(f"'{line}': {are} held; 'release {held}' lets {them} run again")


def _ends(state: JobState, ranks: RankSet) -> Sequence[EquivalenceClass[Record]]:
    """Return the latest stops and ends of *ranks*."""
    merger: Merger[Record] = Merger()
    for each in state.latest(ranks):
        if isinstance(each.record, Stop | Exit):
            merger.add(each.ranks, each.record, each.slots)
    return merger.classes


def _started(answer: Answer) -> RankSet:
    return RankSet.union(each.ranks for each in answer.classes if isinstance(each.record, Running))
