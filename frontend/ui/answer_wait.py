"""Progress of commands whose answers take long, at the prompt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.shown import Unanswered

FIRST_S, NEXT_S = 3.0, 1.0
"""Age of a request that is reported, and time between two reports, in seconds."""


@contextlib.contextmanager
def reported(traffic: Traffic, dispatcher: Dispatcher, display: TextDisplay) -> Iterator[None]:
    """Show while a command is carried out that ranks have not answered yet.

    A command that waits for stops shows its own progress.
    """
    progress = asyncio.create_task(_report(traffic, dispatcher, display))
    try:
        yield
    finally:
        progress.cancel()
        display.waiting(None)


async def _report(traffic: Traffic, dispatcher: Dispatcher, display: TextDisplay) -> None:
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
