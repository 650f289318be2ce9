"""Ranks that still run: where they are, and that a look leaves the run as it is."""

from __future__ import annotations

import asyncio
import dataclasses
import functools

from msgspec.structs import replace

from pgdb.frontend.analysis.still_running import listed
from pgdb.frontend.api import sampling, whereabouts
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text import render
from pgdb.overlay.messages import Interrupt
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.fakes.moving import MovingJob, at, frame, run

HIT = at(57, "solve", breakpoint=1)
WAIT_S = 0.02
ZERO = RankSet([0])


def test_ranks_that_continue_are_looked_at_and_run_on() -> None:
    job = MovingJob({0: [HIT], 1: [None, None], 2: [None, None], 3: [None, None]})

    async def test(session: Session) -> None:
        news: list[object] = []
        session.subscribe(news.append)
        answer = await session.continue_(timeout_s=WAIT_S)
        assert str(answer.missing.running) == "1-3"
        job.frames[1] = job.frames[3] = frame(20, "work")
        before = len(news)
        found = await session.ranks(answer.missing.running).still_running()
        assert listed(found) == "[1,3] in work, [2] in f"
        assert [each.function for each in found] == ["work", "f"]
        assert job.interrupted == ["1-3"] and job.resumed[-1] == ("continue", "1-3")
        assert str(session.state.running) == "1-3" and not session.state.passing
        assert len(news) == before
        text = render.missing(replace(answer, still_running=found))
        assert text == ["3 of 4 still running: [1,3] in work, [2] in f"]

    run(job, test)


def test_a_rank_that_stops_during_the_look_runs_no_more() -> None:
    job = MovingJob({0: [HIT], 1: [None, None], 2: [None]})

    async def test(session: Session) -> None:
        answer = await session.continue_(timeout_s=WAIT_S)
        assert str(answer.missing.running) == "1-2"
        job.happen({1: at(9, "work")})
        while 1 in session.state.running:
            await asyncio.sleep(0)
        later = session.runs.with_news(answer)
        assert str(later.missing.running) == "2" and not later.missing.lost
        assert [str(each.ranks) for each in later.classes] == ["0", "1"]
        assert later.classes[1].record == replace(at(9, "work"), run=1)
        text = render.missing(replace(later, still_running=()))
        assert text == ["1 of 3 still running: [2]"]
        assert session.runs.with_news(later) == later

    run(job, test)


def test_two_looks_at_a_rank_both_let_it_run_on() -> None:
    """The stop for the second look comes when the first one has set the rank running again."""
    job = MovingJob({0: [None, None, None], 1: [HIT]})

    async def test(session: Session) -> None:
        await session.runs.start("continue", "", ZERO)
        may_end = [asyncio.Event(), asyncio.Event()]
        begun = [asyncio.Event(), asyncio.Event()]

        async def look(number: int, ranks: RankSet) -> RankSet:
            begun[number].set()
            await may_end[number].wait()
            return ranks

        looks = []
        for number in range(2):
            looking = sampling.glance_at(session, ZERO, functools.partial(look, number))
            looks.append(asyncio.create_task(looking))
            await begun[number].wait()
        may_end[0].set()
        assert await looks[0] == ZERO
        assert session.state.running == session.state.passing == ZERO
        job.happen({0: Stop(reason="interrupted", frame=frame(3))})
        may_end[1].set()
        assert await looks[1] == ZERO
        assert session.state.running == ZERO and not session.state.passing

    run(job, test)


def test_an_interrupt_takes_a_rank_out_of_all_looks() -> None:
    job = MovingJob({0: [None], 1: [HIT]})

    async def test(session: Session) -> None:
        await session.runs.start("continue", "", ZERO)
        with session.passing.within(ZERO) as one, session.passing.within(session.set) as other:
            assert session.state.passing == session.set
            session.passing.take_and_report(ZERO)
            assert not one.ranks and other.ranks == session.state.passing == session.set - ZERO

    run(job, test)


def test_a_rank_in_a_step_is_left_alone() -> None:
    job = MovingJob({0: [None], 1: [None]}, start=61)

    async def test(session: Session) -> None:
        answer = await session.next(timeout_s=WAIT_S)
        found = await session.ranks(answer.missing.running).still_running()
        assert listed(found) == "[0-1] in the 'next' from f at a.c:61"
        assert not job.interrupted

    run(job, test)


def test_a_look_can_be_switched_off() -> None:
    job = MovingJob({0: [None], 1: [HIT]})

    async def test(session: Session) -> None:
        session.options = dataclasses.replace(session.options, look_at_running=False)
        answer = await session.continue_(timeout_s=WAIT_S)
        assert await session.ranks(answer.missing.running).still_running() == ()
        assert not job.interrupted
        text = render.missing(replace(answer, still_running=()))
        assert text == ["1 of 2 still running: [0]"]

    run(job, test)


def test_of_many_ranks_some_are_looked_at() -> None:
    count = whereabouts.MOST_LOOKED_AT + 2
    job = MovingJob({rank: [None, None] for rank in range(count)})

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        found = await session.still_running()
        assert listed(found) == "[0-63] in f, [64-65] not looked at"
        assert job.interrupted == ["0-63"]

    run(job, test)


def test_a_rank_that_does_not_stop_in_time_runs_on_when_it_does() -> None:
    class Slow(MovingJob):
        async def on_request(self, request_id, ranks, operation):  # type: ignore[no-untyped-def]
            if isinstance(operation, Interrupt):
                return None  # no rank stops before the test lets it
            return await super().on_request(request_id, ranks, operation)

    job = Slow({0: [None, None], 1: [None, None]})

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        whole_look_s, whereabouts.LOOK_S = whereabouts.LOOK_S, WAIT_S
        try:
            assert await session.still_running() == ()
        finally:
            whereabouts.LOOK_S = whole_look_s
        stop = Stop(reason="interrupted", frame=frame(3))
        job.happen({0: stop, 1: stop})
        while len(job.resumed) < 2:
            await asyncio.sleep(0)
        assert job.resumed[-1] == ("continue", "0-1")
        assert session.state.running == RankSet.parse("0-1")

    run(job, test)


def test_a_breakpoint_that_a_rank_hits_during_a_look_is_reported() -> None:
    class Hits(MovingJob):
        async def on_request(self, request_id, ranks, operation):  # type: ignore[no-untyped-def]
            if isinstance(operation, Interrupt):
                asyncio.get_running_loop().call_soon(self.happen, {0: HIT})
                return None
            return await super().on_request(request_id, ranks, operation)

    job = Hits({0: [None]})

    async def test(session: Session) -> None:
        await session.continue_(wait=False)
        assert await session.still_running() == ()
        assert str(session.state.stopped) == "0"
        assert [command for command, _ in job.resumed] == ["continue"]

    run(job, test)
