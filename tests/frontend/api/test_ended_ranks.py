"""Requests to ranks that have ended: which debuggers are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.api.exit_status import EXIT_FAILED, EXIT_NO_ANSWER, EXIT_OK, of_answer
from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import AnyOperation, Evaluate, InsertBreakpoint, Resume
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Record
from tests.fakes.recorded import ALL, Job, User, begin

NONE, FIRST, LAST = RankSet(), RankSet([0, 1]), RankSet([2, 3])
NOT_RUN = "The program is not being run."


class EndingJob(Job):
    """Job that notes which ranks each request reaches, and whether they have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[RankSet, bool]] = []
        self.is_killed = self.is_slow = False
        self.is_asked = asyncio.Event()

    async def on_request(
        self, request_id: int, ranks: RankSet, operation: AnyOperation
    ) -> Gathered | None:
        self.requests.append((ranks, self.is_of_ended))
        if self.is_slow and isinstance(operation, Evaluate):
            self.is_asked.set()
            await asyncio.Event().wait()
        if self.is_killed:
            return Gathered(request_id, (), Missing(lost=ranks))
        return None

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, Resume) and self.is_of_ended:
            return Failure(message=NOT_RUN)
        return super().answer(operation, rank, request_id)


def end(session: Session, ranks: RankSet, code: int = 0) -> None:
    session.traffic.on_events((EquivalenceClass(ranks, Exit(code=code)),))


def run(test: Callable[[EndingJob, Session], Coroutine[Any, Any, None]]) -> None:
    async def work() -> None:
        job = EndingJob()
        session = begin(job)
        await test(job, session)
        await session.close()

    asyncio.run(work())


def test_ranks_that_have_ended_answer_if_none_asked_lives() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, FIRST)
        answer = await session.evaluate("x", of_ended=True)
        assert job.requests[-1] == (LAST, False)
        assert answer.missing == Missing(lost=FIRST)
        answer = await session.ranks(FIRST).evaluate("x", of_ended=True)
        assert job.requests[-1] == (FIRST, True)
        assert answer.missing == Missing()
        end(session, LAST)
        for ask in (
            session.evaluate("x", of_ended=True),
            session.backtrace(),
            session.locals(),
            session.execute("info line main"),
            session.execute("ptype x"),
            session.breakpoints(),
        ):
            answer = await ask
            assert job.requests[-1] == (ALL, True), answer.command
            assert answer.missing == Missing(), answer.command

    run(test)


def test_lost_ranks_are_not_asked_with_those_that_have_ended() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, FIRST)
        session.state.detach(LAST)
        answer = await session.evaluate("x", of_ended=True)
        assert job.requests[-1] == (FIRST, True)
        assert answer.missing == Missing(lost=LAST)

    run(test)


def test_checks_and_plain_evaluations_are_about_ranks_that_live() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, ALL)
        check = await session.check_that("x == x")
        assert not check.ok and check.missing == Missing(lost=ALL)
        answer = await session.evaluate("x")
        assert answer.missing == Missing(lost=ALL)
        with pytest.raises(CommandError, match="no answer from"):
            await session.where("x == x")
        assert not [ranks for ranks, _ in job.requests if ranks]

    run(test)


def test_an_interrupt_reaches_the_ended_ranks_that_are_asked() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, ALL)
        await session.interrupt()
        assert not job.requests[-1][0]
        job.is_slow = True
        asked = asyncio.create_task(session.ranks(FIRST).evaluate("x", of_ended=True))
        await job.is_asked.wait()
        await session.interrupt()
        assert job.requests[-1] == (FIRST, True)
        asked.cancel()
        await asyncio.wait([asked])

    run(test)


def test_breakpoints_are_made_after_the_end() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, ALL)
        await session.break_at("work")
        assert isinstance(job.asked[-1], InsertBreakpoint)
        assert job.requests[-1] == (ALL, True)

    run(test)


@pytest.mark.parametrize(
    ("code", "is_killed", "status"),
    [(0, False, EXIT_OK), (3, False, EXIT_FAILED), (0, True, EXIT_OK), (3, True, EXIT_NO_ANSWER)],
)
def test_run_commands_after_the_end(code: int, is_killed: bool, status: int) -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, ALL, code)
        job.is_killed = is_killed
        answer = await session.runs.start("next", "", ALL)
        assert job.requests[-1] == (ALL, True)
        assert answer.missing.lost == (ALL if is_killed else NONE)
        said = {each.record for each in answer.errors}
        assert said == (set() if is_killed else {Failure(message=NOT_RUN)})
        ended_well = ALL if code == 0 else NONE
        assert of_answer(answer, ended_well=ended_well) == status

    run(test)


def test_run_commands_leave_out_the_ended_ranks_if_others_live() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        end(session, FIRST)
        answer = await session.runs.start("next", "", ALL)
        assert job.requests[-1] == (LAST, False)
        assert answer.missing.lost == FIRST

    run(test)


def test_kill_says_that_nothing_runs() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        user = User(session)
        end(session, FIRST)
        session.state.detach(LAST)
        asked = len(job.requests)
        shown = await user.type("proc 0-1 kill")
        assert "The program is not being run: [0-1] ended" in shown
        assert "The program is not being run" not in await user.type("proc 2-3 kill")
        assert len(job.requests) == asked

    run(test)


def test_kill_has_one_line_about_a_rank() -> None:
    async def test(job: EndingJob, session: Session) -> None:
        assert await User(session).type("proc 0-1 kill") == "[0-1] ended by SIGKILL\n"

    run(test)
