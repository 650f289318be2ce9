"""Trees, arrays, comparisons, checks, statistics and places as lines of JSON."""

from __future__ import annotations

import json

import numpy
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import judge_values
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.layouts import Layout
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text.places_text import Place
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.summary import empty_bins
from pgdb.merge.totals import summarize, summarize_array
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Exit, Failure, Frame, Record, Stack, Stop, Value, Various
from tests.support.json_shown import (
    COLUMN,
    NOW_S,
    answered,
    happened,
    merged,
    said,
    shown,
    summed_up,
    text_of,
)
from tests.support.rendered import various


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
        {"barrier 2": RankSet([0])},
    )
    assert {**shown(line), "time": NOW_S} == {
        "type": "ranks",
        "time": NOW_S,
        "places": [{"ranks": "0-1", "host": "n1", "pids": [11, 12], "state": "stopped"}],
        "stops": [{"ranks": "0", "reason": "interrupted", "text": "<Stop>"}],
        "exits": [{"ranks": "1", "text": "<Exit>", "code": 3}],
        "sets": {"late": "1"},
        "held": [{"ranks": "0", "why": "barrier 2"}],
    }


def test_columns_in_json() -> None:
    said = Answer(
        "print x", RankSet.range(0, 4), (various(Value(PLACEHOLDER), ["1", "2", "nan", "inf"]),)
    )
    line = json.loads(json_lines.encode(json_lines.answer(said, lambda each: "text", 0.0)))
    (column,) = line["classes"][0]["columns"]
    assert (column["count"], column["low"], column["high"], column["mean"]) == (2, 1, 2, 1.5)
    assert (column["at_low"], column["nan"], column["above"]) == ("0", "2", "3")
    nothing = Answer("print x", RankSet.range(0, 2), (various(Value(PLACEHOLDER), ["nan", "nan"]),))
    text = json_lines.encode(json_lines.answer(nothing, lambda each: "text", 0.0))
    assert "mean" not in json.loads(text)["classes"][0]["columns"][0]
