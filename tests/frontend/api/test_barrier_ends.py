"""Ranks that are lost, end or crash before all have come to a barrier, or before any has."""

from __future__ import annotations

from pgdb.frontend.api.session import Session
from pgdb.ranks import RankSet
from tests.fakes.moving import run
from tests.support.answers import ranks
from tests.support.barriers import Reader, job_of, until


def held(session: Session) -> str:
    return str(session.held_for.get("barrier 1", RankSet()))


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
