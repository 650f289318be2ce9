"""Answers with all values that aggregators had only summarized, and parts of answers."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT_SLOT, join_slots, normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Exit, Record, Running, Stop, Various

PAGE_RANKS = 1024
"""Maximum number of ranks in one request for full answers."""
RecallFull = Callable[[Answer, RankSet], Awaitable[Answer]]
"""A function that asks leaves again for the full answers of ranks."""


async def in_full(answer: Answer, recall: RecallFull) -> Answer:
    """Return *answer* with all values, also the values that aggregators only summarized.

    The leaves are asked again, page by page. Ranks whose answers are no longer kept are missing in
    the result.
    """
    summed_up = RankSet.union(
        each.ranks for each in answer.classes if isinstance(each.record, Various)
    )
    if not summed_up:
        return answer
    # Not a Merger, which would summarize the values again.
    members: dict[Record, list[RankSet]] = {}
    slots: dict[Record, tuple[str, ...]] = {}
    missing = answer.missing

    def add(ranks: RankSet, record: Record, found: tuple[str, ...]) -> None:
        members.setdefault(record, []).append(ranks)
        slots[record] = join_slots(slots.get(record, found), found)

    for each in answer.classes:
        if not isinstance(each.record, Various):
            add(each.ranks, each.record, each.slots)
    has_format = "/" in answer.command.partition(" ")[0]
    for page in pages(summed_up):
        part = await recall(answer, page)
        missing |= part.missing
        for each in part.classes:
            normalized = normalize_record(each.filled, numbers_are_data=has_format)
            add(each.ranks, cast(Record, normalized.record), normalized.slots)
    classes = [
        EquivalenceClass(ranks=RankSet.union(sets), record=record, slots=slots[record])
        for record, sets in members.items()
    ]
    classes.sort(key=lambda each: each.ranks.first)
    return replace(answer, classes=tuple(classes), missing=missing)


def kept_back(answer: Answer) -> RankSet:
    """Return the ranks whose full answer is not in *answer*."""
    return RankSet.union(each.ranks for each in answer.classes if is_kept_back(each))


def is_kept_back(each: EquivalenceClass[Record]) -> bool:
    """Return whether the full answers of a class are not in it."""
    if isinstance(each.record, Stop | Exit | Running):
        return False  # reported as an event, which the leaves do not keep
    return isinstance(each.record, Various) or DIFFERENT_SLOT in each.slots


def part_of(answer: Answer, ranks: RankSet) -> Answer:
    """Return the answers of *ranks*; a summarized class keeps its summary."""
    return replace(
        answer,
        ranks=answer.ranks & ranks,
        classes=tuple(
            each.part(ranks) for each in answer.classes if not each.ranks.isdisjoint(ranks)
        ),
        missing=answer.missing - (answer.missing.ranks - ranks),
    )


def pages(ranks: RankSet, size: int = PAGE_RANKS) -> Iterator[RankSet]:
    """Yield parts of *size* ranks, in order."""
    left = iter(ranks)
    while page := list(itertools.islice(left, size)):
        yield RankSet(page)
