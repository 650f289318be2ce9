"""Answers for tests, with values as the leaves normalize them."""

from __future__ import annotations

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import (
    Record,
    Value,
)


def ranks(text: str) -> RankSet:
    return RankSet.parse(text) if text else RankSet()


def answer(
    *said: tuple[str, str | Record], missing: Missing | None = None, command: str = "print x"
) -> Answer:
    """Return an answer; a text becomes a value, normalized as by the leaves."""
    classes = []
    for members, record in said:
        normalized = normalize_record(Value(text=record) if isinstance(record, str) else record)
        assert isinstance(normalized.record, Record)
        classes.append(
            EquivalenceClass[Record](
                ranks=ranks(members), record=normalized.record, slots=normalized.slots
            )
        )
    gone = missing or Missing()
    asked = RankSet.union([each.ranks for each in classes]) | gone.ranks
    return Answer(command=command, ranks=asked, classes=tuple(classes), missing=gone)
