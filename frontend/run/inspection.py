"""Looks at a running job by a session that attaches to it for a moment and lets it run on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pgdb.cores.search import LeftBy
from pgdb.errors import StartError
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.words import LOOPS, named, place, verb
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import Report
from pgdb.frontend.run import progress
from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.progress import Sample
from pgdb.frontend.run.rank_reports import RankStart
from pgdb.frontend.startup.open_cores import open_cores, open_left_cores
from pgdb.frontend.startup.start import attach
from pgdb.frontend.system.shielding import to_its_end
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Launcher
from pgdb.jobs.thread_states import LOST_FIRST_THREAD, has_lost_first_thread
from pgdb.mpi_calls import MpiCallStatus
from pgdb.overlay.operations import SelectMpiCaller, TakeSample
from pgdb.rank_sample import RankSample
from pgdb.ranks import RankSet
from pgdb.records import Stack, Stop, is_error

SAMPLES = 3
"""Number of samples in which ranks must be the same to count as hanging."""
MOST_SAMPLED = 512
"""Most ranks that are sampled for progress; the answers of all ranks differ."""

_POLL_S = 0.5
_NOBODY = RankSet()
_MORE_SAMPLES = 6
"""Further samples, in which a loop that polls is seen inside a call."""
_SHORT_S = 0.1
"""Time between them."""
_MOST_PLACES = 4
_FIRST_THREAD = "1"
"""GDB's number of the first thread of a rank."""


