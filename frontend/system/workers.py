"""Threads for work that may never finish: user code, pipes, files on a hanging file system.

Nothing waits for these threads at exit. asyncio waits for its own threads, so that one that hangs
would keep the session from ending.
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
"""Maximum wait of a command for a file, in seconds, if the command has no limit."""
LEAST_S = 3.0
"""Minimum wait for a file, in seconds, when the command's limit has nearly passed."""
SLOWEST_BYTES_PER_S = 1 << 20
"""Speed below which a disk counts as hanging, in bytes per second."""
_T = TypeVar("_T")


async def beside(work: Callable[[], _T], *, name: str) -> _T:
    """Run *work* in a thread; return its result or raise its exception. The caller limits the time.

    Abandoned work continues until it finishes or the process ends.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if not done.done():  # otherwise the caller has given up
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


async def beside_if(is_long: bool, work: Callable[[], _T], *, name: str) -> _T:
    """Return the result of *work*, which computes in a thread if it takes long.

    A loop that stands still sends no heartbeats, and the other ends of its links give it up.
    """
    return await beside(work, name=name) if is_long else work()


async def with_file(path: Path, work: Callable[[], _T], *, size_bytes: int = 0) -> _T:
    """Run *work*, which reads, checks or writes a file of about *size_bytes*, in a thread.

    The time limit is the rest of the command's limit, or :data:`FILE_TIMEOUT_S`, plus the time that
    a slow disk needs.

    :raises CommandError: if the limit passes; the work continues.
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
