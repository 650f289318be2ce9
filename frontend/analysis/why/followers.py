"""Ranks that wait behind the victims of a verdict, though the calls of both fit each other.

Two ranks in a send and a receive that fit are no deadlock: the message may be in flight. If both
ranks ran for a while and neither call returned, an earlier receive has taken that message, and the
rank waits for a later one. It comes no sooner than its sender goes on. This alone never makes a
verdict: no cycle of such waits is possible, as each rank in it would be a message behind the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import graph
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.needs import needs_of
from pgdb.frontend.analysis.why.parties import finder
from pgdb.frontend.analysis.why.verdict import Verdict, VerdictKind
from pgdb.frontend.analysis.why.waiting import Waiting
from pgdb.ranks import RankSet

_WITHOUT_A_CAUSE: tuple[VerdictKind, ...] = ("network-or-launcher", "no-progress", "unknown")


def follow(
    waiting: Waiting, edges: Sequence[Edge], verdicts: Sequence[Verdict]
) -> tuple[tuple[Verdict, ...], tuple[Edge, ...]]:
    """Return the verdicts with the ranks that wait behind, and the edges with those of them."""
    late = tuple(late_edges(waiting))
    if not late:
        return tuple(verdicts), tuple(edges)
    still = waiting.watch.still
    firm = [
        each
        for each in edges
        if each.need.every and waiting.parties[each.waiter].ranks <= still and each.need.is_known
    ]
    network = graph.digraph(waiting, (*firm, *late))
    found: list[Verdict] = []
    behind: set[int] = set()
    for verdict in verdicts:
        if verdict.kind in _WITHOUT_A_CAUSE:
            found.append(verdict)
            continue
        own = verdict.ranks | verdict.victims
        first = {each.waiter for each in late if not each.ranks.isdisjoint(own)}
        numbers = {*first, *graph.reaching(network, sorted(first))}
        behind |= numbers
        more = RankSet.union(waiting.parties[each].ranks for each in numbers)
        found.append(replace(verdict, victims=verdict.victims | (more - verdict.ranks)))
    return tuple(found), (*edges, *(each for each in late if each.waiter in behind))


def late_edges(waiting: Waiting) -> Iterator[Edge]:
    """Yield the waits for a rank whose call fits, where neither call returned."""
    still = waiting.watch.still
    find = finder(waiting.parties)
    for number, party in enumerate(waiting.parties):
        if not party.calls or not party.ranks <= still:
            continue
        for index, need in enumerate(needs_of(waiting.conditions[number])):
            met = waiting.met[number].get(index, RankSet())
            if not isinstance(need.peer, int) or need.peer not in still or not party.ranks <= met:
                continue
            target = find(need.peer)
            if target is not None and target != number and waiting.parties[target].calls:
                yield Edge(number, target, RankSet([need.peer]), need)
