"""One user's debugging of one job: everything a user can do, as coroutines that return answers.

The REPL, batch mode and the Python API all go through this; there is one way to do each thing.
A :class:`Session` is the view on all its ranks (:class:`~pgdb.frontend.api.rank_view.Ranks`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from pgdb.errors import (
    CommandError,
    LinkError,
    PgdbError,
    RankSetError,
    SessionEndedError,
    UsageError,
)
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import deliveries, gdb_commands, losses
from pgdb.frontend.api.breakpoint_journal import MAKES_MANY
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.late_answers import LateAnswers
from pgdb.frontend.api.notifications import (
    Events,
    JobEnded,
    JobOutput,
    LateAnswer,
    Listener,
    Notification,
    Notifier,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    Starting,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.rank_view import Ranks
from pgdb.frontend.api.recovery import Reviver
from pgdb.frontend.startup.job import JobLauncher
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.store import saving
from pgdb.frontend.store.log import SessionLog
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.store.saving import Stepwise, Written
from pgdb.frontend.system import deadline
from pgdb.merge.classes import MOST_DISTINCT, EquivalenceClass, Merger, Missing
from pgdb.overlay.messages import (
    AnyOperation,
    Console,
    Delivered,
    Detach,
    InsertBreakpoint,
    Interrupt,
    Kill,
    Lost,
    Notice,
    Reattach,
    Recall,
    Resume,
    RunWord,
)
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import (
    FATAL_SIGNALS,
    BreakpointsMade,
    Event,
    Exit,
    Failure,
    Gone,
    Record,
    Running,
    Stop,
    Text,
)

_LAST_WORDS_S = 2.0
_LAUNCHER_END_S = 5.0
_LEAST_TIMEOUT_S = 0.01
"""What is asked when a command's time is over: what changes something is asked all the same."""
_MOST_REMEMBERED = 1000
"""Commands whose late answers are known for what they are."""
_MOST_MADE = 1000
"""Breakpoints that one command makes at most, for all that is known before it is answered."""
_RECORD_S = 30.0
"""How long the end of a session waits for its recording."""

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class _Request(msgspec.Struct):
    """What some ranks were asked, for what they answer after nobody waits for it any longer."""

    command: str
    operation: AnyOperation
    ranks: RankSet
    reachable: RankSet
    """Those of them that could be asked."""
    begun_s: float
    """On the monotonic clock."""
    were_gone: RankSet
    """``Reattach``: those that had no debugger then,"""
    gone_since: RankSet = RankSet()
    """and whose new one has died before all had answered."""


