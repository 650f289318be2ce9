"""The interface between a leaf and the debuggers of its ranks.

A leaf knows this module and one :data:`OpenFactory`. GDB on a process is one implementation
(:mod:`pgdb.backend.gdb.debugger`); a table of canned answers is another one, in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from pgdb.overlay.messages import AnyOperation, Setup
from pgdb.overlay.operation import Capability
from pgdb.records import Event, Exit, Record

if TYPE_CHECKING:
    from pgdb.files.delivery import Delivery

State = Literal["new", "stopped", "running", "exited", "detached", "gone"]
"""State of a rank, as its leaf sees it. ``gone``: the debugger has died, the rank runs on."""


class NeedsStopError(Exception):
    """Operation that needs a stopped rank, while this rank runs."""


class HasEndedError(Exception):
    """The end of the rank, and of its debugger."""


EVERYTHING = Capability.RUN | Capability.BREAKPOINTS
"""Capabilities of a debugger that controls a live process."""


class RankDebugger(Protocol):
    """The debugger that controls one rank.

    Every method may be called at any time; the debugger brings the calls into an order. Whatever
    happens, the rank ends up running free without a breakpoint, unless it was killed.
    """

    @property
    def rank(self) -> int:
        """Number of the rank in MPI_COMM_WORLD."""

    @property
    def capabilities(self) -> Capability:
        """Kinds of operations that :meth:`perform` carries out."""

    @property
    def state(self) -> State:
        """State of the rank."""

    @property
    def current_event(self) -> Event | None:
        """Last event of the rank; None before the debugger is attached and once it is detached."""

    @property
    def program_pid(self) -> int | None:
        """Process id of the program: 0 if no debugger was ever attached, None if it has ended."""

    async def attach(
        self, pid: int, request_id: int, *, is_retried: bool = False, is_held_back: bool = False
    ) -> Record:
        """Attach to the running process *pid* and return where it stopped.

        :param is_retried: another debugger is tried if this one dies while it attaches, so that
            the death is not notified as a loss.
        :param is_held_back: :meth:`abandon` has stopped the process, which is to run on later.
        :raises DebuggerError: if the debugger cannot be started, refuses, or dies.
        """

    async def acquire_held(self, pid: int, request_id: int, *, runs_on: bool = True) -> Record:
        """Attach to the held process *pid*, let it execute its program, and stop that in ``main``.

        :param runs_on: the rank runs on without a debugger if that fails; else it stays held.
        :raises DebuggerError: if the debugger cannot be started, refuses, or dies.
        """

    async def perform(
        self,
        operation: AnyOperation,
        request_id: int,
        timeout_s: float | None = None,
        *,
        of_ended: bool = False,
    ) -> Record:
        """Carry out one operation and return its answer; it is overdue after *timeout_s*.

        :param of_ended: the debugger answers without a process if the rank has ended; else the
            answer is a Failure then.
        :raises NeedsStopError: if the operation needs a stopped rank and the rank runs.
        :raises HasEndedError: if the operation is *of_ended* ranks and there is no debugger.
        """

    async def is_silent(self) -> bool:
        """Return whether the debugger hangs in an overdue operation; takes some seconds if so."""

    async def has_debugger(self, timeout_s: float) -> bool:
        """Return whether the debugger has the rank and answers within *timeout_s*."""

    def note_end(self) -> Exit:
        """Record that the program has ended, which the debugger did not notice; return the end."""

    async def detach(self, timeout_s: float) -> None:
        """Detach if attached, and end the debugger; the rank runs on."""

    async def abandon(self, *, holds_back: bool = False) -> bool:
        """End a debugger that does not answer, and repair the rank if the debugger had it.

        :param holds_back: a rank that stands still under a debugger that computes without end
            is kept at its place by SIGSTOP, for the next debugger. The result is whether it was.
        :raises DebuggerError: if the debugger cannot be ended.
        """


class DebuggerFactory(Protocol):
    """Maker of the debuggers of one aggregator's ranks, and owner of what they share."""

    @property
    def debuggers(self) -> str:
        """The user's word for several of them, as in ``GDBs``."""

    def make(self, rank: int) -> RankDebugger:
        """Return a new debugger for *rank*; an earlier one for that rank is not affected."""

    def pause(self, pids: Iterable[int]) -> None:
        """Keep processes from computing until a debugger is attached to each."""

    async def release(self, pid: int) -> None:
        """End the pause of process *pid*; return once it can be attached to."""

    async def close(self) -> None:
        """Release all processes and end what the debuggers share; the debuggers are closed."""


@dataclass(frozen=True, kw_only=True)
class FactoryContext:
    """The session, the host and the callbacks that debuggers are made for."""

    setup: Setup
    rank_count: int
    """Number of ranks of this aggregator."""
    notify: Callable[[int, Event], None]
    """Function that takes each event, with its rank."""
    notice: Callable[[str], None]
    """Function that takes remarks for the user about this host."""
    core_paths: Mapping[int, str] = field(default_factory=dict)
    """The core file of each rank, if the ranks are core files."""
    delivery: Delivery | None = None
    """Deliverer of files to this host; used if the session asks for that (``--sbd``)."""


OpenFactory = Callable[[FactoryContext], DebuggerFactory]
"""Function that opens the factory of an aggregator; the composition root of the process chooses
it."""
