"""Answers in full, and parts of answers."""

from __future__ import annotations

import asyncio

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.full_answers import in_full, pages, part_of
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    Record,
    Value,
    Various,
)
from tests.support.answers import answer, ranks


def test_what_was_summed_up_is_asked_for_page_by_page() -> None:
    said = answer(("0-2999", Various(template=Value(text=PLACEHOLDER))), ("3000", "7"))
    asked: list[RankSet] = []

    async def recall(of: Answer, page: RankSet) -> Answer:
        assert of is said
        asked.append(page)
        gone = page & ranks("5")
        kept = ((str(rank), f"(int *) 0x7ffe{rank % 2:08x}") for rank in page - gone)
        classes = tuple(
            EquivalenceClass[Record](ranks=ranks(members), record=Value(text=text))
            for members, text in kept
        )
        return Answer(command="", ranks=page, classes=classes, missing=Missing(lost=gone))

    whole = asyncio.run(in_full(said, recall))
    assert asked == [ranks("0-1023"), ranks("1024-2047"), ranks("2048-2999")]
    # Addresses do not split classes, as in answers that are not summarized.
    assert [each.ranks for each in whole.classes] == [ranks("0-4,6-2999"), ranks("3000")]
    assert whole.missing.lost == ranks("5")


def test_pages_and_parts() -> None:
    assert [*pages(ranks("0-4"), 2)] == [ranks("0-1"), ranks("2-3"), ranks("4")]
    said = answer(("0-3", "1"), ("4", "2"), missing=Missing(running=ranks("5-6")))
    part = part_of(said, ranks("2-5"))
    assert part.ranks == ranks("2-5")
    assert [each.ranks for each in part.classes] == [ranks("2-3"), ranks("4")]
    assert part.missing == Missing(running=ranks("5"))
