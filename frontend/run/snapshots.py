"""The times of the reports of ``--snapshot-every``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pgdb.frontend.run.options import in_words


class Snapshots:
    """Requests for a report every so often, none before the last report is written."""

    def __init__(self, every_s: float, ask: Callable[[str], None]) -> None:
        self._every_s = every_s
        self._ask = ask
        self._is_done = asyncio.Event()

    def done(self) -> None:
        """Note that a report was written."""
        self._is_done.set()

    async def run(self) -> None:
        """Ask until the task is cancelled."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._every_s
        while True:
            await asyncio.sleep(due_s - loop.time())
            self._is_done.clear()
            self._ask(f"a report every {in_words(self._every_s)}")
            await self._is_done.wait()
            due_s = next_due_s(due_s, self._every_s, loop.time())


def next_due_s(due_s: float, every_s: float, now_s: float) -> float:
    """Return the time of the report behind the one that was due at *due_s*.

    A job whose looks last longer than *every_s* runs for that time between them.

    >>> next_due_s(10.0, 5.0, 11.0), next_due_s(10.0, 5.0, 17.0)
    (15.0, 22.0)
    """
    planned_s = due_s + every_s
    return planned_s if planned_s > now_s else now_s + every_s
