"""The table in which an inner node keeps the paths and records of one question's answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.classes import Said
from pgdb.merge.graph.items import join_record, split_record
from pgdb.merge.graph.wire import (
    COLUMNS,
    ENCODER,
    ITEMS,
    MAX_ITEMS,
    SHAPES,
    Call,
    Column,
    End,
    Item,
    decode_with,
)
from pgdb.merge.templates import Templated, TemplateTable
from pgdb.records import Frame, Record, Stack


class PathTable:
    """The templates and paths that one node has seen in the answers to one question.

    The children of an inner node mostly send equal items. Each item is kept once and each record is
    joined once. The path of a record on the way up is the one that it arrived by.
    """

    def __init__(self, templates: TemplateTable | None = None) -> None:
        self.templates = templates if templates is not None else TemplateTable()
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
        """Return the number of the node for the item *data* behind the node *parent*.

        :raises ProtocolError: if *data* is not an item.
        """
        key = parent, data
        number = self._numbers.get(key)
        if number is None:
            self._items.append(decode_with(ITEMS, data))
            self.nodes.append((parent, msgspec.Raw(data)))
            number = self._numbers[key] = len(self.nodes) - 1
        return number

    def end(self, record: Record) -> tuple[int, Record]:
        """Return the node at which the path of *record* ends, and the record without its items."""
        found = self._ends.get(record)
        if found is None:
            shape, items = split_record(record)
            at = -1
            for item in items:
                at = self.place(at, ENCODER.encode(item))
            found = self._ends[record] = (at, shape)
        return found

    def record(self, at: int, shape: Record) -> Record:
        """Return the record whose path ends at the node *at*.

        :raises ProtocolError: if the items of the path do not fit *shape*.
        """
        found = self._records.get((at, shape))
        if found is None:
            if isinstance(shape, Stack):
                frames = self._frames_to(at)
                found = replace(shape, frames=frames)
            else:
                found = join_record(shape, self.path(at))
            self._records[at, shape] = found
            self._ends.setdefault(found, (at, shape))
        return found

    def path(self, at: int) -> list[Item]:
        """Return the items on the path to the node *at*."""
        items = []
        while at >= 0:
            items.append(self._items[at])
            at = self.nodes[at][0]
        items.reverse()
        return items

    def _frames_to(self, at: int) -> tuple[Frame, ...]:
        """Return the frames on the path to the node *at*, innermost first; they share objects."""
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
        """Return the answers of the classes of *end*, which is at the node *at*.

        The number is the count of items and texts in them, at most *room*.

        :raises ProtocolError: if *end* is invalid, or its answers have more than *room* items and
            texts.
        """
        key = at, bytes(end.shape), bytes(end.parts), bytes(end.slots)
        is_single = end.count == 1 and not end.columns
        if is_single and (found := self._said.get(key)) is not None:
            return found[0], (found[1],)
        shape = self._shapes.get(key[1])
        if shape is None:
            shape = self._shapes[key[1]] = decode_with(SHAPES, key[1])
        parts, slots = decode_with(COLUMNS, key[2]), decode_with(COLUMNS, key[3])
        size = end.count * (1 + len(parts) + len(slots))
        if size > room:
            raise ProtocolError(f"answer graph: more than {MAX_ITEMS} items")
        template = self.record(at, shape)
        if is_single:
            (record,) = _records(template, 1, parts, self.templates)
            # A thousand classes mostly have equal slots.
            texts = tuple(self._texts.setdefault(each, each) for each in _rows(slots, 1)[0])
            said = Said(record, texts)
            self._said[key] = size, said
            return size, (said,)
        if end.columns:
            rows = _rows(slots, end.count)
            records = _records(template, end.count, parts, self.templates)
            return size, map(Said, records, rows, itertools.repeat(end.columns))
        return size, self._family(template, end.count, parts, slots)

    def _family(
        self, template: Record, count: int, parts: Sequence[Column], slots: Sequence[Column]
    ) -> list[Said[Record]]:
        """Return the answers of *count* classes of one template."""
        columns = (*parts, *slots)
        common = tuple(each if isinstance(each, str) else None for each in columns)
        known = self._rows.setdefault((template, len(parts), common), {})
        rows = _rows([each for each in columns if not isinstance(each, str)], count)
        found = [known.get(row) for row in rows]
        new = [number for number, said in enumerate(found) if said is None]
        if new:
            some, ways = (
                [each if isinstance(each, str) else [each[at] for at in new] for each in which]
                for which in (parts, slots)
            )
            records = _records(template, len(new), some, self.templates)
            new_answers = map(Said, records, _rows(ways, len(new)))
            for number, said in zip(new, new_answers, strict=True):
                found[number] = known.setdefault(rows[number], said)
        return [said for said in found if said is not None]


def _rows(columns: Sequence[str | Sequence[str]], count: int) -> list[tuple[str, ...]]:
    spread = [(each,) * count if isinstance(each, str) else each for each in columns]
    if any(len(each) != count for each in spread):
        raise ProtocolError(f"answer graph: a column that has not {count} rows")
    return list(zip(*spread, strict=True)) if spread else [()] * count


def _records(
    template: Record, count: int, parts: Sequence[str | Sequence[str]], templates: TemplateTable
) -> Sequence[Record]:
    if count == 1 and not parts:
        return (template,)
    if not isinstance(template, Templated):
        raise ProtocolError(f"answer graph: {type(template).__name__} has no template")
    try:
        records = templates.fill_rows(template, parts, count)
    except ValueError as error:
        raise ProtocolError(f"answer graph: {error}") from None
    if len(records) != count:
        raise ProtocolError(f"answer graph: {len(records)} records of {count}")
    return records
