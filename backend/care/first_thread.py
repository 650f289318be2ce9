"""The first thread of a rank, to which PGDB sends its interrupts.

The kernel gives a signal for a process to any thread that does not stand still. While GDB steps the
first thread over a breakpoint whose hit it has counted, that is another thread. GDB then breaks the
step off at that thread's stop, and counts the hit once more when the rank runs on (GDB 13.1). A
signal for the first thread itself reaches GDB after that step, or as the stop of the stepped
thread, whose hit GDB does not count again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from pgdb.jobs import procfs
from pgdb.patterns import pattern

_MASKS = pattern(rb"\nSigPnd:\t(\w+)\nShdPnd:\t(\w+)\nSigBlk:\t(\w+)\n")
_STATUS_BYTES = 4096
"""More than a status has: its lists of processors and memory nodes come after the masks."""


def send(pid: int, number: int) -> None:
    """Send a signal to the first thread, or to the process if that thread cannot take it.

    :raises OSError: if there is no such process, or it is another user's.
    """
    fields = _fields(pid)
    if fields and not _is_blocked(fields, number) and fields.get("State", "Z")[:1] not in "ZX":
        tgkill = getattr(ctypes.CDLL(None, use_errno=True), "tgkill", None)  # not in every libc
        if tgkill is not None and tgkill(pid, pid, number) == 0:
            return
    os.kill(pid, number)


class StatusFile:
    """The status of the first thread of one process.

    The file stays open: it is read before each run of each rank, and a read alone takes a third of
    the time.
    """

    def __init__(self, pid: int) -> None:
        self._descriptor = -1
        with contextlib.suppress(OSError):
            self._descriptor = os.open(f"{procfs.PROC}/{pid}/task/{pid}/status", os.O_RDONLY)

    def has_pending(self, number: int) -> bool:
        """Return whether a signal is pending that the thread takes once it runs; False once the
        process has ended."""
        try:
            found = _MASKS.search(os.pread(self._descriptor, _STATUS_BYTES, 0))
        except OSError:
            return False
        if found is None:
            return False
        of_thread, of_process, blocked = found.groups()
        bit = 1 << (number - 1)
        return bool((int(of_thread, 16) | int(of_process, 16)) & ~int(blocked, 16) & bit)

    def close(self) -> None:
        """Close the file; nothing is pending any longer."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _fields(pid: int) -> dict[str, str]:
    return procfs.status_fields(f"{procfs.PROC}/{pid}/task/{pid}/status") or {}


def _is_blocked(fields: dict[str, str], number: int) -> bool:
    return number in procfs.signals_in(fields.get("SigBlk", "0"))
