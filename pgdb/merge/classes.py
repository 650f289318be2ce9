"""Answers of many ranks as equivalence classes, and how they are merged.

A merge is associative and commutative and the empty answer is its identity, so the result is
the same whatever the shape of the tree and the order of arrival. Every rank that was asked is
in exactly one class or in ``missing``.
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
from pgdb.merge.summary import Summary, Totals
from pgdb.merge.templates import Templated, TemplateTable, count_placeholders, nothing_common
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Event, Failure, Record, Stack, Stop, Threads, Various

R = TypeVar("R", bound=Record | Event)

MOST_DISTINCT = 1024
"""Different answers of one kind that are told one by one; of more, summaries."""
_MOST_PENDING = 1024
MOST_COLUMNS = 64
"""Holes of a form that are summed up; a form with more has no summaries."""
_FEW_OF_A_FORM = 8
_LEVEL = pattern(r"[0-9]{1,9}\Z")
# The call paths of a prefix tree are what is asked for, and share what they have in common.
_MOST_FORMS: dict[type[Templated], int] = {Stack: 1 << 16, Threads: 1 << 16}


class EquivalenceClass(msgspec.Struct, Generic[R], frozen=True):
    """Ranks that said the same."""

    ranks: RankSet
    record: R
    """What they said, with marks where they may differ without mattering."""
    slots: tuple[str, ...] = ()
    """What stood at the marks; DIFFERENT_SLOT where the ranks differ."""
    columns: tuple[Summary, ...] = ()
    """Where the record is :class:`~pgdb.records.Various`: what stood in each hole of its form, or
    nothing where there are too many holes, or no form."""

    @property
    def is_error(self) -> bool:
        """Whether the command failed on these ranks."""
        record = self.record.template if isinstance(self.record, Various) else self.record
        return isinstance(record, Failure)

    @property
    def filled(self) -> R:
        """The record with its marks filled: equal addresses as they were, others as ``…``."""
        return fill_record(self.record, self.slots)

    def part(self, ranks: RankSet) -> EquivalenceClass[R]:
        """Return what those of *ranks* that are in this class have said.

        Of a part of those that are summed up nothing is known but that.
        """
        if self.ranks <= ranks:
            return self
        record, left = self.record, self.ranks & ranks
        if isinstance(record, Various):
            mixed = Various(template=nothing_common(type(record.template)))
            return EquivalenceClass(ranks=left, record=cast(R, mixed))
        return EquivalenceClass(ranks=left, record=record, slots=self.slots)


class Missing(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ranks that were asked and are in no class, each in one of these sets."""

    late: RankSet = RankSet()
    """No answer before the deadline."""
    lost: RankSet = RankSet()
    """Their debugger, aggregator or host is gone, or the rank has ended."""
    running: RankSet = RankSet()
    """The command needs a stopped rank, and they run."""

    @property
    def ranks(self) -> RankSet:
        """All missing ranks."""
        return RankSet.union((self.late, self.lost, self.running))

    def __bool__(self) -> bool:
        return bool(self.late or self.lost or self.running)

    def __or__(self, other: Missing) -> Missing:
        return Missing(
            late=self.late | other.late,
            lost=self.lost | other.lost,
            running=self.running | other.running,
        )

    def __sub__(self, ranks: RankSet) -> Missing:
        return Missing(late=self.late - ranks, lost=self.lost - ranks, running=self.running - ranks)


class Said(Generic[R]):
    """What some ranks said, without the ranks; the same object for all that said the same."""

    __slots__ = ("columns", "number", "record", "slots")

    def __init__(
        self, record: R, slots: tuple[str, ...] = (), columns: tuple[Summary, ...] = ()
    ) -> None:
        self.record = record
        self.slots = slots
        self.columns = columns
        self.number = -1
        """The number that the merger to which it was added has for the record; one alone."""


