"""The session: all that a user can do with one job, as coroutines that return answers.

The REPL, batch mode and the Python API use it; there is one way to do each thing. Its parts have
modules of their own: :mod:`~pgdb.frontend.api.traffic` (requests, answers, events),
:mod:`~pgdb.frontend.api.run_control`, :mod:`~pgdb.frontend.api.recovery`,
:mod:`~pgdb.frontend.api.opening` and :mod:`~pgdb.frontend.api.closing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import breakpoint_file, killed_together
from pgdb.frontend.api.absentees import Barrier
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.api.barriers import Barriers
from pgdb.frontend.api.breakpoint_making import BreakpointMaker
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers
from pgdb.frontend.api.chronicle import Chronicle
from pgdb.frontend.api.closing import Ending, Files, Job
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.hold_time import HoldTime
from pgdb.frontend.api.holding import Holding
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.launcher_hold import LauncherHold
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.frontend.api.notifications import (
    Events,
    HidesStop,
    Listener,
    Notification,
    was_interrupted,
)
from pgdb.frontend.api.opening import Opening, hosts_of
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.rank_index import ranks_at
from pgdb.frontend.api.rank_view import RankView
from pgdb.frontend.api.recovery import Recovery
from pgdb.frontend.api.run_control import RunControl
from pgdb.frontend.api.traces import Trace, Traces
from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.api.worlds import Worlds
from pgdb.frontend.store import saving
from pgdb.frontend.store.log import SessionLog
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.store.saving import Written
from pgdb.frontend.store.script_log import ScriptLog
from pgdb.frontend.transport.transport import Transport
from pgdb.merge.classes import MOST_DISTINCT
from pgdb.overlay.messages import Console, Delivered, Recall
from pgdb.proctable import ProcTable, SessionMode, World
from pgdb.ranks import RankSet
from pgdb.report_switch import switch, switch_line

CATCH_DEATH = "catch death"
"""The command that stops ranks before they die."""


@checks_arguments
class Session(RankView):
    """A running session; made by :func:`pgdb.frontend.startup.start.attach` and ``launch``."""

    mode: SessionMode
    """The way in which the session was started."""
    transport: Transport
    """The source of the answers."""
    description: str
    """The job in words: launcher, or the command it was started with."""
    mpi_version: str
    """Name and version of the job's MPI."""
    gdb_version: str
    """Version of the GDB on the ranks."""
    argv: tuple[str, ...]
    """The launcher's line, as PGDB was given it; empty for an attached job."""
    all_worlds: Worlds
    """The worlds of the session, and those that can join."""
    core_files: dict[int, str]
    """The core file of each rank; empty for a job."""
    sets: NamedSets
    """Named sets that programs define, for ``@name``: a dictionary of RankSets. A text that is
    assigned is read at once."""
    earlier_requests: int
    """Number of the last request to ranks of an earlier launch; 0 without one."""

    def __init__(
        self,
        mode: SessionMode,
        options: SessionOptions,
        transport: Transport,
        files: Files | None = None,
    ) -> None:
        super().__init__(self, RankSet())
        self.mode = mode
        self.transport = transport
        self.description = ""
        self.mpi_version = ""
        self.gdb_version = ""
        self.argv = ()
        self.sets = NamedSets(self.parse_ranks, self._check_ranks)
        self.core_files = {}
        self.earlier_requests = 0
        self._core = Core(self, options, transport)
        self.chronicle = Chronicle()
        """The last events of the session, for its report."""
        self._core.notifier.subscribe(self.chronicle.on_notification)
        self._core.can_restart = mode == "launch" and not transport.is_recorded
        self.breakpoint_numbers = BreakpointNumbers()
        self.traffic = Traffic(self._core, self.breakpoint_numbers)
        self.note = self._core.note
        self.settings = self._core.settings
        self.passing = self._core.passing
        self.runs = RunControl(self._core, self.traffic)
        self.traffic.hit_commands.start = self.runs.start_line
        self.holding = Holding(self._core)
        self.all_barriers = Barriers(self._core, self)
        self.traffic.hit_commands.barriers = lambda: [each.number for each in self.all_barriers.all]
        self.launcher_hold = LauncherHold(self._core, lambda: self.job)
        self._core.before_wake = self._on_change
        self.traffic.on_news = self._on_news
        self.stop_modes = self.traffic.stop_modes
        self.stop_modes.parse = self.parse_ranks
        self.interfaces = self.stop_modes.interfaces
        self.recovery = Recovery(self._core, self.traffic, mode)
        self.ask = self.recovery.ask
        self.insert_breakpoint = BreakpointMaker(
            self._core, self.recovery, self.breakpoint_numbers, self.stop_modes
        ).insert
        self.all_worlds = Worlds(self._core, self.recovery, lambda: self.sets)
        self.hold_time = HoldTime(self._core, lambda ranks: self.ranks(ranks).detach())
        """The time for which ranks are stopped, and its limit."""
        self.opening = Opening(self._core, self.traffic, self.recovery)
        self.ending = Ending(self._core, self.traffic, self.runs, save=self.save)
        self.ending.files = files
        transport.subscribe(self.traffic)

    # -- facts -------------------------------------------------------------------------------

    @property
    def is_recorded(self) -> bool:
        """Whether a recording answers, and there is no job."""
        return self.transport.is_recorded

    @property
    def options(self) -> SessionOptions:
        """The options of the session."""
        return self._core.options

    @options.setter
    def options(self, options: SessionOptions) -> None:
        self._core.options = options
        self._core.wake()

    @property
    def set(self) -> RankSet:
        """All ranks of the session."""
        return self._core.state.ranks

    @property
    def state(self) -> JobState:
        """The ranks by their state: stopped, running, ended, lost, detached."""
        return self._core.state

    @property
    def table(self) -> ProcTable:
        """The process and the host of each rank."""
        return self._core.table

    @table.setter
    def table(self, table: ProcTable) -> None:
        self._core.table = table

    @property
    def recorder(self) -> Recorder:
        """The requests and answers that :meth:`save` writes."""
        return self._core.recorder

    @property
    def log(self) -> SessionLog | None:
        """The log of ``--log``."""
        return self._core.log

    @log.setter
    def log(self, log: SessionLog) -> None:
        self._core.log = log

    @property
    def script_log(self) -> ScriptLog | None:
        """The program of ``--script-log``."""
        return self._core.script

    @script_log.setter
    def script_log(self, script: ScriptLog | None) -> None:
        self._core.script = script

    def one_call(self, line: str) -> AbstractContextManager[None]:
        """Note *line* in the program of ``--script-log``; requests within the context belong to
        it."""
        script = self._core.script
        return nullcontext() if script is None else script.call(line, self.state.running)

    @property
    def job(self) -> Job | None:
        """The job's launcher, when PGDB has started it."""
        return self.ending.job

    @property
    def start_answer(self) -> Answer | None:
        """The places where the ranks were stopped when the session started."""
        return self.opening.answer

    @property
    def killed(self) -> RankSet:
        """Ranks that the user has killed, whose end is no failure."""
        return self.state.killed

    @property
    def asked(self) -> RankSet:
        """Ranks with a request in flight."""
        return self.traffic.asked

    @property
    def kills_at_close(self) -> bool:
        """Whether :meth:`close` kills the job by default."""
        can_be = self._core.can_restart and not self.has_ended
        return can_be and not self.state.detached and not self.job_has_ended

    @property
    def job_has_ended(self) -> bool:
        """Whether the launcher that PGDB has started has ended."""
        return self.ending.job_has_ended

    @property
    def all_have_ended(self) -> bool:
        """Whether all ranks have ended."""
        return self.set <= self.state.exited

    @property
    def leftover_output(self) -> Path | None:
        """The file for the output of a launched job that outlives the session, else None."""
        job, files = self.ending.job, self.ending.files
        if self.has_ended and job is not None and files is not None and not job.has_ended:
            return files.leftover_output
        return None

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces, which collect values and let ranks run on."""
        return tuple(self._core.traces)

    @property
    def all_traces(self) -> Traces:
        """The traces by number."""
        return self._core.traces

    @property
    def last_breakpoint(self) -> int:
        """Number of the breakpoint that was made last, 0 before the first."""
        return self.breakpoint_numbers.last

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        """Return whether ranks have breakpoints that the user has set, or the one of a *number*."""
        journal = self._core.journal
        return bool(journal.ranks_of(number) & ranks if number else journal.of(ranks))

    @property
    def breakpoints_text(self) -> str:
        """The breakpoints of all ranks in the format of GDB's ``save breakpoints``; empty without
        any."""
        return breakpoint_file.text_of(self._core.journal.of(self.set), self.set, self.stop_modes)

    @property
    def hosts(self) -> dict[str, RankSet]:
        """The ranks of each host."""
        return hosts_of(self.table)

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files, the front end first; empty without
        ``sbd``."""
        return self.transport.deliveries

    @property
    def aggregators(self) -> int:
        """Number of aggregators that are in the tree."""
        return self.transport.aggregators

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""
        return self._core.is_over

    # -- ranks -------------------------------------------------------------------------------

    def ranks(self, which: str | RankSet) -> RankView:
        """Return the view on some ranks, given as a set or as text.

        :raises RankSetError: if the text is malformed, or names ranks the job does not have.
        """
        ranks = self.parse_ranks(which) if isinstance(which, str) else which
        return RankView(self, self._check_ranks(ranks))

    def __getitem__(self, which: int | slice) -> RankView:
        """Return the view on one rank, or on those of a slice: ``session[0:4]``.

        :raises UsageError: if it is neither a whole number nor a slice.
        :raises RankSetError: if the job does not have the rank.
        """
        return RankView(self, self._check_ranks(ranks_at(which, self.set)))

    def parse_ranks(self, text: str) -> RankSet:
        """Read a rank set: ``0-3,8``, ``all``, ``@name``, with the algebra of :class:`RankSet`.

        :raises RankSetError: if it is malformed, empty, or names ranks the job does not have.
        """
        text = self.numbered_on(text)
        ranks = RankSet.parse(text, everything=self.set, named=self.named_set)
        return self._check_ranks(ranks)

    def numbered_on(self, text: str) -> str:
        """Return a rank set with the session's numbers for ``1.0-3``, ranks 0 to 3 of world 1.

        :raises RankSetError: if a world of the session does not have these ranks.
        """
        return self.all_worlds.numbered_on(text)

    @property
    def worlds(self) -> dict[int, RankSet]:
        """The ranks of each world by its number, in a session of several worlds; else empty."""
        return self.all_worlds.ranks

    async def further_worlds(self) -> tuple[World, ...]:
        """Return the worlds of MPI_Comm_spawn that are not in the session.

        :raises UsageError: if PGDB does not know the job's launcher.
        """
        return await self.all_worlds.look()

    async def add_worlds(
        self, which: int | Literal["all"] = "all", *, job: int | str = ""
    ) -> Answer:
        """Attach to the ranks of a further world, or of all; return where they have stopped.

        They are numbered on behind the ranks of the session, and get its breakpoints, settings and
        displays. *job* is another job instead, named as for :func:`attach`, such as one that has
        connected by MPI_Comm_connect. The session never kills its ranks at the end.

        :raises UsageError: if there is no such world, or it is in the session.
        :raises CommandError: if PGDB can attach to none of its ranks.
        """
        worlds = self.all_worlds
        return await (worlds.add_job(str(job)) if job else worlds.add(str(which)))

    @property
    def held_for(self) -> Mapping[str, RankSet]:
        """The held ranks by the reason: ``hold`` for those of :meth:`hold`."""
        return self.holding.held_for

    def named_set(self, name: str) -> RankSet | None:
        """Return a named set: one of :attr:`sets`, or an automatic one.

        Automatic are ``running``, ``stopped``, ``exited``, ``lost``, ``held``, ``error``, ``bp1`` …

        :raises RankSetError: for ``world1``, if the session does not have world 1.
        """
        if name in self.sets:
            return self.sets[name]
        return self.all_worlds.named(name) or self.state.named(name)

    def _check_ranks(self, ranks: RankSet) -> RankSet:
        if unknown := ranks - self.set:
            raise RankSetError(f"no rank {unknown}; the job has {self.set}")
        return ranks

    # -- requests ----------------------------------------------------------------------------

    async def recall(
        self, answer: Answer, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Ask *ranks* for their part of an earlier *answer* in full, with all addresses.

        Ranks whose answer is not kept any longer (each aggregator keeps the last ones) are in
        ``missing.lost``.

        :raises UsageError: for more ranks than can be shown one by one.
        """
        ranks = ranks & answer.ranks
        if len(ranks) > MOST_DISTINCT:
            raise UsageError(
                f"{len(ranks)} ranks are too many to be shown one by one; "
                f"ask for at most {MOST_DISTINCT} at a time"
            )
        return await self.ask(
            answer.command,
            Recall(request_id=answer.request_id),
            ranks,
            timeout_s=timeout_s,
            of_ended=True,
        )

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """The barriers by number, without those that are deleted."""
        return self.all_barriers.all

    async def wait_barrier(
        self, number: int, *, met: int = 1, timeout_s: float | None = None
    ) -> Barrier:
        """Wait until a barrier was met *met* times in all, and return it.

        It also returns after *timeout_s*, when the barrier is deleted, and when no rank that could
        come runs, or all that run seem to wait for held ranks, be they held at the barrier or by
        :meth:`RankView.hold`; its ``absent`` says so.

        :raises UsageError: if there was no such barrier.
        """
        return await self.all_barriers.wait(number, met=met, timeout_s=timeout_s)

    async def set_stop_on_report(self, is_on: bool) -> Answer:
        """Make the reports of sanitizers stop ranks, or not."""
        return await self.ask(switch_line(is_on), Console(command=switch(is_on)), self.set)

    async def set_stop_before_death(self, is_on: bool) -> Answer | None:
        """Make or delete the breakpoint of ``catch death`` on all ranks; None if that is done."""
        number = self._core.journal.number_of(CATCH_DEATH)
        if is_on and not number:
            return await self.insert_breakpoint(CATCH_DEATH, self.set)
        if number and not is_on:
            return await self.change_breakpoints("delete", [str(number)])
        return None

    async def save(self, path: Path | str) -> Written:
        """Write a recording to a file, which :func:`pgdb.replay` and ``pgdb replay`` open without
        the job.

        It has the requests and answers of the session, as far as there was room (64 MiB), and in
        full what answers have kept back.

        :raises CommandError: if it cannot be written, or something else has that name.
        """
        return await saving.save(self, Path(path))

    # -- notifications, and the end ----------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* with each notification; return the function that ends this."""
        return self._core.notifier.subscribe(listener)

    def notify_listeners(self, notification: Notification) -> None:
        """Call the listeners with a notification of the next launch of the job."""
        self._core.notifier.notify_at_once(notification)

    def hushed(
        self, ranks: RankSet, hides: HidesStop = was_interrupted
    ) -> AbstractContextManager[None]:
        """Do not report continuations of *ranks*, and stops that *hides* is true of (interrupts),
        within the context."""
        return self._core.notifier.hush(ranks, hides)

    def check_restart(self) -> None:
        """Check that PGDB can launch the job again.

        :raises UsageError: if PGDB did not launch it.
        :raises CommandError: if ranks of it were detached and run on.
        """
        if self.is_recorded:
            raise UsageError("this is a recording; there is no job to launch again")
        if self.mode == "core":
            raise UsageError(
                "the ranks are core files; there is no job to launch again; 'pgdb launch LINE' "
                "starts one"
            )
        if self.mode == "attach":
            raise UsageError(
                "PGDB attached to this job and does not know how it was started; leave and use "
                "'pgdb launch LINE', or start it and use 'pgdb attach'; 'save breakpoints FILE' "
                "keeps the breakpoints for it"
            )
        if self.state.detached and not self.job_has_ended:
            raise CommandError(
                f"ranks [{self.state.detached}] were detached and run on; 'reattach' attaches to "
                "them again, and they can be killed then"
            )

    async def take_over(self, before: Session) -> None:
        """Give this job the sets, GDB settings, displays and breakpoints of an earlier launch.

        Breakpoints keep their numbers. Notices name those that cannot be set.
        """
        # The ranks of MPI_Comm_spawn have ended with their job.
        gone = {f"world{number}" for number in before.worlds}
        self.sets.take_over({name: each for name, each in before.sets.items() if name not in gone})
        self.breakpoint_numbers.next = before.breakpoint_numbers.next
        self.all_traces.take_over(before.all_traces, before.set, self.set)
        self.stop_modes.take_over(before.stop_modes)
        await self.recovery.take_over(before._core.journal, before._core.settings, before.set)
        self.all_barriers.take_over(before.all_barriers)

    def _on_news(self, news: Events) -> None:
        self.all_barriers.on_events(news)
        self.launcher_hold.on_events(news)
        killed_together.report(self._core, news)

    def _on_change(self) -> None:
        self.all_barriers.on_change()
        self.launcher_hold.on_change()

    async def close(self, *, kill: bool | None = None) -> None:
        """End the session: by default kill a job that PGDB launched, and let any other run on.

        Returns when no process of ours is left. A second call does nothing.
        """
        if self.has_ended:
            return
        if self._core.script is not None:
            self._core.script.close(self.state.running)
            self._core.script = None
        await self.ending.close(
            kill=not self.is_recorded and (self.kills_at_close if kill is None else kill)
        )
