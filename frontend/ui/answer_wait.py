"""Progress of commands whose answers take long, at the prompt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Protocol

from pgdb.frontend.show.shown import Unanswered
from pgdb.ranks import RankSet

FIRST_S, NEXT_S = 3.0, 1.0
"""Age of a request that is reported, and time between two reports, in seconds."""


class _Traffic(Protocol):
    @property
    def asked(self) -> RankSet:
        """Ranks with a request in flight."""

    @property
    def oldest_s(self) -> float:
        """Age of the oldest request, in seconds."""


class _Dispatcher(Protocol):
    in_foreground: RankSet


class _Display(Protocol):
    def waiting(self, progress: Unanswered | None) -> None:
        """Show progress; None when the wait is over."""


@contextlib.contextmanager
def reported(traffic: _Traffic, dispatcher: _Dispatcher, display: _Display) -> Iterator[None]:
    """Show while a command is carried out that ranks have not answered yet.

    A command that waits for stops shows its own progress.
    """
    progress = asyncio.create_task(_report(traffic, dispatcher, display))
    try:
        yield
    finally:
        progress.cancel()
        display.waiting(None)


async def _report(traffic: _Traffic, dispatcher: _Dispatcher, display: _Display) -> None:
    is_shown = False
    while True:
        await asyncio.sleep(NEXT_S)
        age_s = traffic.oldest_s
        if age_s >= FIRST_S and not dispatcher.in_foreground:
            display.waiting(Unanswered(traffic.asked, age_s))
            is_shown = True
        elif is_shown:
            display.waiting(None)
            is_shown = False
