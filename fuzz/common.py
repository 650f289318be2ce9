"""Parts that several targets share: a loop that is kept, and the ranks of a job."""

from __future__ import annotations

import asyncio
from typing import Any

from pgdb.ranks import RankSet

ALL_RANKS = RankSet.range(0, 64)
_loop: list[asyncio.AbstractEventLoop] = []


def run_coroutine(coroutine: Any) -> Any:
    """Run a coroutine in a loop that is kept: a new loop takes ten times as long."""
    if not _loop:
        _loop.append(asyncio.new_event_loop())
    return _loop[0].run_until_complete(coroutine)


def close_loop() -> None:
    """Close the loop of :func:`run_coroutine`."""
    while _loop:
        _loop.pop().close()
