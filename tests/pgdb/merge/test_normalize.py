"""Normalizing removes addresses from a record, and filling restores exactly the removed parts."""

from __future__ import annotations

import random
from collections import Counter
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge import normalize
from pgdb.merge.classes import fill_record
from pgdb.merge.normalize import (
    DIFFERENT,
    DIFFERENT_SLOT,
    SlotFiller,
    join_slots,
    normalize_free_text,
    normalize_record,
    normalize_values,
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
    Threads,
    ThreadStack,
    Value,
    Variable,
    Variables,
    Various,
)
from tests.support.strategies import EVENTS, RECORDS, events, records, stacks, threads

HEAP = "0x5555555592a0"
STACK = "0x7ffe12345678"


def test_the_strategies_leave_no_kind_out() -> None:
    assert set(RECORDS) == set(get_args(Record))
    assert set(EVENTS) == set(get_args(Event))


# The threads of a rank are sorted, see below; summed-up answers are never normalized.
ordered_records = st.one_of(
    [made for kind, made in RECORDS.items() if kind not in (Threads, Various)]
)


@given(ordered_records | events)
def test_filling_gives_back_what_normalizing_took(record: Record | Event) -> None:
    normalized = normalize_record(record)
    assert fill_record(normalized.record, normalized.slots) == record


@given(records | events)
def test_what_is_normalized_has_nothing_left_to_normalize(record: Record | Event) -> None:
    normalized = normalize_record(record)
    again = normalize_record(normalized.record)
    assert again.record == normalized.record
    assert len(again.slots) == len(normalized.slots)


FRAGMENTS = (
    *("\n", " ", "1 ", "a", "0x", "0x5555555592a0", "0x00007ffff7d8c740", "0x10", "(", ")", "-1"),
    *("process ", "process 47", "LWP ", "(LWP 4711)", "* 1    LWP 4711 ", "  2    process 4 "),
    *("poll (fds=0x7ffff7d8c740, timeout=", "__GI_epoll_wait (", "timeout=", "@entry=7", SLOT),
)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join), st.integers(1, 60))
def test_a_text_is_normalized_piece_by_piece_as_it_is_at_once(text: str, slice_bytes: int) -> None:
    at_once: list[str] = []
    normalized = normalize._normalize_lines(text, 0, len(text), at_once)
    slots: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normalize, "SLICE", slice_bytes)
        assert normalize_free_text(text, slots) == normalized
    assert slots == at_once


def test_timeouts_by_the_thousand_are_normalized_like_one() -> None:
    slots: list[str] = []
    normalized = normalize_free_text("poll (" + "timeout=1 " * 5000 + ")", slots)
    assert normalized == "poll (" + f"timeout={SLOT} " * 5000 + ")"
    assert slots == ["1"] * 5000


def test_a_line_too_long_to_be_one_of_threads_has_only_its_addresses_normalized() -> None:
    slots: list[str] = []
    text = "x" * normalize.LONGEST_LINE + " (process 47) 0x7ffff7d8c740"
    assert normalize_free_text(f"{text}\n(process 47)", slots).endswith(
        f" (process 47) {SLOT}\n(process {SLOT})"
    )
    assert slots == ["0x7ffff7d8c740", "47"]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join))
def test_pointers_are_the_same_however_they_are_searched_for(text: str) -> None:
    slots: list[str] = []
    normalized = normalize_values(text, slots)
    # A text with a mark at its end is searched with the other pattern.
    others: list[str] = []
    assert normalize_values(text + f" {SLOT}", others) == f"{normalized} {SLOT}"
    assert others == [*slots, SLOT]


@given(stacks)
def test_filling_gives_back_arguments_that_were_normalized_whole(stack: Stack) -> None:
    normalized = normalize_record(stack, join_arguments=True)
    assert fill_record(normalized.record, normalized.slots) == stack


@given(records)
def test_numbers_that_are_data_are_left_alone(record: Record) -> None:
    normalized = normalize_record(record, numbers_are_data=True)
    assert (normalized.record, normalized.slots) == (record, ())


