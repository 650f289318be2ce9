"""The depth at which GDB prints values: lowered for frames, restored before a value shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from pgdb.backend.gdb.command_kinds import prints_unasked
from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.lent_setting import LentSetting
from pgdb.backend.gdb.mi import Result, console, cut
from pgdb.backend.gdb.process import END_WHEN_FREE
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import OWN_DEPTH, RESTORE_DEPTH
from pgdb.overlay.messages import (
    AnyOperation,
    Backtrace,
    BreakpointCommands,
    Console,
    Evaluate,
    InsertBreakpoint,
    ListVariables,
    Resume,
    Script,
    SelectFrame,
)

LOWERED, RESTORED = "-gdb-set print max-depth 0", "-gdb-set print max-depth 20"
FRAMES, ARGUMENTS = "-stack-list-frames", "-stack-list-arguments 1"
STEP = "-exec-step"
QUIT = '^error,msg="Quit"'


class Gdb(GdbSession):
    """A GDB that answers ``^done``, or next what the test has put into a table."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.answers: dict[str, list[str]] = {}
        self.changes = 0
        self._put_off: list[str] = []
        self.lent = LentSetting()
        self.arguments = FrameArguments(lent=self.lent)

    def _write(self, *commands: str) -> list[asyncio.Future[Result]]:
        return [self._answer(command) for command in commands]

    def _answer(self, command: str) -> asyncio.Future[Result]:
        self.written.append(command)
        queue = self.answers.get(command, [])
        line = cut(queue.pop(0) if queue else "^done")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        future.set_result(Result(kind=line.name, payload=line.payload))
        return future

    async def bt(self) -> list[str]:
        """Ask for a stack with arguments; return the commands that were sent since the last one."""
        self.arguments.ask(self.ask_together, FRAMES, where="@")
        return await self.sent()

    async def sent(self, *commands: str) -> list[str]:
        """Send commands; return those that were sent since the last time."""
        if commands:
            self.send_together(*commands)
        await asyncio.sleep(0)
        written, self.written = self.written, []
        return written


def run(test: Callable[[Gdb], Coroutine[Any, Any, None]]) -> None:
    async def carry_out() -> None:
        await test(Gdb())

    asyncio.run(carry_out())


def test_steps_and_stacks_in_turn_lower_the_depth_once() -> None:
    async def test(gdb: Gdb) -> None:
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]
        for command in (STEP, "-exec-next", "-exec-continue", "-exec-step-instruction"):
            assert await gdb.sent(command) == [command]
            assert await gdb.bt() == [FRAMES, ARGUMENTS]
        assert await gdb.sent(console("frame 2")) == [console("frame 2")]
        assert await gdb.sent("-gdb-show confirm") == ["-gdb-show confirm"]
        assert await gdb.bt() == [FRAMES, ARGUMENTS]

    run(test)


def test_a_forked_gdb_has_the_depth_lowered_from_the_start() -> None:
    async def test(gdb: Gdb) -> None:
        gdb.lent.begin_changed(RESTORE_DEPTH)
        assert await gdb.sent("-target-attach 7") == ["-target-attach 7"]
        assert await gdb.bt() == [FRAMES, ARGUMENTS]
        leaving = (console(END_WHEN_FREE), "-target-detach")
        assert await gdb.sent(*leaving) == [*leaving]
        assert await gdb.sent(console("print x")) == [RESTORED, console("print x")]
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]

    assert LOWERED.removeprefix("-gdb-") == OWN_DEPTH.command
    run(test)


@pytest.mark.parametrize(
    "command",
    [
        console("print x"),
        console("show print max-depth"),
        console("with print max-depth 2 -- p x"),
        console("set print max-depth 3"),
        console("frame function f"),
        "-gdb-show print max-depth",
        "-data-evaluate-expression x",
        "-stack-list-locals 1",
        "-stack-list-arguments 1",
        "-exec-finish",
        "-exec-until",
        "-thread-info",
    ],
)
def test_the_depth_is_restored_before_a_command_that_may_show_it(command: str) -> None:
    async def test(gdb: Gdb) -> None:
        await gdb.bt()
        await gdb.sent(STEP)
        assert await gdb.sent(command) == [RESTORED, command]
        assert await gdb.sent(command) == [command]
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]
        assert await gdb.sent(FRAMES, command) == [RESTORED, FRAMES, command]

    run(test)


