"""The life of a rank against a model of GDB that is late, repeats itself, dies, or says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import Result, cut
from pgdb.backend.rank import events
from pgdb.backend.rank.events import (
    Abandoned,
    Arm,
    Armed,
    AttachBegun,
    Attached,
    AttachRefused,
    AttachSent,
    DebuggerEnded,
    Described,
    DetachBegun,
    DetachFailed,
    Disarm,
    EndBegun,
    EndFailed,
    EndLearned,
    FailStop,
    ForgetBreakpoints,
    FoundFree,
    FoundTraced,
    Freed,
    FreeSent,
    HasStopped,
    InterruptWanted,
    IsRunning,
    KillDebugger,
    Killed,
    LostProcess,
    Notify,
    ProcessEnded,
    RankEvent,
    Repair,
    ReportRefusedRun,
    ReportStop,
    ResolveStop,
    RunAdopted,
    RunFailed,
    RunRefused,
    RunSent,
    SendSignal,
    StopAwaited,
    StopNotAwaited,
    StopWatching,
)
from pgdb.backend.rank.machine import IllegalEventError, RankMachine
from pgdb.backend.rank.states import (
    Acquiring,
    Controlled,
    Detached,
    Detaching,
    Ending,
    Exited,
    Gone,
    Interrupting,
    Live,
    New,
    Resuming,
    Running,
    Stopped,
    Unattached,
)
from pgdb.records import Event, Exit, Stop
from pgdb.records import Gone as GoneEvent
from pgdb.records import Running as RunningEvent

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"
FIRST = Stop(reason="attached")
ODDS = st.integers(0, 5)
"""Rules that end a life act in one of six cases, so that lives are long."""


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


class Rank(RuleBasedStateMachine):
    """One rank, its GDB, and an executor that carries out what the machine says."""

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

    # -- the executor --------------------------------------------------------------------------

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

    def gdb_ends(self, *, by_kill: bool) -> None:
        if not self.has_gdb:
            return
        self.has_gdb = False
        self.is_armed = False
        self.process.is_traced = False
        self.resuming = None
        if not by_kill:
            self.process.has_breakpoints = self.process.is_stopped = False
        is_free = self.process.is_alive
        # The output of GDB is read before its end, except what is in its buffers.
        self.reports = [each for each in self.reports if not isinstance(each, Armed)]
        self.reports.append(DebuggerEnded("GDB was ended", is_free))

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

    # -- attaching -----------------------------------------------------------------------------

    @initialize(is_retried=st.booleans())
    def begin(self, is_retried: bool) -> None:
        assert self.machine.current_event is None and self.machine.word == "new"
        self.feed(AttachBegun(is_retried))
        self.is_watched = self.has_gdb = True

    @precondition(
        lambda self: (
            isinstance(self.machine.state, Acquiring)
            and isinstance(self.machine.motion, Unattached)
            and self.has_gdb
            and self.is_idle
        )
    )
    @rule(is_refused=st.booleans(), says_running=st.booleans())
    def attach(self, is_refused: bool, says_running: bool) -> None:
        self.feed(AttachSent())
        if is_refused or not self.process.is_alive:
            self.feed(AttachRefused(not self.process.is_alive))
            return
        self.awaits = "attach"
        self.process.is_traced = self.process.is_stopped = True
        if says_running:
            self.reports.append(IsRunning())
        self.print_stop()

    @precondition(lambda self: isinstance(self.machine.state, New) and self.has_gdb)
    @rule()
    def try_again(self) -> None:
        self.feed(AttachBegun())
        self.is_watched = True

    @precondition(lambda self: self.awaits in ("attach", "lead") and self.outcome is not None)
    @rule(leads=st.booleans())
    def attached(self, leads: bool) -> None:
        outcome = self.take_outcome()
        if not self.process.is_alive:
            self.feed(EndLearned(Exit(code=1)))
        elif isinstance(outcome, ResolveStop) and isinstance(self.machine.state, Acquiring):
            if leads and self.has_gdb and isinstance(self.machine.motion, Stopped):
                self.run_internally("lead")  # a held rank executes its program
            else:
                self.feed(Attached(FIRST))

    def run_internally(self, who: str, *, is_armed: bool = False) -> None:
        self.feed(StopAwaited())
        self.feed(RunSent(self.machine.run, is_armed))
        self.awaits = who
        self.resuming = (self.machine.run, self.machine.run)

    # -- runs ----------------------------------------------------------------------------------

    @precondition(lambda self: self.is_controlled and self.machine.word == "stopped")
    @rule()
    def resume(self) -> None:
        before = self.machine.run
        run = self.new_number()
        self.feed(RunSent(run))
        self.resuming = (run, before)

    @precondition(lambda self: self.resuming is not None and self.has_gdb)
    @rule(is_refused=st.booleans(), fails_later=st.booleans())
    def gdb_resumes(self, is_refused: bool, fails_later: bool) -> None:
        assert self.resuming is not None
        run, before = self.resuming
        if is_refused or self.process.runs or not self.process.is_alive:
            # The refusal is read behind all that GDB has printed before it.
            self.deliver_all()
            if self.resuming is None:
                return  # GDB has ended meanwhile, and the operation with it
            self.resuming = None
            self.true_run = before if self.true_run == run else self.true_run
            self.feed(RunRefused(run, before))
            if self.awaits and self.outcome is None:
                self.awaits = ""
                self.feed(StopNotAwaited())
            return
        self.deliver_all()
        if self.resuming is None:
            return
        self.resuming = None
        self.process.is_stopped = False
        self.process.has_breakpoints = True
        self.true_run = run
        self.reports.append(IsRunning())
        if fails_later:
            self.failed_runs += 1
            self.process.is_stopped = True
            self.reports.append(RunFailed("Cannot insert breakpoint 1."))

    @precondition(lambda self: self.is_controlled and self.process.is_stopped)
    @rule()
    def a_command_of_the_users_runs(self) -> None:
        self.deliver_all()
        if not (self.is_controlled and self.process.is_stopped and self.process.is_alive):
            return
        run = self.new_number()
        self.process.is_stopped = False
        self.feed(IsRunning())
        self.feed(RunAdopted(run))
        self.true_run = run

    @precondition(lambda self: self.process.runs and self.process.is_traced and self.has_gdb)
    @rule()
    def rank_stops(self) -> None:
        self.process.is_stopped = True
        self.print_stop()

    @precondition(
        lambda self: (
            self.process.is_traced
            and self.process.is_stopped
            and self.has_gdb
            and self.process.is_alive
            and self.resuming is None
        )
    )
    @rule()
    def breakpoint_commands_continue(self) -> None:
        self.process.is_stopped = False
        self.reports.append(IsRunning())

    @precondition(lambda self: self.is_controlled and self.process.is_stopped)
    @rule()
    def rank_stops_in_a_function_that_gdb_has_called(self) -> None:
        self.print_stop()

    @precondition(lambda self: self.process.runs and self.process.is_traced and self.has_gdb)
    @rule(code=st.integers(0, 255), odds=ODDS)
    def rank_exits(self, code: int, odds: int) -> None:
        if odds:
            return
        self.process.is_alive = False
        self.reports.append(LostProcess())
        self.print_stop(Exit(code=code))

    @precondition(lambda self: self.process.is_alive)
    @rule(odds=ODDS)
    def rank_is_killed_and_gdb_says_nothing(self, odds: int) -> None:
        if odds:
            return
        self.process.is_alive = False

    @precondition(lambda self: self.is_watched and not self.process.is_alive)
    @rule()
    def kernel_tells(self) -> None:
        self.feed(ProcessEnded(Exit(signal="SIGKILL", run=self.machine.run)))

    @precondition(
        lambda self: self.process.has_signal and self.process.runs and self.process.is_traced
    )
    @rule()
    def signal_arrives(self) -> None:
        self.process.has_signal = False
        if self.is_armed and self.has_gdb:
            self.process.is_stopped = True
            self.print_stop()

    @rule()
    def interrupt(self) -> None:
        self.feed(InterruptWanted())

    @rule(odds=ODDS)
    def kill(self, odds: int) -> None:
        if odds:
            return
        if self.machine.word not in ("stopped", "running"):
            return
        self.process.is_alive = False
        self.feed(Killed())

    # -- reports -------------------------------------------------------------------------------

    @precondition(lambda self: self.reports)
    @rule()
    def deliver(self) -> None:
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
            self.deliver()

    @precondition(lambda self: len(self.reports) > 1)
    @rule(data=st.data(), odds=ODDS)
    def reports_come_out_of_order(self, data: st.DataObject, odds: int) -> None:
        if odds:
            return
        # Of its end, a session reports last.
        last = [each for each in self.reports if isinstance(each, DebuggerEnded)]
        others = [each for each in self.reports if not isinstance(each, DebuggerEnded)]
        self.reports = [*data.draw(st.permutations(others)), *last]
        self.is_ordered = False

    @precondition(lambda self: self.reports and self.is_live)
    @rule(odds=ODDS)
    def a_report_comes_twice(self, odds: int) -> None:
        if odds:
            return
        report = self.reports[0]
        if isinstance(report, HasStopped | IsRunning | LostProcess):
            self.is_ordered = False
            self.reports.insert(0, report)

    @precondition(lambda self: self.undescribed)
    @rule()
    def describe(self) -> None:
        report = self.undescribed.pop(0)
        if self.has_gdb and self.is_live and not isinstance(self.machine.state, Ending):
            self.feed(Described(Stop(reason="other", run=report.run)))

    @precondition(lambda self: self.has_gdb)
    @rule(odds=ODDS)
    def gdb_dies(self, odds: int) -> None:
        if odds:
            return
        self.gdb_ends(by_kill=True)

    @precondition(lambda self: self.is_controlled)
    @rule(is_free=st.booleans(), odds=ODDS)
    def a_command_of_the_users_detaches(self, is_free: bool, odds: int) -> None:
        if odds:
            return
        self.deliver_all()
        if not self.is_controlled or not self.process.is_alive:
            return
        self.feed(LostProcess())
        if is_free:
            self.process.is_traced = self.process.is_stopped = False
            self.process.has_breakpoints = False
            self.feed(FoundFree("a command"))
            assert isinstance(self.machine.state, Detached)
            assert isinstance(self.notified[-1], GoneEvent)
        else:
            self.feed(FoundTraced())

    # -- detaching -----------------------------------------------------------------------------

    @precondition(lambda self: self.is_controlled)
    @rule()
    def detach(self) -> None:
        if self.machine.word in ("stopped", "running"):
            self.feed(DetachBegun())
            self.let_free()

    def let_free(self) -> None:
        if self.machine.word == "running":
            self.awaits = "detach"
            self.feed(StopAwaited())
            self.feed(InterruptWanted())
            # Time passes, in which GDB and the rank do what they are to do, or nothing.

    @precondition(
        lambda self: (
            isinstance(self.machine.state, Detaching | Ending)
            and self.awaits == "detach"
            and self.outcome is None
        )
    )
    @rule()
    def time_is_over(self) -> None:
        self.awaits = ""
        self.feed(StopNotAwaited())
        if isinstance(self.machine.state, Detaching):
            self.feed(DetachFailed())

    @precondition(
        lambda self: (
            isinstance(self.machine.state, Detaching | Ending)
            and self.is_idle
            and self.machine.word == "stopped"
            and self.has_gdb
            and self.process.is_alive
            and self.process.is_stopped
            and not self.reports
        )
    )
    @rule(is_refused=st.booleans(), ends_first=st.booleans(), drains=st.booleans())
    def gdb_detaches(self, is_refused: bool, ends_first: bool, drains: bool) -> None:
        if drains and self.process.has_signal:
            self.is_armed = True
            self.run_internally("detach", is_armed=True)
            return
        self.feed(FreeSent())
        if is_refused:
            self.feed(DetachFailed())
            return
        self.process.is_traced = self.process.is_stopped = False
        self.process.has_breakpoints = False
        if ends_first:
            self.gdb_ends(by_kill=False)
            self.deliver_all()
        else:
            self.feed(Freed())
        assert isinstance(self.machine.state, Detached)

    @precondition(lambda self: self.awaits == "detach" and self.outcome is not None)
    @rule()
    def stopped_for_detach(self) -> None:
        outcome = self.take_outcome()
        self.feed(StopNotAwaited())
        if isinstance(outcome, ResolveStop) and not self.process.is_alive and self.is_live:
            self.feed(EndLearned(Exit(code=0, run=self.machine.run)))

    # -- the end of the session ----------------------------------------------------------------

    @rule(odds=ODDS)
    def end_begins(self, odds: int) -> None:
        if odds:
            return
        self.end_session()

    def end_session(self) -> None:
        self.feed(EndBegun())
        # The operations of the leaf were cancelled.
        self.resuming = None
        if self.awaits and self.outcome is None:
            self.feed(StopNotAwaited())
        self.awaits, self.outcome = "", None

    @precondition(lambda self: isinstance(self.machine.state, Ending) and self.is_idle)
    @rule()
    def detach_at_the_end(self) -> None:
        if self.has_gdb and self.machine.word in ("stopped", "running"):
            self.feed(DetachBegun())
            self.let_free()

    @precondition(lambda self: isinstance(self.machine.state, Ending))
    @rule(odds=ODDS)
    def gdb_cannot_be_ended(self, odds: int) -> None:
        if odds:
            return
        self.feed(EndFailed())
        self.is_watched = False

    # -- invariants ----------------------------------------------------------------------------

    def teardown(self) -> None:
        """End the session: whatever has happened, the rank runs free and all was answered."""
        if self.awaits and self.outcome is None:
            # The operation gets a stop, or a reason, once GDB has ended.
            self.gdb_ends(by_kill=True)
            self.deliver_all()
            assert self.outcome is not None, "an operation waits for ever"
        while self.undescribed:
            self.describe()
        self.end_session()
        self.gdb_ends(by_kill=True)
        self.deliver_all()
        self.feed(Abandoned())
        process = self.process
        assert not self.has_gdb
        if process.is_alive:
            assert not process.is_traced and not process.has_breakpoints, self.machine.state
            assert not process.is_stopped, self.machine.state
        assert not self.is_live and not self.is_watched
        for payload, count in self.payloads.items():
            if self.is_ordered and payload not in self.ends:
                assert count + (payload in self.quiet) == 1, payload
        ends = [each for each in self.notified if isinstance(each, Exit)]
        assert len(ends) <= 1, "an end is reported once"
        assert all(each.run in self.numbers for each in self.notified if isinstance(each, Exit))
        assert self.refused_runs <= self.failed_runs or not self.is_ordered


TestRank = Rank.TestCase
TestRank.settings = settings(
    max_examples=400,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# -- what real GDBs have said --------------------------------------------------------------------

RECORDED = sorted(path.name for path in TRANSCRIPTS.glob("*.mi"))
_RUNS = re.compile(r"-exec-(?!run)|-interpreter-exec console \"(?:continue|step|next|finish|until)")


class Replay:
    """A recorded session of a real GDB, fed to a machine."""

    def __init__(self, name: str) -> None:
        self.machine = RankMachine(0, is_strict=True)
        self.actions: list[events.Action] = []
        self.stops: list[tuple[Exit | None, int]] = []
        """Each ``*stopped``: whether it is an end, and the run that it ends."""
        self.runs: dict[int, int] = {}
        self._run = 0
        self._detach = 0
        self.feed(AttachBegun())
        for line in (TRANSCRIPTS / name).read_text("utf-8").split("\n"):
            if match := re.match(r"# (\d+)(-.*)", line):
                self._command(int(match[1]), match[2])
            elif line and not line.startswith("# "):
                self._report(line)

    def feed(self, event: RankEvent) -> None:
        for action in self.machine.on(event):
            self.actions.append(action)
            if isinstance(action, ResolveStop):
                self.feed(Attached(FIRST))

    def _command(self, token: int, command: str) -> None:
        if command.startswith(("-exec-run", "-target-attach")):
            self.feed(AttachSent())
        elif command.startswith("-target-detach"):
            self._detach = token
            self.feed(DetachBegun())
            self.feed(FreeSent())
        elif _RUNS.match(command) and isinstance(self.machine.motion, Stopped):
            self.runs[token] = self._run
            self._run = token
            self.feed(RunSent(token))

    def _report(self, text: str) -> None:
        line = cut(text)
        if line.kind == "*" and line.name == "stopped":
            end = decode.exit_of(line.payload, run=0)
            self.stops.append((end, self._run))
            self.feed(HasStopped(len(self.stops), end))
        elif line.kind == "*":
            self.feed(IsRunning())
        elif line.kind == "=" and line.name == "thread-group-exited":
            self.feed(LostProcess())
        elif line.kind == "^" and line.token in self.runs and line.name == "error":
            before = self.runs.pop(line.token)
            if self.machine.word == "running":
                self.feed(RunFailed(Result(line.name, line.payload).message))
            else:
                self.feed(RunRefused(line.token, before))
                self._run = before
        elif line.kind == "^" and line.token == self._detach and line.name == "done":
            self.feed(Freed())

    def all(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.actions if isinstance(each, kind)]


@pytest.mark.parametrize("name", RECORDED)
def test_every_stop_of_a_recorded_session_is_handed_on_once(name: str) -> None:
    replay = Replay(name)
    resolved, reported = replay.all(ResolveStop), replay.all(ReportStop)
    ends = [each.event for each in replay.all(Notify) if isinstance(each.event, Exit)]
    assert len(resolved) + len(reported) + len(ends) == len(replay.stops)
    payloads = [each.payload for each in (*resolved, *reported)]
    assert len(payloads) == len(set(payloads))
    wanted = [run for end, run in replay.stops[1:] if end is None]
    assert [each.run for each in reported] == wanted
    if ends:
        assert isinstance(replay.machine.state, Exited)
        assert (ends[0].code, ends[0].signal) == (replay.stops[-1][0].code, ends[0].signal)  # type: ignore[union-attr]


def test_recorded_sessions_end_as_they_did() -> None:
    states = {name: Replay(name).machine for name in RECORDED}
    for version in ("13.1", "18.1"):
        exited = states[f"session-app-gdb{version}.mi"].state
        assert isinstance(exited, Exited) and exited.end is not None and exited.end.code == 42
        crashed = states[f"session-crash-gdb{version}.mi"].last_event
        assert isinstance(crashed, Exit) and crashed.signal == "SIGSEGV"
        killed = states[f"session-attach-gdb{version}.mi"].state
        assert isinstance(killed, Controlled) and killed.has_lost_process
    assert isinstance(states["attach-gdb13.1.mi"].state, Detached)


# -- single steps --------------------------------------------------------------------------------


def controlled(*more: RankEvent) -> RankMachine:
    """Return a machine of a rank that is stopped under its debugger, after *more*."""
    machine = RankMachine(0, is_strict=True)
    attach = (AttachBegun(), AttachSent(), HasStopped("first"), Attached(FIRST))
    for event in (*attach, *more):
        machine.on(event)
    return machine


def test_a_rank_is_interrupted_and_a_late_signal_swallowed() -> None:
    machine = controlled(RunSent(5), IsRunning())
    assert machine.on(InterruptWanted()) == (Arm(),)
    assert machine.motion == Interrupting(5)
    # It comes to a breakpoint before GDB knows of the signal: no signal is sent.
    assert machine.on(HasStopped("hit")) == (Disarm(), ReportStop("hit", 5, True, 2))
    assert machine.on(Armed()) == ()
    assert machine.on(InterruptWanted()) == ()
    machine.on(RunSent(6))
    machine.on(IsRunning())
    machine.on(InterruptWanted())
    assert machine.on(Armed()) == (SendSignal(),)
    assert machine.on(HasStopped("signal")) == (Disarm(), ReportStop("signal", 6, True, 3))


def test_a_rank_that_is_about_to_run_is_interrupted_once_it_runs() -> None:
    machine = controlled(RunSent(5))
    assert machine.word == "stopped" and machine.moves and not machine.is_at_rest
    assert machine.on(InterruptWanted()) == ()
    assert machine.motion == Resuming(5, 0, "wanted")
    assert machine.on(IsRunning()) == (Arm(),)
    assert machine.motion == Interrupting(5)
    refused = controlled(RunSent(5), InterruptWanted())
    assert refused.on(RunRefused(5, 0)) == ()
    assert refused.motion == Stopped(0)


def test_a_pending_interrupt_is_drained_without_a_signal() -> None:
    machine = controlled(DetachBegun(), StopAwaited(), RunSent(0, is_armed=True))
    assert machine.on(IsRunning()) == ()
    assert machine.on(HasStopped("drained")) == (Disarm(), ResolveStop("drained"))
    # A run that is refused leaves GDB as it was.
    refused = controlled(DetachBegun(), StopAwaited(), RunSent(0, is_armed=True))
    assert refused.on(RunRefused(0, 0)) == (Disarm(),)


def test_a_stop_that_comes_before_the_run_belongs_to_the_run_before() -> None:
    machine = controlled(RunSent(5), IsRunning(), HasStopped("a"), RunSent(6))
    assert machine.on(HasStopped("late")) == (ReportStop("late", 5, False, 3),)
    machine.on(IsRunning())
    assert machine.on(HasStopped("own")) == (ReportStop("own", 6, True, 4),)


def test_a_run_that_fails_late_is_reported_as_a_stop() -> None:
    machine = controlled(RunSent(5), IsRunning())
    assert machine.on(RunFailed("no")) == (ReportRefusedRun("no", 5),)
    assert machine.motion == Stopped(5)
    machine = controlled(RunSent(5), IsRunning(), InterruptWanted())
    assert machine.on(RunFailed("no")) == (Disarm(), ReportRefusedRun("no", 5))
    machine = controlled(StopAwaited(), RunSent(0), IsRunning())
    assert machine.on(RunFailed("no")) == (FailStop("no"),)


def test_commands_of_breakpoints_that_continue_are_reported() -> None:
    machine = controlled(RunSent(5), IsRunning(), HasStopped("hit"))
    assert machine.on(IsRunning()) == (Notify(RunningEvent(run=5)),)
    # Several reports of one run are one.
    assert machine.on(IsRunning()) == ()
    # The user's own command was behind that, and is refused.
    machine = controlled(RunSent(5), IsRunning(), HasStopped("hit"), RunSent(6))
    assert machine.on(IsRunning()) == ()
    machine.on(RunRefused(6, 5))
    assert machine.motion == Running(5)


def test_a_debugger_that_dies_leaves_a_repaired_rank() -> None:
    machine = controlled(RunSent(5), IsRunning())
    loss = GoneEvent(why="killed")
    assert machine.on(DebuggerEnded("killed")) == (StopWatching(forgets=False), Repair(loss))
    assert machine.word == "gone" and machine.on(HasStopped("late")) == ()
    assert machine.on(ProcessEnded(Exit(code=0))) == ()
    # While it attaches, another one may be tried: then that is no loss.
    machine = RankMachine(0, is_strict=True)
    for event in (AttachBegun(is_retried=True), AttachSent()):
        machine.on(event)
    assert machine.on(DebuggerEnded("killed")) == (
        FailStop("killed"),
        StopWatching(forgets=False),
        Repair(None),
    )
    # Before it has touched the rank there is nothing to repair.
    machine = RankMachine(0, is_strict=True)
    machine.on(AttachBegun())
    assert machine.on(DebuggerEnded("killed")) == (StopWatching(forgets=False), Notify(loss))


@pytest.mark.parametrize("is_free", [True, False])
def test_a_debugger_that_was_told_to_end_when_the_rank_is_free(is_free: bool) -> None:
    for begin in (DetachBegun(), EndBegun()):
        machine = controlled(begin, FreeSent())
        actions = machine.on(DebuggerEnded("it ended", is_free))
        if is_free:
            assert actions == (StopWatching(), ForgetBreakpoints())
            assert isinstance(machine.state, Detached) and machine.current_event is None
        else:
            assert isinstance(machine.state, Gone)
            assert any(isinstance(each, Repair) for each in actions)


def test_a_process_that_ends_unnoticed_ends_its_debugger() -> None:
    end = Exit(code=3, run=0)
    machine = controlled()
    assert machine.on(ProcessEnded(end)) == (
        StopWatching(),
        ForgetBreakpoints(),
        Notify(end),
        KillDebugger(),
    )
    assert machine.current_event == end
    assert machine.on(DebuggerEnded("killed")) == (StopWatching(forgets=False),)
    assert machine.word == "exited"


def test_a_detach_that_fails_keeps_the_rank() -> None:
    machine = controlled(RunSent(5), IsRunning(), DetachBegun(), StopAwaited())
    assert machine.is_detaching and machine.on(InterruptWanted()) == (Arm(),)
    machine.on(StopNotAwaited())
    machine.on(DetachFailed())
    assert machine.state == Controlled(Interrupting(5))
    assert machine.on(HasStopped("late")) == (Disarm(), ReportStop("late", 5, True, 2))


def test_nothing_is_reported_once_the_session_ends() -> None:
    machine = controlled(RunSent(5), IsRunning(), EndBegun())
    assert machine.is_detaching and not machine.is_at_rest
    assert machine.on(HasStopped("hit")) == ()
    assert machine.on(IsRunning()) == ()
    assert machine.on(DebuggerEnded("ended")) == (StopWatching(forgets=False), Repair(None))
    machine.on(Abandoned())
    assert machine.word == "gone"
    # One that cannot be ended has its rank still; its end is a loss then.
    machine = controlled(EndBegun(), EndFailed())
    assert machine.on(DebuggerEnded("ended")) == (
        StopWatching(forgets=False),
        Repair(GoneEvent(why="ended")),
    )


def test_a_killed_rank_has_exited() -> None:
    machine = controlled(RunSent(5), IsRunning())
    end = Exit(signal="SIGKILL", run=5)
    assert machine.on(Killed()) == (
        StopWatching(),
        ForgetBreakpoints(),
        Notify(end),
        KillDebugger(),
    )


def test_a_stop_is_awaited_still_after_a_debugger_could_not_be_ended() -> None:
    machine = controlled(RunSent(5), IsRunning(), DetachBegun(), StopAwaited())
    machine.on(EndBegun())
    machine.on(EndFailed())
    assert machine.on(HasStopped("late")) == (ResolveStop("late"),)


@pytest.mark.parametrize(
    ("events_before", "event"),
    [
        ((), IsRunning()),
        ((), HasStopped("x")),
        ((AttachBegun(),), HasStopped("x")),
        ((AttachBegun(),), RunSent(1)),
        ((AttachBegun(),), AttachBegun()),
        ((), Attached(FIRST)),
        ((), StopAwaited()),
        ((), Killed()),
        ((), DetachBegun()),
        ((AttachBegun(), AttachSent()), Freed()),
    ],
)
def test_what_cannot_happen_is_an_error_in_tests_and_logged_in_the_field(
    events_before: tuple[RankEvent, ...], event: RankEvent, caplog: pytest.LogCaptureFixture
) -> None:
    strict, lax = RankMachine(3, is_strict=True), RankMachine(3)
    for each in events_before:
        strict.on(each)
        lax.on(each)
    with pytest.raises(IllegalEventError):
        strict.on(event)
    before = lax.state
    assert lax.on(event) == () and lax.state == before
    assert "rank 3: " in caplog.text and type(event).__name__ in caplog.text
