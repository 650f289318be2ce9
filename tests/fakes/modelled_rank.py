"""One rank, its GDB, and an executor that carries out what the rank's machine says."""

from __future__ import annotations

from dataclasses import dataclass

from pgdb.backend.rank import events
from pgdb.backend.rank.events import (
    Arm,
    Armed,
    DebuggerEnded,
    Described,
    Disarm,
    EndBegun,
    FailStop,
    ForgetBreakpoints,
    FoundFree,
    FoundTraced,
    HasStopped,
    InterruptWanted,
    IsRunning,
    KillDebugger,
    LostProcess,
    Notify,
    RankEvent,
    Repair,
    ReportRefusedRun,
    ReportStop,
    ResolveStop,
    RunSent,
    SendSignal,
    StopAwaited,
    StopNotAwaited,
    StopWatching,
)
from pgdb.backend.rank.machine import RankMachine
from pgdb.backend.rank.states import (
    Controlled,
    Detached,
    Ending,
    Exited,
    Gone,
    Live,
    Resuming,
)
from pgdb.records import Event, Exit, Stop

FIRST = Stop(reason="attached")


@dataclass
class Process:
    """The true state of the rank's process."""

    is_alive: bool = True
    is_traced: bool = False
    is_stopped: bool = False
    has_breakpoints: bool = False
    has_signal: bool = False
    """Whether our interrupt signal is pending."""

    @property
    def runs(self) -> bool:
        return self.is_alive and not self.is_stopped