class Merger(Generic[R]):
    """Collects classes; ranks that come twice keep what they said first.

    Where more than :data:`MOST_DISTINCT` different things of one kind were said, those of which
    there are many of one form become one class, with summaries in place of the values. Whether
    they do depends only on all that was said, and not on who merged it with whom.

    Where *asked* is given, the many ranks that may have something to say, partitions of them are
    kept as labels as long as nobody wants to have the sets.
    """

    def __init__(self, asked: RankSet | None = None) -> None:
        self._asked = asked
        self._field: Field | None = None
        self._in_field = RankSet()
        self._numbered: list[_Member] = []  # by the numbers in the field
        self._members: dict[R, _Member] = {}
        self._counts: dict[type[Templated], int] = {}
        self._crowds: dict[type[Templated], _Crowd[R]] = {}
        self.forms = TemplateTable()
        """What is known of the forms of what was said."""
        self.ranks = RankSet()

    def add(
        self,
        ranks: RankSet,
        record: R,
        slots: tuple[str, ...] = (),
        columns: tuple[Summary, ...] = (),
    ) -> None:
        """Add what *ranks* said.

        :raises ProtocolError: if *columns* do not fit the form, or *slots* the record.
        """
        new = ranks - self.ranks
        if not new:
            return
        self.ranks = self.ranks | new
        if columns and len(new) < len(ranks) and isinstance(record, Various):
            # The known ranks cannot be taken out of a summary, nor be counted twice.
            record = cast(R, Various(template=nothing_common(type(record.template))))
            columns = ()
        self._add(new, record, slots, columns)

    def add_classes(self, classes: Iterable[EquivalenceClass[R]]) -> None:
        """Add classes that were merged elsewhere."""
        classes = tuple(classes)
        if len(classes) == 1:
            self.add(classes[0].ranks, classes[0].record, classes[0].slots, classes[0].columns)
            return
        together = RankSet.union(each.ranks for each in classes)
        is_partition = len(together) == sum(len(each.ranks) for each in classes)
        if is_partition and together.isdisjoint(self.ranks):
            # The usual case, without a look at all ranks for each of very many classes.
            self.ranks = self.ranks | together
            for each in classes:
                if each.ranks:
                    self._add(each.ranks, each.record, each.slots, each.columns)
            return
        for each in classes:
            self.add(each.ranks, each.record, each.slots, each.columns)

    def add_labels(self, labels: Labels, said: Sequence[Said[R]]) -> bool:
        """Add what the ranks of each set of *labels* said, and return True.

        Return False, and do nothing, where that takes sets of ranks: they are the caller's to make.

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
        """Return the member of a record, where there is no crowd and no sign of one."""
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
        """Return what was said, and labels of all ranks with a set for each of it.

        None where sets of ranks are what there is.
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

    def _take_sets(self) -> None:
        """Make sets of ranks of what was kept as labels, from now on for good."""
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
        self._take_sets()
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
        form, parts = self.forms.take(record)
        if form in crowd.sums:
            crowd.sums[form].add(ranks, parts)
            return
        self._members[record] = _Member([ranks], slots)
        crowd.told.setdefault(form, []).append(record)
        self._settle(crowd, form)
        self._mix_if_many(crowd, kind)

    def _begin_crowd(self, kind: type[Templated]) -> _Crowd[R]:
        self._take_sets()
        crowd = self._crowds[kind] = _Crowd()
        for record in self._members:
            if isinstance(record, kind):
                crowd.told.setdefault(self.forms.take(record)[0], []).append(record)
        for form in list(crowd.told):
            self._settle(crowd, form)
        self._mix_if_many(crowd, kind)
        return crowd

    def _absorb(self, form: Templated, ranks: RankSet, columns: tuple[Summary, ...]) -> None:
        kind = type(form)
        crowd = self._crowds.get(kind) or self._begin_crowd(kind)
        if form == nothing_common(kind):
            self._mix(crowd)
        if crowd.mixed is not None:
            crowd.mixed.append(ranks)
            return
        if form not in crowd.sums:
            self._sum_up(crowd, form)
        crowd.sums[form].absorb(ranks, columns)
        self._mix_if_many(crowd, kind)

    def _settle(self, crowd: _Crowd[R], form: Templated) -> None:
        if len(crowd.told.get(form, ())) > _FEW_OF_A_FORM:
            self._sum_up(crowd, form)

    def _sum_up(self, crowd: _Crowd[R], form: Templated) -> None:
        sums = crowd.sums[form] = _Sums(count_placeholders(form))
        for record in crowd.told.pop(form, ()):
            assert isinstance(record, Templated)
            parts = self.forms.take(record)[1]
            for ranks in self._members.pop(record).sets:
                sums.add(ranks, parts)

    def _mix_if_many(self, crowd: _Crowd[R], kind: type[Templated]) -> None:
        if len(crowd.told) + len(crowd.sums) > _MOST_FORMS.get(kind, MOST_DISTINCT):
            self._mix(crowd)

    def _mix(self, crowd: _Crowd[R]) -> None:
        if crowd.mixed is not None:
            return
        crowd.mixed = [each for sums in crowd.sums.values() for each in sums.sets]
        for records in crowd.told.values():
            for record in records:
                crowd.mixed += self._members.pop(record).sets
        crowd.sums.clear()
        crowd.told.clear()


