"""The solution of the wait-for graph: which ranks can still progress, and which cannot.

The graph has AND nodes (a collective call, MPI_Waitall) and OR nodes (MPI_ANY_SOURCE, MPI_Waitany).
Ranks outside MPI, and ranks about which nothing is known, can do anything. From them the solver
frees, step by step, each rank whose call can return when the free ranks do their part. Ranks that
are never freed wait for each other, or for ranks that have ended: a deadlock as far as the calls
say. A message in flight is no part of a call, so that only a look at the job while it runs decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pgdb.frontend.analysis.why import matching
from pgdb.frontend.analysis.why.matching import Offer
from pgdb.frontend.analysis.why.needs import Condition, Need, conditions_of, is_meeting, needs_of
from pgdb.frontend.analysis.why.parties import Party, finder
from pgdb.mpi_calls import ANY_SOURCE, MpiCall
from pgdb.ranks import RankSet

_FEW_TARGETS = 8


class Watch(msgspec.Struct, frozen=True):
    """The outcome of letting ranks run for a moment."""

    still: RankSet = RankSet()
    """Ranks that ran all the time and have not returned from their call, or not left their
    place."""
    moved: RankSet = RankSet()
    """Ranks whose call has returned."""
    seconds: float = 0.0
    """Length of the moment; 0 if no rank ran."""


NO_WATCH = Watch()
"""No rank ran."""


class Waiting(msgspec.Struct, frozen=True):
    """The parties, the needs of each, and the ranks that can progress."""

    parties: tuple[Party, ...]
    conditions: tuple[tuple[Condition, ...], ...]
    """The conditions of each party; empty for one that waits for nobody."""
    free: RankSet
    """Ranks that can progress, as far as is known."""
    met: tuple[dict[int, RankSet], ...]
    """For each party, the ranks whose need (by its number) a posted call of another rank meets."""
    offers: tuple[Offer, ...]
    watch: Watch

    def stuck(self, number: int) -> RankSet:
        """Return the ranks of a party that cannot progress; none for ranks that have ended."""
        party = self.parties[number]
        return RankSet() if party.is_dead else party.ranks - self.free

    def open_needs(self, number: int) -> Iterator[Need]:
        """Yield the needs of a party that are not met on all of its ranks."""
        ranks = self.parties[number].ranks
        for index, need in enumerate(needs_of(self.conditions[number])):
            if not ranks <= self.met[number].get(index, RankSet()):
                yield need

    def waits(self, number: int) -> bool:
        """Return whether a party waits for anybody."""
        return any(True for _ in self.open_needs(number))


def solve(parties: Sequence[Party], watch: Watch = NO_WATCH) -> Waiting:
    """Return who waits for whom, and which ranks can progress."""
    solver = _Solver(parties, watch)
    solver.run()
    conditions, met = [], []
    for party, own, own_met in zip(parties, solver.conditions, solver.met, strict=True):
        kept = _but_serving(own) if party.is_polling else own
        old = {id(need): index for index, need in enumerate(needs_of(own))}
        places = [old[id(need)] for need in needs_of(kept)]
        conditions.append(kept)
        met.append({new: own_met[at] for new, at in enumerate(places) if at in own_met})
    return Waiting(
        tuple(parties), tuple(conditions), solver.free, tuple(met), tuple(solver.offers), watch
    )


def _but_serving(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions of polls, without those for messages of any rank if there are others.

    A loop that serves other ranks meanwhile ends by what it waits for besides.
    """
    others = tuple(
        each
        for each in conditions
        if any(need.kind != "message" or need.peer != ANY_SOURCE for need in each.needs)
    )
    return others or conditions


