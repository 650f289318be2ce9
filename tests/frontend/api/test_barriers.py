"""Barriers: who is held, who is not waited for, and what happens when all have come."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.json import json_meeting
from pgdb.frontend.show.text import meeting_text
from pgdb.overlay.messages import ChangeBreakpoints
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop
from tests.fakes.moving import Step, at, frame, run
from tests.support.answers import ranks
from tests.support.barriers import CAME, Reader, all_but_one_come, held, job_of, until

CRASH = Stop(reason="signal-received", signal="SIGSEGV", frame=frame(61))


def test_an_interrupt_ends_a_barrier_that_lets_its_ranks_run_on() -> None:
    """The rank comes to the barrier at the moment of the interrupt, which finds it stopped."""
    job = job_of(r3=[None, CAME])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release", times=2)
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0-2")
        interrupt = asyncio.create_task(session.ranks("3").interrupt())
        await until(lambda: bool(session.runs.interrupted))
        job.happen({3: CAME})
        await interrupt
        assert reader.lines == ["barrier 1: [0-3] are there; they stay stopped"]
        assert session.state.stopped == session.set and not session.held_for
        # The next run is a new one.
        await session.runs.start("continue", "", session.set)
        await until(lambda: len(reader.lines) == 2)
        assert reader.lines[1].endswith("they run on"), reader.lines

    run(job, test)


def test_a_run_command_is_behind_the_interrupt_of_held_ranks_too() -> None:
    """Rank 2 comes to the barrier at the moment of the interrupt, and is held there."""
    job = job_of(r2=[None, CAME], r3=[None, CAME, CAME])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release", times=1)
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0-1")
        interrupt = asyncio.create_task(session.ranks("2-3").interrupt())
        await until(lambda: bool(session.runs.interrupted))
        job.happen({2: CAME})
        job.happen({3: Stop(reason="interrupted", frame=frame(61))})
        await interrupt
        assert held(session) == "0-2" and not reader.lines
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(reader.lines))
        assert reader.lines[0].endswith("they run on"), reader.lines

    run(job, test)


def test_ranks_are_held_until_all_have_come() -> None:
    job = job_of(r3=[None])

    async def test(session: Session) -> None:
        reader = Reader(session)
        made = await session.barrier("meet")
        assert (made.number, str(made.ranks), made.then, made.met) == (1, "0-3", "stop", 0)
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0-2")
        with pytest.raises(CommandError, match="held"):
            await session.runs.start("continue", "", ranks("0-2"))
        assert str(session.barriers[0].arrived) == "0-2"
        job.happen({3: CAME})
        assert held(session) == ""
        assert session.barriers[0].met == 1
        assert reader.lines == ["barrier 1: [0-3] are there; they stay stopped"]
        await session.runs.start("continue", "", session.set)
        assert job.resumed[-1] == ("continue", "0-3")

    run(job, test)


def test_ranks_that_are_released_do_not_count_as_stopped_for_a_command_that_waits() -> None:
    job = job_of(**{f"r{rank}": [CAME, CAME, at(50)] for rank in range(4)})

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release")
        answer = await session.continue_()
        assert [each.record.frame.line for each in answer.classes] == [50]
        assert job.resumed == [("continue", "0-3")] * 3
        assert reader.lines == [
            "barrier 1: [0-3] are there; they run on",
            "barrier 1: [0-3] are there for the 2nd time; they run on",
        ]

    run(job, test)


def test_a_step_ends_at_a_barrier_that_lets_its_ranks_run_on() -> None:
    job = job_of(**{f"r{rank}": [CAME, at(50)] for rank in range(4)})

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release", times=1)
        answer = await session.run("next", "2")
        assert [each.record.breakpoint for each in answer.classes] == [1]
        assert reader.lines == [
            "barrier 1: [0-3] are there; [0-3] stay stopped, at the end of their step"
        ]
        assert not session.held_for and session.state.stopped == session.set
        await until(lambda: not session.has_breakpoints(session.set))
        assert session.barriers == () and job.resumed == [("next", "0-3")]

    run(job, test)


def test_a_lockstep_ends_at_a_barrier_that_lets_its_ranks_run_on() -> None:
    job = job_of(**{f"r{rank}": [at(2), CAME, at(50)] for rank in range(4)})

    async def test(session: Session) -> None:
        await session.barrier("meet", then="release")
        found = await session.lockstep("next", 8)
        assert (found.end, found.steps) == ("stopped", 1)
        assert job.resumed == [("next", "0-3")] * 2

    run(job, test)


def test_ranks_that_have_come_by_a_continue_run_on_without_those_that_step() -> None:
    job = job_of(r2=[None, at(50)], r3=[None])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release")
        await session.runs.start("next", "", ranks("0-2"))
        await until(lambda: held(session) == "0-1")
        # It is for the held rank too, which is to run on when it can.
        await session.runs.start("continue", "", ranks("1,3"))
        job.happen({2: CAME})
        job.happen({3: CAME})
        await until(lambda: job.resumed[-1] == ("continue", "1,3"))
        assert reader.lines[-1] == (
            "barrier 1: [0-3] are there; [1,3] run on; [0,2] stay stopped, at the end of their step"
        )

    run(job, test)


def test_a_barrier_is_deleted_after_its_times() -> None:
    job = job_of(**{f"r{rank}": [CAME, CAME, at(50)] for rank in range(4)})

    async def test(session: Session) -> None:
        await session.barrier("meet", then="release", times=2)
        await session.continue_()
        assert session.barriers == ()
        assert (await session.wait_barrier(1)).met == 2
        deleted = [each for each in job.asked if isinstance(each, ChangeBreakpoints)]
        assert [each.command for each in deleted[:1]] == ["delete"]
        assert not session.has_breakpoints(session.set)

    run(job, test)


def test_a_subset_meets_without_the_others() -> None:
    async def test(session: Session) -> None:
        await session.ranks("1-2").barrier("meet")
        await session.continue_()
        assert session.barriers[0].met == 1
        assert str(session.state.held) == ""

    run(job_of(r0=[at(3)], r3=[at(3)]), test)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (Exit(code=3), "[3] has ended with status 3"),
        (Exit(signal="SIGKILL"), "[3] has ended by SIGKILL"),
        (CRASH, "[3] stopped by SIGSEGV"),
    ],
)
def test_a_rank_that_will_never_come_is_named_and_not_waited_for(end: Step, text: str) -> None:
    job = job_of(r2=[None], r3=[end])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(reader.news))
        assert reader.lines == [f"barrier 1: {text}; [0-1] are there"]
        assert held(session) == "0-1"
        if 2 not in session.state.stopped:  # a crash stops the others
            job.happen({2: CAME})
            assert reader.lines[1:] == [f"barrier 1: [0-2] are there; {text}; they stay stopped"]
            [barrier] = session.barriers
            assert (barrier.met, barrier.incomplete) == (1, 1)

    run(job, test)


def test_equal_ends_of_several_runs_are_named_once() -> None:
    async def test(session: Session) -> None:
        await session.ranks("0").continue_()
        await session.ranks("1-2").continue_()
        with pytest.raises(UsageError, match=r"met: \[0-2\] have ended with status 0$"):
            await session.ranks("0-2").barrier("meet")

    run(job_of(**{f"r{rank}": [Exit(code=0)] for rank in range(3)}), test)


def test_the_list_says_how_often_not_all_had_come() -> None:
    job = job_of(r3=[CAME, Exit(code=3)])

    async def test(session: Session) -> None:
        await session.barrier("meet")
        for text in ("met 1 time", "met 2 times, 1 of them not by all"):
            await session.continue_()
            assert meeting_text.barrier_line(session.barriers[0]).partition("\n")[0].endswith(text)
        assert json_meeting.barrier_state(session.barriers[0]).incomplete == 1

    run(job, test)


def test_a_barrier_counts_anew_in_a_job_that_is_launched_again() -> None:
    async def test(session: Session) -> None:
        await session.barrier("meet")
        await session.continue_()
        session.all_barriers.take_over(session.all_barriers)
        [barrier] = session.barriers
        assert (barrier.met, barrier.incomplete) == (0, 0)
        await session.continue_()
        assert session.barriers[0].met == 1

    run(job_of(), test)


def test_no_rank_runs_on_into_a_crash_of_another() -> None:
    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet", then="release")
        await session.continue_()
        assert reader.news[-1].going == RankSet()
        assert session.state.stopped == session.set

    run(job_of(r3=[CRASH]), test)


def test_lost_and_detached_ranks_are_not_waited_for() -> None:
    job = job_of(r2=[None], r3=[None])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0-1")
        session.state.lose(ranks("3"))
        session._core.wake()
        await session.ranks("2").detach()
        assert reader.lines[0] == "barrier 1: [3] is lost; [0-1] are there"
        assert reader.lines[-1] == (
            "barrier 1: [0-1] are there; [2] is detached; [3] is lost; they stay stopped"
        )

    run(job, test)


def test_detached_ranks_leave_a_barrier() -> None:
    job = job_of(r3=[None])

    async def test(session: Session) -> None:
        await all_but_one_come(session)
        await session.ranks("0-1").detach()
        assert held(session) == "2"
        await session.detach()
        assert not session.state.held

    run(job, test)


def test_deleting_the_breakpoint_releases_the_ranks() -> None:
    job = job_of(r3=[None])

    async def test(session: Session) -> None:
        await all_but_one_come(session)
        await session.ranks("0").delete(1)
        assert held(session) == "1-2"
        assert str(session.barriers[0].ranks) == "1-3"
        await session.delete(1)
        assert not session.state.held
        assert session.barriers == ()

    run(job, test)


def test_ranks_that_the_user_releases_are_not_there_any_longer() -> None:
    job = job_of(r3=[None, CAME])

    async def test(session: Session) -> None:
        await all_but_one_come(session)
        session.ranks("0").release()
        job.happen({3: CAME})
        assert session.barriers[0].met == 0
        await session.ranks("0").continue_()
        assert session.barriers[0].met == 1

    run(job, test)


def test_ranks_held_at_another_barrier_are_named() -> None:
    job = job_of(r2=[at(9, "g", breakpoint=2)], r3=[at(9, "g", breakpoint=2)])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.barrier("g")
        await session.continue_()
        await until(lambda: len(reader.news) == 2)
        assert "barrier 1: [0-1] wait; [2-3] are held at barrier 2" in reader.lines[0]
        assert "barrier 2: [2-3] wait; [0-1] are held at barrier 1" in reader.lines[1]

    run(job, test)


def test_a_step_in_flight_is_not_interrupted_to_look() -> None:
    job = job_of(r3=[None])

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.ranks("3").step(timeout_s=0.0)
        await session.ranks("0-2").continue_()
        await until(lambda: bool(reader.news))
        assert "[3] runs" in reader.lines[0]
        assert job.interrupted == []

    run(job, test)


def test_a_rank_that_is_there_before_the_answer_is_held() -> None:
    job = job_of()

    async def test(session: Session) -> None:
        await session.runs.start("continue", "", ranks("0"))
        await until(lambda: 0 in session.state.stopped)
        await session.barrier("meet")
        assert held(session) == "0"

    run(job, test)


def test_a_rank_that_another_breakpoint_has_stopped_at_the_place_is_there() -> None:
    job = job_of(**{f"r{rank}": [at(48, breakpoints=(1, 2))] for rank in range(4)})

    async def test(session: Session) -> None:
        await session.break_at("a.c:48")
        await session.barrier("meet", then="release")
        await session.barrier("meet", condition="x")
        await session.continue_()
        assert [each.met for each in session.barriers] == [1, 0]
        # The barrier does not take them away from the breakpoint.
        assert session.state.stopped == session.set and len(job.resumed) == 1

    run(job, test)


def test_a_barrier_holds_ranks_that_another_barrier_at_the_place_releases() -> None:
    both, one, other = at(48, breakpoints=(1, 2)), at(48, breakpoint=1), at(48, breakpoint=2)
    job = job_of(r0=[one], r1=[both], r2=[None, other], r3=[None])

    async def test(session: Session) -> None:
        await session.ranks("0-1").barrier("meet", then="release")
        await session.ranks("1-2").barrier("meet", then="release")
        await session.runs.start("continue", "", session.set)
        await until(lambda: 1 in session.held_for.get("barrier 2", RankSet()))
        await until(lambda: 0 in session.state.running)
        assert session.barriers[0].met == 1 and 1 in session.state.stopped
        job.happen({2: other})
        await until(lambda: session.barriers[1].met == 1)
        await until(lambda: session.state.running >= ranks("0-2"))

    run(job, test)


def test_ranks_that_come_do_not_stop_the_others() -> None:
    job = job_of(r3=[None])

    async def test(session: Session) -> None:
        session.options = session.options.changed(stop_mode="all")
        await all_but_one_come(session)
        await session.evaluate("x")  # an interrupt would be sent before
        assert str(session.state.running) == "3"
        assert job.interrupted == []

    run(job, test)


def test_bad_input_is_refused() -> None:
    job = job_of(r3=[Exit(code=0)])

    async def test(session: Session) -> None:
        await session.ranks("3").continue_()
        for wrong in (
            session.barrier(""),
            session.barrier("meet", times=-1),
            session.barrier("meet", then="go"),  # type: ignore[arg-type]
            session.wait_barrier(7),
        ):
            with pytest.raises(UsageError):
                await wrong
        with pytest.raises(UsageError, match=r"never be met: \[3\] has ended with status 0; 'bar"):
            await session.ranks("2-3").barrier("meet")
        with pytest.raises(UsageError, match="the set of ranks is empty"):
            await session.ranks("all!all").barrier("meet")
        # All ranks are those that live.
        assert str((await session.barrier("meet")).ranks) == "0-2"

    run(job, test)


def test_a_barrier_after_the_end_of_all_ranks_says_how_they_have_ended() -> None:
    job = job_of(**{f"r{rank}": [Exit(code=0)] for rank in range(4)})

    async def test(session: Session) -> None:
        await session.continue_()
        with pytest.raises(UsageError, match=r"\[0-3\] have ended with status 0$"):
            await session.barrier("meet")

    run(job, test)