def test_whole_arguments_are_printed_at_the_users_depth() -> None:
    async def test(gdb: Gdb) -> None:
        await gdb.bt()
        gdb.arguments.ask_whole(gdb.ask_together, "@")
        assert await gdb.sent() == [RESTORED, ARGUMENTS]

    run(test)


def test_the_depth_that_the_user_has_set_meanwhile_is_the_one_restored() -> None:
    async def test(gdb: Gdb) -> None:
        await gdb.bt()
        await gdb.sent(console("set print max-depth 3"))
        gdb.arguments.on_notice("cmd-param-changed", {"param": "print max-depth", "value": "3"})
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]
        assert await gdb.sent("-exec-finish") == ["-gdb-set print max-depth 3", "-exec-finish"]

    run(test)


def test_a_gdb_that_may_print_by_itself_has_the_users_depth_at_once() -> None:
    async def test(gdb: Gdb) -> None:
        await gdb.bt()
        gdb.lent.is_shown_unasked = True
        assert await gdb.sent(STEP) == [RESTORED, STEP]
        for _ in range(2):
            assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS, RESTORED]
            assert await gdb.sent(STEP) == [STEP]

    run(test)


def test_a_sequence_of_commands_changes_the_depth_where_it_must() -> None:
    async def test(gdb: Gdb) -> None:
        printed, silent = console("print x"), console("python hooks()")
        sent = [*await gdb.bt(), *await gdb.sent(STEP), *await gdb.bt(), *await gdb.sent(printed)]
        sent += await gdb.bt()
        gdb.lent.is_shown_unasked = prints_unasked(Console(command="python hooks()"))
        sent += [*await gdb.sent(silent), *await gdb.sent(STEP), *await gdb.bt()]
        first = [FRAMES, LOWERED, ARGUMENTS, STEP, FRAMES, ARGUMENTS, RESTORED, printed]
        second = [FRAMES, LOWERED, ARGUMENTS, RESTORED, silent, STEP]
        assert sent == [*first, *second, FRAMES, LOWERED, ARGUMENTS, RESTORED]

    run(test)


def test_an_interrupt_that_hits_a_setting_leaves_no_other_depth() -> None:
    async def test(gdb: Gdb) -> None:
        gdb.answers = {LOWERED: [QUIT], RESTORED: [QUIT]}
        await gdb.bt()
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]
        assert await gdb.sent("-exec-finish") == [RESTORED, "-exec-finish", RESTORED]
        assert await gdb.bt() == [FRAMES, LOWERED, ARGUMENTS]

    run(test)


UNASKED: Mapping[AnyOperation, bool] = {
    Console(command="print x"): False,
    Console(command="info locals"): False,
    Console(command="set print max-depth 3"): False,
    Console(command="thread 2"): False,
    Console(command="thread apply all display x"): True,
    Console(command="display x"): True,
    Console(command="define hook-stop"): True,
    Console(command="printer"): True,
    Console(command="with print max-depth 1 -- display x"): True,
    Script(lines=("define hook-stop", "p x", "end")): True,
    BreakpointCommands(numbers=("1",), commands=("print x",)): True,
    InsertBreakpoint(command="break f if x > 1", first_number=1): False,
    InsertBreakpoint(command="tbreak f", first_number=1): False,
    InsertBreakpoint(command='dprintf f,"%d",x', first_number=1): True,
    InsertBreakpoint(command="watch mesh", first_number=1): True,
    Evaluate(expression="x"): False,
    Backtrace(): False,
    ListVariables(which="locals"): False,
    SelectFrame(command="frame 1"): False,
    Resume(command="step"): False,
    Resume(command="finish"): False,
}


@pytest.mark.parametrize(("operation", "expected"), UNASKED.items(), ids=str)
def test_operations_after_which_gdb_may_print_by_itself(
    operation: AnyOperation, expected: bool
) -> None:
    assert prints_unasked(operation) is expected
