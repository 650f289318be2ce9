"""Stacks that are merged at the leaf before they are reported: the same classes as one by one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.backend.node import stack_answers
from pgdb.backend.node.answer_cache import AnswerCache
from pgdb.backend.node.stack_answers import StackAnswers, record_of
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Variable


def stack_of(pointer: int, value: int) -> Stack:
    """Return a stack with a pointer, which is normalized, and a value, which is not when split."""
    arguments = (
        Variable(name="data", value=f"0x{pointer:x}", is_argument=True),
        Variable(name="n", value=str(value), is_argument=True),
    )
    return Stack(frames=(Frame(level=0, function="main", arguments=arguments, line=value % 2),))


SAID = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.booleans()), max_size=30)


@given(said=SAID, at_once=st.integers(0, 30))
def test_as_one_by_one(said: list[tuple[int, int, bool]], at_once: int) -> None:
    stacks: dict[tuple[int, int], Stack] = {}
    found: dict[int, Merger[Record]] = {1: Merger(), 2: Merger()}
    wanted: dict[int, Merger[Record]] = {1: Merger(), 2: Merger()}
    memory = AnswerCache()
    calls: list[int] = []

    def on_answer(request_id: int, each: EquivalenceClass[Record]) -> None:
        calls.append(request_id)
        found[request_id].add_classes([each])

    async def notify() -> None:
        answers = StackAnswers(memory, on_answer)
        for rank, (pointer, value, split) in enumerate(said):
            stack = stacks.setdefault((pointer, value), stack_of(pointer, value))
            request_id = 1 + split
            answers.add(request_id, rank, stack, split=split)
            normalized = normalize_record(stack, join_arguments=not split)
            wanted[request_id].add(RankSet([rank]), record_of(normalized.record), normalized.slots)
            if rank % 7 == 0:
                await asyncio.sleep(0)
        for _ in said:
            await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack_answers, "FRAMES_AT_ONCE", at_once)
        asyncio.run(notify())
    for request_id, merger in found.items():
        assert merger.classes == wanted[request_id].classes
    for rank, (pointer, value, split) in enumerate(said):
        assert memory.recall(1 + split, rank) == stack_of(pointer, value)


def test_equal_stacks_are_reported_once() -> None:
    reported: list[EquivalenceClass[Record]] = []

    async def notify() -> None:
        answers = StackAnswers(AnswerCache(), lambda _, each: reported.append(each))
        for rank in range(100):
            answers.add(1, rank, stack_of(rank + 1, 5), split=False)
        assert reported == []
        await asyncio.sleep(0)

    asyncio.run(notify())
    (each,) = reported
    assert each.ranks == RankSet.parse("0-99")
