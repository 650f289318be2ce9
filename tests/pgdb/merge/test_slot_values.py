"""Slots that keep the texts of their ranks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.merge.classes import EquivalenceClass, Merger, stop_details
from pgdb.merge.normalize import DIFFERENT, DIFFERENT_SLOT, join_slots, normalize_record
from pgdb.merge.slot_values import (
    MOST_CHARACTERS,
    MOST_TEXTS,
    join_listed,
    slot_of_rank,
    texts_of_slot,
)
from pgdb.ranks import RankSet
from pgdb.records import Event, Frame, Stop

SLOTS = st.lists(
    st.builds(slot_of_rank, st.integers(0, 20), st.sampled_from(["1", "2", "nan(0x1)", ""])),
    min_size=1,
    max_size=4,
)


def joined(slots: list[str]) -> str:
    return list(itertools.accumulate(slots, lambda a, b: join_slots((a,), (b,))[0]))[-1]


@given(SLOTS, SLOTS, SLOTS)
def test_joining_does_not_depend_on_the_order(
    one: list[str], two: list[str], six: list[str]
) -> None:
    a, b, c = map(joined, (one, two, six))
    assert join_slots((a,), (b,)) == join_slots((b,), (a,))
    left = join_slots(join_slots((a,), (b,)), (c,))
    assert left == join_slots((a,), join_slots((b,), (c,)))
    assert join_slots(left, left) == left
    assert joined(one + two + six) == left[0]


def test_texts_and_their_ranks() -> None:
    slot = joined([slot_of_rank(rank, "9" if rank == 2 else "4") for rank in range(5)])
    assert [(str(ranks), text) for ranks, text in texts_of_slot(slot)] == [
        ("0-1,3-4", "4"),
        ("2", "9"),
    ]
    assert texts_of_slot(DIFFERENT_SLOT) == texts_of_slot("4") == ()


@pytest.mark.parametrize(
    "slot", ["\0ranks\0", "\0ranks\0x\0y", "\0ranks\x000", "\0ranks\x000\0a\0b"]
)
def test_a_malformed_slot_from_the_wire_has_no_texts(slot: str) -> None:
    assert texts_of_slot(slot) == ()
    assert join_slots((slot,), (slot_of_rank(1, "a"),)) == (DIFFERENT_SLOT,)


def test_limits() -> None:
    many = [slot_of_rank(rank, str(rank)) for rank in range(MOST_TEXTS)]
    # In pairs, as aggregators do: one after the other takes time with the square of their number.
    while len(many) > 1:
        many = [joined(list(each)) for each in zip(many[::2], many[1::2], strict=True)]
    (full,) = many
    assert len(texts_of_slot(full)) == MOST_TEXTS
    assert join_listed(full, slot_of_rank(5000, "5")) is not None
    assert join_slots((full,), (slot_of_rank(5000, "new"),)) == (DIFFERENT_SLOT,)
    long = slot_of_rank(1, "x" * MOST_CHARACTERS)
    assert join_slots((long,), (slot_of_rank(2, "y"),)) == (DIFFERENT_SLOT,)


def stop_class(*details: str) -> EquivalenceClass[Event]:
    merger: Merger[Event] = Merger()
    for rank, detail in enumerate(details):
        stop = Stop(
            reason="function-finished", detail=detail, frame=Frame(level=rank, function="main")
        )
        normalized = normalize_record(stop, rank=rank)
        assert isinstance(normalized.record, Stop)
        merger.add(RankSet([rank]), normalized.record, normalized.slots)
    (found,) = merger.classes
    return found


def test_details_of_stops() -> None:
    found = stop_class("value returned: 4", "value returned: 4", "value returned: 9")
    details = stop_details(found)
    assert [(str(each.ranks), each.text) for each in details] == [("0-1", "4"), ("2", "9")]
    assert isinstance(found.filled, Stop)
    assert found.filled.detail == f"value returned: {DIFFERENT}"
    assert [str(each.ranks) for each in stop_details(found.part(RankSet([1, 2])))] == ["1", "2"]
    same = stop_class("value returned: 4", "value returned: 4")
    assert isinstance(same.filled, Stop) and same.filled.detail == "value returned: 4"
    assert stop_details(stop_class("", "")) == ()


def test_addresses_in_details_are_no_differences() -> None:
    found = stop_class(*(f'value returned: (char *) 0x5555555592a{rank} "a"' for rank in range(3)))
    assert isinstance(found.filled, Stop)
    assert found.filled.detail == f'value returned: (char *) {DIFFERENT} "a"'
