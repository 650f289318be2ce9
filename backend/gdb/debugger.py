"""One rank under one GDB: how it is taken hold of, driven, and let go unharmed.

States: ``new`` -> ``stopped`` <-> ``running`` -> ``exited`` | ``detached`` | ``gone``. Commands
are carried out one after the other, except an interrupt, which must get through to a rank whose
GDB is busy. The invariant that matters most: whatever happens here, the rank ends up running
free with no breakpoint left in it, unless it was to be killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.backend.care import liveness
from pgdb.backend.care.breakpoint_repair import repair, wake
from pgdb.backend.care.gdb_interrupt import GdbInterrupt
from pgdb.backend.care.pausing import Pauser
from pgdb.backend.care.sigtrap_guard import SigtrapGuard
from pgdb.backend.gdb import blocks, decode, queries, reduction
from pgdb.backend.gdb.attach import Localise, Taken, Taking, as_they_are
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.process import END_WHEN_FREE
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.settings import IGNORE_INTERRUPT, INTERRUPT
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.rank.protocol import EVERYTHING, NeedsStopError, State
from pgdb.backend.sbd.rank_files import RankGdb
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.overlay.messages import (
    Acquire,
    AnyOperation,
    Backtrace,
    BreakpointCommands,
    ChangeBreakpoints,
    Console,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Kill,
    ListBreakpoints,
    ListVariables,
    ReadBlock,
    Reattach,
    Recall,
    Reduce,
    Resume,
    Script,
    SelectFrame,
)
from pgdb.records import (
    Done,
    Event,
    Exit,
    Failure,
    Frame,
    Gone,
    Output,
    Record,
    Running,
    Stop,
    Text,
)

LOG = logging.getLogger(__name__)

_STOP_AT_INTERRUPT = f"handle {INTERRUPT.name} stop print nopass"

_STACK_FOR_STOP = 64
_OF_ATTACHING = ("0", "SIGSTOP", "SIGTRAP")


class GdbDebugger:
    """The debugger's side of one rank; lives on the aggregator's event loop."""

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
    ) -> None:
        self.rank = rank
        self.state: State = "new"
        self.pid = 0
        self.run = 0
        """Number of the request that set the rank running last."""
        self._last_event: Event | None = None
        self._notify_aggregator = notify
        self._gdb = RankGdb(self)
        self._lock = asyncio.Lock()
        self._breakpoints = Breakpoints(self._gdb)
        self._stacks = Stacks(self._gdb)
        self._gdb_interrupt = GdbInterrupt(self._gdb)
        self._guard = SigtrapGuard(self._gdb) if is_guarded else None
        self._displays = False
        self._group_has_ended = False  # of processes that GDB has, as it says
        self._stop_count = 0
        self._interrupting = False
        self._resuming = False
        self._interrupt_when_running = False
        self._awaited_stop: asyncio.Future[dict[str, Any]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False
        self._letting_go = False
        # GDB has been told to end as soon as the rank, stopped and without breakpoints, is free.
        self._may_end = False
        # When what is being carried out is to be done, on the loop's clock.
        self._due_s: float | None = None
        self._start_time_ticks: int | None = None
        self._was_stopped = False  # by a signal, before it was attached to
        self._is_tried_again = False  # by another GDB, if this one ends as it attaches
        self._unwatch: Callable[[], None] = lambda: None
        self._process: liveness.ProcessEnd | None = None
        self._over = asyncio.Event()  # set once nothing more is to come of the rank
        self._taking = Taking(
            self._gdb,
            await_stop=self._await_stop,
            run=self._internal_run,
            tell=self._tell,
            program=program,
            localise=localise,
            gdb_factory=gdb_factory,
            pauser=pauser or Pauser(),
        )

    # -- what the leaf asks for ------------------------------------------------------------

    async def perform(
        self, operation: AnyOperation, request_id: int, timeout_s: float | None = None
    ) -> Record:
        """Carry out one operation; one that takes longer than *timeout_s* is overdue.

        :raises NeedsStopError: if it needs a stopped rank and this one runs.
        """
        if isinstance(operation, Interrupt):
            return await self._interrupt()
        if isinstance(operation, Kill):
            return self._kill()
        async with self._lock:
            if self.state in _ENDED:
                return Failure(message=_ENDED[self.state])
            if timeout_s is not None:
                self._due_s = asyncio.get_running_loop().time() + timeout_s
            try:
                return await self._perform(operation, request_id)
            except GdbError as error:
                if self.state == "exited":
                    return Failure(message=_ENDED[self.state])
                return Failure(message=f"{'' if self._gdb.is_alive else 'no debugger: '}{error}")
            finally:
                self._due_s = None
                if self._group_has_ended:
                    self._see_whether_it_is_free()

    def _see_whether_it_is_free(self) -> None:
        """Look whether a command (``thread apply all detach``) has let the rank go."""
        self._group_has_ended = False
        status = procfs.read_stat(self.pid)
        is_ours = self.state in ("stopped", "running") and not (self._ending or self._letting_go)
        if is_ours and status is not None and not status.tracer_pid and not status.has_ended:
            self._take_free()
            self._tell(Gone(why="a command has had GDB let go of it"))

    async def is_silent(self) -> bool:
        """Return whether nothing can be asked: something else is overdue, and GDB hangs.

        That takes a moment to find out.
        """
        due_s = self._due_s
        if due_s is None or asyncio.get_running_loop().time() < due_s:
            return False
        before = procfs.work_done(self.gdb_pid)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(liveness.QUIET_S), self._lock:
                return False
        return self._due_s == due_s and procfs.work_done(self.gdb_pid) == before

    async def attach(self, pid: int, request_id: int, *, is_retried: bool = False) -> Record:
        """Attach to the running rank *pid* and say where it is.

        If its GDB dies meanwhile that is told as a loss, but for one that *is_retried*.

        :raises GdbError: if the GDB cannot be had, refuses, or ends.
        """
        self.pid = pid
        self._is_tried_again = is_retried
        status = procfs.read_stat(pid)
        self._was_stopped = status is not None and status.state == "T"
        # A GDB may hang over a process that is killed as it is attached to.
        self._watch()
        try:
            record = await self._first_stop(await self._taking.attach(pid), request_id)
        except GdbError:
            if self.state != "exited" or not isinstance(self._last_event, Exit):
                raise
            return self._last_event
        self._is_tried_again = False
        return record

    async def acquire_held(self, pid: int, request_id: int, *, runs_on: bool = True) -> Record:
        """Attach to a held rank, let it execute its program and stop that in ``main``.

        One that *runs_on* goes on without a debugger if that fails.
        """
        self.pid = pid
        taken = await self._taking.take_held(pid, goes_on=runs_on)
        return await self._first_stop(taken, request_id)

    @property
    def program_pid(self) -> int | None:
        """Process id of the rank's program, None if it has ended; 0 if it was never taken hold of.

        Another process may have its number by now.
        """
        if self._start_time_ticks is None:
            return 0
        now = procfs.read_stat(self.pid)
        is_it = now is not None and now.start_time_ticks == self._start_time_ticks
        return self.pid if is_it and now is not None and not now.has_ended else None

    def note_end(self) -> Exit:
        """Take that the program has ended, which its GDB could not tell; return how, if known."""
        if self.state == "exited" and isinstance(self._last_event, Exit):
            return self._last_event
        end = self._process.how(self.run) if self._process is not None else None
        return self._ended(end or Exit(run=self.run))

    async def has_debugger(self, timeout_s: float) -> bool:
        """Return whether the rank is under a GDB that answers, within a time.

        One that computes is waited for, one that was stopped by a signal is woken.
        """
        if self.state not in ("stopped", "running") or not self._gdb.is_alive:
            return False
        is_there = await liveness.answers(self._gdb, timeout_s)
        return is_there or await self._gdb_interrupt.send_until_it_answers(self.pid)

    async def abandon(self) -> None:
        """End the GDB: by force if it has the rank, from which then is taken out what it leaves.

        It is for one that does not answer.

        :raises GdbError: if that cannot be ended.
        """
        self._ending = True
        self._unwatch()
        self._forget_process()
        self._over.set()
        if self._gdb.is_alive and self.state != "detached":
            LOG.warning("rank %d: GDB %d hangs and is killed", self.rank, self._gdb.pid)
            self._gdb.kill()
        if not await self._gdb.close(_KILL_TIMEOUT_S):
            # As where a file system hangs. Once it ends, the rank is mended as after any other end.
            self._ending = False
            raise GdbError(f"GDB {self._gdb.pid} cannot be ended")
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.pid and self.state in ("stopped", "running"):
            await self._mend()
        if self.state != "exited":
            self.state = "gone"

    async def detach(self, timeout_s: float) -> None:
        """Detach if need be and end the GDB; the rank runs on."""
        self._ending = True
        self._unwatch()
        self._forget_process()
        self._over.set()
        # Half of the time for one that computes, the other for it to give that up.
        is_there = await liveness.answers(self._gdb, timeout_s / 2)
        if not (is_there or await self._gdb_interrupt.send_until_it_answers(self.pid)):
            await self.abandon()
            return
        async with self._lock:
            if self.state in ("stopped", "running"):
                with contextlib.suppress(GdbError, TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await self._detach()
        if await self._gdb.close(timeout_s):
            if self.pid and self.state in ("stopped", "running"):
                # It was killed before it could detach.
                await self._mend()
            return
        if self.pid and not procfs.is_alive(self.pid):
            # Ended by its job while GDB let it go, which leaves GDB 13.1 spinning (see _kill).
            self._gdb.kill()
        else:
            await self.abandon()

    @property
    def current_event(self) -> Event | None:
        """What the rank is doing, as an event, None if it has not been taken hold of, or let go."""
        if self.state == "running":
            return Running(run=self.run)
        return self._last_event if self.state != "detached" else None

    @property
    def gdb_pid(self) -> int:
        """Process id of this rank's GDB."""
        return self._gdb.pid

    # -- operations ------------------------------------------------------------------------

    async def _perform(self, operation: AnyOperation, request_id: int) -> Record:
        if operation.needs_stopped_rank or operation.sets_running:
            self._need_stop()
        match operation:
            case Evaluate(expression=expression, format=letters):
                return await queries.evaluate(self._gdb, expression, letters)
            case Backtrace():
                return await self._stacks.backtrace(self.pid, operation)
            case SelectFrame(command=command):
                return await queries.select_frame(self._gdb, command)
            case ListVariables(which=which):
                return await queries.variables(self._gdb, which)
            case Reduce(expression=expression, limit_bytes=limit_bytes):
                return await reduction.read_numbers(self._gdb, expression, limit_bytes, self.pid)
            case ReadBlock():
                return await blocks.read_block(self._gdb, operation, self.pid)
            case Resume(command=command, argument=argument):
                return await self._resume(_RESUME.get(command, ""), command, argument, request_id)
            case Console(command=command, run=True):
                return await self._resume("", command, "", request_id)
            case Console(command=command):
                if command.startswith("display "):
                    self._displays = True
                return self._text(await self._gdb.send(console(command)), request_id)
            case Script(lines=lines):
                return await self._script(lines, request_id)
            case InsertBreakpoint(command=command, first_number=first):
                return await self._breakpoints.insert(command, first)
            case ChangeBreakpoints(command=command, numbers=numbers, argument=argument):
                return await self._breakpoints.change(command, numbers, argument)
            case BreakpointCommands(numbers=numbers, commands=commands):
                return await self._breakpoints.attach_commands(numbers, commands)
            case ListBreakpoints():
                return await self._breakpoints.list()
            case Detach():
                await self._detach()
                is_stopped = self._was_stopped and self.state == "detached"
                return Text(text=_STOPPED_AGAIN) if is_stopped else Done()
            case Acquire() | Reattach() | Interrupt() | Kill() | Recall():
                raise AssertionError(f"{operation} is not carried out here")

    async def _resume(self, mi: str, word: str, argument: str, request_id: int) -> Record:
        command = mi
        if argument or not mi:
            # In the foreground GDB would read nothing until the rank has stopped: neither what
            # interrupts it nor the end of its input.
            line = f"{word} {argument}".strip().removesuffix("&").rstrip()
            command = console(f"{line} &")
        before, self.run = self.run, request_id
        self._resuming = True
        result = await self._gdb.send(command)
        if result.kind == "running":
            return Running(run=request_id)
        self.run, self._resuming, self._interrupt_when_running = before, False, False
        if result.kind == "error":
            return failure(result)
        return Text(text=result.text) if result.text else Done()

    async def _script(self, lines: Sequence[str], request_id: int) -> Record:
        # Sent line by line, a "commands" or "define" would swallow the MI commands behind it.
        # No other file can come in the place of one that has no name.
        descriptor = os.memfd_create("pgdb-script", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w") as file:
            name = f"/proc/{os.getpid()}/fd/{descriptor}"
            file.write("\n".join(lines) + "\n")
            file.flush()
            result = await self._gdb.send(console(f"source {name}"))
            if result.kind == "error":
                message = re.sub(rf"{re.escape(name)}:(\d+): ", r"line \1: ", result.message)
                return Failure(message=message.replace("Error in sourced command file:\n", ""))
        return self._text(result, request_id)

    async def _interrupt(self) -> Record:
        if self.state == "stopped" and not (self._resuming or self._letting_go):
            # GDB may have called a function of the program's, or compute. Commands of a breakpoint
            # may be about to set the rank running, so that what it does now says little.
            if not await self._gdb_interrupt.send_if_silent(self.pid):
                return Failure(
                    message="GDB waits for a function that the rank is in, where all threads block "
                    "SIGINT; it cannot be interrupted"
                )
        if self.state != "running" and not self._resuming:
            return Done()
        if await self._blocks_interrupts():
            return Failure(message=_BLOCKED)
        if self.state != "running" and not self._resuming:
            return Done()
        if self.state != "running":
            # It is about to run: GDB has the command and has not said so yet.
            self._interrupt_when_running = True
            return Done()
        try:
            await self._stop_it()
        except GdbError as error:
            return Failure(message=f"no debugger: {error}")
        return Done()

    async def _blocks_interrupts(self) -> bool:
        """Return whether the rank blocks the signal for good.

        The C library blocks all signals while it starts a thread or a process.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _BLOCKED_FOR_S
        while procfs.blocked_in_all_threads(self.pid, INTERRUPT):
            if loop.time() > end_s:
                return True
            # Nothing tells of the end of that.
            await asyncio.sleep(_BLOCKED_LOOK_S)
        return False

    async def _stop_it(self) -> None:
        # From here on GDB stops at the signal; any other stop takes that back at once, so that
        # a signal that comes too late is swallowed instead of stopping a later run.
        self._interrupting = True
        told = self._gdb.send(console(_STOP_AT_INTERRUPT))
        result = await self._gdb_interrupt.wait_for(told, self.pid)
        if result.kind == "error":
            # It was this command that GDB has given up: it could not be seen to do anything else.
            self._interrupting = self.state == "running"
            await self._gdb.send(console(_STOP_AT_INTERRUPT))
        if self.state == "running":
            with contextlib.suppress(OSError):
                os.kill(self.pid, INTERRUPT)

    async def _stop_quietly(self) -> None:
        with contextlib.suppress(GdbError):
            await self._stop_it()

    def _kill(self) -> Record:
        if self.state in ("exited", "detached", "gone", "new"):
            return Done()
        self._ending = True
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except OSError as error:
            self._ending = False
            return Failure(message=f"cannot kill process {self.pid}: {error.strerror}")
        # A GDB that has the rank stopped would not notice.
        self._tell(self._ended(Exit(signal="SIGKILL", run=self.run)))
        # Not by the end of its input: GDB 13.1 then spins for ever if it has not noticed the end of
        # a rank that it was stepping over a breakpoint, as it does for every shared object that
        # MPI_Init loads (3 of 11 sessions closed just after a continue in main). There is no rank
        # left that it could leave a breakpoint in.
        self._gdb.kill()
        return Done()

    async def _detach(self) -> None:
        self._letting_go = True
        try:
            await self._let_free()
        except TimeoutError:
            raise GdbError(f"it has not stopped within {_INTERRUPT_TIMEOUT_S:g} s") from None
        finally:
            self._letting_go = False

    async def _let_free(self) -> None:
        if self.state == "running":
            if await self._blocks_interrupts():
                raise GdbError(_BLOCKED)
            stopped = self._await_stop()
            await self._stop_it()
            async with asyncio.timeout(_INTERRUPT_TIMEOUT_S):
                payload = await stopped
            if (end := decode.exit_of(payload, run=self.run)) is not None:
                self._ended(end)
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
        self._may_end = True
        _, detached = self._gdb.ask_together(console(END_WHEN_FREE), "-target-detach")
        try:
            result = await detached
        except GdbError:
            if not self._is_detached:
                raise
            return
        if result.kind == "error":
            self._may_end = False
            raise GdbError(result.message)
        self._take_free()

    @property
    def _is_detached(self) -> bool:
        return self.state == "detached"

    def _take_free(self) -> None:
        """Take that the rank has no debugger any longer, as it is to be."""
        self.state = "detached"
        self._unwatch()
        self._forget_process()
        self._over.set()
        self._breakpoints.forget()

    async def _drain_interrupt(self) -> None:
        """Take a pending interrupt out of a rank that would notice it.

        It was sent while the rank stopped for another reason. By default the signal does
        nothing; a handler of the program would be called for no reason of its own.
        """
        pending = procfs.pending_signals(self.pid) or ()
        is_caught = (
            INTERRUPT in pending
            and INTERRUPT in (procfs.caught_signals(self.pid) or ())
            # One that is blocked does not come, however long the rank runs for it.
            and not procfs.blocked_in_all_threads(self.pid, INTERRUPT)
        )
        # A call can have returned between GDB's SIGINT and the rank's taking it.
        is_left = self._gdb_interrupt.has_happened and signal.SIGINT in pending
        if not is_caught and not is_left:
            return
        await self._gdb.send(console(_STOP_AT_INTERRUPT))
        self._interrupting = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT_S):
                payload = await self._internal_run("-exec-continue")
                if (end := decode.exit_of(payload, run=self.run)) is not None:
                    self._ended(end)

    # -- taking hold -----------------------------------------------------------------------

    async def _first_stop(self, taken: Taken | Failure, request_id: int) -> Record:
        if isinstance(taken, Failure):
            self._unwatch()
            self._forget_process()
            if not procfs.is_alive(self.pid):
                self._over.set()
                self.state = "exited"
                # It could hold the remains, which the launcher then waits for.
                self._gdb.kill()
            return taken
        self.pid, reason = taken.pid, taken.reason
        self._was_stopped = taken.was_stopped
        self._stacks.know(taken.pid, taken.mapped)
        self._watch()
        if (end := decode.exit_of(taken.payload, run=request_id)) is not None:
            return self._ended(end)
        self.state = "stopped"
        notes = [*taken.notes]
        if self._guard is not None and (why := await self._guard.install(self.pid)):
            notes.append(f"is not guarded against the end of its GDB: {why}")
        stop = decode.stop(taken.payload, run=request_id, numbers={})
        # A rank can be stopped by a signal of its own on the way; SIGTRAP is how the kernel tells
        # a debugger that has just attached that the rank executes another program.
        by_signal = stop.reason == "signal-received" and stop.signal not in _OF_ATTACHING
        frames = await self._stacks.folded(self.pid, _STACK_FOR_STOP)
        frame, inside = decode.place(frames)
        await self._select(frame)
        if reason == "entry":
            frame, inside = (frames[0] if frames else None), ""
        record = Stop(
            reason="signal-received" if by_signal else reason,
            run=request_id,
            signal=stop.signal if by_signal else "",
            meaning=stop.meaning if by_signal else "",
            frame=frame or stop.frame,
            inside=inside,
            detail="; ".join(notes),
            program=taken.program,
        )
        self._last_event = record
        return record

    async def _internal_run(self, command: str) -> dict[str, Any]:
        """Let the rank run to a stop that is ours alone."""
        stopped = self._await_stop()
        self._resuming = True
        result = await self._gdb.send(command)
        if result.kind == "error":
            self._awaited_stop, self._resuming, self._interrupt_when_running = None, False, False
            raise GdbError(result.message)
        return await stopped

    def _await_stop(self) -> asyncio.Future[dict[str, Any]]:
        self._awaited_stop = asyncio.get_running_loop().create_future()
        return self._awaited_stop

    # -- what GDB tells --------------------------------------------------------------------

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Take a ``*stopped``."""
        if self.state in ("exited", "detached"):
            return
        was_running, self.state = self.state == "running", "stopped"
        self._stop_count += 1
        interrupting, self._interrupting = self._interrupting, False
        if interrupting and self._gdb.is_alive:
            self._gdb.send(console(IGNORE_INTERRUPT))
        awaited, self._awaited_stop = self._awaited_stop, None
        if awaited is not None and not awaited.done():
            awaited.set_result(payload)
            return
        if self._ending:
            return
        if (end := decode.exit_of(payload, run=self.run)) is not None:
            self._ended(end)
            self._tell(end)
            return
        stop = self._stop_of(payload)
        if self._gdb_interrupt.is_awaited and stop.signal == signal.SIGINT.name:
            stop = replace(stop, reason="interrupted", signal="", meaning="")
            self._keep(self._notify_of_gdb_interrupt(stop, payload, was_running=was_running))
            return
        # The kernel may give the signal to any thread, one of the MPI's own for example; where the
        # program is, its first thread tells.
        is_elsewhere = stop.reason == "interrupted" and payload.get("thread-id", "1") != "1"
        if is_elsewhere or self._displays or self._tasks or not _has_source(stop.frame):
            # Looking around takes a moment; GDB answers in order, so stops are told in order too.
            self._keep(self._tell_stop(stop, is_elsewhere))
        else:
            self._tell(stop)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop_of(self, payload: dict[str, Any]) -> Stop:
        stop = decode.stop(payload, run=self.run, numbers=self._breakpoints.numbers)
        log = self._gdb.take_run_log()
        if (begin := log.find(_CONDITION_FAILED)) >= 0:
            why = self._breakpoints.job_numbers(log[begin:])
            stop = replace(stop, detail=f"{why}; {stop.detail}" if stop.detail else why)
        if not payload.get("reason") and (hit := self._breakpoints.last_hit):
            # A breakpoint whose commands begin with "silent" stops without a word.
            stop = replace(stop, reason="breakpoint-hit", breakpoint=hit, meaning="")
        if stop.reason == "signal-received" and stop.signal in (INTERRUPT.name, "0"):
            stop = replace(stop, reason="interrupted", signal="", meaning="")
        return stop

    async def _notify_of_gdb_interrupt(
        self, stop: Stop, payload: dict[str, Any], *, was_running: bool
    ) -> None:
        """Tell of a stop at our SIGINT, but for one in a function that GDB has gone back from."""
        count, thread = self._stop_count, payload.get("thread-id", "1")
        frame = payload.get("frame", {})
        with contextlib.suppress(GdbError):
            # Not the selected frame: a command of the user's own may have gone on with "up".
            now = await self._gdb.send(f"-stack-info-frame --thread {thread} --frame 0")
            is_there = decode.addresses([now.payload.get("frame", {})]) == decode.addresses([frame])
            # Out of a condition GDB goes back, and mostly stops at the breakpoint itself.
            if is_there or (was_running and self._stop_count == count):
                here = stop if is_there else replace(stop, frame=None)
                await self._tell_stop(here, is_elsewhere=thread != "1")

    async def _tell_stop(self, stop: Stop, is_elsewhere: bool) -> None:
        frame, inside = stop.frame, ""
        try:
            if is_elsewhere:
                await self._gdb.send("-thread-select 1")
                frame = None
            if not _has_source(frame):
                frame, inside = decode.place(await self._stacks.folded(self.pid, _STACK_FOR_STOP))
                await self._select(frame)
            if self._displays:
                shown = await self._gdb.send(console("display"))
            else:
                shown = None
        except GdbError:
            return
        self._tell(replace(stop, frame=frame, inside=inside))
        if shown is not None and shown.text.strip():
            self._tell(Output(text=shown.text.rstrip("\n")))

    def on_running(self) -> None:
        """Take a ``*running``."""
        unasked = self.state == "stopped" and not self._resuming
        self.state, self._resuming = "running", False
        if self._interrupt_when_running:
            self._interrupt_when_running = False
            self._keep(self._stop_quietly())
        if unasked:
            # Commands attached to a breakpoint went on.
            self._tell(Running(run=self.run))

    def on_run_failed(self, message: str) -> None:
        """Take that the rank does not run after all: a breakpoint cannot be put in, for one."""
        log = self._gdb.take_run_log().removeprefix("Warning: ")
        why = self._breakpoints.job_numbers(log or message)
        interrupting, self._interrupting = self._interrupting, False
        if interrupting and self._gdb.is_alive:
            self._gdb.send(console(IGNORE_INTERRUPT))
        awaited, self._awaited_stop = self._awaited_stop, None
        self._interrupt_when_running = False
        if self.state != "running":
            return
        self.state = "stopped"
        if awaited is not None and not awaited.done():
            awaited.set_exception(GdbError(why))
            awaited.exception()
        elif not self._ending:
            stop = Stop(reason="other", run=self.run, meaning=f"it cannot run: {why}")
            self._keep(self._tell_stop(stop, is_elsewhere=False))

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Take a ``=…``."""
        self._group_has_ended |= name == "thread-group-exited"
        self._breakpoints.on_notice(name, payload)
        self._stacks.on_notice(name)

    def on_output(self, text: str) -> None:
        """Take what GDB printed unasked: the output of breakpoint commands, and its own stops."""
        if self.state == "stopped" and not self._letting_go and text.strip():
            self._tell(Output(text=text.rstrip("\n")))

    def on_end(self, why: str) -> None:
        """Take that GDB has ended."""
        awaited, self._awaited_stop = self._awaited_stop, None
        if awaited is not None and not awaited.done():
            awaited.set_exception(GdbError(why))
            awaited.exception()
        self._unwatch()
        self._over.set()
        if self.state in ("exited", "detached"):
            return
        status = procfs.read_stat(self.pid) if self._may_end else None
        if status is not None and not status.tracer_pid:
            self._take_free()
            return
        if self._ending:
            return
        self.state = "gone"
        self._keep(self._after_gdb(why))

    async def _after_gdb(self, why: str) -> None:
        """Take care of a rank whose GDB has died, and tell."""
        LOG.warning("rank %d: %s", self.rank, why)
        if self.pid:
            await self._mend()
        if not self._is_tried_again:
            self._tell(Gone(why=why))

    async def _mend(self) -> None:
        """Take out what a GDB has left that was killed."""
        repaired = (await asyncio.to_thread(repair, self.pid)).restored
        LOG.warning("rank %d: %d breakpoints taken out", self.rank, repaired)
        if not self._was_stopped:
            await wake(self.pid)

    def _watch(self) -> None:
        """Begin to watch the rank's process."""
        status = procfs.read_stat(self.pid)
        self._start_time_ticks = status.start_time_ticks if status is not None else None
        self._unwatch()
        self._forget_process()
        process = self._process = liveness.ProcessEnd(self.pid)
        self._unwatch = liveness.watch_end_of_traced(
            self.pid, lambda: self._keep(self._process_ended(process))
        )

    def _forget_process(self) -> None:
        if self._process is not None:
            self._process.close()

    async def _process_ended(self, process: liveness.ProcessEnd) -> None:
        """Take that the process has ended, which GDB 13.1 does not notice of a stopped one."""
        end = process.how(self.run)
        # One that has let it run is about to tell, unless it hangs.
        for patience_s in (_LAST_WORDS_S, _INTERRUPT_TIMEOUT_S):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    await self._over.wait()
                return
            end = end or process.how(self.run)
            if end is not None:
                break
        end = self._ended(end or Exit(run=self.run))
        if not self._is_tried_again:
            self._tell(end)
        # It would keep the remains, for which the launcher waits.
        self._gdb.kill()

    # -- small things ----------------------------------------------------------------------

    def _need_stop(self) -> None:
        if self.state != "stopped":
            raise NeedsStopError

    async def _select(self, frame: Frame | None) -> None:
        """Select the frame that the stop is told with, so that it is what commands look at."""
        if frame is not None and frame.level:
            await self._gdb.ask_together(console(f"frame {frame.level}"))[0]

    def _text(self, result: Result, request_id: int) -> Record:
        if result.kind == "running":
            self.run = request_id
            return Running(run=request_id)
        if result.kind == "error":
            return failure(result)
        text = self._breakpoints.job_numbers(result.text + result.log).rstrip("\n")
        return Text(text=text) if text else Done()

    def _ended(self, end: Exit) -> Exit:
        self.state = "exited"
        self._unwatch()
        self._forget_process()
        self._over.set()
        self._last_event = end
        self._breakpoints.forget()
        return end

    def _tell(self, event: Event) -> None:
        if isinstance(event, Stop | Exit | Running | Gone):
            self._last_event = event
        self._notify_aggregator(self.rank, event)


def _has_source(frame: Frame | None) -> bool:
    return frame is not None and bool(frame.fullname) and decode.is_readable(frame.fullname)


_INTERRUPT_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 5.0
_LAST_WORDS_S = 1.0
"""How long a GDB has to tell by itself that its rank has ended."""
_BLOCKED_FOR_S, _BLOCKED_LOOK_S = 1.0, 0.02
_DRAIN_TIMEOUT_S = 2.0
_STOPPED_AGAIN = "stopped again, by the signal from before"
_BLOCKED = (
    f"all its threads block {INTERRUPT.name}, "
    "which is what interrupts a rank; a breakpoint stops it"
)
_CONDITION_FAILED = "Error in testing "
"""How GDB begins to say that a breakpoint stops the rank because its condition has failed."""
_ENDED: dict[str, str] = {
    "exited": "The program has ended on this rank.",
    "detached": "PGDB is detached from this rank.",
    "gone": "The debugger of this rank is gone; the rank runs on free.",
}
_RESUME = {
    "continue": "-exec-continue",
    "step": "-exec-step",
    "next": "-exec-next",
    "stepi": "-exec-step-instruction",
    "nexti": "-exec-next-instruction",
    "finish": "-exec-finish",
    "until": "-exec-until",
}
