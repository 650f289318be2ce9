"""One thread for work on long answers, so that the event loop continues.

With one thread no more than one competes with the loop for the interpreter. It is not one of
asyncio's threads: all of them may hang where a file system hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="pgdb executor")


async def make(work: Callable[[], _T]) -> _T:
    """Return the result of *work*, which must not wait for anything."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)
