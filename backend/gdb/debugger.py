"""One rank under one GDB: attached to, driven, and detached from unharmed.

The states are those of :class:`~pgdb.backend.rank.machine.RankMachine`. This module feeds it GDB's
reports, the end of the process and the operations, and carries out its actions. Operations are
carried out one after the other, except an interrupt, which must reach a rank whose GDB is busy. The
most important invariant: the rank ends up running free with no breakpoint left in it, unless it was
to be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from pgdb.backend.care import liveness
from pgdb.backend.care.breakpoint_repair import RankText, wake
from pgdb.backend.care.gdb_interrupt import IGNORES, GdbInterrupt
from pgdb.backend.care.pausing import Pauser
from pgdb.backend.care.sigtrap_guard import SigtrapGuard
from pgdb.backend.gdb import decode
from pgdb.backend.gdb.attach import WAS_STOPPED, Acquired, Attacher, Localise, as_they_are
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.finish_limit import FinishLimit
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.operations import Operations, prints_unasked, prints_values, run_command
from pgdb.backend.gdb.process import END_WHEN_FREE
from pgdb.backend.gdb.process_watch import ProcessWatch
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.rank_variables import definitions
from pgdb.backend.gdb.settings import IGNORE_INTERRUPT, INTERRUPT
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_report import StopReports, as_interrupt
from pgdb.backend.rank import events
from pgdb.backend.rank.machine import RankMachine
from pgdb.backend.rank.protocol import EVERYTHING, NeedsStopError, State
from pgdb.backend.rank.states import Controlled, Detaching, Live
from pgdb.backend.sbd.rank_files import RankGdb
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.overlay.messages import AnyOperation, Console, Detach, Interrupt, Kill, Resume
from pgdb.records import Done, Event, Exit, Failure, Gone, Output, Record, Running, Stop, Text

LOG = logging.getLogger(__name__)

_STOP_AT_INTERRUPT = f"handle {INTERRUPT.name} stop print nopass"
_LEFTOVER = "a breakpoint may be left in it, at which it ends by SIGTRAP: PGDB cannot compare {}"
_INTERRUPT_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 5.0
_PRINTING_SHARE = 0.5
"""Share of a command's time after which GDB is interrupted if it still prints values."""
_TOOK_TOO_LONG = "GDB was interrupted after half of the command's time (set timeout): {}"
_LAST_WORDS_S = 1.0
"""Time that a GDB has to report by itself that its rank has ended."""
_BLOCKED_FOR_S, _BLOCKED_LOOK_S = 1.0, 0.02
_DRAIN_TIMEOUT_S = 2.0
_NO_REGISTERS = "Couldn't get registers: No such process"
_STOPPED_AGAIN = "stopped again, by the signal from before"
_BLOCKED = (
    f"all its threads block {INTERRUPT.name}, "
    "which is what interrupts a rank; a breakpoint stops it"
)
_CALL_BLOCKED = (
    "GDB waits for a function that the rank is in, where all threads block SIGINT; it cannot be "
    "interrupted"
)
_DETACHED_BY_COMMAND = "a command has made GDB detach from it"
_OVER: dict[State, str] = {
    "exited": "The program has ended on this rank.",
    "detached": "PGDB is detached from this rank.",
    "gone": "The debugger of this rank is gone; the rank runs on free.",
}


