"""Work that may never be done: the user's own code, pipes, files where a file system hangs.

It has a thread of its own that nothing waits for: asyncio's own threads are waited for at the end,
so that one that hangs keeps the session from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def beside(work: Callable[[], _T], *, name: str) -> _T:
    """Return what *work* returns, or raise what it raises; whoever waits brings the deadline.

    Work that is given up goes on, until it is done or the process ends.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if not done.done():  # nobody waits any longer
            result()

    def run() -> None:
        try:
            result = functools.partial(done.set_result, work())
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            result = functools.partial(done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the session has ended meanwhile
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name=f"pgdb {name}", daemon=True).start()
    return await done
