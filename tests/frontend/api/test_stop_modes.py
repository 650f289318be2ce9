"""Stop modes: which ranks stop with others, and how that is reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api import sampling, stop_modes
from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.json.json_notifications import notification
from pgdb.frontend.show.json.json_shapes import StopLine
from pgdb.frontend.show.text import render
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop
from tests.fakes.recorded import ALL, User
from tests.fakes.stopping import StoppingJob, run, until
from tests.support.answers import ranks


def test_a_stop_of_one_rank_stops_all_and_is_one_notification() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        waiting = asyncio.create_task(session.wait())
        await asyncio.sleep(0)
        job.hit("3")
        answer = await waiting
        assert job.interrupted == ["0-2"] and session.state.stopped == ALL
        assert job.events == [[("0-2", "interrupted", "3"), ("3", "breakpoint-hit", "")]]
        texts = {str(each.ranks): render.record(each) for each in answer.classes}
        assert texts["0-2"].startswith("stopped with [3] in f (") and "Breakpoint 1" in texts["3"]
        reported = next(
            each for each in job.reported if isinstance(each, RankEvents) and each.classes[1:]
        )
        lines = notification(reported, lambda each: "", 0.0)
        assert isinstance(lines[0], StopLine) and len(lines) == 1
        assert [each.stopped_with for each in lines[0].classes] == ["3", ""]

    run(test, "all")


def test_the_mode_rank_leaves_the_others_alone() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        job.hit("3")
        await asyncio.sleep(0)
        assert not job.interrupted and session.state.running == ranks("0-2")
        assert job.events == [[("3", "breakpoint-hit", "")]]

    run(test)


def test_the_mode_focus_is_about_the_focus() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        user = User(session)
        await user.type("focus 1-2")
        job.hit("3")
        await asyncio.sleep(0)
        assert not job.interrupted
        job.hit("1")
        await until(session, lambda: session.state.running == ranks("0"))
        assert job.interrupted == ["2"]
        assert job.events[1:] == [[("1", "breakpoint-hit", ""), ("2", "interrupted", "1")]]

    run(test, "focus")


def test_each_run_is_about_the_focus_of_the_user_interface_that_started_it() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        first, second = User(session), User(session)
        await first.type("focus 0-1")
        await second.type("focus 1-3")
        await first.type("continue &")
        await second.type("continue &")
        assert session.state.running == ALL
        job.hit("1")
        await until(session, lambda: session.state.running == ranks("2-3"))
        assert job.interrupted == ["0"]
        job.hit("2")
        await until(session, lambda: not session.state.running)
        assert job.interrupted == ["0", "3"]

    run(test, "focus", runs=False)


def test_a_continuation_belongs_to_the_user_interface_of_the_run_before_it() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        first, second = User(session), User(session)
        session.stop_modes.set_rule(1, members="0")
        await first.type("focus 1-2")
        await first.type("continue &")
        await second.type("focus 2-3")
        job.hit("2")  # it is no member: PGDB continues it
        await until(session, lambda: job.resumed[1:])
        job.hit("2", number=2)
        await until(session, lambda: not session.state.running)
        assert job.resumed == ["1-2", "2"] and job.interrupted == ["1"]

    run(test, "focus", runs=False)


def test_a_run_of_no_user_interface_is_about_each_focus_with_the_rank() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        first, second = User(session), User(session)
        await first.type("focus 0-1")
        await second.type("focus 2-3")
        job.hit("3")
        await until(session, lambda: session.state.running == ranks("0-1"))
        assert job.interrupted == ["2"]

    run(test, "focus")


@pytest.mark.parametrize(
    "event",
    [
        Stop(reason="end-stepping-range"),
        Stop(reason="function-finished"),
        Stop(reason="interrupted"),
        Exit(code=0),
    ],
)
def test_steps_and_interrupts_concern_no_other_rank(event: Stop | Exit) -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        job.notify("3", event)
        await asyncio.sleep(0)
        assert not job.interrupted and session.state.running == ranks("0-2")

    run(test, "all")


@pytest.mark.parametrize("reason", ["watchpoint-trigger", "signal-received", "exec"])
def test_other_stops_are_as_breakpoints(reason: Any) -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        job.notify("3", Stop(reason=reason))
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["0-2"]

    run(test, "all")


def test_ranks_at_a_barrier_wait_for_the_others() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        point = await session.barrier("f")
        job.hit("3", point.number)
        await asyncio.sleep(0)
        assert not job.interrupted and session.state.running == ranks("0-2")
        job.hit("2", point.number + 1)
        await until(session, lambda: not session.state.running)
        assert job.interrupted == ["0-1"]

    run(test, "all")


def test_a_breakpoint_at_the_place_of_a_barrier_stops_the_others() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        point = await session.ranks("2-3").barrier("f")
        await session.break_at("f", stop="all")
        job.hit("3", point.number, breakpoints=(point.number, session.last_breakpoint))
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["0-2"] and session.barriers[0].arrived == ranks("3")

    run(test)


def test_the_last_rank_at_a_barrier_stops_the_others_for_a_breakpoint_of_the_place() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        point = await session.ranks("2-3").barrier("f")
        await session.break_at("f", stop="all")
        job.hit("2-3", point.number, breakpoints=(point.number, session.last_breakpoint))
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["0-1"] and session.barriers[0].met == 1

    run(test)


def test_behind_a_look_that_ended_a_step_ranks_outside_a_set_go_on() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        session.stop_modes.set_rule(1, members="0")
        await session.run("next", wait=False)
        await session.interrupt()
        await sampling.go_on(session, ALL)
        job.hit("2")
        await until(session, lambda: job.resumed[2:])
        assert job.resumed[1:] == [str(ALL), "2"] and session.state.running == ALL

    run(test, runs=False)


def test_ranks_that_run_on_from_a_barrier_stop_nobody() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        point = await session.ranks("2-3").barrier("f", then="release")
        job.hit("3", point.number)
        job.hit("2", point.number)
        assert session.state.passing == ranks("2-3")
        await until(session, lambda: not session.state.passing)
        assert not job.interrupted and session.state.running == ALL
        assert job.resumed == ["2-3"]

    run(test, "all")


def test_ranks_that_are_about_to_run_on_from_a_barrier_stop_with_others() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        point = await session.ranks("2-3").barrier("f", then="release")
        job.hit("3", point.number)
        job.hit("2", point.number)
        job.hit("1", point.number + 1)
        await until(session, lambda: not session.state.running)
        assert not session.state.passing
        assert job.interrupted == ["0"] and not job.resumed

    run(test, "all")


def test_a_breakpoint_has_a_mode_of_its_own() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        await session.break_at("f", stop="all")
        await session.break_at("g")
        job.hit("3", session.last_breakpoint)
        await asyncio.sleep(0)
        assert not job.interrupted
        job.hit("2", session.last_breakpoint - 1)
        await until(session, lambda: session.state.stopped == ALL)
        assert job.interrupted == ["0-1"]
        with pytest.raises(UsageError, match="neither one of 'rank', 'focus', 'all'"):
            await session.break_at("f", stop="some")  # type: ignore[arg-type]

    run(test)


def test_a_rank_that_hits_it_too_is_part_of_the_moment() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        job.deaf = ranks("1")
        job.hit("3")
        await until(session, lambda: session.state.running == ranks("1"))
        assert not job.events
        job.hit("1")
        assert job.events == [
            [("0,2", "interrupted", "3"), ("1,3", "breakpoint-hit", "")],
        ]
        # The moment is over: an interrupt of the user's is one again.
        await session.run("continue", wait=False)
        job.deaf = RankSet()
        await session.interrupt()
        assert job.events[1:] == [[(str(rank), "interrupted", "")] for rank in ALL]

    run(test, "all")


def test_a_rank_that_does_not_stop_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_modes, "TOGETHER_S", 0.0)
    monkeypatch.setattr(stop_modes, "INTERRUPT_S", 0.0)

    async def test(job: StoppingJob, session: Session) -> None:
        job.deaf = ranks("1")
        job.hit("3")
        await until(session, lambda: job.notes)
        assert job.notes == ["[1] not stopped with [3]: all threads block SIGURG"]
        reported = [row for rows in job.events for row in rows]
        assert ("3", "breakpoint-hit", "") in reported and len(reported) >= 2
        # Its later stop is one of its own.
        job.deaf = RankSet()
        await session.interrupt()
        assert job.events[-1] == [("1", "interrupted", "")]

    run(test, "all")


def test_a_wait_that_ends_before_the_others_stop_shows_the_first_stop() -> None:
    async def test(job: StoppingJob, session: Session) -> None:
        job.deaf = ranks("0-2")
        waiting = asyncio.create_task(session.wait(settle_s=0.001))
        await asyncio.sleep(0)
        job.hit("3")
        assert not job.events
        answer = await waiting
        assert answer.missing.running == ranks("0-2")
        assert job.events == [[("3", "breakpoint-hit", "")]]

    run(test, "all")
