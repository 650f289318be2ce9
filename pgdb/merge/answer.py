"""Answers of many ranks as equivalence classes, and how they are merged.

A merge is associative and commutative and the empty answer is its identity, so the result is
the same whatever the shape of the tree and the order of arrival. Every rank that was asked is
in exactly one class or in ``missing``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from pgdb.merge.masking import SlotFiller, join_slots
from pgdb.ranks import RankSet
from pgdb.records import (
    BreakpointsMade,
    Event,
    Failure,
    Frame,
    Output,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
)

R = TypeVar("R", bound=Record | Event)


class EquivalenceClass(msgspec.Struct, Generic[R], frozen=True):
    """Ranks that said the same."""

    ranks: RankSet
    record: R
    """What they said, with marks where they may differ without mattering."""
    slots: tuple[str, ...] = ()
    """What stood at the marks; DIFFERENT_SLOT where the ranks differ."""

    @property
    def is_error(self) -> bool:
        """Whether the command failed on these ranks."""
        return isinstance(self.record, Failure)

    @property
    def filled(self) -> R:
        """The record with its marks filled: equal addresses as they were, others as ``…``."""
        return fill_record(self.record, self.slots)


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


class Merger(Generic[R]):
    """Collects classes; ranks that come twice keep what they said first."""

    def __init__(self) -> None:
        self._members: dict[R, tuple[list[RankSet], tuple[str, ...]]] = {}
        self.ranks = RankSet()

    def add(self, ranks: RankSet, record: R, slots: tuple[str, ...] = ()) -> None:
        """Add what *ranks* said."""
        ranks = ranks - self.ranks
        if not ranks:
            return
        self.ranks = self.ranks | ranks
        known = self._members.get(record)
        if known is None:
            self._members[record] = ([ranks], slots)
            return
        known[0].append(ranks)
        if known[1] != slots:
            self._members[record] = (known[0], join_slots(known[1], slots))

    def add_classes(self, classes: Iterable[EquivalenceClass[R]]) -> None:
        """Add classes that were merged elsewhere."""
        for each in classes:
            self.add(each.ranks, each.record, each.slots)

    @property
    def classes(self) -> tuple[EquivalenceClass[R], ...]:
        """The classes so far, least rank first."""
        found = [
            EquivalenceClass(ranks=RankSet.union(sets), record=record, slots=slots)
            for record, (sets, slots) in self._members.items()
        ]
        return tuple(sorted(found, key=lambda each: each.ranks.first))

    def __bool__(self) -> bool:
        return bool(self._members)


def fill_record(record: R, slots: tuple[str, ...]) -> R:
    """Return *record* with its marks filled from *slots*, see :class:`SlotFiller`."""
    if not slots:
        return record
    filler = SlotFiller(slots)
    filled: Record | Event = record
    match record:
        case Value(text=text):
            filled = Value(text=filler.fill(text))
        case Text(text=text):
            filled = Text(text=filler.fill(text))
        case Output(text=text):
            filled = Output(text=filler.fill(text))
        case Failure(message=message):
            filled = Failure(message=filler.fill(message))
        case Variables(items=items, empty=empty):
            filled = Variables(items=_fill_variables(items, filler), empty=empty)
        case Stack(frames=frames, hidden=hidden, more=more):
            hidden = filler.fill(hidden)
            filled = Stack(
                frames=tuple(_fill_frame(frame, filler) for frame in frames),
                hidden=hidden,
                more=more,
            )
        case Stop(frame=frame, detail=detail) if frame is not None:
            frame = _fill_frame(frame, filler)
            level = filler.fill("\ufffc")
            frame = msgspec.structs.replace(frame, level=int(level) if level.isdigit() else -1)
            filled = msgspec.structs.replace(record, frame=frame, detail=filler.fill(detail))
        case BreakpointsMade(text=text):
            filled = msgspec.structs.replace(record, text=filler.fill(text))
        case _:
            pass
    return filled  # type: ignore[return-value]  # each case returns the class it was given


def _fill_variables(items: tuple[Variable, ...], filler: SlotFiller) -> tuple[Variable, ...]:
    return tuple(
        Variable(name=item.name, value=filler.fill(item.value), is_argument=item.is_argument)
        for item in items
    )


def _fill_frame(frame: Frame, filler: SlotFiller) -> Frame:
    return msgspec.structs.replace(frame, arguments=_fill_variables(frame.arguments, filler))
