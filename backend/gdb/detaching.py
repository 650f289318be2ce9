"""The end of PGDB's part in a rank: it is detached unharmed, or killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from pgdb.backend.care.sigtrap_guard import SigtrapGuard
from pgdb.backend.gdb.executor import Executor
from pgdb.backend.gdb.interrupting import BLOCKED, DRAIN_TIMEOUT_S, INTERRUPT_TIMEOUT_S, Interrupter
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.process import ALLOW, END_WHEN_FREE
from pgdb.backend.rank import events
from pgdb.backend.rank.states import Detached, Detaching
from pgdb.errors import GdbError
from pgdb.records import Done, Failure, Record

_KILL_S = 5.0
"""Time limit for a GDB to end its process, in seconds; a GDB that computes takes for ever."""

_NOTICE_S = 3.0
"""Time that a GDB has to report the end of a rank that was killed while it ran, in seconds."""
_STOP_S = 2.0
"""Time that a rank has to stop before it is killed as it runs, in seconds."""
_LOOK_S = 0.01
"""Time between two looks at that, in seconds."""


class Detacher:
    """Driver that detaches one rank, or kills it."""

    def __init__(
        self, executor: Executor, interrupter: Interrupter, guard: SigtrapGuard | None
    ) -> None:
        self._executor = executor
        self._interrupter = interrupter
        self._guard = guard

    async def detach(self) -> None:
        """Detach the rank, which runs on with nothing of ours in it.

        :raises GdbError: if it cannot be detached.
        """
        if self._executor.state not in ("stopped", "running"):
            raise GdbError("it has no debugger")
        self._executor.feed(events.DetachBegun())
        try:
            await self._let_free()
        except TimeoutError:
            raise GdbError(f"it has not stopped within {INTERRUPT_TIMEOUT_S:g} s") from None
        finally:
            # A GDB that got the command to detach does so even if nobody waits for it.
            if isinstance(self._executor.machine.state, Detaching):
                self._executor.feed(events.DetachFailed())

    async def _let_free(self) -> None:
        executor = self._executor
        if executor.state == "running":
            if await self._interrupter.is_blocked():
                raise GdbError(BLOCKED)
            payload = await self._interrupter.stop_and_wait()
            if payload is not None and executor.take_end(payload):
                return
        if executor.state == "stopped":
            await executor.breakpoints.python.agent.end(executor.process.pid)
        if not executor.gdb.is_asked_only:
            # The session keeps them for a later attach.
            self._executor.breakpoints.forget()
            await executor.gdb.send(console("delete"))
        await self._interrupter.drain()
        if executor.state == "running":
            raise GdbError(f"it has not stopped within {DRAIN_TIMEOUT_S:g} s")
        if executor.state != "stopped":
            return
        if self._guard is not None:
            await self._guard.remove()
        executor.feed(events.FreeSent())
        _, detached = executor.gdb.ask_together(console(END_WHEN_FREE), "-target-detach")
        try:
            result = await detached
        except GdbError:
            if not isinstance(executor.machine.state, Detached):
                raise
            return
        if result.kind == "error":
            executor.feed(events.DetachFailed())
            raise GdbError(result.message)
        executor.feed(events.Freed())

    async def kill(self, *, keeps_debugger: bool) -> Record:
        """End the process of the rank by SIGKILL.

        :param keeps_debugger: GDB stays, if it ends the process itself or reports its end in time.
        """
        executor = self._executor
        if executor.state not in ("stopped", "running"):
            return Done()
        pid = executor.process.pid
        keeps_debugger = keeps_debugger and not executor.gdb.is_remote
        if keeps_debugger and executor.state == "running" and await self._has_ended_before_stop():
            return Done()
        if keeps_debugger and executor.state == "stopped":
            executor.feed(events.Killed(by_debugger=True))
            if await self._is_killed_by_gdb():
                return Done()
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            executor.gdb.kill()
            return Done()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except OSError as error:
            return Failure(message=f"cannot kill process {pid}: {error.strerror}")
        if keeps_debugger and await self._is_end_reported():
            return Done()
        # A GDB that has the rank stopped would not notice. GDB is killed, and not ended by the end
        # of its input: GDB 13.1 then spins for ever if it has not noticed the end of a rank that it
        # was stepping over a breakpoint, as it does for every shared object that MPI_Init loads (3
        # of 11 sessions closed just after a continue in main). No rank is left that could keep a
        # breakpoint.
        executor.feed(events.Killed())
        return Done()

    async def _has_ended_before_stop(self) -> bool:
        """Try to stop the rank; return whether it has ended meanwhile.

        GDB 13.1 does not notice the end of a rank that it steps over a breakpoint.
        """
        executor = self._executor
        try:
            async with asyncio.timeout(_STOP_S):
                if await self._interrupter.is_blocked():
                    return False
                payload = await self._interrupter.stop_and_wait()
        except (GdbError, TimeoutError):
            return executor.state == "exited"
        if payload is not None:
            executor.take_end(payload)
        return executor.state == "exited"

    async def _is_end_reported(self) -> bool:
        """Wait until GDB reports the end of a rank that ran; return whether it does so in time."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _NOTICE_S
        while self._executor.state == "running":
            if loop.time() > end_s:
                return False
            await asyncio.sleep(_LOOK_S)
        return self._executor.state == "exited"

    async def _is_killed_by_gdb(self) -> bool:
        """Have GDB end the process, which must be stopped; return whether GDB has done so."""
        try:
            async with asyncio.timeout(_KILL_S):
                allowed, kill = console(ALLOW.format("kill")), console("kill")
                result = await self._executor.gdb.send_together(allowed, kill)[1]
        except (GdbError, TimeoutError):
            return False
        return result.kind != "error"