class _Member:
    """Ranks that said the same, in the making."""

    __slots__ = ("number", "sets", "slots")

    def __init__(self, sets: list[RankSet], slots: tuple[str, ...]) -> None:
        self.sets = sets
        self.slots = slots
        self.number = -1
        """In the field, where those ranks stand that are in none of the sets."""


class _Sums:
    """Ranks that said things of one form, and what of them is summed up."""

    def __init__(self, holes: int) -> None:
        self.sets: list[RankSet] = []
        count = holes if holes <= MOST_COLUMNS else 0
        self._columns = [Totals() for _ in range(count)]
        # Most holes of a form hold few different parts, so that those are collected first.
        self._pending: list[dict[str, list[RankSet]]] = [{} for _ in range(count)]

    def add(self, ranks: RankSet, parts: Sequence[str]) -> None:
        self.sets.append(ranks)
        # None of them are summed up where there are too many.
        for number, (pending, part) in enumerate(zip(self._pending, parts, strict=False)):
            pending.setdefault(part, []).append(ranks)
            if len(pending) > _MOST_PENDING:
                self._flush(number)

    def absorb(self, ranks: RankSet, columns: Sequence[Summary]) -> None:
        if len(columns) != len(self._columns):
            raise ProtocolError(f"{len(columns)} summaries for {len(self._columns)} holes")
        self.sets.append(ranks)
        for column, summary in zip(self._columns, columns, strict=True):
            column.add(summary)

    def columns(self) -> tuple[Summary, ...]:
        for number in range(len(self._columns)):
            self._flush(number)
        return tuple(column.summary() for column in self._columns)

    def _flush(self, number: int) -> None:
        for part, sets in self._pending[number].items():
            self._columns[number].add_text(RankSet.union(sets), part)
        self._pending[number].clear()


class _Crowd(Generic[R]):
    """Answers of one kind, of which there are more different ones than are told one by one."""

    def __init__(self) -> None:
        self.told: dict[Templated, list[R]] = {}
        """Forms of which there are few, with their answers, which are members still."""
        self.sums: dict[Templated, _Sums] = {}
        """Forms of which there are many."""
        self.mixed: list[RankSet] | None = None
        """All ranks, once there are too many forms to tell them."""

    def classes(self, kind: type[Templated]) -> Iterator[EquivalenceClass[R]]:
        for form, sums in self.sums.items():
            yield EquivalenceClass(
                ranks=RankSet.union(sums.sets),
                record=cast(R, Various(template=form)),
                columns=sums.columns(),
            )
        if self.mixed is not None:
            yield EquivalenceClass(
                ranks=RankSet.union(self.mixed),
                record=cast(R, Various(template=nothing_common(kind))),
            )


def fill_record(record: R, slots: tuple[str, ...]) -> R:
    """Return *record* with its marks filled from *slots*, see :class:`SlotFiller`."""
    if isinstance(record, Various):
        # Their slots were not kept, since there are as many as ranks.
        form = map_texts(record.template, lambda text, _: text.replace(SLOT, DIFFERENT))
        return cast(R, Various(template=form))
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
    return replace(record, frame=frame, detail=filler.fill(record.detail))
