"""The process of one rank, watched from outside of its GDB."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pgdb.backend.care import first_thread, liveness
from pgdb.jobs import procfs
from pgdb.records import Exit


class ProcessWatch:
    """Watch over the process of one rank, which knows the program by its start time."""

    def __init__(self) -> None:
        self.pid = 0
        """Process id of the rank, 0 as long as none is known."""
        self.was_stopped = False
        """Whether a signal had stopped the process before it was attached to."""
        self._start_time_ticks: int | None = None
        self._end: liveness.ProcessEnd | None = None
        self._unwatch: Callable[[], None] = lambda: None
        self._status: first_thread.StatusFile | None = None
        self._over = asyncio.Event()

    def begin(self, pid: int, on_end: Callable[[], None]) -> None:
        """Watch process *pid*; call *on_end* once it has ended, even if GDB does not notice."""
        self.stop()
        self.pid = pid
        self._over = asyncio.Event()
        status = procfs.read_stat(pid)
        self._start_time_ticks = status.start_time_ticks if status is not None else None
        self._end = liveness.ProcessEnd(pid)
        self._status = first_thread.StatusFile(pid)
        self._unwatch = liveness.watch_end_of_traced(pid, on_end)

    def stop(self, *, forgets: bool = True) -> None:
        """Stop watching; unless *forgets*, :meth:`how` can still return how the process ended."""
        self._unwatch()
        self._unwatch = lambda: None
        self._over.set()
        if self._status is not None:
            self._status.close()
            self._status = None
        if forgets and self._end is not None:
            self._end.close()
            self._end = None

    async def stops_within(self, time_s: float) -> bool:
        """Return whether watching stops within *time_s*."""
        over = self._over
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(time_s):
                await over.wait()
            return True
        return False

    def how(self, run: int) -> Exit | None:
        """Return how the process ended, None if it has not, or that is not known any longer."""
        return self._end.how(run) if self._end is not None else None

    def has_pending(self, number: int) -> bool:
        """Return whether a signal is pending that the first thread takes once it runs; False for a
        process that is not watched."""
        return self._status is not None and self._status.has_pending(number)

    @property
    def is_free(self) -> bool:
        """Whether the process lives and no debugger traces it."""
        status = procfs.read_stat(self.pid)
        return status is not None and not status.tracer_pid and not status.has_ended

    @property
    def has_no_debugger(self) -> bool:
        """Whether no debugger traces the process, or it has ended: nothing is left in it."""
        return self.is_free or self.program_pid is None

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or is about to: a signal has ended it."""
        pid = self.program_pid
        if pid is None:
            return True
        stat = procfs.read_stat(pid) if pid else None
        return stat is not None and (stat.is_exiting or liveness.is_dying(pid))

    @property
    def program_pid(self) -> int | None:
        """Process id of the program: 0 if it was never watched, None if it has ended.

        Another process may have the program's number by now.
        """
        if self._start_time_ticks is None:
            return 0
        now = procfs.read_stat(self.pid)
        is_it = now is not None and now.start_time_ticks == self._start_time_ticks
        return self.pid if is_it and now is not None and not now.has_ended else None
