"""One rank under one GDB: attached to, driven, and detached from unharmed.

The states are those of :class:`~pgdb.backend.rank.machine.RankMachine`, whose actions an
:class:`~pgdb.backend.gdb.executor.Executor` carries out. Operations are carried out one after the
other, except an interrupt, which must reach a rank whose GDB is busy. The most important invariant:
the rank ends up running free with no breakpoint left in it, unless it was to be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable

from msgspec.structs import replace

from pgdb.backend.care import liveness
from pgdb.backend.care.gdb_interrupt import IGNORES, in_words
from pgdb.backend.care.pausing import Pauser
from pgdb.backend.care.sigtrap_guard import SigtrapGuard
from pgdb.backend.gdb import decode
from pgdb.backend.gdb.attach import Acquired, Attacher, Localise, as_they_are, let_run_later
from pgdb.backend.gdb.command_kinds import (
    computes,
    prints_at_stops,
    prints_unasked,
    prints_values,
)
from pgdb.backend.gdb.command_limits import PRINTING_SHARE, TOOK_TOO_LONG
from pgdb.backend.gdb.detaching import Detacher
from pgdb.backend.gdb.executor import Executor
from pgdb.backend.gdb.gpu_turns import GpuTurns
from pgdb.backend.gdb.input_watch import LOST
from pgdb.backend.gdb.interrupting import Interrupter
from pgdb.backend.gdb.operations import Operations
from pgdb.backend.gdb.python_stacks import NO_PYTHON
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.rank_variables import define
from pgdb.backend.gdb.selected_thread import is_refused
from pgdb.backend.gdb.stop_words import without_announcement
from pgdb.backend.gdb.unknown_bounds import with_way_out
from pgdb.backend.rank import events
from pgdb.backend.rank.machine import RankMachine
from pgdb.backend.rank.protocol import EVERYTHING, HasEndedError, NeedsStopError, State
from pgdb.backend.rank.states import Controlled, Live
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.overlay.messages import (
    AnyOperation,
    Backtrace,
    Console,
    Detach,
    Kill,
    ListVariables,
    Resume,
    Script,
)
from pgdb.patterns import pattern
from pgdb.records import Done, Event, Exit, Failure, Record, Running, Text

LOG = logging.getLogger(__name__)

_KILL_TIMEOUT_S = 5.0
_COMPUTING_SHARE = 0.9
"""Share of a command's time after which GDB is interrupted if it still carries out code; the rest
is for its answer."""
_COMPUTED_TOO_LONG = "interrupted at the end of the command's time (set timeout): {}"
_DETACHED_BY_COMMAND = "a command has made GDB detach from it"
_THREAD_RUNS = "Selected thread is running."
_NO_REGISTERS = "Couldn't get registers: No such process"
_NO_REGISTERS_AT_ALL = "No registers."
_NO_FRAME = pattern(
    r"No (?:symbol \"[^\"]*\" in current context\.|(?:stack|frame selected|selected frame"
    r"|frame is currently selected)\.\Z)"
)
"""Errors that have another reason in a process that runs: it has no frames to look at."""
_WITHOUT_FRAMES: dict[type[AnyOperation], str] = {
    Backtrace: "No stack.",
    ListVariables: "No frame selected.",
}
"""GDB's words where there is no process; GDB/MI says "No registers." for all of them."""
_STOPPED_AGAIN = "stopped again, by the signal from before"
_OVER: dict[State, str] = {
    "exited": "The program has ended on this rank.",
    "detached": "PGDB is detached from this rank.",
    "gone": "The debugger of this rank is gone; the rank runs on free.",
}


