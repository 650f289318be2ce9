"""Stopping a rank that runs: by our signal, which must leave no trace in the rank."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any

from pgdb.backend.gdb.executor import STOP_AT_INTERRUPT, Executor
from pgdb.backend.gdb.input_watch import LOST
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.selected_thread import restore
from pgdb.backend.gdb.settings import INTERRUPT
from pgdb.backend.rank import events
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.records import Done, Failure, Record

INTERRUPT_TIMEOUT_S = 10.0
"""Time that an interrupted rank has to stop, in seconds."""
DRAIN_TIMEOUT_S = 2.0
"""Time that a pending interrupt has to stop the rank, in seconds."""
BLOCKED = (
    f"all its threads block {INTERRUPT.name}, "
    "which is what interrupts a rank; a breakpoint stops it"
)
_BLOCKED_FOR_S, _BLOCKED_LOOK_S = 1.0, 0.02
_CALL_BLOCKED = (
    "GDB waits for a function that the rank is in, where all threads block SIGINT; it cannot be "
    "interrupted"
)


class Interrupter:
    """Interrupter of one rank."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._requests = 0
        self._earlier_requests = 0  # those from before the current operation was asked for

    @property
    def requests(self) -> int:
        """Number of requests so far."""
        return self._requests

    def begin(self, earlier_requests: int) -> None:
        """Begin an operation: an interrupt after *earlier_requests* is for its run."""
        self._earlier_requests = earlier_requests

    def interrupt_new_run(self) -> None:
        """Interrupt the run that begins if that was requested while it was prepared."""
        if self._requests != self._earlier_requests:
            self._executor.feed(events.InterruptWanted())

    async def interrupt(self) -> Record:
        """Interrupt the rank, or a GDB that is busy; the stop is reported when it comes."""
        self._requests += 1
        executor = self._executor
        if executor.gdb.input.is_lost:
            return Failure(message=LOST)
        if executor.state == "exited":
            # GDB may compute; it has no process that could block the signal.
            if executor.gdb.is_alive:
                await executor.gdb_interrupt.send_if_silent(0)
            return Done()
        if executor.machine.is_at_rest:
            # GDB may have called a function of the program's, or compute. Commands of a breakpoint
            # may be about to set the rank running, so that GDB's current work says little.
            if not await executor.gdb_interrupt.send_if_silent(executor.process.pid):
                return Failure(message=_CALL_BLOCKED)
        if not executor.machine.moves:
            return Done()
        if await self.is_blocked():
            return Failure(message=BLOCKED)
        try:
            await executor.stop()
        except GdbError as error:
            return Failure(message=f"no debugger: {error}")
        return Done()

    async def stop_and_wait(self) -> dict[str, Any] | None:
        """Interrupt the rank and return the payload of its stop; None if it has stopped already."""
        if self._executor.state != "running":
            return None
        stopped = self._executor.expect_stop()
        try:
            await self._executor.stop()
            async with asyncio.timeout(INTERRUPT_TIMEOUT_S):
                return await stopped
        finally:
            self._executor.feed(events.StopNotAwaited())

    async def is_blocked(self) -> bool:
        """Return whether the rank blocks the signal for good.

        The C library blocks all signals while it starts a thread or a process.
        """
        if self._executor.gdb.is_remote:
            # Valgrind blocks all signals, and the interrupt is none.
            return False
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _BLOCKED_FOR_S
        while procfs.blocked_in_all_threads(self._executor.process.pid, INTERRUPT):
            if loop.time() > end_s:
                return True
            # No event reports the end of that.
            await asyncio.sleep(_BLOCKED_LOOK_S)
        return False

    async def take_out(self) -> None:
        """Take out a pending interrupt before the rank runs, where it stands.

        GDB would swallow it in the step over the breakpoint at which the rank stands, and count the
        hit of that breakpoint twice, with its ignore count and its condition (GDB 13.1). The first
        thread takes the signal before it carries out an instruction.

        :raises GdbError: if the rank does not stop, or GDB ends.
        """
        executor, gdb = self._executor, self._executor.gdb
        if (
            gdb.is_remote
            or executor.state != "stopped"
            or not executor.process.has_pending(INTERRUPT)
        ):
            return
        listed, shown = gdb.ask_together("-thread-list-ids", "-gdb-show scheduler-locking")
        frame = (await gdb.ask_together("-stack-info-frame")[0]).payload.get("frame") or {}
        locking = (await shown).payload.get("value")
        selected = (await listed).payload.get("current-thread-id")
        if locking is None or selected is None:
            return
        await gdb.send("-gdb-set scheduler-locking on")
        await gdb.send(console(STOP_AT_INTERRUPT))
        run = f"-exec-continue --thread {gdb.first_thread}"
        try:
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                executor.take_end(await executor.run_internally(run, is_armed=True))
        except TimeoutError:
            raise GdbError(f"it has not stopped within {DRAIN_TIMEOUT_S:g} s") from None
        finally:
            await gdb.send(f"-gdb-set scheduler-locking {locking}")
        await restore(gdb, str(selected), frame)

    async def drain(self) -> None:
        """Take a pending interrupt out of a rank that would notice it.

        It was sent while the rank stopped for another reason. By default the signal does nothing; a
        handler of the program would be called without a reason of its own.
        """
        pid = self._executor.process.pid
        has_handler = INTERRUPT in (procfs.caught_signals(pid) or ())
        if not has_handler and not self._executor.gdb_interrupt.has_happened:
            return  # the signals of all threads take a while to read
        pending = procfs.pending_signals(pid) or ()
        is_caught = (
            has_handler
            and INTERRUPT in pending
            # A blocked signal does not come, however long the rank runs for it.
            and not procfs.blocked_in_all_threads(pid, INTERRUPT)
        )
        # A call can have returned between GDB's SIGINT and its delivery to the rank.
        is_left = self._executor.gdb_interrupt.has_happened and signal.SIGINT in pending
        if not is_caught and not is_left:
            return
        await self._executor.gdb.send(console(STOP_AT_INTERRUPT))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                payload = await self._executor.run_internally("-exec-continue", is_armed=True)
                self._executor.take_end(payload)
