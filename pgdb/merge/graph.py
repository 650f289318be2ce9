"""The answer graph: what travels up the overlay.

An answer is a rooted directed acyclic graph. A node is one distinct item (a frame, a variable,
a line of text) at one position, an edge leads from an item to what follows it, and the ranks
stand where their answer ends; the ranks of an edge are those of all ends behind it. For stacks
the position is the call path from the outermost frame, so that the graph is the call-graph
prefix tree (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007). What
ranks have in common is sent once, however many of them there are: equal items at equal
positions, and the form of answers that differ only in some values, see :mod:`pgdb.merge.forms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pgdb.errors import ProtocolError
from pgdb.merge.answer import EquivalenceClass, Missing
from pgdb.merge.forms import Formed, FormTable
from pgdb.merge.packing import Partition, from_partition, to_partition
from pgdb.merge.summary import Summary
from pgdb.ranks import RankSet
from pgdb.records import (
    Done,
    Frame,
    Record,
    Stack,
    Struct,
    Text,
    Threads,
    ThreadStack,
    Variable,
    Variables,
)

if TYPE_CHECKING:
    import networkx


class Line(Struct, frozen=True, tag="line"):
    """A line of text."""

    text: str


class Call(Struct, frozen=True, tag="call"):
    """A frame on a call path; its level is given by the path."""

    frame: Frame


class ThreadEnd(Struct, frozen=True, tag="thread"):
    """The end of the stack of one or several threads; what follows is the next one."""

    shape: Stack
    """The stack without its frames."""
    count: int


class Binding(Struct, frozen=True, tag="binding"):
    """A variable and its value."""

    variable: Variable


class Whole(Struct, frozen=True, tag="whole"):
    """A record that is an item by itself."""

    record: Record


Item = Line | Call | ThreadEnd | Binding | Whole
ItemKind = TypeVar("ItemKind", Line, Call, Binding)
Column = str | tuple[str, ...]
"""One text for each class, or a single one that all of them have."""


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item behind its parent; -1 is the root."""

    parent: int
    item: Item


