"""What is made of long answers, in a thread of its own.

The event loop goes on meanwhile. It is one thread, so that no more than one competes with the loop
for the interpreter; and not one of asyncio's, which may all hang where a file system does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="pgdb making")


async def make(work: Callable[[], _T]) -> _T:
    """Return what *work* returns, which waits for nothing."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, work)
