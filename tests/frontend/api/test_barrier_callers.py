"""Callers that wait for a barrier: what ends their wait, and what does not."""

from __future__ import annotations

import asyncio

from pgdb.frontend.api.session import Session
from pgdb.ranks import RankSet
from pgdb.records import Exit
from tests.fakes.moving import MovingJob, at, run
from tests.support.barriers import CAME, Reader, job_of, until
from tests.support.why_calls import in_call, outside, recv


def ring_behind_a_held_rank() -> MovingJob:
    """Return a job whose ranks wait for each other, the first one for rank 0."""
    job = job_of(**{f"r{rank}": [None] * 9 + [CAME] for rank in range(1, 4)})
    job.calls = {rank: recv(rank - 1) for rank in range(1, 4)}
    return job


async def set_off_but_the_first(session: Session) -> Reader:
    """Hold rank 0 of a job with a barrier, and set the others running."""
    session.all_barriers.quiet_s = 0.0
    reader = Reader(session)
    await session.barrier("meet")
    session.ranks("0").hold()
    await session.ranks("1-3").continue_(wait=False)
    return reader


def test_a_caller_that_waits_gets_the_reason_for_which_no_rank_comes() -> None:
    """Each rank of a ring waits for the one before it, and the first one for a held rank."""
    job = ring_behind_a_held_rank()

    async def test(session: Session) -> None:
        reader = await set_off_but_the_first(session)
        found = await session.wait_barrier(1)
        assert (found.met, found.arrived) == (0, RankSet())
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [
            ("held", "0"),
            ("in MPI", "1"),
            ("in MPI", "2"),
            ("in MPI", "3"),
        ]
        assert "and may wait for [0], which is held" in found.absent[1].text
        assert reader.lines[0].startswith("barrier 1: no rank is there; [0] is held by 'hold'; [1]")
        assert str(session.state.running) == "1-3"
        # The next call looks anew.
        session.ranks("0").release()
        await session.ranks("0").continue_()
        for rank in range(1, 4):
            job.happen({rank: CAME})
        assert (await session.wait_barrier(1)).met == 1

    run(job, test)


def test_a_ring_whose_calls_stay_ends_the_wait_of_a_caller() -> None:
    """Each call fits that of the next rank: only a second look shows that no message comes."""
    job = ring_behind_a_held_rank()
    job.calls = {
        rank: in_call(
            "MPI_Sendrecv",
            "sendrecv",
            dest=(rank + 1) % 4,
            source=rank - 1,
            tag=1,
            receive_tag=1,
            count=1,
        )
        for rank in range(1, 4)
    }

    async def test(session: Session) -> None:
        reader = await set_off_but_the_first(session)
        found = await session.wait_barrier(1)
        kinds = [[each.kind for each in news.barrier.absent] for news in reader.news]
        assert kinds == [
            ["held", "in MPI", "running", "running"],
            ["held", "in MPI", "in MPI", "in MPI"],
        ]
        assert found.absent[3].text.endswith("and may wait for [2]")

    run(job, test)


def test_a_caller_that_waits_leaves_a_job_alone_that_runs() -> None:
    job = job_of(**{f"r{rank}": [None] for rank in range(4)})

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        waiting = asyncio.create_task(session.wait_barrier(1))
        await asyncio.sleep(0.05)  # time for a look, which a timer of no duration would begin
        assert not waiting.done() and not job.interrupted
        job.happen(dict.fromkeys(range(4), CAME))
        assert (await waiting).met == 1

    run(job, test)


def test_a_caller_that_waits_returns_where_all_stand_or_have_ended() -> None:
    job = job_of(r0=[at(9, "g", breakpoint=2)], r1=[at(9, "g", breakpoint=2)], r2=[Exit(code=3)])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.ranks("0-1").barrier("meet")
        await session.break_at("g")
        await session.ranks("2").barrier("meet")
        await session.ranks("0-2").continue_()
        [absent] = (await session.wait_barrier(1)).absent
        assert absent.text == "are stopped at breakpoint 2 in g at a.c:9"
        [absent] = (await session.wait_barrier(3)).absent
        assert absent.text == "has ended with status 3"
        assert reader.lines == [
            "barrier 3: [2] has ended with status 3; no rank is there",
            "barrier 1: no rank is there; [0-1] are stopped at breakpoint 2 in g at a.c:9",
        ]

    run(job, test)


def test_a_rank_that_waits_for_another_at_work_ends_no_wait() -> None:
    """Rank 2 may come, and then send to rank 3; later both wait for held ranks."""
    job = job_of(r2=[None, None], r3=[None, None])
    job.calls = {2: outside(), 3: recv(2)}

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        waiting = asyncio.create_task(session.wait_barrier(1))
        await until(lambda: bool(reader.news))
        assert [(each.kind, str(each.ranks)) for each in session.barriers[0].absent] == [
            ("running", "2"),
            ("running", "3"),
        ]
        assert reader.lines[0].startswith("barrier 1: [0-1] wait; [2] computes, in work at ring.c")
        assert "; [3] is in MPI_Recv from 2 with tag 1 in MPI_COMM_WORLD" in reader.lines[0]
        assert not waiting.done()
        job.calls[2] = recv(0)
        found = await waiting
        assert [each.kind for each in found.absent] == ["in MPI", "in MPI"]
        assert "may wait for [0], which is held" in found.absent[0].text
        assert "may wait for [2]" in found.absent[1].text

    run(job, test)
