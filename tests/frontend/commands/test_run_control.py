"""Run commands for ranks some of which run already."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.session import Session
from pgdb.overlay.messages import AnyOperation, Interrupt
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop
from tests.fakes.moving import MovingJob, Step, at, frame, run
from tests.fakes.recorded import User

HIT = at(9, breakpoint=1)
RAN_ALREADY = "ran already, so 'continue' did nothing there; 'wait' waits for their stop"


class _SlowJob(MovingJob):
    """A job whose ranks 0 and 1 do not stop at the first interrupt."""

    def __init__(self, end: Step, instead: Mapping[int, Step] | None = None) -> None:
        """Let ranks 2 and 3 run to *end*; at the first interrupt, *instead* happens."""
        super().__init__({0: [None, None], 1: [None, None], 2: [end], 3: [end]})
        self._instead = instead or {}

    async def on_request(
        self, request_id: int, ranks: RankSet, operation: AnyOperation
    ) -> Gathered | None:
        if isinstance(operation, Interrupt) and not self.interrupted:
            self.interrupted.append(str(ranks))
            asyncio.get_running_loop().call_soon(self.happen, self._instead)
            return None
        return await super().on_request(request_id, ranks, operation)


async def continued(session: Session) -> str:
    """Continue ranks 0 and 1 in the background, then all; return what is shown then."""
    user = User(session)
    await user.type("proc 0-1 continue &")
    return await user.type("continue")


def test_a_look_at_running_ranks_does_not_hide_that_they_stop_with_others() -> None:
    job = _SlowJob(HIT)

    async def test(session: Session) -> None:
        session.stop_modes.set_rule(1, "all")
        shown = await continued(session)
        # The second interrupt is that of the look.
        assert job.interrupted == ["0-1", "0-1"]
        assert session.state.stopped == job.ranks
        assert "[0-1] stopped with [2-3] in f () at a.c:1" in shown
        assert "[2-3] Breakpoint 1, f () at a.c:9" in shown
        assert "ran already" not in shown

    run(job, test)


def test_ranks_that_have_ended_during_the_command_are_not_to_be_waited_for() -> None:
    job = _SlowJob(Exit(code=0), {0: Exit(code=0), 1: Exit(code=0)})

    async def test(session: Session) -> None:
        shown = await continued(session)
        assert "[0-1] exited normally" in shown and "[2-3] exited normally" in shown
        assert "ran already" not in shown

    run(job, test)


def test_of_ranks_that_ran_before_those_that_still_run_are_named() -> None:
    job = _SlowJob(HIT, {0: at(12), 1: Stop(reason="interrupted", frame=frame(3))})

    async def test(session: Session) -> None:
        shown = await continued(session)
        assert f"note: [1] {RAN_ALREADY}" in shown

    run(job, test)


def test_ranks_that_ran_before_a_command_in_the_background_are_named() -> None:
    async def test(session: Session) -> None:
        user = User(session)
        assert "ran already" not in await user.type("proc 0-1 continue &")
        assert f"note: [0-1] {RAN_ALREADY}" in await user.type("continue &")

    run(_SlowJob(None), test)


def test_a_program_is_notified_of_ranks_that_ran_before() -> None:
    async def test(session: Session) -> None:
        notices: list[str] = []
        session.subscribe(
            lambda news: notices.append(news.text) if isinstance(news, SessionNotice) else None
        )
        await session.ranks("0-1").run("continue", wait=False)
        assert not notices
        answer = await session.run("continue", wait=False)
        assert str(answer.missing.running) == "0-1"
        assert [each.partition(";")[0] for each in notices] == [
            "[0-1] ran already, so 'continue' did nothing there"
        ]

    run(_SlowJob(None), test)
