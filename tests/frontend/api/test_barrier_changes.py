"""Barriers whose breakpoint is changed or deleted, or whose ranks are released, after a report."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.json import json_meeting
from pgdb.frontend.show.text import meeting_text
from pgdb.ranks import RankSet
from pgdb.records import Exit
from tests.fakes.moving import at, run
from tests.support.barriers import CAME, Reader, held, job_of, until
from tests.support.why_calls import recv


def test_a_barrier_has_the_condition_that_its_breakpoint_was_given_last() -> None:
    async def test(session: Session) -> None:
        await session.barrier("meet", condition="tick == 5")
        assert session.barriers[0].condition == "tick == 5"
        await session.change_breakpoints("condition", ["1"], "tick == 7")
        assert session.barriers[0].condition == "tick == 7"
        await session.ranks("0-1").change_breakpoints("condition -force", ["1"], "x")
        assert session.barriers[0].condition == "x on [0-1], tick == 7 on [2-3]"
        await session.ranks("2").change_breakpoints("condition", ["1"])
        assert session.barriers[0].condition == "x on [0-1], 1 on [2], tick == 7 on [3]"
        await session.change_breakpoints("condition", ["1"])
        assert session.barriers[0].condition == ""

    run(job_of(), test)


def test_a_rank_that_stops_elsewhere_again_is_named_with_its_last_place() -> None:
    job = job_of(r3=[at(61), at(62)])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.continue_()
        said = len(reader.lines)
        await session.ranks("3").next()
        [absent] = session.barriers[0].absent
        assert (absent.text, str(absent.ranks)) == ("is stopped in f at a.c:62", "3")
        assert len(reader.lines) == said

    run(job, test)


def test_a_change_that_would_take_a_barrier_apart_is_refused() -> None:
    async def test(session: Session) -> None:
        await session.barrier("meet")
        await session.break_at("other")
        for numbers in (["1"], ["1-2"], ["2", "1"]):
            with pytest.raises(UsageError, match=r"breakpoint 1 is a barrier, .* '.* --times 1'"):
                await session.change_breakpoints("enable delete", numbers)
        for command in ("disable", "enable"):
            with pytest.raises(UsageError, match=r"a barrier, .*; 'disable 1' and 'enable 1' are"):
                await session.change_breakpoints(command, ["1.2"])
        await session.change_breakpoints("enable once", ["1"])
        await session.change_breakpoints("enable delete", ["2"])
        await session.change_breakpoints("disable", ["2.1"])
        await session.delete(1)
        await session.change_breakpoints("enable delete", ["1"])

    run(job_of(), test)


@pytest.mark.parametrize("can_restart", [False, True])
def test_a_barrier_that_is_deleted_after_the_end_of_its_ranks_is_no_longer_listed(
    can_restart: bool,
) -> None:
    job = job_of(**{f"r{rank}": [Exit(code=0)] for rank in range(4)})

    async def test(session: Session) -> None:
        session._core.can_restart = can_restart
        await session.barrier("meet")
        await session.ranks("1-2").barrier("other")
        await session.continue_()
        assert len(session.barriers) == 2
        await session.delete(1)
        assert [each.location for each in session.barriers] == ["other"]
        await session.delete()
        assert session.barriers == ()
        assert session.breakpoints_text == ""

    run(job, test)


def test_a_barrier_with_a_rank_that_lives_stays_until_that_rank_has_no_breakpoint() -> None:
    job = job_of(r3=[Exit(code=0)])

    async def test(session: Session) -> None:
        await session.barrier("meet")
        await session.ranks("3").continue_()
        await session.ranks("0").delete(1)
        assert str(session.barriers[0].ranks) == "1-3"
        await session.ranks("1-2").delete(1)
        await session.ranks("3").delete(1)
        assert session.barriers == ()

    run(job, test)


def test_ranks_that_wait_at_a_disabled_barrier_are_named_with_those_that_cannot_come() -> None:
    job = job_of(r2=[None, None, CAME], r3=[None, CAME])

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: held(session) == "0-1")
        await session.ranks("3").change_breakpoints("disable", ["1"])
        assert reader.lines == [
            "barrier 1: [0-1] wait; [3] cannot come: breakpoint 1 is disabled; 'enable 1' lets it "
            "come, and 'release 0-1' or 'delete 1' ends the wait"
        ]
        listed = meeting_text.barrier_line(session.barriers[0])
        assert listed == (
            "1  meet, for [0-3], then they stay stopped; met 0 times; disabled on [3]\n"
            "    there: [0-1]\n"
            "    [3] cannot come: breakpoint 1 is disabled"
        )
        state = json_meeting.barrier_state(session.barriers[0])
        assert (state.disabled, state.absent[0].kind) == ("3", "disabled")
        await session.change_breakpoints("disable", ["1"])
        assert "[2-3] cannot come: breakpoint 1 is disabled; 'enable 1'" in reader.lines[1]
        assert meeting_text.barrier_line(session.barriers[0]).splitlines()[0].endswith("; disabled")
        found = await session.wait_barrier(1)
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [("disabled", "2-3")]
        await session.change_breakpoints("enable", ["1"])
        assert (session.barriers[0].disabled, session.barriers[0].absent) == (RankSet(), ())
        job.happen({2: CAME, 3: CAME})
        assert session.barriers[0].met == 1
        assert reader.lines[2:] == ["barrier 1: [0-3] are there; they stay stopped"]

    run(job, test)


def test_where_the_others_are_is_reported_after_enable() -> None:
    job = job_of(r3=[None] * 9)
    job.calls = {3: recv(0)}

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.change_breakpoints("disable", ["1"])
        assert not reader.lines
        await session.change_breakpoints("enable once", ["1"])
        await session.runs.start("continue", "", session.set)
        await until(lambda: len(reader.news) == 1)
        await session.change_breakpoints("disable", [])
        assert "cannot come" in reader.lines[1]
        # Nobody looks at a rank that cannot come.
        interrupted = len(job.interrupted)
        await asyncio.sleep(0.05)
        assert len(job.interrupted) == interrupted
        await session.change_breakpoints("enable", [])
        await until(lambda: len(reader.news) == 3)
        assert "[3] is in MPI_Recv from 0" in reader.lines[2]

    run(job, test)


def test_a_caller_does_not_wait_for_ranks_that_all_pass_a_disabled_barrier() -> None:
    job = job_of(**{f"r{rank}": [None] for rank in range(4)})

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        await session.barrier("meet")
        await session.change_breakpoints("disable", ["1"])
        await session.runs.start("continue", "", session.set)
        found = await session.wait_barrier(1)
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [("disabled", "0-3")]
        assert not job.interrupted

    run(job, test)


def test_the_end_of_the_job_is_no_news_of_a_disabled_barrier() -> None:
    job = job_of(**{f"r{rank}": [Exit(code=0)] for rank in range(4)})

    async def test(session: Session) -> None:
        reader = Reader(session)
        await session.barrier("meet")
        await session.change_breakpoints("disable", ["1"])
        await session.continue_()
        assert session.state.exited == session.set and not reader.lines

    run(job, test)


def test_the_stop_of_another_breakpoint_is_no_arrival_at_a_disabled_barrier() -> None:
    job = job_of()

    async def test(session: Session) -> None:
        await session.break_at("a.c:48")
        await session.barrier("meet")
        await session.change_breakpoints("disable", ["2"])
        await session.continue_()
        assert session.barriers[0].met == 0 and held(session, 2) == ""

    run(job, test)


def test_the_list_names_no_held_ranks_that_were_released() -> None:
    job = job_of(r3=[None] * 9)
    job.calls = {3: recv(0)}

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        await session.runs.start("continue", "", session.set)
        await until(lambda: bool(reader.news))
        assert "may wait for [0], which is held" in session.barriers[0].absent[0].text
        session.release()
        assert session.barriers[0].absent == ()

    run(job, test)


def test_a_report_is_renewed_when_others_than_those_of_the_barrier_are_released() -> None:
    job = job_of(r3=[None] * 9)
    job.calls = {3: recv(2)}

    async def test(session: Session) -> None:
        session.all_barriers.quiet_s = 0.0
        reader = Reader(session)
        await session.barrier("meet")
        session.ranks("2").hold()
        await session.ranks("0-1,3").continue_(wait=False)
        await until(lambda: bool(reader.news))
        kinds = [each.kind for each in session.barriers[0].absent]
        assert kinds == ["held", "in MPI"]
        session.ranks("2").release()
        # The report is out of date; a rank that stands elsewhere is seen without one.
        assert [each.kind for each in session.barriers[0].absent] == ["stopped"]
        await until(lambda: len(reader.news) > 1)
        kinds = [each.kind for each in session.barriers[0].absent]
        assert kinds == ["stopped", "in MPI"]
        assert "[2] is stopped in f" in reader.lines[1]

    run(job, test)
