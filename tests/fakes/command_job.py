"""A job whose ranks answer commands when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Request
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import (
    Record,
    Stop,
)

ALL = RankSet.parse("0-3")

STOP = Stop(reason="attached")


class Job:
    """A launched session whose ranks answer when a test says so."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.notifications: list[Notification] = []
        self.session = session = new_session("launch", SessionOptions(), SessionDirectory())[0]
        self.root = session.transport.overlay.root
        self.root.start_request = self.requests.append  # type: ignore[method-assign]
        session.opening.begin(ALL)
        session.opening.complete(Answer("launch", ALL, (EquivalenceClass[Record](ALL, STOP),)))
        session.subscribe(self.notifications.append)

    def answer(
        self, *said: tuple[RankSet, Record], missing: Missing | None = None, is_late: bool = False
    ) -> None:
        """Answer what was asked last."""
        classes = tuple(EquivalenceClass(ranks, record) for ranks, record in said)
        number = self.requests[-1].request_id
        self.root.answered(Gathered(number, classes, missing or Missing(), is_late=is_late))

    async def begin(self, work: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """Begin a command, up to where it waits for its answer."""
        task = asyncio.create_task(work)
        before = len(self.requests)
        while len(self.requests) == before:
            await asyncio.sleep(0)
        return task

    async def give_up(self, work: Coroutine[Any, Any, Answer]) -> None:
        """Begin a command and give it up before it is answered."""
        task = await self.begin(work)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def late_answers(self) -> list[Answer]:
        """Return the late answers that were reported."""
        self.session.traffic.late_answers.flush()
        return [each.answer for each in self.notifications if each.answer is not None]


def run(test: Callable[[Job], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await test(Job())

    asyncio.run(begin())
