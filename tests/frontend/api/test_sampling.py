"""Samples of a running job: the job always returns to its previous state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.api import sampling
from pgdb.frontend.api.passing import Passing
from pgdb.frontend.api.session import Session
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Interrupt
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Stop
from tests.fakes.bare_session import BareSession


class SampledSession(BareSession):
    """Ranks 0-3; rank 3 is stopped."""

    def __init__(self) -> None:
        super().__init__(RankSet.range(0, 4))
        self.state.start_run(1, RankSet.range(0, 4))
        self.run_count = 1
        self.asked = 0
        self.own_stops: dict[int, str] = {}
        """Ranks that stop on their own at the next interrupt, with the signal or an empty text."""
        self.fails = False
        self.is_interrupting = asyncio.Event()
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.stop(RankSet([3]))

    def one_call(self, line: str) -> contextlib.AbstractContextManager[None]:
        assert line.startswith("job")
        return contextlib.nullcontext()

    def stop(self, ranks: RankSet, reason: Any = "interrupted", signal: str = "") -> None:
        self.apply(ranks, Stop(reason=reason, run=self.run_count, signal=signal))

    def ranks(self, which: RankSet) -> SampledSession:
        return self

    async def interrupt(self) -> Answer:
        running = self.state.running
        self.is_interrupting.set()
        await self.may_stop.wait()
        for rank, signal in self.own_stops.items():
            reason = "signal-received" if signal else "breakpoint-hit"
            self.stop(RankSet([rank]), reason, signal)
        self.stop(self.state.running)
        return Answer(command="interrupt", ranks=running, classes=())

    async def ask(self, command: str, operation: object, ranks: RankSet, **options: bool) -> Answer:
        if isinstance(operation, Interrupt):
            return await self.interrupt()
        self.asked += 1
        if self.fails:
            raise CommandError("no")
        record: Record = Stack(frames=(Frame(level=0, function="main"),))
        missing = Missing(running=ranks & self.state.running)
        classes = (EquivalenceClass(ranks=ranks - missing.ranks, record=record),)
        return Answer(command=command, ranks=ranks, classes=classes, missing=missing)

    @contextlib.contextmanager
    def hushed(self, ranks: RankSet) -> Iterator[None]:
        del ranks
        yield

    @property
    def runs(self) -> SampledSession:
        return self

    @property
    def all_barriers(self) -> SampledSession:
        return self

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        yield

    async def start(
        self, word: str, argument: str, ranks: RankSet, *, held_too: bool, continues: int
    ) -> None:
        assert (word, argument, held_too) == ("continue", "", True)
        assert continues == self.run_count
        self.run_count += 1
        self.state.start_run(self.run_count, ranks)

    @property
    def passing(self) -> SampledSession:
        return self

    @contextlib.contextmanager
    def within(self, ranks: RankSet) -> Iterator[Passing]:
        yield Passing(ranks)

    async def wait_stopped(
        self,
        command: str,
        ranks: RankSet,
        *,
        timeout_s: float = 0.0,
        counts_passing: bool = True,
    ) -> Answer:
        await asyncio.sleep(0)
        return Answer(command, ranks, ())

    async def take(self, samples: int = 3) -> CallTree:
        session = cast(Session, self)
        found = await sampling.take(session, self.state.ranks, samples=samples, every_s=1.0)
        return found.tree


def test_who_ran_runs_and_who_was_stopped_is_stopped() -> None:
    async def check() -> None:
        session = SampledSession()
        tree = await session.take()
        assert (tree.samples, session.asked) == (3, 3)
        assert str(tree.ranks) == "0-3"
        assert (str(tree.stayed), str(tree.idle)) == ("0-2", "3")
        assert (str(session.state.running), str(session.state.stopped)) == ("0-2", "3")

    asyncio.run(check())


def test_a_rank_that_stops_by_itself_stays_stopped() -> None:
    async def check() -> None:
        session = SampledSession()
        session.own_stops = {1: ""}
        tree = await session.take()
        assert str(session.state.running) == "0,2"
        # A rank at a breakpoint does not hang.
        assert (str(tree.stayed), str(tree.halted), str(tree.idle)) == ("0,2", "1", "3")
        assert "[1] stopped on their own, or ended, meanwhile" in str(tree)

    asyncio.run(check())


def test_a_crash_stops_all_and_ends_the_sampling() -> None:
    async def check() -> None:
        session = SampledSession()
        session.own_stops = {1: "SIGSEGV"}
        tree = await session.take()
        assert tree.samples == 1
        assert not session.state.running

    asyncio.run(check())


def test_samples_end_with_the_time_and_leave_them_running() -> None:
    async def check() -> None:
        session = SampledSession()
        with deadline.within(0.0):
            tree = await session.take()
        assert tree.samples == 1
        assert str(session.state.running) == "0-2"
        with deadline.within(0.0, for_stops=False):
            assert (await session.take()).samples == 3

    asyncio.run(check())


def test_an_error_leaves_them_running() -> None:
    async def check() -> None:
        session = SampledSession()
        session.fails = True
        with pytest.raises(CommandError):
            await session.take()
        assert str(session.state.running) == "0-2"

    asyncio.run(check())


def test_giving_up_in_the_midst_of_a_sample_leaves_them_running() -> None:
    async def check() -> None:
        session = SampledSession()
        session.may_stop.clear()
        task = asyncio.create_task(session.take())
        await session.is_interrupting.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        session.may_stop.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.asked == 0
        assert str(session.state.running) == "0-2"

    asyncio.run(check())


def test_what_cannot_be_sampled_is_refused() -> None:
    async def check() -> None:
        session = SampledSession()
        for samples in (0, -1, sampling.MOST_SAMPLES + 1):
            with pytest.raises(UsageError, match="samples cannot be taken"):
                await session.take(samples)
        await session.interrupt()
        with pytest.raises(UsageError, match=r"no rank of \[0-3\] runs.*'continue &'"):
            await session.take(2)
        assert (await session.take(1)).samples == 1

    asyncio.run(check())
