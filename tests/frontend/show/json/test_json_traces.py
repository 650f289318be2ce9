"""The lines of traces that were set or are listed."""

from __future__ import annotations

import json

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.show.json import json_traces
from pgdb.frontend.show.json.json_lines import encode
from pgdb.frontend.show.text import render
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Text

MADE = Trace(2, "f", ("x", "y[1]"), "x > 3", 10, 0, RankSet.parse("0-2"))
NOBODY = {"late": "", "lost": "", "running": ""}


def test_a_trace_that_was_set_has_its_places_and_failures() -> None:
    classes: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet.parse("0-1"), Text(text="f at a.c:7")),
        EquivalenceClass(RankSet.parse("2"), Text(text="f at b.c:9")),
        EquivalenceClass(RankSet.parse("3"), Failure(message="no f")),
    )
    missing = Missing(late=RankSet.parse("4"))
    answer = Answer("trace f x", RankSet.parse("0-4"), classes, missing)
    line = json.loads(encode(json_traces.made(MADE, answer, render.record)))
    assert (line["type"], line["event"]) == ("traces", "set")
    assert line["traces"] == [
        {
            "number": 2,
            "place": "f",
            "expressions": ["x", "y[1]"],
            "ranks": "0-2",
            "condition": "x > 3",
            "every": 10,
            "places": [
                {"ranks": "0-1", "text": "f at a.c:7"},
                {"ranks": "2", "text": "f at b.c:9"},
            ],
        }
    ]
    assert [(each["ranks"], each["record"]["message"]) for each in line["errors"]] == [
        ("3", "no f")
    ]
    assert line["missing"] == {**NOBODY, "late": "4"}


def test_a_list_of_traces_can_be_empty() -> None:
    line = json.loads(encode(json_traces.listed([MADE])))
    assert (line["event"], [each["number"] for each in line["traces"]]) == ("listed", [2])
    empty = json.loads(encode(json_traces.listed([])))
    assert (empty["type"], empty["traces"], empty["missing"]) == ("traces", [], NOBODY)
