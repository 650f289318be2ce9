"""The neighbour that is missing from a neighbourhood call, from the neighbours of those that wait.

A rank that has made the call may have left it, though its neighbours wait for others. So the
missing rank is one that explains all waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.why.parties import Party
from pgdb.mpi_calls import MpiCall
from pgdb.ranks import RankSet

Missing = RankSet | None
"""The missing ranks, None if several explain the waits."""


def neighbours_in(call: MpiCall) -> RankSet | None:
    """Return the neighbours that a call waits for, None if they are unknown."""
    texts = [call.neighbours]
    if call.kind in ("wait", "test"):
        texts = [each.neighbours for each in call.requests if not each.complete]
    sets = [None if each is None else RankSet.parse(each) if each else RankSet() for each in texts]
    known = [each for each in sets if each is not None]
    return RankSet.union(known) if known and len(known) == len(sets) else None


def awaited(waiting: Sequence[Party], others: RankSet) -> list[RankSet] | None:
    """Return the neighbours of the *waiting* ranks that are among *others*, None if some are
    unknown."""
    found = []
    for party in waiting:
        neighbours = [neighbours_in(each) for each in party.calls]
        known = [each for each in neighbours if each is not None]
        if not known or len(known) < len(neighbours):
            return None
        found.append(RankSet.union(known) & others)
    # A rank whose neighbours are all in the call waits behind one of them.
    return [each for each in found if each]


def missing(found: Sequence[RankSet]) -> Missing:
    """Return the ranks that are missing, from those that :func:`awaited` has returned."""
    if not found:
        return None
    common = found[0]
    for each in found[1:]:
        common = common & each
    if len(common) == 1:
        return common
    alone = RankSet.union(each for each in found if len(each) == 1)
    if all(not each.isdisjoint(alone) for each in found):
        return alone
    return None
