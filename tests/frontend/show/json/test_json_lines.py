"""Every line of ``--json``; ``test_json_page.py`` has the documentation and schema."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, get_args

import msgspec
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import judge_values
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.layouts import Layout
from pgdb.frontend.api.notifications import (
    JobEnded,
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.show.json import json_lines, json_records, json_shapes
from pgdb.frontend.show.json.json_lines import Line, encode
from pgdb.frontend.show.text.places_text import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.starting import new_session
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.merge.summary import Summary, empty_bins
from pgdb.merge.totals import summarize, summarize_array
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Block,
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    Frame,
    Gone,
    Output,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
    Text,
    Threads,
    ThreadStack,
    Value,
    Variable,
    Variables,
    Various,
)

NOW_S = 1690000000.123456
DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line, strict=True)

FRAME = Frame(
    level=1,
    function="hang",
    arguments=(Variable(name="rank", value="3", is_argument=True),),
    file="ring.c",
    fullname="/home/user/ring.c",
    line=11,
)
MADE = Breakpoint(
    number=4, kind="breakpoint", function="main", file="ring.c", line=12, original="ring.c:12"
)
RECORDS: tuple[Record, ...] = (
    Stack(
        frames=(FRAME, Frame(level=2, function="??", library="libmpi.so")), hidden="3", more=True
    ),
    Threads(
        stacks=(
            ThreadStack(stack=Stack(frames=(FRAME,), hidden="3")),
            ThreadStack(stack=Stack(frames=(), more=True), count=3),
        ),
        hidden="2",
    ),
    Value(text="{1, 2}"),
    Block(dtype="<f8", shape=(4, 2), data=bytes(range(16)), start=6, order="F"),
    Various(template=Value(text=f"{{{PLACEHOLDER}, {PLACEHOLDER}}}")),
    Various(template=Threads(stacks=(ThreadStack(stack=Stack(frames=(FRAME,))),))),
    Variables(items=(Variable(name="x", value="1"),)),
    Variables(items=(), empty="No locals."),
    Text(text="line 1\nline 2"),
    Failure(message="No symbol table is loaded."),
    Done(),
    BreakpointsMade(breakpoints=(MADE,), text="made"),
    BreakpointList(breakpoints=(MADE,)),
    Stop(reason="signal-received", run=5, signal="SIGSEGV", meaning="Fault", frame=FRAME),
    Exit(code=0, run=5),
    Exit(signal="SIGKILL"),
    Running(run=5),
)


def said(ranks: str, record: Record, slots: tuple[str, ...] = ()) -> EquivalenceClass[Record]:
    return EquivalenceClass(ranks=RankSet.parse(ranks), record=record, slots=slots)


def happened(ranks: str, event: Event) -> EquivalenceClass[Event]:
    return EquivalenceClass(ranks=RankSet.parse(ranks), record=event)


def answered(*classes: EquivalenceClass[Record], missing: Missing | None = None) -> Answer:
    return Answer(
        command="bt",
        ranks=RankSet.union(each.ranks for each in classes),
        classes=classes,
        missing=missing or Missing(),
        request_id=7,
        elapsed_s=0.02,
    )


def text_of(each: EquivalenceClass[Record]) -> str:
    return f"<{type(each.record).__name__}>"


def events(*classes: EquivalenceClass[Event]) -> list[Line]:
    return json_lines.notification(RankEvents(classes=classes), text_of, NOW_S)


def shown(line: Line) -> dict[str, Any]:
    """Return *line* as a reader decodes it, after a check that it is one line and decodes to
    itself."""
    text = encode(line)
    assert len(text.splitlines()) == 1
    assert DECODER.decode(text) == line
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def one_shown(lines: list[Line]) -> dict[str, Any]:
    assert len(lines) == 1
    return shown(lines[0])


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
    late, made = json_lines.notification(LateAnswer(answer=answer), text_of, NOW_S)
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
    assert one_shown(json_lines.notification(reported, text_of, NOW_S)) == {
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


# -- trees, arrays, comparisons, checks, statistics, places ----------------------------------------


def summed_up() -> Summary:
    """Return the summary of 0, 1.5, NaN, infinity, 4.5 and a text on the ranks 0 to 5."""
    texts = ["0", "1.5", "nan(0x8000000000000)", "inf", "4.5", '"a"']
    return summarize((RankSet([rank]), text) for rank, text in enumerate(texts))


COLUMN = {
    "count": 3,
    "low": 0,
    "high": 4.5,
    "at_low": "0",
    "at_high": "4",
    "mean": 2.0,
    "deviation": 1.8708286933869707,
    "distinct": 3,
    "nan": "2",
    "above": "3",
    "others": "5",
}


def test_a_summary_has_a_column_for_each_placeholder() -> None:
    nothing = summarize([(RankSet.parse("0-5"), "-inf")])
    each: EquivalenceClass[Record] = EquivalenceClass(
        ranks=RankSet.parse("0-5"),
        record=Various(template=Value(text=f"{{{PLACEHOLDER}, {PLACEHOLDER}}}")),
        columns=(summed_up(), nothing),
    )
    (only,) = shown(json_lines.answer(answered(each), text_of, NOW_S))["classes"]
    assert only == {
        "ranks": "0-5",
        "text": "<Various>",
        "record": {
            "kind": "various",
            "form": {"kind": "value", "text": f"{{{PLACEHOLDER}, {PLACEHOLDER}}}"},
        },
        "columns": [COLUMN, {"count": 0, "below": "0-5"}],
    }


def test_very_many_different_answers_are_one_class_of_a_line() -> None:
    answer = merged(*(Value(text=f"{{x = {rank}, y = 1}}") for rank in range(1500)))
    (only,) = shown(json_lines.answer(answer, text_of, NOW_S))["classes"]
    assert only["record"]["form"] == {
        "kind": "value",
        "text": f"{{x = {PLACEHOLDER}, y = {PLACEHOLDER}}}",
    }
    low, same = only["columns"]
    assert (low["low"], low["high"], low["at_high"], low["count"]) == (0, 1499, "1499", 1500)
    assert (same["low"], same["high"], same["distinct"]) == (1, 1, 1)


def stack_of(*calls: tuple[str, int]) -> Stack:
    """Return a stack of functions, outermost first, each at a line of ring.c."""
    frames = [
        Frame(level=level, function=name, file="ring.c", fullname="/r/ring.c", line=line)
        for level, (name, line) in enumerate(reversed(calls))
    ]
    return Stack(frames=tuple(frames))


def test_tree_has_its_nodes_and_whoever_is_not_in_it() -> None:
    tree = CallTree.from_classes(
        [
            said("0-2", stack_of(("main", 67), ("exchange", 48))),
            said("3", stack_of(("main", 66), ("begin_log", 22))),
            said("4", Failure(message="No stack.")),
        ],
        missing=Missing(running=RankSet([5])),
    )
    assert shown(json_lines.tree(tree, "tree", NOW_S, ["a.dot"])) == {
        "type": "tree",
        "time": NOW_S,
        "command": "tree",
        "by": "function",
        "ranks": "0-3",
        "nodes": [
            {
                "number": 1,
                "ranks": "0-3",
                "frames": [{"function": "main"}],
                "sources": [{"file": "ring.c", "line": 66}, {"file": "ring.c", "line": 67}],
            },
            {
                "number": 2,
                "ranks": "0-2",
                "parent": 1,
                "frames": [{"function": "exchange"}],
                "sources": [{"file": "ring.c", "line": 48}],
                "leaf": True,
            },
            {
                "number": 3,
                "ranks": "3",
                "parent": 1,
                "frames": [{"function": "begin_log"}],
                "sources": [{"file": "ring.c", "line": 22}],
                "leaf": True,
                "odd": True,
            },
        ],
        "missing": {"late": "", "lost": "", "running": "5"},
        "errors": [{"ranks": "4", "message": "No stack."}],
        "files": ["a.dot"],
    }


def test_arrays_are_listed_by_type_and_shape() -> None:
    found = Arrays(
        expression="u",
        ranks=RankSet.parse("0-4"),
        by_rank={
            0: numpy.zeros((2, 3)),
            1: numpy.ones((2, 3)),
            2: numpy.array(7, dtype=numpy.int32),
        },
        errors=(said("3", Failure(message="No symbol.")),),
        missing=Missing(running=RankSet([4])),
    )
    line = json_lines.arrays(found, "dump u u.npz", NOW_S, text="u.npz", file="u.npz", whole=None)
    assert shown(line) == {
        "type": "arrays",
        "time": NOW_S,
        "command": "dump u u.npz",
        "expression": "u",
        "ranks": "0-4",
        "forms": [
            {"ranks": "0-1", "dtype": "float64", "shape": [2, 3]},
            {"ranks": "2", "dtype": "int32", "shape": []},
        ],
        "missing": {"late": "", "lost": "", "running": "4"},
        "errors": [{"ranks": "3", "message": "No symbol."}],
        "size_bytes": 100,
        "text": "u.npz",
        "file": "u.npz",
    }


def test_arrays_list_the_uncertain_elements_of_the_global_array() -> None:
    by_rank = {0: numpy.array([0.0, 1.0, 2.0, 3.0]), 1: numpy.array([9.0, 3.0, 4.0, 5.0])}
    found = Arrays(expression="u", ranks=RankSet([0, 1, 2]), by_rank=by_rank)
    whole = found.assemble(Layout(dims=(6,), grid=(3,), halo=(1,)))
    line = shown(json_lines.arrays(found, "decompose", NOW_S, text="", file="", whole=whole))
    assert line["shape"] == [6]
    # The last two are rank 2's; ranks 0 and 1 have different values for the second.
    assert (line["absent"], line["conflicts"]) == (2, 1)


def test_comparison_shows_what_differs_where_and_by_how_much() -> None:
    before = answered(
        said("0", Value(text="{x = 1, y = 2}")),
        said("1-2", Value(text="{x = 3, y = 2}")),
        said("3", Value(text="7")),
    )
    after = answered(
        said("0-1", Value(text="{x = 1, y = 2}")), missing=Missing(running=RankSet([2]))
    )
    after = replace(after, ranks=RankSet([0, 1, 2]))
    found = compare(before, after)
    line = json_lines.comparison(found, "p", before="then", after="now", text=text_of)
    assert {**shown(line), "time": NOW_S} == {
        "type": "compare",
        "time": NOW_S,
        "expression": "p",
        "before": "then",
        "after": "now",
        "by": "rank",
        "same": False,
        "equal": "0",
        "equal_others": "0",
        "differences": [
            {
                "ranks": "1",
                "others": "1",
                "before": {"kind": "value", "text": "{x = 3, y = 2}"},
                "after": {"kind": "value", "text": "{x = 1, y = 2}"},
                "parts": [
                    {
                        "path": ".x",
                        "before": "3",
                        "after": "1",
                        "absolute": 2.0,
                        "relative": 2 / 3,
                    }
                ],
            }
        ],
        "left_out": [
            {"ranks": left.ranks and str(left.ranks), "side": left.side, "why": left.why}
            for left in found.left_out
        ],
    }
    assert [str(left.ranks) for left in found.left_out] == ["2", "3"]


def test_comparison_by_value_has_the_classes_of_one_side() -> None:
    before = answered(said("0-1", Value(text="1")), said("2", Value(text="5")))
    after = answered(said("3-4", Value(text="1")), said("5", Value(text="6")))
    found = compare(before, after, by="value")
    line = shown(json_lines.comparison(found, "x", before="[0-2]", after="[3-5]", text=text_of))
    assert line["by"] == "value" and line["same"] is False
    assert (line["equal"], line["equal_others"]) == ("0-1", "3-4")
    assert "differences" not in line
    record = {"kind": "value", "text": "5"}
    assert line["only_before"] == [{"ranks": "2", "text": "<Value>", "record": record, "value": 5}]
    assert [(each["ranks"], each["value"]) for each in line["only_after"]] == [("5", 6)]


def test_check_names_who_fails_it() -> None:
    answer = answered(
        said("0-2", Value(text="1")), said("3", Value(text="2")), said("4", Failure(message="No."))
    )
    answer = replace(answer, ranks=RankSet.parse("0-5"), missing=Missing(running=RankSet([5])))
    found = judge_values(parse("x same"), answer)
    line = shown(json_lines.checked(found))
    assert {**line, "time": NOW_S} == {
        "type": "assert",
        "time": NOW_S,
        "condition": found.requirement.title,
        "expression": "x",
        "ok": False,
        "ranks": "0-5",
        "passed": "0-2",
        "failing": [
            {key: value for key, value in each.items() if value}
            for each in (
                {"ranks": "3", "value": "2", "why": found.failing[0].why},
                {"ranks": "4", "value": "No.", "why": found.failing[1].why, "error": True},
            )
        ],
        "missing": {"late": "", "lost": "", "running": "5"},
        "common": "1",
    }


def test_statistics_are_as_the_page_says() -> None:
    summary = summed_up()
    answer = answered(said("6", Failure(message="No symbol.")), missing=Missing(RankSet([7])))
    line = shown(json_lines.statistics("x", summary, RankSet.parse("0-5"), answer, text_of))
    failed = {"kind": "error", "message": "No symbol."}
    assert {**line, "time": NOW_S} == {
        "type": "stat",
        "time": NOW_S,
        "expression": "x",
        "ranks": "0-5",
        **COLUMN,
        "lows": [0, 1.5, None, None, 4.5],
        "highs": [0, 1.5, None, None, 4.5],
        "errors": [{"ranks": "6", "text": "<Failure>", "record": failed, "error": True}],
        "missing": {"late": "7", "lost": "", "running": ""},
    }


def test_statistics_have_the_bins_that_were_asked_for() -> None:
    bins = empty_bins(0.0, 3.0, 2)
    summary = summarize_array(3, numpy.array([0.0, 1.0, 2.0]), bins)
    line = shown(json_lines.statistics("x", summary, RankSet([3]), answered(), text_of))
    assert line["bins"] == [
        {"low": 0.0, "high": 1.5, "count": 2},
        {"low": 1.5, "high": 3.0, "count": 1},
    ]
    assert (line["lows"], line["highs"]) == ([None] * 3 + [0], [None] * 3 + [2])


def test_statistics_of_no_number_at_all_are_a_line() -> None:
    line = shown(json_lines.statistics("x", None, RankSet(), answered(), text_of))
    assert (line["count"], line["ranks"]) == (0, "")
    assert "low" not in line and "mean" not in line


def test_places_say_who_is_where_and_does_what() -> None:
    line = json_lines.places(
        [Place(RankSet.parse("0-1"), "n1", (11, 12), "stopped")],
        [
            happened("0", Stop(reason="interrupted")),
            happened("1", Exit(code=3)),
        ],
        {"late": RankSet([1])},
        text_of,
    )
    assert {**shown(line), "time": NOW_S} == {
        "type": "ranks",
        "time": NOW_S,
        "places": [{"ranks": "0-1", "host": "n1", "pids": [11, 12], "state": "stopped"}],
        "stops": [{"ranks": "0", "reason": "interrupted", "text": "<Stop>"}],
        "exits": [{"ranks": "1", "text": "<Exit>", "code": 3}],
        "sets": {"late": "1"},
    }


# -- the job's output ----------------------------------------------------------------------------


def output(data: bytes) -> dict[str, Any]:
    text = data.decode("utf-8", "replace")
    reported = JobOutput(text=text, stream="stderr", data=data)
    return one_shown(json_lines.notification(reported, text_of, NOW_S))


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
        line = DECODER.decode(encode(json_lines.notification(reported, text_of, NOW_S)[0]))
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
    line = json_lines.notification(output, text_of, NOW_S)[0]
    assert json.loads(encode(line))["data"] == "6Q=="


# -- classes and records -------------------------------------------------------------------------


def tagged_as_on_the_wire(written: Any) -> Any:
    """Return a record as the overlay encodes it: with the tag type, where --json has kind.

    A breakpoint has a kind of its own, GDB's, and is no record.
    """
    if isinstance(written, list):
        return [tagged_as_on_the_wire(each) for each in written]
    if not isinstance(written, dict):
        return written
    found = {key: tagged_as_on_the_wire(value) for key, value in written.items()}
    return found if "number" in found else {TAG.get(key, key): found[key] for key in found}


TAG = {"kind": "type"}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_record_comes_back_the_same(record: Record) -> None:
    line = shown(json_lines.answer(answered(said("0-2", record)), text_of, NOW_S))
    written = tagged_as_on_the_wire(line["classes"][0]["record"])
    # From JSON, where bytes are base64.
    assert msgspec.json.decode(json.dumps(written), type=Record) == record


def test_records_inside_records_are_of_a_kind_too() -> None:
    threads = Threads(stacks=(ThreadStack(stack=Stack(frames=())),))
    line = shown(json_lines.answer(answered(said("0", Various(template=threads))), text_of, NOW_S))
    assert line["classes"][0]["record"] == {
        "kind": "various",
        "form": {"kind": "threads", "stacks": [{"stack": {"kind": "stack", "frames": []}}]},
    }


def test_every_kind_of_record_is_tried() -> None:
    kinds = {type(record) for record in RECORDS}
    assert kinds == set(get_args(Record))
    assert kinds == {kind.__base__ for kind in get_args(json_records.RecordObject)}


def test_records_keep_their_tags() -> None:
    for kind in get_args(json_records.RecordObject):
        assert kind.__struct_config__.tag == kind.__base__.__struct_config__.tag


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-42", -42),
        ("0x10", 16),
        ("1.5e-3", 0.0015),
        (str(2**127), 2**127),
        ("inf", None),
        ("-nan(0x8000000000000)", None),
        ("nan", None),
        ("1" * 5000, None),
        ("0x" + "f" * 5000, None),
        ("97 'a'", None),
        ("{1, 2}", None),
        ("", None),
    ],
)
def test_value_is_a_number_where_its_text_is_one(text: str, value: int | float | None) -> None:
    answer = answered(said("0", Value(text=text)))
    found = shown(json_lines.answer(answer, text_of, NOW_S))["classes"][0]
    assert found["record"] == {"kind": "value", "text": text}
    assert found.get("value") == value
    assert ("value" in found) == (value is not None)


def merged(*records: Record) -> Answer:
    """Return the answer of ranks 0, 1 … with *records*, merged as in the overlay."""
    merger: Merger[Record] = Merger()
    for rank, record in enumerate(records):
        normalized = normalize_record(record)
        assert isinstance(normalized.record, Record)
        merger.add(RankSet([rank]), normalized.record, normalized.slots)
    return answered(*merger.classes)


def test_addresses_that_differ_are_an_ellipsis_and_do_not_split() -> None:
    answer = merged(*(Value(text=f'(char *) 0x55555555{rank}2a0 "abc"') for rank in range(4)))
    (only,) = shown(json_lines.answer(answer, text_of, NOW_S))["classes"]
    assert only["ranks"] == "0-3"
    assert only["record"] == {"kind": "value", "text": '(char *) … "abc"'}


def test_address_that_all_have_is_shown() -> None:
    answer = merged(*[Value(text="(int *) 0x7ffe12345678")] * 2, Value(text="(int *) 0x0"))
    first, null = shown(json_lines.answer(answer, text_of, NOW_S))["classes"]
    assert (first["ranks"], first["record"]["text"]) == ("0-1", "(int *) 0x7ffe12345678")
    assert (null["ranks"], null["record"]["text"]) == ("2", "(int *) 0x0")


def test_stop_with_other_arguments_on_each_rank_is_one_class() -> None:
    stops = [
        Stop(
            reason="breakpoint-hit",
            frame=Frame(
                level=level, function="f", arguments=(Variable(name="i", value=str(level)),)
            ),
            detail="1 -> 2",
        )
        for level in (1, 2)
    ]
    answer = merged(*stops)
    (only,) = shown(json_lines.answer(answer, text_of, NOW_S))["classes"]
    frame = {"level": -1, "function": "f", "arguments": [{"name": "i", "value": "…"}]}
    assert only["record"]["frame"] == frame
    reported: list[EquivalenceClass[Event]] = [
        EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)
        for each in answer.classes
        if isinstance(each.record, Stop)
    ]
    (stop,) = one_shown(events(*reported))["classes"]
    assert stop["frame"] == frame
    assert (stop["ranks"], stop["detail"]) == ("0-1", "1 -> 2")


# -- decoding is strict --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"type": "end", "status": 0}',
        '{"type": "end", "time": 1.0}',
        '{"type": "end", "time": 1.0, "status": "0"}',
        '{"type": "end", "time": 1.0, "status": 0, "more": 1}',
        '{"type": "bye", "time": 1.0}',
        '{"type": "running", "time": 1.0, "ranks": "3-"}',
        '{"type": "running", "time": 1.0, "ranks": "all"}',
        '{"type": "stop", "time": 1.0, "classes": [{"ranks": "1", "reason": "tired", "text": ""}]}',
    ],
)
def test_decoder_of_these_tests_refuses(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        DECODER.decode(text)