class _Solver:
    """The state of the solution."""

    def __init__(self, parties: Sequence[Party], watch: Watch) -> None:
        self._parties = parties
        self._watch = watch
        self._world = RankSet.union(each.ranks for each in parties)
        self._find = finder(parties)
        self._meetings = _Meetings(parties, self._world)
        self.offers = [
            offer
            for number, each in enumerate(parties)
            for offer in matching.offers_of(number, each.ranks, each.calls)
        ]
        self._sends_to: dict[int, list[Offer]] = {}
        self._receives_of: dict[int, list[Offer]] = {}
        for each in self.offers:
            if not each.is_send:
                self._receives_of.setdefault(each.party, []).append(each)
            elif isinstance(each.peer, int):
                self._sends_to.setdefault(each.peer, []).append(each)
        self.conditions = [
            conditions_of(each, self._world, self._meetings.absentees) for each in parties
        ]
        self.met = [self._met(number) for number in range(len(parties))]
        self.free = RankSet()

    def run(self) -> None:
        """Free ranks until no further one can be freed."""
        parties, still = self._parties, self._watch.still
        free = [self._watch.moved]
        left: dict[int, RankSet] = {}
        for number, each in enumerate(parties):
            if each.is_dead:
                continue
            if not self.conditions[number]:
                free.append(each.ranks)
            else:
                # A rank that polls may do other work between two looks, unless it was watched.
                if each.is_polling:
                    free.append(each.ranks - still)
                left[number] = each.ranks - free[0]
        self.free = new = RankSet.union(free)
        waiters, wide = self._waiters(left)
        candidates: Iterable[int] = tuple(left)
        while candidates:
            freed = []
            for number in candidates:
                if number not in left:
                    continue
                part = left[number] - self.free
                if sat := self._satisfied(number, part):
                    freed.append(sat)
                    part = part - sat
                if part:
                    left[number] = part
                else:
                    del left[number]
            new = RankSet.union(freed) if freed else RankSet()
            self.free = self.free | new
            direct = {each for rank in new if rank in waiters for each in waiters[rank]}
            candidates = sorted(direct | (wide & left.keys())) if new else ()

    def _waiters(self, left: dict[int, RankSet]) -> tuple[dict[int, list[int]], set[int]]:
        """Return the parties that wait for a rank, and those that wait for many."""
        waiters: dict[int, list[int]] = {}
        wide = set()
        for number in left:
            for need in needs_of(self.conditions[number]):
                if len(need.targets) > _FEW_TARGETS:
                    wide.add(number)
                    continue
                for rank in need.targets:
                    waiters.setdefault(rank, []).append(number)
        return waiters, wide

    def _satisfied(self, number: int, ranks: RankSet) -> RankSet:
        """Return the ranks of a party one of whose calls can return."""
        found, index = RankSet(), 0
        for condition in self.conditions[number]:
            parts, met = [], []
            for need in condition.needs:
                met.append(self.met[number].get(index, RankSet()) & ranks)
                parts.append(self._part(need, ranks, met[-1]))
                index += 1
            if condition.is_exchange:
                found = found | self._exchanged(condition, ranks, parts, met)
                continue
            if not condition.every:
                found = found | RankSet.union(parts)
                continue
            together = ranks
            for part in parts:
                together = together & part
            found = found | together
        return found

    def _exchanged(
        self,
        condition: Condition,
        ranks: RankSet,
        parts: Sequence[RankSet],
        met: Sequence[RankSet],
    ) -> RankSet:
        """Return the ranks whose call that sends and receives can return.

        Either part of it may be complete. Between ranks that have not moved, one whose two calls
        fit is: the rank waits for the other one.
        """
        both = ranks
        for each in met:
            both = both & each
        found = both
        for need, own, own_met in zip(condition.needs, parts, met, strict=True):
            is_watched = ranks | need.targets <= self._watch.still
            found = found | (own - own_met if is_watched else own)
        return found

    def _part(self, need: Need, ranks: RankSet, met: RankSet) -> RankSet:
        is_met = need.targets <= self.free if need.every else not need.targets.isdisjoint(self.free)
        # A rank that moved was stopped behind its call, and others may have needed it to go on.
        has_moved = need.kind == "meeting" and not need.targets.isdisjoint(self._watch.moved)
        if is_met or has_moved:
            return ranks
        return met

    def _met(self, number: int) -> dict[int, RankSet]:
        """Return, for each need of a party, its ranks that a posted call of another rank meets."""
        party = self._parties[number]
        found = {}
        for index, need in enumerate(needs_of(self.conditions[number])):
            if need.kind == "message":
                ranks = self._with_message(party, need)
            elif need.kind == "receiver":
                ranks = self._with_receiver(party, need)
            else:
                continue
            if ranks:
                found[index] = ranks
        return found

    def _with_message(self, party: Party, need: Need) -> RankSet:
        receive = Offer(party.ranks, False, need.peer, need.tag, need.communicator)
        found = []
        for rank in _few(party.ranks, self._sends_to):
            for send in self._sends_to[rank]:
                ranks = party.ranks | send.ranks
                if isinstance(need.peer, int) and need.peer not in send.ranks:
                    continue
                if need.peer is None and ranks <= self._watch.still:
                    continue
                if self._may_meet(send, receive, ranks):
                    found.append(rank)
        return RankSet(found)

    def _with_receiver(self, party: Party, need: Need) -> RankSet:
        if not isinstance(need.peer, int):
            return RankSet()
        target = self._find(need.peer)
        if target is None:
            return RankSet()
        send = Offer(party.ranks, True, need.peer, need.tag, need.communicator)
        found = RankSet()
        ranks = party.ranks | RankSet([need.peer])
        for receive in self._receives_of.get(target, ()):
            if not self._may_meet(send, receive, ranks):
                continue
            if isinstance(receive.peer, int):
                found = found | (party.ranks & RankSet([receive.peer]))
            elif receive.peer == ANY_SOURCE or not ranks <= self._watch.still:
                found = found | party.ranks
        if not found and self._is_unknown(target) and not ranks <= self._watch.still:
            return party.ranks
        return found

    def _is_unknown(self, number: int) -> bool:
        """Return whether requests of a party are unknown, which may be receives."""
        call = self._parties[number].call
        if call is None or call.kind not in ("wait", "test"):
            return False
        return not call.requests or any(each.kind is None for each in call.requests)

    def _may_meet(self, send: Offer, receive: Offer, ranks: RankSet) -> bool:
        """Return whether two calls may be one message.

        Where the ranks were watched, a message between them would have come.
        """
        answer = matching.can_meet(send, receive)
        return bool(answer) or (answer is None and not ranks <= self._watch.still)


