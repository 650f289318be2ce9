"""Encode classes, or the content of a merger, as an answer graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from pgdb.merge.classes import EquivalenceClass, Merger, Missing, Said
from pgdb.merge.graph.path_table import PathTable
from pgdb.merge.graph.wire import MISSING_KINDS, AnswerGraph, Column, End, Node
from pgdb.merge.rankset_codec import pack_labels, to_partition
from pgdb.merge.templates import Templated, TemplateTable
from pgdb.records import Record

# Templates of fewer classes than this save nothing.
_FEW_CLASSES = 8
_SMALLEST_FAMILY = 4

Answered = TypeVar("Answered", Said[Record], EquivalenceClass[Record])


def to_graph(
    classes: Iterable[EquivalenceClass[Record]],
    missing: Missing | None = None,
    table: PathTable | None = None,
) -> AnswerGraph:
    """Return the graph of *classes*, with each distinct item at each position once.

    Items and records are looked up in *table* and added to it.
    """
    nodes, ends, members = _to_nodes(tuple(classes), table or PathTable())
    sets = [each.ranks for each in members]
    kinds = [name for name in MISSING_KINDS if missing is not None and getattr(missing, name)]
    sets += [getattr(missing, name) for name in kinds]
    return AnswerGraph(nodes=nodes, ends=ends, partition=to_partition(sets), missing=tuple(kinds))


def merger_to_graph(merger: Merger[Record], missing: Missing, table: PathTable) -> AnswerGraph:
    """Return the graph of the content of *merger*; many ranks stay labels, without a set for each
    class."""
    found = merger.labels()
    if found is None:
        return to_graph(merger.classes, missing, table)
    import numpy

    said, labels = found
    kinds = [name for name in MISSING_KINDS if getattr(missing, name)]
    if kinds:
        labels = labels.with_sets([getattr(missing, name) for name in kinds])
    # Ends are ordered by the least rank of their class.
    order = numpy.argsort(labels.firsts()[: len(said)], kind="stable").tolist()
    nodes, ends, members = _to_nodes([said[number] for number in order], table)
    places = numpy.arange(labels.count, dtype=numpy.uint16)
    for place, each in enumerate(members):
        places[each.number] = place
    return AnswerGraph(
        nodes=nodes,
        ends=ends,
        partition=pack_labels(labels.renumbered(places, labels.count)),
        missing=tuple(kinds),
    )


def _to_nodes(
    classes: Sequence[Answered], table: PathTable
) -> tuple[tuple[Node, ...], tuple[End, ...], list[Answered]]:
    """Return the nodes and ends of *classes*, and the classes in the order of the ends."""
    nodes: list[Node] = []
    numbers: dict[int, int] = {-1: -1}  # of nodes here, by the number of the node in *table*
    ends = []
    members: list[Answered] = []
    for family in _families(classes, table.templates):
        at, shape = table.end(family.record)
        way = []
        while at not in numbers:
            way.append(at)
            at = table.nodes[at][0]
        end = numbers[at]
        for number in reversed(way):
            nodes.append(Node(end, table.nodes[number][1]))
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


class _Family(Generic[Answered]):
    """Classes whose records have one template."""

    __slots__ = ("members", "parts", "record")

    def __init__(
        self, record: Record, members: Sequence[Answered], parts: tuple[Column, ...] = ()
    ) -> None:
        self.record = record
        """The template, or the whole record of the only member."""
        self.members: Sequence[Answered] = members
        self.parts = parts


def _families(classes: Sequence[Answered], templates: TemplateTable) -> Iterable[_Family[Answered]]:
    if len(classes) < _FEW_CLASSES:
        yield from (_Family(each.record, (each,)) for each in classes)
        return
    # A slot mark inside a quoted string is in the parts, so records of one template can have
    # different numbers of slots.
    alike: dict[tuple[Templated, int], list[tuple[Answered, tuple[str, ...]]]] = {}
    for each in classes:
        if isinstance(each.record, Templated):
            template, parts = templates.extract(each.record)
            alike.setdefault((template, len(each.slots)), []).append((each, parts))
        else:
            yield _Family(each.record, (each,))
    for (template, _), found in alike.items():
        if len(found) < _SMALLEST_FAMILY:
            yield from (_Family(each.record, (each,)) for each, _ in found)
        else:
            columns = _columns([parts for _, parts in found])
            yield _Family(template, [each for each, _ in found], columns)


def _columns(rows: Sequence[tuple[str, ...]]) -> tuple[Column, ...]:
    """Turn rows into columns; a column in which all rows agree is a single text."""
    if len(rows) == 1:
        return rows[0]
    columns: list[Column] = []
    for column in zip(*rows, strict=True):
        first = column[0]
        columns.append(first if all(each == first for each in column) else column)
    return tuple(columns)
