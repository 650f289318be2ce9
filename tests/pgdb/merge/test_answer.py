"""Merging answers is algebra: any tree shape, any order, duplicates, the empty answer."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from pgdb.merge.answer import EquivalenceClass, Merger, Missing, fill_record
from pgdb.merge.masking import DIFFERENT_SLOT, mask_record
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value
from tests.support.strategies import merged, rank_sets, records

Answer = tuple[EquivalenceClass[Record], ...]


def answer_of(rank: int, record: Record) -> Answer:
    masked = mask_record(record)
    merger: Merger[Record] = Merger()
    merger.add(RankSet([rank]), masked.record, masked.slots)  # type: ignore[arg-type]
    return merger.classes


# Few different records among many ranks, so that classes have members.
said = st.lists(records, min_size=1, max_size=4).flatmap(
    lambda some: st.lists(st.sampled_from(some), min_size=1, max_size=12)
)


@given(said, st.randoms(use_true_random=False))
def test_any_tree_shape_and_order_gives_the_same(records: list[Record], rng: random.Random) -> None:
    leaves = [answer_of(rank, record) for rank, record in enumerate(records)]
    at_once = merged(*leaves)
    rng.shuffle(leaves)
    while len(leaves) > 1:
        take = [leaves.pop() for _ in range(min(len(leaves), rng.randint(1, 4)))]
        leaves.insert(rng.randrange(len(leaves) + 1), merged(*take))
    assert leaves[0] == at_once


@given(said)
def test_every_rank_is_in_exactly_one_class_with_what_it_said(records: list[Record]) -> None:
    classes = merged(*(answer_of(rank, record) for rank, record in enumerate(records)))
    assert sum(len(each.ranks) for each in classes) == len(records)
    assert RankSet.union(each.ranks for each in classes) == RankSet.range(0, len(records))
    for each in classes:
        for rank in each.ranks:
            masked = mask_record(records[rank])
            assert masked.record == each.record
            for ours, theirs in zip(each.slots, masked.slots, strict=True):
                assert ours in (DIFFERENT_SLOT, theirs)
        if len(each.ranks) == 1:
            assert each.filled == records[each.ranks.first]
    assert [each.ranks.first for each in classes] == sorted(each.ranks.first for each in classes)


@given(said, said)
def test_the_laws_of_a_merge(one: list[Record], other: list[Record]) -> None:
    a = merged(*(answer_of(rank, record) for rank, record in enumerate(one)))
    b = merged(*(answer_of(100 + rank, record) for rank, record in enumerate(other)))
    assert merged(a, b) == merged(b, a)
    assert merged(a, ()) == a == merged((), a)
    assert merged(a, a) == a
    assert merged(merged(a, b), a) == merged(a, b)


@given(rank_sets, rank_sets, records, records)
def test_ranks_that_come_twice_keep_what_they_said_first(
    first: RankSet, second: RankSet, one: Record, other: Record
) -> None:
    merger: Merger[Record] = Merger()
    merger.add(first, one)
    merger.add(second, other)
    assert merger.ranks == first | second
    by_rank = {rank: each.record for each in merger.classes for rank in each.ranks}
    assert by_rank == dict.fromkeys(second, other) | dict.fromkeys(first, one)


def test_an_empty_merge_is_false_and_has_no_classes() -> None:
    merger: Merger[Record] = Merger()
    assert not merger
    merger.add(RankSet(), Value(text="1"))
    assert not merger and merger.classes == ()
    merger.add(RankSet([1]), Value(text="1"))
    assert merger


def test_failures_are_told_apart() -> None:
    failed: EquivalenceClass[Record] = EquivalenceClass(RankSet([1]), Failure(message="no"))
    worked: EquivalenceClass[Record] = EquivalenceClass(RankSet([1]), Value(text="no"))
    assert failed.is_error and not worked.is_error


def test_a_record_without_slots_is_filled_by_itself() -> None:
    record = Value(text="7")
    assert fill_record(record, ()) is record


missings: Callable[[], st.SearchStrategy[Missing]] = lambda: st.builds(  # noqa: E731
    Missing, late=rank_sets, lost=rank_sets, running=rank_sets
)


@given(missings(), missings(), rank_sets)
def test_missing_ranks_as_sets(one: Missing, other: Missing, ranks: RankSet) -> None:
    assert (one | other).ranks == one.ranks | other.ranks
    assert (one - ranks).ranks == one.ranks - ranks
    assert one | Missing() == one
    assert not Missing() and one
