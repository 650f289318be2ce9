"""The output of a real GDB 13.1, replayed from tests/transcripts, becomes the right records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb import breakpoint_decode, decode
from pgdb.backend.gdb.mi import Line, cut
from pgdb.frontend.show.text.breakpoint_text import breakpoint_made, breakpoint_table
from pgdb.records import Breakpoint, Exit, Frame, Location, Stop, Variable

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"
NAME = Variable(name="name", value='0x555555556008 "näme \\"q\\""')


def replay(name: str) -> Iterator[tuple[str, Line]]:
    """Yield the lines of a transcript, each with the command that was sent last."""
    command = ""
    for line in (TRANSCRIPTS / f"{name}-gdb13.1.mi").read_text("utf-8").splitlines():
        if line.startswith("# "):
            command = line[2:].lstrip("0123456789")
        elif line != "(gdb) ":
            yield command, cut(line)


def stops(name: str) -> list[Stop | Exit]:
    found: list[Stop | Exit] = []
    for _, part in replay(name):
        if part.kind == "*" and part.name == "stopped":
            end = decode.exit_of(part.payload, run=3)
            found.append(end or decode.stop(part.payload, run=3))
    return found


def answer(name: str, command: str) -> dict[str, Any]:
    return next(part.payload for sent, part in replay(name) if sent == command and part.kind == "^")


def notices(name: str, what: str) -> list[dict[str, Any]]:
    return [part.payload for _, part in replay(name) if part.kind == "=" and part.name == what]


def places(found: list[Stop | Exit]) -> list[tuple[str, str, int]]:
    return [
        (
            each.reason,
            each.frame.function if each.frame else "",
            each.frame.line if each.frame else 0,
        )
        for each in found
        if isinstance(each, Stop)
    ]


def test_breakpoints_finish_and_exit() -> None:
    found = stops("break")
    assert places(found) == [
        ("breakpoint-hit", "main", 12),
        ("breakpoint-hit", "twice", 7),
        ("function-finished", "main", 15),
    ]
    first, second, finished, end = found
    assert isinstance(first, Stop) and first.breakpoint == 1
    assert isinstance(second, Stop) and second.breakpoint == 2 and second.run == 3
    assert second.frame == Frame(
        level=0,
        function="twice",
        arguments=(
            Variable(name="x", value="1"),
            NAME,
            Variable(name="p", value="..."),
        ),
        file="target.c",
        fullname="/home/user/target.c",
        line=7,
    )
    assert isinstance(finished, Stop) and finished.detail == "value returned: 12"
    assert end == Exit(code=0, run=3)


def test_watchpoints() -> None:
    found = stops("watch")
    assert isinstance(found[1], Stop)
    assert (found[1].reason, found[1].breakpoint) == ("watchpoint-trigger", 2)
    assert found[1].detail == "counter: 0 -> 1"
    assert found[-1] == Exit(code=0, run=3)


def test_an_access_watchpoint_whose_value_was_read_has_one_value() -> None:
    for key, value, detail in (
        ("hw-awpt", {"new": "5"}, "x: 5"),
        ("hw-awpt", {"old": "4", "new": "5"}, "x: 4 -> 5"),
        ("hw-rwpt", {"value": "5"}, "x: 5"),
    ):
        payload = {"reason": "watched", key: {"number": "4", "exp": "x"}, "value": value}
        assert decode.stop(payload, run=1).detail == detail


def test_two_watchpoints_that_trigger_at_once() -> None:
    both = stops("watch")[2]
    assert isinstance(both, Stop)
    assert both.reason == "watchpoint-trigger" and both.breakpoint in (3, 4)
    assert both.detail.startswith("counter: ") and both.meaning == ""


def test_a_watchpoint_that_goes_out_of_scope() -> None:
    payload = {"reason": "watchpoint-scope", "wpnum": "6"}
    stop = decode.stop(payload, run=1)
    assert (stop.reason, stop.breakpoint) == ("watchpoint-scope", 6)


def test_steps() -> None:
    assert places(stops("step")) == [
        ("breakpoint-hit", "main", 12),
        ("end-stepping-range", "main", 13),
        ("end-stepping-range", "main", 14),
        ("end-stepping-range", "main", 15),
        ("end-stepping-range", "main", 15),
        ("location-reached", "main", 17),
        ("location-reached", "main", 18),
    ]


def test_an_exit_status_is_octal() -> None:
    assert stops("exit42") == [Exit(code=42, run=3)]


def test_a_signal_and_the_end_by_it() -> None:
    crash, end = stops("segv")
    assert isinstance(crash, Stop)
    assert (crash.reason, crash.signal) == ("signal-received", "SIGSEGV")
    assert crash.meaning == "Segmentation fault"
    assert crash.frame is not None and crash.frame.line == 3
    assert end == Exit(signal="SIGSEGV", run=3)


def test_a_stop_by_attaching_has_no_reason() -> None:
    (stop,) = stops("attach")
    assert isinstance(stop, Stop)
    assert (stop.reason, stop.meaning, stop.detail) == ("other", "", "")
    assert stop.frame is not None and stop.frame.function == "__GI___clock_nanosleep"
    names = [each.name for each in stop.frame.arguments]
    assert names[:2] == ["clock_id", "clock_id@entry"]


@pytest.mark.parametrize("name", ["commands", "continuing-commands"])
def test_a_silent_stop_says_nothing_at_all(name: str) -> None:
    assert stops(name)[0] == Stop(reason="other", run=3)


def test_stacks_are_joined_with_their_arguments() -> None:
    frames = tuple(map(decode.frame, answer("break", "-stack-list-frames")["stack"]))
    arguments = Line("^", name="done", payload=answer("break", "-stack-list-arguments 1"))
    inner, outer = decode.with_arguments(frames, decode.arguments_of(arguments))
    assert (inner.level, inner.function, inner.line) == (0, "twice", 7)
    assert inner.arguments == (
        Variable(name="x", value="1"),
        NAME,
        Variable(name="p", value="{a = 1, b = 0.5}"),
    )
    assert (outer.level, outer.function) == (1, "main")
    assert [each.name for each in outer.arguments] == ["argc", "argv"]
    assert decode.with_arguments(frames, {})[0].arguments == ()


def test_fortran_arguments_do_not_depend_on_bounds_that_are_not_set() -> None:
    not_read = "<error reading variable: "
    values = {
        "n": "14",
        "density": f"{not_read}value requires 62750744 bytes, which is more than max-value-size>",
        "a": f"{not_read}Location address is not set.>",
        "label": "'\\000'",
        "field": "...",
        "maybe": f"{not_read}Cannot access memory at address 0x0>",
        "wild": f"{not_read}Cannot access memory at address 0x3e8>",
    }
    args = [{"name": name, "value": value} for name, value in values.items()]
    frame = decode.frame({"func": "sweep", "file": "../src/sweep.F90", "args": args})
    shown = {each.name: each.value for each in frame.arguments}
    expected = {**values, "density": "...", "a": "...", "maybe": "<absent>"}
    assert shown == expected
    (frame,) = decode.with_arguments([frame], {0: decode.arguments(args)})
    assert {each.name: each.value for each in frame.arguments} == {**expected, "label": "..."}
    in_c = decode.frame({"func": "sweep", "file": "sweep.c", "args": args})
    assert [each.value for each in in_c.arguments] == [*values.values()]


def test_frames_without_line_information() -> None:
    frames = tuple(map(decode.frame, answer("attach", "-stack-list-frames")["stack"]))
    unknown = [each for each in frames if each.function == "??"]
    assert unknown and all(each.line == 0 and each.fullname == "" for each in unknown)
    library = decode.frame({"func": "MPI_Recv", "from": "/lib/libmpi.so.40"})
    assert library.library == "/lib/libmpi.so.40"


def test_breakpoints_as_they_are_made() -> None:
    (made,) = notices("break", "breakpoint-created")
    assert breakpoint_decode.breakpoint_of(made["bkpt"]) == Breakpoint(
        number=2,
        kind="breakpoint",
        function="twice",
        file="target.c",
        line=7,
        original="twice",
        condition="x > 0",
    )


def test_breakpoints_as_they_are_listed() -> None:
    (listed,) = answer("break", "-break-list")["BreakpointTable"]["body"]
    found = breakpoint_decode.breakpoint_of(listed)
    assert (found.times, found.condition, found.location_count) == (1, "x > 0", 1)


def test_watchpoints_and_catchpoints_as_they_are_made() -> None:
    kinds = [
        (each.kind, each.what)
        for made in notices("watch", "breakpoint-created")
        for each in [breakpoint_decode.breakpoint_of(made["bkpt"])]
    ]
    assert kinds == [
        ("hw watchpoint", "counter"),
        ("read watchpoint", "counter"),
        ("acc watchpoint", "counter"),
    ]
    caught = breakpoint_decode.breakpoint_of(notices("pending", "breakpoint-created")[0]["bkpt"])
    assert caught.kind == "catchpoint"


def test_a_pending_breakpoint_has_no_place() -> None:
    made = breakpoint_decode.breakpoint_of(notices("pending", "breakpoint-created")[1]["bkpt"])
    assert (made.location_count, made.original, made.line) == (0, "nothing_here", 0)


def test_a_breakpoint_with_commands_is_read_in_spite_of_its_script() -> None:
    (listed,) = answer("commands", "-break-list")["BreakpointTable"]["body"]
    assert breakpoint_decode.breakpoint_of(listed).times == 2


def test_a_breakpoint_with_several_places() -> None:
    payload = {
        "number": "1",
        "type": "breakpoint",
        "enabled": "n",
        "addr": "<MULTIPLE>",
        "locations": [
            {"number": "1.1", "enabled": "y", "func": "f(int)", "file": "a.cc", "line": "3"},
            {"number": "1.2", "enabled": "n", "func": "f(double)", "file": "a.cc", "line": "9"},
        ],
    }
    made = breakpoint_decode.breakpoint_of(payload)
    assert (made.location_count, made.function, made.line, made.enabled) == (2, "f(int)", 3, False)
    assert made.locations == (
        Location(number=1, enabled=True, function="f(int)", file="a.cc", line=3),
        Location(number=2, enabled=False, function="f(double)", file="a.cc", line=9),
    )


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        (" 1", " 1"),
        ("s 1 and 2", "s 1 and 2"),
        ("s 1, 2 and 4 (disabled)", "s 1, 2 and 4 (disabled)"),
        ("s 2 (all threads) and 4 (thread 1) (disabled)",) * 2,
        ("s 4, 8 and 9", " 4"),  # 8 and 9 are none of the user's
        ("s 8 and 9", None),
    ],
)
def test_notes_about_other_breakpoints_have_no_address(others: str, shown: str | None) -> None:
    note = f"Note: breakpoint{others} also set at pc 0x{{}}."
    # One for each place; as GDB 13.1 prints them.
    text = f"{note.format('1130')}\n{note.format('7ffff7f25ee0')}\nBreakpoint 5 at 0x1130: f."
    expected = "" if shown is None else f"Note: breakpoint{shown} also set at pc."
    found = breakpoint_decode.notes_of(text, lambda number: number if number < 8 else 0)
    assert found == expected


def test_all_that_a_breakpoint_has_is_decoded() -> None:
    """GDB 13.1 lists them after thread, enable count, passcount, ignore and commands."""
    listed = breakpoint_decode.breakpoint_of(
        {
            "number": "2",
            "disp": "dis",
            "thread": ["1", "1"],
            "ignore": "5",
            "enable": "3",
            "script": ["silent", "print x"],
        }
    )
    assert (listed.disposition, listed.thread, listed.ignore) == ("dis", "1", 5)
    assert (listed.disable_after, listed.commands) == (3, ("silent", "print x"))
    traced = breakpoint_decode.breakpoint_of({"number": "9", "type": "tracepoint", "pass": "3"})
    assert (traced.kind, traced.passes) == ("tracepoint", 3)
    assert traced.installed is None
    places = [{"number": f"9.{n}", "installed": said} for n, said in ((1, "n"), (2, "y"))]
    traced = breakpoint_decode.breakpoint_of({"number": "9", "locations": places})
    assert [each.installed for each in traced.locations] == [False, True]
    assert breakpoint_decode.breakpoint_of({"number": "9", "installed": "n"}).installed is False
    caught = {"number": "5", "type": "catchpoint", "what": "write", "catch-type": "syscall"}
    assert (
        breakpoint_decode.breakpoint_of(caught).event,
        breakpoint_decode.breakpoint_of(caught).what,
    ) == (
        "syscall",
        "write",
    )


def frames(*functions: str, source: str = "") -> tuple[Frame, ...]:
    return tuple(
        Frame(level=level, function=function, fullname=source if function == "main" else "")
        for level, function in enumerate(functions)
    )


@pytest.mark.parametrize(
    "name",
    [
        "MPI_Recv",
        "PMPI_Recv",
        "mpi_recv_",
        "pmpi_recv__",
        "mpi_recv_f08_",
        "ompi_mpi_finalize",
        "PMPI_Init_thread",
    ],
)
def test_what_is_an_mpi_call(name: str) -> None:
    assert decode.MPI_CALL.match(name)


@pytest.mark.parametrize(
    "name",
    ["MPIR_Wait", "MPID_Recv", "my_MPI_Recv", "MPI_", "mpi", "ompi_request_wait", "main", "??"],
)
def test_what_is_none(name: str) -> None:
    assert not decode.MPI_CALL.match(name)


def test_addresses() -> None:
    listed = [{"addr": "0x00005555"}, {"addr": "<unavailable>"}, {}, "junk"]
    assert decode.addresses(listed) == (0x5555, 0, 0)


def test_threads() -> None:
    frame = {"level": "0", "func": "poll"}
    payload = {
        "threads": [
            {"id": "1", "target-id": "Thread 0x7f45e3636740 (LWP 6597)", "frame": frame},
            {"id": "2", "target-id": "process 12"},
            {"id": "3"},
            "junk",
        ]
    }
    assert decode.threads(payload) == (
        decode.Thread(id="1", process=6597, frames=(frame,)),
        decode.Thread(id="2", process=12, frames=()),
        decode.Thread(id="3", process=0, frames=()),
    )
    assert decode.threads({}) == ()


def test_one_instruction_is_not_two() -> None:
    call = {"address": "0x1", "inst": "call 0x5080 <MPI_Recv@plt>"}
    assert decode.only_instruction({"asm_insns": [call]}) == "call 0x5080 <MPI_Recv@plt>"
    assert decode.only_instruction({"asm_insns": [{"inst": "(bad)"}, call]}) == ""
    assert decode.only_instruction({"asm_insns": ["junk"]}) == ""
    assert decode.only_instruction({"msg": "Cannot access memory"}) == ""


def test_the_place_of_a_stop_is_the_innermost_readable_source(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("")
    shown, inside = decode.place(frames("poll", "MPI_Recv", "main", source=str(source)))
    assert shown is not None and shown.function == "main" and inside == "MPI_Recv"
    shown, inside = decode.place(frames("main", source=str(source)))
    assert shown is not None and inside == ""
    shown, inside = decode.place(frames("poll", "MPI_Recv", "main", source="/gone/main.c"))
    assert shown is not None and shown.function == "MPI_Recv" and inside == ""
    shown, inside = decode.place(frames("poll", "main"))
    assert shown is not None and shown.function == "poll"
    assert decode.place(()) == (None, "")


def test_a_header_of_a_library_is_not_the_place_of_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "is_readable", lambda path: bool(path))
    header, source = "/usr/include/c++/12/bits/stl_vector.h", str(tmp_path / "main.cpp")
    thrown = Frame(level=0, function="std::__throw_out_of_range_fmt")
    check = Frame(level=1, function="std::vector::_M_range_check", fullname=header, line=1153)
    at = Frame(level=2, function="std::vector::at", fullname=header, line=1174)
    own = Frame(level=3, function="sum", fullname=source, line=7)
    assert decode.place((thrown, check, at, own)) == (own, "std::vector::at")
    assert decode.place((thrown, check, at)) == (check, "std::__throw_out_of_range_fmt")


@pytest.mark.parametrize("payload", [{}, {"frame": "?"}, {"reason": "new-in-gdb-99"}])
def test_unknown_stops_are_stops(payload: dict[str, Any]) -> None:
    stop = decode.stop(payload, run=1)
    assert stop.reason == "other" and stop.frame is None
    assert stop.meaning == payload.get("reason", "")


def test_variables_in_any_shape() -> None:
    assert decode.variables([{"name": "x", "value": "1", "arg": "1"}, {"name": "y"}, "junk"]) == (
        Variable(name="x", value="1", is_argument=True),
        Variable(name="y", value=""),
    )


def test_a_line_is_no_other_kind_for_having_been_read_as_one() -> None:
    """Ranks share the decoded shape, and a GDB may answer one command as another."""
    for address in range(0x1000, 0x1004):
        line = cut(f'1^done,stack=[frame={{level="0",addr="{address:#018x}",func="f"}}]'.encode())
        (frame,), addresses = decode.frames_of(line)
        assert (frame.function, addresses) == ("f", (address,))
        assert decode.arguments_of(line) == {}
    assert line.shape is not None and line.shape.varying_count, "the form is shared"


def test_address_without_a_line_is_shown_by_its_symbol() -> None:
    payload = {"number": "3", "type": "breakpoint", "addr": "0x55d8", "at": "<main+4>"}
    for original in ("*0x000055d8", "*$pc", "*$pc "):
        made = breakpoint_decode.breakpoint_of({**payload, "original-location": original})
        assert breakpoint_made(made) == "Breakpoint 3: <main+4>."
        assert breakpoint_table([made]).splitlines()[1].endswith(" <main+4>")
    # The same on all ranks, wherever their programs are.
    both = [
        breakpoint_decode.breakpoint_of({**payload, "original-location": f"*{address}"})
        for address in ("0x55d8", "0x66d8")
    ]
    assert both[0] == both[1]
    made = breakpoint_decode.breakpoint_of({**payload, "original-location": "main"})
    assert breakpoint_made(made) == "Breakpoint 3: main."


def test_symbol_of_an_address_with_a_line_is_asked_for() -> None:
    said = "main + 15 in section .text of /home/user/app"
    assert decode.symbol_of(said) == "<main+15>"
    assert decode.symbol_of("f(int, char) in section .text") == "<f(int, char)>"
    assert decode.symbol_of("No symbol matches 0x1234.") == ""
    payload = {"number": "1", "original-location": "*$pc", "file": "a.c", "line": "9"}
    made = breakpoint_decode.with_symbol(breakpoint_decode.breakpoint_of(payload), "<main+15>")
    assert (made.at, made.line, made.original) == ("<main+15>", 9, "*$pc")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # GDB 13.1 after handle SIGUSR1 nostop print: one reason for each signal, then the stop's.
        (
            'reason="signal-received",signal-name="SIGUSR1",signal-meaning="User defined signal 1",'
            'reason="signal-received",signal-name="SIGSEGV",signal-meaning="Segmentation fault"',
            ("signal-received", "SIGSEGV", "Segmentation fault", 0),
        ),
        (
            'reason="signal-received",signal-name="SIGUSR1",signal-meaning="User defined signal 1",'
            'reason="signal-received",signal-name="SIGUSR2",signal-meaning="User defined signal 2",'
            'reason="breakpoint-hit",disp="keep",bkptno="7"',
            ("breakpoint-hit", "", "", 7),
        ),
        (
            'reason="signal-received",signal-name="SIGUSR1",signal-meaning="User defined signal 1",'
            'reason="end-stepping-range"',
            ("end-stepping-range", "", "", 0),
        ),
        (
            'reason="watchpoint-trigger",wpt={number="7",exp="x"},value={old="1",new="2"},'
            'reason="watchpoint-trigger",wpt={number="8",exp="y"},value={old="3",new="4"}',
            ("watchpoint-trigger", "", "", 7),
        ),
    ],
)
def test_the_last_reason_of_a_stop_is_its_own(
    line: str, expected: tuple[str, str, str, int]
) -> None:
    payload = decode.last_stop(dict(cut(f"*stopped,{line}").payload))
    stop = decode.stop(payload, run=3)
    assert (stop.reason, stop.signal, stop.meaning, stop.breakpoint) == expected


def test_the_end_after_signals_is_the_end() -> None:
    line = (
        '*stopped,reason="signal-received",signal-name="SIGUSR1",signal-meaning="User",'
        'reason="exited",exit-code="03"'
    )
    assert decode.exit_of(decode.last_stop(dict(cut(line).payload)), run=3) == Exit(code=3, run=3)
    killed = (
        '*stopped,reason="signal-received",signal-name="SIGUSR1",signal-meaning="User",'
        'reason="exited-signalled",signal-name="SIGKILL",signal-meaning="Killed"'
    )
    end = decode.exit_of(decode.last_stop(dict(cut(killed).payload)), run=3)
    assert end == Exit(signal="SIGKILL", run=3)