class GdbDebugger:
    """The debugger of one rank; lives on the aggregator's event loop."""

    capabilities = EVERYTHING
    machine_is_strict = False
    """Whether an event that cannot happen raises; for tests."""

    def __init__(
        self,
        rank: int,
        *,
        gdb_factory: GdbFactory,
        program: str,
        notify: Callable[[int, Event], None],
        localise: Localise = as_they_are,
        pauser: Pauser | None = None,
        is_guarded: bool = False,
    ) -> None:
        self.rank = rank
        self.machine = RankMachine(rank, is_strict=self.machine_is_strict)
        self._process = ProcessWatch()
        self._text = RankText()
        self._notify_leaf = notify
        self._gdb = RankGdb(self)
        self._gdb_interrupt = GdbInterrupt(self._gdb)
        self._guard = SigtrapGuard(self._gdb) if is_guarded else None
        self._breakpoints = Breakpoints(self._gdb)
        self._stacks = Stacks(self._gdb, self._stop_printing)
        self._finish_limit = FinishLimit(self._gdb)
        self._stops = StopReports(self._gdb, self._stacks, self._breakpoints)
        self._operations = Operations(
            self._gdb,
            self._breakpoints,
            self._stacks,
            adopt_run=lambda run: self._feed(events.RunAdopted(run)),
            rank=rank,
        )
        self._attacher = Attacher(
            self._gdb,
            expect_stop=self._expect_first_stop,
            run=self._internal_run,
            notify=self._notify,
            program=program,
            localise=localise,
            gdb_factory=gdb_factory,
            pauser=pauser or Pauser(),
        )
        self._printed = ""
        self._lock = asyncio.Lock()
        self._awaited: asyncio.Future[dict[str, Any]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._arming: asyncio.Task[GdbError | None] | None = None
        # Time at which the current operation is overdue, on the loop's clock.
        self._due_s: float | None = None
        self._has_stopped_printing = False  # in the current operation

    # -- the interface of the leaf -------------------------------------------------------------

    @property
    def state(self) -> State:
        """State of the rank."""
        return self.machine.word

    @property
    def current_event(self) -> Event | None:
        """Current event of the rank; None before the GDB is attached and once it is detached."""
        return self.machine.current_event

    @property
    def program_pid(self) -> int | None:
        """Process id of the program: 0 if no GDB was ever attached, None if it has ended."""
        return self._process.program_pid

    @property
    def gdb_pid(self) -> int:
        """Process id of this rank's GDB."""
        return self._gdb.pid

    async def perform(
        self, operation: AnyOperation, request_id: int, timeout_s: float | None = None
    ) -> Record:
        """Carry out one operation and return its answer; it is overdue after *timeout_s*.

        :raises NeedsStopError: if the operation needs a stopped rank and the rank runs.
        """
        if isinstance(operation, Interrupt):
            return await self._interrupt()
        if isinstance(operation, Kill):
            return self._kill()
        if self._gdb_interrupt.is_ignored:
            return Failure(message=IGNORES)
        async with self._lock:
            if self.state in _OVER:
                return Failure(message=_OVER[self.state])
            limit = None
            if timeout_s is not None:
                loop = asyncio.get_running_loop()
                self._due_s = loop.time() + timeout_s
                if prints_values(operation):
                    limit = loop.call_later(_PRINTING_SHARE * timeout_s, self._stop_printing)
            self._has_stopped_printing = False
            try:
                record = await self._perform(operation, request_id)
                if self._has_stopped_printing and isinstance(record, Failure):
                    return replace(record, message=_TOOK_TOO_LONG.format(record.message))
                return record
            except GdbError as error:
                if self.state == "exited":
                    return Failure(message=_OVER[self.state])
                return Failure(message=f"{'' if self._gdb.is_alive else 'no debugger: '}{error}")
            finally:
                self._due_s = None
                if limit is not None:
                    limit.cancel()
                self._find_whether_free()

    def _stop_printing(self) -> None:
        """Interrupt a GDB that is still printing; a function that it has called may take longer."""
        if procfs.is_at_rest(self._process.pid):
            self._has_stopped_printing = True
            self._gdb_interrupt.send(self._process.pid)

    async def is_silent(self) -> bool:
        """Return whether GDB hangs in an overdue operation; takes some seconds if so."""
        due_s = self._due_s
        if due_s is None or asyncio.get_running_loop().time() < due_s:
            return False
        before = procfs.work_done(self.gdb_pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(liveness.QUIET_S), self._lock:
                return False
        return self._due_s == due_s and procfs.work_done(self.gdb_pid) == before

    async def attach(
        self, pid: int, request_id: int, *, is_retried: bool = False, is_held_back: bool = False
    ) -> Record:
        """Attach to the running process *pid* and return where it stopped.

        :param is_retried: another GDB is tried if this one dies meanwhile, so that the death is
            not notified as a loss.
        :param is_held_back: :meth:`abandon` has stopped the process, which is to run on later.
        :raises GdbError: if the GDB cannot be started, refuses, or ends.
        """
        self._feed(events.AttachBegun(is_retried))
        status = procfs.read_stat(pid)
        self._process.was_stopped = status is not None and status.state == "T"
        acquired: Acquired | Failure
        # A GDB may hang over a process that is killed while GDB attaches to it.
        self._watch(pid)
        try:
            acquired = await self._attacher.attach(pid)
            if is_held_back:
                acquired = _let_run_later(pid, acquired)
            return await self._first_stop(acquired, request_id)
        except GdbError:
            end = self.machine.last_event
            if self.state != "exited" or not isinstance(end, Exit):
                raise
            return end

    async def acquire_held(self, pid: int, request_id: int, *, runs_on: bool = True) -> Record:
        """Attach to the held process *pid*, let it execute its program, and stop that in ``main``.

        :param runs_on: the rank runs on without a GDB if that fails; else it stays held.
        :raises GdbError: if the GDB cannot be started, refuses, or ends.
        """
        self._feed(events.AttachBegun())
        self._process.pid = pid
        acquired = await self._attacher.acquire_held(pid, runs_on=runs_on)
        return await self._first_stop(acquired, request_id)

    def note_end(self) -> Exit:
        """Record that the program has ended, which its GDB could not report; return the end."""
        known, run = self.machine.last_event, self.machine.run
        if self.state == "exited" and isinstance(known, Exit):
            return known
        end = self._process.how(run) or Exit(run=run)
        self._feed(events.EndLearned(end))
        return end

    async def has_debugger(self, timeout_s: float) -> bool:
        """Return whether the rank is under a GDB that answers within *timeout_s*.

        A GDB that computes is waited for, one that a signal has stopped is woken.
        """
        if self.state not in ("stopped", "running") or not self._gdb.is_alive:
            return False
        if self._gdb_interrupt.is_ignored:
            return False
        is_there = await liveness.answers(self._gdb, timeout_s)
        return is_there or await self._gdb_interrupt.send_until_it_answers(self._process.pid)

    async def abandon(self, *, holds_back: bool = False) -> bool:
        """End a GDB that does not answer: by SIGKILL if it has the rank, which is repaired then.

        :param holds_back: a rank that stands still under a GDB that ignores interrupts is kept at
            its place by SIGSTOP, for the next GDB. The result is whether it was.
        :raises GdbError: if the GDB cannot be ended.
        """
        is_held_back = holds_back and self.state == "stopped" and self._hold_back()
        self._feed(events.EndBegun())
        if self._gdb.is_alive and self.state != "detached":
            LOG.warning("rank %d: GDB %d hangs and is killed", self.rank, self._gdb.pid)
            self._gdb.kill()
        if not await self._gdb.close(_KILL_TIMEOUT_S):
            # As where a file system hangs.
            self._feed(events.EndFailed())
            raise GdbError(f"GDB {self._gdb.pid} cannot be ended")
        await self._has_ended()
        self._feed(events.Abandoned())
        return is_held_back

    def _hold_back(self) -> bool:
        """Send SIGSTOP to a rank that stands still; return whether it will obey.

        The signal stays pending until the end of GDB lets the rank run.
        """
        pid = self._process.pid
        if not self._gdb_interrupt.is_ignored or not procfs.is_at_rest(pid):
            return False
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            return False
        self._process.was_stopped = True
        return True

    async def detach(self, timeout_s: float) -> None:
        """Detach if attached, and end the GDB; the rank runs on."""
        self._feed(events.EndBegun())
        # Half of the time for a GDB that computes, the other half for it to give that up.
        is_there = await liveness.answers(self._gdb, timeout_s / 2)
        if not (is_there or await self._gdb_interrupt.send_until_it_answers(self._process.pid)):
            await self.abandon()
            return
        async with self._lock:
            if self.state in ("stopped", "running"):
                with contextlib.suppress(GdbError, TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await self._detach()
        if await self._gdb.close(timeout_s):
            await self._has_ended()
        elif self._process.pid and not procfs.is_alive(self._process.pid):
            # Its job ended it while GDB detached, which leaves GDB 13.1 spinning (see _kill).
            self._gdb.kill()
        else:
            await self.abandon()

    async def _has_ended(self) -> None:
        """Record that GDB has ended before its output has; wait until the rank is repaired."""
        if isinstance(self.machine.state, Live):
            # GDB was killed before it could detach.
            self.on_end("its GDB was ended")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- operations ----------------------------------------------------------------------------

    async def _perform(self, operation: AnyOperation, request_id: int) -> Record:
        if operation.needs_stopped_rank or operation.sets_running:
            self._need_stop()
        if prints_unasked(operation):
            self._gdb.lent.is_shown_unasked = True
        if isinstance(operation, Resume) or (isinstance(operation, Console) and operation.run):
            self._stops.take_run(operation.command)
            return await self._resume(run_command(operation), request_id)
        if isinstance(operation, Detach):
            await self._detach()
            is_stopped = self._process.was_stopped and self.state == "detached"
            return Text(text=_STOPPED_AGAIN) if is_stopped else Done()
        if isinstance(operation, Console):
            self._stops.take_command(operation.command)
        record = await self._operations.perform(operation, request_id, self._process.pid)
        if isinstance(record, Failure) and record.message.startswith(_NO_REGISTERS):
            # The kernel's answer about a process that runs; GDB says it for "gcore" and others.
            if self.state == "running":
                raise NeedsStopError
        return record

    def _need_stop(self) -> None:
        if self.state != "stopped":
            raise NeedsStopError

    async def _resume(self, command: str, request_id: int) -> Record:
        before = self.machine.run
        self._text.refresh(self._process.pid)
        await self._breakpoints.find_hidden(self._process.pid)
        await self._finish_limit.raise_for(command)
        self._feed(events.RunSent(request_id))
        result = await self._gdb.send(command)
        if result.kind == "running":
            return Running(run=request_id)
        self._finish_limit.restore()
        self._feed(events.RunRefused(request_id, before))
        if result.kind == "error":
            return failure(result)
        return Text(text=result.text) if result.text else Done()

    async def _interrupt(self) -> Record:
        if self.machine.is_at_rest:
            # GDB may have called a function of the program's, or compute. Commands of a breakpoint
            # may be about to set the rank running, so that GDB's current work says little.
            if not await self._gdb_interrupt.send_if_silent(self._process.pid):
                return Failure(message=_CALL_BLOCKED)
        if not self.machine.moves:
            return Done()
        if await self._blocks_interrupts():
            return Failure(message=_BLOCKED)
        try:
            await self._stop()
        except GdbError as error:
            return Failure(message=f"no debugger: {error}")
        return Done()

    async def _stop(self) -> None:
        """Interrupt a rank that runs; return once the signal is sent, or the rank has stopped.

        :raises GdbError: if GDB ends.
        """
        self._feed(events.InterruptWanted())
        arming = self._arming
        if arming is not None and not arming.done() and (error := await asyncio.shield(arming)):
            raise error

    async def _arm(self) -> GdbError | None:
        """Make GDB stop at our signal, then send it."""
        try:
            answer = self._gdb.send(console(_STOP_AT_INTERRUPT))
            result = await self._gdb_interrupt.wait_for(answer, self._process.pid)
            if result.kind == "error" and self.state == "running":
                # GDB has given up this very command: it could not be seen to do anything else.
                await self._gdb.send(console(_STOP_AT_INTERRUPT))
        except GdbError as error:
            return error
        self._feed(events.Armed())
        return None

    async def _blocks_interrupts(self) -> bool:
        """Return whether the rank blocks the signal for good.

        The C library blocks all signals while it starts a thread or a process.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _BLOCKED_FOR_S
        while procfs.blocked_in_all_threads(self._process.pid, INTERRUPT):
            if loop.time() > end_s:
                return True
            # No event reports the end of that.
            await asyncio.sleep(_BLOCKED_LOOK_S)
        return False

    def _kill(self) -> Record:
        if self.state not in ("stopped", "running"):
            return Done()
        try:
            os.kill(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except OSError as error:
            return Failure(message=f"cannot kill process {self._process.pid}: {error.strerror}")
        # A GDB that has the rank stopped would not notice. GDB is killed, and not ended by the end
        # of its input: GDB 13.1 then spins for ever if it has not noticed the end of a rank that it
        # was stepping over a breakpoint, as it does for every shared object that MPI_Init loads (3
        # of 11 sessions closed just after a continue in main). No rank is left that could keep a
        # breakpoint.
        self._feed(events.Killed())
        return Done()

    async def _detach(self) -> None:
        if self.state not in ("stopped", "running"):
            raise GdbError("it has no debugger")
        self._feed(events.DetachBegun())
        try:
            await self._let_free()
        except TimeoutError:
            raise GdbError(f"it has not stopped within {_INTERRUPT_TIMEOUT_S:g} s") from None
        finally:
            # A GDB that got the command to detach does so even if nobody waits for it.
            if isinstance(self.machine.state, Detaching):
                self._feed(events.DetachFailed())

    async def _let_free(self) -> None:
        if self.state == "running":
            if await self._blocks_interrupts():
                raise GdbError(_BLOCKED)
            if (payload := await self._stop_and_wait()) is not None and self._take_end(payload):
                return
        if not self._gdb.is_asked_only:
            await self._gdb.send(console("delete"))
        await self._drain_interrupt()
        if self.state == "running":
            raise GdbError(f"it has not stopped within {_DRAIN_TIMEOUT_S:g} s")
        if self.state != "stopped":
            return
        if self._guard is not None:
            await self._guard.remove()
        self._feed(events.FreeSent())
        _, detached = self._gdb.ask_together(console(END_WHEN_FREE), "-target-detach")
        try:
            result = await detached
        except GdbError:
            if not self._is_detached:
                raise
            return
        if result.kind == "error":
            self._feed(events.DetachFailed())
            raise GdbError(result.message)
        self._feed(events.Freed())

    @property
    def _is_detached(self) -> bool:
        return self.state == "detached"

    async def _stop_and_wait(self) -> dict[str, Any] | None:
        """Interrupt the rank and return the payload of its stop; None if it has stopped already."""
        if self.state != "running":
            return None
        stopped = self._expect_stop()
        try:
            await self._stop()
            async with asyncio.timeout(_INTERRUPT_TIMEOUT_S):
                return await stopped
        finally:
            self._feed(events.StopNotAwaited())

    async def _drain_interrupt(self) -> None:
        """Take a pending interrupt out of a rank that would notice it.

        It was sent while the rank stopped for another reason. By default the signal does nothing; a
        handler of the program would be called without a reason of its own.
        """
        pid = self._process.pid
        pending = procfs.pending_signals(pid) or ()
        is_caught = (
            INTERRUPT in pending
            and INTERRUPT in (procfs.caught_signals(pid) or ())
            # A blocked signal does not come, however long the rank runs for it.
            and not procfs.blocked_in_all_threads(pid, INTERRUPT)
        )
        # A call can have returned between GDB's SIGINT and its delivery to the rank.
        is_left = self._gdb_interrupt.has_happened and signal.SIGINT in pending
        if not is_caught and not is_left:
            return
        await self._gdb.send(console(_STOP_AT_INTERRUPT))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                self._take_end(await self._internal_run("-exec-continue", is_armed=True))

    def _take_end(self, payload: dict[str, Any]) -> bool:
        """Record the end of the program if *payload* reports it; return whether it does."""
        end = decode.exit_of(payload, run=self.machine.run)
        if end is not None:
            self._feed(events.EndLearned(end))
        return end is not None

    def _find_whether_free(self) -> None:
        """Find out whether a command (``thread apply all detach``) has detached the rank."""
        state = self.machine.state
        if isinstance(state, Controlled) and state.has_lost_process:
            is_free = self._process.is_free
            self._feed(events.FoundFree(_DETACHED_BY_COMMAND) if is_free else events.FoundTraced())

    # -- attaching -----------------------------------------------------------------------------

    async def _first_stop(self, acquired: Acquired | Failure, request_id: int) -> Record:
        if isinstance(acquired, Failure):
            self._feed(events.AttachRefused(not procfs.is_alive(self._process.pid)))
            return acquired
        self._process.was_stopped = acquired.was_stopped
        self._stacks.know(acquired.pid, acquired.mapped)
        # Nobody waits for them: GDB carries out commands in their order.
        self._gdb.ask_together(*definitions(self.rank, acquired.pid))
        self._watch(acquired.pid)
        if (end := decode.exit_of(acquired.payload, run=request_id)) is not None:
            self._feed(events.EndLearned(end))
            return end
        notes = [*acquired.notes]
        if unheld := await asyncio.to_thread(self._text.keep, acquired.pid):
            notes.append(
                f"if its GDB is killed, breakpoints in {', '.join(unheld)} stay and end the rank "
                "by SIGTRAP: their text cannot be read"
            )
        if self._guard is not None and (why := await self._guard.install(acquired.pid)):
            notes.append(f"is not guarded against the end of its GDB: {why}")
        stop = await self._stops.first(acquired, request_id, notes)
        self._feed(events.Attached(stop))
        return stop

    def _watch(self, pid: int) -> None:
        def on_end() -> None:
            self._keep(self._process_ended())

        self._process.begin(pid, on_end)

    async def _internal_run(self, command: str, *, is_armed: bool = False) -> dict[str, Any]:
        """Let the rank run to a stop that is ours alone; return the payload of the stop.

        :raises GdbError: if the rank cannot run, or GDB ends.
        """
        stopped, run = self._expect_stop(), self.machine.run
        self._feed(events.RunSent(run, is_armed))
        try:
            result = await self._gdb.send(command)
            if result.kind == "error":
                self._feed(events.RunRefused(run, run))
                raise GdbError(result.message)
            return await stopped
        finally:
            self._feed(events.StopNotAwaited())

    def _expect_first_stop(self) -> asyncio.Future[dict[str, Any]]:
        self._feed(events.AttachSent())
        return self._new_future()

    def _expect_stop(self) -> asyncio.Future[dict[str, Any]]:
        self._feed(events.StopAwaited())
        return self._new_future()

    def _new_future(self) -> asyncio.Future[dict[str, Any]]:
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    # -- reports of GDB and of the kernel ------------------------------------------------------

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Take a ``*stopped``."""
        if self._awaited is not None and self._awaited.done():
            # The operation has given up, and has not run since.
            self._awaited = None
            self._feed(events.StopNotAwaited())
        self._feed(events.HasStopped(payload, decode.exit_of(payload, run=0)))

    def on_running(self) -> None:
        """Take a ``*running``."""
        self._feed(events.IsRunning())

    def on_run_failed(self, message: str) -> None:
        """Record that the rank does not run after all, as when a breakpoint cannot be inserted."""
        self._feed(events.RunFailed(self._stops.why_refused(message)))

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Take a ``=…``."""
        if name == "thread-group-exited":
            self._feed(events.LostProcess())
        self._breakpoints.on_notice(name, payload)
        self._stacks.on_notice(name, payload)
        if name == "library-loaded":
            self._text.outdate()

    def on_output(self, text: str) -> None:
        """Take text that GDB printed unasked: output of breakpoint commands, and its own stops."""
        if self._breakpoints.prints and self.state != "stopped":
            # A dprintf, whose text comes in pieces.
            self._printed += text
            if not text.endswith("\n"):
                return
            text, self._printed = self._printed, ""
            self._breakpoints.prints = False
        elif self.state != "stopped":
            return
        if not self.machine.is_detaching and text.strip():
            self._notify(Output(text=text.rstrip("\n")))

    def on_end(self, why: str) -> None:
        """Record that GDB has ended."""
        self._feed(events.DebuggerEnded(why, self._process.has_no_debugger))

    async def _process_ended(self) -> None:
        """Record the end of the process, which GDB 13.1 does not notice of a stopped one."""
        end = self._process.how(self.machine.run)
        # A GDB that let the process run is about to report its end, unless GDB hangs.
        for patience_s in (_LAST_WORDS_S, _INTERRUPT_TIMEOUT_S):
            if await self._process.stops_within(patience_s):
                return
            end = end or self._process.how(self.machine.run)
            if end is not None:
                break
        self._feed(events.ProcessEnded(end or Exit(run=self.machine.run)))

    # -- actions -------------------------------------------------------------------------------

    def _feed(self, event: events.RankEvent) -> None:
        for action in self.machine.on(event):
            self._carry_out(action)

    def _carry_out(self, action: events.Action) -> None:
        match action:
            case events.Arm():
                self._arming = self._keep(self._arm())
            case events.Disarm():
                if self._gdb.is_alive:
                    self._gdb.send(console(IGNORE_INTERRUPT))
            case events.SendSignal():
                with contextlib.suppress(OSError):
                    os.kill(self._process.pid, INTERRUPT)
            case events.ReportStop():
                self._report(action)
            case events.ReportRefusedRun(why=why, run=run):
                stop = Stop(reason="other", run=run, meaning=f"it cannot run: {why}")
                self._keep(self._describe(stop, is_elsewhere=False))
            case events.ResolveStop(payload=payload):
                if self._awaited is not None and not self._awaited.done():
                    self._awaited.set_result(payload)
            case events.FailStop(why=why):
                if self._awaited is not None and not self._awaited.done():
                    self._awaited.set_exception(GdbError(why))
                    self._awaited.exception()
            case events.Notify(event=event):
                self._notify(event)
            case events.Repair(then=then):
                self._keep(self._repair(then))
            case events.StopWatching(forgets=forgets):
                self._process.stop(forgets=forgets)
            case events.ForgetBreakpoints():
                self._breakpoints.forget()
            case events.KillDebugger():
                self._gdb.kill()

    def _notify(self, event: Event) -> None:
        self._notify_leaf(self.rank, event)

    def _report(self, action: events.ReportStop) -> None:
        payload = action.payload
        self._finish_limit.restore()
        stop = self._stops.stop_of(payload, action.run, self._process.pid)
        if self._gdb_interrupt.is_awaited and stop.signal == signal.SIGINT.name:
            self._keep(self._report_gdb_interrupt(as_interrupt(stop), action))
        elif self._tasks or not self._stops.is_complete(stop, payload):
            # Finding the frame takes a moment; GDB answers in order, so stops are reported in
            # order too.
            is_elsewhere = self._stops.is_elsewhere(stop, payload)
            self._keep(self._describe(stop, is_elsewhere=is_elsewhere))
        else:
            self._feed(events.Described(stop))

    async def _report_gdb_interrupt(self, stop: Stop, action: events.ReportStop) -> None:
        """Report a stop at our SIGINT, except one in a function that GDB has gone back from."""
        found = await self._stops.after_gdb_interrupt(
            stop,
            action.payload,
            stays_stopped=lambda: action.was_running and self.machine.stops == action.count,
        )
        if found is not None:
            first = self._gdb.first_thread
            is_elsewhere = action.payload.get("thread-id", first) != first
            await self._describe(found, is_elsewhere=is_elsewhere)

    async def _describe(self, stop: Stop, *, is_elsewhere: bool) -> None:
        """Report a stop with its frame; if GDB ends meanwhile, that is reported."""
        pid = self._process.pid
        try:
            described, text = await self._stops.describe(stop, pid, is_elsewhere=is_elsewhere)
        except GdbError:
            if not self._gdb.is_alive:
                return
            described, text = stop, ""
        self._feed(events.Described(described))
        if text:
            self._notify(Output(text=text))

    async def _repair(self, then: Event | None) -> None:
        """Remove what a killed GDB has left in the rank, and let the rank run."""
        LOG.warning("rank %d: its GDB has ended", self.rank)
        repaired = await asyncio.to_thread(self._text.repair, self._process.pid)
        LOG.warning("rank %d: %d breakpoints removed", self.rank, repaired.restored)
        if repaired.unknown:
            unknown = ", ".join(repaired.unknown)
            LOG.warning("rank %d: not compared: %s", self.rank, unknown)
            if isinstance(then, Gone):
                then = replace(then, why=f"{then.why}; {_LEFTOVER.format(unknown)}")
        if not self._process.was_stopped:
            await wake(self._process.pid)
        if then is not None:
            self._feed(events.Described(then))

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _let_run_later(pid: int, acquired: Acquired | Failure) -> Acquired | Failure:
    """Undo the SIGSTOP of :meth:`GdbDebugger.abandon`, once GDB has the process or cannot have it.

    Without SIGCONT the kernel would stop the process again when GDB detaches.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGCONT)
    if isinstance(acquired, Failure):
        return acquired
    notes = tuple(note for note in acquired.notes if note != WAS_STOPPED)
    return replace(acquired, was_stopped=False, notes=notes)
