"""Ranks on the way to a place where others are held: what they do, and whom they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.parties import Elsewhere, Party, parties_of
from pgdb.frontend.analysis.why.waiting import Waiting, solve
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record


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
) -> tuple[OnTheWay, ...]:
    """Return the work of ranks, from the MpiCallStatus of each; no rank whose calls are unknown.

    :param held: those of the stopped ranks that are held.
    :param every: all ranks; of those that are in no other set nothing is known.
    """
    known = [each for each in classes if isinstance(each.record, MpiCallStatus)]
    unknown = every - stopped - ended - RankSet.union(each.ranks for each in known)
    elsewhere = (
        Elsewhere(stopped | ended, "stopped", "ended"),  # they do nothing for others
        Elsewhere(unknown, "", "running"),
    )
    waiting = solve(parties_of(known, elsewhere))
    blocks = ((held, "is held"), (stopped - held, "is stopped"), (ended, "has ended"))
    return tuple(
        _on_the_way(waiting, number, party, blocks)
        for number, party in enumerate(waiting.parties)
        if not party.absence and party.status.state != "unknown"
    )


def _on_the_way(
    waiting: Waiting, number: int, party: Party, blocks: Iterable[tuple[RankSet, str]]
) -> OnTheWay:
    ranks = party.ranks
    does = words.states(party)
    if party.call is None or party.is_passing:
        return OnTheWay(ranks, does, is_stuck=False)
    needs = tuple(waiting.open_needs(number))
    targets = RankSet.union(each.targets for each in needs)
    if len(ranks) == 1:
        targets -= ranks
    # A rank that polls may do other work meanwhile, but only ranks that progress help it.
    polls_in_vain = party.is_polling and bool(targets) and targets.isdisjoint(waiting.free)
    is_stuck = bool(waiting.stuck(number)) or polls_in_vain
    if not all(each.is_known for each in needs):
        whom, targets = "a held rank", RankSet()
    elif is_stuck and (found := [(part, how) for each, how in blocks if (part := each & targets)]):
        whom = " and ".join(f"[{part}], which {words.verb(part, how)}" for part, how in found)
    else:
        whom = f"[{targets}]" if targets else ""
    text = f"{does}, and may wait for {whom}" if whom else does
    return OnTheWay(ranks, text, is_stuck, targets)
