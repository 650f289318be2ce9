"""Equivalence classes: the merged answers of many ranks.

A merge is associative and commutative, and the empty answer is its identity. So the result does not
depend on the shape of the tree or the order of arrival. Every rank that was asked is in exactly one
class or in ``missing``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.normalize import DIFFERENT, SlotFiller, join_slots
from pgdb.merge.partition_labels import NOBODY, Field, Labels
from pgdb.merge.record_visitor import TextKind, map_arguments, map_texts
from pgdb.merge.slot_values import texts_of_slot, values_of
from pgdb.merge.summary import Summary
from pgdb.merge.templates import Templated, TemplateTable, count_placeholders, nothing_common
from pgdb.merge.totals import Totals
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Event, Failure, Record, Stack, Stop, Threads, Value, Various

R = TypeVar("R", bound=Record | Event)

MOST_DISTINCT = 1024
"""Most different answers of one kind that are listed one by one; more of them are summed up."""
_MOST_PENDING = 1024
MOST_COLUMNS = 64
"""Most placeholders of a template that are summed up; a template with more has no summaries."""
FEW_OF_A_TEMPLATE = 8
_LEVEL = pattern(r"[0-9]{1,9}\Z")
# A prefix tree exists to show its call paths, and the paths share their common parts.
MOST_TEMPLATES: dict[type[Templated], int] = {Stack: 1 << 16, Threads: 1 << 16}


class EquivalenceClass(msgspec.Struct, Generic[R], frozen=True):
    """Ranks with equal answers."""

    ranks: RankSet
    record: R
    """The answer, with slot marks where members may differ."""
    slots: tuple[str, ...] = ()
    """The text for each slot mark; DIFFERENT_SLOT where the members differ."""
    columns: tuple[Summary, ...] = ()
    """One summary for each placeholder, if the record is :class:`~pgdb.records.Various`. Empty
    where the template has too many placeholders, or where there is no template."""

    @property
    def is_error(self) -> bool:
        """Whether the command failed on these ranks."""
        record = self.record.template if isinstance(self.record, Various) else self.record
        return isinstance(record, Failure)

    @property
    def filled(self) -> R:
        """The record with its slots filled: equal addresses as they were, others as ``…``."""
        return fill_record(self.record, self.slots)

    def part(self, ranks: RankSet) -> EquivalenceClass[R]:
        """Return the part of this class that is in *ranks*.

        A part of a summed-up class keeps nothing but its ranks and the kind of record.
        """
        if self.ranks <= ranks:
            return self
        record, left = self.record, self.ranks & ranks
        if isinstance(record, Various):
            mixed = Various(template=nothing_common(type(record.template)))
            return EquivalenceClass(ranks=left, record=cast(R, mixed))
        return EquivalenceClass(ranks=left, record=record, slots=self.slots)


class Missing(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ranks that were asked and are in no class; each is in one of these sets."""

    late: RankSet = RankSet()
    """Ranks without an answer before the deadline."""
    lost: RankSet = RankSet()
    """Ranks that ended, or whose debugger, aggregator or host is gone."""
    running: RankSet = RankSet()
    """Ranks that run while the command needs a stopped rank."""
    held: RankSet = RankSet()
    """Ranks that a run command has left where they are, because they are held."""

    @property
    def ranks(self) -> RankSet:
        """All missing ranks."""
        return RankSet.union((self.late, self.lost, self.running, self.held))

    def __bool__(self) -> bool:
        return bool(self.late or self.lost or self.running or self.held)

    def __or__(self, other: Missing) -> Missing:
        return Missing(
            late=self.late | other.late,
            lost=self.lost | other.lost,
            running=self.running | other.running,
            held=self.held | other.held,
        )

    def __sub__(self, ranks: RankSet) -> Missing:
        return Missing(
            late=self.late - ranks,
            lost=self.lost - ranks,
            running=self.running - ranks,
            held=self.held - ranks,
        )


class Said(Generic[R]):
    """An answer without its ranks; ranks with equal answers share one object."""

    __slots__ = ("columns", "number", "record", "slots")

    def __init__(
        self, record: R, slots: tuple[str, ...] = (), columns: tuple[Summary, ...] = ()
    ) -> None:
        self.record = record
        self.slots = slots
        self.columns = columns
        self.number = -1
        """Number of the record in the merger that has it; an object is added to one merger only."""


