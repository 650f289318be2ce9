"""Ranks' answers are kept in full, and the oldest are dropped at the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgdb.backend.node.answer_cache import AnswerCache
from pgdb.merge.templates import Templated
from pgdb.records import Done, Record, Running, Value
from tests.support.strategies import leaf_records, templated


@given(st.lists(leaf_records, max_size=12))
def test_what_was_said_is_recalled_in_full(records: list[Record]) -> None:
    memory = AnswerCache()
    for rank, record in enumerate(records):
        memory.keep(3, rank, record)
    for rank, record in enumerate(records):
        expected = record if isinstance(record, Templated) else None
        assert memory.recall(3, rank) == expected
        assert memory.recall(2, rank) is None
    assert memory.recall(3, len(records)) is None


def test_what_says_little_is_not_kept() -> None:
    memory = AnswerCache()
    memory.keep(1, 0, Done())
    memory.keep(1, 1, Running())
    assert memory.recall(1, 0) is None and memory.recall(1, 1) is None


def test_the_oldest_requests_go_first() -> None:
    memory = AnswerCache(limit_bytes=1000)
    for request_id in range(10):
        for rank in range(4):
            memory.keep(request_id, rank, Value(text=f"{rank}" * 60))
    kept = [number for number in range(10) if memory.recall(number, 0) is not None]
    assert kept and kept == [*range(kept[0], 10)] and kept[0] > 0
    assert all(memory.recall(kept[-1], rank) == Value(text=f"{rank}" * 60) for rank in range(4))


def test_equal_answers_are_kept_once() -> None:
    memory = AnswerCache(limit_bytes=1000)
    memory.keep(1, 0, Value(text="first"))
    for rank in range(1000):
        memory.keep(2, rank, Value(text="x" * 500))
    assert memory.recall(1, 0) == Value(text="first")
    assert memory.recall(2, 999) == Value(text="x" * 500)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5), templated), max_size=30),
    st.integers(0, 300),
)
def test_whatever_is_kept_is_what_was_said(
    said: list[tuple[int, int, Templated]], limit_bytes: int
) -> None:
    memory = AnswerCache(limit_bytes)
    by_rank: dict[tuple[int, int], Templated] = {}
    for request_id, rank, record in said:
        if (request_id, rank) not in by_rank:  # a rank answers a request once
            by_rank[request_id, rank] = record
            memory.keep(request_id, rank, record)
    for (request_id, rank), record in by_rank.items():
        assert memory.recall(request_id, rank) in (record, None)
    assert memory._size_bytes <= limit_bytes


def test_an_answer_larger_than_all_there_is_room_for_is_not_kept() -> None:
    memory = AnswerCache(limit_bytes=100)
    memory.keep(1, 0, Value(text="x" * 200))
    assert memory.recall(1, 0) is None
    memory.keep(1, 1, Value(text="y"))
    assert memory.recall(1, 1) == Value(text="y")
