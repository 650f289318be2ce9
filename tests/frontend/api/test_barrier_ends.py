"""Ranks that are lost, end or crash before all have come to a barrier, or before any has."""

from __future__ import annotations

from pgdb.frontend.api.session import Session
from pgdb.frontend.show.text import meeting_text
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop
from tests.fakes.moving import frame, run
from tests.support.answers import ranks
from tests.support.barriers import CAME, Reader, held, job_of, until

CRASH = Stop(reason="signal-received", signal="SIGSEGV", frame=frame(61))


def test_ranks_that_are_lost_at_a_barrier_are_not_there_any_longer() -> None:
    job = job_of(r2=[None], r3=[None])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        session.ranks("0").hold()
        await session.ranks("1-3").continue_(wait=False)
        await until(lambda: held(session) == "1")
        session.state.lose(session.set)
        session._core.wake()
        [barrier] = session.barriers
        assert (barrier.met, barrier.arrived) == (0, RankSet())
        assert not any("there; they stay" in line for line in reader.lines), reader.lines
        # A reattach stops them elsewhere; the user's own hold is kept.
        session.state.take_back(session.set)
        session._core.wake()
        assert dict(session.held_for) == {"hold": ranks("0")}

    run(job, test)


def test_a_rank_is_held_again_that_is_announced_at_the_barrier_after_a_loss() -> None:
    job = job_of(r1=[None], r2=[None], r3=[None])

    async def test(session: Session) -> None:
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0")
        [stop] = session.state.latest(ranks("0"))
        session.state.lose(ranks("0"))
        session._core.wake()
        assert held(session) == ""
        session.traffic.on_events((stop,), are_announced=True)
        assert held(session) == "0"

    run(job, test)


def test_of_ranks_that_end_before_any_has_come_the_first_and_then_all_are_named() -> None:
    job = job_of(**{f"r{rank}": [None] for rank in range(3)}, r3=[Exit(code=0)])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: 3 in session.state.exited)
        first = "barrier 1: [3] has ended with status 0; no rank is there"
        assert reader.lines == [first]
        job.happen({0: Exit(code=0), 1: Exit(code=0)})
        assert reader.lines == [first]
        job.happen({2: Exit(code=0)})
        ended = "[0-3] have ended with status 0"
        assert reader.lines == [first, f"barrier 1: {ended}; no rank is there"]
        listed = meeting_text.barrier_line(session.barriers[0])
        assert listed.splitlines()[1:] == [f"    {ended}"]

    run(job, test)


def test_a_bad_end_before_any_has_come_is_named_and_those_that_follow_once() -> None:
    job = job_of(**{f"r{rank}": [None] for rank in range(3)}, r3=[Exit(code=4)])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(reader.lines))
        for rank in range(3):
            job.happen({rank: Exit(signal="SIGTERM")})
        assert reader.lines == [
            "barrier 1: [3] has ended with status 4; no rank is there",
            "barrier 1: [0-2] have ended by SIGTERM; [3] has ended with status 4; no rank is there",
        ]

    run(job, test)


def test_a_crash_before_any_rank_has_come_is_named_at_once() -> None:
    job = job_of(r0=[None, None, Exit(code=0)], r1=[CRASH, Exit(signal="SIGSEGV")])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.ranks("0-1").barrier("meet")
        await session.ranks("0-1").continue_(timeout_s=0.0)
        await until(lambda: bool(reader.lines))
        assert reader.lines == ["barrier 1: [1] stopped by SIGSEGV; no rank is there"]
        await session.ranks("1").continue_()
        await session.ranks("0").interrupt()
        await session.ranks("0").continue_(timeout_s=0.0)
        job.happen({0: Exit(code=0)})
        assert reader.lines[1:] == [
            "barrier 1: [0] has ended with status 0; [1] has ended by SIGSEGV; no rank is there"
        ]

    run(job, test)


def test_ranks_that_a_meeting_is_without_are_named_once() -> None:
    job = job_of(r0=[CAME], r1=[CRASH])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.ranks("0-1").barrier("meet")
        await session.ranks("0-1").continue_()
        await session.wait()
        session._core.wake()
        met = [line for line in reader.lines if "is there; [1] stopped by SIGSEGV" in line]
        assert len(met) == 1 and met == reader.lines[-1:], reader.lines

    run(job, test)


def test_the_end_of_a_job_whose_ranks_have_met_is_no_news_of_a_barrier() -> None:
    job = job_of(**{f"r{rank}": [CAME, Exit(code=0)] for rank in range(4)})

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.continue_()
        await session.continue_()
        assert reader.lines == ["barrier 1: [0-3] are there; they stay stopped"]

    run(job, test)


def test_the_end_of_ranks_that_the_user_kills_is_no_news_of_a_barrier() -> None:
    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.kill()
        assert session.state.exited == session.set
        assert not reader.lines

    run(job_of(), test)


def test_ranks_that_are_lost_again_are_named_again() -> None:
    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        for _ in range(2):
            session.state.lose(session.set)
            session._core.wake()
            session.state.take_back(session.set)
            session._core.wake()
            assert session.barriers[0].absent == ()
        assert reader.lines == ["barrier 1: [0-3] are lost; no rank is there"] * 2

    run(job_of(), test)