class Session(Ranks):
    """A running session; made by :func:`pgdb.frontend.startup.start.attach` and ``launch``."""

    is_recorded = False
    """Whether a recording answers, and there is no job."""

    def __init__(
        self,
        mode: Literal["attach", "launch"],
        options: SessionOptions,
        directory: SessionDirectory,
    ) -> None:
        super().__init__(None, RankSet())
        self.mode = mode
        self.options = options
        self.directory = directory
        self.table = ProcTable(processes=(), source="")
        """Where the ranks are."""
        self.description = ""
        """The job in words: launcher, or the command it was started with."""
        self.mpi_version = ""
        self.gdb_version = ""
        self.start_stage = ""
        """What the start is waiting for, in words."""
        self.start_answer: Answer | None = None
        """Where the ranks were stopped when the session started."""
        self.job: JobLauncher | None = None
        """The job's launcher, when we have started it."""
        self.state = JobState(RankSet())
        self.sets: dict[str, RankSet] = {}
        """Named sets that programs define, for ``@name``."""
        self.killed = RankSet()
        """Ranks that the user has killed, whose end is no failure."""
        self.overlay = Overlay(
            options,
            directory,
            on_events=self._events,
            on_late=self._late,
            on_lost=self._lost,
            on_notice=self._noticed,
            on_progress=self._aggregators_come,
        )
        self.overlay.root.on_delivered = self._delivered
        self.overlay.root.on_bare = self._take_bare
        self.recorder = Recorder()
        """What was asked and answered, for :meth:`save`."""
        self._stepwise = Stepwise(self, Path(options.record)) if options.record else None
        self.log: SessionLog | None = None
        """What ``--log`` asks for."""
        self._notifier = Notifier()
        self._changed = asyncio.Event()
        self._next_breakpoint = 1
        self._reviver = Reviver(self.overlay, ask=self.ask, note=self.note)
        self._requests: dict[int, _Request] = {}
        self._is_over = False
        self._came_early: list[Gathered] = []
        # Ranks whose GDB has ended before the session has started.
        self._gone_early = RankSet()
        self._late_answers = LateAnswers(self._tell_late)
        self._asked: dict[int, RankSet] = {}  # by request that is waited for
        self._taking_bare: asyncio.Task[None] | None = None
        self._job_watch: asyncio.Task[None] | None = None
        self._closing: list[Coroutine[None, None, None]] = []
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def _session(self) -> Session:
        return self

    @property
    def _is_started(self) -> bool:
        return self._notifier.is_released

    @property
    def set(self) -> RankSet:
        """All ranks of the session."""
        return self.state.ranks

    @property
    def kills_at_close(self) -> bool:
        """Whether :meth:`close` kills the job unless told otherwise."""
        return self.mode == "launch" and not self.state.detached and not self.job_has_ended

    @property
    def asked(self) -> RankSet:
        """The ranks that are asked something at the moment."""
        return RankSet.union(self._asked.values())

    @property
    def job_has_ended(self) -> bool:
        """Whether the launcher that we have started has ended."""
        return self.job is not None and self.job.has_ended

    @property
    def all_have_ended(self) -> bool:
        """Whether no rank is left that could run on."""
        return self.set <= self.state.exited

    @property
    def leftover_output(self) -> Path | None:
        """Where the output of a launched job goes that runs on after the session, else None."""
        if self._is_over and self.job is not None and not self.job.has_ended:
            return self.directory.leftover_output
        return None

    @property
    def last_breakpoint(self) -> int:
        """Number of the breakpoint that was made last, 0 before the first."""
        return self._next_breakpoint - 1

    @property
    def hosts(self) -> dict[str, RankSet]:
        """The ranks of each host."""
        return {
            host: RankSet(each.rank for each in self.table.processes if each.host == host)
            for host in self.table.hosts
        }

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """What bringing the ranks' files to the hosts has cost each node, the front end first;
        empty without ``sbd``."""
        return self.overlay.root.deliveries

    @property
    def aggregators(self) -> int:
        """Number of aggregators that are in the tree."""
        return len(self.overlay.nodes)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be asked any longer."""
        return self._is_over

    def ranks(self, which: str | RankSet) -> Ranks:
        """Return the view on some ranks, given as a set or as users write it.

        :raises RankSetError: if the text is malformed, or names ranks the job does not have.
        """
        ranks = self.parse_ranks(which) if isinstance(which, str) else which
        return Ranks(self, self._check_ranks(ranks))

    def __getitem__(self, which: int | slice) -> Ranks:
        """Return the view on one rank, or on those of a slice: ``session[0:4]``."""
        if isinstance(which, int):
            return Ranks(self, self._check_ranks(RankSet([which])))
        end = max(self.set, default=-1) + 1
        return Ranks(self, RankSet(range(*which.indices(end))) & self.set)

    def parse_ranks(self, text: str) -> RankSet:
        """Read a rank set: ``0-3,8``, ``all``, ``@name``, with the algebra of :class:`RankSet`.

        :raises RankSetError: if it is malformed, empty, or names ranks the job does not have.
        """
        ranks = RankSet.parse(text, everything=self.set, named=self.named_set)
        return self._check_ranks(ranks)

    def named_set(self, name: str) -> RankSet | None:
        """Return a named set: one of :attr:`sets`, or an automatic one."""
        return self.sets[name] if name in self.sets else self.state.named(name)

    def _check_ranks(self, ranks: RankSet) -> RankSet:
        if unknown := ranks - self.set:
            raise RankSetError(f"no rank {unknown}; the job has {self.set}")
        return ranks

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have *listener* called with what the session tells unasked; return how to stop that."""
        return self._notifier.subscribe(listener)

    # -- asking ------------------------------------------------------------------------------

    async def ask(
        self,
        command: str,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        request_id: int | None = None,
    ) -> Answer:
        """Ask ranks; who has ended or is lost counts as missing at once.

        :raises SessionEndedError: if the session is over.
        :raises UsageError: if *command* is no UTF-8.
        """
        if self._is_over:
            raise SessionEndedError("the session has ended; there is no job to ask")
        gdb_commands.check_text(command)
        begun_s = time.monotonic()
        number = request_id if request_id is not None else self.overlay.root.next_id()
        if self.log is not None:
            self.log.request(number, operation, ranks)
        # A rank that was set going by somebody else's command is asked all the same: its GDB
        # knows best. One that is gone is not, unless to be had again.
        again = isinstance(operation, Reattach)
        reachable = ranks & (self.set - self.state.exited if again else self.state.live)
        were_gone = self.state.lost | self.state.detached
        request = _Request(command, operation, ranks, reachable, begun_s, were_gone)
        self._requests[number] = request
        while len(self._requests) > _MOST_REMEMBERED:
            del self._requests[next(iter(self._requests))]
        limit_s = deadline.answers_s(self.options.timeout_s, timeout_s)
        if limit_s <= 0 and operation.only_reads:
            gathered = Gathered(number, (), Missing(late=reachable))
        else:
            self._asked[number] = reachable
            try:
                gathered = await self.overlay.root.ask(
                    number, reachable, operation, max(limit_s, _LEAST_TIMEOUT_S)
                )
            finally:
                del self._asked[number]
        answer = self._answered(request, gathered)
        self._follow(request, gathered)
        return answer

    def _answered(self, request: _Request, gathered: Gathered) -> Answer:
        """Take what has come back of a request, whether somebody waits for it or not."""
        answer = Answer(
            command=request.command,
            ranks=request.ranks,
            classes=gathered.classes,
            missing=gathered.missing | Missing(lost=request.ranks - request.reachable),
            request_id=gathered.request_id,
            elapsed_s=time.monotonic() - request.begun_s,
        )
        left = request.ranks - self.state.exited
        self._reviver.breakpoints.take(request.command, request.operation, left, answer.classes)
        self.recorder.take(request.operation, answer)
        self._record_soon()
        if self.log is not None:
            self.log.answer(answer)
        return answer

    def _follow(self, request: _Request, gathered: Gathered) -> RankSet:
        """Take what answers change whenever they come; return who has left the session by them."""
        classes, operation = gathered.classes, request.operation
        left = RankSet()
        match operation:
            case Detach() | Kill():
                left = RankSet.union(each.ranks for each in classes if not each.is_error)
                note = self.note_detached if isinstance(operation, Detach) else self.note_killed
                note(left)
            case Resume() | Console(run=True):
                others = (each.ranks for each in classes if not isinstance(each.record, Running))
                self.state.cancel_run(gathered.request_id, RankSet.union(others))
                self._notify()
            case InsertBreakpoint():
                self._next_breakpoint = max(self._next_breakpoint, _last_made(classes) + 1)
                ranks = RankSet.union(each.ranks for each in classes)
                self._reviver.breakpoints.take(request.command, operation, ranks, classes)
            case _:
                pass
        return left

    async def save(self, path: Path | str) -> Written:
        """Write a recording to a file, which ``pgdb replay`` opens without the job.

        It has what was asked up to now, as far as it has found room (64 MiB), and in full what
        answers have kept back.

        :raises CommandError: if it cannot be written, or something else has that name.
        """
        return await saving.save(self, Path(path))

    async def recall(
        self, answer: Answer, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Ask *ranks* for what they said in an earlier *answer*, in full, with all addresses.

        Ranks whose answer is not kept any longer (each aggregator keeps the last ones) are in
        ``missing.lost``.

        :raises UsageError: for more ranks than can be told one by one.
        """
        ranks = ranks & answer.ranks
        if len(ranks) > MOST_DISTINCT:
            raise UsageError(
                f"{len(ranks)} ranks are too many to be told one by one; "
                f"ask for at most {MOST_DISTINCT} at a time"
            )
        return await self.ask(
            answer.command, Recall(request_id=answer.request_id), ranks, timeout_s=timeout_s
        )

    async def insert_breakpoint(
        self, line: str, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Run a GDB command that makes breakpoints, giving them the next job-wide numbers.

        Ranks that are gone get them once they are had again, which is told where no other has them.
        """
        first = self._next_breakpoint
        # Reserved at once: two commands under way must not get the same number.
        makes_many = gdb_commands.resolve(line) in MAKES_MANY
        end = self._next_breakpoint = first + (_MOST_MADE if makes_many else 1)
        answer = await self.ask(
            line, InsertBreakpoint(command=line, first_number=first), ranks, timeout_s=timeout_s
        )
        made = _last_made(answer.classes)
        is_kept = self._reviver.breakpoints.has(first)
        if not made and is_kept and (gone := answer.missing.lost - self.state.exited):
            them = "it" if len(gone) == 1 else "them"
            self.note(f"[{gone}] breakpoint {first} is set when 'reattach' has got hold of {them}")
        last = made or (first if is_kept else first - 1)
        if not answer.missing.late and self._next_breakpoint == max(end, last + 1):
            self._next_breakpoint = last + 1
        return answer

    async def take_again(self, ranks: RankSet, *, timeout_s: float | None = None) -> Answer:
        """Get hold again of ranks whose debugger is gone or hangs, or that were let go.

        They are stopped then, and have the session's breakpoints again; one that cannot be set
        again is told as a notice. A rank whose debugger answers is left as it is.

        What is not done within *timeout_s* (that of a start by default) goes on, and is told when
        it is done.
        """
        begun_s = time.monotonic()
        with deadline.within(deadline.answers_s(self.options.start_timeout_s, timeout_s)):
            reviving = self._begin(
                self._reviver.revive_aggregators(ranks - self.state.exited, self.table)
            )
            if not await self._ends_in_time(reviving):
                self._begin(self._take_later(reviving, ranks))
                gone = ranks & self.state.exited
                return Answer(
                    command="reattach",
                    ranks=ranks,
                    classes=(),
                    missing=Missing(late=ranks - gone, lost=gone),
                    elapsed_s=time.monotonic() - begun_s,
                )
            answer = await self.ask("reattach", Reattach(), ranks)
            await self._taken_back(answer.request_id, answer.classes)
            answer = _without_ended(answer, answer.missing.lost & self.state.exited)
            well = RankSet.union(
                each.ranks for each in answer.classes if isinstance(each.record, Text)
            )
            if not well.isdisjoint(self.state.lost):
                # Their debuggers answer, and we have missed what came of them.
                self.overlay.root.ask_states()
            return replace(answer, elapsed_s=time.monotonic() - begun_s)

    async def _take_later(self, reviving: asyncio.Task[None], ranks: RankSet) -> None:
        """Get hold of ranks once there are aggregators again, although nobody waits any longer."""
        try:
            await reviving
        except PgdbError as error:
            self.note(f"reattach: {error}")
            return
        await self._take_untold(ranks)

    async def _take_untold(self, ranks: RankSet) -> None:
        """Get hold of ranks, and tell what came of it: nobody waits for that."""
        try:
            answer = await self.take_again(ranks)
        except PgdbError as error:
            self.note(f"reattach: {error}")
            return
        # Where ranks were stopped is told already.
        others = tuple(each for each in answer.classes if not isinstance(each.record, Stop | Exit))
        if others or answer.missing:
            self._notifier.notify(LateAnswer(answer=replace(answer, classes=others)))

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin what goes on whatever becomes of the command that is carried out."""
        with deadline.unlimited():
            task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _ends_in_time(self, task: asyncio.Task[None]) -> bool:
        """Wait for what was begun while the command has time; return whether it is done.

        Given up by the user it goes on: half done, ranks would be out of reach of the next try.
        """
        left_s = deadline.left_s()
        await asyncio.wait([task], timeout=left_s if left_s < math.inf else None)
        if task.done():
            task.result()
        return task.done()

    async def _taken_back(
        self, request_id: int, classes: Sequence[EquivalenceClass[Record]]
    ) -> None:
        """Take where ranks were stopped again, and give them the session's breakpoints."""
        lost = RankSet.union(self.overlay.root.out_of_reach.values())
        if (request := self._requests.get(request_id)) is not None:
            lost |= request.gone_since
        came = _taken(classes, lost)
        back = RankSet.union(each.ranks for each in came if isinstance(each.record, Stop))
        self.state.take_back(back)
        self._events(came)
        if not await self._ends_in_time(self._begin(self._reviver.set_breakpoints(back))):
            self.note(f"[{back}] the session's breakpoints are still being set again")

    async def start_run(self, word: RunWord, argument: str, ranks: RankSet) -> Answer:
        """Set ranks running; return at once, with who runs and who could not.

        :raises UsageError: if there is no location to run to.
        """
        if word == "advance" and not argument.rstrip("& \t"):
            # In the background, GDB 13.1 looks for one where nothing is, and dies.
            raise UsageError("'advance' needs a location: 'advance FILE:LINE', 'advance FUNCTION'")
        line = f"{word} {argument}".strip()
        return await self._start(line, Resume(command=word, argument=argument), ranks, None)

    async def start_console_run(
        self, line: str, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Set ranks running by any GDB command; return at once."""
        return await self._start(line, Console(command=line, run=True), ranks, timeout_s)

    async def _start(
        self, line: str, operation: AnyOperation, ranks: RankSet, timeout_s: float | None
    ) -> Answer:
        number = self.overlay.root.next_id()
        stopped = ranks & self.state.stopped
        self.state.start_run(number, stopped)
        try:
            answer = await self.ask(
                line, operation, stopped, timeout_s=timeout_s, request_id=number
            )
        except Exception:
            # They were not asked. Who was, and is given up, answers yet.
            self.state.cancel_run(number, stopped)
            raise
        started = RankSet.union(
            each.ranks for each in answer.classes if isinstance(each.record, Running)
        )
        # Some may have stopped again before the acknowledgement came; those are left as they are.
        self.state.cancel_run(number, stopped - started - answer.missing.late)
        if still := self.state.runners(number) - self._notifier.hushed:
            going = EquivalenceClass[Event](ranks=still, record=Running(run=number))
            self._notifier.notify(RankEvents(classes=(going,)))
        self._notify()
        return replace(
            answer,
            ranks=ranks,
            missing=answer.missing
            | Missing(running=ranks & self.state.running - stopped, lost=ranks - self.state.live),
        )

    async def finish_run(
        self,
        started: Answer,
        *,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Wait for the ranks that a run command has started; return where they have stopped."""
        running = RankSet.union(
            each.ranks for each in started.classes if isinstance(each.record, Running)
        )
        if not running:
            return started
        stopped = await self.wait_stopped(
            started.command, running, timeout_s=timeout_s, settle_s=settle_s
        )
        others = tuple(each for each in started.classes if not isinstance(each.record, Running))
        return replace(
            started,
            classes=tuple(sorted((*stopped.classes, *others), key=lambda each: each.ranks.first)),
            missing=(started.missing - running) | stopped.missing,
            elapsed_s=started.elapsed_s + stopped.elapsed_s,
        )

    async def wait_stopped(
        self,
        command: str,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Wait until *ranks* have stopped or ended; see :meth:`Ranks.run` for the rules."""
        begun = time.monotonic()
        timeout_s = deadline.stops_s(timeout_s)
        end_s = begun + timeout_s if timeout_s is not None else None
        before = ranks & self.state.running
        quiet_since = None
        while (running := ranks & self.state.running) and not self._is_over:
            now = time.monotonic()
            if running != before:
                before, quiet_since = running, now
            limits = [end_s] if end_s is not None else []
            if settle_s is not None and quiet_since is not None:
                limits.append(quiet_since + settle_s)
            left = min(limits) - now if limits else None
            if left is not None and left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
        merger: Merger[Record] = Merger()
        still = ranks & self.state.running
        for each in self.state.latest(ranks - still - self.state.lost):
            if isinstance(each.record, Stop | Exit):
                merger.add(each.ranks, each.record, each.slots)
        return Answer(
            command=command,
            ranks=ranks,
            classes=merger.classes,
            missing=Missing(running=still, lost=ranks & self.state.lost),
            elapsed_s=time.monotonic() - begun,
        )

    # -- leaving -----------------------------------------------------------------------------

    async def close(self, *, kill: bool | None = None) -> None:
        """End the session: by default kill a job that we launched, and let any other go on.

        Returns when no process of ours is left. A second call does nothing.
        """
        if self._is_over:
            return
        if kill is None:
            kill = self.kills_at_close
        self._late_answers.flush()
        if self.options.record and self._is_started:
            await self._record()
        # What is still held must not run its program for a moment when it is let go.
        if kill and self.job is not None and not self._is_started:
            await self.job.end()
        if self._job_watch is not None and self._is_started and not self.state.live:
            # All ranks have ended by themselves: so will their launcher, with a status of its own.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAUNCHER_END_S):
                    await asyncio.shield(self._job_watch)
            kill = kill and not self.job_has_ended
        # What a launcher says of ranks that we have killed is no news.
        self._notifier.is_quiet = kill
        if kill and self.state.live:
            with contextlib.suppress(LinkError, CommandError):
                await self.ask("kill", Kill(), self.state.live, timeout_s=5.0)
        self._is_over = True
        self._notify()
        # An aggregator that comes back now would be nobody's.
        going_on = [each for each in self._background if each is not asyncio.current_task()]
        for task in going_on:
            task.cancel()
        if going_on:
            await asyncio.wait(going_on, timeout=_LAUNCHER_END_S)
        await self.overlay.close()
        if (delivery := self.overlay.root.delivery) is not None:
            LOG.info("%s", deliveries.report(self.overlay.root.deliveries))
            await delivery.close()
        for closing in self._closing:
            await closing
        if self._job_watch is not None:
            self._job_watch.cancel()
        if self.job is not None:
            if kill:
                await self.job.end_killed()
            if self.job.has_ended:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2.0):
                        await self.job.wait_output_read()
                await self.job.release_keeper()
            else:
                # The job goes on without us; its keeper takes its output from now on.
                self.job.abandon()
                return
        self.directory.remove()

    def _record_soon(self) -> None:
        """Have the recording written that was asked for at the start, as far as it has come."""
        if self._stepwise is not None and self._is_started and not self._is_over:
            self._stepwise.due()

    async def _record(self) -> None:
        """Write the whole recording that was asked for at the start."""
        assert self._stepwise is not None
        try:
            # Ranks are still held: what a hung file system does not take is done without.
            with deadline.within(_RECORD_S):
                async with asyncio.timeout(_RECORD_S):
                    await self._stepwise.close()
                self.note(f"recorded: {(await self.save(self.options.record)).text}")
        except TimeoutError:
            self.note(f"--record: {self.options.record} is not done within {_RECORD_S:g} s")
        except PgdbError as error:
            if self._stepwise.failure != (why := f"--record: {error}"):
                self.note(why)
        except Exception:
            # Whatever it is, the ranks are to be let go.
            LOG.exception("the recording could not be written")

    def note(self, text: str) -> None:
        """Tell the user something about the session itself."""
        with contextlib.suppress(OSError):  # a terminal that is gone is no reason to fail
            self._notifier.notify(SessionNotice(text=text))

    def note_killed(self, ranks: RankSet) -> None:
        """Take that the processes of *ranks* have ended; their own word of it comes later."""
        if ranks:
            self.killed |= ranks
            self._events((EquivalenceClass(ranks=ranks, record=Exit(signal="SIGKILL")),))

    def hushed(self, ranks: RankSet) -> AbstractContextManager[None]:
        """Tell nobody for a while that *ranks* are interrupted and set running again."""
        return self._notifier.hush(ranks)

    def note_detached(self, ranks: RankSet) -> None:
        """Take that *ranks* run free."""
        self.state.detach(ranks)
        self._notify()

    # -- what comes unasked ------------------------------------------------------------------

    def begin(self, ranks: RankSet) -> None:
        """Take the ranks of the session; all count as running until they were stopped."""
        self.state = JobState(ranks)
        self.state.start_run(0, ranks)
        self._notifier.notify_at_once(Starting(hosts=self.hosts))

    def _take_bare(self) -> None:
        """Have aggregators that were cut off before they knew their ranks take hold of them."""
        # Ranks that are held for a launch are nothing that one could attach to.
        is_under_way = self._taking_bare is not None and not self._taking_bare.done()
        can_be = self._is_started and self.mode == "attach" and not self._is_over
        if can_be and not is_under_way and self.overlay.root.bare:
            self._taking_bare = self._begin(self._take_ranks_of_bare())

    async def _take_ranks_of_bare(self) -> None:
        root = self.overlay.root
        tried: set[int] = set()
        while nodes := (root.bare & root.shares.keys()) - tried:
            tried |= nodes
            ranks = RankSet.union(root.shares[node].ranks for node in nodes)
            await self._take_untold(ranks & self.state.lost)

    async def wait_orphans(self, timeout_s: float) -> None:
        """Wait for the first rank that was lost at the start with an aggregator above its own.

        That one looks for another way, and may find none in time.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.orphans_are_back:
                    await self._changed.wait()

    @property
    def orphans_are_back(self) -> bool:
        """Whether there is such a rank, which is stopped, before the session has started."""
        return bool(self.state.stopped) or any(
            isinstance(each.record, Stop)
            for gathered in self._came_early
            for each in gathered.classes
        )

    def started(self, answer: Answer) -> None:
        """Take where the ranks were stopped at the start, and tell what was held back."""
        self.start_answer = answer
        # Some have answered, and were lost while others had not. What others that were lost for a
        # moment have answered came when they were back.
        lost = RankSet.union(self.overlay.root.out_of_reach.values()) | self._gone_early
        for each in answer.classes:
            if not isinstance(each.record, Stop | Exit):
                self.state.lose(each.ranks)
        # Some were cut off, with their answer, and are back.
        self.state.lose(answer.missing.ranks - self.state.stopped)
        self.state.apply(_taken(answer.classes, lost))
        self._notifier.release()
        for gathered in self._came_early:
            self._late(gathered)
        self._came_early.clear()
        self._take_bare()
        self._notify()

    def on_close(self, closing: Coroutine[None, None, None]) -> None:
        """Have something done when the session closes."""
        self._closing.append(closing)

    def start_notifications(self) -> tuple[Notification, ...]:
        """Return where the ranks were stopped at the start, as what would have been told."""
        if classes := self.state.latest(self.set):
            return (RankEvents(classes=classes),)
        return ()

    def watch_job(self) -> None:
        """Begin to watch the job's launcher."""
        self._job_watch = asyncio.create_task(self._watch_job())

    def take_output(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take what the job has printed."""
        text = data.decode("utf-8", "replace")
        self._notifier.notify(JobOutput(text=text, stream=stream, data=data))

    async def _watch_job(self) -> None:
        assert self.job is not None
        code = await self.job.process.wait()
        await self.job.wait_output_read()
        # The launcher has seen its ranks end; that word of the ranks themselves comes first.
        with contextlib.suppress(SessionEndedError):
            await self.wait_stopped("", self.state.running, timeout_s=_LAST_WORDS_S)
        self._notifier.notify(JobEnded(code=code))
        self._notify()

    def _events(self, classes: tuple[EquivalenceClass[Event], ...]) -> None:
        lost_before = self.state.lost
        if gone := RankSet.union(e.ranks for e in classes if isinstance(e.record, Gone)):
            self._take_gone(gone)
        self._reviver.breakpoints.hit(classes)
        news = self._notifier.audible(self.state.apply(classes))
        if back := lost_before - self.state.lost:
            self._notifier.notify(
                RanksBack(ranks=back, text="their aggregator can be reached again")
            )
        if not news:
            self._notify()
            return
        if self._is_started:
            self._record_soon()
            self._notifier.notify(RankEvents(classes=news))
            if self.options.stop_on_error:
                self._stop_others(news)
        else:
            self._notifier.notify_at_once(RankEvents(classes=news))
        self._notify()

    def _take_gone(self, ranks: RankSet) -> None:
        """Take that GDBs have died, maybe of ranks that others are waited with to be taken hold of.

        Of one that had a debugger then nobody knows which of the two it was.
        """
        if not self._is_started:
            self._gone_early |= ranks & self.set
        for request in self._requests.values():
            if isinstance(request.operation, Reattach):
                request.gone_since |= ranks & request.were_gone

    def _stop_others(self, news: Sequence[EquivalenceClass[Event]]) -> None:
        """Interrupt the rest of a run in which a rank got a fatal signal.

        The others would wait for it for ever.
        """
        for each in news:
            event = each.record
            if isinstance(event, Stop) and event.signal in FATAL_SIGNALS:
                others = self.state.runners(event.run)
                if others:
                    self._begin(self.ask("interrupt", Interrupt(), others))

    def _aggregators_come(self, got: int, wanted: int) -> None:
        if not self._is_started:
            self._notifier.notify_at_once(Starting(text=f"aggregators {got}/{wanted}"))

    def _delivered(self) -> None:
        if not self._is_started:
            text = deliveries.progress(self.overlay.root.deliveries)
            self._notifier.notify_at_once(Starting(text=text))

    def _late(self, gathered: Gathered) -> None:
        if not self._is_started:
            # What ranks were lost at the start comes first.
            self._came_early.append(gathered)
            self._notify()
            return
        if self._is_over:
            return
        number, classes = gathered.request_id, gathered.classes
        taken = tuple(each for each in classes if isinstance(each.record, Stop | Exit))
        if taken:
            # They are answers to who gets hold of ranks: those can be asked from now on.
            self._begin(self._taken_back(number, taken))
        command, left = "", RankSet()
        if (request := self._requests.get(number)) is not None:
            command = request.command
            if not gathered.is_late:
                # It was given up before they could answer.
                self._answered(request, gathered)
            left = self._follow(request, gathered)
            if left and isinstance(request.operation, Detach):
                self.note("\n".join(lines_of_detached(classes)))
        others = tuple(
            part
            for each in classes
            if each not in taken and (part := each.part(each.ranks - left)).ranks
        )
        if others:
            self._late_answers.add(number, command, others)

    def _tell_late(self, answer: Answer) -> None:
        self.recorder.take_late(answer)
        self._record_soon()
        self._notifier.notify(LateAnswer(answer=answer))

    def _lost(self, lost: Lost) -> None:
        if self._is_over:
            return  # they leave, as they were told to
        root = self.overlay.root
        for ranks, text in losses.describe(
            lost,
            self.state.lose(lost.ranks),
            topology=root.topology,
            shares=root.shares,
            known=root.known,
        ):
            self._notifier.notify(RanksLost(ranks=ranks, text=text))
        self._notify()

    def _noticed(self, notice: Notice) -> None:
        where = f" (on {', '.join(notice.hosts)})" if len(self.table.hosts) > 1 else ""
        self._notifier.notify(SessionNotice(text=f"{notice.text}{where}"))

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def lines_of_detached(classes: Sequence[EquivalenceClass[Record]]) -> list[str]:
    """Return what became of ranks that were let go, a line for each class."""
    return [
        f"[{each.ranks}] detached; "
        + (each.filled.text if isinstance(each.filled, Text) else "they run on")
        for each in classes
        if not each.is_error
    ]


def _taken(classes: Sequence[EquivalenceClass[Record]], lost: RankSet) -> Events:
    """Return how ranks were taken hold of; a stop of one that was *lost* since is over."""
    came: list[EquivalenceClass[Event]] = []
    for each in classes:
        if isinstance(each.record, Stop):
            came.append(EquivalenceClass(each.ranks - lost, each.record, each.slots))
        elif isinstance(each.record, Exit):
            came.append(EquivalenceClass(each.ranks, each.record, each.slots))
    return tuple(came)


def _last_made(classes: Sequence[EquivalenceClass[Record]]) -> int:
    """Return the last number of breakpoints that were made, 0 for none."""
    made = [each.record for each in classes if isinstance(each.record, BreakpointsMade)]
    return max((each.number for record in made for each in record.breakpoints), default=0)


def _without_ended(answer: Answer, ended: RankSet) -> Answer:
    """Return an answer of who was to be had again, with those as errors that cannot be."""
    if not ended:
        return answer
    over = EquivalenceClass[Record](ended, Failure(message="The program has ended on this rank."))
    classes = (*answer.classes, over)
    return replace(
        answer,
        classes=tuple(sorted(classes, key=lambda each: each.ranks.first)),
        missing=answer.missing - ended,
    )