class Merger(Generic[R]):
    """A collector of classes; a rank that comes twice keeps its first answer.

    If a kind of record has more than :data:`MOST_DISTINCT` different answers, the many answers of
    one template become one class with summaries in place of the values. This depends only on the
    answers, not on the order of the merges.

    *asked* holds the ranks that may answer, where they are many. With it partitions are kept as
    labels until a caller needs the sets.
    """

    def __init__(self, asked: RankSet | None = None) -> None:
        self._asked = asked
        self._field: Field | None = None
        self._in_field = RankSet()
        self._numbered: list[_Member] = []  # by the numbers in the field
        self._members: dict[R, _Member] = {}
        self._counts: dict[type[Templated], int] = {}
        self._crowds: dict[type[Templated], _Crowd[R]] = {}
        self.templates = TemplateTable()
        """The templates of the records so far."""
        self.ranks = RankSet()

    def add(
        self,
        ranks: RankSet,
        record: R,
        slots: tuple[str, ...] = (),
        columns: tuple[Summary, ...] = (),
    ) -> None:
        """Add the answer of *ranks*.

        :raises ProtocolError: if *columns* do not fit the template, or *slots* the record.
        """
        new = ranks if ranks.isdisjoint(self.ranks) else ranks - self.ranks
        if not new:
            return
        self.ranks = self.ranks | new
        if columns and len(new) < len(ranks) and isinstance(record, Various):
            # Ranks known before cannot be removed from a summary, and must not be counted twice.
            record = cast(R, Various(template=nothing_common(type(record.template))))
            columns = ()
        self._add(new, record, slots, columns)

    def add_classes(self, classes: Iterable[EquivalenceClass[R]]) -> None:
        """Add classes that another node merged."""
        classes = tuple(classes)
        if len(classes) == 1:
            self.add(classes[0].ranks, classes[0].record, classes[0].slots, classes[0].columns)
            return
        together = RankSet.union(each.ranks for each in classes)
        is_partition = len(together) == sum(len(each.ranks) for each in classes)
        if is_partition and together.isdisjoint(self.ranks):
            # In the usual case no class needs a comparison with all ranks.
            self.ranks = self.ranks | together
            for each in classes:
                if each.ranks:
                    self._add(each.ranks, each.record, each.slots, each.columns)
            return
        for each in classes:
            self.add(each.ranks, each.record, each.slots, each.columns)

    def add_labels(self, labels: Labels, said: Sequence[Said[R]]) -> bool:
        """Add the answers of the ranks in the sets of *labels*; return True if that was done.

        Return False, with nothing added, if the merger needs sets of ranks: the caller makes them.

        :raises ProtocolError: if slots do not fit the record.
        """
        import numpy

        new = [each for each in said if each.number < 0]
        if not self._may_label(labels.ranks, new):
            return False
        for each in new:
            each.number = self._number(self._member(each.record, each.slots))
        if self._field is None:
            assert self._asked is not None
            self._field = Field(self._asked)
        table = numpy.array([each.number for each in said], numpy.uint16)
        self._field.put_labels(labels.renumbered(table, len(self._numbered)))
        self._in_field = self._in_field | labels.ranks
        self.ranks = self.ranks | labels.ranks
        return True

    def _may_label(self, ranks: RankSet, new: Sequence[Said[R]]) -> bool:
        if self._asked is None or self._crowds:
            return False
        if not ranks <= self._asked or not ranks.isdisjoint(self.ranks):
            return False
        if len(self._members) + len(new) >= NOBODY:
            return False
        counts = self._counts.copy()
        for record in {each.record for each in new}:
            if isinstance(record, Various):
                return False
            if isinstance(record, Templated) and record not in self._members:
                kind: type[Templated] = type(cast(Templated, record))
                counts[kind] = counts.get(kind, 0) + 1
        return all(count <= MOST_DISTINCT for count in counts.values())

    def _member(self, record: R, slots: tuple[str, ...]) -> _Member:
        """Return the member for *record*, where no kind of record is summed up yet."""
        member = self._members.get(record)
        if member is None:
            member = self._members[record] = _Member([], slots)
            if isinstance(record, Templated):
                kind: type[Templated] = type(cast(Templated, record))
                self._counts[kind] = self._counts.get(kind, 0) + 1
        elif member.slots != slots:
            member.slots = join_slots(member.slots, slots)
        return member

    def _number(self, member: _Member) -> int:
        if member.number < 0:
            member.number = len(self._numbered)
            self._numbered.append(member)
        return member.number

    def labels(self) -> tuple[list[Said[R]], Labels] | None:
        """Return the answers, and the labels of all ranks with one set for each answer.

        Return None if the merger holds sets of ranks.
        """
        if self._field is None or len(self._members) >= NOBODY:
            return None
        for member in self._members.values():
            number = self._number(member)
            for ranks in member.sets:
                self._field.put(ranks, number)
            member.sets.clear()
        self._in_field = self.ranks
        said = [Said(record, member.slots) for record, member in self._members.items()]
        for each, member in zip(said, self._members.values(), strict=True):
            each.number = member.number
        said.sort(key=lambda each: each.number)
        return said, self._field.labels(self.ranks, len(said))

    def _keep_sets(self) -> None:
        """Turn labels into sets of ranks, and keep sets from now on."""
        self._asked = None
        if self._field is None:
            return
        labels = self._field.labels(self._in_field, len(self._numbered))
        for member, ranks in zip(self._numbered, labels.sets(), strict=True):
            if ranks:
                member.sets.append(ranks)
        self._field = None

    @property
    def classes(self) -> tuple[EquivalenceClass[R], ...]:
        """The classes so far, least rank first."""
        self._keep_sets()
        found = [
            EquivalenceClass(ranks=RankSet.union(member.sets), record=record, slots=member.slots)
            for record, member in self._members.items()
        ]
        for kind, crowd in self._crowds.items():
            found += crowd.classes(kind)
        return tuple(sorted(found, key=lambda each: each.ranks.first))

    def __bool__(self) -> bool:
        return bool(self.ranks)

    def _add(
        self, ranks: RankSet, record: R, slots: tuple[str, ...], columns: tuple[Summary, ...]
    ) -> None:
        if isinstance(record, Various):
            self._absorb(record.template, ranks, columns)
            return
        member = self._members.get(record)
        if member is not None:
            member.sets.append(ranks)
            if member.slots != slots:
                member.slots = join_slots(member.slots, slots)
            return
        if not isinstance(record, Templated):
            self._members[record] = _Member([ranks], slots)
            return
        kind: type[Templated] = type(cast(Templated, record))
        crowd = self._crowds.get(kind)
        if crowd is None:
            self._members[record] = _Member([ranks], slots)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            if self._counts[kind] > MOST_DISTINCT:
                self._begin_crowd(kind)
            return
        if crowd.mixed is not None:
            crowd.mixed.append(ranks)
            return
        template, parts = self.templates.extract(record)
        if template in crowd.sums:
            crowd.sums[template].add(ranks, parts)
            return
        self._members[record] = _Member([ranks], slots)
        crowd.listed.setdefault(template, []).append(record)
        self._settle(crowd, template)
        self._mix_if_many(crowd, kind)

    def _begin_crowd(self, kind: type[Templated]) -> _Crowd[R]:
        self._keep_sets()
        crowd = self._crowds[kind] = _Crowd()
        for record in self._members:
            if isinstance(record, kind):
                crowd.listed.setdefault(self.templates.extract(record)[0], []).append(record)
        for template in list(crowd.listed):
            self._settle(crowd, template)
        self._mix_if_many(crowd, kind)
        return crowd

    def _absorb(self, template: Templated, ranks: RankSet, columns: tuple[Summary, ...]) -> None:
        kind = type(template)
        crowd = self._crowds.get(kind) or self._begin_crowd(kind)
        if template == nothing_common(kind):
            self._mix(crowd)
        if crowd.mixed is not None:
            crowd.mixed.append(ranks)
            return
        if template not in crowd.sums:
            self._sum_up(crowd, template)
        crowd.sums[template].absorb(ranks, columns)
        self._mix_if_many(crowd, kind)

    def _settle(self, crowd: _Crowd[R], template: Templated) -> None:
        if len(crowd.listed.get(template, ())) > FEW_OF_A_TEMPLATE:
            self._sum_up(crowd, template)

    def _sum_up(self, crowd: _Crowd[R], template: Templated) -> None:
        sums = crowd.sums[template] = _Sums(
            count_placeholders(template), template.base if isinstance(template, Value) else 0
        )
        for record in crowd.listed.pop(template, ()):
            assert isinstance(record, Templated)
            parts = self.templates.extract(record)[1]
            for ranks in self._members.pop(record).sets:
                sums.add(ranks, parts)

    def _mix_if_many(self, crowd: _Crowd[R], kind: type[Templated]) -> None:
        if len(crowd.listed) + len(crowd.sums) > MOST_TEMPLATES.get(kind, MOST_DISTINCT):
            self._mix(crowd)

    def _mix(self, crowd: _Crowd[R]) -> None:
        if crowd.mixed is not None:
            return
        crowd.mixed = [each for sums in crowd.sums.values() for each in sums.sets]
        for records in crowd.listed.values():
            for record in records:
                crowd.mixed += self._members.pop(record).sets
        crowd.sums.clear()
        crowd.listed.clear()


