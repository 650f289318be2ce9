"""Keeping ranks from computing until their GDBs take them over.

Ranks that run or spin in MPI compete with the GDBs for the cores of their host, and go on for as
long as the last of them is not attached to. They are stopped by ptrace(2), PTRACE_SEIZE and
PTRACE_INTERRUPT, and not by a signal: when the process that has seized them ends, however it ends,
the kernel lets them go on by itself. Nobody has to survive for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Iterable

from pgdb.jobs import procfs

_PTRACE_DETACH = 17
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_EVENT_STOP = 128
_WALL = 0x40000000

_FIRST_LOOK_S = 0.0005
_LAST_LOOK_S = 0.05
_JOB_CONTROL = "T"


class Pauser:
    """Holds processes still; to be used by one thread alone, which is their tracer."""

    def __init__(self) -> None:
        self._threads: dict[int, list[int]] = {}  # of the processes that are held
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def pause(self, pids: Iterable[int]) -> None:
        """Have processes stand still, with all their threads; does not wait until they do.

        One that may not be traced, that has ended or that is stopped already is left alone: whoever
        attaches to it says what is wrong.
        """
        for pid in pids:
            status = procfs.read_stat(pid)
            if status is None or status.state == _JOB_CONTROL or pid in self._threads:
                continue
            threads = []
            with contextlib.suppress(OSError):
                threads = [int(each) for each in os.listdir(f"/proc/{pid}/task")]
            held = [thread for thread in threads if self._call(_PTRACE_SEIZE, thread) == 0]
            for thread in held:
                self._call(_PTRACE_INTERRUPT, thread)
            if held:
                self._threads[pid] = held

    async def release(self, pid: int) -> None:
        """Let a process go on, so that GDB can attach to it; returns when it is nobody's.

        A thread can be let go only where it stands, and one that waits for a disk gets there when
        the disk answers.
        """
        wait_s = _FIRST_LOOK_S
        while not self._let_go(pid):
            await asyncio.sleep(wait_s)
            wait_s = min(_LAST_LOOK_S, 2 * wait_s)

    def release_all(self) -> None:
        """Let go whatever is held. What does not stand yet goes on when this process ends."""
        for pid in [*self._threads]:
            self._let_go(pid)

    def _let_go(self, pid: int) -> bool:
        left = [each for each in self._threads.get(pid, ()) if not self._detach(each)]
        if left:
            self._threads[pid] = left
        else:
            self._threads.pop(pid, None)
        return not left

    def _detach(self, thread: int) -> bool:
        """Let go of a thread; return False if that has to wait until it stands."""
        try:
            waited, status = os.waitpid(thread, os.WNOHANG | _WALL)
        except ChildProcessError:
            return True  # not ours any more
        if waited != thread:
            # The first thread of a process does not tell its end before the others have ended.
            return not procfs.is_alive(thread)
        if not os.WIFSTOPPED(status):
            return True  # it has ended
        # It may have stopped to be told of a signal of its own before it stood still for us.
        is_ours = status >> 16 == _PTRACE_EVENT_STOP
        self._call(_PTRACE_DETACH, thread, 0 if is_ours else os.WSTOPSIG(status))
        return True

    def _call(self, request: int, thread: int, data: int = 0) -> int:
        return int(self._ptrace(request, thread, None, data))
