"""Channels that take the place of a process's output, so that a relay can pass it on.

The front end uses this module. :mod:`pgdb.jobs.rank_watcher` uses it on the hosts of the ranks, and
loads it by its path. It uses the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import termios
import tty
from collections.abc import Sequence

_PIPE_BYTES = 1 << 20


def streams() -> dict[tuple[int, int, int], list[int]]:
    """Return standard output and error by the file that they lead to; they are often one."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            status = os.fstat(descriptor)
            # Two opened files in one place have offsets of their own.
            key = (status.st_dev, status.st_ino, _position_key(descriptor, status))
            found.setdefault(key, []).append(descriptor)
    return found


def _position_key(descriptor: int, status: os.stat_result) -> int:
    return descriptor if stat.S_ISREG(status.st_mode) and not _is_shared(descriptor) else 0


def _is_shared(descriptor: int) -> bool:
    """Return whether standard output and error are one open file, as ``2>&1`` makes them.

    They share their offset then: moving one moves the other.
    """
    try:
        flags = [fcntl.fcntl(each, fcntl.F_GETFL) for each in (1, 2)]
        if flags[0] != flags[1]:
            return False
        if flags[0] & os.O_APPEND:
            return True
        places = [os.lseek(each, 0, os.SEEK_CUR) for each in (1, 2)]
        if places[0] != places[1]:
            return False
        os.lseek(1, places[0] + 1, os.SEEK_SET)
        moved = os.lseek(2, 0, os.SEEK_CUR) != places[1]
        os.lseek(1, places[0], os.SEEK_SET)
        return moved
    except OSError:
        return False


def channel(target: int) -> tuple[int, int]:
    """Return a reading and a writing end for output to *target*: a terminal for a terminal."""
    if not os.isatty(target):
        read, write = os.pipe()
        with contextlib.suppress(OSError):  # beyond the user's limit
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return read, write
    read, write = os.openpty()
    # The real terminal does what the terminal of the job would do to the output.
    tty.setraw(write)
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(target, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(write, termios.TIOCSWINSZ, size)
    return read, write


def name_of(descriptors: Sequence[int]) -> str:
    """Return the name of a stream by the descriptors that lead to it.

    >>> name_of([2]), name_of([1, 2])
    ('stderr', 'output')
    """
    return "output" if len(descriptors) > 1 else {1: "stdout", 2: "stderr"}[descriptors[0]]
