"""PGDB's own breakpoints under a real GDB: they use up no number, unless GDB has no Python."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.own_breakpoints import OwnBreakpoints, number_in, python
from pgdb.records import BreakpointsMade, Failure
from tests.support.gdb_breakpoints import started

pytestmark = [pytest.mark.gdb]

SOURCE = "int f(int x) { return x; }\nint main(void) { return f(0); }\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("own")
    source = directory / "own.c"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-g", "-o", directory / "own", source], check=True)
    return directory / "own"


@pytest.mark.parametrize("has_python", [True, False])
def test_own_ones_use_up_a_number_only_without_python(program: Path, has_python: bool) -> None:
    async def test() -> None:
        async with started(has_python=has_python) as (gdb, _, breakpoints):
            await gdb.send(f"-file-exec-and-symbols {program}")
            own = OwnBreakpoints(gdb)
            assert not await own.stop_once("MAIN__"), "there is no such function"
            assert await own.stop_once("main")
            assert breakpoints.last == (0 if has_python else 1)
            listed = await gdb.send("-break-list")
            assert len(listed.payload["BreakpointTable"]["body"]) == (0 if has_python else 1)
            await own.pass_exec()
            breakpoints.take_changes()
            made = await breakpoints.insert("break f", breakpoints.last + 1)
            assert isinstance(made, BreakpointsMade)
            assert made.breakpoints[0].number == (1 if has_python else 2)

    asyncio.run(test())


def test_numbers_are_passed_over_up_to_the_one_that_is_wanted(program: Path) -> None:
    async def test() -> None:
        async with started() as (gdb, _, breakpoints):
            await gdb.send(f"-file-exec-and-symbols {program}")
            for first in (3, 130):  # more than are passed over at once
                made = await breakpoints.insert("tbreak f", first)
                assert isinstance(made, BreakpointsMade)
                assert [each.number for each in made.breakpoints] == [first]
                text = (await gdb.send(console("output $bpnum"))).text
                assert text == str(first)
            changes = breakpoints.take_changes()
            assert changes is None, changes
            refused = await breakpoints.insert("break nosuch", 131)
            assert isinstance(refused, Failure) and "nosuch" in refused.message
            # One that GDB was ahead with has GDB's number.
            await gdb.send(console("break f"))
            # A real session's GDB answers its question about pending breakpoints with no.
            await gdb.send(console("set breakpoint pending off"))
            line = await breakpoints.insert("break dir/train.py:15 if n > 3", 131)
            assert isinstance(line, Failure)
            assert "No source file named dir/train.py" in line.message
            made = await breakpoints.insert("break main", 131)
            assert isinstance(made, BreakpointsMade)
            assert [each.number for each in made.breakpoints] == [131, 132]

    asyncio.run(test())


@contextmanager
def waiting_shell() -> Iterator[subprocess.Popen[bytes]]:
    """Run a shell that executes another program after a line of input."""
    process = subprocess.Popen(["/bin/sh", "-c", "read x; exec sleep 600"], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("has_files", [True, False])
@pytest.mark.parametrize("has_python", [True, False])
def test_process_is_stopped_before_the_first_instruction_of_its_program(
    has_python: bool, has_files: bool
) -> None:
    async def test(process: subprocess.Popen[bytes]) -> None:
        async with started(has_python=has_python) as (gdb, events, breakpoints):
            if not has_files:
                await gdb.send("-gdb-set sysroot /proc/self/none")
                await gdb.send(f"-file-exec-file /proc/{process.pid}/exe")
            await gdb.send(f"-target-attach {process.pid}")
            await events.stops.get()
            own = OwnBreakpoints(gdb)
            await own.stop_at_exec()
            assert (await gdb.send("-exec-continue")).kind == "running"
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            payload = own.as_exec(await events.stops.get())
            assert payload["reason"] == "exec"
            assert Path(f"/proc/{process.pid}/comm").read_text().strip() == "sleep"
            # The entry of the dynamic linker: it has loaded no library yet.
            assert "libc.so" not in Path(f"/proc/{process.pid}/maps").read_text()
            await own.pass_exec()
            assert breakpoints.last == (0 if has_python else 1)
            handled = (await gdb.send(console("info signals SIGURG"))).text
            assert handled.split("SIGURG")[1].split()[:3] == ["No", "No", "No"]

    with waiting_shell() as process:
        asyncio.run(test(process))


def test_condition_of_c_holds_in_a_program_of_any_language(program: Path) -> None:
    """GDB reads conditions again when libraries are loaded."""

    async def test() -> None:
        async with started() as (gdb, events, breakpoints):
            await gdb.send(f"-file-exec-and-symbols {program}")
            await gdb.send(console("set language fortran"))
            hidden = await gdb.send(python("hide", "f", "(1 & 255) != 0 && !(1 == 2)", False))
            assert number_in(hidden) < 0
            assert not number_in(await gdb.send(python("hide", "nosuch", "1 == 1", False)))
            assert (await gdb.send("-exec-run")).kind == "running"
            stop = await events.stops.get()
            assert int(stop["bkptno"]) == number_in(hidden), stop
            assert "fortran" in (await gdb.send(console("show language"))).text
            assert number_in(await gdb.send(python("hidden_hits"))) == 1
            await gdb.send(python("delete_hidden"))
            assert number_in(await gdb.send(python("hidden_hits"))) == 0
            assert breakpoints.last == 0
            await gdb.send(console("kill"))

    asyncio.run(test())
