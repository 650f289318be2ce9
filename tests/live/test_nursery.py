"""GDBs that are forked from one that has read the symbols, on processes without MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pgdb.backend.sbd.mapped_objects import linked
from pgdb.errors import GdbError
from pgdb.overlay.messages import (
    Backtrace,
    Console,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Resume,
)
from pgdb.records import Breakpoint, Done, Failure, Stack, Stop, Text, Value
from tests.support.nursery_ranks import LIBRARY, functions, ranks, reported_by, run, running
from tests.support.processes import (
    has_opened,
    is_alive,
    is_traced,
    require_calls,
    wait_opened,
    wait_progress,
    wait_until,
)
from tests.support.programs import Program
from tests.support.real_gdb import NEEDS_CC_AND_GDB

SAY = """
#include <string>
#include <unistd.h>
static int say(const std::string &who, int times) { for (;;) usleep(1000); return times; }
int main() { return say("the rank", 1); }
"""
pytestmark = NEEDS_CC_AND_GDB


def test_all_ranks_are_forked_from_one(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            stops = await found.attach(pids)
            for each in stops:
                assert isinstance(each, Stop) and each.reason == "attached"
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-2:] == ["go_on", "main"]
            # Commands look at the frame that the stop was reported with.
            for stop, said in zip(stops, await found.ask(Console(command="frame")), strict=True):
                assert f"#{stop.frame.level} " in said.text and stop.frame.level > 0
            values = await found.ask(Evaluate(expression="steps"))
            assert all(isinstance(each, Value) and int(each.text) > 0 for each in values)
            # The process that has read the symbols is gone again.
            (inferiors, *_) = await found.ask(Console(command="info inferiors"))
            assert isinstance(inferiors, Text)
            assert [line.split()[:1] for line in inferiors.text.splitlines()[1:]] == [["*"]]
            (printers, *_) = await found.ask(Console(command="info pretty-printer"))
            assert "builtin" in printers.text and "look_up" not in printers.text
            (threads, *_) = await found.ask(Console(command="info threads"))
            assert "* 1 " in threads.text and "1.1" not in threads.text
        assert found.notices == []
        assert not any(is_traced(pid) for pid in pids)

    with running(*([str(openers / "opener")] for _ in range(5))) as pids:
        run(test(pids))


@pytest.mark.skipif(not shutil.which("c++"), reason="this machine has no C++ compiler")
def test_values_of_classes_are_printed_as_by_any_gdb(tmp_path: Path) -> None:
    """The stacks are complete also before a GDB has been asked anything else, and afterwards."""
    require_calls()
    (tmp_path / "say.cpp").write_text(SAY)
    line = ["c++", "-g", "-O0", "-o", "say", "say.cpp"]
    subprocess.run(line, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, timeout=120)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            for _ in range(2):
                for stack in await found.ask(Backtrace()):
                    assert isinstance(stack, Stack), stack
                    say = next(each for each in stack.frames if each.function == "say")
                    given = {each.name: each.value for each in say.arguments}
                    assert given == {"who": '"the rank"', "times": "1"}
            await found.ask(Console(command="frame function say"))
            (word, *_) = await found.ask(Evaluate(expression="who.size()"))
            assert word == Value(text="8")
            for stack in await found.ask(Backtrace()):
                assert '"the rank"' in str(stack)
        assert found.notices == []

    with running([str(tmp_path / "say")], [str(tmp_path / "say")]) as pids:
        run(test(pids))


def test_they_run_and_stop_apart(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            set_ = await found.ask(InsertBreakpoint(command="break go_on", first_number=1))
            for each in set_:
                (breakpoint_,) = each.breakpoints
                assert isinstance(breakpoint_, Breakpoint) and breakpoint_.location_count == 1
            for number in range(2, 12):
                await found.ask(Resume(command="continue"), number)
                await found.heard(Stop, number - 1)
            for reported in found.reported.values():
                stops = [each for each in reported if isinstance(each, Stop)]
                assert {each.reason for each in stops} == {"breakpoint-hit"}
                assert {each.breakpoint for each in stops} == {1}
            before = await found.ask(Evaluate(expression="steps"))
            await found.ask(Resume(command="continue"), 20)
            await found.heard(Stop, 11)
            after = await found.ask(Evaluate(expression="steps"))
            assert [int(each.text) + 1 for each in before] == [int(each.text) for each in after]
        for pid in pids:
            wait_progress(pid)

    with running(*([str(openers / "opener")] for _ in range(6))) as pids:
        run(test(pids))


def test_each_program_has_a_nursery(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            assert len(found.parents()) == 2 and os.getpid() not in found.parents()
            names = [each.text for each in await found.ask(Console(command="info inferiors"))]
            assert ["another one" in each for each in names] == [False, True, False, True]

    lines = [[str(openers / name)] for name in ("opener", "another one") * 2]
    with running(*lines) as pids:
        run(test(pids))


def test_a_static_program_has_a_nursery(tmp_path: Path) -> None:
    source = tmp_path / "still.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) usleep(1000); }\n")
    line = ["cc", "-g", "-static", "-o", "still", str(source)]
    subprocess.run(line, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, timeout=120)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            (parent,) = found.parents()
            assert parent != os.getpid() and found.notices == []
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"

    with running(*([str(tmp_path / "still")],) * 2) as pids:
        run(test(pids))


def test_what_is_loaded_later_is_found(openers: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            for each in await found.ask(Console(command="info line visit")):
                assert isinstance(each, Failure)
            await found.ask(Resume(command="continue"), 3)
            go.touch()
            wait_opened(pids, openers / "visit.so")
            await found.ask(Interrupt(), 4)
            await found.heard(Stop, 1)
            await found.ask(InsertBreakpoint(command="break visit", first_number=1))
            await found.ask(Console(command="set variable is_free = 1"))
            await found.ask(Resume(command="continue"), 4)
            await found.heard(Stop, 2)
            for stack in await found.ask(Backtrace()):
                assert functions(stack) == ["visit", "main"]

    with running(*([str(openers / "opener"), str(go), str(openers / "visit.so")],) * 3) as pids:
        run(test(pids))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_library_that_one_rank_has_opened(openers: Path, tmp_path: Path, is_first: bool) -> None:
    """The nursery has the libraries of the first, so that it knows this one as well, or not."""
    go = tmp_path / "go"
    go.touch()

    async def test(pids: list[int], visiting: int) -> None:
        async with ranks() as found:
            await found.attach(pids[:1])
            await found.attach(pids[1:])
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            stacks = await found.ask(Backtrace())
            lines = await found.ask(Console(command="info line visit"))
            for pid, stack, line in zip(pids, stacks, lines, strict=True):
                here = [each for each in stack.frames if each.file == str(LIBRARY)]
                if pid == visiting:
                    assert functions(stack)[-3:] == ["stay", "visit", "main"]
                    assert [each.line for each in here] == [
                        library.line("stay"),
                        library.line("visit"),
                    ]
                    assert isinstance(line, Text) and str(LIBRARY) in line.text
                else:
                    assert functions(stack)[-1] == "main" and not here
                    assert isinstance(line, Failure) and "not defined" in line.message
        assert found.notices == []

    program, library = str(openers / "opener"), Program(openers / "visit.so", LIBRARY)
    with running([program, str(go), str(library.path)], [program], [program]) as pids:
        visiting, *others = pids
        wait_opened([visiting], library.path)
        assert not any(has_opened(pid, library.path) for pid in others)
        run(test([visiting, *others] if is_first else [*others, visiting], visiting))


def test_a_rehearsal_leaves_nothing(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:1])
            made = await found.nursery(pids[0])
            await made.rehearse(pids[1])
            assert not is_traced(pids[1])
            wait_progress(pids[1])
            with pytest.raises(GdbError):
                await made.rehearse(made.pid)  # no debugger of itself
            assert made.is_alive
            # As in a GDB that was started for its rank, which is the first that it knows.
            (stop,) = await found.attach(pids[1:])
            assert isinstance(stop, Stop)
            for each in found.all:
                (number,) = await reported_by(
                    each, "python print(gdb.selected_thread().global_num)"
                )
                assert number == "1"
        assert found.notices == []

    with running(*([str(openers / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_gdb_ends_when_its_last_process_is_free(openers: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:2])
            one, two = found.all
            await reported_by(one, "add-inferior", "inferior 3", f"attach {pids[2]}")
            for each in found.all:
                assert await each.perform(Detach(), 3) == Done()
            wait_until(lambda: not is_alive(two.gdb_pid), "its GDB has ended")
            assert not is_traced(pids[1])
            # It has another one, which a GDB that just ends would leave as it is.
            assert is_alive(one.gdb_pid)
            assert sorted(is_traced(pid) for pid in (pids[0], pids[2])) == [False, True]
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(openers / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_what_the_linker_has_loaded(openers: Path) -> None:
    with running([str(openers / "opener")]) as (pid,):
        names = linked(pid)
        assert any("libc.so" in Path(name).name for name in names)
        assert all(Path(name).exists() for name in names)
    with pytest.raises(OSError):
        linked(pid)
