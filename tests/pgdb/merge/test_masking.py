"""Masking takes addresses out of a record, and filling puts back exactly what was taken."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.merge.answer import fill_record
from pgdb.merge.masking import (
    DIFFERENT,
    DIFFERENT_SLOT,
    SlotFiller,
    join_slots,
    mask_free_text,
    mask_record,
    mask_values,
)
from pgdb.records import (
    SLOT,
    Done,
    Event,
    Failure,
    Frame,
    Output,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
)
from tests.support.strategies import EVENTS, RECORDS, events, records, stacks

HEAP = "0x5555555592a0"
STACK = "0x7ffe12345678"


def test_the_strategies_leave_no_kind_out() -> None:
    assert set(RECORDS) == set(get_args(Record))
    assert set(EVENTS) == set(get_args(Event))


@given(records | events)
def test_filling_gives_back_what_masking_took(record: Record | Event) -> None:
    masked = mask_record(record)
    assert fill_record(masked.record, masked.slots) == record


@given(stacks)
def test_filling_gives_back_arguments_that_were_masked_whole(stack: Stack) -> None:
    masked = mask_record(stack, join_arguments=True)
    assert fill_record(masked.record, masked.slots) == stack


@given(records)
def test_numbers_that_are_data_are_left_alone(record: Record) -> None:
    masked = mask_record(record, numbers_are_data=True)
    assert (masked.record, masked.slots) == (record, ())


@given(
    st.lists(st.tuples(*[st.sampled_from(["", "1", DIFFERENT_SLOT])] * 2), min_size=3, max_size=3)
)
def test_joining_slots_is_a_merge(rows: list[tuple[str, str]]) -> None:
    a, b, c = rows
    assert join_slots(a, b) == join_slots(b, a)
    assert join_slots(join_slots(a, b), c) == join_slots(a, join_slots(b, c))
    assert join_slots(a, a) == a


def test_slots_that_differ_are_shown_as_different() -> None:
    one, other = (mask_record(Value(text=f"(int *) {at}")) for at in (HEAP, STACK))
    assert one.record == other.record
    both = join_slots(one.slots, other.slots)
    assert fill_record(one.record, both) == Value(text=f"(int *) {DIFFERENT}")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (HEAP, SLOT),
        (f'(char *) {HEAP} "abc"', f'(char *) {SLOT} "abc"'),
        (f"{{{HEAP}, {STACK}}}", f"{{{SLOT}, {SLOT}}}"),
        ("(int *) 0x12345", f"(int *) {SLOT}"),
        # Null and offsets from null are data: they must go on telling ranks apart.
        ("(int *) 0x0", "(int *) 0x0"),
        ("(int *) 0x10", "(int *) 0x10"),
        ("0x1234", "0x1234"),
        ("12345678", "12345678"),
        ("a0x5555555592a0", "a0x5555555592a0"),
        ("0x5555555592a0g", "0x5555555592a0g"),
    ],
)
def test_which_values_are_masked(text: str, masked: str) -> None:
    slots: list[str] = []
    assert mask_values(text, slots) == masked
    assert len(slots) == masked.count(SLOT)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("rip 0x555555555189 <main+4>", f"rip {SLOT} <main+4>"),
        ("0x00007ffff7dd5000 libc", f"{SLOT} libc"),
        (STACK, SLOT),
        # Not where Linux maps programs: a number of the program's own.
        ("rax 0xdeadbeef", "rax 0xdeadbeef"),
        ("eflags 0x246", "eflags 0x246"),
        ("0xffffffffffffffff", "0xffffffffffffffff"),
    ],
)
def test_free_text_is_masked_only_where_programs_lie(text: str, masked: str) -> None:
    assert mask_free_text(text, []) == masked


def test_a_mark_in_the_programs_data_gets_itself_back() -> None:
    for record in (
        Value(text=f'"{SLOT}"'),
        Text(text=f"{SLOT}\n{STACK} {SLOT}"),
        Output(text=SLOT),
        Failure(message=f"{SLOT} {HEAP}"),
        Variables(items=(Variable(name="s", value=f'{HEAP} "{SLOT}"'),)),
    ):
        masked = mask_record(record)
        assert fill_record(masked.record, masked.slots) == record


def test_stops_at_one_place_are_equal_whatever_arguments_and_depth() -> None:
    def stop(rank: int) -> Stop:
        argument = Variable(name="rank", value=str(rank), is_argument=rank > 0)
        frame = Frame(level=rank, function="work", arguments=(argument,), file="a.c", line=3)
        return Stop(reason="breakpoint-hit", frame=frame, detail=f"x: 0 -> {rank}")

    masked = [mask_record(stop(rank)) for rank in (1, 2)]
    assert masked[0].record == masked[1].record
    shown = fill_record(stop(1), ())
    assert shown == stop(1)
    joined = fill_record(masked[0].record, join_slots(masked[0].slots, masked[1].slots))
    assert isinstance(joined, Stop) and joined.frame is not None
    assert joined.frame.arguments[0].value == DIFFERENT
    assert joined.frame.level == -1
    assert joined.detail == f"x: {DIFFERENT}"
    elsewhere = mask_record(Stop(reason="breakpoint-hit", frame=Frame(level=0, function="other")))
    assert elsewhere.record != masked[0].record


def test_arguments_of_a_stack_split_classes_unless_they_are_joined() -> None:
    def stack(value: str) -> Stack:
        argument = Variable(name="x", value=value, is_argument=True)
        return Stack(frames=(Frame(level=0, function="f", arguments=(argument,)),))

    split = [mask_record(stack(value)).record for value in ("1", "2")]
    assert split[0] != split[1]
    joined = [mask_record(stack(value), join_arguments=True).record for value in ("1", "2")]
    assert joined[0] == joined[1]


def test_the_number_of_hidden_frames_does_not_split() -> None:
    masked = [mask_record(Stack(frames=(), hidden=hidden)).record for hidden in ("3", "14")]
    assert masked[0] == masked[1]
    assert mask_record(Stack(frames=())).record != masked[0]


def test_records_without_texts_have_no_slots() -> None:
    assert mask_record(Done()).slots == ()


def test_more_marks_than_slots_are_shown_as_different() -> None:
    filler = SlotFiller(["1"])
    assert filler.fill(f"{SLOT}{SLOT}") == f"1{DIFFERENT}"


def test_an_argument_whose_value_is_empty_stays_empty() -> None:
    frame = Frame(level=0, function="f", arguments=(Variable(name="x", value=""),))
    stop = Stop(reason="breakpoint-hit", frame=frame)
    masked = mask_record(stop)
    assert fill_record(masked.record, masked.slots) == stop
