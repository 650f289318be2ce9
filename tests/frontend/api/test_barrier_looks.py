"""Looks at the ranks that do not come to a barrier, and reports about them."""

from __future__ import annotations

import asyncio

from pgdb.frontend.api import absentees
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import Frame, Stack, Stop
from tests.fakes.moving import at, frame, run
from tests.support.answers import ranks
from tests.support.barriers import CAME, Reader, all_but_one_come, job_of, until
from tests.support.why_calls import recv


def test_where_the_others_are_is_reported_when_nothing_happens() -> None:
    job = job_of(r2=[at(9, "g", breakpoint=2)], r3=[None])
    job.frames[3] = Frame(level=0, function="PMPI_Recv", library="/lib/libmpi.so")

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.break_at("g")
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(reader.news))
        assert reader.lines == [
            "barrier 1: [0-1] wait; [2] is stopped at breakpoint 2 in g at a.c:9; [3] is in "
            "PMPI_Recv, for ranks that are unknown, and may wait for a held one; 'release 0-1' or "
            "'delete 1' ends the wait, and 'barrier meet 0-3 if VAR == N' lets ranks of several "
            "iterations meet in a later one"
        ]
        # The glance has set the rank running again, and nobody who waits has noticed.
        assert job.interrupted == ["3"]
        assert job.resumed[-1] == ("continue", "3")
        assert str(session.state.running) == "3"
        barrier = await session.wait_barrier(1)
        assert [(each.kind, str(each.ranks)) for each in barrier.absent] == [
            ("stopped", "2"),
            ("in MPI", "3"),
        ]

    run(job, test)


def test_a_breakpoint_that_is_deleted_is_not_named_any_longer() -> None:
    job = job_of(r2=[at(9, "g", breakpoint=2)], r3=[at(9, "g", breakpoint=2)])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.break_at("g")
        await session.continue_()
        await until(lambda: bool(reader.news))
        assert "[2-3] are stopped at breakpoint 2 in g at a.c:9" in reader.lines[0]
        await session.ranks("2").delete(2)
        texts = [(str(each.ranks), each.text) for each in session.barriers[0].absent]
        assert texts == [
            ("2", "is stopped at a breakpoint in g at a.c:9"),
            ("3", "is stopped at breakpoint 2 in g at a.c:9"),
        ]
        assert len(reader.news) == 1

    run(job, test)


def test_a_command_that_looks_at_the_others_repeats_no_report() -> None:
    job = job_of(r3=[None] * 9)
    job.calls = {3: recv(0)}

    async def test(session: Session) -> None:
        barriers, reader = session.all_barriers, Reader(session)
        barriers.quiet_s = 0.0
        await all_but_one_come(session)
        await until(lambda: len(reader.news) == 1)
        with barriers.paused():
            await session.ranks("3").interrupt()
            # Time for a look, which a timer of no duration would begin.
            await asyncio.sleep(0.05)
            await session.runs.start("continue", "", ranks("3"))
        await asyncio.sleep(0.05)
        assert len(reader.news) == 1, reader.lines
        # A rank that stays stopped is reported after the pause, one that has come at once.
        with barriers.paused():
            await session.ranks("3").interrupt()
            await asyncio.sleep(0.05)
            assert len(reader.news) == 1, reader.lines
        await until(lambda: len(reader.news) == 2)
        assert "[3] is stopped" in reader.lines[1]
        with barriers.paused():
            await session.runs.start("continue", "", ranks("3"))
            job.happen({3: CAME})
            await until(lambda: session.barriers[0].met == 1)

    run(job, test)


def test_a_report_is_out_of_date_once_a_rank_is_released() -> None:
    job = job_of(r0=[CAME, None], r2=[None], r3=[None])
    for rank in (2, 3):
        job.frames[rank] = Frame(level=0, function="PMPI_Recv", library="/lib/libmpi.so")

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        assert str((await session.wait_barrier(1)).arrived) == "0-1"
        session.ranks("0").release()
        await session.runs.start("continue", "", ranks("0"))
        assert session.barriers[0].absent == ()
        waiting = asyncio.create_task(session.wait_barrier(1))
        await until(lambda: len(reader.news) > 1)
        job.happen({0: CAME, 2: CAME, 3: CAME})
        assert (await waiting).met == 1

    run(job, test)


def test_a_glance_is_no_stop_for_a_command_that_waits() -> None:
    job = job_of(r3=[None, None])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        task = asyncio.create_task(session.continue_())
        await until(lambda: bool(reader.news) and 3 in session.state.running)
        assert not task.done()
        job.happen({3: CAME})
        assert not (await task).missing

    run(job, test)


def test_an_interrupt_during_a_glance_keeps_the_ranks_stopped() -> None:
    job = job_of(r3=[None, None])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(session.state.passing))
        answer = await session.interrupt()
        assert str(answer.ranks) == "3"
        await until(lambda: not session.state.passing)
        assert 3 in session.state.stopped

    run(job, test)


def test_a_rank_that_has_stopped_since_the_look_is_stopped() -> None:
    state = JobState(ranks("0-3"))
    where = Frame(level=0, function="PMPI_Recv", library="/lib/libmpi.so")
    look = [EquivalenceClass(ranks("2-3"), Stack(frames=(where,)))]
    stop = Stop(reason="interrupted", frame=frame(9, "g"))
    state.apply((EquivalenceClass(ranks("3"), stop),), are_announced=True)
    found = absentees.waited_for(state, ranks("2-3"), look)
    assert [(str(each.ranks), each.kind) for each in found] == [("2", "in MPI"), ("3", "stopped")]
    # PGDB has stopped it for a moment.
    state.passing = ranks("3")
    found = absentees.waited_for(state, ranks("2-3"), look)
    assert [(str(each.ranks), each.kind) for each in found] == [("2-3", "in MPI")]
