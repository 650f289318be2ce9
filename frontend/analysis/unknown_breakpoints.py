"""Answers about breakpoints and displays that some ranks do not have: no error, if another rank has
the breakpoint, or if the display is to come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import Merger
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Done, Failure, Record, Text

_COMPLAINT = pattern(r"No (?:breakpoint|tracepoint|display) number [0-9.]+\.\Z")


def known_to_some(answer: Answer) -> Answer:
    """Return an answer without the complaints about breakpoints that another rank of it has.

    Programs of one job have different functions, and a temporary breakpoint is gone from the ranks
    that have met it. So a number can be right on some ranks only.
    """
    complaints = [set(_complaints(each.record)) for each in answer.classes]
    of_knowing = [
        some
        for each, some in zip(answer.classes, complaints, strict=True)
        if isinstance(each.record, Done | Text)
    ]
    if not of_knowing:
        return answer
    hidden = set[str]().union(*complaints) - of_knowing[0].intersection(*of_knowing)
    if not hidden:
        return answer
    merger: Merger[Record] = Merger()
    for each in answer.classes:
        merger.add(each.ranks, _without(each.record, hidden), each.slots, each.columns)
    return replace(answer, classes=merger.classes)


def known_as_put_off(answer: Answer, displays: Mapping[int, RankSet]) -> Answer:
    """Return an answer without the complaints about displays that are to begin later.

    :param displays: the ranks of each such display, by its number.
    """
    for number, ranks in displays.items():
        merger: Merger[Record] = Merger()
        for each in answer.classes:
            if here := each.ranks & ranks:
                hidden = {f"No display number {number}."}
                merger.add(here, _without(each.record, hidden), each.slots, each.columns)
            if rest := each.ranks - ranks:
                merger.add(rest, each.record, each.slots, each.columns)
        answer = replace(answer, classes=merger.classes)
    return answer


def _complaints(record: Record) -> Iterator[str]:
    if isinstance(record, Failure | Text):
        for line in _text_of(record).splitlines():
            if _COMPLAINT.match(line):
                yield line


def _without(record: Record, hidden: set[str]) -> Record:
    if not isinstance(record, Failure | Text) or hidden.isdisjoint(_complaints(record)):
        return record
    text = "\n".join(line for line in _text_of(record).splitlines() if line not in hidden)
    if not text:
        return Done()
    return Text(text=text) if isinstance(record, Text) else Failure(message=text)


def _text_of(record: Failure | Text) -> str:
    return record.text if isinstance(record, Text) else record.message
