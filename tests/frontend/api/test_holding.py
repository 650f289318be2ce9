"""Held ranks: which run commands reach them, and the ends of a hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.api.exit_status import EXIT_OK, of_answer
from pgdb.frontend.api.job_state import BY_USER, JobState
from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import from_graph, to_graph
from pgdb.overlay.messages import AnyOperation, Console, Lost
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Record, Running, Stop
from tests.fakes.recorded import ALL, Job, User, begin, recorded
from tests.support.answers import ranks

NONE = RankSet()


class HeldJob(Job):
    """Ranks that run at every command that may set them running."""

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, Console) and operation.run:
            return Running(run=request_id)
        return super().answer(operation, rank, request_id)


def notify(session: Session, text: str, event: Event) -> None:
    session.traffic.on_events((EquivalenceClass(ranks(text), event),))


def stop(session: Session, text: str, run: int) -> None:
    notify(session, text, Stop(reason="end-stepping-range", run=run))


def run(test: Callable[[HeldJob, Session], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        job = HeldJob()
        session = begin(job)
        await test(job, session)
        await session.close()

    asyncio.run(work())


def test_run_commands_leave_held_ranks_where_they_are() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        assert session.ranks("1-2").hold() == ranks("1-2")
        assert session.ranks("2-3").hold() == ranks("3")
        for start in (
            session.runs.start("next", "", ALL),
            session.runs.start_console("stepi 3", ALL),
        ):
            answer = await start
            assert job.reached[-1] == ranks("0")
            assert answer.missing == Missing(held=ranks("1-3"))
            assert answer.check() is answer
            assert of_answer(answer, ended_well=NONE) == EXIT_OK
            assert session.state.running == ranks("0")
            stop(session, "0", answer.request_id)
        answer = await session.evaluate("x")
        assert job.reached[-1] == ALL and not answer.missing

    run(test)


def test_the_wait_is_for_ranks_that_are_not_held() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.ranks("3").hold()
        started = await session.run("next", wait=False)
        stop(session, "0-2", started.request_id)
        answer = await session.runs.finish(started)
        assert answer.missing == Missing(held=ranks("3"))
        assert RankSet.union(each.ranks for each in answer.classes) == ranks("0-2")

    run(test)


def test_a_command_for_held_ranks_only_is_an_error() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.ranks("1-2").hold()
        asked = len(job.reached)
        with pytest.raises(CommandError, match=r"'next': ranks 1-2 are held; 'release 1-2' lets"):
            await session.ranks("1-2").next()
        with pytest.raises(CommandError, match=r"'jump 4': rank 1 is held; 'release 1' lets it"):
            await session.ranks("1").execute("jump 4")
        assert len(job.reached) == asked and session.state.stopped == ALL

    run(test)


def test_a_running_rank_is_held_at_its_stop() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        started = await session.run("continue", wait=False)
        session.ranks("0").hold()
        assert session.state.running == ALL
        stop(session, "0-3", started.request_id)
        answer = await session.run("continue", wait=False)
        assert answer.missing == Missing(held=ranks("0"))
        # Beside ranks that run, no rank can be set running by the command.
        answer = await session.run("continue", wait=False)
        assert answer.missing == Missing(running=ranks("1-3"), held=ranks("0"))

    run(test)


def test_ranks_that_pgdb_stops_for_itself_are_continued() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.ranks("0").hold()
        answer = await session.runs.start("continue", "", ALL, held_too=True)
        assert job.reached[-1] == ALL and not answer.missing

    run(test)


def test_released_ranks_stay_stopped_until_a_run_command() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.ranks("0-2").hold()
        assert session.ranks("2-3").release() == ranks("2")
        assert session.state.stopped == ALL and session.state.held == ranks("0-1")
        with pytest.raises(CommandError, match=r"no rank of \[2-3\] is held; held are \[0-1\]"):
            session.ranks("2-3").release()
        session.release()
        with pytest.raises(CommandError, match="no rank is held"):
            session.release()
        answer = await session.run("next", wait=False)
        assert job.reached[-1] == ALL and not answer.missing

    run(test)


def test_a_rank_is_held_as_long_as_one_reason_holds_it() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        holding = session.holding
        holding.hold(ranks("0-2"), "barrier 3")
        session.ranks("2-3").hold()
        assert session.held_for == {"barrier 3": ranks("0-2"), BY_USER: ranks("2-3")}
        assert holding.release(ranks("0-2"), "barrier 3") == ranks("0-1")
        assert session.held_for == {BY_USER: ranks("2-3")}
        holding.hold(ranks("2"), "barrier 3")
        assert session.ranks("2").release() == ranks("2")
        assert session.held_for == {BY_USER: ranks("3")}

    run(test)


@pytest.mark.parametrize(
    ("event", "held"), [(Exit(code=0), "2-3"), (Gone(why="it was killed"), "0-3")]
)
def test_the_end_of_a_rank_ends_its_hold(event: Event, held: str) -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.hold()
        notify(session, "0-1", event)
        assert session.state.held == ranks(held)

    run(test)


def test_detach_and_kill_end_the_hold() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.hold()
        await session.ranks("0").detach()
        await session.ranks("1").kill()
        assert session.state.held == ranks("2-3")
        await session.detach()
        assert not session.state.held and session.state.detached == ranks("0,2-3")
        with pytest.raises(CommandError, match=r"\[0\] detached; 'reattach' attaches to it again"):
            session.ranks("0").hold()

    run(test)


def test_lost_ranks_are_held_again_when_they_are_back() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.ranks("2-3").hold()
        session.traffic.on_lost(Lost(nodes=(1,), ranks=ranks("2-3"), why="closed"))
        answer = await session.run("next", wait=False)
        assert answer.missing == Missing(lost=ranks("2-3"))
        session.state.take_back(ranks("2-3"))
        with pytest.raises(CommandError, match="ranks 2-3 are held"):
            await session.ranks("2-3").run("next", wait=False)

    run(test)


def test_a_job_state_knows_its_held_ranks_by_name() -> None:
    state = JobState(ALL)
    state.apply((EquivalenceClass(ALL, Stop(reason="entry")),))
    assert state.named("held") == NONE
    assert state.hold(ranks("1,3"), BY_USER) == ranks("1,3")
    assert state.hold(ranks("1,3"), BY_USER) == NONE
    assert state.named("held") == ranks("1,3")


def test_held_ranks_travel_and_count_as_missing() -> None:
    missing = Missing(held=ranks("1"), running=ranks("2"))
    assert from_graph(to_graph((), missing)) == ((), missing)
    assert missing and Missing(held=ranks("1")) and missing.ranks == ranks("1-2")
    assert missing - ranks("1") == Missing(running=ranks("2"))
    assert missing | Missing(held=ranks("3")) == Missing(held=ranks("1,3"), running=ranks("2"))


def test_the_prompt_holds_and_releases() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        user = User(session)
        assert await user.type("hold 1-2") == "[1-2] held\n"
        started = await session.ranks("0").run("continue", wait=False)
        assert await user.type("proc 0-1 hold") == (
            "[0] runs on; held from its next stop on ('interrupt' stops it)\n[1] held already\n"
        )
        stop(session, "0", started.request_id)
        assert "ranks 0-2 are held; 'release 0-2'" in await user.type("proc 0-2 next")
        assert "[0-2] held" in await user.type("ranks")
        assert "@held" not in await user.type("focus @held")
        assert await user.type("focus") == "focus [0-2]\n"
        session.holding.hold(ranks("0"), "barrier 3")
        assert await user.type("release @held!0") == (
            "[1-2] released\n[0]   held still\n[0]   held for barrier 3 still\n"
        )
        assert await user.type("release") == "[0] released\n"
        assert "release: no rank is held" in await user.type("release")
        assert "no rank 9" in await user.type("hold 9")
        assert "empty set" in await user.type("hold @held")
        assert "@held is a set of PGDB's own" in await user.type("defset held 1")
        with pytest.raises(RankSetError):
            session.ranks("9").hold()

    run(test)


def test_ranks_that_run_when_they_are_held_are_reported_by_their_number() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        user = User(session)
        await session.ranks("1-2").run("continue", wait=False)
        assert (await user.type("hold all")).splitlines() == [
            "[0,3] held",
            "[1-2] run on; held from their next stop on ('interrupt' stops them)",
        ]

    run(test)


def test_the_answer_names_the_held_ranks() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        user = User(session)
        await user.type("hold 3")
        assert "[3] held" in await user.type("next &")

    run(test)


def test_an_empty_set_is_named() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        for each, call in (("hold", session[5:9].hold), ("release", session[5:9].release)):
            with pytest.raises(UsageError, match=f"^{each}: the set of ranks is empty$"):
                call()
        with pytest.raises(UsageError, match=r"^next --lockstep: the set of ranks is empty$"):
            await session[5:9].lockstep("next")

    run(test)


def test_programs_name_sets_by_a_text() -> None:
    async def test(job: HeldJob, session: Session) -> None:
        session.sets["q"] = "0-1"
        session.sets["r"] = "@q,3"
        assert session.ranks("@r").set == ranks("0-1,3")
        with pytest.raises(RankSetError, match="no rank 4-7"):
            session.sets["q"] = "0-7"
        assert session.sets["q"] == ranks("0-1")

    run(test)


@pytest.mark.parametrize("count", [0, -1])
def test_a_step_is_at_least_one(count: int) -> None:
    async def test(job: HeldJob, session: Session) -> None:
        for word, call in (("step", session.step), ("next", session.next)):
            message = f"^{word}: count is {count}, and not a number from 1 to 1000000000$"
            with pytest.raises(UsageError, match=message):
                await call(count)
        assert not job.asked

    run(test)


def test_nothing_is_held_in_a_recording(tmp_path: Any) -> None:
    from tests.fakes.recorded import asked_of

    recorded(tmp_path / "r", ("bt",))
    shown = asked_of(tmp_path / "r", "hold 1", "release 1")
    assert "this is a recording" in shown[0] and "is held" in shown[1]
