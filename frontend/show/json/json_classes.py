"""Equivalence classes, records and missing ranks as parts of ``--json`` lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from pgdb.frontend.analysis.answer_places import places_of
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.line_marks import is_same_file
from pgdb.frontend.show.json.json_parts import (
    AnswerClass,
    Column,
    DifferentPlace,
    ExitClass,
    MarkedLine,
    MissingRanks,
    PlaceText,
    StillRunningRanks,
    StopClass,
    StopDetail,
)
from pgdb.frontend.show.json.json_records import RECORD_OBJECTS, RecordObject, VariousRecord
from pgdb.merge.classes import EquivalenceClass, Missing, stop_details
from pgdb.merge.summary import Summary
from pgdb.records import (
    Event,
    Exit,
    Record,
    Stop,
    Value,
    Various,
)

ClassText = Callable[[EquivalenceClass[Record]], str]
"""A function that returns the text of a class for people, without its ranks."""
T = TypeVar("T", bound=Event)

# An __int128 of the program is still a number. Larger numbers would exceed the integers of many
# JSON readers and Python's own limit of 4300 digits for decimal output.
_MAX_NUMBER_BITS = 128


def answer_classes(answer: Answer, text: ClassText) -> tuple[AnswerClass, ...]:
    """Return the classes of an answer as parts of a line."""
    return classes_of(answer.classes, text)


def classes_of(
    classes: Iterable[EquivalenceClass[Record]], text: ClassText
) -> tuple[AnswerClass, ...]:
    """Return classes as parts of a line; *text* returns the text of a class for people."""
    made = []
    for each in classes:
        record = each.filled
        made.append(
            AnswerClass(
                ranks=str(each.ranks),
                text=text(each),
                record=record_object(record),
                error=each.is_error,
                value=_number(record),
                columns=tuple(map(_column, each.columns)),
            )
        )
    return tuple(made)


def _column(summary: Summary) -> Column:
    return Column(
        count=summary.count,
        low=summary.low,
        high=summary.high,
        at_low=str(summary.at_low),
        at_high=str(summary.at_high),
        mean=_finite(summary.mean),
        deviation=_finite(summary.deviation),
        distinct=summary.distinct,
        nan=str(summary.nan),
        above=str(summary.above),
        below=str(summary.below),
        others=str(summary.others),
        rounded=summary.is_rounded,
    )


def _finite(number: float) -> float | None:
    """Return a finite number, otherwise None: JSON has no NaN and no infinity."""
    return number if abs(number) < float("inf") else None


def record_object(record: Record) -> RecordObject:
    """Return a record as an object inside a line."""
    if isinstance(record, Various):
        # msgspec does not convert a union from attributes; this converts to one type of the union.
        form = record_object(record.template)
        return msgspec.convert(
            {"kind": "various", "form": msgspec.to_builtins(form)}, VariousRecord
        )
    if isinstance(record, Value) and record.whole is not None:
        record = replace(record, whole=None)  # of any size; the text and the hash are enough
    kind = RECORD_OBJECTS[type(record)]
    return msgspec.convert(record, kind, from_attributes=True)


def _number(record: Record) -> int | float | UnsetType:
    number = record.number if isinstance(record, Value) else None
    if isinstance(number, int) and number.bit_length() <= _MAX_NUMBER_BITS:
        return number
    # JSON has no NaN and no infinity; the text has them.
    if isinstance(number, float) and abs(number) < float("inf"):
        return number
    return UNSET


def missing_ranks(missing: Missing) -> MissingRanks:
    """Return the missing ranks as part of a line."""
    return MissingRanks(
        late=str(missing.late),
        lost=str(missing.lost),
        running=str(missing.running),
        held=str(missing.held),
    )


def still_running(answer: Answer) -> tuple[StillRunningRanks, ...]:
    """Return the places of ranks that still run as part of a line."""
    return tuple(
        StillRunningRanks(ranks=str(each.ranks), function=each.function, text=each.text)
        for each in answer.still_running or ()
    )


def different_places(answer: Answer) -> tuple[DifferentPlace, ...]:
    """Return the places at which an answer differs between ranks."""
    return tuple(
        DifferentPlace(
            path=place.path,
            texts=tuple(PlaceText(ranks=str(ranks), text=text) for ranks, text in place.texts),
        )
        for place in places_of(answer)
    )


def events_of(kind: type[T], group: Sequence[EquivalenceClass[Event]]) -> list[EquivalenceClass[T]]:
    """Return the events of one kind."""
    return [
        EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)
        for each in group
        if isinstance(each.record, kind)
    ]


def stop_class(each: EquivalenceClass[Stop], text: ClassText) -> StopClass:
    """Return a class of stops as part of a line."""
    stop = each.filled
    return StopClass(
        ranks=str(each.ranks),
        reason=stop.reason,
        text=text(EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)),
        signal=stop.signal,
        meaning=stop.meaning,
        breakpoint=stop.breakpoint,
        frame=UNSET if stop.frame is None else stop.frame,
        inside=stop.inside,
        detail=stop.detail,
        details=_details(each),
        program=stop.program,
        dying=stop.dying,
        after=stop.after,
        hit=stop.hit,
        event=stop.event,
        thread=stop.thread,
        thread_name=stop.thread_name,
        location=stop.location,
        stopped_with=stop.stopped_with,
        breakpoints=stop.breakpoints,
    )


def _details(each: EquivalenceClass[Stop]) -> tuple[StopDetail, ...]:
    found = stop_details(each)
    if len(found) < 2:
        return ()
    return tuple(
        StopDetail(
            ranks=str(each.ranks),
            text=each.text,
            digests=tuple(value.digest for value in each.values if value.digest),
        )
        for each in found
    )


def exit_class(each: EquivalenceClass[Exit], text: ClassText) -> ExitClass:
    """Return a class of exits as part of a line."""
    return ExitClass(
        ranks=str(each.ranks),
        text=text(EquivalenceClass(ranks=each.ranks, record=each.record, slots=each.slots)),
        code=UNSET if each.record.code is None else each.record.code,
        signal=each.record.signal,
        after=each.record.after,
    )


def marked_lines(answer: Answer) -> tuple[MarkedLine, ...]:
    """Return the marks in the files of listed source lines."""
    if answer.listing is None:
        return ()
    files = [file for _, file in answer.listing.files]
    return tuple(
        MarkedLine(
            file=each.file,
            line=each.line,
            ranks=str(each.ranks),
            breakpoints=each.breakpoints,
            disabled=each.disabled,
        )
        for each in answer.listing.marks
        if any(is_same_file(each.file, file) for file in files)
    )