class _Member:
    """The ranks with one answer so far."""

    __slots__ = ("number", "sets", "slots")

    def __init__(self, sets: list[RankSet], slots: tuple[str, ...]) -> None:
        self.sets = sets
        self.slots = slots
        self.number = -1
        """Number in the field for the ranks that are in no set of *sets*; -1 for none."""


class _Sums:
    """The ranks with answers of one template, and the sums of their values."""

    def __init__(self, placeholders: int, base: int = 0) -> None:
        self.sets: list[RankSet] = []
        self._base = base
        count = placeholders if placeholders <= MOST_COLUMNS else 0
        self._columns = [Totals() for _ in range(count)]
        # Most placeholders have few different parts, so parts are collected before they are summed
        # up.
        self._pending: list[dict[str, list[RankSet]]] = [{} for _ in range(count)]

    def add(self, ranks: RankSet, parts: Sequence[str]) -> None:
        self.sets.append(ranks)
        # A template with too many placeholders has no columns.
        for number, (pending, part) in enumerate(zip(self._pending, parts, strict=False)):
            pending.setdefault(part, []).append(ranks)
            if len(pending) > _MOST_PENDING:
                self._flush(number)

    def absorb(self, ranks: RankSet, columns: Sequence[Summary]) -> None:
        if len(columns) != len(self._columns):
            raise ProtocolError(f"{len(columns)} summaries for {len(self._columns)} placeholders")
        self.sets.append(ranks)
        for column, summary in zip(self._columns, columns, strict=True):
            column.add(summary)

    def columns(self) -> tuple[Summary, ...]:
        for number in range(len(self._columns)):
            self._flush(number)
        return tuple(column.summary() for column in self._columns)

    def _flush(self, number: int) -> None:
        for part, sets in self._pending[number].items():
            self._columns[number].add_text(RankSet.union(sets), part, base=self._base)
        self._pending[number].clear()


