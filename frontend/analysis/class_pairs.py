"""Classes of two answers about the same ranks, paired by their ranks.

If most classes have one rank, a lookup by rank is faster than the intersection of each two classes:
65,536 classes on both sides would need 4 thousand million intersections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record

Class = EquivalenceClass[Record]

_FEW = 16
"""Number of classes up to which each is intersected with the ranks."""


class Partition:
    """The classes of an answer, found by their ranks."""

    def __init__(self, classes: Sequence[Class]) -> None:
        self._classes = classes
        self._owner: dict[int, int] = {}
        if len(classes) > _FEW:
            self._owner = {
                rank: number for number, each in enumerate(classes) for rank in each.ranks
            }

    def split(self, ranks: RankSet) -> Iterator[tuple[Class, RankSet]]:
        """Yield each class that has some of *ranks*, and these ranks, in the order of classes."""
        if not self._owner:
            for each in self._classes:
                if here := each.ranks & ranks:
                    yield each, here
            return
        members: dict[int, list[int]] = {}
        for rank in ranks:
            if rank in self._owner:
                members.setdefault(self._owner[rank], []).append(rank)
        for number in sorted(members):
            yield self._classes[number], RankSet(members[number])


def pairs(
    before: Sequence[Class], after: Sequence[Class]
) -> Iterator[tuple[Class, Class, RankSet]]:
    """Yield each pair of classes with common ranks, and the common ranks."""
    partition = Partition(after)
    for mine in before:
        for theirs, ranks in partition.split(mine.ranks):
            yield mine, theirs, ranks
