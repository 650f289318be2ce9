"""The interface between a session and the source of its answers."""

from __future__ import annotations

from typing import Protocol

from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Delivered, Lost, Notice
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import Event

Events = tuple[EquivalenceClass[Event], ...]


class Receiver(Protocol):
    """The receiver of events, losses and notices, and of answers that nobody waits for."""

    def on_events(self, classes: Events, *, are_announced: bool = False) -> None:
        """Accept events of ranks, or their current states: those that aggregators announce."""
        ...

    def on_late(self, gathered: Gathered) -> None:
        """Accept answers to a request that nobody waits for."""
        ...

    def on_lost(self, lost: Lost) -> None:
        """Accept the loss of ranks."""
        ...

    def on_notice(self, notice: Notice) -> None:
        """Accept a notice for the user."""
        ...

    def on_progress(self, text: str) -> None:
        """Accept the progress of the start, in words."""
        ...

    def on_unacquired(self) -> None:
        """Accept that the set of :attr:`Transport.unacquired` ranks has grown."""
        ...


class Transport(Protocol):
    """The way to the ranks of a session, or to what they once answered."""

    is_recorded: bool
    """Whether a recording answers: at once, also for ranks that have ended, and without a job."""
    when_closed: str
    """The error message of requests after the session's end."""

    def subscribe(self, receiver: Receiver) -> None:
        """Call *receiver* from now on; a transport has one."""
        ...

    def next_id(self) -> int:
        """Return a new request number."""
        ...

    async def ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str,
        *,
        of_ended: bool = False,
    ) -> Gathered:
        """Ask *ranks*; return when all have answered, or after *timeout_s*.

        *command* names the request in messages. The debuggers of ranks that have ended answer only
        where the request is *of_ended* ranks.

        :raises CommandError: if the transport cannot carry the operation out.
        """
        ...

    @property
    def out_of_reach(self) -> RankSet:
        """Ranks that cannot be asked now, for a time or for good."""
        ...

    @property
    def unacquired(self) -> RankSet:
        """Ranks that can be reached, but whose aggregator has not got the setup that names them."""
        ...

    async def restore(self, ranks: RankSet, table: ProcTable) -> tuple[tuple[RankSet, str], ...]:
        """Make *ranks* reachable again; return those that stay out of reach, with the reasons."""
        ...

    def describe_loss(self, lost: Lost, ranks: RankSet) -> tuple[tuple[RankSet, str], ...]:
        """Return *ranks*, for which a loss is news, in parts, each with its message."""
        ...

    def ask_states(self) -> None:
        """Request the state of all ranks, as events."""
        ...

    @property
    def aggregators(self) -> int:
        """Number of aggregators in use."""
        ...

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files (``--sbd``), the front end first."""
        ...

    async def close(self) -> None:
        """Release all ranks and end all processes of the transport."""
        ...
