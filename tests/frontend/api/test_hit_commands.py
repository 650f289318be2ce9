"""Commands of breakpoints whose set of ranks is read at each hit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.api.session import Session
from pgdb.overlay.messages import AnyOperation, BreakpointCommands, Interrupt, Script
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsChanged, Failure, Output, Record, Running, Text
from tests.fakes.recorded import ALL
from tests.fakes.stopping import StoppingJob, run, stops, until
from tests.support.answers import ranks


class CommandJob(StoppingJob):
    """Ranks whose GDBs carry out scripts: ``mine`` sets the rank running, ``bad`` fails."""

    def __init__(self) -> None:
        super().__init__()
        self.carried_out: dict[int, list[str]] = {}
        """Lines that the GDB of each rank has carried out."""
        self.kept: list[BreakpointCommands] = []
        """Commands that the GDBs were given for breakpoints."""
        self.begun = 0
        self.goes_on = asyncio.Event()
        """Condition for the answers to scripts."""
        self.goes_on.set()

    async def ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str = "",
        *,
        of_ended: bool = False,
    ) -> Gathered:
        if isinstance(operation, Script):
            self.begun += 1
            await self.goes_on.wait()
        elif isinstance(operation, BreakpointCommands):
            self.kept.append(operation)
        return await super().ask(request_id, ranks, operation, timeout_s)

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if not isinstance(operation, Script):
            return super().answer(operation, rank, request_id)
        self.carried_out.setdefault(rank, []).extend(operation.lines)
        if "bad" in operation.lines:
            return Failure(message='line 2: Undefined command: "bad".', output=f"at {rank}\n")
        if "mine" in operation.lines:
            return Running(run=request_id)
        return Text(text=f"at {rank}")

    @property
    def printed(self) -> list[tuple[str, str]]:
        """Ranks and text of the output that was reported."""
        return [
            (str(one.ranks), one.filled.text)
            for each in self.reported
            if isinstance(each, RankEvents)
            for one in each.classes
            if isinstance(one.filled, Output)
        ]


def check(test: Callable[[CommandJob, Session], Coroutine[Any, Any, None]]) -> None:
    run(test, job_type=CommandJob)  # type: ignore[arg-type]


async def breakpoint_of(session: Session, members: str, *lines: str) -> int:
    """Make a breakpoint of a set, with commands; return its number."""
    await session.break_at("f", members=members)
    number = session.last_breakpoint
    await session.breakpoint_commands([str(number)], lines)
    return number


async def end_of_commands(session: Session) -> None:
    await until(session, lambda: not session.state.passing)


def test_the_ranks_of_the_set_carry_them_out() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x", "echo done")
        waiting = asyncio.create_task(session.ranks("1-2").wait())
        await asyncio.sleep(0)
        job.goes_on.clear()
        job.hit("0-2", number)
        await until(session, lambda: job.begun and job.resumed)
        assert job.resumed == ["0"] and [str(each.ranks) for each in stops(job)] == ["1-2"]
        assert not waiting.done()  # their output comes first
        job.goes_on.set()
        await waiting
        assert job.carried_out == {each: ["print x", "echo done"] for each in (1, 2)}
        assert job.printed == [("1", "at 1"), ("2", "at 2")] * 2
        assert session.state.stopped == ranks("1-2")

    check(test)


def test_the_gdbs_do_not_have_them() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        first = await breakpoint_of(session, "1-2", "print x")
        await session.break_at("g")
        second = session.last_breakpoint
        await session.breakpoint_commands([str(first), str(second)], ["print y"])
        assert [each.judged for each in job.kept] == [(str(first),)] * 2
        job.hit("0", second)
        job.hit("1", first)
        await end_of_commands(session)
        assert job.carried_out == {1: ["print y"]}

    check(test)


def test_a_line_that_sets_ranks_running_is_the_last_one() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "silent", "print x", "continue", "print y")
        job.hit("1-2", number)
        await until(session, lambda: job.resumed == ["1-2"])
        await end_of_commands(session)
        assert session.state.running == ranks("0-3") and not stops(job)
        assert job.carried_out == {each: ["print x"] for each in (1, 2)}
        # A hit of the same run is judged as before, also after commands that no one can read.
        await session.breakpoint_commands([str(number)], ["silent", "mine", "print z"])
        job.hit("1", number)
        job.hit("0", number)
        await until(session, lambda: job.resumed == ["1-2", "0"])
        await end_of_commands(session)
        assert job.carried_out[1] == ["print x", "mine"]
        assert session.state.running == ranks("0-3") and not stops(job)
        job.hit("1", number)
        await end_of_commands(session)
        assert job.carried_out[1] == ["print x", "mine", "mine"]

    check(test)


def test_silent_ranks_that_stay_are_shown() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "silent", "print x")
        job.goes_on.clear()
        job.hit("1", number)
        await until(session, lambda: job.begun)
        assert not stops(job)
        job.goes_on.set()
        await end_of_commands(session)
        assert [str(each.ranks) for each in stops(job)] == ["1"]

    check(test)


def test_an_error_ends_them() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "bad", "continue")
        job.hit("1", number)
        await end_of_commands(session)
        assert job.printed == [("1", "at 1"), ("1", 'error: Undefined command: "bad".')]
        assert session.state.stopped == ranks("1") and not job.resumed

    check(test)


@pytest.mark.parametrize("line", ["continue", "mine", "python gdb.execute('c')"])
def test_a_held_rank_does_not_run_on_by_them(line: str) -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x", line)
        session.ranks("1").hold()
        job.hit("1-2", number)
        await end_of_commands(session)
        assert job.notes[-1] == (
            f"[1] held, so '{line}' of breakpoint {number} has no effect there"
        )
        assert session.state.stopped >= ranks("1") and line not in job.carried_out[1]
        assert job.resumed == (["2"] if line == "continue" else [])

    check(test)


def test_an_interrupt_ends_them() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x", "continue")
        job.goes_on.clear()
        job.hit("1-2", number)
        await until(session, lambda: job.begun)
        await session.ranks("1").interrupt()
        job.goes_on.set()
        await until(session, lambda: job.resumed == ["2"])
        await end_of_commands(session)
        assert session.state.stopped == ranks("1")
        # The order to stop can come while the GDBs carry out a line that sets the rank running.
        await session.breakpoint_commands([str(number)], ["mine"])
        job.goes_on.clear()
        job.hit("2", number)
        await until(session, lambda: job.begun == 2)
        await session.ranks("2").interrupt()
        job.goes_on.set()
        await until(session, lambda: job.interrupted[-1:] == ["2"])
        await until(session, lambda: session.state.stopped == ranks("1-2"))

    check(test)


@pytest.mark.parametrize("is_look", [False, True])
def test_a_hit_before_the_order_to_stop_keeps_the_rank_there(is_look: bool) -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "silent", "print x", "continue")
        job.deaf = ranks("1")
        passing = session.passing.begin(ranks("1")) if is_look else None
        await session.traffic.ask("interrupt", Interrupt(), ranks("1"), is_own=is_look)
        job.hit("1", number)
        if passing is not None:
            # PGDB looks where the rank is: the user has asked for no stop.
            session.passing.end(passing)
            await until(session, lambda: job.resumed == ["1"])
        await end_of_commands(session)
        assert session.state.stopped == (ranks("") if is_look else ranks("1"))
        assert [str(each.ranks) for each in stops(job)] == ([] if is_look else ["1"])
        assert job.carried_out == {1: ["print x"]}

    check(test)


@pytest.mark.parametrize("then", ["stop", "release"])
@pytest.mark.parametrize("line", ["continue", "next", "mine", "python gdb.execute('c')"])
def test_they_take_no_rank_past_a_barrier(line: str, then: Any) -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x", line, "print y")
        barrier = (await session.barrier("f", then=then, times=1)).number
        for arriving in ("1", "0,2-3"):
            job.hit(arriving, number, breakpoints=(number, barrier))
            await end_of_commands(session)
        assert job.carried_out == {rank: ["print x"] for rank in (1, 2)}
        text = f"error: '{line}' has no effect: barrier {barrier} holds the rank"
        assert [each for each in job.printed if "error" in each[1]] == [("1", text), ("2", text)]
        # Both breakpoints are for these ranks, which the met barrier does not let run on.
        assert session.state.stopped >= ranks("1-2") and not session.state.held

    check(test)


@pytest.mark.parametrize("first", ["silent", "print x"])
def test_other_ranks_stop_with_those_that_carry_them_out(first: str) -> None:
    async def test(job: CommandJob, session: Session) -> None:
        await session.break_at("f", members="1-2", stop="all")
        number = session.last_breakpoint
        await session.breakpoint_commands([str(number)], [first, "print y"])
        job.hit("1", number)
        await until(session, lambda: session.state.stopped == ALL)
        await end_of_commands(session)
        assert job.interrupted == ["0,2-3"]
        stopped = {str(each.ranks): each.record.stopped_with for each in stops(job)}
        assert stopped == {"1": "", "0,2-3": "1"}
        assert job.carried_out[1][-1] == "print y"

    check(test)


def test_each_breakpoint_of_a_place_has_its_own() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        first = await breakpoint_of(session, "1-2", "print x")
        second = await breakpoint_of(session, "2-3", "print y")
        job.hit("0-3", first, breakpoints=(first, second))
        await end_of_commands(session)
        assert job.carried_out == {1: ["print x"], 2: ["print x", "print y"], 3: ["print y"]}
        await session.ranks("2").breakpoint_commands([str(second)], ["print z"])
        await session.ranks("3").breakpoint_commands([str(second)], [])
        job.carried_out.clear()
        await session.run("continue", wait=False)
        job.hit("2-3", second)
        await end_of_commands(session)
        assert job.carried_out == {2: ["print z"]}

    check(test)


def test_a_change_of_the_breakpoint_leaves_them() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x")
        changed = Breakpoint(number=number, kind="breakpoint", condition="i > 3")
        job.notify("0-3", BreakpointsChanged(changed=(changed,), last=number))
        job.hit("1", number)
        await end_of_commands(session)
        assert job.carried_out == {1: ["print x"]}
        await session.delete(number)
        assert not session.traffic.hit_commands.due(stops(job)[-1:])  # type: ignore[arg-type]

    check(test)


def test_a_next_of_the_set_carries_them_out_too() -> None:
    async def test(job: CommandJob, session: Session) -> None:
        number = await breakpoint_of(session, "1-2", "print x")
        job.hit("0-3", 0)
        await session.run("next", wait=False)
        job.hit("1", number)
        await end_of_commands(session)
        assert job.carried_out == {1: ["print x"]} and session.state.stopped == ranks("1")

    check(test)
