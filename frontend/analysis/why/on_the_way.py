"""Ranks on the way to a place where others are held: what they do, and whom they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.followers import late_edges
from pgdb.frontend.analysis.why.parties import Elsewhere, Party, parties_of
from pgdb.frontend.analysis.why.waiting import Waiting, Watch, solve
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record

_ELSEWHERE = "a rank of another world, which its call does not name"


class OnTheWay(msgspec.Struct, frozen=True):
    """Ranks that do the same."""

    ranks: RankSet
    text: str
    """The work in words, such as ``is in MPI_Recv from 0, and may wait for [0], which is held``."""
    is_stuck: bool
    """Whether they wait for ranks that do not run, or for each other, unless a message is in
    flight."""
    awaited: RankSet = RankSet()
    """The ranks that they may wait for, if all of these are known."""


def on_the_way(
    classes: Sequence[EquivalenceClass[Record]],
    held: RankSet,
    stopped: RankSet,
    ended: RankSet,
    every: RankSet,
    before: Sequence[EquivalenceClass[Record]] = (),
) -> tuple[OnTheWay, ...]:
    """Return the work of ranks, from the MpiCallStatus of each; no rank whose calls are unknown.

    :param held: those of the stopped ranks that are held.
    :param every: all ranks; of those that are in no other set nothing is known.
    :param before: an earlier answer, if all that ranks have begun since then would be complete.
    """
    known = [each for each in classes if isinstance(each.record, MpiCallStatus)]
    unknown = every - stopped - ended - RankSet.union(each.ranks for each in known)
    elsewhere = (
        Elsewhere(stopped | ended, "stopped", "ended"),  # they do nothing for others
        Elsewhere(unknown, "", "running"),
    )
    waiting = solve(parties_of(known, elsewhere))
    behind = _behind(waiting, _unmoved(before, known), stopped | ended)
    blocks = ((held, "is held"), (stopped - held, "is stopped"), (ended, "has ended"))
    return tuple(
        _on_the_way(waiting, number, party, blocks, behind.get(number, RankSet()))
        for number, party in enumerate(waiting.parties)
        if not party.absence and party.status.state != "unknown"
    )


def _on_the_way(
    waiting: Waiting,
    number: int,
    party: Party,
    blocks: Iterable[tuple[RankSet, str]],
    behind: RankSet,
) -> OnTheWay:
    ranks = party.ranks
    does = words.states(party)
    if party.call is None or party.is_passing:
        return OnTheWay(ranks, does, is_stuck=False)
    if behind:
        named = [(part, how) for each, how in blocks if (part := each & behind)]
        parts = [f"[{part}], which {words.verb(part, how)}" for part, how in named]
        if others := behind - RankSet.union(part for part, _ in named):
            parts.append(f"[{others}]")
        text = f"{does}, and may wait for {' and '.join(parts)}"
        return OnTheWay(ranks, text, is_stuck=True, awaited=behind)
    needs = tuple(waiting.open_needs(number))
    targets = RankSet.union(each.targets for each in needs)
    if len(ranks) == 1:
        targets -= ranks
    # A rank that polls may do other work meanwhile, but only ranks that progress help it.
    polls_in_vain = party.is_polling and bool(targets) and targets.isdisjoint(waiting.free)
    is_stuck = bool(waiting.stuck(number)) or polls_in_vain
    if any(each.kind == "elsewhere" for each in needs):
        whom, targets = _ELSEWHERE, RankSet()
    elif not all(each.is_known for each in needs):
        whom, targets = "a held rank", RankSet()
    elif is_stuck and (found := [(part, how) for each, how in blocks if (part := each & targets)]):
        whom = " and ".join(f"[{part}], which {words.verb(part, how)}" for part, how in found)
    else:
        whom = f"[{targets}]" if targets else ""
    text = f"{does}, and may wait for {whom}" if whom else does
    return OnTheWay(ranks, text, is_stuck, targets)


def _unmoved(
    before: Sequence[EquivalenceClass[Record]], now: Sequence[EquivalenceClass[Record]]
) -> RankSet:
    """Return the ranks in an equal call as before. A loop may have come back to it."""
    return RankSet.union(
        old.ranks & new.ranks
        for new in now
        for old in before
        if old.record == new.record and not old.ranks.isdisjoint(new.ranks)
    )


def _behind(waiting: Waiting, unmoved: RankSet, standing: RankSet) -> dict[int, RankSet]:
    """Return the parties that wait behind ranks that are stuck, and for which of these.

    The calls of both fit, as those of a message in flight do. But a stuck rank has begun its call
    before, and a message of it would have come: an earlier call has taken that. Ranks that only
    fit each other may be in a loop.
    """
    found = _exchanging(waiting, unmoved, standing)
    stuck = RankSet.union(waiting.stuck(each) for each in range(len(waiting.parties)))
    stuck |= RankSet.union(waiting.parties[each].ranks for each in found)
    first = frozenset(found)
    edges = [
        each
        for each in late_edges(replace(waiting, watch=Watch(still=unmoved)))
        if _needs_all(waiting, each.waiter)
    ]
    while further := [each for each in edges if each.ranks <= stuck]:
        edges = [each for each in edges if not each.ranks <= stuck]
        for each in further:
            if not waiting.stuck(each.waiter) and each.waiter not in first:
                found[each.waiter] = found.get(each.waiter, RankSet()) | each.ranks
        stuck |= RankSet.union(waiting.parties[each].ranks for each in found)
    return found


def _exchanging(waiting: Waiting, unmoved: RankSet, standing: RankSet) -> dict[int, RankSet]:
    """Return the parties whose MPI_Sendrecv waits for ranks that stand, and for which of these.

    Either part of the call may be complete, so that one look says nothing. At a second look the
    parts that fit a call of another rank are complete, and what is left needs the rank that stands.
    A loop would need it in each round.
    """
    found = {}
    for number, party in enumerate(waiting.parties):
        conditions = waiting.conditions[number]
        if len(conditions) != 1 or not conditions[0].is_exchange or not party.ranks <= unmoved:
            continue
        targets = RankSet()
        for index, need in enumerate(conditions[0].needs):
            if not isinstance(need.peer, int):
                break
            if party.ranks <= waiting.met[number].get(index, RankSet()):
                if need.peer not in unmoved:
                    break
            elif need.peer in standing:
                targets |= RankSet([need.peer])
            else:
                break
        else:
            if targets and not waiting.stuck(number):
                found[number] = targets
    return found


def _needs_all(waiting: Waiting, number: int) -> bool:
    """Return whether a party has one call, which waits for all of its messages."""
    conditions = waiting.conditions[number]
    return len(conditions) == 1 and (conditions[0].every or conditions[0].is_exchange)
