"""Suspension of ranks until their GDBs attach to them.

Ranks that run or spin in MPI compete with the GDBs for the cores of their host, and run on until
the last of them is attached. They are stopped by ptrace(2), PTRACE_SEIZE and PTRACE_INTERRUPT, not
by a signal: when the tracer ends, however it ends, the kernel resumes them. No process of ours has
to survive for that.
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

_FIRST_POLL_S = 0.0005
_LAST_POLL_S = 0.05
_JOB_CONTROL = "T"


class Pauser:
    """Suspender of processes; only one thread, their tracer, may use it."""

    def __init__(self) -> None:
        self._threads: dict[int, list[int]] = {}  # of the suspended processes
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def pause(self, pids: Iterable[int]) -> set[int]:
        """Suspend processes with all their threads, without waiting until they stand still.

        Return the processes whose threads all are seized. A process that may not be traced, has
        ended or is stopped already is left alone: the later attach reports the reason.
        """
        whole = set()
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
            if held and len(held) == len(threads):
                whole.add(pid)
        return whole

    async def release(self, pid: int) -> None:
        """Resume a process so that GDB can attach to it; return when it has no tracer.

        A thread can be released only when it stands still; a thread that waits for a disk does so
        when the disk answers.
        """
        wait_s = _FIRST_POLL_S
        while not self._release(pid):
            await asyncio.sleep(wait_s)
            wait_s = min(_LAST_POLL_S, 2 * wait_s)

    def release_all(self) -> None:
        """Release all suspended processes. Threads not yet still resume when this process ends."""
        for pid in [*self._threads]:
            self._release(pid)

    def _release(self, pid: int) -> bool:
        left = [each for each in self._threads.get(pid, ()) if not self._detach(each)]
        if left:
            self._threads[pid] = left
        else:
            self._threads.pop(pid, None)
        return not left

    def _detach(self, thread: int) -> bool:
        """Release a thread; return False if the thread does not stand still yet."""
        try:
            waited, status = os.waitpid(thread, os.WNOHANG | _WALL)
        except ChildProcessError:
            return True  # not ours any more
        if waited != thread:
            # The kernel does not report the end of a process's first thread before all others have
            # ended.
            return not procfs.is_alive(thread)
        if not os.WIFSTOPPED(status):
            return True  # it has ended
        # The thread may have stopped for a signal of its own before it stood still for us.
        is_ours = status >> 16 == _PTRACE_EVENT_STOP
        number = self._before_release(thread, 0 if is_ours else os.WSTOPSIG(status))
        self._call(_PTRACE_DETACH, thread, number)
        return True

    def _before_release(self, thread: int, number: int) -> int:
        """Return the signal with which a thread that stands still goes on, 0 for none."""
        del thread
        return number

    def _call(self, request: int, thread: int, data: int = 0, address: int = 0) -> int:
        return int(self._ptrace(request, thread, address or None, data))
