"""Details of stops as text: returned values, and the values of watchpoints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.show.json import json_lines, json_notifications
from pgdb.frontend.show.text import event_text, render
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.normalize import DIFFERENT, normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Event, Frame, Record, Stop, Value


def stopped(
    reason: str, *details: str, values: Sequence[tuple[Value, ...]] = ()
) -> EquivalenceClass[Event]:
    merger: Merger[Event] = Merger()
    for rank, detail in enumerate(details):
        frame = Frame(level=0, function="main", file="a.c", line=5)
        stop = msgspec.convert({"type": "stop", "reason": reason, "detail": detail}, Stop)
        stop = replace(stop, frame=frame, values=values[rank] if values else ())
        normalized = normalize_record(stop, rank=rank)
        assert isinstance(normalized.record, Stop)
        merger.add(RankSet([rank]), normalized.record, normalized.slots)
    (found,) = merger.classes
    return found


def test_returned_values_by_rank() -> None:
    found = stopped("function-finished", *(f"value returned: {n}" for n in (4, 4, 9, 4)))
    expected = [
        "returned to main () at a.c:5",
        "    [0-1,3] value returned: 4",
        "    [2]     value returned: 9  <-- differs",
    ]
    first, *rest = event_text.events([found]).split("\n")
    assert [first, *(line[6:] for line in rest)] == ["[0-3] " + expected[0], *expected[1:]]
    said = Answer("finish", found.ranks, (cast(EquivalenceClass[Record], found),))
    assert render.answer(said, number=5, width=80).split("\n") == ["[0-3]", *expected]
    (line,) = json_notifications.notification(RankEvents(classes=(found,)), lambda _: "", 1.0)
    (made,) = json.loads(json_lines.encode(line))["classes"]
    assert made["detail"] == "value returned: …"
    assert made["details"] == [{"ranks": "0-1,3", "text": "4"}, {"ranks": "2", "text": "9"}]


def test_equal_returned_values_are_one_line() -> None:
    found = stopped("function-finished", *["value returned: 4"] * 3)
    assert event_text.events([found]).split("\n")[1].strip() == "value returned: 4"
    (line,) = json_notifications.notification(RankEvents(classes=(found,)), lambda _: "", 1.0)
    assert "details" not in json.loads(json_lines.encode(line))["classes"][0]


def test_structures_returned_are_compared_by_field() -> None:
    pair = "value returned: {{left = 3, right = {}}}"
    found = stopped("function-finished", *(pair.format(n) for n in ("1.5", "inf", "1.5")))
    assert [line.strip() for line in event_text.events([found]).split("\n")[1:]] == [
        "[0-2] value returned: {left = 3, right = …}",
        ".right  [0,2] 1.5",
        "[1]   inf  <-- differs",
    ]


def test_old_and_new_values_of_a_watchpoint() -> None:
    found = stopped("watchpoint-trigger", "n: 0 -> 1", "n: 0 -> 1", "n: 0 -> 3")
    assert [line.strip() for line in event_text.events([found]).split("\n")[1:]] == [
        "[0-1] n: 0 -> 1",
        "[2]   n: 0 -> 3  <-- differs",
    ]
    same = stopped("watchpoint-trigger", *["n: 0 -> 1"] * 2)
    assert event_text.events([same]).split("\n")[1].strip() == "n: 0 -> 1"


def test_pointers_that_change_on_all_ranks_are_one_row() -> None:
    details = (f"p: (int *) 0x0 -> (int *) 0x5555555592a{rank}" for rank in range(3))
    found = stopped("watchpoint-trigger", *details)
    assert [line.strip() for line in event_text.events([found]).split("\n")[1:]] == [
        f"[0-2] p: (int *) 0x0 -> (int *) {DIFFERENT}"
    ]


def test_the_changed_parts_of_a_watched_structure_are_shown() -> None:
    text = "cell: {{id = 0, x = {{0, 0}}}} -> {{id = {}, x = {{0, 0}}}}"
    found = stopped("watchpoint-trigger", *(text.format(n) for n in (1, 1, 3)))
    assert [line.strip() for line in event_text.events([found]).split("\n")[1:]] == [
        "[0-1] cell.id: 0 -> 1",
        "[2]   cell.id: 0 -> 3  <-- differs",
    ]


def test_values_are_compared_beyond_the_elements_shown() -> None:
    def long(last: int) -> Value:
        whole = "{" + ", ".join(["7"] * 300 + [str(last)]) + "}"
        return Value(text="{7 <repeats 200 times>...}", whole=whole, digest=f"0x{last}")

    values = [(long(each),) for each in (7, 7, 8)]
    details = ["value returned: {7 <repeats 200 times>...}"] * 3
    found = stopped("function-finished", *details, values=values)
    assert isinstance(found.filled, Stop)
    assert found.filled.detail == f"value returned: {DIFFERENT}"
    assert [line.strip() for line in event_text.events([found]).split("\n")[1:]] == [
        "[0-2] value returned: {7 <repeats 200 times>...}",
        "[300]  [0-1] 7",
        "[2]   8  <-- differs",
    ]


def test_values_that_differ_nobody_knows_where_are_said_to_differ() -> None:
    values = [(Value(text="{7...}", digest=f"0x{each}"),) for each in (1, 1, 2)]
    found = stopped("function-finished", *["value returned: {7...}"] * 3, values=values)
    lines = event_text.events([found]).split("\n")
    assert "(2 different values, beyond the elements shown: [0-1], [2];" in lines[2]
    assert "'print $' shows where they differ)" in lines[3]
    seen = [(Value(text="{7...}", looked_at=2000),)] * 3
    found = stopped("function-finished", *["value returned: {7...}"] * 3, values=seen)
    assert "[0-2] equal in the first 2000 elements" in event_text.events([found])


def test_many_returned_values_are_summed_up() -> None:
    found = stopped("function-finished", *(f"value returned: {rank}" for rank in range(20)))
    lines = event_text.events([found]).split("\n")
    assert lines[1].strip().startswith("[0-19] value returned: 0 … 19, 20 different values")


def test_the_cause_of_a_fault_and_the_caller_have_lines_of_their_own() -> None:
    cause = "cause: an access through a null pointer"
    caller = "called by main at a.c:6 ('frame 1' selects it)"
    found = stopped("signal-received", f"{cause}; {caller}", f"{cause}; {caller}")
    lines = event_text.events([found]).split("\n")
    assert [each.strip() for each in lines[1:3]] == [cause, caller]
