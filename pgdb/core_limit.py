"""Prevent core files of front end, anchors, aggregators and GDBs: they would hold the session's
key.

The job that the user starts keeps the user's limit.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

_given: tuple[int, int] | None = None
"""The limit before PGDB changed it; None while it is unchanged."""


def leave_none() -> None:
    """Prevent core files of this process and of the processes that it starts.

    The limit is one byte: where a program receives core files (a core_pattern with a pipe,
    fs/coredump.c), the kernel ignores a limit of 0. Making the process undumpable instead would
    change the owner of its /proc files and keep profilers out.
    """
    global _given
    if _given is None:
        _given = resource.getrlimit(resource.RLIMIT_CORE)
        hard = _given[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))


@contextlib.contextmanager
def limit_as_given() -> Iterator[None]:
    """Give processes that are started in this context the user's limit.

    A process that runs already cannot get it: a launcher may have passed its limits on by then.
    """
    if _given is None:
        yield
        return
    own = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, _given)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, own)


def given() -> tuple[int, int]:
    """Return the user's limits in bytes, the soft and the hard one."""
    return _given or resource.getrlimit(resource.RLIMIT_CORE)
