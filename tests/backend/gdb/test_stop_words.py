"""GDB 13.1's announcements of stops, as recorded, and the records that they lead to."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import cut
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_report import StopReports
from pgdb.backend.gdb.stop_words import Announcements, StopWords, stop_words, without_announcement
from pgdb.records import Failure, Stop
from tests.fakes.gdb_events import GdbEvents

THROWN = r"Catchpoint 2 (exception thrown), 0x00007ffff7ca90a1 in __cxa_throw () from /lib/libc.so"
ANNOUNCED = [
    ("\nBreakpoint 1, work (n=1) at t.c:10\n10\twork();\n", {"bkptno": "1"}, StopWords(1)),
    (
        '\nThread 2 "worker" hit Breakpoint 1, work (n=3) at t.c:10\n',
        {"bkptno": "1", "thread-id": "2"},
        StopWords(1, thread="2", thread_name="worker"),
    ),
    (
        '\nThread 1 "app" hit Breakpoint 1, work (n=3) at t.c:10\n',
        {"bkptno": "1", "thread-id": "1"},
        StopWords(1),
    ),
    ("\nTemporary breakpoint 3, main () at t.c:1\n", {"bkptno": "3"},
     StopWords(3, "Temporary breakpoint")),
    ("\nBreakpoint 7.2, over () at t.c:1\n", {"bkptno": "7", "locno": "2"},
     StopWords(7, location=2)),
    (f"\n{THROWN}\n", {"bkptno": "2"}, StopWords(2, "Catchpoint", "exception thrown")),
    ("\nCatchpoint 5 (returned from syscall write), x\n",
     {"reason": "syscall-return", "bkptno": "5"},
     StopWords(5, "Catchpoint", "returned from syscall write")),
    ("\nCatchpoint 6\n  Inferior loaded /lib/libz.so.1\n    /lib/liby.so\n__GI () at x.c:1\n",
     {"reason": "solib-event", "bkptno": "6"},
     StopWords(6, "Catchpoint", "loaded /lib/libz.so.1, /lib/liby.so")),
    ("Catchpoint 4 (signal SIGUSR1), \n", {"reason": ""},
     StopWords(4, "Catchpoint", "signal SIGUSR1")),
    ("\nHardware watchpoint 2: x\n\nOld value = 1\n",
     {"reason": "watchpoint-trigger", "wpt": {"number": "2"}}, StopWords(2, "Hardware watchpoint")),
    ("", {"reason": "read-watchpoint-trigger", "hw-rwpt": {"number": "2"}},
     StopWords(2, "Hardware read watchpoint")),
    ("\nHardware access (read/write) watchpoint 4: x\n",
     {"reason": "access-watchpoint-trigger", "hw-awpt": {"number": "4"}},
     StopWords(4, "Hardware access (read/write) watchpoint")),
    # The output of a breakpoint's commands or of dprintf, which means nothing.
    ("Catchpoint 9 (my own words), is here\n\nBreakpoint 1, work () at t.c:1\n", {"bkptno": "1"},
     StopWords(1)),
    ("Breakpoint 1, is what I print\n", {"reason": "end-stepping-range"}, StopWords()),
    ('\nThread 3 "a \\"b" received signal SIGSEGV, Segmentation fault.\n',
     {"reason": "signal-received", "thread-id": "3"},
     StopWords(thread="3", thread_name='a \\"b')),
    ("", {"bkptno": "7", "disp": "del"}, StopWords(7, "Temporary breakpoint")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "payload", "expected"), ANNOUNCED)
def test_an_announcement(text: str, payload: dict[str, Any], expected: StopWords) -> None:
    assert stop_words(text, {"reason": "breakpoint-hit", **payload}) == expected


HIT = '=breakpoint-modified,bkpt={number="2",type="breakpoint",addr="0x1149",times="1"}'
RUNNING = '*running,thread-id="all"'
FRAME = 'frame={addr="0x11de",func="main",args=[],arch="i386:x86-64"},thread-id="1"'


def stop_after(word: str, *lines: str) -> Stop:
    """Return the stop after a command and GDB's lines."""
    events = GdbEvents()
    gdb = GdbSession(events)
    events.breakpoints = Breakpoints(gdb)
    reports = StopReports(gdb, Stacks(gdb), events.breakpoints)
    reports.take_run(word)
    for line in lines:
        gdb._take(cut(line))
    return reports.stop_of(events.stops.get_nowait(), 1, 0)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("finish", "function-finished"),
        ("until 12", "location-reached"),
        ("advance", "location-reached"),
        ("stepi", "end-stepping-range"),
        ("jump 5", "other"),
        ("signal 0", "other"),
        ("continue", "other"),
    ],
)
def test_a_stop_without_a_reason_is_none_at_an_earlier_breakpoint(word: str, reason: str) -> None:
    stop = stop_after(word, RUNNING, HIT, RUNNING, f"*stopped,{FRAME}")
    assert (stop.reason, stop.breakpoint, stop.hit) == (reason, 0, "")
    # A breakpoint that GDB passes over a number of times counts its hits.
    stop = stop_after(word, RUNNING, HIT, f"*stopped,{FRAME}")
    assert (stop.reason, stop.breakpoint) == (reason, 0)


def test_a_record_that_cannot_go_on_is_no_interrupt() -> None:
    stop = stop_after(
        "next",
        RUNNING,
        r'&"Process record does not support instruction bound.\n"',
        r'&"Process record does not support instruction 0x62 at address 0x7ffff7dfcac2.\n"',
        r'&"Process record: failed to record execution log.\n"',
        rf'*stopped,reason="signal-received",signal-name="0",signal-meaning="Signal 0",{FRAME}',
    )
    assert (stop.reason, stop.signal) == ("other", "")
    assert "it does not know instruction 0x62; 'record stop' lets the rank run on" in stop.meaning
    silent = rf'*stopped,reason="signal-received",signal-name="0",signal-meaning="Signal 0",{FRAME}'
    assert stop_after("next", RUNNING, silent).reason == "interrupted"


