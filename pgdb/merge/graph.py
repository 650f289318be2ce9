"""The answer graph: what travels up the overlay.

An answer is a rooted directed acyclic graph. A node is one distinct item (a frame, a variable,
a line of text) at one position, an edge leads from an item to what follows it, and the ranks
stand where their answer ends; the ranks of an edge are those of all ends behind it. For stacks
the position is the call path from the outermost frame, so that the graph is the call-graph
prefix tree (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007). What
ranks have in common is sent once, however many of them there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pgdb.errors import ProtocolError
from pgdb.merge.answer import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Done, Frame, Record, Stack, Struct, Text, Variable, Variables

if TYPE_CHECKING:
    import networkx


class Line(Struct, frozen=True, tag="line"):
    """A line of text."""

    text: str


class Call(Struct, frozen=True, tag="call"):
    """A frame on a call path; its level is given by the path."""

    frame: Frame


class Binding(Struct, frozen=True, tag="binding"):
    """A variable and its value."""

    variable: Variable


class Whole(Struct, frozen=True, tag="whole"):
    """A record that is an item by itself."""

    record: Record


Item = Line | Call | Binding | Whole
ItemKind = TypeVar("ItemKind", Line, Call, Binding)


class Node(msgspec.Struct, frozen=True, array_like=True):
    """An item behind its parent; -1 is the root."""

    parent: int
    item: Item


class End(msgspec.Struct, frozen=True, array_like=True):
    """Ranks whose answer is the path to *node*."""

    node: int
    shape: Record
    """The record without its items, which are the path."""
    ranks: RankSet
    slots: tuple[str, ...] = ()


class AnswerGraph(msgspec.Struct, frozen=True):
    """Merged answers as they travel; parents stand before their children."""

    nodes: tuple[Node, ...]
    ends: tuple[End, ...]


def to_graph(classes: Iterable[EquivalenceClass[Record]]) -> AnswerGraph:
    """Return the graph of *classes*, each distinct item at each position once."""
    numbers: dict[Node, int] = {}
    ends = []
    for each in classes:
        shape, items = _split(each.record)
        at = -1
        for item in items:
            at = numbers.setdefault(Node(parent=at, item=item), len(numbers))
        ends.append(End(node=at, shape=shape, ranks=each.ranks, slots=each.slots))
    return AnswerGraph(nodes=tuple(numbers), ends=tuple(ends))


def from_graph(graph: AnswerGraph) -> tuple[EquivalenceClass[Record], ...]:
    """Return the classes that *graph* was made of.

    :raises ProtocolError: if a node's parent does not stand before it, an end has no node, or its
        path is of other items than its record.
    """
    nodes = graph.nodes
    for number, node in enumerate(nodes):
        if not -1 <= node.parent < number:
            raise ProtocolError(f"answer graph: node {number} has parent {node.parent}")
    classes = []
    for end in graph.ends:
        if not -1 <= end.node < len(nodes):
            raise ProtocolError(f"answer graph: an end at node {end.node} of {len(nodes)}")
        # Paths are walked from their ends: one kept for every node would take n² for n lines.
        items: list[Item] = []
        at = end.node
        while at >= 0:
            items.append(nodes[at].item)
            at = nodes[at].parent
        items.reverse()
        classes.append(
            EquivalenceClass(ranks=end.ranks, record=_join(end.shape, items), slots=end.slots)
        )
    return tuple(classes)


def to_networkx(classes: Iterable[EquivalenceClass[Record]]) -> networkx.DiGraph[Any]:
    """Return the answer graph for analysis and export, with rank sets on nodes and edges.

    Nodes are numbers, -1 the root; each has ``label`` (text) and ``ranks``, each edge ``ranks``.
    """
    import networkx  # 0.1 s and more to import: only when somebody analyses

    graph = to_graph(classes)
    reached: list[list[RankSet]] = [[] for _ in graph.nodes]
    everyone: list[RankSet] = []
    for end in graph.ends:
        everyone.append(end.ranks)
        if end.node >= 0:
            reached[end.node].append(end.ranks)
    result: networkx.DiGraph[Any] = networkx.DiGraph()
    result.add_node(-1, label="", ranks=str(RankSet.union(everyone)))
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        ranks = RankSet.union(reached[number])
        result.add_node(number, label=_label(node.item), ranks=str(ranks))
        result.add_edge(node.parent, number, ranks=str(ranks))
        if node.parent >= 0:
            reached[node.parent].append(ranks)
    return result


def _split(record: Record) -> tuple[Record, list[Item]]:
    match record:
        case Stack(frames=frames, hidden=hidden, more=more):
            # A level is a matter of the path, and equal frames at different depths of the
            # inner end must become one node.
            calls: list[Item] = [
                Call(frame=msgspec.structs.replace(frame, level=0)) for frame in reversed(frames)
            ]
            return Stack(frames=(), hidden=hidden, more=more), calls
        case Variables(items=items, empty=empty):
            return Variables(items=(), empty=empty), [Binding(variable=item) for item in items]
        case Text(text=text):
            return Text(text=""), [Line(text=line) for line in text.split("\n")]
        case _:
            return Done(), [Whole(record=record)]


def _join(shape: Record, items: Sequence[Item]) -> Record:
    match shape:
        case Stack(hidden=hidden, more=more):
            frames = [item.frame for item in _all(Call, items)]
            frames.reverse()
            return Stack(
                frames=tuple(
                    msgspec.structs.replace(frame, level=level)
                    for level, frame in enumerate(frames)
                ),
                hidden=hidden,
                more=more,
            )
        case Variables(empty=empty):
            bound = tuple(item.variable for item in _all(Binding, items))
            return Variables(items=bound, empty=empty)
        case Text():
            return Text(text="\n".join(item.text for item in _all(Line, items)))
        case _:
            if len(items) != 1 or not isinstance(items[0], Whole):
                raise ProtocolError("answer graph: an end whose path is no single record")
            return items[0].record


def _all(kind: type[ItemKind], items: Sequence[Item]) -> list[ItemKind]:
    found = [item for item in items if isinstance(item, kind)]
    if len(found) != len(items):
        raise ProtocolError(f"answer graph: a path that is not all {kind.__name__}")
    return found


def _label(item: Item) -> str:
    match item:
        case Line(text=text):
            return text
        case Call(frame=frame):
            place = f" {frame.file}:{frame.line}" if frame.line else ""
            return f"{frame.function}{place}"
        case Binding(variable=variable):
            return f"{variable.name} = {variable.value}"
        case Whole(record=record):
            return str(record)