@given(
    st.lists(st.tuples(*[st.sampled_from(["", "1", DIFFERENT_SLOT])] * 2), min_size=3, max_size=3)
)
def test_joining_slots_is_a_merge(rows: list[tuple[str, str]]) -> None:
    a, b, c = rows
    assert join_slots(a, b) == join_slots(b, a)
    assert join_slots(join_slots(a, b), c) == join_slots(a, join_slots(b, c))
    assert join_slots(a, a) == a


def test_slots_that_differ_are_shown_as_different() -> None:
    one, other = (normalize_record(Value(text=f"(int *) {at}")) for at in (HEAP, STACK))
    assert one.record == other.record
    both = join_slots(one.slots, other.slots)
    assert fill_record(one.record, both) == Value(text=f"(int *) {DIFFERENT}")


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        (HEAP, SLOT),
        (f'(char *) {HEAP} "abc"', f'(char *) {SLOT} "abc"'),
        (f"{{{HEAP}, {STACK}}}", f"{{{SLOT}, {SLOT}}}"),
        ("(int *) 0x12345", f"(int *) {SLOT}"),
        # Null and offsets from null are data: they must distinguish ranks.
        ("(int *) 0x0", "(int *) 0x0"),
        ("(int *) 0x10", "(int *) 0x10"),
        ("0x1234", "0x1234"),
        ("12345678", "12345678"),
        ("a0x5555555592a0", "a0x5555555592a0"),
        ("0x5555555592a0g", "0x5555555592a0g"),
    ],
)
def test_which_values_are_normalized(text: str, normalized: str) -> None:
    slots: list[str] = []
    assert normalize_values(text, slots) == normalized
    assert len(slots) == normalized.count(SLOT)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("rip 0x555555555189 <main+4>", f"rip {SLOT} <main+4>"),
        ("0x00007ffff7dd5000 libc", f"{SLOT} libc"),
        (STACK, SLOT),
        # Linux maps no programs there: the number is the program's own.
        ("rax 0xdeadbeef", "rax 0xdeadbeef"),
        ("eflags 0x246", "eflags 0x246"),
        ("0xffffffffffffffff", "0xffffffffffffffff"),
        # Numbers of threads and processes in GDB's output.
        (
            f"* 1    Thread {STACK} (LWP 4711) main ()\n  2    LWP 4712 work ()",
            f"* 1    Thread {SLOT} (LWP {SLOT}) main ()\n  2    LWP {SLOT} work ()",
        ),
        ("* 1    process 4711 1 (native) /bin/a", f"* 1    process {SLOT} 1 (native) /bin/a"),
        ("[Switching to thread 1 (process 47)]", f"[Switching to thread 1 (process {SLOT})]"),
        ("process 4711\ncmdline = './a'\n", f"process {SLOT}\ncmdline = './a'\n"),
        (
            f"__GI___poll (fds={STACK}, nfds=1, timeout=3599317) at poll.c:29",
            f"__GI___poll (fds={SLOT}, nfds=1, timeout={SLOT}) at poll.c:29",
        ),
        ("epoll_wait (epfd=1, timeout=timeout@entry=5)", f"epoll_wait (epfd=1, timeout={SLOT})"),
        # The same words where the program's own text may stand.
        ("send_all (count=3, timeout=30)", "send_all (count=3, timeout=30)"),
        ("process 3", "process 3"),
        ('"process 3 of LWP 4"', '"process 3 of LWP 4"'),
        ("solved by process 3\n", "solved by process 3\n"),
    ],
)
def test_free_text_is_normalized_only_where_programs_lie(text: str, normalized: str) -> None:
    assert normalize_free_text(text, []) == normalized


def test_a_mark_in_the_programs_data_gets_itself_back() -> None:
    for record in (
        Value(text=f'"{SLOT}"'),
        Text(text=f"{SLOT}\n{STACK} {SLOT}"),
        Output(text=SLOT),
        Failure(message=f"{SLOT} {HEAP}"),
        Variables(items=(Variable(name="s", value=f'{HEAP} "{SLOT}"'),)),
    ):
        normalized = normalize_record(record)
        assert fill_record(normalized.record, normalized.slots) == record


