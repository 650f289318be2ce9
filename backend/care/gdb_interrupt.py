"""Has a GDB give up what it does without end, so that its rank can be asked, stopped or let go.

It may wait for a function of the program's that it has called (for ``print``, a condition, commands
of a breakpoint or of the user's), or compute. Killed in the middle of a call it would leave a rank
that returns to where nothing is; a SIGINT has it take the rank back first (tried with GDB 13.1).
"""

from __future__ import annotations

import asyncio
import signal

from pgdb.backend.care import liveness
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs

_TIMES = 3
_WAIT_S = 1.0
"""How long a GDB may leave a question without an answer."""


class GdbInterrupt:
    """Breaks in on one GDB; *pid* is always its rank's process."""

    def __init__(self, gdb: GdbSession) -> None:
        self.is_awaited = False
        """GDB is to give up what it does, and has not said so yet."""
        self._gdb = gdb
        self._last_s = 0.0  # on the loop's clock; 0 for never

    @property
    def has_happened(self) -> bool:
        """Whether GDB was ever broken in on."""
        return bool(self._last_s)

    def send(self, pid: int) -> bool:
        """Have GDB give up what it does: a function that it has called, or something of its own.

        It passes the signal on to a rank that runs for it, takes it back to where it was before the
        call, and says "Quit" and nothing else if there was nothing to give up (tried with 13.1).
        Return whether that is possible: one that the rank blocks would end it later.
        """
        is_blocked = procfs.blocked_in_all_threads(pid, signal.SIGINT)
        if is_blocked and not procfs.is_at_rest(pid):
            return False
        now_s = asyncio.get_running_loop().time()
        # It may go on with the next thing that has no end.
        if self._gdb.is_alive and now_s >= self._last_s + _WAIT_S / 2:
            self._last_s = now_s
            self._gdb.interrupt()
            if not self.is_awaited:
                self.is_awaited = True
                self._gdb.send("-gdb-show confirm").add_done_callback(self._given_up)
        return True

    def _given_up(self, told: asyncio.Future[Result]) -> None:
        self.is_awaited = False

    async def send_if_silent(self, pid: int) -> bool:
        """Break in on a GDB that leaves a question without an answer; return as :meth:`now`."""
        (told,) = self._gdb.ask_together("-gdb-show confirm")
        return bool((await asyncio.wait((told,), timeout=_WAIT_S))[0]) or self.send(pid)

    async def send_until_it_answers(self, pid: int) -> bool:
        """Break in again and again, for some seconds; return whether GDB answers then."""
        for _ in range(_TIMES):
            self.send(pid)
            if await liveness.answers(self._gdb, liveness.QUIET_S / _TIMES):
                return True
        return False

    async def wait_for(self, told: asyncio.Future[Result], pid: int) -> Result:
        """Return what GDB says, which reads nothing while it calls a function for a condition."""
        before, quiet_s = procfs.work_done(self._gdb.pid)[0], 0.0
        while not (await asyncio.wait((told,), timeout=_WAIT_S))[0]:
            ticks, status = procfs.work_done(self._gdb.pid)[0], procfs.read_stat(self._gdb.pid)
            # One that is ready to compute, or reads, may be amid a stop, which it is to finish.
            sleeps = ticks <= before and status is not None and status.state == "S"
            is_quiet = sleeps and not procfs.is_at_rest(pid)
            before, quiet_s = ticks, quiet_s + _WAIT_S if is_quiet else 0.0
            if quiet_s >= liveness.QUIET_S:
                quiet_s = 0.0
                self.send(pid)
        return await told
