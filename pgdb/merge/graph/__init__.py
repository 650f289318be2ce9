"""The answer graph: merged answers as they travel up the overlay.

An answer is a rooted directed acyclic graph. A node is one distinct item (a frame, a variable,
a line of text) at one position. An edge leads from an item to the item that follows it. An end is
the node at which the answer of a class ends; the ranks of an edge are those of all ends behind it.
For stacks the position is the call path from the outermost frame, so the graph is the call-graph
prefix tree (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007). The graph
holds once, for any number of ranks, equal items at equal positions, and the template of answers
that differ only in some values (:mod:`pgdb.merge.templates`).
"""

from pgdb.merge.graph.decode import Answers, from_graph, read_graph
from pgdb.merge.graph.encode import merger_to_graph, to_graph
from pgdb.merge.graph.export import to_networkx
from pgdb.merge.graph.path_table import PathTable
from pgdb.merge.graph.wire import (
    MAX_ITEMS,
    AnswerGraph,
    Binding,
    Call,
    Column,
    End,
    Item,
    Line,
    Node,
    ThreadEnd,
    Whole,
)

__all__ = [
    "MAX_ITEMS",
    "AnswerGraph",
    "Answers",
    "Binding",
    "Call",
    "Column",
    "End",
    "Item",
    "Line",
    "Node",
    "PathTable",
    "ThreadEnd",
    "Whole",
    "from_graph",
    "merger_to_graph",
    "read_graph",
    "to_graph",
    "to_networkx",
]
