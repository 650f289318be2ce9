"""Breakpoints that a run passes over, under a real GDB: disabled there, and enabled for others."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Breakpoint, BreakpointList
from tests.support.gdb_breakpoints import started

pytestmark = [pytest.mark.gdb]

SOURCE = "int f(int x) { return x; }\nint main(void) { return f(0); }\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("passed")
    source = directory / "passed.c"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-g", "-o", directory / "passed", source], check=True)
    return directory / "passed"


async def of_gdb(gdb: GdbSession) -> dict[str, str]:
    """Return whether GDB has each breakpoint enabled."""
    result = await gdb.send("-break-list")
    return {each["number"]: each["enabled"] for each in result.payload["BreakpointTable"]["body"]}


async def shown(breakpoints: Breakpoints) -> dict[int, Breakpoint]:
    listed = await breakpoints.list()
    assert isinstance(listed, BreakpointList)
    return {each.number: each for each in listed.breakpoints}


def test_they_are_disabled_for_one_run_and_shown_as_the_user_has_set_them(program: Path) -> None:
    async def test() -> None:
        async with started() as (gdb, _, breakpoints):
            await gdb.send(f"-file-exec-and-symbols {program}")
            for number, command in enumerate(("break f", "tbreak main", "break f", "break f"), 1):
                await breakpoints.insert(command, number)
            await breakpoints.change("disable", ("3",), "")
            await breakpoints.change("enable count 2", ("4",), "")
            breakpoints.take_changes()
            breakpoints.passed.take((1, 2, 3, 4, 9))
            breakpoints.pass_over()
            assert await of_gdb(gdb) == dict.fromkeys("1234", "n")
            # A notice during the run, as at a library that is loaded, changes no setting.
            await gdb.send(console("ignore 1 3"))
            before = await shown(breakpoints)
            assert [each.enabled for each in before.values()] == [True, True, False, True]
            breakpoints.passed.enable()
            assert await of_gdb(gdb) == {"1": "y", "2": "y", "3": "n", "4": "y"}
            after = await shown(breakpoints)
            assert after == before and after[4].disable_after == 2
            assert after[2].disposition == "del"
            # The next run passes over none.
            breakpoints.pass_over()
            assert await of_gdb(gdb) == {"1": "y", "2": "y", "3": "n", "4": "y"}

    asyncio.run(test())


def test_what_the_user_does_meanwhile_stays(program: Path) -> None:
    async def test() -> None:
        async with started() as (gdb, _, breakpoints):
            await gdb.send(f"-file-exec-and-symbols {program}")
            for number in range(1, 6):
                await breakpoints.insert("break f", number)
            breakpoints.passed.take(range(1, 6))
            breakpoints.pass_over()
            await breakpoints.change("disable", ("1",), "")
            await breakpoints.change("enable", ("2",), "")
            await breakpoints.change("condition", ("3",), "x > 1")
            await breakpoints.change("delete", ("4",), "")
            listed = await shown(breakpoints)
            assert {number: each.enabled for number, each in listed.items()} == {
                1: False, 2: True, 3: True, 5: True,
            }  # fmt: skip
            assert await of_gdb(gdb) == {"1": "n", "2": "y", "3": "n", "5": "n"}
            breakpoints.passed.enable()
            assert await of_gdb(gdb) == {"1": "n", "2": "y", "3": "y", "5": "y"}
            # Without numbers, a command is for all.
            breakpoints.passed.take((5,))
            breakpoints.pass_over()
            await breakpoints.change("disable", (), "")
            breakpoints.passed.enable()
            assert set((await of_gdb(gdb)).values()) == {"n"}

    asyncio.run(test())