def test_stops_at_one_place_are_equal_whatever_arguments_and_depth() -> None:
    def stop(rank: int) -> Stop:
        argument = Variable(name="rank", value=str(rank), is_argument=rank > 0)
        frame = Frame(level=rank, function="work", arguments=(argument,), file="a.c", line=3)
        return Stop(reason="breakpoint-hit", frame=frame, detail=f"x: 0 -> {rank}")

    normalized = [normalize_record(stop(rank)) for rank in (1, 2)]
    assert normalized[0].record == normalized[1].record
    shown = fill_record(stop(1), ())
    assert shown == stop(1)
    joined = fill_record(normalized[0].record, join_slots(normalized[0].slots, normalized[1].slots))
    assert isinstance(joined, Stop) and joined.frame is not None
    assert joined.frame.arguments[0].value == DIFFERENT
    assert joined.frame.level == -1
    assert joined.detail == f"x: {DIFFERENT}"
    elsewhere = normalize_record(
        Stop(reason="breakpoint-hit", frame=Frame(level=0, function="other"))
    )
    assert elsewhere.record != normalized[0].record


def test_arguments_of_a_stack_split_classes_unless_they_are_joined() -> None:
    def stack(value: str) -> Stack:
        argument = Variable(name="x", value=value, is_argument=True)
        return Stack(frames=(Frame(level=0, function="f", arguments=(argument,)),))

    split = [normalize_record(stack(value)).record for value in ("1", "2")]
    assert split[0] != split[1]
    joined = [normalize_record(stack(value), join_arguments=True).record for value in ("1", "2")]
    assert joined[0] == joined[1]


def test_the_number_of_hidden_frames_does_not_split() -> None:
    normalized = [
        normalize_record(Stack(frames=(), hidden=hidden)).record for hidden in ("3", "14")
    ]
    assert normalized[0] == normalized[1]
    assert normalize_record(Stack(frames=())).record != normalized[0]


def test_records_without_texts_have_no_slots() -> None:
    assert normalize_record(Done()).slots == ()


def test_more_marks_than_slots_are_shown_as_different() -> None:
    filler = SlotFiller(["1"])
    assert filler.fill(f"{SLOT}{SLOT}") == f"1{DIFFERENT}"


def test_an_argument_whose_value_is_empty_stays_empty() -> None:
    frame = Frame(level=0, function="f", arguments=(Variable(name="x", value=""),))
    stop = Stop(reason="breakpoint-hit", frame=frame)
    normalized = normalize_record(stop)
    assert fill_record(normalized.record, normalized.slots) == stop


# -- threads ---------------------------------------------------------------------------------------


def stack_at(address: str, function: str = "work") -> Stack:
    argument = Variable(name="p", value=address, is_argument=True)
    return Stack(frames=(Frame(level=0, function=function, arguments=(argument,)),))


@given(threads, st.randoms(use_true_random=False), st.booleans())
def test_threads_are_the_same_in_any_order(
    record: Threads, rng: random.Random, join_arguments: bool
) -> None:
    shuffled = list(record.stacks)
    rng.shuffle(shuffled)
    other = Threads(stacks=tuple(shuffled), hidden=record.hidden)
    one_normalized, other_normalized = (
        normalize_record(each, join_arguments=join_arguments) for each in (record, other)
    )
    assert one_normalized == other_normalized


@given(threads)
def test_no_thread_is_lost_or_made_up(record: Threads) -> None:
    normalized = normalize_record(record)
    assert isinstance(normalized.record, Threads)
    expected: Counter[Stack] = Counter()
    originals: dict[Stack, set[Stack]] = {}
    for each in record.stacks:
        stack = normalize_record(each.stack).record
        assert isinstance(stack, Stack)
        expected[stack] += each.count
        originals.setdefault(stack, set()).add(each.stack)
    assert {each.stack: each.count for each in normalized.record.stacks} == expected
    filled = fill_record(normalized.record, normalized.slots)
    assert isinstance(filled, Threads) and filled.hidden == record.hidden
    # A stack made from one stack, or from equal ones, is filled as it was.
    for before, after in zip(normalized.record.stacks, filled.stacks, strict=True):
        if len(originals[before.stack]) == 1:
            assert {after.stack} == originals[before.stack]


