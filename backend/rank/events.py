"""Events that a :class:`~pgdb.backend.rank.machine.RankMachine` takes, and actions it returns."""

from __future__ import annotations

from typing import Any

import msgspec

from pgdb.records import Event, Exit

# -- events of the operations on a rank ----------------------------------------------------


class AttachBegun(msgspec.Struct, frozen=True):
    """A debugger is being started to attach to the rank."""

    is_retried: bool = False
    """Whether PGDB tries another debugger if this one dies, so that the death is no loss."""


class AttachSent(msgspec.Struct, frozen=True):
    """The debugger attaches; its first stop is awaited."""


class AttachRefused(msgspec.Struct, frozen=True):
    """The debugger is not attached."""

    has_ended: bool
    """Whether the reason is that the process has ended."""


class Attached(msgspec.Struct, frozen=True):
    """The first stop of the rank is complete; it is the answer to the request that attached."""

    stop: Event


class StopAwaited(msgspec.Struct, frozen=True):
    """The next stop belongs to an operation and is not reported."""


class StopNotAwaited(msgspec.Struct, frozen=True):
    """The operation that awaited a stop has given up."""


class RunSent(msgspec.Struct, frozen=True):
    """A command that sets the rank running was sent."""

    run: int
    """Number of the request; its later stop carries that number."""
    is_armed: bool = False
    """Whether a pending interrupt of ours will stop the run."""


class RunRefused(msgspec.Struct, frozen=True):
    """The debugger did not set the rank running."""

    run: int
    before: int
    """Number of the run before."""


class RunAdopted(msgspec.Struct, frozen=True):
    """A command of the user's has set the rank running; the run gets that request's number."""

    run: int


class InterruptWanted(msgspec.Struct, frozen=True):
    """The rank is to stop."""


class Armed(msgspec.Struct, frozen=True):
    """The debugger stops at our interrupt signal from now on."""


class DetachBegun(msgspec.Struct, frozen=True):
    """A user's request detaches the rank."""


class DetachFailed(msgspec.Struct, frozen=True):
    """The rank could not be detached; the debugger keeps it."""


class FreeSent(msgspec.Struct, frozen=True):
    """The debugger got the command to detach, and to end once that is done."""


class Freed(msgspec.Struct, frozen=True):
    """The debugger has detached from the rank."""


class FoundFree(msgspec.Struct, frozen=True):
    """The rank runs without a debugger after a command of the user's."""

    why: str


class FoundTraced(msgspec.Struct, frozen=True):
    """The rank still has its debugger, although the debugger has lost a process."""


class EndLearned(msgspec.Struct, frozen=True):
    """An operation on the rank has learned that the program has ended, and answers that."""

    end: Exit


class Killed(msgspec.Struct, frozen=True):
    """The rank's process was sent SIGKILL, or its debugger is about to end it."""

    by_debugger: bool = False
    """Whether the debugger ends the process, and stays."""


class EndBegun(msgspec.Struct, frozen=True):
    """The debugger is being ended: no event is reported any longer."""


class EndFailed(msgspec.Struct, frozen=True):
    """The debugger could not be ended."""


class Abandoned(msgspec.Struct, frozen=True):
    """The debugger was ended by force."""


# -- events of the debugger and of the kernel ----------------------------------------------


class HasStopped(msgspec.Struct, frozen=True):
    """The debugger reports a stop, or the end of the process."""

    payload: Any = None
    end: Exit | None = None
    """The end, if the process has ended; its run is filled in by the machine."""


class IsRunning(msgspec.Struct, frozen=True):
    """The debugger reports that the rank runs."""


class RunFailed(msgspec.Struct, frozen=True):
    """The rank does not run after all, although the debugger had reported that it does."""

    why: str


class LostProcess(msgspec.Struct, frozen=True):
    """The debugger has lost a process: the rank's, or a child's that it followed."""


class DebuggerEnded(msgspec.Struct, frozen=True):
    """The debugger has ended."""

    why: str
    is_free: bool = False
    """Whether the process has no debugger, or has ended."""


class ProcessEnded(msgspec.Struct, frozen=True):
    """The kernel reports that the process has ended, and the debugger does not."""

    end: Exit


class Described(msgspec.Struct, frozen=True):
    """The event of a :class:`ReportStop` is complete, with its frame."""

    stop: Event


RankEvent = (
    AttachBegun
    | AttachSent
    | AttachRefused
    | Attached
    | StopAwaited
    | StopNotAwaited
    | RunSent
    | RunRefused
    | RunAdopted
    | InterruptWanted
    | Armed
    | DetachBegun
    | DetachFailed
    | FreeSent
    | Freed
    | FoundFree
    | FoundTraced
    | EndLearned
    | Killed
    | EndBegun
    | EndFailed
    | Abandoned
    | HasStopped
    | IsRunning
    | RunFailed
    | LostProcess
    | DebuggerEnded
    | ProcessEnded
    | Described
)


# -- actions ---------------------------------------------------------------------------------


class Arm(msgspec.Struct, frozen=True):
    """Make the debugger stop at our interrupt signal, then feed :class:`Armed`."""


class Disarm(msgspec.Struct, frozen=True):
    """Make the debugger ignore our interrupt signal."""


class SendSignal(msgspec.Struct, frozen=True):
    """Send the interrupt signal to the rank."""


class ReportStop(msgspec.Struct, frozen=True):
    """Find out where the rank stopped, then feed :class:`Described`."""

    payload: Any
    run: int
    was_running: bool
    count: int
    """Number of the rank's stops, this one included."""


class ReportRefusedRun(msgspec.Struct, frozen=True):
    """Report that the rank is stopped because it cannot run, as :class:`ReportStop`."""

    why: str
    run: int


class ResolveStop(msgspec.Struct, frozen=True):
    """Hand a stop to the operation that awaits it."""

    payload: Any


class FailStop(msgspec.Struct, frozen=True):
    """Report to the operation that awaits a stop that none will come."""

    why: str


class Notify(msgspec.Struct, frozen=True):
    """Report an event of the rank."""

    event: Event


class Repair(msgspec.Struct, frozen=True):
    """Remove what the dead debugger left in the rank, and let the rank run; then notify."""

    then: Event | None = None


class StopWatching(msgspec.Struct, frozen=True):
    """Stop watching the rank's process."""

    forgets: bool = True
    """Whether nobody will ask how the process ended."""


class ForgetBreakpoints(msgspec.Struct, frozen=True):
    """Forget the breakpoints: the rank has none any longer."""


class KillDebugger(msgspec.Struct, frozen=True):
    """End the debugger at once: it has no live rank."""


Action = (
    Arm
    | Disarm
    | SendSignal
    | ReportStop
    | ReportRefusedRun
    | ResolveStop
    | FailStop
    | Notify
    | Repair
    | StopWatching
    | ForgetBreakpoints
    | KillDebugger
)
