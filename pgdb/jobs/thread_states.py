"""The threads of a process whose first thread has ended, and the limits of a thread."""

from __future__ import annotations

import os
from pathlib import Path

from pgdb.jobs import procfs

_STRICT = "1"
LOST_FIRST_THREAD = (
    "lost its first thread, while others live on (pthread_exit in main, strict seccomp or the "
    "system call exit ends one thread)"
)
"""The state of such a process behind "has"."""
NO_DEBUGGER = "no debugger can attach to such a process"


def is_confined(thread: int, proc: Path = procfs.PROC) -> bool:
    """Return whether a thread runs, or has run, under strict seccomp, which leaves it four system
    calls."""
    status = procfs.status_fields(str(proc / str(thread) / "status"))
    return status is not None and status.get("Seccomp") == _STRICT


def has_lost_first_thread(pid: int, proc: Path = procfs.PROC) -> bool:
    """Return whether the first thread of a process has ended, while others live on.

    Such a process looks like a zombie, but its parent does not learn of an end.
    """
    first = procfs.read_stat(pid, proc)
    if first is None or not first.has_ended:
        return False
    tasks = proc / str(pid) / "task"
    try:
        threads = [int(each) for each in os.listdir(tasks)]
    except OSError:
        return False
    others = (procfs.read_stat(each, tasks) for each in threads if each != pid)
    return any(each is not None and not each.has_ended for each in others)
