"""A GDB that answers from a table, and what its stacks are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pgdb.backend.gdb.lent_setting import LentSetting
from pgdb.backend.gdb.mi import Result, cut
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.overlay.messages import Backtrace
from pgdb.records import Record, Stack

PID = 100
NO_ARGUMENTS = '^done,stack-args=[frame={level="0",args=[]}]'


class TableGdb(GdbSession):
    """A GDB that answers from a table; any other command gets ``^done``."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.changes = 0
        self._put_off: list[str] = []
        self.lent = LentSetting()

    def _write(self, *commands: str) -> list[asyncio.Future[Result]]:
        return [self.answer(command) for command in commands]

    def answer(self, command: str) -> asyncio.Future[Result]:
        if not command.startswith("-gdb-set print max-depth "):
            self.asked.append(command)
        text = ""
        said = self.answers.get(command, "^done")
        if said.startswith("~"):
            text, said = said[1:], "^done"
        line = cut(said)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        future.set_result(Result(kind=line.name, payload=line.payload, text=text))
        return future


def ask(gdb: TableGdb, asked: Backtrace, times: int = 1) -> Record:
    async def carry_out() -> Record:
        stacks = Stacks(gdb)
        for _ in range(times):
            record = await stacks.backtrace(PID, asked)
        return record

    return asyncio.run(carry_out())


def functions(stack: Record) -> list[str]:
    assert isinstance(stack, Stack), stack
    return [each.function for each in stack.frames]


def said(text: str) -> str:
    """Return the answer of a GDB that prints *text*."""
    return f"~{text}\n"
