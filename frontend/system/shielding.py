"""Work that cancellation must not interrupt, such as the end of a session, which detaches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T], *, raises_cancellation: bool = False) -> T:
    """Run *work* to its end, however often the calling task is cancelled.

    Return or raise the result of *work*. Cancellation of the caller is swallowed, or with
    *raises_cancellation* raised after the end of *work*, in place of its result.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if raises_cancellation and cancelled is not None:
        task.exception()  # otherwise asyncio logs that it was never retrieved
        raise cancelled
    return task.result()
