"""Events that a :class:`~pgdb.backend.rank.machine.RankMachine` takes, and actions it returns."""

from __future__ import annotations

from typing import Any

import msgspec

from pgdb.records import Event, Exit

# -- events of the operations on a rank ----------------------------------------------------


class AttachBegun(msgspec.Struct, frozen=True):
    """Start of a debugger that is to attach to the rank."""

    is_retried: bool = False
    """Whether PGDB tries another debugger if this one dies, so that the death is no loss."""


class AttachSent(msgspec.Struct, frozen=True):
    """Beginning of the attachment; the first stop of the debugger is awaited."""


class AttachRefused(msgspec.Struct, frozen=True):
    """Failure of the attachment."""

    has_ended: bool
    """Whether the reason is that the process has ended."""


class Attached(msgspec.Struct, frozen=True):
    """Completion of the first stop, which is the answer to the request that attached."""

    stop: Event


class StopAwaited(msgspec.Struct, frozen=True):
    """Claim of an operation to the next stop, which is not reported then."""


class StopNotAwaited(msgspec.Struct, frozen=True):
    """End of the claim of an operation that awaited a stop."""


class RunSent(msgspec.Struct, frozen=True):
    """Sending of a command that sets the rank running."""

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
    """Adoption of a run that a command of the user's has started; it gets that request's number."""

    run: int


class InterruptWanted(msgspec.Struct, frozen=True):
    """Request that the rank stop."""


class Armed(msgspec.Struct, frozen=True):
    """Readiness of the debugger to stop at our interrupt signal from now on."""


class DetachBegun(msgspec.Struct, frozen=True):
    """Beginning of a detachment by a user's request."""


class DetachFailed(msgspec.Struct, frozen=True):
    """Failure to detach the rank; the debugger keeps it."""


class FreeSent(msgspec.Struct, frozen=True):
    """Sending of the command to detach, and to end once that is done."""


class Freed(msgspec.Struct, frozen=True):
    """Detachment of the debugger from the rank."""


class FoundFree(msgspec.Struct, frozen=True):
    """Finding that the rank runs without a debugger after a command of the user's."""

    why: str


class FoundTraced(msgspec.Struct, frozen=True):
    """Finding that the rank still has its debugger, although that has lost a process."""


class EndLearned(msgspec.Struct, frozen=True):
    """Finding of an operation on the rank that the program has ended, which is its answer."""

    end: Exit


class Killed(msgspec.Struct, frozen=True):
    """SIGKILL for the rank's process, from us or soon from its debugger."""

    by_debugger: bool = False
    """Whether the debugger ends the process, and stays."""


class EndBegun(msgspec.Struct, frozen=True):
    """Beginning of the end of the debugger: no event is reported any longer."""


class EndFailed(msgspec.Struct, frozen=True):
    """Failure to end the debugger."""


class Abandoned(msgspec.Struct, frozen=True):
    """End of the debugger by force."""


# -- events of the debugger and of the kernel ----------------------------------------------


class HasStopped(msgspec.Struct, frozen=True):
    """Report of the debugger about a stop, or about the end of the process."""

    payload: Any = None
    end: Exit | None = None
    """The end, if the process has ended; its run is filled in by the machine."""


class IsRunning(msgspec.Struct, frozen=True):
    """Report of the debugger that the rank runs."""


class RunFailed(msgspec.Struct, frozen=True):
    """Finding that the rank does not run after all, although the debugger had reported it."""

    why: str


class LostProcess(msgspec.Struct, frozen=True):
    """Loss of a process by the debugger: the rank's, or a child's that it followed."""


class DebuggerEnded(msgspec.Struct, frozen=True):
    """End of the debugger."""

    why: str
    is_free: bool = False
    """Whether the process has no debugger, or has ended."""


class ProcessEnded(msgspec.Struct, frozen=True):
    """Report of the kernel that the process has ended, which the debugger does not report."""

    end: Exit


class Described(msgspec.Struct, frozen=True):
    """Completion of the event of a :class:`ReportStop`, with its frame."""

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
    """Order to have the debugger stop at our interrupt signal, then to feed :class:`Armed`."""


class Disarm(msgspec.Struct, frozen=True):
    """Order to have the debugger ignore our interrupt signal."""


class SendSignal(msgspec.Struct, frozen=True):
    """Order to send the interrupt signal to the rank."""


class ReportStop(msgspec.Struct, frozen=True):
    """Order to find out where the rank stopped, then to feed :class:`Described`."""

    payload: Any
    run: int
    was_running: bool
    count: int
    """Number of the rank's stops, this one included."""


class ReportRefusedRun(msgspec.Struct, frozen=True):
    """Order to report that the rank is stopped as it cannot run, as :class:`ReportStop`."""

    why: str
    run: int


class ResolveStop(msgspec.Struct, frozen=True):
    """Order to hand a stop to the operation that awaits it."""

    payload: Any


class FailStop(msgspec.Struct, frozen=True):
    """Order to report to the operation that awaits a stop that none will come."""

    why: str


class Notify(msgspec.Struct, frozen=True):
    """Order to report an event of the rank."""

    event: Event


class Repair(msgspec.Struct, frozen=True):
    """Order to remove what the dead debugger left, and to let the rank run; then to notify."""

    then: Event | None = None


class StopWatching(msgspec.Struct, frozen=True):
    """Order to stop watching the rank's process."""

    forgets: bool = True
    """Whether nobody will ask how the process ended."""


class ForgetBreakpoints(msgspec.Struct, frozen=True):
    """Order to forget the breakpoints: the rank has none any longer."""


class KillDebugger(msgspec.Struct, frozen=True):
    """Order to end the debugger at once: it has no live rank."""


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
