"""What is not to be cut off half way: the end of a session, which lets ranks go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Carry *work* out, however often the task that waits for it is cancelled meanwhile.

    Return or raise what *work* does; that it was cancelled the task is not told.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    return task.result()
