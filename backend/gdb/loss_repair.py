"""Repair of a rank whose GDB has died: its breakpoints are removed, and its fate is reported."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.backend.care.breakpoint_repair import wake
from pgdb.backend.care.debug_registers import disarm
from pgdb.backend.rank import events
from pgdb.records import Event, Exit, Gone

if TYPE_CHECKING:
    from pgdb.backend.gdb.executor import Executor

LOG = logging.getLogger(__name__)

_LEFTOVER = "a breakpoint may be left in it, at which it ends by SIGTRAP: PGDB cannot compare {}"
_ARMED = "a hardware watchpoint or breakpoint may be left in it, at which it ends by SIGTRAP"
_TRAPPED = (
    "before PGDB could remove it, the rank met a breakpoint, watchpoint or step that GDB had left "
    "in it ('--guard' prevents that)"
)
_DISARM_S = 5.0
"""Time that a rank has to stand still for a moment, in seconds."""
_LOOKS, _LOOK_S = 20, 0.02
"""Number of looks at a process that is about to end, and the time between two, in seconds."""


class LossRepair:
    """Repair of one rank after the death of its GDB."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._process, self._machine = executor.process, executor.machine
        self._text, self._breakpoints = executor.text, executor.breakpoints
        self._disarming: asyncio.Task[bool] | None = None
        """Clearing of the debug registers, which begins before the end of GDB is known."""

    async def _disarm(self) -> bool:
        """Clear the debug registers of the rank; return whether that is done in time."""
        # It goes on later: a thread that is being stopped must be released.
        done = self._disarming or self._executor.keep(disarm(self._process.pid))
        self._disarming = None
        await asyncio.wait([done], timeout=_DISARM_S)
        cleared = done.done() and done.result()
        LOG.warning("rank %d: debug registers cleared: %s", self._machine.rank, cleared)
        return cleared

    def begin(self) -> None:
        """Remove the user's breakpoints from a rank whose GDB ends, before its next hit."""
        if not self._process.pid:
            return
        restored = self._text.restore_places(self._process.pid)
        if restored:
            LOG.warning("rank %d: %d breakpoints removed at once", self._machine.rank, restored)
        if self._breakpoints.has_hardware and self._disarming is None and self._machine.moves:
            # The reports of GDB's end, and the repair of all text, take milliseconds.
            self._disarming = self._executor.keep(disarm(self._process.pid, waits=True))

    async def complete(self, then: Event | None) -> None:
        """Remove what a killed GDB has left in the rank, and let the rank run."""
        LOG.warning("rank %d: its GDB has ended", self._machine.rank)
        is_armed = self._breakpoints.has_hardware and not await self._disarm()
        repaired = await asyncio.to_thread(self._text.repair, self._process.pid)
        LOG.warning("rank %d: %d breakpoints removed", self._machine.rank, repaired.restored)
        left = []
        if repaired.unknown:
            unknown = ", ".join(repaired.unknown)
            LOG.warning("rank %d: not compared: %s", self._machine.rank, unknown)
            left.append(_LEFTOVER.format(unknown))
        if not self._process.was_stopped:
            await wake(self._process.pid)
        # A rank that was just being stopped could not be traced.
        if is_armed and not await self._disarm():
            left.append(_ARMED)
        if isinstance(then, Gone):
            await self._report(then, left)
        elif then is not None:
            self._executor.feed(events.Described(then))

    async def _report(self, loss: Gone, left: Sequence[str]) -> None:
        """Report the loss of the GDB: the rank runs on, with what is *left* in it, or has ended."""
        if not self._process.is_over:
            self._executor.feed(events.Described(replace(loss, why="; ".join((loss.why, *left)))))
            return
        # The kernel knows how it has ended once it is a zombie, after a core dump.
        for _ in range(_LOOKS):
            if self._process.program_pid is None:
                break
            await asyncio.sleep(_LOOK_S)
        end = self._process.how(self._machine.run) or Exit(run=self._machine.run)
        LOG.warning("rank %d: it has ended: %s", self._machine.rank, end)
        why = f"{loss.why}; {_TRAPPED}" if end.signal == signal.SIGTRAP.name else loss.why
        self._executor.feed(events.Described(replace(loss, why=why, has_ended=True)))
        self._executor.feed(events.EndLearned(end))
        self._executor.feed(events.Described(end))
