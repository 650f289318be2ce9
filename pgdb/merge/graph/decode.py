"""Read the classes and the missing ranks from an answer graph."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.errors import ProtocolError
from pgdb.merge.classes import EquivalenceClass, Missing, Said
from pgdb.merge.graph.path_table import PathTable
from pgdb.merge.graph.wire import MAX_ITEMS, MISSING_KINDS, AnswerGraph
from pgdb.merge.partition_labels import Labels
from pgdb.merge.rankset_codec import read_partition
from pgdb.ranks import RankSet
from pgdb.records import Record


class Answers:
    """The content of a graph."""

    __slots__ = ("_sets", "kinds", "labels", "said")

    def __init__(
        self,
        said: Sequence[Said[Record]],
        sets: Labels | tuple[RankSet, ...],
        kinds: Sequence[str],
    ) -> None:
        self.said = said
        self.kinds = kinds
        """The sets of :class:`Missing` that are not empty."""
        self.labels: Labels | None = None
        """The ranks of each of *said*, where the graph brought labels in place of sets."""
        if isinstance(sets, Labels):
            self.labels, sets = sets.split(len(said)) if kinds else (sets, ())
        self._sets = sets

    @property
    def classes(self) -> tuple[EquivalenceClass[Record], ...]:
        """The classes, least rank first."""
        classes = [
            EquivalenceClass(
                ranks=ranks, record=each.record, slots=each.slots, columns=each.columns
            )
            for each, ranks in zip(
                self.said, self._sets if self.labels is None else self.labels.sets(), strict=False
            )
        ]
        return tuple(sorted(classes, key=lambda each: each.ranks.first))

    @property
    def missing(self) -> Missing:
        """The missing ranks."""
        if not self.kinds:
            return Missing()
        return Missing(**dict(zip(self.kinds, self._sets[-len(self.kinds) :], strict=True)))


def from_graph(
    graph: AnswerGraph, table: PathTable | None = None
) -> tuple[tuple[EquivalenceClass[Record], ...], Missing]:
    """Return the classes that *graph* was made of, least rank first, and the missing ranks.

    The content of *graph* is looked up in *table* and added to it.

    :raises ProtocolError: if a node stands before its parent, an end has no node, the path of an
        end
        does not fit its record, columns do not fit their template, or the partition is invalid.
    """
    answers = read_graph(graph, table or PathTable())
    return answers.classes, answers.missing


def read_graph(graph: AnswerGraph, table: PathTable) -> Answers:
    """Return the content of *graph*; many ranks stay labels, without a set for each class.

    :raises ProtocolError: as :func:`from_graph` does.
    """
    graph = graph.inflate()
    nodes = graph.nodes
    places = [-1]  # of the root, then of each node
    depths = [0]
    for number, node in enumerate(nodes):
        if not -1 <= node.parent < number:
            raise ProtocolError(f"answer graph: node {number} has parent {node.parent}")
        places.append(table.place(places[node.parent + 1], bytes(node.item)))
        depths.append(depths[node.parent + 1] + 1)
    if not set(graph.missing) <= set(MISSING_KINDS) or len(set(graph.missing)) < len(graph.missing):
        raise ProtocolError(f"answer graph: no way to be missing: {graph.missing}")
    sets = read_partition(graph.partition)
    set_count = sets.count if isinstance(sets, Labels) else len(sets)
    class_count = sum(end.count for end in graph.ends)
    if class_count + len(graph.missing) != set_count or any(end.count < 1 for end in graph.ends):
        raise ProtocolError(f"answer graph: {class_count} classes, {set_count} sets of ranks")
    said: list[Said[Record]] = []
    room = MAX_ITEMS
    for end in graph.ends:
        if not -1 <= end.node < len(nodes):
            raise ProtocolError(f"answer graph: an end at node {end.node} of {len(nodes)}")
        room -= depths[end.node + 1]
        size, found = table.said(places[end.node + 1], end, room)
        room -= size
        said += found
    return Answers(said, sets, graph.missing)
