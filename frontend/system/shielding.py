"""Work that cancellation must not interrupt, such as the end of a session, which detaches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end, however often the calling task is cancelled.

    Return or raise the result of *work*. If the caller was cancelled meanwhile, raise the
    cancellation after the end of *work*, in place of its result: a task that swallows it runs on,
    and the task that waits for its end waits for ever.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # otherwise asyncio logs that it was never retrieved
        raise cancelled
    return task.result()
