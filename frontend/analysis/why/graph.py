"""The wait-for graph of parties, and its knots: sets of parties that no edge leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pgdb.frontend.analysis.why.needs import Need
from pgdb.frontend.analysis.why.parties import finder
from pgdb.frontend.analysis.why.waiting import Waiting
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    import networkx

_FEW_TARGETS = 8
_MANY_PARTIES = 2000
_MOST_EDGES = 32
"""Most parties that one need of a party points to, in a graph of many parties."""


class Edge(msgspec.Struct, frozen=True):
    """A party that waits for ranks of another."""

    waiter: int
    target: int
    ranks: RankSet
    """The ranks of the target that are waited for."""
    need: Need


def edges_of(waiting: Waiting) -> tuple[Edge, ...]:
    """Return the edges from each party to the parties that have to do something for it."""
    parties = waiting.parties
    find = finder(parties)
    covering: dict[RankSet, list[int]] = {}

    def targets(ranks: RankSet) -> Sequence[int]:
        if len(ranks) <= _FEW_TARGETS:
            found = (find(rank) for rank in ranks)
            return sorted({each for each in found if each is not None})
        if ranks not in covering:
            covering[ranks] = [
                number for number, each in enumerate(parties) if not each.ranks.isdisjoint(ranks)
            ]
        return covering[ranks]

    def edges(number: int) -> Iterator[Edge]:
        own = parties[number].ranks
        for need in waiting.open_needs(number):
            wanted = need.targets
            if len(own) == 1 and need.peer is None:
                wanted = wanted - own
            numbers = targets(wanted)
            if len(parties) > _MANY_PARTIES:
                numbers = numbers[:_MOST_EDGES]
            for target in numbers:
                yield Edge(number, target, wanted & parties[target].ranks, need)

    return tuple(edge for number in range(len(parties)) for edge in edges(number))


def digraph(waiting: Waiting, edges: Sequence[Edge]) -> networkx.DiGraph[int]:
    """Return the graph, with the numbers of the parties as nodes."""
    # Importing it takes longer than most answers, and only this command needs it.
    import networkx

    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_nodes_from(range(len(waiting.parties)))
    graph.add_edges_from((each.waiter, each.target) for each in edges)
    return graph


def knots(graph: networkx.DiGraph[int], nodes: Sequence[int]) -> list[list[int]]:
    """Return the strongly connected parts among *nodes* that no edge to another node leaves.

    A single node is one if it waits for nobody else among *nodes*.
    """
    import networkx

    part = graph.subgraph(nodes)
    found = []
    for component in networkx.strongly_connected_components(part):
        if all(target in component for node in component for target in part.successors(node)):
            found.append(sorted(component))
    return sorted(found)


def reaching(graph: networkx.DiGraph[int], nodes: Sequence[int]) -> list[int]:
    """Return the nodes from which a path leads to one of *nodes*, without these."""
    seen = set(nodes)
    pending = list(nodes)
    while pending:
        for each in graph.predecessors(pending.pop()):
            if each not in seen:
                seen.add(each)
                pending.append(each)
    return sorted(seen.difference(nodes))


def cycle_in(graph: networkx.DiGraph[int], nodes: Sequence[int]) -> list[int]:
    """Return the nodes of a cycle among *nodes*, in the order in which they wait; else none."""
    import networkx

    part = graph.subgraph(nodes)
    try:
        return [source for source, _ in networkx.find_cycle(part)]
    except networkx.NetworkXNoCycle:
        return []


def waiting_for_each_other(
    graph: networkx.DiGraph[int], nodes: Sequence[int], cycle: Sequence[int]
) -> list[int]:
    """Return the nodes among *nodes* that wait for those of a *cycle*, and these for them.

    The nodes of the cycle come first, in their order.
    """
    import networkx

    part = graph.subgraph(nodes)
    for component in networkx.strongly_connected_components(part):
        if cycle[0] in component:
            return [*cycle, *sorted(component.difference(cycle))]
    return [*cycle]