class ModelledRank:
    """A rank and its GDB, of which a test decides what they do and when GDB reports it."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = RankMachine(0, is_strict=True)
        self.process = Process()
        self.has_gdb = False
        self.is_armed = False
        self.reports: list[RankEvent] = []
        """Output of GDB that we have not read."""
        self.undescribed: list[ReportStop] = []
        self.is_watched = False
        self.awaits = ""
        """The operation that awaits a stop."""
        self.outcome: ResolveStop | FailStop | None = None
        self.resuming: tuple[int, int] | None = None
        """The run whose command GDB has not carried out, and the one before."""
        self.number = 0
        self.numbers: set[int] = {0}
        self.is_ordered = True
        """Whether GDB has said everything once, in order."""
        self.true_run = 0
        self.held_children = 0
        """Number of children that GDB keeps at a ``catch fork`` until the rank runs on."""
        self.payloads: dict[int, int] = {}
        """Number of times that each stop was handed on."""
        self.quiet: set[int] = set()
        """Stops that are not reported, since the session ends."""
        self.ends: set[int] = set()
        """Stops that are the end of the process, which are reported as that."""
        self.notified: list[Event] = []
        self.refused_runs = 0
        self.failed_runs = 0
        self.repairs = 0

    def feed(self, event: RankEvent) -> None:
        if isinstance(event, HasStopped):
            state = self.machine.state
            is_final = isinstance(state, Exited | Detached | Gone)
            if is_final or (isinstance(state, Ending) and not state.is_awaited):
                self.quiet.add(event.payload)
        for action in self.machine.on(event):
            self.carry_out(action)

    def carry_out(self, action: events.Action) -> None:
        match action:
            case Arm():
                if self.has_gdb:
                    self.reports.append(Armed())
            case Disarm():
                self.is_armed = False
            case SendSignal():
                if self.process.is_alive:
                    self.process.has_signal = True
            case ReportStop(payload=payload, run=run):
                self.hand_on(payload)
                assert run in self.numbers
                if self.is_ordered:
                    assert run == self.true_run, (run, self.true_run)
                self.undescribed.append(action)
            case ReportRefusedRun(run=run):
                assert run in self.numbers
                self.refused_runs += 1
            case ResolveStop(payload=payload):
                assert self.awaits and self.outcome is None, "nobody awaits a stop"
                self.hand_on(payload)
                self.outcome = action
            case FailStop():
                assert self.awaits and self.outcome is None, "nobody awaits a stop"
                assert action.why
                self.outcome = action
            case Notify(event=event):
                assert not isinstance(self.machine.state, Ending), "the session is over"
                self.notified.append(event)
            case Repair(then=then):
                assert not self.has_gdb or not self.process.is_traced
                self.repairs += 1
                self.process.has_breakpoints = False
                if not self.process.is_traced:
                    self.process.is_stopped = False
                if then is not None:
                    self.feed(Described(then))
            case StopWatching():
                self.is_watched = False
            case ForgetBreakpoints():
                assert isinstance(self.machine.state, Exited | Detached)
            case KillDebugger():
                assert not self.process.is_alive, "GDB would leave breakpoints in a live rank"
                self.gdb_ends(by_kill=True)

    def hand_on(self, payload: int) -> None:
        self.payloads[payload] += 1
        assert self.payloads[payload] == 1 or not self.is_ordered, "a stop is handed on once"

    def new_number(self) -> int:
        self.number += 1
        self.numbers.add(self.number)
        return self.number

    def print_stop(self, end: Exit | None = None) -> None:
        payload = len(self.payloads) + 1
        self.payloads[payload] = 0
        if end is not None:
            self.ends.add(payload)
        self.reports.append(HasStopped(payload, end))

    def print_running(self) -> None:
        """Report that the rank runs on, and that GDB has detached the children of its forks."""
        self.reports.append(IsRunning())
        self.reports += [LostProcess()] * self.held_children
        self.held_children = 0

    def gdb_ends(self, *, by_kill: bool) -> None:
        if not self.has_gdb:
            return
        self.has_gdb = False
        self.is_armed = False
        self.process.is_traced = False
        self.resuming = None
        self.held_children = 0
        if not by_kill:
            self.process.has_breakpoints = self.process.is_stopped = False
        is_free = self.process.is_alive
        # The output of GDB is read before its end, except what is in its buffers.
        self.reports = [each for each in self.reports if not isinstance(each, Armed)]
        self.reports.append(DebuggerEnded("GDB was ended", is_free))

    def deliver_next(self) -> None:
        """Hand the next report of GDB to the machine."""
        report = self.reports.pop(0)
        if isinstance(report, Armed):
            self.is_armed = True
        motion = self.machine.motion
        if isinstance(report, IsRunning) and isinstance(motion, Resuming):
            # GDB does not say whose command it was: commands of a breakpoint can have been first.
            self.true_run = motion.run
        self.feed(report)

    def deliver_all(self) -> None:
        while self.reports:
            self.deliver_next()

    @property
    def is_live(self) -> bool:
        return isinstance(self.machine.state, Live)

    @property
    def is_idle(self) -> bool:
        return not self.awaits and self.resuming is None

    @property
    def is_controlled(self) -> bool:
        return isinstance(self.machine.state, Controlled) and self.has_gdb and self.is_idle

    def take_outcome(self) -> ResolveStop | FailStop:
        outcome, self.outcome, self.awaits = self.outcome, None, ""
        assert outcome is not None
        return outcome

    def find_whether_free(self) -> None:
        """Look at the process, as after each operation behind which GDB has lost one."""
        state = self.machine.state
        if isinstance(state, Controlled) and state.has_lost_process:
            is_free = self.process.is_alive and not self.process.is_traced
            self.feed(FoundFree("a command") if is_free else FoundTraced())

    def run_internally(self, who: str, *, is_armed: bool = False) -> None:
        self.feed(StopAwaited())
        self.feed(RunSent(self.machine.run, is_armed))
        self.awaits = who
        self.resuming = (self.machine.run, self.machine.run)

    def let_free(self) -> None:
        if self.machine.word == "running":
            self.awaits = "detach"
            self.feed(StopAwaited())
            self.feed(InterruptWanted())

    def end_session(self) -> None:
        self.feed(EndBegun())
        # The operations of the leaf were cancelled.
        self.resuming = None
        if self.awaits and self.outcome is None:
            self.feed(StopNotAwaited())
        self.awaits, self.outcome = "", None
