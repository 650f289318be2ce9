"""The life of a rank against a model of GDB that is late, repeats itself, dies, or says nothing."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pgdb.backend.rank.events import (
    Abandoned,
    AttachBegun,
    Attached,
    AttachRefused,
    AttachSent,
    DebuggerEnded,
    Described,
    DetachBegun,
    DetachFailed,
    EndFailed,
    EndLearned,
    Freed,
    FreeSent,
    HasStopped,
    InterruptWanted,
    IsRunning,
    Killed,
    LostProcess,
    ProcessEnded,
    ResolveStop,
    RunAdopted,
    RunFailed,
    RunRefused,
    RunSent,
    StopNotAwaited,
)
from pgdb.backend.rank.states import (
    Acquiring,
    Controlled,
    Detached,
    Detaching,
    Ending,
    Exited,
    New,
    Stopped,
    Unattached,
)
from pgdb.records import Exit, Stop
from pgdb.records import Gone as GoneEvent
from tests.fakes.modelled_rank import FIRST, ModelledRank

ODDS = st.integers(0, 39).map(lambda number: (number + 20) % 40)
"""Rules that end a life act in one of forty cases, so that lives are long: where the number is 20,
since Hypothesis prefers those at the ends of a range."""


class Rank(ModelledRank, RuleBasedStateMachine):
    """A rank that does anything in any order."""

    # -- attaching -----------------------------------------------------------------------------

    # In most lives Hypothesis leaves out some rules. Without a start that is further on, few lives
    # would get beyond the attach.
    @initialize(is_retried=st.booleans(), start=st.sampled_from(["running", "stopped", "new"]))
    def begin(self, is_retried: bool, start: str) -> None:
        assert self.machine.current_event is None and self.machine.word == "new"
        self.feed(AttachBegun(is_retried))
        self.is_watched = self.has_gdb = True
        if start != "new":
            self.attach(is_refused=False, says_running=False)
            self.deliver_all()
            self.attached(leads=False)
            assert self.machine.word == "stopped"
        if start == "running":
            self.resume()
            self.gdb_resumes(is_refused=False, fails_later=False)
            self.deliver_all()
            assert self.machine.word == "running" and self.process.has_breakpoints

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
        self.print_running()
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
        self.print_running()

    @precondition(lambda self: self.is_controlled and self.process.is_stopped)
    @rule()
    def rank_stops_in_a_function_that_gdb_has_called(self) -> None:
        self.print_stop()

    # GDB follows the parent of a fork; the front end refuses the other mode.
    @precondition(lambda self: self.process.runs and self.process.is_traced and self.has_gdb)
    @rule(is_caught=st.booleans())
    def rank_forks(self, is_caught: bool) -> None:
        if is_caught:
            self.held_children += 1
            self.process.is_stopped = True
            self.print_stop()
        else:
            self.reports.append(LostProcess())

    @precondition(lambda self: self.process.runs and self.process.is_traced and self.has_gdb)
    @rule(way=st.sampled_from(["runs on", "is caught", "cannot be read"]))
    def rank_executes_another_program(self, way: str) -> None:
        # The new image has no breakpoint until GDB has inserted its own. A signal stays pending.
        self.process.has_breakpoints = way == "runs on"
        self.process.is_stopped = way != "runs on"
        if way == "is caught":
            self.print_stop()
        elif way == "cannot be read":
            self.failed_runs += 1
            self.reports.append(RunFailed("Cannot access memory."))

    @precondition(
        lambda self: self.is_controlled and getattr(self.machine.state, "has_lost_process", False)
    )
    @rule()
    def an_operation_ends(self) -> None:
        process, motion, count = self.process, self.machine.motion, len(self.notified)
        self.find_whether_free()
        if process.is_traced or not process.is_alive:
            assert self.machine.state == Controlled(motion), "a child is not the rank"
            assert len(self.notified) == count

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
    def kernel_reports(self) -> None:
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
        self.deliver_next()

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
        self.find_whether_free()
        if is_free:
            assert isinstance(self.machine.state, Detached)
            assert isinstance(self.notified[-1], GoneEvent)

    # -- detaching -----------------------------------------------------------------------------

    @precondition(lambda self: self.is_controlled)
    @rule()
    def detach(self) -> None:
        if self.machine.word in ("stopped", "running"):
            self.feed(DetachBegun())
            self.let_free()

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

    @invariant()
    def a_detached_rank_has_no_debugger(self) -> None:
        if isinstance(self.machine.state, Detached) and self.process.is_alive:
            assert not self.process.is_traced and not self.process.has_breakpoints

    @invariant()
    def a_living_rank_has_no_end(self) -> None:
        if self.process.is_alive:
            assert not isinstance(self.machine.state, Exited)

    @invariant()
    def events_are_of_a_rank_that_is_there(self) -> None:
        if self.process.is_traced and self.process.is_alive and self.has_gdb:
            assert not any(isinstance(each, GoneEvent) for each in self.notified)

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


TestRank = pytest.mark.slow(Rank.TestCase)
TestRank.settings = settings(
    max_examples=400,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
