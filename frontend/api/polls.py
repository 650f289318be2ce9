"""Ranks that test and probe, without waiting: whether they still look for the same thing.

Two looks at such a rank say nothing: a loop that works comes back to an equal test. So the rank
runs to the functions that begin the next message or operation, one after the other; a rank that
comes to one of them has moved.

A loop may make several tests and probes, and one look shows one of them. So the rank then runs to
each function that tests or probes, and all of them count as the calls of the rank.

A rank that sleeps between two tests is nearly always outside MPI when it is looked at. It runs to
the same functions. A rank that comes to one of them twice, from one place and with equal arguments,
polls. The search is for ranks that sleep, where they are outside MPI: a rank that computes between
two tests works, and may answer others later.

A rank in one-sided calls is searched in the same way for reads of one place of a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.sampling import stop_for_look
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import ANY_SOURCE, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record, Running, Stop

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_FUNCTIONS = (
    "PMPI_Test",
    "PMPI_Iprobe",
    "PMPI_Testall",
    "PMPI_Testany",
    "PMPI_Testsome",
    "PMPI_Improbe",
    "PMPI_Request_get_status",
    "PMPI_Parrived",
    "PMPI_Win_test",
)
"""The functions, by the names to which those of all languages lead."""
READS = (
    "PMPI_Fetch_and_op",
    "PMPI_Compare_and_swap",
    "PMPI_Get",
    "PMPI_Get_accumulate",
    "PMPI_Rget",
)
"""The functions that read a window, by the same names."""
_NEXT = {
    "send": ("PMPI_Isend", "PMPI_Issend", "PMPI_Start", "PMPI_Startall"),
    "recv": ("PMPI_Irecv", "PMPI_Start", "PMPI_Startall"),
    "persistent send": ("PMPI_Start", "PMPI_Startall"),
    "persistent recv": ("PMPI_Start", "PMPI_Startall"),
    "partitioned send": ("PMPI_Start", "PMPI_Startall"),
    "partitioned recv": ("PMPI_Start", "PMPI_Startall"),
    "collective": ("PMPI_Ibarrier", "PMPI_Iallreduce", "PMPI_Ibcast", "PMPI_Ireduce"),
    "persistent collective": ("PMPI_Start", "PMPI_Startall"),
}
"""The functions to which a rank comes that goes on behind its request, by the request's kind."""
_BEHIND_PROBES = ("PMPI_Recv", "PMPI_Irecv", "PMPI_Mrecv")
_BEHIND_WINDOWS = ("PMPI_Win_post", "PMPI_Win_start", "PMPI_Win_fence", "PMPI_Barrier")
"""The functions to which a rank comes that goes on behind MPI_Win_test."""
_MOST_TURNS = 4
_MOST_POLLS = 5
"""Most stops of one rank at one function: a loop may test several requests, one after the other."""
_GLANCE_S = 0.25
UP = "up-silently"
"""GDB's command for the next outer frame; PGDB's own ``up`` goes by Python's frames too."""
Classes = Sequence[EquivalenceClass[Record]]


def sleeping(classes: Classes) -> RankSet:
    """Return the ranks that sleep outside MPI."""
    return RankSet.union(
        each.ranks
        for each in classes
        if isinstance(each.record, MpiCallStatus)
        and each.record.state == "outside"
        and each.record.activity == "sleeping"
    )


def is_poll(status: MpiCallStatus) -> bool:
    """Return whether a rank is in a test or a probe that returns at once."""
    call = status.call
    return call is not None and call.blocking is False and call.kind in ("test", "probe")


class PollWatch:
    """A watch of ranks in tests and probes: whether they come to anything else."""

    def __init__(self, session: Session, classes: Classes, chosen: RankSet) -> None:
        self._session = session
        self._functions: dict[tuple[str, ...], RankSet] = {}
        for each in classes:
            status, ranks = each.record, each.ranks & chosen
            if ranks and isinstance(status, MpiCallStatus) and is_poll(status):
                functions = _behind(status)
                self._functions[functions] = self._functions.get(functions, RankSet()) | ranks

    @property
    def ranks(self) -> RankSet:
        """The ranks whose polls are watched."""
        return RankSet.union(self._functions.values())

    @property
    def turns(self) -> int:
        """The number of functions to which one rank runs, at least 1."""
        return max(map(len, self._functions), default=1)

    async def start(self, turn: int) -> RankSet:
        """Let the ranks run to the next function; return those that run."""
        session, found = self._session, []
        if turn and (running := self.ranks & session.state.running):
            with deadline.unlimited():
                await stop_for_look(session, running)
        for functions, ranks in self._functions.items():
            function = functions[turn % len(functions)]
            waiting = RankSet.union(
                each.ranks
                for each in session.state.latest(ranks & session.state.stopped)
                if isinstance(each.record, Stop) and each.record.reason != "location-reached"
            )
            if waiting:
                found.append(await _advance(session, function, waiting))
        return RankSet.union(found)


async def _advance(session: Session, function: str, ranks: RankSet) -> RankSet:
    """Let ranks run to a function; return those that run."""
    # 'advance' stops at the end of the selected frame too: the outermost has none.
    await session.ranks(ranks).execute_plain(f"{UP} 100000")
    answer = await session.runs.start("advance", function, ranks, held_too=True)
    return RankSet.union(each.ranks for each in answer.classes if isinstance(each.record, Running))