class End(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the answers of one class end, or of several classes of one form."""

    node: int
    shape: Record
    """The record without its items, which are the path to *node*."""
    count: int = 1
    """Number of classes."""
    parts: tuple[Column, ...] = ()
    """What fills the holes of the form, where there are several classes."""
    slots: tuple[Column, ...] = ()
    columns: tuple[Summary, ...] = ()


class AnswerGraph(msgspec.Struct, frozen=True):
    """Merged answers as they travel; parents stand before their children."""

    nodes: tuple[Node, ...]
    ends: tuple[End, ...]
    partition: Partition
    """The ranks of each class in the order of the ends, then those of each set of missing ones."""
    missing: tuple[str, ...] = ()
    """Which sets of :class:`Missing` are not empty."""


_MISSING = ("late", "lost", "running")
# With fewer classes than this there is nothing to be gained from forms.
_FEW_CLASSES = 8
_SMALLEST_FAMILY = 4


MAX_ITEMS = 1 << 25
"""Most items and texts that the answers of one message may have when they are put together.

Each is there once on the way: a message could stand for what is the square of its size.
"""


class Known:
    """What one node knows of the answers to one question: their forms, and their paths.

    The children of an inner node say the same things. Each item is kept once, each record is put
    together once, and on the way up its path is that which it came by.
    """

    def __init__(self, forms: FormTable | None = None) -> None:
        self.forms = forms if forms is not None else FormTable()
        self.nodes: list[Node] = []
        """All nodes of all graphs; parents stand before their children."""
        self._numbers: dict[Node, int] = {}
        self._records: dict[tuple[int, Record], Record] = {}
        self._ends: dict[Record, tuple[int, Record]] = {}

    def place(self, parent: int, item: Item) -> int:
        """Return the number of a node."""
        node = Node(parent=parent, item=item)
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return number

    def end(self, record: Record) -> tuple[int, Record]:
        """Return the node at which the path of *record* ends, and its shape."""
        found = self._ends.get(record)
        if found is None:
            shape, items = _split(record)
            at = -1
            for item in items:
                at = self.place(at, item)
            found = self._ends[record] = (at, shape)
        return found

    def record(self, at: int, shape: Record) -> Record:
        """Return the record whose path ends at the node *at*.

        :raises ProtocolError: if the path is of other items than the record.
        """
        found = self._records.get((at, shape))
        if found is None:
            found = _join(shape, self.path(at))
            self._records[at, shape] = found
            self._ends.setdefault(found, (at, shape))
        return found

    def path(self, at: int) -> list[Item]:
        """Return the items that lead to a node."""
        items = []
        while at >= 0:
            node = self.nodes[at]
            items.append(node.item)
            at = node.parent
        items.reverse()
        return items


def to_graph(
    classes: Iterable[EquivalenceClass[Record]],
    missing: Missing | None = None,
    known: Known | None = None,
) -> AnswerGraph:
    """Return the graph of *classes*, each distinct item at each position once.

    *known* is what is known of them already.
    """
    known = known or Known()
    nodes: list[Node] = []
    numbers: dict[int, int] = {-1: -1}  # by those of what is known
    ends = []
    sets = []
    for family in _families(tuple(classes), known.forms):
        record, parts = family.record, family.parts
        at, shape = known.end(record)
        way = []
        while at not in numbers:
            way.append(at)
            at = known.nodes[at].parent
        end = numbers[at]
        for number in reversed(way):
            nodes.append(Node(parent=end, item=known.nodes[number].item))
            end = numbers[number] = len(nodes) - 1
        members = family.members
        sets += [each.ranks for each in members]
        ends.append(
            End(
                node=end,
                shape=shape,
                count=len(members),
                parts=parts,
                slots=_columns([each.slots for each in members]),
                columns=members[0].columns,
            )
        )
    kinds = [name for name in _MISSING if missing is not None and getattr(missing, name)]
    sets += [getattr(missing, name) for name in kinds]
    return AnswerGraph(
        nodes=tuple(nodes),
        ends=tuple(ends),
        partition=to_partition(sets),
        missing=tuple(kinds),
    )


def from_graph(
    graph: AnswerGraph, known: Known | None = None
) -> tuple[tuple[EquivalenceClass[Record], ...], Missing]:
    """Return the classes that *graph* was made of, least rank first, and the missing ranks.

    *known* is where what it says is looked up, and left.

    :raises ProtocolError: if a node's parent does not stand before it, an end has no node, its
        path is of other items than its record, or its columns do not fit its form; and for a
        partition that is none.
    """
    nodes = graph.nodes
    known = known or Known()
    places = [-1]  # of the root, then of each node
    depths = [0]
    for number, node in enumerate(nodes):
        if not -1 <= node.parent < number:
            raise ProtocolError(f"answer graph: node {number} has parent {node.parent}")
        places.append(known.place(places[node.parent + 1], node.item))
        depths.append(depths[node.parent + 1] + 1)
    if not set(graph.missing) <= set(_MISSING) or len(set(graph.missing)) < len(graph.missing):
        raise ProtocolError(f"answer graph: no way to be missing: {graph.missing}")
    sets = from_partition(graph.partition)
    class_count = sum(end.count for end in graph.ends)
    if class_count + len(graph.missing) != len(sets) or any(end.count < 1 for end in graph.ends):
        raise ProtocolError(f"answer graph: {class_count} classes, {len(sets)} sets of ranks")
    item_count = 0
    for end in graph.ends:
        if not -1 <= end.node < len(nodes):
            raise ProtocolError(f"answer graph: an end at node {end.node} of {len(nodes)}")
        item_count += depths[end.node + 1] + end.count * (1 + len(end.parts) + len(end.slots))
    if item_count > MAX_ITEMS:
        raise ProtocolError(f"answer graph: {item_count} items")
    classes: list[EquivalenceClass[Record]] = []
    for end in graph.ends:
        form = known.record(places[end.node + 1], end.shape)
        slots = _rows(end.slots, end.count)
        for number, record in enumerate(_records(form, end, known.forms)):
            ranks = sets[len(classes)]
            classes.append(
                EquivalenceClass(
                    ranks=ranks, record=record, slots=slots[number], columns=end.columns
                )
            )
    missing = dict(zip(graph.missing, sets[len(classes) :], strict=True))
    return tuple(sorted(classes, key=lambda each: each.ranks.first)), Missing(**missing)


def to_networkx(classes: Iterable[EquivalenceClass[Record]]) -> networkx.DiGraph[Any]:
    """Return the answer graph for analysis and export, with rank sets on nodes and edges.

    Nodes are numbers, -1 the root; each has ``label`` (text) and ``ranks``, each edge ``ranks``.
    """
    import networkx  # 0.1 s and more to import: only when somebody analyses

    nodes: dict[Node, list[RankSet]] = {}
    numbers: dict[Node, int] = {}
    everyone: list[RankSet] = []
    for each in classes:
        at = -1
        everyone.append(each.ranks)
        for item in _split(each.record)[1]:
            node = Node(parent=at, item=item)
            nodes.setdefault(node, []).append(each.ranks)
            at = numbers.setdefault(node, len(numbers))
    result: networkx.DiGraph[Any] = networkx.DiGraph()
    result.add_node(-1, label="", ranks=str(RankSet.union(everyone)))
    for node, reached in nodes.items():
        ranks = str(RankSet.union(reached))
        result.add_node(numbers[node], label=_label(node.item), ranks=ranks)
        result.add_edge(node.parent, numbers[node], ranks=ranks)
    return result


# -- classes of one form --------------------------------------------------------------------------


class _Family:
    """Classes whose records have one form."""

    __slots__ = ("members", "parts", "record")

    def __init__(
        self,
        record: Record,
        members: Sequence[EquivalenceClass[Record]],
        parts: tuple[Column, ...] = (),
    ) -> None:
        self.record = record
        """The form, or the whole record of the only member."""
        self.members = members
        self.parts = parts


def _families(classes: Sequence[EquivalenceClass[Record]], forms: FormTable) -> Iterable[_Family]:
    if len(classes) < _FEW_CLASSES:
        yield from (_Family(each.record, (each,)) for each in classes)
        return
    # Marks inside of strings are in the parts: records of one form can have other slots.
    alike: dict[tuple[Formed, int], list[tuple[EquivalenceClass[Record], tuple[str, ...]]]] = {}
    for each in classes:
        if isinstance(each.record, Formed):
            form, parts = forms.take(each.record)
            alike.setdefault((form, len(each.slots)), []).append((each, parts))
        else:
            yield _Family(each.record, (each,))
    for (form, _), found in alike.items():
        if len(found) < _SMALLEST_FAMILY:
            yield from (_Family(each.record, (each,)) for each, _ in found)
        else:
            columns = _columns([parts for _, parts in found])
            yield _Family(form, [each for each, _ in found], columns)


def _columns(rows: Sequence[tuple[str, ...]]) -> tuple[Column, ...]:
    """Turn rows into columns; one in which all rows agree is a single text."""
    if len(rows) == 1:
        return rows[0]
    columns: list[Column] = []
    for column in zip(*rows, strict=True):
        first = column[0]
        columns.append(first if all(each == first for each in column) else column)
    return tuple(columns)


def _rows(columns: Sequence[Column], count: int) -> list[tuple[str, ...]]:
    spread = [(each,) * count if isinstance(each, str) else each for each in columns]
    if any(len(each) != count for each in spread):
        raise ProtocolError(f"answer graph: a column that has not {count} rows")
    return list(zip(*spread, strict=True)) if spread else [()] * count


def _records(form: Record, end: End, forms: FormTable) -> Iterable[Record]:
    if end.count == 1 and not end.parts:
        return (form,)
    if not isinstance(form, Formed):
        raise ProtocolError(f"answer graph: {type(form).__name__} has no form")
    try:
        records = forms.fill_rows(form, end.parts, end.count)
    except ValueError as error:
        raise ProtocolError(f"answer graph: {error}") from None
    if len(records) != end.count:
        raise ProtocolError(f"answer graph: {len(records)} records of {end.count}")
    return records


# -- records and their items -----------------------------------------------------------------------


def _split(record: Record) -> tuple[Record, list[Item]]:
    match record:
        case Stack(frames=frames, hidden=hidden, more=more):
            return Stack(frames=(), hidden=hidden, more=more), [*_calls(frames)]
        case Threads(stacks=stacks, hidden=hidden):
            items: list[Item] = []
            for each in stacks:
                items += _calls(each.stack.frames)
                shape = msgspec.structs.replace(each.stack, frames=())
                items.append(ThreadEnd(shape=shape, count=each.count))
            return Threads(stacks=(), hidden=hidden), items
        case Variables(items=variables, empty=empty):
            return Variables(items=(), empty=empty), [Binding(variable=each) for each in variables]
        case Text(text=text):
            return Text(text=""), [Line(text=line) for line in text.split("\n")]
        case _:
            return Done(), [Whole(record=record)]


def _join(shape: Record, items: Sequence[Item]) -> Record:
    match shape:
        case Stack(hidden=hidden, more=more):
            return Stack(frames=_frames(_all(Call, items)), hidden=hidden, more=more)
        case Threads(hidden=hidden):
            return Threads(stacks=_thread_stacks(items), hidden=hidden)
        case Variables(empty=empty):
            bound = tuple(item.variable for item in _all(Binding, items))
            return Variables(items=bound, empty=empty)
        case Text():
            return Text(text="\n".join(item.text for item in _all(Line, items)))
        case _:
            if len(items) != 1 or not isinstance(items[0], Whole):
                raise ProtocolError("answer graph: an end whose path is no single record")
            return items[0].record


def _calls(frames: Sequence[Frame]) -> list[Call]:
    # A level is a matter of the path, and equal frames at different depths of the inner end must
    # become one node.
    return [Call(frame=msgspec.structs.replace(frame, level=0)) for frame in reversed(frames)]


def _frames(calls: Sequence[Call]) -> tuple[Frame, ...]:
    return tuple(
        msgspec.structs.replace(call.frame, level=level)
        for level, call in enumerate(reversed(calls))
    )


def _thread_stacks(items: Sequence[Item]) -> tuple[ThreadStack, ...]:
    stacks = []
    calls: list[Call] = []
    for item in items:
        if isinstance(item, Call):
            calls.append(item)
        elif isinstance(item, ThreadEnd):
            stack = msgspec.structs.replace(item.shape, frames=_frames(calls))
            stacks.append(ThreadStack(stack=stack, count=item.count))
            calls = []
        else:
            raise ProtocolError("answer graph: a path that is not all threads")
    if calls:
        raise ProtocolError("answer graph: a thread without an end")
    return tuple(stacks)


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
        case ThreadEnd(count=count):
            return f"{count} threads" if count > 1 else "1 thread"
        case Binding(variable=variable):
            return f"{variable.name} = {variable.value}"
        case Whole(record=record):
            return str(record)
