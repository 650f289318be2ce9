"""Looks at a running job by a session that attaches to it for a moment and lets it run on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import msgspec

from pgdb.errors import StartError
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import Report
from pgdb.frontend.run import progress
from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.progress import Sample
from pgdb.frontend.run.rank_reports import RankStart
from pgdb.frontend.startup.open_cores import open_cores
from pgdb.frontend.startup.start import attach
from pgdb.frontend.system.shielding import to_its_end
from pgdb.ranks import RankSet
from pgdb.records import Stack, Text

SAMPLES = 3
"""Number of samples in which ranks must be the same to count as hanging."""
MOST_SAMPLED = 512
"""Most ranks that are sampled for progress; the answers of all ranks differ."""


class Seen(msgspec.Struct, frozen=True):
    """The result of a look for progress."""

    moved: RankSet
    """Ranks that have made progress."""
    report: Report | None = None
    """The state of the job, if no rank has."""


class Looker:
    """Makes sessions on one job, one at a time."""

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

    async def report(self) -> Report:
        """Return a report of the ranks that live, which run on.

        :raises PgdbError: if no debugger can attach to them.
        """
        async with self._limit(), self._session() as session:
            gone = tuple(
                Elsewhere(RankSet([each.rank]), each.in_words, "ended") for each in self._ends()
            )
            return await collect(session, mode="run", elsewhere=gone)

    async def look_for_progress(self, gap_s: float, is_over: Callable[[], bool]) -> Seen:
        """Take samples *gap_s* apart, and a report if no rank has made progress.

        Stop early when *is_over*: there is progress of another kind.

        :raises PgdbError: if no debugger can attach to the ranks.
        """
        async with self._limit(gap_s * SAMPLES), self._session() as session:
            if moved := await look_for_progress(session, gap_s, is_over):
                return Seen(moved)
            return Seen(RankSet(), await collect(session, mode="run", watches=True))

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
        here = socket.gethostname()
        if living and all(each.host == here for each in living):
            if (wanted := options.ranks) is not None:
                living = [each for each in living if each.rank in wanted]
            pids = [str(each.pid) for each in living if os.path.exists(f"/proc/{each.pid}")]
            if not pids:
                raise StartError("no rank is running")
            session = await attach("", replace(options, ranks=None), pids=pids)
        else:
            session = await attach(self._launcher_pid, options)
        try:
            yield session
        finally:
            await to_its_end(session.close(kill=False))


async def report_of_cores(paths: Sequence[str], options: RunOptions) -> Report:
    """Return a report of the core files that ranks of the job have left.

    :raises PgdbError: if GDB can read none of them.
    """
    try:
        async with asyncio.timeout(options.look_s):
            session = await open_cores(paths, replace(options.session, ranks=None))
            try:
                return await collect(session, mode="core")
            finally:
                await to_its_end(session.close(kill=False))
    except TimeoutError:
        raise StartError(f"reading core files took longer than {options.look_s:g} s") from None


async def look_for_progress(session: Session, gap_s: float, is_over: Callable[[], bool]) -> RankSet:
    """Return the ranks that make progress between samples *gap_s* apart; all ranks are stopped
    before and after."""
    ranks = session.ranks(session.set)
    before = await _sample(session)
    for _ in range(SAMPLES - 1):
        with session.hushed(ranks.set):
            await ranks.continue_(wait=False)
            await _wait(gap_s, is_over)
            await ranks.interrupt()
        after = await _sample(session)
        if moved := progress.moving(before, after):
            return moved
        if is_over():
            return ranks.set
        before = after
    return await _leaving_mpi(session, gap_s, is_over)


async def _leaving_mpi(session: Session, seconds: float, is_over: Callable[[], bool]) -> RankSet:
    """Return ranks that return from a blocking MPI call within *seconds*.

    A loop of such calls without a counter looks the same in each sample. A temporary breakpoint at
    the call's return shows it.
    """
    stacks = await session.ranks(session.state.stopped).backtrace()
    inside = progress.in_blocking_calls(
        (each.ranks, each.record) for each in stacks.classes if isinstance(each.record, Stack)
    )
    if not inside:
        return RankSet()
    ranks, everyone = session.ranks(inside), session.ranks(session.set)
    with session.hushed(everyone.set):
        set_there = await ranks.execute("tbreak *$pc")
        if set_there.errors:
            return RankSet()
        try:
            await everyone.continue_(wait=False)
            await _wait(seconds, lambda: is_over() or bool(inside & session.state.stopped))
            moved = inside & session.state.stopped
            await everyone.interrupt()
        finally:
            await to_its_end(ranks.delete(session.last_breakpoint))
    return moved | (everyone.set if is_over() else RankSet())


async def _wait(seconds: float, is_over: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (left := until - loop.time()) > 0 and not is_over():
        await asyncio.sleep(min(left, 0.5))


async def _sample(session: Session) -> Sample:
    """Return a sample of the ranks that are stopped."""
    ranks = spread(session.state.stopped, MOST_SAMPLED)
    answer = await session.ranks(ranks).execute_plain(progress.COMMAND)
    return progress.sample_of(
        {
            rank: record.text
            for rank in ranks - answer.missing.ranks
            if isinstance(record := answer.for_rank(rank), Text)
        },
        ranks,
    )


def spread(ranks: RankSet, most: int) -> RankSet:
    """Return at most *most* of some ranks, from all parts of the set.

    >>> spread(RankSet.parse("0-99"), 4)
    RankSet('0-75/25')
    """
    if len(ranks) <= most:
        return ranks
    listed = list(ranks)
    return RankSet(listed[number * len(listed) // most] for number in range(most))
