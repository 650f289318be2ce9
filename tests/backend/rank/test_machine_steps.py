"""Single steps of a rank's machine, and what real GDBs have said, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import Result, cut
from pgdb.backend.rank import events
from pgdb.backend.rank.events import (
    Abandoned,
    Arm,
    Armed,
    AttachBegun,
    Attached,
    AttachSent,
    DebuggerEnded,
    DetachBegun,
    DetachFailed,
    Disarm,
    EndBegun,
    EndFailed,
    FailStop,
    ForgetBreakpoints,
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
    Controlled,
    Detached,
    Exited,
    Gone,
    Interrupting,
    Resuming,
    Running,
    Stopped,
)
from pgdb.records import Exit
from pgdb.records import Gone as GoneEvent
from pgdb.records import Running as RunningEvent
from tests.fakes.modelled_rank import FIRST

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "transcripts"

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
def test_a_debugger_that_was_asked_to_end_when_the_rank_is_free(is_free: bool) -> None:
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
        Notify(end),
        KillDebugger(),
    )


def test_a_killed_rank_has_exited_though_its_debugger_died_meanwhile() -> None:
    machine = controlled(RunSent(5), IsRunning())
    machine.on(DebuggerEnded("an assertion failed"))
    end = Exit(signal="SIGKILL", run=machine.run)
    assert machine.on(Killed()) == (StopWatching(), Notify(end))
    assert machine.word == "exited"


def test_a_debugger_that_ends_its_process_stays() -> None:
    machine = controlled()
    end = Exit(signal="SIGKILL", run=machine.run)
    assert machine.on(Killed(by_debugger=True)) == (StopWatching(), Notify(end))
    assert machine.on(DebuggerEnded("ended")) == (StopWatching(forgets=False),)


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
