"""The ends of ranks' processes and of their GDBs, observed from outside."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs
from pgdb.records import Exit

QUIET_S = 3.0
"""A GDB that neither answers nor computes for this time hangs, in seconds."""
# No operation waits for a stopped rank, so its end may be noticed late.
POLL_S = 2.0
# The first version of struct pidfd_info: the mask is its first field, the exit status its last.
_PIDFD_INFO_BYTES = 64
_PIDFD_GET_INFO = 3 << 30 | _PIDFD_INFO_BYTES << 16 | 0xFF << 8 | 11
_PIDFD_INFO_EXIT = 1 << 3


def watch_end(pid: int, on_end: Callable[[], None]) -> Callable[[], None]:
    """Call *on_end* once when a process has ended; return a function that cancels this.

    For a process that has ended already, the call comes soon. Before Linux 5.3 it never comes.
    """
    loop = asyncio.get_running_loop()
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return loop.call_soon(on_end).cancel
    except OSError:
        return lambda: None
    is_open = True

    def stop() -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            loop.remove_reader(process)
            os.close(process)

    def end() -> None:
        stop()
        on_end()

    loop.add_reader(process, end)
    return stop


def watch_end_of_traced(pid: int, on_end: Callable[[], None]) -> Callable[[], None]:
    """Call *on_end* once when a process that a debugger traces has ended; return a function that
    cancels.

    All threads of a killed process stay zombies until the debugger waits for them, and the
    kernel notifies nobody (tried with Linux 6.18, descriptors of threads included). So the
    process is polled.
    """
    return _Poller.of_loop().add(pid, on_end)


class _Poller:
    """One poll of all watched processes of an event loop."""

    _all: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Poller]] = (
        weakref.WeakKeyDictionary()
    )

    def __init__(self) -> None:
        self._wanted: dict[object, tuple[int, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of_loop(cls) -> _Poller:
        return cls._all.setdefault(asyncio.get_running_loop(), cls())

    def add(self, pid: int, on_end: Callable[[], None]) -> Callable[[], None]:
        token = object()
        self._wanted[token] = (pid, on_end)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

        def cancel() -> None:
            self._wanted.pop(token, None)

        return cancel

    def _poll(self) -> None:
        self._timer = None
        for token, (pid, on_end) in list(self._wanted.items()):
            if not procfs.is_alive(pid) and has_ended(pid):
                del self._wanted[token]
                on_end()
        if self._wanted:
            self._timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)


def has_ended(pid: int) -> bool:
    """Return whether all threads of a process have ended: the first may end before others."""
    return not any(procfs.is_alive(int(each)) for each in _threads(pid))


def is_dying(pid: int, proc: Path = procfs.PROC) -> bool:
    """Return whether each thread has ended, is exiting or has a pending SIGKILL.

    Until killed threads obey, GDB can neither read them nor let them run.
    """
    folder = proc / str(pid) / "task"
    return all(_is_dying(int(each), folder) for each in _threads(pid, proc))


def _is_dying(thread: int, folder: Path) -> bool:
    stat = procfs.read_stat(thread, folder)
    if stat is None or stat.has_ended or stat.is_exiting:
        return True
    # The kernel makes a SIGKILL pending for each thread.
    status = procfs.status_fields(f"{folder}/{thread}/status") or {}
    return signal.SIGKILL in procfs.signals_in(status.get("SigPnd", "0"))


def _threads(pid: int, proc: Path = procfs.PROC) -> list[str]:
    try:
        return os.listdir(proc / str(pid) / "task")
    except OSError:
        return []


class ProcessEnd:
    """Exit status of a process; an object made while the process lives can read it after the
    reaping.

    That needs Linux 6.15 (``PIDFD_GET_INFO`` in ``linux/pidfd.h``); before, the status is known
    only until another process has waited for the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process = -1
        with contextlib.suppress(OSError):
            self._process = os.pidfd_open(pid)

    def how(self, run: int) -> Exit | None:
        """Return how the process has ended, None if it has not or the status is no longer
        available."""
        status = procfs.wait_status(self._pid)
        if status is None:
            status = self._status_of_reaped()
        return None if status is None else Exit.of_status(status, run)

    def close(self) -> None:
        """Release the process descriptor."""
        if self._process >= 0:
            os.close(self._process)
            self._process = -1

    def _status_of_reaped(self) -> int | None:
        if self._process < 0:
            return None
        info = bytearray(_PIDFD_INFO_BYTES)
        struct.pack_into("=Q", info, 0, _PIDFD_INFO_EXIT)
        try:
            fcntl.ioctl(self._process, _PIDFD_GET_INFO, info)
        except OSError:
            return None
        (has,) = struct.unpack_from("=Q", info, 0)
        (status,) = struct.unpack_from("=i", info, _PIDFD_INFO_BYTES - 4)
        return int(status) if has & _PIDFD_INFO_EXIT else None


async def answers(gdb: GdbSession, timeout_s: float) -> bool:
    """Return whether a GDB makes progress: it answers within the time, or it has ended.

    A GDB that computes may use the whole time; one that does nothing hangs. A GDB that a signal has
    stopped is resumed.
    """
    if not gdb.is_alive:
        return True
    gdb.wake()
    asked = gdb.ping()
    loop = asyncio.get_running_loop()
    due = loop.time() + timeout_s
    while (left_s := due - loop.time()) > 0:
        before = procfs.work_done(gdb.pid)[0]
        if (await asyncio.wait((asked,), timeout=min(QUIET_S, left_s)))[0]:
            # Waiting for a GDB that ignores interrupts is given up.
            return asked.exception() is None or not gdb.is_alive
        ticks, waits_for_disk = procfs.work_done(gdb.pid)
        if ticks <= before and not waits_for_disk:
            return False
    return False
