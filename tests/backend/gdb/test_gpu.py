"""Stops in kernels and texts about kernels, as cuda-gdb 13.0 printed them on an H100."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pgdb.backend.gdb import gpu_words
from pgdb.backend.gdb.attach import Acquired
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import console, cut
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_report import StopReports
from pgdb.backend.gdb.stop_words import StopWords, stop_words
from pgdb.overlay.messages import Backtrace
from pgdb.records import Stop, Threads, is_fatal
from tests.fakes.gdb_events import GdbEvents
from tests.fakes.table_gdb import NO_ARGUMENTS, PID, TableGdb, ask, functions

FOCUS = (
    'CudaFocus={device="0",sm="124",warp="0",lane="0",kernel="0",grid="1",blockIdx="(0,0,0)",'
    'threadIdx="(4,0,0)"}'
)
FRAME = (
    'frame={addr="0x00007ffdd57adb70",func="relax",args=[{name="n",value="3"}],file="heat.cu",'
    'fullname="/nosuch/heat.cu",line="44",arch="m68k"},thread-id="1",stopped-threads="all"'
)
PLACE = "CUDA kernel 0, grid 1, block (0,0,0), thread (4,0,0)"
HOST = (
    'frame={addr="0x00007ffff72ecbdf",func="clock_nanosleep",args=[],from="/lib/libc.so.6",'
    'arch="i386:x86-64"},thread-id="1",stopped-threads="all"'
)


def stop_of(fields: str) -> Stop:
    """Return the stop of a ``*stopped`` with these fields."""
    gdb = GdbSession(GdbEvents())
    reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
    return reports.stop_of(cut(f"*stopped,{fields}").payload, 1, 0)


def stop_after(*lines: str) -> Stop:
    """Return the stop with which lines of GDB during a run end."""
    events = GdbEvents()
    gdb = GdbSession(events)
    events.breakpoints = Breakpoints(gdb)
    reports = StopReports(gdb, Stacks(gdb), events.breakpoints)
    for line in ('*running,thread-id="all"', *lines):
        gdb._take(cut(line))
    return reports.stop_of(events.stops.get_nowait(), 1, 0)


def test_a_stop_in_a_kernel_says_where() -> None:
    stop = stop_of(f'{FOCUS},reason="breakpoint-hit",disp="keep",bkptno="2",locno="2",{FRAME}')
    assert (stop.reason, stop.breakpoint, stop.detail) == ("breakpoint-hit", 2, PLACE)
    assert stop.frame is not None and stop.frame.function == "relax"
    # The multiprocessor differs by chance, and each rank of a host may use a device of its own.
    elsewhere = FOCUS.replace('"124"', '"7"').replace('device="0"', 'device="3"')
    assert stop_of(f'{elsewhere},reason="end-stepping-range",{FRAME}').detail == PLACE


@pytest.mark.parametrize("focus", ["CudaFocus={},", 'CudaFocus="",', ""])
def test_a_stop_on_the_host_has_no_place_on_a_gpu(focus: str) -> None:
    assert stop_of(f'{focus}reason="end-stepping-range",{FRAME}').detail == ""


def test_a_cluster_of_blocks_is_named() -> None:
    focus = FOCUS.replace("blockIdx", 'clusterIdx="(1,0,0)",blockIdx')
    payload = cut(f"*stopped,{focus}").payload
    assert gpu_words.place_on_gpu(payload) == PLACE.replace("block", "cluster (1,0,0), block")


def test_an_exception_says_which_line_has_triggered_it() -> None:
    stop = stop_of(
        'exception_name="Warp Illegal Address",pc="0x7ffdd57ae0b0",'
        'function="fault(double*, Part)",filename="heat.cu",line="71",reason="signal-received",'
        f'signal-name="CUDA_EXCEPTION_14",signal-meaning="Warp Illegal Address",{FOCUS},{FRAME}'
    )
    assert (stop.signal, stop.meaning) == ("CUDA_EXCEPTION_14", "Warp Illegal Address")
    assert stop.detail == f"triggered in fault(double*, Part) at heat.cu:71; {PLACE}"
    # Code without line information, and a failed assertion, have less.
    without = stop_of(
        'exception_name="Warp Illegal Address",pc="0x7ffdd57ae0b0",function="fault",'
        f'reason="signal-received",signal-name="CUDA_EXCEPTION_14",{FOCUS},{FRAME}'
    )
    assert without.detail == f"triggered in fault; {PLACE}"
    failed = stop_of(f'reason="signal-received",signal-name="CUDA_EXCEPTION_12",{FOCUS},{FRAME}')
    assert failed.detail == PLACE


def test_a_thread_of_the_gpu_is_announced() -> None:
    text = "\nCUDA thread hit Breakpoint 2.2, relax<<<(2,1,1),(64,1,1)>>> (n=3) at heat.cu:44\n"
    payload = cut(f'*stopped,{FOCUS},reason="breakpoint-hit",bkptno="2",thread-id="5"').payload
    assert stop_words(text, payload) == StopWords(2, location=2), "a thread of the host is none"


def test_the_begin_of_a_kernel_is_no_breakpoint_of_the_users() -> None:
    text = (
        r"\nCUDA thread hit application kernel entry function breakpoint, relax<<<(2,1,1),"
        r"(64,1,1)>>> (n=3) at heat.cu:44\n"
    )
    stop = stop_after(f'~"{text}"', f'*stopped,{FOCUS},reason="breakpoint-hit",{FRAME}')
    assert (stop.reason, stop.breakpoint) == ("breakpoint-hit", 0)
    assert stop.event == "application kernel entry function breakpoint"


def test_an_exception_in_a_kernel_is_fatal() -> None:
    assert is_fatal(Stop(reason="signal-received", signal="CUDA_EXCEPTION_14"))
    assert not is_fatal(Stop(reason="signal-received", signal="SIGUSR1"))


def test_a_watchpoint_that_cannot_be_read_any_more_is_no_hit() -> None:
    stop = stop_after(
        r'&"Error evaluating expression for watchpoint 4\n"',
        r'&"value has been optimized out\n"',
        r'~"Watchpoint 4 deleted.\n"',
        '=breakpoint-modified,bkpt={number="4",type="watchpoint",disp="dstp",enabled="n",times="1"}',
        f"*stopped,{FOCUS},{FRAME}",
    )
    assert (stop.reason, stop.breakpoint) == ("other", 0)
    assert stop.detail == f"watchpoint 4 is deleted: value has been optimized out; {PLACE}"


KERNELS = (
    "  Kernel Parent Dev Grid Status        SMs Mask GridDim BlockDim Invocation \n"
    "       3      -   0    1 Active 0x0050 (2,1,1) (64,1,1) spin()     \n"
    "       4      -   0    2 Active 0x0050 (2,1,1) (64,1,1) spin()     \n"
)
SWITCHED = (
    "[Switching focus to CUDA kernel 3, grid 1, block (0,0,0), thread (0,0,0), device 0, sm 124, "
    "warp 0, lane 0]\n0x00007ffdd57adf90\t61\t        turn += part.rank + 1;\n"
)
COUNT = "-data-evaluate-expression $cuda_num_present_kernels"


def described(answers: dict[str, str], times: int = 1) -> tuple[Stop, list[str]]:
    """Return the last report of so many interrupts, and what GDB was asked."""

    async def run() -> tuple[Stop, list[str]]:
        gdb = TableGdb({"-stack-list-arguments 1 0 63": NO_ARGUMENTS, **answers})
        gdb.first_thread = "1"
        reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
        payload = cut(f'*stopped,reason="signal-received",signal-name="0",{HOST}').payload
        for _ in range(times):
            stop = Stop(reason="interrupted", run=1)
            assert not reports.is_complete(stop, payload)
            shown, _ = await reports.describe(stop, PID, is_elsewhere=True)
        return shown, gdb.asked

    return asyncio.run(run())


def test_an_interrupted_rank_is_in_its_kernel() -> None:
    in_kernel = '^done,stack=[frame={level="0",addr="0x7ffd",func="spin",arch="m68k"}]'
    stop, asked = described(
        {
            COUNT: '^done,value="2"',
            console("info cuda kernels"): f"~{KERNELS}",
            console("cuda kernel 3"): f"~{SWITCHED}",
            "-stack-list-frames 0 63": in_kernel,
        }
    )
    assert stop.detail == "CUDA kernel 3, grid 1, block (0,0,0), thread (0,0,0)"
    assert stop.frame is not None and stop.frame.function == "spin"
    assert not any("-thread-select" in each for each in asked), "that would leave the kernel"


@pytest.mark.parametrize(
    ("count", "asks"),
    [('^done,value="0"', 2), ('^done,value="void"', 1), ('^error,msg="no"', 1)],
)
def test_without_a_kernel_the_host_is_shown(count: str, asks: int) -> None:
    on_host = '^done,stack=[frame={level="0",addr="0x1500",func="work",arch="i386:x86-64"}]'
    stop, asked = described({COUNT: count, "-stack-list-frames 0 63": on_host}, times=2)
    assert stop.detail == "" and stop.frame is not None and stop.frame.function == "work"
    assert asked.count(COUNT) == asks, "a GDB that knows no kernels is asked once"


def test_the_first_stop_names_the_kernel() -> None:
    payload = cut(f'*stopped,reason="signal-received",signal-name="0",{FOCUS},{FRAME}').payload

    async def first() -> Stop:
        gdb = TableGdb({"-stack-list-frames 0 63": '^error,msg="no frame"'})
        reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
        return await reports.first(Acquired(PID, "attached", payload), 1, ["a note"])

    stop = asyncio.run(first())
    assert (stop.reason, stop.detail) == ("attached", f"a note; {PLACE}")


def test_the_stack_of_a_kernel_is_beside_those_of_the_threads() -> None:
    host = '{id="1",target-id="Thread 0x1 (LWP 1)",frame={addr="0x1500",arch="i386:x86-64"}}'
    kernel = '{level="0",addr="0x7ffd",func="relax",arch="m68k"}'
    gdb = TableGdb(
        {
            "-thread-info": f'^done,threads=[{host}],current-thread-id="1"',
            "-stack-info-frame": f"^done,frame={kernel}",
            "-stack-list-frames": f"^done,stack=[frame={kernel}]",
            "-stack-list-arguments 1": NO_ARGUMENTS,
            "-stack-list-frames --thread 1": '^done,stack=[frame={level="0",addr="0x1500",'
            'func="main",arch="i386:x86-64"}]',
            "-stack-list-arguments --thread 1 1": NO_ARGUMENTS,
        }
    )
    record: Any = ask(gdb, Backtrace(threads=True))
    assert isinstance(record, Threads)
    assert [functions(each.stack) for each in record.stacks] == [["relax"], ["main"]]
    assert not any("-select" in each for each in gdb.asked), "the kernel stays selected"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            r'relax(,args=[{name="before",value="0x7ffd"},{name="c",value="0x1 \"a,b\""}]) ',
            'relax(before=0x7ffd, c=0x1 "a,b") ',
        ),
        ("gather<16, long>(,args=[]) ", "gather<16, long>() "),
        ("spin()     ", "spin()     "),
        ("f(,args=[{name=half", "f(,args=[{name=half"),
    ],
)
def test_arguments_of_kernels_are_shown_as_by_the_command_line(text: str, shown: str) -> None:
    assert gpu_words.with_invocations(text) == shown


def test_which_commands_list_kernels() -> None:
    for command in ("info cuda kernels", "i cuda launch trace", "inf cuda kernels"):
        assert gpu_words.lists_kernels(command)
    for command in ("info cudax", "cuda kernel 0", "print 1"):
        assert not gpu_words.lists_kernels(command)