class GdbDebugger:
    """The debugger of one rank; lives on the aggregator's event loop."""

    capabilities = EVERYTHING

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
        turns: GpuTurns | None = None,
    ) -> None:
        self.rank = rank
        self._turns = turns or GpuTurns()
        self.machine = RankMachine(rank)
        self._executor = Executor(self.machine, notify=notify, stop_printing=self._stop_printing)
        self._process, self._gdb = self._executor.process, self._executor.gdb
        self._gdb_interrupt = self._executor.gdb_interrupt
        self._guard = SigtrapGuard(self._gdb) if is_guarded else None
        self._interrupter = Interrupter(self._executor)
        self._detacher = Detacher(self._executor, self._interrupter, self._guard)
        self._operations = Operations(
            self._gdb,
            self._executor.breakpoints,
            self._executor.stacks,
            adopt_run=lambda run: self._executor.feed(events.RunAdopted(run)),
            show=self._executor.on_output,
            rank=rank,
        )
        self._executor.stops.display_text = self._operations.display_text
        self._attacher = Attacher(
            self._gdb,
            expect_stop=self._executor.expect_first_stop,
            run=self._executor.run_internally,
            notify=self._executor.notify,
            program=program,
            localise=localise,
            gdb_factory=gdb_factory,
            pauser=pauser or Pauser(),
        )
        self._lock = asyncio.Lock()
        # Time at which the current operation is overdue, on the loop's clock.
        self._due_s: float | None = None
        self._given_up = ""  # why GDB was interrupted in the current operation

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
        self,
        operation: AnyOperation,
        request_id: int,
        timeout_s: float | None = None,
        *,
        of_ended: bool = False,
    ) -> Record:
        """Carry out one operation and return its answer; it is overdue after *timeout_s*.

        :param of_ended: GDB answers without a process if the rank has ended.
        :raises NeedsStopError: if the operation needs a stopped rank and the rank runs.
        :raises HasEndedError: if the operation is *of_ended* ranks and GDB is gone.
        """
        if operation.is_urgent:
            if isinstance(operation, Kill):
                return await self._detacher.kill(keeps_debugger=operation.keeps_debugger)
            return await self._interrupter.interrupt()
        if self._gdb_interrupt.is_ignored:
            return Failure(message=IGNORES, has_no_debugger=True)
        if self._gdb.input.is_lost:
            return Failure(message=LOST, has_no_debugger=True)
        earlier = self._interrupter.requests
        async with self._lock:
            self._interrupter.begin(earlier)
            if (state := self.machine.word) == "exited" and of_ended:
                if not self._gdb.is_alive:
                    raise HasEndedError
            elif state in _OVER:
                return Failure(message=_OVER[state])
            limit = None
            if timeout_s is not None:
                self._due_s = asyncio.get_running_loop().time() + timeout_s
                if operation.can_last:
                    limit = self._limit(operation, timeout_s)
            self._given_up = ""
            # "continue 2" sets an ignore count that its own run uses up, and its hits delete
            # temporary breakpoints: the user has asked for neither change.
            self._executor.breakpoints.is_asked = not operation.sets_running
            try:
                record = await self._perform(operation, request_id)
                return self._in_words(record) if isinstance(record, Failure) else record
            except GdbError as error:
                if self.state == "exited" and of_ended:
                    raise HasEndedError from None
                if self.state == "exited":
                    return Failure(message=_OVER[self.state])
                return Failure(message=f"{'' if self._gdb.is_alive else 'no debugger: '}{error}")
            finally:
                self._due_s = None
                if limit is not None:
                    limit.cancel()
                self._find_whether_free()
                self._executor.report_breakpoints()
                self._executor.breakpoints.is_asked = False

    def _in_words(self, failure: Failure) -> Failure:
        """Return an error with the reason why GDB was interrupted, if it was."""
        if self._given_up:
            return replace(failure, message=self._given_up.format(failure.message))
        if failure.message == NO_PYTHON and self.state == "exited":
            return replace(failure, message=_OVER["exited"])
        return in_words(failure)

    def _limit(self, operation: AnyOperation, timeout_s: float) -> asyncio.TimerHandle | None:
        """Set the time after which GDB is interrupted in an operation, None without a limit."""
        loop = asyncio.get_running_loop()
        if prints_values(operation):
            return loop.call_later(PRINTING_SHARE * timeout_s, self._stop_printing)
        if computes(operation):
            return loop.call_later(_COMPUTING_SHARE * timeout_s, self._stop_computing)
        return None

    def _stop_printing(self) -> None:
        """Interrupt a GDB that is still printing; a function that it has called may take longer."""
        if procfs.is_at_rest(self._living_pid):
            self._given_up = TOOK_TOO_LONG
            self._gdb_interrupt.send(self._living_pid)

    def _stop_computing(self) -> None:
        """Interrupt a GDB that still carries out code of the user's, unless that runs the rank."""
        is_free = self.machine.is_at_rest or self.state == "exited"
        if is_free and self._gdb_interrupt.send(self._living_pid):
            self._given_up = _COMPUTED_TOO_LONG

    @property
    def _living_pid(self) -> int:
        """Process id of the rank, 0 once it has ended: another process may have its number."""
        return 0 if self.machine.word == "exited" else self._process.pid

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
        self._executor.feed(events.AttachBegun(is_retried))
        status = procfs.read_stat(pid)
        self._process.was_stopped = status is not None and status.state == "T"
        acquired: Acquired | Failure
        # A GDB may hang over a process that is killed while GDB attaches to it.
        self._executor.watch(pid)
        try:
            acquired = await self._attacher.attach(pid)
            if is_held_back:
                acquired = let_run_later(pid, acquired)
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
        self._executor.feed(events.AttachBegun())
        self._process.pid = pid
        acquired = await self._attacher.acquire_held(pid, runs_on=runs_on)
        return await self._first_stop(acquired, request_id)

    def note_end(self) -> Exit:
        """Record that the program has ended, which its GDB could not report; return the end."""
        known, run = self.machine.last_event, self.machine.run
        if self.state == "exited" and isinstance(known, Exit):
            return known
        end = self._process.how(run) or Exit(run=run)
        self._executor.feed(events.EndLearned(end))
        return end

    async def has_debugger(self, timeout_s: float) -> bool:
        """Return whether the rank is under a GDB that answers within *timeout_s*.

        A GDB that computes is waited for, one that a signal has stopped is woken.
        """
        if self.state not in ("stopped", "running") or not self._gdb.is_alive:
            return False
        if self._gdb_interrupt.is_ignored or self._gdb.input.is_lost:
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
        self._executor.feed(events.EndBegun())
        if self._gdb.is_alive and self.state != "detached":
            LOG.warning("rank %d: GDB %d hangs and is killed", self.rank, self._gdb.pid)
            self._gdb.kill()
        if not await self._gdb.close(_KILL_TIMEOUT_S):
            # As where a file system hangs.
            self._executor.feed(events.EndFailed())
            raise GdbError(f"GDB {self._gdb.pid} cannot be ended")
        await self._record_end()
        self._executor.feed(events.Abandoned())
        return is_held_back

    def _hold_back(self) -> bool:
        """Send SIGSTOP to a rank that stands still; return whether it will obey.

        The signal stays pending until the end of GDB lets the rank run.
        """
        pid = self._process.pid
        is_given_up = self._gdb_interrupt.is_ignored or self._gdb.input.is_lost
        if not is_given_up or not procfs.is_at_rest(pid):
            return False
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            return False
        self._process.was_stopped = True
        return True

    async def detach(self, timeout_s: float) -> None:
        """Detach if attached, and end the GDB; the rank runs on."""
        self._executor.feed(events.EndBegun())
        if self._gdb.input.is_lost:
            await self.abandon()
            return
        # Half of the time for a GDB that computes, the other half for it to give that up.
        is_there = await liveness.answers(self._gdb, timeout_s / 2)
        if not (is_there or await self._gdb_interrupt.send_until_it_answers(self._process.pid)):
            await self.abandon()
            return
        async with self._lock:
            if self.state in ("stopped", "running"):
                with contextlib.suppress(GdbError, TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await self._detacher.detach()
        if await self._gdb.close(timeout_s):
            await self._record_end()
        elif self._process.pid and not procfs.is_alive(self._process.pid):
            # Its job ended it while GDB detached, which leaves GDB 13.1 spinning (Detacher.kill).
            self._gdb.kill()
        else:
            await self.abandon()

    async def _record_end(self) -> None:
        """Record that GDB has ended before its output has; wait until the rank is repaired."""
        if isinstance(self.machine.state, Live):
            # GDB was killed before it could detach.
            self._executor.on_end("its GDB was ended")
        await self._executor.settle()

    # -- operations ----------------------------------------------------------------------------

    async def _perform(self, operation: AnyOperation, request_id: int) -> Record:
        state = self.machine.word
        is_over = state == "exited"
        needs_stop = operation.needs_stopped_rank or operation.sets_running
        if needs_stop and not is_over and not operation.reads_kept_values:
            if state != "stopped":
                raise NeedsStopError
            if self._executor.selected_thread.may_have_ended:
                await self._executor.selected_thread.ensure()
        # Most requests only read, and each rank of a host carries them out in one process.
        if not operation.only_reads:
            if (answer := await self._begin_change(operation, request_id)) is not None:
                return answer
        stops = self.machine.stops
        record = await self._operations.perform(operation, request_id, self._living_pid)
        if not isinstance(record, Failure):
            return record
        if self.machine.stops != stops:
            await self._executor.report_complete()
            record = without_announcement(record)
        if is_over and record.message == _NO_REGISTERS_AT_ALL:
            return Failure(message=_WITHOUT_FRAMES.get(type(operation), record.message))
        if self.state == "running":
            # The kernel's answer about a process that runs; GDB says it for "gcore" and others.
            if record.message.startswith(_NO_REGISTERS) or record.message == _THREAD_RUNS:
                raise NeedsStopError
            # GDB has no frame of a process that runs, and looks for names without one.
            if isinstance(operation, Console) and _NO_FRAME.match(record.message):
                raise NeedsStopError
        return record

    async def _begin_change(self, operation: AnyOperation, request_id: int) -> Record | None:
        """Prepare for a change; return the answer of one that runs or detaches the rank."""
        if prints_unasked(operation):
            self._gdb.lent.is_shown_unasked = True
        if prints_at_stops(operation):
            self._executor.stops.values.is_shown_unasked = True
        if isinstance(operation, Resume | Console | Script):
            self._executor.breakpoints.barriers.pass_on()
        if isinstance(operation, Resume) or (isinstance(operation, Console) and operation.run):
            self._executor.take_run(operation.command, operation.passed)
            command = await self._executor.python_steps.command_for(operation, self._living_pid)
            if isinstance(command, Failure):
                return command
            return await self._resume(command, request_id, operation.command.partition(" ")[0])
        if isinstance(operation, Detach):
            await self._detacher.detach()
            is_stopped = self._process.was_stopped and self.state == "detached"
            return Text(text=_STOPPED_AGAIN) if is_stopped else Done()
        if isinstance(operation, Console):
            self._executor.stops.take_command(operation.command)
        return None

    async def _resume(self, command: str, request_id: int, word: str) -> Record:
        device, pid = self._executor.stops.gpu.device, self._process.pid
        self._executor.turn = await self._turns.take(device, pid, word)
        if self.state == "exited":
            self._executor.turn.end()
            # GDB says that the program is not being run.
            result = await self._gdb.send(command)
            return failure(result) if result.kind == "error" else Text(text=result.text)
        before = self.machine.run
        self._executor.text.refresh(self._process.pid, self._executor.breakpoints.places)
        await self._executor.breakpoints.find_hidden(self._process.pid)
        await self._executor.stops.prepare(command)
        await self._interrupter.take_out()
        self._executor.feed(events.RunSent(request_id))
        self._interrupter.interrupt_new_run()
        result = await self._gdb.send(command)
        if is_refused(result.message) and await self._executor.selected_thread.select():
            result = await self._gdb.send(command)
        if result.kind == "running":
            return Running(run=request_id)
        self._executor.turn.end()
        self._executor.stops.restore()
        self._executor.feed(events.RunRefused(request_id, before))
        if result.kind == "error":
            return await with_way_out(failure(result), self._executor.stacks, pid)
        return Text(text=result.text) if result.text else Done()

    def _find_whether_free(self) -> None:
        """Find out whether a command (``thread apply all detach``) has detached the rank."""
        state = self.machine.state
        if isinstance(state, Controlled) and state.has_lost_process:
            is_free = self._process.is_free
            found = events.FoundFree(_DETACHED_BY_COMMAND) if is_free else events.FoundTraced()
            self._executor.feed(found)

    # -- attaching -----------------------------------------------------------------------------

    async def _first_stop(self, acquired: Acquired | Failure, request_id: int) -> Record:
        if isinstance(acquired, Failure):
            self._executor.feed(events.AttachRefused(not procfs.is_alive(self._process.pid)))
            return acquired
        self._process.was_stopped = acquired.was_stopped
        self._executor.stacks.know(acquired.pid, acquired.mapped)
        define(self._gdb, self.rank, acquired.pid)
        self._executor.watch(acquired.pid)
        if (end := decode.exit_of(acquired.payload, run=request_id)) is not None:
            self._executor.feed(events.EndLearned(end))
            return end
        notes = [*acquired.notes]
        text, mapped = self._executor.text, acquired.mapped
        if (not mapped or text.must_keep(acquired.pid, mapped[0])) and (
            unheld := await asyncio.to_thread(text.keep, acquired.pid)
        ):
            notes.append(
                f"if its GDB is killed, breakpoints in {', '.join(unheld)} stay and end the rank "
                "by SIGTRAP: their text cannot be read"
            )
        if self._guard is not None and (why := await self._guard.install(acquired.pid)):
            notes.append(f"is not guarded against the end of its GDB: {why}")
        stop = await self._executor.stops.first(acquired, request_id, notes)
        self._executor.feed(events.Attached(stop))
        self._executor.report_breakpoints()
        self._executor.breakpoints.is_asked = False
        return stop
