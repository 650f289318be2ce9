"""Values that PGDB looks at for itself, and GDB's history of values; under a real GDB."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.gdb import full_values
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.reduction import read_numbers
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import Evaluate
from pgdb.records import Block, Failure, Record, Value
from tests.support.compiled import compiled
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

SOURCE = """
double huge[20000];
int many[300];
int calls;
int next(int step) { return calls += step; }
int twice(int number) { return 2 * number; }
int look(int number, int *numbers) { return number + numbers[1]; }
int main(void) {
  for (int i = 0; i < 300; i++) many[i] = i;
  huge[19999] = 2;
  return look(5, many) + next(0) + twice(-1);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("history"), "history.c", SOURCE)


async def looked_at(gdb: GdbSession, expression: str) -> Record:
    """Return a value as a verdict looks at it."""
    operation = Evaluate(
        expression=expression, most_elements=1000, limit_bytes=1 << 20, keeps_history=True
    )
    pid = int((await gdb.send(console("info inferiors"))).text.split("process ")[1].split()[0])
    return await full_values.evaluate(gdb, operation, pid)


async def text_of(gdb: GdbSession, expression: str) -> str:
    record = await looked_at(gdb, expression)
    return record.text if isinstance(record, Value) else f"error: {record}"


def test_a_verdict_leaves_the_history_as_it_is(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            for shown in ("number", "number + 1"):
                await gdb.send(console(f"print {shown}"))
            assert await text_of(gdb, "number == 5") == "1"
            # Twice: each look would have shifted what the next one names.
            for _ in range(2):
                assert await text_of(gdb, "$") == "6"
                assert await text_of(gdb, "$$") == "5"
                assert await text_of(gdb, "$ == $$") == "0"
            assert await text_of(gdb, "twice($)") == "12"
            assert await text_of(gdb, "$") == "6"
            assert isinstance(await looked_at(gdb, "nosuch"), Failure)
            whole = await looked_at(gdb, "many")
            assert isinstance(whole, Value) and isinstance(whole.whole, Block)
            assert whole.whole.shape == (300,) and whole.whole.data[250 * 4] == 250
            large = await looked_at(gdb, "huge")
            assert isinstance(large, Value) and isinstance(large.whole, Block)
            assert large.whole.shape == (20000,)
            numbers = await read_numbers(gdb, "$$", 1000, 0)
            assert isinstance(numbers, Value) and numbers.text == "5"
            assert (await gdb.send(console("print $"))).text.strip() == "$3 = 6"
            await gdb.send(console("kill"))

    asyncio.run(check())


def test_a_call_happens_once(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "look")
            await gdb.send(console("print 1"))
            assert await text_of(gdb, "next(1)") == "1"
            assert await text_of(gdb, "next($)") == "2"
            assert await text_of(gdb, "calls") == "2"
            await gdb.send(console("kill"))

    asyncio.run(check())
