"""Classes and records as lines of JSON, and that lines are decoded strictly."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from pgdb.frontend.show.json import json_lines, json_records
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import (
    Event,
    Frame,
    Record,
    Stack,
    Stop,
    Threads,
    ThreadStack,
    Value,
    Variable,
    Various,
)
from tests.support.json_shown import (
    DECODER,
    NOW_S,
    RECORDS,
    answered,
    events,
    merged,
    one_shown,
    said,
    shown,
    text_of,
)


def tagged_as_on_the_wire(written: Any) -> Any:
    """Return a record as the overlay encodes it: with the tag type, where --json has kind.

    A breakpoint and an MPI call have a kind of their own, and are no records.
    """
    if isinstance(written, list):
        return [tagged_as_on_the_wire(each) for each in written]
    if not isinstance(written, dict):
        return written
    found = {key: tagged_as_on_the_wire(value) for key, value in written.items()}
    is_record = found.get("kind") in TAGS
    return {"type" if key == "kind" and is_record else key: found[key] for key in found}


TAGS = {kind.__struct_config__.tag for kind in get_args(Record)}


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
