"""The requests to a rank's GDB for stacks, and the use of its answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from pgdb.backend.gdb import rank_image
from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.sbd.rank_files import MappedFile
from pgdb.overlay.messages import Backtrace
from pgdb.records import Failure, Record, Stack, Threads
from tests.fakes.table_gdb import NO_ARGUMENTS, PID, TableGdb, ask, functions

MAPPED = (
    MappedFile(0x1000, 0x2000, 0, "/home/me/app", is_deleted=False),
    MappedFile(0x7000, 0x8000, 0, "/opt/lib/libmpi.so.12.0", is_deleted=False),
    MappedFile(0x8000, 0x9000, 0, "/lib/libucs.so.0", is_deleted=False),
    MappedFile(0x9000, 0xA000, 0, "/lib/libc.so.6", is_deleted=False),
)


@pytest.fixture(autouse=True)
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_image, "mapped", lambda pid: iter(MAPPED))
    monkeypatch.setattr(rank_image.os, "readlink", lambda path: "/home/me/app")


def frames(*found: tuple[str, int]) -> str:
    """Return the answer to -stack-list-frames: functions and addresses, innermost first."""
    listed = (
        f'frame={{level="{level}",addr="{address:#x}",func="{function}"}}'
        for level, (function, address) in enumerate(found)
    )
    return f"^done,stack=[{','.join(listed)}]"


WAITING = frames(("sched_yield", 0x9100), ("??", 0x7200), ("work", 0x1100), ("main", 0x1200))


@pytest.mark.parametrize(
    ("length", "instruction"),
    [
        (5, "call   0x5080 <MPI_Recv@plt>"),
        (6, "call   *0x2fe2(%rip)        # 0x7fd8 <MPI_Recv@got.plt>"),
        (4, "bl     0x400 <pmpi_recv__>"),
    ],
)
def test_a_call_without_a_symbol_is_named_from_its_caller(length: int, instruction: str) -> None:
    command = f"-data-disassemble -s {0x1100 - length} -e {0x1100} -- 0"
    found = f'^done,asm_insns=[{{address="0x1",inst="{instruction}"}}]'
    gdb = TableGdb({"-stack-list-frames": WAITING, command: found})
    stack = ask(gdb, Backtrace(), times=2)
    assert functions(stack) == ["PMPI_Recv", "work", "main"]
    assert isinstance(stack, Stack) and stack.hidden == "1"
    assert [each.level for each in stack.frames] == [0, 1, 2]
    assert Counter(gdb.asked)[command] == 1, "asked again for what is known"


def test_a_call_that_cannot_be_named_is_folded_all_the_same() -> None:
    two = '^done,asm_insns=[{address="0x1",inst="(bad)"},{address="0x2",inst="call <MPI_Recv>"}]'
    other = '^done,asm_insns=[{address="0x1",inst="call   0x5080 <solve>"}]'
    gdb = TableGdb(
        {
            "-stack-list-frames": WAITING,
            f"-data-disassemble -s {0x1100 - 6} -e {0x1100} -- 0": two,
            f"-data-disassemble -s {0x1100 - 5} -e {0x1100} -- 0": other,
            f"-data-disassemble -s {0x1100 - 4} -e {0x1100} -- 0": '^error,msg="no memory"',
        }
    )
    assert functions(ask(gdb, Backtrace())) == ["??", "work", "main"]


def test_what_is_not_to_be_folded() -> None:
    gdb = TableGdb({"-stack-list-frames": WAITING, "-stack-list-frames 0 1": WAITING})
    whole = ask(gdb, Backtrace(fold=False))
    assert functions(whole) == ["sched_yield", "??", "work", "main"]
    assert isinstance(whole, Stack) and whole.hidden == ""
    two = ask(gdb, Backtrace(fold=False, limit=2))
    assert functions(two) == ["sched_yield", "??"] and isinstance(two, Stack) and two.more


def test_the_innermost_and_the_outermost_frames() -> None:
    gdb = TableGdb({"-stack-list-frames": WAITING})
    inner = ask(gdb, Backtrace(limit=2))
    assert functions(inner) == ["??", "work"] and isinstance(inner, Stack) and inner.more
    outer = ask(gdb, Backtrace(limit=-1))
    assert functions(outer) == ["main"] and isinstance(outer, Stack)
    assert (outer.hidden, outer.more) == ("3", False)


def test_offsets_are_asked_once_for_each_address() -> None:
    gdb = TableGdb(
        {
            "-stack-list-frames": frames(
                ("inlined", 0x1100),
                ("work", 0x1100),
                ("fib", 0x1300),
                ("fib", 0x1300),
                ("main", 0x1200),
                ("??", 0x1400),
            ),
            console("info symbol 0x1100"): "~work + 31 in section .text of /home/me/app\n",
            console("info symbol 0x10ff"): "~work + 30 in section .text\n",
            console("info symbol 0x12ff"): "~fib(int) in section .text\n",
            console("info symbol 0x11ff"): "~No symbol matches 0x11ff.\n",
            console("info symbol 0x13ff"): "~nearest + 4711 in section .text\n",
        }
    )
    stack = ask(gdb, Backtrace(offsets=True), times=2)
    assert isinstance(stack, Stack)
    assert [each.offset for each in stack.frames] == ["", "+31", "+1", "+1", "", ""]
    assert Counter(each for each in gdb.asked if "symbol" in each).most_common(1)[0][1] == 1


def test_what_is_known_of_addresses_ends_when_a_library_comes() -> None:
    gdb = TableGdb({"-stack-list-frames": WAITING})

    async def carry_out() -> None:
        stacks = Stacks(gdb)
        await stacks.backtrace(PID, Backtrace(offsets=True))
        once = len(gdb.asked)
        stacks.on_notice("thread-created", {})
        await stacks.backtrace(PID, Backtrace(offsets=True))
        known = len(gdb.asked) - once
        stacks.on_notice("library-loaded", {})
        await stacks.backtrace(PID, Backtrace(offsets=True))
        assert known == 2 and len(gdb.asked) - once - known == once

    asyncio.run(carry_out())


SWEEPING = frames(("sweep", 0x1100), ("main", 0x1200))
HELD = '^done,stack-args=[frame={level="0",args=[{name="n",value="%s"}]},frame={level="1",args=[]}]'


def ask_twice(listed: str, before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the commands that GDB received, and the value in each answer."""
    gdb = TableGdb({"-stack-list-frames": listed, "-stack-list-arguments 1": HELD % before})

    async def carry_out() -> list[str]:
        stacks = Stacks(gdb)
        first = await stacks.backtrace(PID, Backtrace())
        gdb.answers = {**gdb.answers, "-stack-list-arguments 1": HELD % after}
        second = await stacks.backtrace(PID, Backtrace(fold=False))
        assert functions(first) == functions(second) == ["sweep", "main"]
        assert isinstance(first, Stack) and isinstance(second, Stack)
        return [each.frames[0].arguments[0].value for each in (first, second)]

    reported = asyncio.run(carry_out())
    return gdb.asked, reported


