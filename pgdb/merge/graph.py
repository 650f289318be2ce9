"""The answer graph: what travels up the overlay.

An answer is a rooted directed acyclic graph. A node is one distinct item (a frame, a variable,
a line of text) at one position, an edge leads from an item to what follows it, and the ranks
stand where their answer ends; the ranks of an edge are those of all ends behind it. For stacks
the position is the call path from the outermost frame, so that the graph is the call-graph
prefix tree (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007). What
ranks have in common is sent once, however many of them there are: equal items at equal
positions, and the form of answers that differ only in some values, see :mod:`pgdb.merge.templates`.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.classes import EquivalenceClass, Merger, Missing, Said
from pgdb.merge.partition_labels import Labels
from pgdb.merge.rankset_codec import Partition, pack_labels, read_partition, to_partition
from pgdb.merge.summary import Summary
from pgdb.merge.templates import Templated, TemplateTable
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


# The children of a node say the same things: what they send of each is looked up as it came, and
# only what is new is decoded.


class Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An item behind its parent; -1 is the root."""

    parent: int
    item: msgspec.Raw

    @classmethod
    def of(cls, parent: int, item: Item) -> Node:
        """Return the node of *item*."""
        return cls(parent, msgspec.Raw(_ENCODER.encode(item)))


class End(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the answers of one class end, or of several classes of one form."""

    node: int
    shape: msgspec.Raw
    """The record without its items, which are the path to *node*."""
    count: int
    """Number of classes."""
    parts: msgspec.Raw
    """Columns: what fills the holes of the form, where there are several classes."""
    slots: msgspec.Raw
    """Columns, too."""
    columns: tuple[Summary, ...] = ()

    @classmethod
    def of(
        cls,
        node: int,
        shape: Record,
        *,
        count: int = 1,
        parts: tuple[Column, ...] = (),
        slots: tuple[Column, ...] = (),
        columns: tuple[Summary, ...] = (),
    ) -> End:
        """Return the end of *count* classes."""
        raw = (msgspec.Raw(_ENCODER.encode(each)) for each in (shape, parts, slots))
        return cls(node, next(raw), count, next(raw), next(raw), columns)


_ENCODER = msgspec.msgpack.Encoder()
_ITEMS: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)
_SHAPES: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_COLUMNS: msgspec.msgpack.Decoder[tuple[Column, ...]] = msgspec.msgpack.Decoder(tuple[Column, ...])
_T = TypeVar("_T")


def _decode(decoder: msgspec.msgpack.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())  # it quotes what came, line ends and all
        raise ProtocolError(f"answer graph: {why}") from None


class AnswerGraph(msgspec.Struct, frozen=True, omit_defaults=True):
    """Merged answers as they travel; parents stand before their children."""

    nodes: tuple[Node, ...]
    ends: tuple[End, ...]
    partition: Partition
    """The ranks of each class in the order of the ends, then those of each set of missing ones."""
    missing: tuple[str, ...] = ()
    """Which sets of :class:`Missing` are not empty."""
    deflated: bytes = b""
    """Nodes and ends, compressed, in place of these."""

    def deflate(self) -> AnswerGraph:
        """Return the same in a form that is much shorter where it is long.

        Items that differ in a line number alone are as many as classes, and name the same files.
        """
        if self.deflated or any(end.columns for end in self.ends):
            return self
        data = _ENCODER.encode((self.nodes, self.ends))
        if len(data) < _LONG_BYTES:
            return self
        deflated = zlib.compress(data, 1, -15)
        if len(data) > _most_inflated(len(deflated)):
            return self
        return replace(self, nodes=(), ends=(), deflated=deflated)

    def inflate(self) -> AnswerGraph:
        """Return the same with its nodes and ends as they are.

        :raises ProtocolError: if they are none, or stand for much more than they are.
        """
        if not self.deflated:
            return self
        most = _most_inflated(len(self.deflated))
        unpacker = zlib.decompressobj(-15)
        try:
            data = unpacker.decompress(self.deflated, most + 1)
        except zlib.error as error:
            raise ProtocolError(f"answer graph: {error}") from None
        if len(data) > most or not unpacker.eof:
            raise ProtocolError("answer graph: its nodes are not as long as they may be")
        nodes, ends = _decode(_BODIES, data)
        return replace(self, nodes=nodes, ends=ends, deflated=b"")


_BODIES: msgspec.msgpack.Decoder[tuple[tuple[Node, ...], tuple[End, ...]]] = (
    msgspec.msgpack.Decoder(tuple[tuple[Node, ...], tuple[End, ...]])
)
_LONG_BYTES = 4096
# What is sent may stand for so much more: otherwise a few bytes would be hundreds of megabytes.
_MOST_INFLATED_BYTES = 1 << 20
_MOST_RATIO = 64


def _most_inflated(size: int) -> int:
    return _MOST_INFLATED_BYTES + _MOST_RATIO * size


_MISSING = ("late", "lost", "running")
# With fewer classes than this there is nothing to be gained from forms.
_FEW_CLASSES = 8
_SMALLEST_FAMILY = 4


MAX_ITEMS = 1 << 25
"""Most items and texts that the answers of one message may have when they are put together.

Each is there once on the way: a message could stand for what is the square of its size.
"""


class Answers:
    """What a graph says."""

    __slots__ = ("_sets", "kinds", "labels", "said")

    def __init__(
        self,
        said: Sequence[Said[Record]],
        sets: Labels | tuple[RankSet, ...],
        kinds: Sequence[str],
    ) -> None:
        self.said = said
        self.kinds = kinds
        """Which sets of :class:`Missing` are not empty."""
        self.labels: Labels | None = None
        """The ranks of each of *said*, where no sets of ranks came."""
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


class Known:
    """What one node knows of the answers to one question: their forms, and their paths.

    The children of an inner node say the same things. Each item is kept once, each record is put
    together once, and on the way up its path is that which it came by.
    """

    def __init__(self, forms: TemplateTable | None = None) -> None:
        self.forms = forms if forms is not None else TemplateTable()
        self.nodes: list[tuple[int, msgspec.Raw]] = []
        """Parent and item of all nodes of all graphs; parents stand before their children."""
        self._items: list[Item] = []
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._frames: dict[tuple[int, int], Frame] = {}  # by node and level
        self._records: dict[tuple[int, Record], Record] = {}
        self._ends: dict[Record, tuple[int, Record]] = {}
        self._shapes: dict[bytes, Record] = {}
        self._texts: dict[str, str] = {}
        self._said: dict[tuple[int, bytes, bytes, bytes], tuple[int, Said[Record]]] = {}
        self._rows: dict[tuple[object, ...], dict[tuple[str, ...], Said[Record]]] = {}

    def place(self, parent: int, data: bytes) -> int:
        """Return the number of the node of an item behind the node *parent*.

        :raises ProtocolError: if *data* is no item.
        """
        key = parent, data
        number = self._numbers.get(key)
        if number is None:
            self._items.append(_decode(_ITEMS, data))
            self.nodes.append((parent, msgspec.Raw(data)))
            number = self._numbers[key] = len(self.nodes) - 1
        return number

    def end(self, record: Record) -> tuple[int, Record]:
        """Return the node at which the path of *record* ends, and its shape."""
        found = self._ends.get(record)
        if found is None:
            shape, items = _split(record)
            at = -1
            for item in items:
                at = self.place(at, _ENCODER.encode(item))
            found = self._ends[record] = (at, shape)
        return found

    def record(self, at: int, shape: Record) -> Record:
        """Return the record whose path ends at the node *at*.

        :raises ProtocolError: if the path is of other items than the record.
        """
        found = self._records.get((at, shape))
        if found is None:
            if isinstance(shape, Stack):
                frames = self._frames_to(at)
                found = Stack(frames=frames, hidden=shape.hidden, more=shape.more)
            else:
                found = _join(shape, self.path(at))
            self._records[at, shape] = found
            self._ends.setdefault(found, (at, shape))
        return found

    def path(self, at: int) -> list[Item]:
        """Return the items that lead to a node."""
        items = []
        while at >= 0:
            items.append(self._items[at])
            at = self.nodes[at][0]
        items.reverse()
        return items

    def _frames_to(self, at: int) -> tuple[Frame, ...]:
        """Return the frames on the path to a node, innermost first; outer ones are shared."""
        frames: list[Frame] = []
        while at >= 0:
            level = len(frames)
            frame = self._frames.get((at, level))
            if frame is None:
                item = self._items[at]
                if not isinstance(item, Call):
                    raise ProtocolError("answer graph: a path that is not all Call")
                frame = replace(item.frame, level=level)
                self._frames[at, level] = frame
            frames.append(frame)
            at = self.nodes[at][0]
        return tuple(frames)

    def said(self, at: int, end: End, room: int) -> tuple[int, Iterable[Said[Record]]]:
        """Return what the classes of *end*, which is at the node *at*, have said.

        The number is that of the items and texts that it takes, and no more than *room*.

        :raises ProtocolError: if it is nothing that could have been said, or takes more.
        """
        key = at, bytes(end.shape), bytes(end.parts), bytes(end.slots)
        is_single = end.count == 1 and not end.columns
        if is_single and (found := self._said.get(key)) is not None:
            return found[0], (found[1],)
        shape = self._shapes.get(key[1])
        if shape is None:
            shape = self._shapes[key[1]] = _decode(_SHAPES, key[1])
        parts, slots = _decode(_COLUMNS, key[2]), _decode(_COLUMNS, key[3])
        taken = end.count * (1 + len(parts) + len(slots))
        if taken > room:
            raise ProtocolError(f"answer graph: more than {MAX_ITEMS} items")
        form = self.record(at, shape)
        if is_single:
            (record,) = _records(form, 1, parts, self.forms)
            # Of a thousand classes most slots hold the same.
            texts = tuple(self._texts.setdefault(each, each) for each in _rows(slots, 1)[0])
            said = Said(record, texts)
            self._said[key] = taken, said
            return taken, (said,)
        if end.columns:
            rows = _rows(slots, end.count)
            records = _records(form, end.count, parts, self.forms)
            return taken, map(Said, records, rows, itertools.repeat(end.columns))
        return taken, self._family(form, end.count, parts, slots)

    def _family(
        self, form: Record, count: int, parts: Sequence[Column], slots: Sequence[Column]
    ) -> list[Said[Record]]:
        """Return what *count* classes of one form have said."""
        columns = (*parts, *slots)
        common = tuple(each if isinstance(each, str) else None for each in columns)
        known = self._rows.setdefault((form, len(parts), common), {})
        rows = _rows([each for each in columns if not isinstance(each, str)], count)
        found = [known.get(row) for row in rows]
        new = [number for number, said in enumerate(found) if said is None]
        if new:
            some, ways = (
                [each if isinstance(each, str) else [each[at] for at in new] for each in which]
                for which in (parts, slots)
            )
            records = _records(form, len(new), some, self.forms)
            told = map(Said, records, _rows(ways, len(new)))
            for number, said in zip(new, told, strict=True):
                found[number] = known.setdefault(rows[number], said)
        return [said for said in found if said is not None]


def to_graph(
    classes: Iterable[EquivalenceClass[Record]],
    missing: Missing | None = None,
    known: Known | None = None,
) -> AnswerGraph:
    """Return the graph of *classes*, each distinct item at each position once.

    *known* is what is known of them already.
    """
    nodes, ends, members = _to_nodes(tuple(classes), known or Known())
    sets = [each.ranks for each in members]
    kinds = [name for name in _MISSING if missing is not None and getattr(missing, name)]
    sets += [getattr(missing, name) for name in kinds]
    return AnswerGraph(nodes=nodes, ends=ends, partition=to_partition(sets), missing=tuple(kinds))


def merger_to_graph(merger: Merger[Record], missing: Missing, known: Known) -> AnswerGraph:
    """Return the graph of what *merger* has, without a set of ranks for each class if there are
    many."""
    found = merger.labels()
    if found is None:
        return to_graph(merger.classes, missing, known)
    import numpy

    said, labels = found
    kinds = [name for name in _MISSING if getattr(missing, name)]
    if kinds:
        labels = labels.with_sets([getattr(missing, name) for name in kinds])
    # Least rank first, as everywhere.
    order = numpy.argsort(labels.firsts()[: len(said)], kind="stable").tolist()
    nodes, ends, members = _to_nodes([said[number] for number in order], known)
    table = numpy.arange(labels.count, dtype=numpy.uint16)
    for place, each in enumerate(members):
        table[each.number] = place
    return AnswerGraph(
        nodes=nodes,
        ends=ends,
        partition=pack_labels(labels.renumbered(table, labels.count)),
        missing=tuple(kinds),
    )


def _to_nodes(
    classes: Sequence[_Told], known: Known
) -> tuple[tuple[Node, ...], tuple[End, ...], list[_Told]]:
    """Return the nodes and ends of *classes*, and these in the order of the ends."""
    nodes: list[Node] = []
    numbers: dict[int, int] = {-1: -1}  # by those of what is known
    ends = []
    members: list[_Told] = []
    for family in _families(classes, known.forms):
        at, shape = known.end(family.record)
        way = []
        while at not in numbers:
            way.append(at)
            at = known.nodes[at][0]
        end = numbers[at]
        for number in reversed(way):
            nodes.append(Node(end, known.nodes[number][1]))
            end = numbers[number] = len(nodes) - 1
        members += family.members
        ends.append(
            End.of(
                end,
                shape,
                count=len(family.members),
                parts=family.parts,
                slots=_columns([each.slots for each in family.members]),
                columns=family.members[0].columns,
            )
        )
    return tuple(nodes), tuple(ends), members


def from_graph(
    graph: AnswerGraph, known: Known | None = None
) -> tuple[tuple[EquivalenceClass[Record], ...], Missing]:
    """Return the classes that *graph* was made of, least rank first, and the missing ranks.

    *known* is where what it says is looked up, and left.

    :raises ProtocolError: if a node's parent does not stand before it, an end has no node, its
        path is of other items than its record, or its columns do not fit its form; and for a
        partition that is none.
    """
    answers = read_graph(graph, known or Known())
    return answers.classes, answers.missing


def read_graph(graph: AnswerGraph, known: Known) -> Answers:
    """Return what *graph* was made of, without a set of ranks for each class if there are many.

    :raises ProtocolError: as :func:`from_graph` does.
    """
    graph = graph.inflate()
    nodes = graph.nodes
    places = [-1]  # of the root, then of each node
    depths = [0]
    for number, node in enumerate(nodes):
        if not -1 <= node.parent < number:
            raise ProtocolError(f"answer graph: node {number} has parent {node.parent}")
        places.append(known.place(places[node.parent + 1], bytes(node.item)))
        depths.append(depths[node.parent + 1] + 1)
    if not set(graph.missing) <= set(_MISSING) or len(set(graph.missing)) < len(graph.missing):
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
        taken, found = known.said(places[end.node + 1], end, room)
        room -= taken
        said += found
    return Answers(said, sets, graph.missing)


def to_networkx(classes: Iterable[EquivalenceClass[Record]]) -> networkx.DiGraph[Any]:
    """Return the answer graph for analysis and export, with rank sets on nodes and edges.

    Nodes are numbers, -1 the root; each has ``label`` (text) and ``ranks``, each edge ``ranks``.
    """
    import networkx  # 0.1 s and more to import: only when somebody analyses

    nodes: dict[tuple[int, Item], list[RankSet]] = {}
    numbers: dict[tuple[int, Item], int] = {}
    everyone: list[RankSet] = []
    for each in classes:
        at = -1
        everyone.append(each.ranks)
        for item in _split(each.record)[1]:
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


# -- classes of one form --------------------------------------------------------------------------


_Told = TypeVar("_Told", Said[Record], EquivalenceClass[Record])


class _Family(Generic[_Told]):
    """Classes whose records have one form."""

    __slots__ = ("members", "parts", "record")

    def __init__(
        self, record: Record, members: Sequence[_Told], parts: tuple[Column, ...] = ()
    ) -> None:
        self.record = record
        """The form, or the whole record of the only member."""
        self.members: Sequence[_Told] = members
        self.parts = parts


def _families(classes: Sequence[_Told], forms: TemplateTable) -> Iterable[_Family[_Told]]:
    if len(classes) < _FEW_CLASSES:
        yield from (_Family(each.record, (each,)) for each in classes)
        return
    # Marks inside of strings are in the parts: records of one form can have other slots.
    alike: dict[tuple[Templated, int], list[tuple[_Told, tuple[str, ...]]]] = {}
    for each in classes:
        if isinstance(each.record, Templated):
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


def _rows(columns: Sequence[str | Sequence[str]], count: int) -> list[tuple[str, ...]]:
    spread = [(each,) * count if isinstance(each, str) else each for each in columns]
    if any(len(each) != count for each in spread):
        raise ProtocolError(f"answer graph: a column that has not {count} rows")
    return list(zip(*spread, strict=True)) if spread else [()] * count


def _records(
    form: Record, count: int, parts: Sequence[str | Sequence[str]], forms: TemplateTable
) -> Sequence[Record]:
    if count == 1 and not parts:
        return (form,)
    if not isinstance(form, Templated):
        raise ProtocolError(f"answer graph: {type(form).__name__} has no form")
    try:
        records = forms.fill_rows(form, parts, count)
    except ValueError as error:
        raise ProtocolError(f"answer graph: {error}") from None
    if len(records) != count:
        raise ProtocolError(f"answer graph: {len(records)} records of {count}")
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
                shape = replace(each.stack, frames=())
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
    return [Call(frame=replace(frame, level=0)) for frame in reversed(frames)]


def _frames(calls: Sequence[Call]) -> tuple[Frame, ...]:
    return tuple(replace(call.frame, level=level) for level, call in enumerate(reversed(calls)))


def _thread_stacks(items: Sequence[Item]) -> tuple[ThreadStack, ...]:
    stacks = []
    calls: list[Call] = []
    for item in items:
        if isinstance(item, Call):
            calls.append(item)
        elif isinstance(item, ThreadEnd):
            stack = replace(item.shape, frames=_frames(calls))
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
