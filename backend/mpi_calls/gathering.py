"""The order in which the root of a call that gathers receives the parts of the others."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.ranks import RankSet

_FEWEST = 3
"""Fewest ranks of a call in which the waits of some say something about the others."""


def is_begin(
    family: str, function: str, ranks: Sequence[int | None], root: int, awaited: RankSet
) -> bool:
    """Return whether a root that waits for *awaited* cannot have taken the part of any other rank.

    *ranks* are the members in their order. The answer is False where one of the ways in which the
    library may receive would have begun with another rank, or where the rank that is waited for may
    have to hand on the parts of all others.
    """
    if root not in ranks or len(ranks) < _FEWEST:
        return False
    if len(awaited) == len(ranks) - 1:
        return True
    at = ranks.index(root)
    others = [*ranks[:at], *ranks[at + 1 :]]
    first, behind, last = others[0], ranks[(at + 1) % len(ranks)], others[-1]
    wanted = [*awaited]
    if family != "openmpi":
        # A tree; MPI_Gatherv receives all parts at once.
        return function != "MPI_Gatherv" and wanted == [behind]
    match function:
        case "MPI_Gatherv":
            return wanted == [first]
        case "MPI_Gather":
            # From the first rank on, or by a tree.
            return first == behind and wanted == [first]
        case "MPI_Reduce":
            # From the last rank on, or by a tree, of which the root receives two parts at once.
            return (len(wanted) > 1 and behind in wanted) or wanted == [last] != [behind]
    return False