class Running:
    """The time between two samples, in which the ranks run."""

    def __init__(self, seconds: float, is_over: Callable[[], bool]) -> None:
        self.seconds = seconds
        self.is_over = is_over
        """Whether there is progress of another kind, so that no more samples are needed."""
        self.total_s = 0.0
        """The time for which the ranks have run in all."""

    async def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until the next sample, or until it *is_enough* or over."""
        begun_s = time.monotonic()
        until_s = begun_s + self.seconds
        while (left_s := until_s - time.monotonic()) > 0 and not (self.is_over() or is_enough()):
            await asyncio.sleep(min(left_s, _POLL_S))
        self.total_s += time.monotonic() - begun_s


class Looker:
    """Opener of sessions on one job, one at a time."""

    def __init__(
        self,
        options: RunOptions,
        launcher_pid: int,
        living: Callable[[], Sequence[RankStart]],
        ends: Callable[[], Sequence[RankEnd]],
    ) -> None:
        self._options = options
        self._launcher_pid = launcher_pid
        self._living = living
        self._ends = ends
        self._alone = asyncio.Lock()
        self.held_s = 0.0
        """Longest time for which the last look can have held a rank."""
        self.stopped = RankSet()
        """The ranks of this host that a signal had stopped before the last look for progress."""
        self.loops = ""
        """The ranks in loops that they cannot end themselves, at the last look for progress."""

    async def report(self) -> Report:
        """Return a report of the ranks that live, which run on.

        :raises PgdbError: if no debugger can attach to them.
        """
        async with self._limit(), self._session() as session:
            return await collect(session, mode="run", elsewhere=self._elsewhere())

    async def look_for_progress(
        self, gap: Running, on_progress: Callable[[RankSet, str], None]
    ) -> Report | None:
        """Take samples with a gap between them; return a report if no rank has made progress.

        Otherwise call *on_progress* with the ranks that have, and with words for what they do, if
        all that is known is that they compute.

        :raises PgdbError: if no debugger can attach to the ranks.
        """
        self.held_s = 0.0
        self.stopped = self._stopped_by_signals()
        async with self._limit(gap.seconds * SAMPLES), self._session() as session:
            try:
                moved = await look_for_progress(session, gap, self.stopped)
                self.loops = moved.loops
                if moved.ranks:
                    on_progress(moved.ranks, moved.work)
                    return None
                elsewhere = self._elsewhere()
                return await collect(session, mode="run", watches=True, elsewhere=elsewhere)
            finally:
                self.held_s -= gap.total_s

    def _elsewhere(self) -> tuple[Elsewhere, ...]:
        """Return the ranks that have ended, and those without a first thread."""
        gone = [Elsewhere(RankSet([each.rank]), each.in_words, "ended") for each in self._ends()]
        known = {rank for each in gone for rank in each.ranks}
        for each in self._here():
            if each.rank not in known and has_lost_first_thread(each.pid):
                gone.append(Elsewhere(RankSet([each.rank]), LOST_FIRST_THREAD, "ended"))
        return tuple(gone)

    def _here(self) -> list[RankStart]:
        """Return the ranks of the job, and of no job that it has spawned, on this host."""
        here = socket.gethostname()
        return [each for each in self._living() if each.host == here and not each.world]

    def _stopped_by_signals(self) -> RankSet:
        return RankSet(
            each.rank
            for each in self._here()
            if (status := procfs.read_stat(each.pid)) is not None and status.state == "T"
        )

    @contextlib.asynccontextmanager
    async def _limit(self, more_s: float = 0.0) -> AsyncIterator[None]:
        try:
            async with self._alone, asyncio.timeout(self._options.look_s + more_s):
                yield
        except TimeoutError:
            raise StartError(
                f"the look at the ranks took longer than {self._options.look_s:g} s"
            ) from None

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        living = self._living()
        if not living and self._options.watch:
            raise StartError("no rank is running")
        options = self._options.session
        held_from_s = time.monotonic()

        def on_step(step: str) -> None:
            # Debuggers attach to the ranks after the last step.
            nonlocal held_from_s
            held_from_s = time.monotonic()

        here = socket.gethostname()
        if living and all(each.host == here for each in living):
            if (wanted := options.ranks) is not None:
                living = [each for each in living if each.rank in wanted]
            pids = [
                str(each.pid)
                for each in living
                if os.path.exists(f"/proc/{each.pid}") and not has_lost_first_thread(each.pid)
            ]
            if not pids:
                raise StartError("no rank is running")
            starting = attach("", replace(options, ranks=None), pids=pids, on_step=on_step)
        else:
            # The processes of ended ranks are their watchers.
            if gone := RankSet(each.rank for each in self._ends()):
                everyone = gone | RankSet(each.rank for each in living)
                wanted = everyone if options.ranks is None else options.ranks
                options = replace(options, ranks=wanted - gone)
            starting = attach(self._launcher_pid, options, on_step=on_step)
        try:
            session = await starting
            try:
                yield session
            finally:
                await to_its_end(session.close(kill=False))
        finally:
            self.held_s += time.monotonic() - held_from_s


async def report_of_cores(paths: Sequence[str], options: RunOptions) -> Report:
    """Return a report of the core files that ranks of the job have left.

    :raises PgdbError: if GDB can read none of them.
    """
    opening = open_cores(paths, replace(options.session, ranks=None))
    report, _ = await _report_of(opening, options)
    return report


async def report_of_left_cores(
    hosts: Sequence[str], launcher: Launcher | None, left_by: LeftBy, options: RunOptions
) -> tuple[Report, tuple[str, ...]]:
    """Return a report of the core files that processes have left on several hosts, and the names
    of the files with their hosts.

    :raises PgdbError: if GDB can read none of them.
    """
    session_options = replace(options.session, ranks=None)
    opening = open_left_cores(hosts, launcher, options.line, left_by, session_options)
    return await _report_of(opening, options)


async def _report_of(
    opening: Coroutine[Any, Any, Session], options: RunOptions
) -> tuple[Report, tuple[str, ...]]:
    try:
        async with asyncio.timeout(options.look_s):
            session = await opening
            try:
                files = session.core_files
                places = [
                    f"{each.host}:{files[each.rank]}"
                    for each in session.table.processes
                    if each.rank in files
                ]
                return await collect(session, mode="core"), tuple(places)
            finally:
                await to_its_end(session.close(kill=False))
    except TimeoutError:
        raise StartError(f"reading core files took longer than {options.look_s:g} s") from None


class Moved(NamedTuple):
    """The ranks that make progress."""

    ranks: RankSet = _NOBODY
    work: str = ""
    """The places where they compute, if it is unknown whether they progress; else empty."""
    loops: str = ""
    """The ranks in loops that they cannot end themselves, where they seem to compute."""


async def look_for_progress(session: Session, gap: Running, held: RankSet = _NOBODY) -> Moved:
    """Return the ranks that make progress between samples; all are stopped before and after.

    A signal has stopped the ranks of *held*, which a run command would let go on.
    """
    free = session.set - held
    if not free:
        return Moved()
    if not stopped_by_themselves(session).isdisjoint(free):
        return Moved(session.set)
    samples = [await _sample(session)]
    for _ in range(SAMPLES - 1):
        samples.append(await _later_sample(session, free, gap.wait))
        if gap.is_over() or not stopped_by_themselves(session).isdisjoint(free):
            return Moved(session.set)
        if moved := progress.moving(*samples[-2:]):
            return Moved(moved)
    at_work = Moved()
    if progress.may_compute(samples):
        for _ in range(_MORE_SAMPLES):
            samples.append(await _later_sample(session, free, lambda: asyncio.sleep(_SHORT_S)))
            if not stopped_by_themselves(session).isdisjoint(free):
                return Moved(session.set)
        at_work = await _at_work(session, progress.computing(samples))
        if at_work.ranks:
            return at_work
    return Moved(await _leaving_mpi(session, free, gap), loops=at_work.loops)


def stopped_by_themselves(session: Session) -> RankSet:
    """Return the ranks that an error or a breakpoint has stopped, and not PGDB.

    A rank that runs on from an error dies of it.
    """
    return RankSet.union(
        each.ranks
        for each in session.state.latest(session.state.stopped)
        if isinstance(each.record, Stop) and (is_error(each.record) or each.record.breakpoint)
    )


async def _at_work(session: Session, computing: Mapping[int, frozenset[str]]) -> Moved:
    """Return the ranks that may progress, of those whose threads change data of their own.

    A loop that only another thread or process can end is no work, if no other thread changes
    anything.
    """
    if not computing:
        return Moved()
    ranks = RankSet(computing)
    answer = await session.ranks(ranks).mpi_calls(loops=True)
    alone = RankSet(rank for rank, threads in computing.items() if threads == {_FIRST_THREAD})
    statuses = [
        (each.ranks, each.record)
        for each in answer.classes
        if isinstance(each.record, MpiCallStatus)
    ]
    looping = []
    for part, status in statuses:
        if status.loop and (those := part & alone):
            ranks = ranks - those
            at = place(status.where)
            text = f"{named(those)} {verb(those, 'is')} {LOOPS[status.loop]}"
            looping.append(f"{text}, in {at}" if at else text)
    places = [
        f"[{part & ranks}] {place(status.where)}"
        for part, status in statuses
        if not part.isdisjoint(ranks) and place(status.where)
    ]
    return Moved(ranks, _listed(places), _listed(looping))


def _listed(texts: Sequence[str]) -> str:
    return ", ".join([*texts[:_MOST_PLACES], *(["…"] if len(texts) > _MOST_PLACES else [])])


async def _later_sample(
    session: Session, free: RankSet, wait: Callable[[], Awaitable[None]]
) -> Sample:
    ranks = session.ranks(free)
    with session.hushed(ranks.set):
        await ranks.continue_(wait=False)
        await wait()
        await ranks.interrupt()
    return await _sample(session)


async def _leaving_mpi(session: Session, free: RankSet, gap: Running) -> RankSet:
    """Return ranks that return from a blocking MPI call before the next sample.

    A loop of such calls without a counter looks the same in each sample. A temporary breakpoint at
    the call's return shows it.
    """
    stacks = await session.ranks(session.state.stopped & free).backtrace()
    inside = progress.in_blocking_calls(
        (each.ranks, each.record) for each in stacks.classes if isinstance(each.record, Stack)
    )
    if not inside:
        return RankSet()
    ranks, everyone = session.ranks(inside), session.ranks(free)
    with session.hushed(everyone.set):
        await session.ask("progress", SelectMpiCaller(), inside, is_own=True)
        set_there = await ranks.execute("tbreak *$pc")
        if set_there.errors:
            return RankSet()
        try:
            await everyone.continue_(wait=False)
            await gap.wait(lambda: bool(inside & session.state.stopped))
            moved = inside & session.state.stopped
            await everyone.interrupt()
        finally:
            await to_its_end(ranks.delete(session.last_breakpoint))
    return moved | (everyone.set if gap.is_over() else RankSet())


async def _sample(session: Session) -> Sample:
    """Return a sample of the ranks that are stopped."""
    ranks = spread(session.state.stopped, MOST_SAMPLED)
    answer = await session.ask("progress", TakeSample(), ranks, is_own=True)
    samples = {
        rank: each.record
        for each in answer.classes
        if isinstance(each.record, RankSample) and each.record.stacks
        for rank in each.ranks
    }
    return Sample(samples, ranks)


def spread(ranks: RankSet, most: int) -> RankSet:
    """Return at most *most* of some ranks, from all parts of the set.

    >>> spread(RankSet.parse("0-99"), 4)
    RankSet('0-75/25')
    """
    if len(ranks) <= most:
        return ranks
    listed = list(ranks)
    return RankSet(listed[number * len(listed) // most] for number in range(most))
