"""The answer graph as a NetworkX graph, for analysis and export."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph.items import split_record
from pgdb.merge.graph.wire import Binding, Call, Item, Line, ThreadEnd, Whole
from pgdb.ranks import RankSet
from pgdb.records import Record

if TYPE_CHECKING:
    import networkx


def to_networkx(classes: Iterable[EquivalenceClass[Record]]) -> networkx.DiGraph[Any]:
    """Return the answer graph for analysis and export, with rank sets on nodes and edges.

    Nodes are numbers, and -1 is the root. Each node has ``label`` (text) and ``ranks``, each edge
    ``ranks``.
    """
    import networkx  # 0.1 s and more to import: only when somebody analyses

    nodes: dict[tuple[int, Item], list[RankSet]] = {}
    numbers: dict[tuple[int, Item], int] = {}
    everyone: list[RankSet] = []
    for each in classes:
        at = -1
        everyone.append(each.ranks)
        for item in split_record(each.record)[1]:
            node = at, item
            nodes.setdefault(node, []).append(each.ranks)
            at = numbers.setdefault(node, len(numbers))
    result: networkx.DiGraph[Any] = networkx.DiGraph()
    result.add_node(-1, label="", ranks=str(RankSet.union(everyone)))
    for node, reached in nodes.items():
        ranks = str(RankSet.union(reached))
        result.add_node(numbers[node], label=_label(node[1]), ranks=ranks)
        result.add_edge(node[0], numbers[node], ranks=ranks)
    return result


def _label(item: Item) -> str:
    match item:
        case Line(text=text):
            return text
        case Call(frame=frame):
            place = f" {frame.file}:{frame.line}" if frame.line else ""
            return f"{frame.function}{place}"
        case ThreadEnd(count=count):
            return f"{count} threads" if count > 1 else "1 thread"
        case Binding(variable=variable):
            return f"{variable.name} = {variable.value}"
        case Whole(record=record):
            return str(record)
