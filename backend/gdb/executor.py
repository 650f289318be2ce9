"""Executor of one rank's machine: reports of GDB and of the kernel in, actions carried out.

The states are those of :class:`~pgdb.backend.rank.machine.RankMachine`. The executor owns the
rank's GDB and what belongs to it, and feeds the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from pgdb.backend.care import first_thread, liveness
from pgdb.backend.care.breakpoint_repair import RankText
from pgdb.backend.care.gdb_interrupt import GdbInterrupt
from pgdb.backend.gdb import decode
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.gpu_turns import Turn
from pgdb.backend.gdb.loss_repair import LossRepair
from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.process_watch import ProcessWatch
from pgdb.backend.gdb.python_steps import PythonSteps
from pgdb.backend.gdb.rank_gdb import RankGdb
from pgdb.backend.gdb.run_output import RunOutput
from pgdb.backend.gdb.selected_thread import SelectedThread
from pgdb.backend.gdb.settings import IGNORE_INTERRUPT, INTERRUPT
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.stop_report import StopReports, as_interrupt
from pgdb.backend.rank import events
from pgdb.backend.rank.machine import RankMachine
from pgdb.backend.rank.protocol import State
from pgdb.backend.rank.states import Controlled, Live
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.overlay.passed_breakpoints import PassedBreakpoint, passed_by
from pgdb.records import Event, Exit, Output, Stop, stopped_at

STOP_AT_INTERRUPT = f"handle {INTERRUPT.name} stop print nopass"
_LAST_WORDS_S, _MORE_WORDS_S = 1.0, 10.0
"""Seconds in which a GDB has to report the end of its rank; the second wait follows if the kernel
does not say how the rank has ended."""

_HOLD_S = 0.05
"""Time that libraries have to come together before their text is held, in seconds."""
_LOOKS, _LOOK_S = 20, 0.02
"""Number of looks at an interrupt that no thread takes, and the time between two, in seconds."""


@dataclass
class _Unreported:
    """A stop whose report is not complete."""

    stop: Stop
    printed: list[str] = field(default_factory=list)
    """Text printed since, such as that of commands of a breakpoint."""


class Executor:
    """GDB, process and machine of one rank."""

    def __init__(
        self,
        machine: RankMachine,
        *,
        notify: Callable[[int, Event], None],
        stop_printing: Callable[[], None],
    ) -> None:
        self.machine = machine
        self.process = ProcessWatch()
        self.text = RankText()
        self.gdb = RankGdb(self)
        self.gdb_interrupt = GdbInterrupt(self.gdb)
        self.stacks = Stacks(self.gdb, stop_printing)
        self.breakpoints = Breakpoints(self.gdb, self.stacks.python.runtime_of)
        self._loss_repair = LossRepair(self)
        self.gdb.when_silent = self._loss_repair.begin
        self.python_steps = PythonSteps(self.stacks, self.breakpoints)
        self.selected_thread = SelectedThread(self.gdb)
        self.stops = StopReports(self.gdb, self.stacks, self.breakpoints)
        self._notify_leaf = notify
        self._run_output = RunOutput(self._ask, self._show)
        self._awaited: asyncio.Future[dict[str, Any]] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unreported: _Unreported | None = None
        """The last stop, while its report is not complete."""
        self._describing: asyncio.Task[None] | None = None
        self._arming: asyncio.Task[GdbError | None] | None = None
        self._holding: asyncio.TimerHandle | None = None
        self._interrupts_remote = False
        self.turn = Turn()
        """The rank's turn to step on its GPU; it ends when the rank stops."""

    @property
    def state(self) -> State:
        """State of the rank."""
        return self.machine.word

    def feed(self, event: events.RankEvent) -> None:
        """Feed the machine, and carry out its actions."""
        for action in self.machine.on(event):
            self._carry_out(action)

    def notify(self, event: Event) -> None:
        """Report an event of the rank to the leaf."""
        self._notify_leaf(self.machine.rank, event)

    def report_breakpoints(self) -> None:
        """Report breakpoints that were made or deleted without an answer that says so."""
        if (changes := self.breakpoints.take_changes()) is not None:
            self.notify(changes)

    def keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task, and keep it until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Wait until all that was started has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def report_complete(self) -> None:
        """Wait until the last stop is reported, or cannot be."""
        if self._describing is not None:
            await asyncio.wait([self._describing])

    # -- stops that operations await ------------------------------------------------------------

    def expect_first_stop(self) -> asyncio.Future[dict[str, Any]]:
        """Return the payload of the stop at which GDB attaches, once it comes."""
        self.feed(events.AttachSent())
        return self._new_future()

    def expect_stop(self) -> asyncio.Future[dict[str, Any]]:
        """Return the payload of the next stop, once it comes; it is not reported."""
        self.feed(events.StopAwaited())
        return self._new_future()

    def _new_future(self) -> asyncio.Future[dict[str, Any]]:
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    async def run_internally(self, command: str, *, is_armed: bool = False) -> dict[str, Any]:
        """Let the rank run to a stop that is ours alone; return the payload of the stop.

        :raises GdbError: if the rank cannot run, or GDB ends.
        """
        stopped, run = self.expect_stop(), self.machine.run
        self.feed(events.RunSent(run, is_armed))
        try:
            result = await self.gdb.send(command)
            if result.kind == "error":
                self.feed(events.RunRefused(run, run))
                raise GdbError(result.message)
            return await stopped
        finally:
            self.feed(events.StopNotAwaited())

    def take_run(self, command: str, passed: Iterable[PassedBreakpoint]) -> None:
        """Note the command that sets the rank running next, and what some ranks pass over."""
        self.stops.take_run(command)
        self.breakpoints.passed.take(passed_by(passed, self.machine.rank))

    def take_end(self, payload: dict[str, Any]) -> bool:
        """Record the end of the program if *payload* reports it; return whether it does."""
        end = decode.exit_of(payload, run=self.machine.run)
        if end is not None:
            self.feed(events.EndLearned(end))
        return end is not None

    async def stop(self) -> None:
        """Interrupt a rank that runs; return once the signal is sent, or the rank has stopped.

        :raises GdbError: if GDB ends.
        """
        self.feed(events.InterruptWanted())
        arming = self._arming
        if arming is not None and not arming.done() and (error := await asyncio.shield(arming)):
            raise error

    async def _arm(self) -> GdbError | None:
        """Make GDB stop at our signal, then send it."""
        try:
            answer = self.gdb.send(console(STOP_AT_INTERRUPT))
            result = await self.gdb_interrupt.wait_for(answer, self.process.pid)
            if result.kind == "error" and self.state == "running":
                # GDB has given up this very command: it could not be seen to do anything else.
                await self.gdb.send(console(STOP_AT_INTERRUPT))
        except GdbError as error:
            return error
        self.feed(events.Armed())
        return None

    # -- reports of GDB and of the kernel ------------------------------------------------------

    def watch(self, pid: int) -> None:
        """Watch the process *pid* of the rank, which may end without a word of GDB."""

        def on_end() -> None:
            self.keep(self._process_ended())

        self.process.begin(pid, on_end)

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Take a ``*stopped``."""
        self.turn.end()
        if self._interrupts_remote:
            self._interrupts_remote = False
            # Valgrind's gdbserver stops at a trap of its own.
            if payload.get("signal-name") in (signal.SIGINT.name, signal.SIGTRAP.name):
                payload = {**payload, "signal-name": INTERRUPT.name}
        if self._awaited is not None and self._awaited.done():
            # The operation has given up, and has not run since.
            self._awaited = None
            self.feed(events.StopNotAwaited())
        self.selected_thread.on_stopped(payload)
        self._run_output.stop(
            is_signal=payload.get("reason") in ("signal-received", "exited-signalled"),
            shows_displays=self.stops.shows_displays,
        )
        self.feed(events.HasStopped(payload, decode.exit_of(payload, run=0)))

    def on_running(self) -> None:
        """Take a ``*running``."""
        if self._unreported is not None:
            # Commands of a breakpoint let the rank run on: GDB cannot be asked about the stop.
            self._pass(self._unreported)
        self.feed(events.IsRunning())

    def on_run_failed(self, message: str) -> None:
        """Record that the rank does not run after all, as when a breakpoint cannot be inserted."""
        self.feed(events.RunFailed(self.stops.why_refused(message)))

    def on_unreported_stop(self) -> None:
        """Record that GDB has stopped the rank at an error of its own.

        Where PGDB itself awaits a stop, it finds out what has become of the process.
        """
        state = self.machine.state
        if not (isinstance(state, Live) and state.is_awaited):
            self.on_run_failed("")

    def on_partly_stopped(self, thread: str) -> None:
        """Stop all threads of a rank of which GDB has stopped some, at an error of its own."""
        if self.state == "running" and isinstance(self.machine.state, Controlled):
            self.keep(self._stop_rest(thread))

    async def _stop_rest(self, thread: str) -> None:
        with contextlib.suppress(GdbError):
            await self.stop()
            if not await self._stays_pending():
                return
            # The threads that run block the signal, as those of an MPI library do. The one that is
            # stopped takes it before it carries out an instruction; alone, since GDB 13.1 swallows
            # it otherwise in the step over the breakpoint.
            shown = await self.gdb.ask_together("-gdb-show scheduler-locking")[0]
            await self.gdb.send("-gdb-set scheduler-locking on")
            try:
                await self.gdb.send(f"-exec-continue --thread {thread}")
            finally:
                await self.gdb.send(f"-gdb-set scheduler-locking {shown.payload.get('value')}")

    async def _stays_pending(self) -> bool:
        """Return whether the rank runs, and no thread of it takes the interrupt."""
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_S)
            pending = procfs.pending_signals(self.process.pid) or ()
            if self.state != "running" or INTERRUPT not in pending:
                return False
        return True

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Take a ``=…``."""
        self.breakpoints.on_notice(name, payload)
        if not self.breakpoints.is_asked:
            self.report_breakpoints()
        self.stacks.on_notice(name, payload)
        if name != "library-loaded":
            if name == "thread-group-exited":
                self.feed(events.LostProcess())
            self.selected_thread.on_notice(name)
            self.stops.values.on_notice(name, payload)
        else:
            self.text.outdate()
            if self.state == "running" and self._holding is None:
                # The file may be replaced before the rank stops. Libraries come in groups.
                loop = asyncio.get_running_loop()
                self._holding = loop.call_later(_HOLD_S, self._hold_text)

    def _hold_text(self) -> None:
        self._holding = None
        if self.state == "running":
            self.text.keep(self.process.pid, runs=True)

    def on_output(self, text: str) -> None:
        """Take text that GDB printed unasked, such as the output of a breakpoint's commands."""
        # While PGDB attaches or detaches, the rank runs for PGDB alone.
        if self.state == "running" and isinstance(self.machine.state, Controlled):
            self._run_output.take(text)
        # GDB prints of a rank that was killed while it was stopped what its end says anyway.
        elif self.state == "stopped" and procfs.is_alive(self.process.pid):
            self._show(text)

    def _show(self, text: str) -> None:
        if self.machine.is_detaching or not text.strip():
            return
        if self._unreported is not None:
            self._unreported.printed.append(text.rstrip("\n"))
        else:
            self.notify(Output(text=text.rstrip("\n")))

    def _ask(self, on_answer: Callable[[], None]) -> None:
        # GDB's announcement of a stop mostly comes in one piece with the stop: no question then.
        asyncio.get_running_loop().call_soon(self._ask_now, on_answer)

    def _ask_now(self, on_answer: Callable[[], None]) -> None:
        if self._run_output.has_lines:
            self.gdb.ping().add_done_callback(lambda _: on_answer())
        else:
            on_answer()

    def on_end(self, why: str) -> None:
        """Record that GDB has ended."""
        self.turn.end()
        self.feed(events.DebuggerEnded(why, self.process.has_no_debugger))

    async def _process_ended(self) -> None:
        """Record the end of the process, which GDB 13.1 does not notice of a stopped one."""
        end = self.process.how(self.machine.run)
        # A GDB that let the process run is about to report its end, unless GDB hangs.
        for patience_s in (_LAST_WORDS_S, _MORE_WORDS_S):
            if await self.process.stops_within(patience_s):
                return
            end = end or self.process.how(self.machine.run)
            if end is not None:
                break
        self.feed(events.ProcessEnded(end or Exit(run=self.machine.run)))

    # -- actions -------------------------------------------------------------------------------

    def _carry_out(self, action: events.Action) -> None:
        match action:
            case events.Arm():
                self._arming = self.keep(self._arm())
            case events.Disarm():
                if self.gdb.is_alive:
                    self.gdb.send(console(IGNORE_INTERRUPT))
            case events.SendSignal():
                self._send_interrupt()
            case events.ReportStop():
                self._report(action)
            case events.ReportRefusedRun() if liveness.is_dying(self.process.pid):
                pass  # its end is about to be reported
            case events.ReportRefusedRun(why=why, run=run):
                self.stops.restore()
                stop = Stop(reason="other", run=run, meaning=f"it cannot run: {why}")
                self.keep(self._describe(stop, is_elsewhere=False))
            case events.ResolveStop(payload=payload):
                if self._awaited is not None and not self._awaited.done():
                    self._awaited.set_result(payload)
            case events.FailStop(why=why):
                if self._awaited is not None and not self._awaited.done():
                    self._awaited.set_exception(GdbError(why))
                    self._awaited.exception()
            case events.Notify(event=event):
                self.notify(event)
            case events.Repair(then=then):
                self.keep(self._loss_repair.complete(then))
            case events.StopWatching(forgets=forgets):
                self.process.stop(forgets=forgets)
            case events.ForgetBreakpoints():
                self.breakpoints.forget()
            case events.KillDebugger():
                self.gdb.kill()

    def _send_interrupt(self) -> None:
        if self.gdb.is_remote:
            # The default action of our signal is to do nothing: Valgrind has the kernel drop it.
            self._interrupts_remote = True
            if self.gdb.is_alive:
                self.gdb.send("-exec-interrupt")
            return
        with contextlib.suppress(OSError):
            first_thread.send(self.process.pid, INTERRUPT)

    def _report(self, action: events.ReportStop) -> None:
        if (rest := self.gdb.rest_of_code) is not None and not rest.done():
            self.keep(self._report_after(rest, action))
            return
        payload = action.payload
        self.stops.restore()
        stop = self.stops.stop_of(payload, action.run, self.process.pid)
        if self.gdb_interrupt.is_awaited and stop.signal == signal.SIGINT.name:
            self.keep(self._report_gdb_interrupt(as_interrupt(stop), action))
        elif (
            self._tasks
            or self.turn.has_others
            or self.selected_thread.may_have_ended
            or self.stops.may_print
            or not self.stops.is_complete(stop, payload)
        ):
            # Finding the frame takes a moment; GDB answers in order, so stops are reported in
            # order too.
            is_elsewhere = self.stops.is_elsewhere(stop, payload)
            self._describing = self.keep(self._describe(stop, is_elsewhere=is_elsewhere))
        else:
            self.feed(events.Described(stop))

    async def _report_after(self, rest: asyncio.Future[Result], action: events.ReportStop) -> None:
        """Report a stop after the *rest* of code, unless that has set the rank running again."""
        await asyncio.wait([rest])
        if self.state == "stopped" and self.machine.stops == action.count:
            self._report(action)

    async def _report_gdb_interrupt(self, stop: Stop, action: events.ReportStop) -> None:
        """Report a stop at our SIGINT, except one in a function that GDB has gone back from."""
        found = await self.stops.after_gdb_interrupt(
            stop,
            action.payload,
            stays_stopped=lambda: action.was_running and self.machine.stops == action.count,
        )
        if found is not None:
            first = self.gdb.first_thread
            is_elsewhere = action.payload.get("thread-id", first) != first
            await self._describe(found, is_elsewhere=is_elsewhere)

    def _describe(self, stop: Stop, *, is_elsewhere: bool) -> Coroutine[Any, Any, None]:
        """Report a stop with its frame, and behind it what is printed from now on; if GDB ends
        meanwhile, that is reported."""
        if self._unreported is not None:
            self._pass(self._unreported)
        unreported = self._unreported = _Unreported(stop)
        return self._describe_with(unreported, is_elsewhere=is_elsewhere)

    async def _describe_with(self, unreported: _Unreported, *, is_elsewhere: bool) -> None:
        stop, pid = unreported.stop, self.process.pid
        try:
            await self.selected_thread.ensure()
            described, text = await self.stops.describe(stop, pid, is_elsewhere=is_elsewhere)
            if self.stops.may_print:
                # GDB answers when it has carried out the commands of breakpoints.
                await self.gdb.ping()
        except GdbError:
            if not self.gdb.is_alive:
                self._unreported = None
                return
            described, text = stop, ""
        await self.turn.wait_for_others()
        if self._unreported is unreported:
            self.feed(events.Described(described))
            self._show_behind(text)

    def _pass(self, unreported: _Unreported) -> None:
        """Report a stop after which the rank has run on, unless the stop is silent."""
        if unreported.stop.frame is not None or not unreported.stop.breakpoint:
            self.feed(events.Described(unreported.stop))
        else:
            # As in GDB, "silent" as the first of the commands leaves only what they print.
            for each in stopped_at(unreported.stop):
                self.breakpoints.note_unreported_hit(each)
            self.report_breakpoints()
        self._show_behind("")

    def _show_behind(self, text: str) -> None:
        """Show what was printed at a stop that has been reported."""
        unreported, self._unreported = self._unreported, None
        for each in filter(None, (text, *(unreported.printed if unreported is not None else ()))):
            self.notify(Output(text=each, of_stop=True))