class _Crowd(Generic[R]):
    """Answers of one kind that are too many to be listed one by one."""

    def __init__(self) -> None:
        self.listed: dict[Templated, list[R]] = {}
        """Templates with few answers; the answers are members still."""
        self.sums: dict[Templated, _Sums] = {}
        """Templates with many answers."""
        self.mixed: list[RankSet] | None = None
        """All ranks, once there are too many templates to list."""

    def classes(self, kind: type[Templated]) -> Iterator[EquivalenceClass[R]]:
        for template, sums in self.sums.items():
            yield EquivalenceClass(
                ranks=RankSet.union(sums.sets),
                record=cast(R, Various(template=template)),
                columns=sums.columns(),
            )
        if self.mixed is not None:
            yield EquivalenceClass(
                ranks=RankSet.union(self.mixed),
                record=cast(R, Various(template=nothing_common(kind))),
            )


class StopDetail(msgspec.Struct, frozen=True):
    """A detail of stops, without its label."""

    ranks: RankSet
    text: str
    values: tuple[Value, ...] = ()
    """The values of which *text* shows a part, see :class:`pgdb.records.Stop`."""


def stop_details(each: EquivalenceClass[R]) -> tuple[StopDetail, ...]:
    """Return the details of a class of stops with their ranks, the most common first.

    They have no label, such as ``value returned:``. Nothing is returned where there is no detail,
    and where too many ranks have different ones.
    """
    if not isinstance(each.record, Stop) or not each.record.detail.endswith(SLOT):
        return ()
    texts = texts_of_slot(each.slots[-1]) if each.slots else ()
    found = ((ranks & each.ranks, text) for ranks, text in texts)
    return tuple(StopDetail(ranks, *values_of(text)) for ranks, text in found if ranks)


def fill_record(record: R, slots: tuple[str, ...]) -> R:
    """Return *record* with its marks filled from *slots*, see :class:`SlotFiller`."""
    if isinstance(record, Various):
        # Slots of a summed-up class were not kept: they are as many as ranks.
        template = map_texts(record.template, lambda text, _: text.replace(SLOT, DIFFERENT))
        return cast(R, Various(template=template))
    if not slots:
        return record
    filler = SlotFiller(slots)

    def fill(text: str, kind: TextKind) -> str:
        del kind
        return filler.fill(text)

    if not isinstance(record, Stop) or record.frame is None:
        return map_texts(record, fill)
    frame = map_arguments(record.frame, fill)
    level = filler.fill(SLOT)
    frame = replace(frame, level=int(level) if _LEVEL.match(level) else -1)
    return replace(
        record,
        frame=frame,
        event=filler.fill(record.event),
        thread=filler.fill(record.thread),
        thread_name=filler.fill(record.thread_name),
        detail=filler.fill(record.detail),
    )
