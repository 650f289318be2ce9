"""Progress of commands whose answers take long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pgdb.frontend.show.shown import Unanswered
from pgdb.frontend.ui import answer_wait
from pgdb.ranks import RankSet

ALL = RankSet.parse("0-3")


class Traffic:
    asked = ALL
    oldest_s = 0.0


class Dispatcher:
    in_foreground = RankSet()


class Display:
    def __init__(self) -> None:
        self.shown: list[Unanswered | None] = []
        self.news = asyncio.Event()

    def waiting(self, progress: Unanswered | None) -> None:
        self.shown.append(progress)
        self.news.set()

    async def next(self) -> Unanswered | None:
        self.news.clear()
        await self.news.wait()
        return self.shown[-1]


def test_a_request_is_reported_once_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_wait, "NEXT_S", 0.0)

    async def check() -> None:
        traffic, dispatcher, display = Traffic(), Dispatcher(), Display()
        fakes: Any = (traffic, dispatcher, display)
        with answer_wait.reported(*fakes):
            for _ in range(100):
                await asyncio.sleep(0)
            assert not display.shown, "a young request is no news"
            traffic.oldest_s = 12.0
            assert await display.next() == Unanswered(ALL, 12.0)
            # A command that waits for stops reports by itself.
            dispatcher.in_foreground = ALL
            assert await display.next() is None
            count = len(display.shown)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(display.shown) == count
            dispatcher.in_foreground = RankSet()
            assert await display.next() == Unanswered(ALL, 12.0)
        assert display.shown[-1] is None

    asyncio.run(check())
