"""Answers that come late: those of one moment are one."""

from __future__ import annotations

import asyncio

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.late_answers import LateAnswers
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Text


def said(rank: int, text: str) -> EquivalenceClass[Record]:
    return EquivalenceClass(RankSet([rank]), Text(text=text))


def content(answer: Answer) -> tuple[int, str, dict[str, Record]]:
    classes = {str(each.ranks): each.record for each in answer.classes}
    return answer.request_id, answer.command, classes


def test_what_comes_at_one_moment_is_reported_together() -> None:
    heard: list[tuple[int, str, dict[str, Record]]] = []
    done = asyncio.Event()

    def hear(answer: Answer) -> None:
        heard.append(content(answer))
        done.set()

    async def test() -> None:
        late = LateAnswers(hear)
        late.add(7, "print x", (said(0, "1"),))
        late.add(8, "bt", (said(0, "main"),))
        late.add(7, "print x", (said(2, "1"), said(1, "2")))
        assert not heard
        await asyncio.wait_for(done.wait(), 60)
        late.add(7, "print x", (said(3, "1"),))
        late.flush()
        late.flush()

    asyncio.run(test())
    assert heard == [
        (7, "print x", {"0,2": Text(text="1"), "1": Text(text="2")}),
        (8, "bt", {"0": Text(text="main")}),
        (7, "print x", {"3": Text(text="1")}),
    ]
