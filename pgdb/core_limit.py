"""No core file of front end, anchors, aggregators and GDBs: the session's key is in their memory.

Only of ours: the job that the user starts gets the limit that the user has given.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator

_given: tuple[int, int] | None = None
"""The limit as it was, once ours is another one."""


def leave_none() -> None:
    """Have no memory of this process written to a disk, nor of those that it starts.

    The kernel heeds a limit of one byte, but not one of none, where a program takes core files
    (a core_pattern with a pipe, fs/coredump.c). The process would be another one in /proc, and no
    profiler could look at it, if it were made undumpable instead.
    """
    global _given
    if _given is None:
        _given = resource.getrlimit(resource.RLIMIT_CORE)
        hard = _given[1]
        resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))


@contextlib.contextmanager
def limit_as_given() -> Iterator[None]:
    """Have what is started meanwhile begin with the limit that we have begun with.

    It cannot be given to a process that runs: a launcher may have handed its limits on by then.
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
