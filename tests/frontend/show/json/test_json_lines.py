"""Every line of ``--json``; ``test_json_page.py`` has the documentation and schema."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import (
    JobEnded,
    JobOutput,
    LateAnswer,
    Notification,
    RanksBack,
    RanksLost,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.show.json import json_lines, json_notifications, json_shapes
from pgdb.frontend.show.json.json_lines import encode
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.merge.classes import Missing
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Failure,
    Gone,
    Output,
    Progress,
    Running,
    Stop,
    Value,
)
from tests.support.json_shown import (
    DECODER,
    FRAME,
    MADE,
    NOW_S,
    answered,
    events,
    happened,
    one_shown,
    said,
    shown,
    text_of,
)

# -- every type ----------------------------------------------------------------------------------


def test_hello_names_versions_ranks_and_hosts() -> None:
    async def get() -> json_shapes.HelloLine:
        directory = SessionDirectory()
        try:
            session = new_session("launch", SessionOptions(), directory)[0]
            session.description = "mpirun -n 4 ./ring"
            session.gdb_version, session.mpi_version = "13.1", "Open MPI 4.1.4"
            session.table = ProcTable(
                processes=tuple(
                    RankProcess(rank=rank, host=host, pid=100 + rank, executable="/ring")
                    for rank, host in enumerate(("n1", "n2", "n1", "n2"))
                ),
                source="test",
            )
            return json_lines.hello(session, NOW_S)
        finally:
            directory.remove()

    line = shown(asyncio.run(get()))
    assert line.pop("pgdb") and line.pop("python").startswith("3.")
    assert line == {
        "type": "hello",
        "time": NOW_S,
        "schema": 1,
        "gdb": "13.1",
        "mpi": "Open MPI 4.1.4",
        "mode": "launch",
        "job": "mpirun -n 4 ./ring",
        "ranks": "0-3",
        "hosts": [{"host": "n1", "ranks": "0,2"}, {"host": "n2", "ranks": "1,3"}],
    }


def test_answer_is_as_the_page_says() -> None:
    answer = answered(
        said("0,2-31", Value(text="46.5")),
        said("1", Failure(message="No symbol.")),
        missing=Missing(late=RankSet.parse("32-62/2"), lost=RankSet([90]), running=RankSet()),
    )
    assert shown(json_lines.answer(answer, text_of, NOW_S)) == {
        "type": "answer",
        "time": NOW_S,
        "command": "bt",
        "request": 7,
        "ranks": "0-31",
        "classes": [
            {
                "ranks": "0,2-31",
                "text": "<Value>",
                "record": {"kind": "value", "text": "46.5"},
                "value": 46.5,
            },
            {
                "ranks": "1",
                "text": "<Failure>",
                "record": {"kind": "error", "message": "No symbol."},
                "error": True,
            },
        ],
        "missing": {"late": "32-62/2", "lost": "90", "running": ""},
        "elapsed_s": 0.02,
    }


def test_empty_answer_has_all_that_is_required() -> None:
    empty = Answer(command="interrupt", ranks=RankSet(), classes=())
    line = shown(json_lines.answer(empty, text_of, NOW_S))
    assert line == {
        "type": "answer",
        "time": NOW_S,
        "command": "interrupt",
        "ranks": "",
        "classes": [],
        "missing": {"late": "", "lost": "", "running": ""},
        "elapsed_s": 0.0,
    }


def test_late_answer_names_its_request_and_lists_its_breakpoints() -> None:
    answer = answered(said("3", BreakpointsMade(breakpoints=(MADE,))))
    late, made = json_notifications.notification(LateAnswer(answer=answer), text_of, NOW_S)
    assert shown(late) == {
        "type": "late",
        "time": NOW_S,
        "command": "bt",
        "request": 7,
        "ranks": "3",
        "classes": [
            {
                "ranks": "3",
                "text": "<BreakpointsMade>",
                "record": {
                    "kind": "breakpoints",
                    "breakpoints": [
                        {
                            "number": 4,
                            "kind": "breakpoint",
                            "function": "main",
                            "file": "ring.c",
                            "line": 12,
                            "original": "ring.c:12",
                        }
                    ],
                },
            }
        ],
    }
    assert shown(made)["type"] == "breakpoint" and shown(made)["ranks"] == "3"


def test_breakpoints_are_listed_once_with_all_their_ranks() -> None:
    other_program = msgspec.structs.replace(MADE, file="other.c", line=3)
    second = Breakpoint(
        number=5, kind="hw watchpoint", what="x", condition="x > 3", disposition="del"
    )
    answer = answered(
        said("0-1", BreakpointsMade(breakpoints=(MADE, second))),
        said("2", BreakpointsMade(breakpoints=(msgspec.structs.replace(MADE, times=1),))),
        said("3", BreakpointsMade(breakpoints=(other_program,))),
        said("4", Failure(message="No source file.")),
    )
    lines = [shown(line) for line in json_lines.breakpoints(answer, NOW_S)]
    common = {"type": "breakpoint", "time": NOW_S, "request": 7}
    place = {"number": 4, "kind": "breakpoint", "location": "ring.c:12", "function": "main"}
    assert lines == [
        {**common, **place, "ranks": "0-2", "file": "ring.c", "line": 12},
        {**common, **place, "ranks": "3", "file": "other.c", "line": 3},
        {
            **common,
            "number": 5,
            "ranks": "0-1",
            "kind": "hw watchpoint",
            "location": "x",
            "condition": "x > 3",
            "temporary": True,
        },
    ]


@pytest.mark.parametrize(
    ("made", "location"),
    [
        (Breakpoint(number=1, kind="breakpoint", file="a.c", line=3), "a.c:3"),
        (Breakpoint(number=1, kind="breakpoint", function="main"), "main"),
        (Breakpoint(number=1, kind="catchpoint"), ""),
    ],
)
def test_breakpoint_without_a_given_place_says_where_it_lies(
    made: Breakpoint, location: str
) -> None:
    answer = answered(said("0", BreakpointsMade(breakpoints=(made,))))
    assert json_lines.breakpoints(answer, NOW_S)[0].location == location


def test_answer_without_breakpoints_has_no_breakpoint_line() -> None:
    listed = answered(said("0", BreakpointList(breakpoints=(MADE,))), said("1", Done()))
    assert json_lines.breakpoints(listed, NOW_S) == []


def test_stops_of_one_run_share_a_line() -> None:
    segv = Stop(reason="signal-received", run=5, signal="SIGSEGV", meaning="Fault", frame=FRAME)
    hit = Stop(reason="breakpoint-hit", run=5, breakpoint=4, inside="MPI_Recv", detail="1 -> 2")
    first, other = events(
        happened("1", segv), happened("0,2-3", hit), happened("4", Stop(reason="main"))
    )
    assert shown(first) == {
        "type": "stop",
        "time": NOW_S,
        "request": 5,
        "classes": [
            {
                "ranks": "1",
                "reason": "signal-received",
                "text": "<Stop>",
                "signal": "SIGSEGV",
                "meaning": "Fault",
                "frame": {
                    "level": 1,
                    "function": "hang",
                    "arguments": [{"name": "rank", "value": "3", "is_argument": True}],
                    "file": "ring.c",
                    "fullname": "/home/user/ring.c",
                    "line": 11,
                },
            },
            {
                "ranks": "0,2-3",
                "reason": "breakpoint-hit",
                "text": "<Stop>",
                "breakpoint": 4,
                "inside": "MPI_Recv",
                "detail": "1 -> 2",
            },
        ],
    }
    assert shown(other) == {
        "type": "stop",
        "time": NOW_S,
        "classes": [{"ranks": "4", "reason": "main", "text": "<Stop>"}],
    }


def test_one_notification_of_many_events_keeps_their_order() -> None:
    lines = events(
        happened("0-1", Running(run=6)),
        happened("2", Running(run=6)),
        happened("3", Exit(code=0, run=6)),
        happened("4", Exit(signal="SIGKILL", run=6)),
        happened("5", Output(text="1: x = 3\n")),
        happened("6", Output(text="1: x = 4\n")),
        happened("7", Progress(stage="gdb")),
        happened("8", Progress(stage="attached")),
        happened("9", Gone(why="its GDB ended")),
        happened("10", Running(run=7)),
    )
    assert [shown(line) for line in lines] == [
        {"type": "running", "time": NOW_S, "request": 6, "ranks": "0-2"},
        {
            "type": "exit",
            "time": NOW_S,
            "request": 6,
            "classes": [
                {"ranks": "3", "text": "<Exit>", "code": 0},
                {"ranks": "4", "text": "<Exit>", "signal": "SIGKILL"},
            ],
        },
        {"type": "output", "time": NOW_S, "stream": "gdb", "text": "1: x = 3\n", "ranks": "5"},
        {"type": "output", "time": NOW_S, "stream": "gdb", "text": "1: x = 4\n", "ranks": "6"},
        {"type": "progress", "time": NOW_S, "stage": "gdb", "ranks": "7"},
        {"type": "progress", "time": NOW_S, "stage": "attached", "ranks": "8"},
        {"type": "lost", "time": NOW_S, "ranks": "9", "why": "its GDB ended"},
        {"type": "running", "time": NOW_S, "request": 7, "ranks": "10"},
    ]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (
            RanksLost(ranks=RankSet.parse("16-31"), text="no sign of life"),
            {"type": "lost", "ranks": "16-31", "why": "no sign of life"},
        ),
        (
            RanksBack(ranks=RankSet([3])),
            {"type": "progress", "stage": "joined", "ranks": "3"},
        ),
        (JobEnded(code=139), {"type": "exit", "launcher": {"code": 139}}),
        (JobEnded(code=0), {"type": "exit", "launcher": {"code": 0}}),
        (JobEnded(code=-9), {"type": "exit", "launcher": {"signal": "SIGKILL"}}),
        (JobEnded(code=-50), {"type": "exit", "launcher": {"signal": "signal 50"}}),
    ],
)
def test_notification(reported: Notification, expected: dict[str, Any]) -> None:
    assert one_shown(json_notifications.notification(reported, text_of, NOW_S)) == {
        "time": NOW_S,
        **expected,
    }


def test_error_and_end() -> None:
    assert shown(json_lines.error("no rank 9", NOW_S, "proc 9 bt")) == {
        "type": "error",
        "time": NOW_S,
        "message": "no rank 9",
        "command": "proc 9 bt",
    }
    assert "command" not in shown(json_lines.error("no GDB", NOW_S))
    assert shown(json_lines.end(0, NOW_S)) == {"type": "end", "time": NOW_S, "status": 0}


# -- the job's output ----------------------------------------------------------------------------


def output(data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    reported = JobOutput(text=text, stream="stderr", data=data)
    return one_shown(json_notifications.notification(reported, text_of, NOW_S))


def test_messages_of_pgdb_differ_from_the_output_of_the_job() -> None:
    line = json_shapes.OutputLine(time=NOW_S, stream="pgdb", text="3 ranks left\n")
    assert shown(line) == {
        "type": "output",
        "time": NOW_S,
        "stream": "pgdb",
        "text": "3 ranks left\n",
    }


def test_output_that_is_utf8_is_text_alone() -> None:
    assert output("größe\n\0\x1b[1m".encode()) == {
        "type": "output",
        "time": NOW_S,
        "stream": "stderr",
        "text": "größe\n\0\x1b[1m",
    }


def test_output_that_is_no_utf8_has_its_bytes() -> None:
    line = output(b"caf\xe9\n")
    assert line["text"] == "caf\ufffd\n"
    assert line["data"] == "Y2Fm6Qo="


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_bytes_of_the_output_come_back_from_any_pieces(pieces: list[bytes]) -> None:
    back = b""
    for piece in pieces:
        reported = JobOutput(text=piece.decode("utf-8", "replace"), data=piece)
        line = DECODER.decode(encode(json_notifications.notification(reported, text_of, NOW_S)[0]))
        assert isinstance(line, json_shapes.OutputLine)
        back += line.data or line.text.encode()
    assert back == b"".join(pieces)


# -- the text of a line --------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=())), st.text())
def test_any_text_makes_one_line_that_can_be_read(message: str, command: str) -> None:
    text = encode(json_lines.error(message, NOW_S, command))
    text.encode("utf-8")
    assert len(text.splitlines()) == 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", text), "a control would reach the terminal"
    line = DECODER.decode(text)
    assert isinstance(line, json_shapes.ErrorLine)
    assert line.message == re.sub(r"[\ud800-\udfff]", "\ufffd", message)
    assert line.command == command


def test_bytes_of_a_line_that_was_no_utf8_do_not_hurt() -> None:
    # As in sys.argv and os.listdir (PEP 383).
    name = b"caf\xe9.c".decode("utf-8", "surrogateescape")
    output = JobOutput(text="\ufffd", data=b"\xe9")
    assert json.loads(encode(json_lines.error(name, NOW_S)))["message"] == "caf\ufffd.c"
    line = json_notifications.notification(output, text_of, NOW_S)[0]
    assert json.loads(encode(line))["data"] == "6Q=="
