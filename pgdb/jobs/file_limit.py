"""The limit of open files (``ulimit -n``): a process of PGDB raises its own, not its children's."""

from __future__ import annotations

import contextlib
import resource
import sys

first_limit: tuple[int, int] | None = None
"""Soft and hard limit with which this process began; None as long as it has not raised its own."""


def raise_file_limit() -> None:
    """Raise this process's limit of open files as far as the user may.

    In most places it is 1024, which is enough for a few hundred GDBs.
    """
    global first_limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        first_limit = first_limit or (soft, hard)


def own_file_limit() -> int:
    """Return the most open files that this process can have now."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if files == resource.RLIM_INFINITY else files


def give_first_file_limit(pid: int) -> None:
    """Give a child the limit with which this process began.

    A debugger runs commands of the user, and a program that closes all files up to the limit, or
    waits with select(2), works with the user's limit and not with every other. The child has begun
    by then, but has not opened files of its own: a function to run in the child before its program
    would make this process fork, which takes longer the more memory it has.
    """
    if first_limit is not None:
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, first_limit)
