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
from pathlib import Path
from typing import TypeVar

from pgdb.errors import CommandError
from pgdb.frontend.system import deadline

FILE_TIMEOUT_S = 60.0
"""How long a command waits for a file, if no time was given."""
LEAST_S = 3.0
"""What there is for a file of a time that is nearly over: what has been asked for is not lost."""
SLOWEST_BYTES_PER_S = 1 << 20
"""A disk that takes less is taken for one that hangs."""
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
        except StopIteration as error:  # which no future can have
            result = functools.partial(done.set_exception, RuntimeError(f"{error!r} was raised"))
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            result = functools.partial(done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the session has ended meanwhile
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name=f"pgdb {name}", daemon=True).start()
    return await done


async def with_file(path: Path, work: Callable[[], _T], *, size_bytes: int = 0) -> _T:
    """Return what *work* returns, which reads, checks or writes a file of about *size_bytes*.

    It may take what is left of the time that the command has been given, or else
    :data:`FILE_TIMEOUT_S`, and what a slow disk needs.

    :raises CommandError: if it takes longer. It goes on, then.
    """
    limit_s = max(LEAST_S, deadline.answers_s(FILE_TIMEOUT_S)) + size_bytes / SLOWEST_BYTES_PER_S
    try:
        async with asyncio.timeout(limit_s) as limit:
            return await beside(work, name="file")
    except TimeoutError:
        if not limit.expired():
            raise
        raise CommandError(
            f"{path}: not done within {round(limit_s, 1):g} s; does its file system hang?"
        ) from None
