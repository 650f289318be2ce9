"""Ranks that PGDB has stopped for a look: what happens to them and to others meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import explaining, sampling
from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Backtrace, Lost
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Stop
from tests.fakes.moving import MovingJob, Step, at, frame, run

HIT = at(57, "solve", breakpoint=1)
CRASH = Stop(reason="signal-received", signal="SIGSEGV", frame=frame(9))


def job_of(count: int) -> MovingJob:
    return MovingJob({rank: [None, None, None] for rank in range(count)})


@contextlib.asynccontextmanager
async def looked_at(session: Session, text: str) -> AsyncIterator[None]:
    """Have ranks stopped for a look within the context; the look has ended behind it."""
    ranks = RankSet.parse(text)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def look(stopped: RankSet) -> RankSet:
        begun.set()
        await may_end.wait()
        return stopped

    task = asyncio.create_task(sampling.glance_at(session, ranks, look))
    await begun.wait()
    assert session.state.passing & session.state.stopped == ranks
    try:
        yield
    finally:
        may_end.set()
        await task
    assert not session.state.passing


@contextlib.asynccontextmanager
async def explained(session: Session, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Have ranks stopped for ``why`` within the context; it has ended behind it."""
    begun, may_end = asyncio.Event(), asyncio.Event()
    running = session.state.running

    async def look(_: object) -> Answer:
        begun.set()
        await may_end.wait()
        return Answer("mpi calls", session.set, ())

    monkeypatch.setattr(explaining._Explainer, "_look", look)
    task = asyncio.create_task(explaining.explain_waits(session))
    await begun.wait()
    assert session.state.stopped >= running and not session.state.passing
    try:
        yield
    finally:
        may_end.set()
        await task


def stops_of(news: list[object]) -> list[tuple[str, str, str]]:
    return [
        (str(each.ranks), each.record.reason, each.record.stopped_with)
        for one in news
        if isinstance(one, RankEvents)
        for each in one.classes
        if isinstance(each.record, Stop)
    ]