def test_a_silent_breakpoint_stops_without_a_word() -> None:
    stop = stop_after("continue", RUNNING, HIT, '*stopped,thread-id="1"')
    assert (stop.reason, stop.breakpoint) == ("breakpoint-hit", 2)
    stop = stop_after("continue", RUNNING, HIT, RUNNING, '*stopped,thread-id="1"')
    assert (stop.reason, stop.breakpoint) == ("other", 0)


def test_a_caught_signal_is_a_catchpoint() -> None:
    stop = stop_after(
        "finish", RUNNING, HIT, r'~"Catchpoint 2 (signal SIGUSR1), "', f"*stopped,{FRAME}"
    )
    assert (stop.reason, stop.breakpoint) == ("breakpoint-hit", 2)
    assert (stop.hit, stop.event) == ("Catchpoint", "signal SIGUSR1")


def test_words_of_an_earlier_run_are_forgotten() -> None:
    stop = stop_after(
        "continue",
        RUNNING,
        r'~"\nThread 2 \"old\" hit Catchpoint 2 (exception thrown), f ()\n"',
        RUNNING,
        '*stopped,reason="breakpoint-hit",bkptno="2",thread-id="3",'
        + FRAME.partition(",thread")[0],
    )
    assert (stop.hit, stop.event, stop.thread, stop.thread_name) == ("", "", "3", "")


@pytest.mark.parametrize("reason", ["breakpoint-hit", "end-stepping-range", "function-finished"])
def test_a_place_the_user_asked_for_is_the_innermost_frame(reason: str) -> None:
    events = GdbEvents()
    gdb = GdbSession(events)
    reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
    lined = FRAME.replace("args=[]", 'args=[],file="a.c",fullname="/nosuch/a.c",line="3"')
    payload = cut(f'*stopped,reason="{reason}",{lined},return-value="4"').payload
    stop = reports.stop_of(payload, 1, 0)
    assert stop.frame is not None and stop.frame.function == "main"
    assert reports.is_complete(stop, payload), "nothing is left to be asked"
    without = cut(f'*stopped,reason="{reason}",{lined}').payload
    is_sure = reason != "function-finished"
    assert reports.is_complete(reports.stop_of(without, 1, 0), without) is is_sure
    interrupted = cut(f'*stopped,reason="signal-received",signal-name="0",{FRAME}').payload
    assert not reports.is_complete(reports.stop_of(interrupted, 1, 0), interrupted)


@pytest.mark.parametrize(("word", "line"), [("step", ""), ("stepi", ""), ("stepi", ',line="3"')])
def test_a_step_that_no_line_shows_needs_its_offset(word: str, line: str) -> None:
    gdb = GdbSession(GdbEvents())
    reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
    reports.take_run(word)
    frame = FRAME.replace("args=[]", f"args=[]{line}")
    payload = cut(f'*stopped,reason="end-stepping-range",{frame}').payload
    assert not reports.is_complete(reports.stop_of(payload, 1, 0), payload)


@pytest.mark.parametrize("command", ["display x", "display/i $pc"])
def test_displays_are_shown_at_all_later_stops(command: str) -> None:
    gdb = GdbSession(GdbEvents())
    reports = StopReports(gdb, Stacks(gdb), Breakpoints(gdb))
    payload = cut(f'*stopped,reason="breakpoint-hit",{FRAME}').payload
    stop = reports.stop_of(payload, 1, 0)
    for other in ("displays x", "display", "info display"):
        reports.take_command(other)
    assert reports.is_complete(stop, payload)
    reports.take_command(command)
    assert not reports.is_complete(stop, payload)


@pytest.mark.parametrize(
    ("printed", "left"),
    [
        ('one\n\nThread 1 "app" hit Breakpoint 1, f () at f.c:3\n3\t{\n', "one"),
        ("\nBreakpoint 1, f () at f.c:3\n3\t{\n", ""),
        ("\nProgram received signal SIGFPE, Arithmetic exception.\nf () at f.c:3\n", ""),
        ("nothing of that\n", "nothing of that\n"),
    ],
)
def test_the_error_of_a_call_has_no_announcement(printed: str, left: str) -> None:
    message = "The program being debugged stopped while in a function called from GDB.\nMore"
    failed = Failure(message=message, output=printed)
    assert without_announcement(failed) == Failure(message=message, output=left)
    other = Failure(message="No symbol table.", output=printed)
    assert without_announcement(other) == other


def test_a_stop_that_gdb_takes_back_keeps_its_announcement() -> None:
    failed = Failure(
        message="The program being debugged was signaled while in a function called from GDB.\n"
        "GDB has restored the context to what it was before the call.",
        output="\nProgram received signal SIGINT, Interrupt.\npause () at pause.c:3\n",
    )
    assert without_announcement(failed) == failed


def test_long_displays_behind_an_announcement_do_not_hide_it() -> None:
    announced = Announcements()
    announced.add('Thread 1 "a" hit Catchpoint 2 (exception thrown), 0x7f in __cxa_throw ()\n')
    for number in range(300):
        announced.add(f"{number}: values = {{{'0.25, ' * 5000}}}\n")
    found = stop_words(announced.take(), {})
    assert (found.number, found.hit, found.event) == (2, "Catchpoint", "exception thrown")
    assert not announced.take()