@pytest.mark.parametrize(
    "value", ["1", "-1.5e-07", "0x7ffd", "0x401136 <main+4>", "97 'a'", "true", "<optimized out>"]
)
def test_what_gdb_would_not_read_anew_is_asked_once(value: str) -> None:
    asked, reported = ask_twice(SWEEPING, value, "2")
    assert asked == ["-stack-list-frames", "-stack-list-arguments 1"]
    assert reported == [value, value]


@pytest.mark.parametrize(
    "value",
    ['0x2004 \\"red\\"', "@0x55d0: 5", "{x = 1}", "a list of 2", "<error: Cannot access memory>"],
)
def test_frames_are_asked_for_once_and_values_from_elsewhere_each_time(value: str) -> None:
    # Memory that ranks share can change while they are stopped.
    asked, reported = ask_twice(SWEEPING, value, "2")
    assert asked == ["-stack-list-frames", *["-stack-list-arguments 1"] * 2]
    assert reported == [value.replace("\\", ""), "2"]


@pytest.mark.parametrize("file", ["heat.f90", "heat.F", "heat.FOR"])
def test_arguments_of_fortran_are_where_the_caller_has_them(file: str) -> None:
    listed = SWEEPING.replace('func="sweep"', f'func="sweep",file="{file}"')
    asked, reported = ask_twice(listed, "1", "2")
    assert asked == ["-stack-list-frames", *["-stack-list-arguments 1"] * 2]
    assert reported == ["1", "2"]


@pytest.mark.parametrize(
    "between", ["a command", "an event", "another window", "a failure", "a library"]
)
def test_frames_are_asked_for_again_after(between: str) -> None:
    gdb = TableGdb({"-stack-list-frames": SWEEPING, "-stack-list-arguments 1": HELD % 1})

    async def carry_out() -> Record:
        stacks = Stacks(gdb)
        if between == "a failure":
            gdb.answers = {"-stack-list-frames": '^error,msg="no registers"'}
            assert await stacks.backtrace(PID, Backtrace()) == Failure(message="no registers")
        else:
            await stacks.backtrace(PID, Backtrace())
        moved = frames(("swept", 0x1110), ("main", 0x1200))
        gdb.answers = {"-stack-list-frames": moved, "-stack-list-frames 0 0": moved}
        asked = Backtrace()
        match between:
            case "a command":
                await gdb.send("-thread-select 2")
            case "an event":
                gdb.changes += 1
            case "another window":
                asked = Backtrace(fold=False, limit=1)
            case "a library":
                stacks.on_notice("library-unloaded", {})
        return await stacks.backtrace(PID, asked)

    assert functions(asyncio.run(carry_out()))[0] == "swept"