def test_threads_that_differ_in_addresses_only_are_counted() -> None:
    said = [stack_at(HEAP), stack_at(STACK), stack_at("7"), stack_at(HEAP, "main")]
    normalized = normalize_record(Threads(stacks=tuple(ThreadStack(stack=each) for each in said)))
    assert isinstance(normalized.record, Threads)
    assert sorted(each.count for each in normalized.record.stacks) == [1, 1, 2]
    filled = fill_record(normalized.record, normalized.slots)
    assert isinstance(filled, Threads)
    (both,) = (each for each in filled.stacks if each.count == 2)
    assert both.stack.frames[0].arguments[0].value == DIFFERENT


def test_ranks_with_the_same_threads_are_of_one_class_whatever_their_order() -> None:
    one, other = (stack_at(HEAP, name) for name in ("a", "b"))
    orders = [(one, other), (other, one)]
    normalized = [
        normalize_record(
            Threads(stacks=tuple(ThreadStack(stack=each) for each in order), hidden=hidden)
        )
        for order, hidden in zip(orders, ("2", "3"), strict=True)
    ]
    assert normalized[0].record == normalized[1].record


def test_slots_of_another_number_are_refused() -> None:
    with pytest.raises(ProtocolError, match="1 slots and 2 slots"):
        join_slots(("a",), ("a", "b"))


@pytest.mark.parametrize("kind", ["a stack", "a stop"])
def test_code_at_a_wild_address_is_no_place_of_its_own(kind: str) -> None:
    """A jump through a damaged pointer ends at another address on every rank."""

    def record_at(address: str) -> Record:
        frame = Frame(level=0, function=address, arguments=(Variable("n", "3"),))
        return Stack(frames=(frame,)) if kind == "a stack" else Stop(reason="other", frame=frame)

    one, other = (normalize_record(record_at(each)) for each in ("0x7f0012345678", "0x55aa0000"))
    null = normalize_record(record_at("0x10"))
    assert one.record == other.record != null.record
    assert fill_record(one.record, one.slots) == record_at("0x7f0012345678")
    assert fill_record(null.record, null.slots) == record_at("0x10")
    both = fill_record(one.record, join_slots(one.slots, other.slots))
    assert DIFFERENT in str(both)


def test_a_breakpoint_hit_by_threads_of_other_numbers_and_names_is_one_stop() -> None:
    def stop(thread: str, process: str) -> Stop:
        return Stop(
            reason="breakpoint-hit",
            frame=Frame(level=0, function="work"),
            detail="x: 1 -> 2",
            event=f"forked process {process}",
            thread=thread,
            thread_name=f"worker-{thread}",
        )

    one, other = normalize_record(stop("3", "4711")), normalize_record(stop("4", "4712"))
    assert one.record == other.record
    assert fill_record(one.record, one.slots) == stop("3", "4711")
    both = fill_record(one.record, join_slots(one.slots, other.slots))
    assert isinstance(both, Stop)
    assert (both.thread, both.event, both.detail) == (DIFFERENT, "forked process …", "x: 1 -> 2")
    first = normalize_record(Stop(reason="breakpoint-hit", frame=Frame(level=0, function="work")))
    assert first.record != one.record


def test_the_sign_of_a_nan_is_no_difference_and_comes_back() -> None:
    slots: list[str] = []
    text = "{x = -nan(0x8000000000000), y = nan(0x8000000000123), p = 0x5555555592a0, z = -1}"
    normalized = normalize_values(text, slots)
    mark = f"nan({SLOT})"
    assert normalized == f"{{x = {mark}, y = {mark}, p = {SLOT}, z = -1}}"
    assert SlotFiller(slots).fill(normalized) == text


def test_addresses_in_the_output_before_an_error_are_slots() -> None:
    texts = [f"$1 = (int *) {address:#x}" for address in (0x7FFD12340010, 0x7FFD12340018)]
    found = [
        normalize_record(Failure(message="No symbol.", output=text), rank=rank)
        for rank, text in enumerate(texts)
    ]
    assert found[0].record == found[1].record
    assert [each.slots for each in found] == [("0x7ffd12340010",), ("0x7ffd12340018",)]
    assert normalize_record(Failure(message="No symbol."), rank=0).record == Failure("No symbol.")
