"""Stacks that end too early, under a real GDB: the reason stands below them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stack_ends import with_reason
from pgdb.records import Frame, Stack
from tests.support.compiled import compiled
from tests.support.gdb_breakpoints import run_to, started

pytestmark = [pytest.mark.gdb]

SOURCE = """
__attribute__((noinline)) void inner(void) { __asm__ volatile ("nop"); }
__attribute__((noinline)) void outer(void) { inner(); }
int main(void) { outer(); return 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("ends"), "ends.c", SOURCE, "-fno-omit-frame-pointer")


async def note(gdb: GdbSession, outermost: str, **about: bool) -> str:
    found = await with_reason(gdb, Stack(frames=(Frame(level=0, function=outermost),), **about))
    assert isinstance(found, Stack)
    return found.note


def test_the_reason_of_a_stack_that_ends_too_early_is_shown(program: Path) -> None:
    async def check() -> None:
        async with started() as (gdb, listener, _):
            await run_to(gdb, listener, program, "inner")
            assert await note(gdb, "outer") == ""  # GDB finds the frame of main
            for setting in ("$rbp = 16", "$sp = 16"):
                await gdb.send(console(f"set var {setting}"))
            shown = await note(gdb, "outer")
            assert shown.startswith("Backtrace stopped: ")
            assert "0x" not in shown, "an address differs from rank to rank"
            assert await note(gdb, "main") == ""  # the stack is whole
            assert await note(gdb, "outer", more=True) == ""  # nobody asked for the rest
            await gdb.send(console("kill"))

    asyncio.run(check())