class _Meetings:
    """The collective calls of all parties, and who is in which."""

    def __init__(self, parties: Sequence[Party], world: RankSet) -> None:
        self._world = world
        groups: dict[MpiCall, list[RankSet]] = {}
        self._in_callback: dict[MpiCall, RankSet] = {}
        """Ranks in a function of the user's that a collective call has called."""
        for party in parties:
            for call in party.calls:
                if is_meeting(call):
                    groups.setdefault(matching.plain(call), []).append(party.ranks)
            call_around = party.status.callback_of
            if call_around is not None and is_meeting(call_around) and not party.absence:
                plain = matching.plain(call_around)
                ranks = self._in_callback.get(plain, RankSet())
                self._in_callback[plain] = ranks | party.ranks
        self._groups = {call: RankSet.union(sets) for call, sets in groups.items()}
        self._absent: dict[MpiCall, RankSet] = {}

    def absentees(self, call: MpiCall) -> RankSet:
        """Return the members of a call's group that are not in an equal call."""
        plain = matching.plain(call)
        if plain not in self._absent:
            there = RankSet.union(
                ranks
                for other, ranks in self._groups.items()
                if other is plain or matching.difference_of(plain, other) is None
            )
            members = None
            if call.kind not in ("init", "finalize"):
                members = matching.members_of(matching.group_of(call))
            everybody = self._world if members is None else members
            self._absent[plain] = everybody - there - self._passed(plain)
        return self._absent[plain]

    def _passed(self, plain: MpiCall) -> RankSet:
        """Return the ranks in other collective calls, if a rank computes inside a call.

        They have mostly come through that call. One may have left it out, since a reduction calls
        the function once a part of the data is there; the rank that computes keeps both.
        """
        if not any(matching.difference_of(plain, other) is None for other in self._in_callback):
            return RankSet()
        return RankSet.union(
            ranks
            for other, ranks in self._groups.items()
            if matching.difference_of(plain, other) is not None
        )


def _few(ranks: RankSet, table: dict[int, list[Offer]]) -> Iterator[int]:
    """Yield the ranks of a set that are in a table."""
    if len(ranks) <= len(table):
        return (rank for rank in ranks if rank in table)
    return (rank for rank in table if rank in ranks)
