"""The shape of the tree: parents and children by arithmetic.

Aggregators are numbered 0 to *count* - 1 as in their launcher's MPI_COMM_WORLD. Number 0 is the
child of the front end; the others form a complete k-ary tree below number 0.
"""

from __future__ import annotations

import msgspec

from pgdb.overlay.messages import FRONT_END
from pgdb.ranks import RankSet

DEFAULT_FAN_OUT = 32


class Topology(msgspec.Struct, frozen=True):
    """A complete k-ary tree of *count* aggregators."""

    count: int
    fan_out: int = DEFAULT_FAN_OUT

    def parent(self, node: int) -> int:
        """Return the parent of *node*, the front end for node 0."""
        return FRONT_END if node <= 0 else (node - 1) // self.fan_out

    def ancestors(self, node: int) -> tuple[int, ...]:
        """Return the parent, the grandparent, … and last the front end."""
        found = []
        while node != FRONT_END:
            node = self.parent(node)
            found.append(node)
        return tuple(found)

    def children(self, node: int) -> tuple[int, ...]:
        """Return the children of *node*; the front end has node 0 alone."""
        if node == FRONT_END:
            return (0,) if self.count else ()
        first = node * self.fan_out + 1
        return tuple(range(first, min(first + self.fan_out, self.count)))

    def subtree(self, node: int) -> tuple[int, ...]:
        """Return *node* and all nodes below it."""
        found = [node]
        for each in found:
            found.extend(self.children(each))
        return tuple(found)

    def levels_below(self, node: int) -> int:
        """Return the number of levels below *node*."""
        levels = 0
        while children := self.children(node):
            node = children[0]
            levels += 1
        return levels


def share_out(ranks: RankSet, count: int) -> tuple[RankSet, ...]:
    """Divide *ranks* into *count* contiguous, even blocks.

    >>> share_out(RankSet.parse("0-4"), 2)
    (RankSet('0-2'), RankSet('3-4'))
    """
    members = list(ranks)
    shares: list[list[int]] = [[] for _ in range(count)]
    for index, rank in enumerate(members):
        shares[index * count // len(members)].append(rank)
    return tuple(RankSet(share) for share in shares)
