"""Work that cancellation must not interrupt: the end of a session, which detaches from ranks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end, however often the calling task is cancelled.

    Return or raise the result of *work*; cancellation of the caller is swallowed.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    return task.result()