@pytest.mark.parametrize("mode", ["all", "rank"])
def test_ranks_under_the_look_of_why_stop_with_others(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 is set running during the look, and hits a breakpoint."""
    job = job_of(3)

    async def test(session: Session) -> None:
        await session.ranks("1-2").continue_(wait=False)
        session.stop_modes.set_rule(1, mode)  # type: ignore[arg-type]
        news: list[object] = []
        session.subscribe(news.append)
        async with explained(session, monkeypatch):
            await session.ranks("0").continue_(wait=False)
            job.happen({0: HIT})
            assert str(session.state.stopped) == "0-2"
        others = [("1-2", "interrupted", "0")] if mode == "all" else []
        assert sorted(stops_of(news)) == [("0", "breakpoint-hit", ""), *others]
        assert str(session.state.running) == ("" if mode == "all" else "1-2")
        assert job.interrupted == ["1-2"] and len(job.resumed) == (2 if mode == "all" else 3)

    run(job, test)


def test_ranks_that_the_user_interrupts_during_why_stay_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = job_of(3)

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        async with explained(session, monkeypatch):
            await session.ranks("1").interrupt()
        assert str(session.state.stopped) == "1" and str(session.state.running) == "0,2"

    run(job, test)


@pytest.mark.parametrize("mode", ["all", "focus"])
def test_ranks_under_a_look_stop_with_others(mode: str) -> None:
    job = job_of(4)

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        session.stop_modes.set_rule(1, mode)  # type: ignore[arg-type]
        news: list[object] = []
        session.subscribe(news.append)
        async with looked_at(session, "1-2"):
            job.happen({0: HIT})
            while session.state.running:
                await asyncio.sleep(0)
            assert not session.state.passing
        assert session.state.stopped == job.ranks
        assert sorted(stops_of(news)) == [
            ("0", "breakpoint-hit", ""),
            ("1-3", "interrupted", "0"),
        ]
        assert job.interrupted == ["1-2", "3"] and len(job.resumed) == 1

    run(job, test)


def test_where_all_others_are_under_a_look_nobody_is_interrupted_again() -> None:
    job = job_of(3)

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        session.stop_modes.set_rule(1, "all")
        async with looked_at(session, "1-2"):
            job.happen({0: HIT})
        assert session.state.stopped == job.ranks and job.interrupted == ["1-2"]
        # A later run of theirs is reported again.
        news: list[object] = []
        await session.continue_(wait=False)
        session.subscribe(news.append)
        job.happen({1: HIT})
        assert stops_of(news) == []  # the moment waits for the others
        while session.state.running:
            await asyncio.sleep(0)
        assert ("1", "breakpoint-hit", "") in stops_of(news)

    run(job, test)


@pytest.mark.parametrize("event", [HIT, CRASH])
def test_ranks_of_which_a_sample_is_taken_stop_with_others(event: Stop) -> None:
    class Asked(MovingJob):
        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            if isinstance(operation, Backtrace) and len(self.resumed) == 1:
                self.happen({0: event})
            return await super().on_request(request_id, ranks, operation)

    job = Asked({rank: [None] for rank in range(4)})

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        session.stop_modes.set_rule(1, "all")
        news: list[object] = []
        session.subscribe(news.append)
        await session.ranks(RankSet.parse("1-2")).tree(samples=3, every_s=0.001)
        while session.state.running:
            await asyncio.sleep(0)
        assert len(job.resumed) == 1 and job.interrupted == ["1-2", "3"]
        named = RankSet.union(RankSet.parse(each) for each, _, _ in stops_of(news))
        assert named == job.ranks

    run(job, test)


def test_a_crash_stops_ranks_under_a_look_and_those_that_were() -> None:
    job = job_of(4)

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        async with looked_at(session, "1"):
            pass
        assert job.resumed[-1] == ("continue", "1")
        news: list[object] = []
        session.subscribe(news.append)
        async with looked_at(session, "2"):
            job.happen({0: CRASH})
            while session.state.running:
                await asyncio.sleep(0)
        assert session.state.stopped == job.ranks
        assert job.interrupted[-1] == "1,3" and job.resumed[-1] == ("continue", "1")
        assert RankSet.union(RankSet.parse(each) for each, _, _ in stops_of(news)) == job.ranks

    run(job, test)


def test_a_crash_leaves_ranks_of_another_run_alone() -> None:
    job = job_of(3)

    async def test(session: Session) -> None:
        await session.ranks(RankSet([2])).continue_(wait=False)
        await session.ranks(RankSet.parse("0-1")).continue_(wait=False)
        async with looked_at(session, "1-2"):
            job.happen({0: CRASH})
        assert str(session.state.stopped) == "0-1" and str(session.state.running) == "2"

    run(job, test)


@pytest.mark.parametrize("end", [HIT, CRASH, Exit(code=0)])
def test_a_rank_that_stops_for_good_is_not_waited_for_until_the_look_ends(end: Step) -> None:
    class Hits(MovingJob):
        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            gathered = await super().on_request(request_id, ranks, operation)
            if operation.is_urgent and self.interrupted == ["1"]:
                self.happen({1: end})  # just before the interrupt reaches it
            return gathered

    job = Hits({0: [None, None], 1: [None, None], 2: [None, None]})

    async def test(session: Session) -> None:
        # A crash stops the other ranks of its run.
        await session.ranks(RankSet([1])).continue_(wait=False)
        await session.ranks(RankSet.parse("0,2")).continue_(wait=False)
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def look(stopped: RankSet) -> RankSet:
            begun.set()
            await may_end.wait()
            return stopped

        task = asyncio.create_task(sampling.glance_at(session, RankSet([1]), look))
        await begun.wait()
        assert 1 not in session.state.running | session.state.passing
        assert not (await session.ranks(RankSet([1])).wait()).missing
        may_end.set()
        await task
        assert str(session.state.running) == "0,2" and len(job.resumed) == 2

    run(job, test)


@pytest.mark.parametrize("is_unreachable", [False, True])
def test_a_rank_that_is_lost_during_a_look_is_not_waited_for(is_unreachable: bool) -> None:
    job = job_of(2)

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        async with looked_at(session, "0-1"):
            if is_unreachable:
                session.traffic.on_lost(Lost(nodes=(1,), ranks=RankSet([1]), why="gone"))
            else:
                gone = EquivalenceClass[Event](RankSet([1]), Gone(why="gone"))
                session.traffic.on_events((gone,))
            assert str(session.state.passing) == "0"
        assert str(session.state.running) == "0" and str(session.state.lost) == "1"

    run(job, test)