def test_a_stop_that_was_looked_at_whole_needs_no_second_look() -> None:
    listed = {"-stack-list-frames 0 7": SWEEPING, "-stack-list-frames 0 1": SWEEPING}
    gdb = TableGdb({**listed, "-stack-list-frames": frames(("other", 0x1100))})

    async def carry_out(limit: int) -> list[str]:
        stacks = Stacks(gdb)
        assert [each.function for each in await stacks.folded(PID, limit)] == ["sweep", "main"]
        return functions(await stacks.backtrace(PID, Backtrace()))

    assert asyncio.run(carry_out(8)) == ["sweep", "main"]
    # There may be more frames than requested.
    assert asyncio.run(carry_out(2)) == ["other"]


def threaded(**answers: str) -> TableGdb:
    """Return a GDB with four threads: main, the MPI's, and two that work at the same place."""
    worker = frames(("work", 0x1100), ("start_thread", 0x9100))
    listed = ",".join(
        f'{{id="{number}",target-id="Thread 0x1 (LWP {PID + number - 1})",'
        f'frame={{level="0",addr="0x1500",func="here"}}}}'
        for number in range(1, 5)
    )
    return TableGdb(
        {
            "-thread-info": f'^done,threads=[{listed}],current-thread-id="3"',
            "-stack-info-frame": '^done,frame={level="1",addr="0x9100",func="start_thread"}',
            "-stack-list-frames --thread 1": frames(("PMPI_Recv", 0x7100), ("main", 0x1200)),
            "-stack-list-frames --thread 2": frames(("loop", 0x8100), ("start_thread", 0x9100)),
            "-stack-list-frames --thread 3": worker,
            "-stack-list-frames --thread 4": worker,
            **{
                f"-stack-list-arguments --thread {number} 1": NO_ARGUMENTS for number in range(1, 5)
            },
            **answers,
        }
    )


def stacks_in(record: Record) -> list[tuple[int, list[str]]]:
    assert isinstance(record, Threads), record
    return [(each.count, functions(each.stack)) for each in record.stacks]


def test_threads_without_those_of_mpi() -> None:
    gdb = threaded()
    record = ask(gdb, Backtrace(threads=True))
    assert isinstance(record, Threads) and record.hidden == "1"
    assert stacks_in(record) == [(1, ["PMPI_Recv", "main"]), (2, ["work", "start_thread"])]
    # The user's thread and frame are selected by GDB again.
    assert gdb.asked[-1] == "-stack-info-frame"
    assert not any("-select" in each for each in gdb.asked)


def test_a_lost_selection_is_restored() -> None:
    places = ['^done,frame={level="0",addr="0x1200",func="main"}']
    gdb = threaded()

    def answer(command: str) -> asyncio.Future[Result]:
        if command == "-stack-info-frame" and command in gdb.asked:
            gdb.answers = {**gdb.answers, command: places[0]}
        return TableGdb.answer(gdb, command)

    gdb._write = lambda *commands: [answer(each) for each in commands]  # type: ignore[method-assign]
    assert isinstance(ask(gdb, Backtrace(threads=True)), Threads)
    assert gdb.asked[-2:] == ["-thread-select 3", "-stack-select-frame 1"]


def test_all_threads() -> None:
    record = ask(threaded(), Backtrace(threads=True, fold=False))
    assert isinstance(record, Threads) and record.hidden == ""
    assert (1, ["loop", "start_thread"]) in stacks_in(record)


def test_the_main_thread_is_never_the_runtimes() -> None:
    lost = frames(("??", 0x8100), ("??", 0x8200))
    record = ask(threaded(**{"-stack-list-frames --thread 1": lost}), Backtrace(threads=True))
    assert stacks_in(record)[0] == (1, ["??", "??"])


def test_a_damaged_stack_costs_only_itself() -> None:
    broken = '^error,msg="Cannot access memory at address 0x8"'
    record = ask(threaded(**{"-stack-list-frames --thread 4": broken}), Backtrace(threads=True))
    assert stacks_in(record) == [
        (1, ["PMPI_Recv", "main"]),
        (1, ["work", "start_thread"]),
        (1, ["here"]),
    ]
    assert isinstance(record, Threads) and record.stacks[2].stack.more


def test_what_gdb_refuses_is_said() -> None:
    error = '^error,msg="No registers."'
    gdb = TableGdb({"-stack-list-frames": error, "-thread-info": error})
    assert ask(gdb, Backtrace()) == Failure(message="No registers.")
    assert ask(gdb, Backtrace(threads=True)) == Failure(message="No registers.")


