"""Interruption of a GDB that is busy without end, so that its rank can be queried, stopped or
detached.

GDB may wait for a function of the program that it has called (for ``print``, a condition,
commands of a breakpoint or of the user's), or compute. A GDB killed in the middle of a call
would leave a rank that returns to an invalid address; on SIGINT, GDB first restores the rank
(tried with GDB
13.1).
"""

from __future__ import annotations

import asyncio
import re
import signal

from msgspec.structs import replace

from pgdb.backend.care import liveness
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs
from pgdb.patterns import pattern
from pgdb.records import Failure

_TIMES = 3
_WAIT_S = 1.0
"""Time that a GDB may take to answer before it is interrupted, in seconds."""
REPEAT_S = 0.5
"""Time between two interrupts of a GDB that has not reacted, in seconds: GDB 13.1 loses one that
comes while its Python code runs."""
IGNORES_AFTER_S = 3.0
"""Time after which a GDB that has not reacted to an interrupt is taken to ignore it, in seconds."""
IGNORES = (
    "its GDB computes without end and ignores interrupts; 'reattach' gives the rank another GDB "
    "at the same place"
)

_QUIT = "Quit"  # GDB's whole error for a command that a SIGINT has ended
_INTERRUPTED = "interrupted"
# GDB's Python code, printers among it, swallows interrupts that come while it runs.
_SWALLOWED = pattern(r"^Python Exception <class 'KeyboardInterrupt'>.*\n?", re.M)


def in_words(failed: Failure) -> Failure:
    """Return the error of a command in words of ours if an interrupt has ended it."""
    if failed.message != _QUIT:
        return failed
    output = _SWALLOWED.sub("", failed.output).rstrip("\n")
    return replace(failed, message=_INTERRUPTED, output=output)


class GdbInterrupt:
    """Interrupter of one GDB; *pid* is always the process of its rank."""

    def __init__(self, gdb: GdbSession) -> None:
        self.is_awaited = False
        """Whether GDB was interrupted and has not answered since."""
        self.is_ignored = False
        """Whether GDB computes on regardless, as GDB 13.1 does in loops over nonsensical bounds of
        Fortran arrays. Its rank stands still meanwhile."""
        self._gdb = gdb
        self._last_s = 0.0  # on the loop's clock; 0 for never
        self._asked: asyncio.Future[Result] | None = None  # the question after the last interrupt

    @property
    def has_happened(self) -> bool:
        """Whether GDB was ever interrupted."""
        return bool(self._last_s)

    def send(self, pid: int) -> bool:
        """Interrupt GDB's current work: a function that it has called, or its own computation.

        GDB passes the signal on to a rank that runs for it, and restores the rank to its place
        before the call. Without work to interrupt, GDB only says "Quit" (tried with 13.1). Return
        False if the rank blocks the signal, which would end it later.
        """
        is_blocked = procfs.blocked_in_all_threads(pid, signal.SIGINT)
        if is_blocked and not procfs.is_at_rest(pid):
            return False
        now_s = asyncio.get_running_loop().time()
        # GDB may continue with another operation that never ends, so a repeat must be possible.
        if self._gdb.is_alive and now_s >= self._last_s + _WAIT_S / 2:
            self._last_s = now_s
            is_first = not self.is_awaited
            self._interrupt()
            if is_first:
                self.is_awaited = True
                loop = asyncio.get_running_loop()
                loop.call_later(REPEAT_S, self._repeat, pid)
                loop.call_later(IGNORES_AFTER_S, self._find_whether_ignored, pid)
        return True

    def _interrupt(self) -> None:
        self._gdb.interrupt()
        self._asked = self._gdb.ping_after_interrupt()
        self._asked.add_done_callback(self._on_answer)

    def _on_answer(self, answer: asyncio.Future[Result]) -> None:
        # The interrupts after an earlier question may still be about to come.
        if answer is self._asked:
            self.is_awaited = self.is_ignored = False

    def _repeat(self, pid: int) -> None:
        """Interrupt GDB again; a rank that moves would get the signal."""
        if self.is_awaited and not self.is_ignored and self._gdb.is_alive:
            if procfs.is_at_rest(pid):
                self._interrupt()
            asyncio.get_running_loop().call_later(REPEAT_S, self._repeat, pid)

    def _find_whether_ignored(self, pid: int) -> None:
        """Stop waiting for a GDB that computes on while its rank stands still."""
        answer = self._asked
        if answer is None or answer.done() or not self._gdb.is_alive:
            return
        if self.is_awaited and procfs.is_at_rest(pid):
            self.is_ignored = True
            self._gdb.stop_waiting(IGNORES, but_for=answer)

    async def send_if_silent(self, pid: int) -> bool:
        """Interrupt GDB if it does not answer in time; return False as :meth:`send` does."""
        answer = self._gdb.ping()
        return bool((await asyncio.wait((answer,), timeout=_WAIT_S))[0]) or self.send(pid)

    async def send_until_it_answers(self, pid: int) -> bool:
        """Interrupt GDB repeatedly for some seconds; return whether it answers then."""
        for _ in range(_TIMES):
            self.send(pid)
            if await liveness.answers(self._gdb, liveness.QUIET_S / _TIMES):
                return True
        return False

    async def wait_for(self, answer: asyncio.Future[Result], pid: int) -> Result:
        """Return GDB's answer; interrupt GDB if a function called for a condition keeps it from
        reading."""
        before, quiet_s = procfs.work_done(self._gdb.pid)[0], 0.0
        while not (await asyncio.wait((answer,), timeout=_WAIT_S))[0]:
            ticks, status = procfs.work_done(self._gdb.pid)[0], procfs.read_stat(self._gdb.pid)
            # A GDB that is ready to run, or reads from disk, may be processing a stop, which it
            # must finish.
            sleeps = ticks <= before and status is not None and status.state == "S"
            is_quiet = sleeps and not procfs.is_at_rest(pid)
            before, quiet_s = ticks, quiet_s + _WAIT_S if is_quiet else 0.0
            if quiet_s >= liveness.QUIET_S:
                quiet_s = 0.0
                self.send(pid)
        return await answer
