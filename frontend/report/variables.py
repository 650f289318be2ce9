"""Variables of ranks with the same stack, compared: those that differ come first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from pgdb.frontend.analysis.class_pairs import Class
from pgdb.frontend.analysis.diff import compare, placeholders
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.prominence import Prominence, Rating, rate_summary, rate_texts
from pgdb.frontend.analysis.values import filled, number_of, parse
from pgdb.frontend.report.model import NumberRange, RankValue, ReportVariable, ValuePlace
from pgdb.frontend.show.text.summary_text import number_text
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, SLOT, Variables, Various

MOST_PLACES = 20
"""Most places of a variable that are listed."""
MOST_VALUES = 16
"""Most different values of a place that are listed."""
MOST_COMPARED = 128
"""Most different values that are compared part by part; of more, the whole values are listed."""
MOST_CHARACTERS = 4000
"""Longest text of a value; a longer one is cut."""
_DIFFERS_BEYOND = "ranks differ beyond the part of the value that GDB prints"


class _Said(msgspec.Struct, frozen=True):
    """The value of a variable on some ranks."""

    ranks: RankSet
    text: str
    slots: tuple[str, ...]
    digest: str
    columns: tuple[Summary, ...]


def compared(classes: Iterable[Class], *, is_argument: bool = False) -> list[ReportVariable]:
    """Return the variables of all *classes*, in the order of the program."""
    order: dict[tuple[str, int], list[_Said]] = {}
    for each in classes:
        record = each.record
        is_summed = isinstance(record, Various)
        if isinstance(record, Various):
            record = record.template
        if not isinstance(record, Variables):
            continue
        slot = column = 0
        # A name can stand for several variables, in different blocks.
        seen: dict[str, int] = {}
        for item in record.items:
            number = seen[item.name] = seen.get(item.name, 0) + 1
            marks = item.value.count(SLOT) + item.bounds.count(SLOT)
            slots = each.slots[slot : slot + marks]
            slot += marks
            if item.bounds and SLOT not in item.bounds:
                slots = (*slots, item.bounds)
            columns: tuple[Summary, ...] = ()
            if is_summed and PLACEHOLDER in item.value:
                count = item.value.count(PLACEHOLDER)
                columns = each.columns[column : column + count]
                column += count
            if is_summed and item.digest == PLACEHOLDER:
                column += 1
            said = _Said(each.ranks, item.value, slots, item.digest, columns)
            order.setdefault((item.name, number), []).append(said)
    return [
        _variable(name if number == 1 else f"{name} ({number})", name, values, is_argument)
        for (name, number), values in order.items()
    ]


def first_differing(variables: Sequence[ReportVariable]) -> tuple[ReportVariable, ...]:
    """Return variables in order: those in which a few ranks differ, other differences, then the
    equal ones."""
    return tuple(sorted(variables, key=_rating))


def _rating(variable: ReportVariable) -> tuple[bool, Rating]:
    """Return the key of a variable in the order of a report."""
    ratings = [
        rate_texts([(RankSet.parse(each.ranks), each.text) for each in place.values])
        for place in variable.places
        if not place.more
    ]
    worst: Rating = min(ratings, default=(max(Prominence), 0))
    return not variable.differs, worst


def _variable(label: str, name: str, values: Sequence[_Said], is_argument: bool) -> ReportVariable:
    ranks = RankSet.union(each.ranks for each in values)
    same = {(each.text, each.digest) for each in values}
    summed = next((each for each in values if each.columns or PLACEHOLDER in each.text), None)
    if len(same) == 1 and summed is None:
        return ReportVariable(
            name=label, ranks=str(ranks), is_argument=is_argument, text=_shown(values[0])
        )
    if summed is not None:
        places, text = _summed_places(name, summed), _shown(summed)
        numbers = None
        if summed.text == PLACEHOLDER and summed.columns:
            numbers = _range_of(summed.columns[0])
        return ReportVariable(
            name=label,
            ranks=str(ranks),
            is_argument=is_argument,
            differs=True,
            text=text,
            places=tuple(places[:MOST_PLACES]),
            more_places=max(0, len(places) - MOST_PLACES),
            numbers=numbers,
        )
    places, text = [], DIFFERENT
    if len(values) <= MOST_COMPARED:
        comparison = compare([(each.ranks, parse(each.text, each.slots)) for each in values])
        text = comparison.common
        for place in comparison.places:
            path = place_of(name, place.path) if place.path else name
            places.append(_place(path, place.texts))
        if not places:  # the printed parts are equal
            texts = [(each.ranks, f"{_shown(each)}  ({_DIFFERS_BEYOND})") for each in values]
            places.append(_place(name, texts))
    else:
        by_text: dict[str, list[RankSet]] = {}
        for each in values:
            by_text.setdefault(_shown(each), []).append(each.ranks)
        joined = [(RankSet.union(sets), text) for text, sets in by_text.items()]
        places.append(_place(name, sorted(joined, key=lambda pair: -len(pair[0]))))
    places.sort(key=_place_rating)
    return ReportVariable(
        name=label,
        ranks=str(ranks),
        is_argument=is_argument,
        differs=True,
        text=_cut(text),
        places=tuple(places[:MOST_PLACES]),
        more_places=max(0, len(places) - MOST_PLACES),
        numbers=_range(values),
    )


def _place_rating(place: ValuePlace) -> Rating:
    return rate_texts([(RankSet.parse(each.ranks), each.text) for each in place.values])


def _place(path: str, texts: Sequence[tuple[RankSet, str]]) -> ValuePlace:
    return ValuePlace(
        path=path,
        values=tuple(
            RankValue(ranks=str(ranks), text=_cut(text)) for ranks, text in texts[:MOST_VALUES]
        ),
        more=max(0, len(texts) - MOST_VALUES),
    )


def _summed_places(name: str, said: _Said) -> list[ValuePlace]:
    """Return the places of values that aggregators have summarized, each with its extremes."""
    found = placeholders(parse(said.text, said.slots))
    if len(found) != len(said.columns):
        return []
    rated: list[tuple[Rating, int, ValuePlace]] = []
    for each in found:
        column = said.columns[each.number]
        if column.low is None or column.high is None or column.low == column.high:
            continue
        path = place_of(name, each.path) if each.path else name
        place = ValuePlace(
            path=path,
            values=(
                RankValue(ranks=str(column.at_low), text=number_text(column.low)),
                RankValue(ranks=str(column.at_high), text=number_text(column.high)),
            ),
            more=max(0, column.distinct - 2),
        )
        rated.append((rate_summary(column, len(said.ranks)), len(rated), place))
    return [place for _, _, place in sorted(rated, key=lambda item: item[:2])]


def _range_of(column: Summary) -> NumberRange | None:
    if column.low is None or column.high is None:
        return None
    return NumberRange(
        low=number_text(column.low),
        high=number_text(column.high),
        at_low=str(column.at_low),
        at_high=str(column.at_high),
        distinct=column.distinct,
    )


def _range(values: Sequence[_Said]) -> NumberRange | None:
    """Return the range of a variable whose value is a finite number on each rank."""
    numbers: dict[int | float, RankSet] = {}
    for each in values:
        number = number_of(each.text)
        if number is None or number != number or abs(number) == float("inf"):
            return None
        numbers[number] = numbers.get(number, RankSet()) | each.ranks
    low, high = min(numbers), max(numbers)
    return NumberRange(
        low=number_text(low),
        high=number_text(high),
        at_low=str(numbers[low]),
        at_high=str(numbers[high]),
        distinct=len(numbers),
    )


def _shown(said: _Said) -> str:
    return _cut(filled(parse(said.text, said.slots)).replace(PLACEHOLDER, DIFFERENT))


def _cut(text: str) -> str:
    left = len(text) - MOST_CHARACTERS
    return f"{text[:MOST_CHARACTERS]}… ({left} more characters)" if left > 0 else text