def _behind(status: MpiCallStatus) -> tuple[str, ...]:
    call = status.call
    assert call is not None
    if call.kind == "probe":
        return _BEHIND_PROBES
    if call.window is not None or call.function == "MPI_Win_test":
        return _BEHIND_WINDOWS
    kinds = dict.fromkeys(each.kind for each in call.requests if not each.complete)
    found = dict.fromkeys(name for kind in kinds for name in _NEXT.get(kind or "", ()))
    return tuple(found)[:_MOST_TURNS] or ("PMPI_Irecv", "PMPI_Isend", "PMPI_Start")


class PollSearch:
    """A search for all polls of some ranks."""

    def __init__(
        self,
        session: Session,
        sleeping: RankSet,
        polling: RankSet,
        functions: Sequence[str] = _FUNCTIONS,
        is_wanted: Callable[[MpiCallStatus], bool] = is_poll,
    ) -> None:
        """Search the polls of ranks that sleep, and the further ones of those that poll.

        The polls are calls of *functions* whose statuses are wanted.
        """
        self._session = session
        self._is_wanted = is_wanted
        self._ranks = sleeping | polling
        self.polling = polling
        """The ranks that are known to poll."""
        self._functions = iter(functions)
        self._seen: list[EquivalenceClass[Record]] = []

    @property
    def polls(self) -> tuple[EquivalenceClass[Record], ...]:
        """The polls, as the statuses of the ranks inside them; a rank may be in several."""
        return tuple(
            EquivalenceClass(ranks, each.record)
            for each in self._seen
            if (ranks := each.ranks & self.polling)
        )

    async def step(self) -> bool:
        """Look for one function; return False if there is no further one."""
        function = next(self._functions, None) if self._ranks else None
        if function is None:
            return False
        left = self._ranks
        seen: list[EquivalenceClass[Record]] = []
        for _ in range(_MOST_POLLS):
            if not left:
                break
            now = await self._at(function, left)
            again = RankSet.union(_common(each, other) for each in now for other in seen)
            seen += now
            # A rank that comes back to an equal call has shown all of this function.
            left = RankSet.union(each.ranks for each in now) - again
            self.polling = self.polling | again
        self._seen += seen
        if stopped := self._ranks & self._session.state.stopped:
            await self._session.runs.start("continue", "", stopped, held_too=True)
        return True

    async def _at(self, function: str, ranks: RankSet) -> Classes:
        """Let ranks run to a function, and return the statuses of those that come there."""
        session = self._session
        if running := ranks & session.state.running:
            with deadline.unlimited():
                await stop_for_look(session, running)
        ready = ranks & session.state.stopped
        running = await _advance(session, function, ready) if ready else RankSet()
        await session.runs.wait_stopped("why", running, timeout_s=_GLANCE_S)
        there = RankSet.union(
            each.ranks
            for each in session.state.latest(running & session.state.stopped)
            if isinstance(each.record, Stop) and each.record.reason == "location-reached"
        )
        if not there:
            return ()
        with deadline.renewed():
            answer: Answer = await session.ranks(there).mpi_calls()
        return [
            each
            for each in answer.classes
            if isinstance(each.record, MpiCallStatus) and self._is_wanted(each.record)
        ]


def _common(one: EquivalenceClass[Record], other: EquivalenceClass[Record]) -> RankSet:
    """Return the ranks of two classes with the same record."""
    return one.ranks & other.ranks if one.record == other.record else RankSet()


def _serves(poll: MpiCallStatus) -> bool:
    return poll.call is not None and poll.call.source == ANY_SOURCE


def with_statuses(classes: Classes, later: Classes) -> Classes:
    """Return classes with *later* statuses in place of those of their ranks."""
    ranks = RankSet.union(each.ranks for each in later)
    rest = [EquivalenceClass(left, each.record) for each in classes if (left := each.ranks - ranks)]
    return [*rest, *later]


def with_polls(
    classes: Classes, polls: Classes, goes_on: Callable[[MpiCallStatus], bool] = is_poll
) -> Classes:
    """Return classes in which ranks that poll are in all of their *polls*.

    A rank that is in a call by now that does not show that it *goes_on* polls no longer.
    """
    found: list[EquivalenceClass[Record]] = []
    for each in classes:
        rest = each.ranks
        status = each.record
        if isinstance(status, MpiCallStatus) and (goes_on(status) or status.state == "outside"):
            for ranks, own in _by_polls(each, polls):
                rest = rest - ranks
                found.append(EquivalenceClass(ranks, _together(own)))
        if rest:
            found.append(EquivalenceClass(rest, each.record))
    return found


def _by_polls(
    status: EquivalenceClass[Record], polls: Classes
) -> Iterator[tuple[RankSet, list[MpiCallStatus]]]:
    """Yield the ranks of a class that have the same polls, and these."""
    parts: list[tuple[RankSet, list[MpiCallStatus]]] = [(status.ranks, [])]
    for poll in polls:
        assert isinstance(poll.record, MpiCallStatus)
        split = []
        for ranks, own in parts:
            if both := ranks & poll.ranks:
                split.append((both, [*own, poll.record]))
            if rest := ranks - poll.ranks:
                split.append((rest, own))
        parts = split
    return ((ranks, own) for ranks, own in parts if own)


def _together(polls: Sequence[MpiCallStatus]) -> MpiCallStatus:
    """Return the status of a rank that makes several polls, one after the other.

    The first call is the one that texts name: no probe for messages of any rank, if there is
    another.
    """
    first, *_ = polls = sorted(polls, key=_serves)
    calls = dict.fromkeys(
        replace(call, where=None if each.where == first.where else each.where)
        for each in polls
        for call in each.calls[:1]
    )
    return replace(first, calls=tuple(calls))
