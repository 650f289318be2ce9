"""The life of one rank under its debugger, as a state machine.

No I/O and no clock: the caller feeds each event and carries out the actions that :meth:`on`
returns, in their order. Invariants: an operation that awaits a stop gets one, or a reason why none
comes; each stop is handed to the operation that awaits it or is reported, once, with the number of
the run that it ends; a rank whose debugger dies is repaired.
"""

from __future__ import annotations

import logging

from msgspec.structs import replace

from pgdb import records
from pgdb.backend.rank.events import (
    Abandoned,
    Action,
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
from pgdb.backend.rank.protocol import State
from pgdb.backend.rank.states import (
    Acquiring,
    Attaching,
    Controlled,
    Detached,
    Detaching,
    Ending,
    Exited,
    Freeing,
    FreeingAtEnd,
    Gone,
    Interrupting,
    Live,
    Motion,
    New,
    RankState,
    Resuming,
    Running,
    Stopped,
    Unattached,
)
from pgdb.records import Event, Exit

LOG = logging.getLogger(__name__)

Actions = tuple[Action, ...]

NOTHING: Actions = ()


class IllegalEventError(Exception):
    """Event that cannot happen in this state."""


class RankMachine:
    """The state of one rank, and what follows from each event."""

    __slots__ = ("_known", "is_strict", "last_event", "rank", "state", "stops")

    def __init__(self, rank: int, *, is_strict: bool = False) -> None:
        self.rank = rank
        self.is_strict = is_strict
        """Whether an event that cannot happen in a state raises; else it is logged."""
        self.state: RankState = New()
        # A state is immutable; its word is asked for several times in each operation.
        self._known: tuple[RankState, State] = (self.state, "new")
        self.last_event: Event | None = None
        """Latest stop, end, start of a run, or loss that was reported or answered."""
        self.stops = 0
        """Number of stops that the debugger has reported."""

    # -- what the state means ------------------------------------------------------------------

    @property
    def word(self) -> State:
        """The state as the leaf sees it."""
        if self._known[0] is not self.state:
            self._known = (self.state, self._find_word())
        return self._known[1]

    def _find_word(self) -> State:
        match self.state:
            case New():
                return "new"
            case Exited():
                return "exited"
            case Detached():
                return "detached"
            case Gone():
                return "gone"
        match self.motion:
            case Stopped() | Resuming():
                return "stopped"
            case Running() | Interrupting():
                return "running"
            case _:
                return "new"

    @property
    def motion(self) -> Motion:
        """Motion of the process under its debugger."""
        return self.state.motion if isinstance(self.state, Live) else Unattached()

    @property
    def run(self) -> int:
        """Number of the request that set the rank running last, 0 for none."""
        return self.motion.run

    @property
    def moves(self) -> bool:
        """Whether the rank runs, or a command that sets it running was sent."""
        return isinstance(self.motion, Resuming | Running | Interrupting)

    @property
    def is_at_rest(self) -> bool:
        """Whether the rank is stopped and nothing sets it running or detaches it."""
        return isinstance(self.motion, Stopped) and not self.is_detaching

    @property
    def is_detaching(self) -> bool:
        """Whether the rank is being detached, or its debugger ended."""
        return isinstance(self.state, Detaching | Freeing | Ending)

    @property
    def is_retried(self) -> bool:
        """Whether another debugger is tried if this one dies now."""
        return isinstance(self.state, Acquiring) and self.state.is_retried

    @property
    def current_event(self) -> Event | None:
        """Current event of the rank; None before the debugger is attached and after a detach."""
        if self.word == "running":
            return records.Running(run=self.run)
        return None if isinstance(self.state, Detached) else self.last_event

    # -- what follows --------------------------------------------------------------------------

    def on(self, event: RankEvent) -> Actions:
        """Take an event; return the actions that follow from it.

        :raises IllegalEventError: if the event cannot happen in this state, and *is_strict*.
        """
        match event:
            case HasStopped():
                return self._on_stopped(event)
            case IsRunning():
                return self._on_running()
            case RunFailed(why=why):
                return self._on_run_failed(why)
            case DebuggerEnded():
                return self._on_debugger_ended(event)
            case ProcessEnded(end=end):
                return self._on_process_ended(end)
            case Described(stop=stop):
                return self._notify(stop)
            case AttachBegun() | AttachSent() | AttachRefused() | Attached():
                return self._on_attach(event)
            case RunSent() | RunRefused() | RunAdopted():
                return self._on_run(event)
            case InterruptWanted():
                return self._on_interrupt()
            case Armed():
                return (SendSignal(),) if isinstance(self.motion, Interrupting) else NOTHING
            case StopAwaited():
                if not isinstance(self.state, Live):
                    return self._illegal(event)
                return self._await(True)
            case StopNotAwaited():
                return self._await(False)
            case LostProcess() | FoundTraced() | FoundFree():
                return self._on_lost_process(event)
            case EndLearned(end=end):
                return self._end(end)
            case Killed():
                return self._on_killed(event)
            case EndBegun() | EndFailed() | Abandoned():
                return self._on_end(event)
            case _:
                return self._on_detach(event)

    def _illegal(self, event: RankEvent) -> Actions:
        if self.is_strict:
            raise IllegalEventError(f"rank {self.rank}: {event} in {self.state}")
        LOG.error("rank %d: %s in %s is ignored", self.rank, event, self.state)
        return NOTHING

    # -- the debugger --------------------------------------------------------------------------

    def _on_stopped(self, event: HasStopped) -> Actions:
        state = self.state
        if isinstance(state, Exited | Detached | Gone):
            return NOTHING
        if isinstance(state, New) or isinstance(state.motion, Unattached):
            return self._illegal(event)
        motion, self.stops = state.motion, self.stops + 1
        # Any other stop takes the interrupt back at once, so that the signal, when it comes late,
        # is swallowed and does not stop a later run.
        actions: Actions = (Disarm(),) if isinstance(motion, Interrupting) else NOTHING
        run = motion.before if isinstance(motion, Resuming) else motion.run
        if not isinstance(motion, Resuming):
            self._move(Stopped(run))
        if state.is_awaited:
            self._await(False)
            return (*actions, ResolveStop(event.payload))
        if isinstance(state, Ending):
            return actions
        if event.end is not None:
            end = replace(event.end, run=run)
            return (*actions, *self._end(end), *self._notify(end))
        was_running = isinstance(motion, Running | Interrupting)
        return (*actions, ReportStop(event.payload, run, was_running, self.stops))

    def _on_running(self) -> Actions:
        state = self.state
        if isinstance(state, Exited | Detached | Gone):
            return NOTHING
        if isinstance(state, New):
            return self._illegal(IsRunning())
        match state.motion:
            case Unattached():
                return self._illegal(IsRunning())
            case Resuming(run=run, interrupt="no"):
                self._move(Running(run))
            case Resuming(run=run, interrupt=interrupt):
                self._move(Interrupting(run))
                return (Arm(),) if interrupt == "wanted" else NOTHING
            case Attaching(run=run):
                self._move(Running(run))
            case Stopped(run=run):
                # Commands attached to a breakpoint continued.
                self._move(Running(run))
                if isinstance(state, Controlled | Detaching):
                    return self._notify(records.Running(run=run))
        return NOTHING

    def _on_run_failed(self, why: str) -> Actions:
        state = self.state
        if isinstance(state, Exited | Detached | Gone):
            return NOTHING
        if isinstance(state, New) or isinstance(state.motion, Unattached):
            return self._illegal(RunFailed(why))
        motion = state.motion
        actions = self._disarm(motion)
        if isinstance(motion, Attaching):
            self._move(Unattached())
        else:
            self._move(Stopped(motion.run))
        if state.is_awaited:
            self._await(False)
            return (*actions, FailStop(why))
        if isinstance(state, Ending) or isinstance(motion, Stopped | Attaching):
            return actions
        return (*actions, ReportRefusedRun(why, motion.run))

    def _on_debugger_ended(self, event: DebuggerEnded) -> Actions:
        state = self.state
        if not isinstance(state, Live):
            return (StopWatching(forgets=False),)
        actions: Actions = (FailStop(event.why),) if state.is_awaited else NOTHING
        if isinstance(state, Freeing | FreeingAtEnd) and event.is_free:
            return (*actions, *self._free())
        loss = None if isinstance(state, Ending) or self.is_retried else records.Gone(event.why)
        self.state = Gone(event.why)
        # Somebody may ask yet how the process has ended.
        actions = (*actions, StopWatching(forgets=False))
        if not isinstance(state.motion, Unattached):
            return (*actions, Repair(loss))
        return (*actions, *(self._notify(loss) if loss is not None else NOTHING))

    def _on_process_ended(self, end: Exit) -> Actions:
        state = self.state
        if not isinstance(state, Live):
            return NOTHING
        actions: Actions = (FailStop("the process has ended"),) if state.is_awaited else NOTHING
        is_quiet = isinstance(state, Ending) or self.is_retried
        actions = (*actions, *self._end(end), *(NOTHING if is_quiet else self._notify(end)))
        # The debugger would keep the remains of the process, for which the launcher waits.
        return (*actions, KillDebugger())

    def _on_lost_process(self, event: LostProcess | FoundTraced | FoundFree) -> Actions:
        if not isinstance(self.state, Controlled):
            return NOTHING
        if isinstance(event, FoundFree):
            return (*self._free(), *self._notify(records.Gone(event.why)))
        self.state = replace(self.state, has_lost_process=isinstance(event, LostProcess))
        return NOTHING

    # -- operations ----------------------------------------------------------------------------

    def _on_attach(self, event: AttachBegun | AttachSent | AttachRefused | Attached) -> Actions:
        state = self.state
        match event:
            case AttachBegun(is_retried=is_retried) if isinstance(state, New):
                self.state = Acquiring(Unattached(), is_retried)
            case AttachSent() if isinstance(state, Acquiring | Ending):
                self.state = replace(state, motion=Attaching(), is_awaited=True)
            case AttachRefused(has_ended=True) if isinstance(state, Acquiring | Ending):
                self.state = Exited(None)
                return (StopWatching(), KillDebugger())
            case AttachRefused() if isinstance(state, Acquiring):
                self.state = New()
                return (StopWatching(),)
            case Attached(stop=stop) if isinstance(state, Acquiring):
                self.state, self.last_event = Controlled(state.motion), stop
            case AttachRefused() | Attached() if not isinstance(state, New | Controlled):
                pass  # the debugger was ended, or has died, meanwhile
            case _:
                return self._illegal(event)
        return NOTHING

    def _on_run(self, event: RunSent | RunRefused | RunAdopted) -> Actions:
        motion = self.motion
        match event:
            case RunSent(run=run, is_armed=is_armed):
                if not isinstance(motion, Stopped | Resuming):
                    return self._illegal(event)
                # The report that an earlier run has begun may still be in flight.
                before = motion.before if isinstance(motion, Resuming) else motion.run
                self._move(Resuming(run, before, "armed" if is_armed else "no"))
            case RunRefused(run=run, before=before):
                if isinstance(motion, Resuming):
                    self._move(Stopped(before))
                    return self._disarm(motion)
                if motion.run == run and not isinstance(motion, Unattached):
                    # Commands attached to a breakpoint had continued before.
                    self._move(replace(motion, run=before))
            case RunAdopted(run=run):
                if not isinstance(motion, Unattached):
                    self._move(replace(motion, run=run))
        return NOTHING

    def _on_interrupt(self) -> Actions:
        match self.motion:
            case Running(run=run) | Interrupting(run=run):
                self._move(Interrupting(run))
                return (Arm(),)
            case Resuming(interrupt="no") as motion:
                self._move(replace(motion, interrupt="wanted"))
        return NOTHING

    def _on_detach(self, event: DetachBegun | DetachFailed | FreeSent | Freed) -> Actions:
        match event, self.state:
            case DetachBegun(), Controlled(motion=motion, is_awaited=is_awaited):
                self.state = Detaching(motion, is_awaited)
            case DetachFailed(), Detaching(motion=motion) | Freeing(motion=motion):
                self.state = Controlled(motion)
            case FreeSent(), Detaching(motion=motion):
                self.state = Freeing(motion)
            case DetachFailed(), Ending(motion=motion, is_awaited=is_awaited):
                self.state = Ending(motion, is_awaited)
            case FreeSent(), Ending(motion=motion, is_awaited=is_awaited):
                self.state = FreeingAtEnd(motion, is_awaited)
            case Freed(), Freeing() | Ending():
                return self._free()
            case DetachBegun(), Ending():
                pass
            case ((DetachFailed() | Freed()), Exited() | Detached() | Gone()):
                pass
            case _:
                return self._illegal(event)
        return NOTHING

    def _on_killed(self, event: Killed) -> Actions:
        state = self.state
        end = Exit(signal="SIGKILL", run=self.run)
        if isinstance(state, Gone):
            # The debugger has died while the end of its process was awaited.
            return (*self._end(end), *self._notify(end))
        if not isinstance(state, Live) or isinstance(state.motion, Unattached | Attaching):
            return self._illegal(event)
        actions: Actions = (FailStop("the process was killed"),) if state.is_awaited else NOTHING
        actions = (*actions, *self._end(end))
        if not isinstance(state, Ending):
            actions = (*actions, *self._notify(end))
        return actions if event.by_debugger else (*actions, KillDebugger())

    def _on_end(self, event: EndBegun | EndFailed | Abandoned) -> Actions:
        state = self.state
        match event:
            case EndBegun() if isinstance(state, Live):
                kind = FreeingAtEnd if isinstance(state, Freeing | FreeingAtEnd) else Ending
                self.state = kind(state.motion, state.is_awaited)
            case EndFailed() if isinstance(state, Ending):
                # Once the debugger ends after all, the rank is repaired as after any other end.
                self.state = Controlled(state.motion, state.is_awaited)
                return NOTHING
            case Abandoned() if not isinstance(state, Exited):
                self.state = Gone("")
        return (StopWatching(),)

    # -- parts ---------------------------------------------------------------------------------

    def _move(self, motion: Motion) -> None:
        assert isinstance(self.state, Live)
        self.state = replace(self.state, motion=motion)

    def _await(self, is_awaited: bool) -> Actions:
        if isinstance(self.state, Live):
            self.state = replace(self.state, is_awaited=is_awaited)
        return NOTHING

    def _disarm(self, motion: Motion) -> Actions:
        is_armed = isinstance(motion, Interrupting) or (
            isinstance(motion, Resuming) and motion.interrupt == "armed"
        )
        return (Disarm(),) if is_armed else NOTHING

    def _notify(self, event: Event) -> Actions:
        self.last_event = event
        return (Notify(event),)

    def _end(self, end: Exit) -> Actions:
        # The debugger keeps its breakpoints, and lists them.
        self.state, self.last_event = Exited(end), end
        return (StopWatching(),)

    def _free(self) -> Actions:
        self.state = Detached()
        return (StopWatching(), ForgetBreakpoints())