class Names:
    """Names by module, as of a process without symbols; counts what is asked."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.asked = 0

    def forget(self) -> None:
        pass

    def outdate(self) -> None:
        """Keep the list, which is of no process."""

    def name(self, pid: int, address: int, *, is_return: bool) -> str:
        self.asked += 1
        return f"app+{(address - self.base - is_return) & ~0xFF:#x}"

    def offset(self, name: str, address: int) -> str:
        module, _, start = name.partition("+0x")
        return f"+{address - self.base - int(start, 16)}" if module == "app" and start else ""


def unnamed(*addresses: int) -> dict[str, str]:
    found = frames(*(("??", each) for each in addresses))
    return {"-stack-list-frames": found, "-stack-list-frames 0 0": found}


def ask_unnamed(answers: Mapping[str, str], asked: Backtrace, base: int) -> Record:
    async def carry_out() -> Record:
        stacks = Stacks(TableGdb(answers))
        stacks._unnamed = Names(base)  # type: ignore[assignment]
        return await stacks.backtrace(PID, asked)

    return asyncio.run(carry_out())


def test_functions_without_symbols_are_distinguished_wherever_the_object_was_loaded() -> None:
    one = ask_unnamed(unnamed(0x1110, 0x1230), Backtrace(), 0x1000)
    moved = ask_unnamed(unnamed(0x1910, 0x1A30), Backtrace(), 0x1800)
    other = ask_unnamed(unnamed(0x1110, 0x1330), Backtrace(), 0x1000)
    assert functions(one) == functions(moved) == ["app+0x100", "app+0x200"]
    assert functions(other) == ["app+0x100", "app+0x300"]
    exact = ask_unnamed(unnamed(0x1110, 0x1230), Backtrace(offsets=True), 0x1000)
    assert isinstance(exact, Stack)
    assert [each.offset for each in exact.frames] == ["+16", "+48"]


def test_the_frame_a_signal_interrupted_is_at_its_own_address() -> None:
    found = frames(("handler", 0x1100), ("<signal handler called>", 0x1200), ("??", 0x1300))
    stack = ask_unnamed({"-stack-list-frames": found}, Backtrace(), 0x1000)
    assert functions(stack)[2] == "app+0x300"
    found = frames(("handler", 0x1100), ("work", 0x1200), ("??", 0x1300))
    stack = ask_unnamed({"-stack-list-frames": found}, Backtrace(), 0x1000)
    assert functions(stack)[2] == "app+0x200"


def test_stacks_with_symbols_ask_for_no_names() -> None:
    async def carry_out() -> int:
        stacks, names = Stacks(TableGdb({"-stack-list-frames": SWEEPING})), Names(0)
        stacks._unnamed = names  # type: ignore[assignment]
        await stacks.backtrace(PID, Backtrace())
        return names.asked

    assert asyncio.run(carry_out()) == 0


@pytest.mark.parametrize("file", ["a.cc", "a.f90"])
def test_whole_arguments_are_listed_frame_by_frame_in_fortran(file: str) -> None:
    listed = f'^done,stack=[frame={{level="0",addr="0x1100",func="sweep",file="{file}",line="3"}}]'

    class Gdb(TableGdb):
        depth = "20"

        def answer(self, command: str) -> asyncio.Future[Result]:
            if command.startswith("-gdb-set print max-depth "):
                self.depth = command.rpartition(" ")[2]
            value = "{x = 1}" if self.depth == "20" else "{...}"
            arguments = f'{{name="domain",value="{value}"}},{{name="n",value="2"}}'
            frame = f'level="0",func="sweep",file="{file}"'
            names = '{name="domain",arg="1"},{name="n",arg="1"}'
            self.answers = {
                "-stack-list-frames": listed,
                "-stack-info-frame": f"^done,frame={{{frame}}}",
                "-stack-list-variables 0": f"^done,variables=[{names}]",
                "-stack-list-arguments 1 0 0": (
                    f'^done,stack-args=[frame={{level="0",args=[{arguments}]}}]'
                ),
                "-stack-list-arguments 1": (
                    f'^done,stack-args=[frame={{level="0",args=[{arguments}]}}]'
                ),
            }
            return super().answer(command)

    gdb = Gdb({})
    stack = ask(gdb, Backtrace(whole=True))
    assert isinstance(stack, Stack)
    assert [each.value for each in stack.frames[0].arguments] == ["{x = 1}", "2"]
    assert ("-stack-select-frame 0" in gdb.asked) is (file == "a.f90")
    folded = ask(Gdb({}), Backtrace())
    assert isinstance(folded, Stack) and folded.frames[0].arguments[0].value == "..."
