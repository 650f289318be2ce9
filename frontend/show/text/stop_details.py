"""The details of stops on many ranks as text: returned values, and the values of watchpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.changes import Change, changes
from pgdb.frontend.analysis.diff import Place
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.prominence import most_prominent_first
from pgdb.frontend.show.text.layout import HANDFUL, Layout, Row
from pgdb.frontend.show.text.template_rows import INDENT, MOST_PLACES
from pgdb.frontend.show.text.value_text import Said, choice_rows, labelled_rows, rate_place
from pgdb.merge.classes import EquivalenceClass, StopDetail, stop_details
from pgdb.merge.normalize import DIFFERENT, joined_text, normalize_values
from pgdb.ranks import RankSet
from pgdb.records import ARROW, SLOT, Event, Record, Stop, Value

R = TypeVar("R", bound=Record | Event)


class _Values(msgspec.Struct, frozen=True):
    """The values in the detail of some ranks: one, or an old and a new one."""

    ranks: RankSet
    values: tuple[Value, ...]


def split_details(each: EquivalenceClass[R], layout: Layout) -> tuple[R, list[str]]:
    """Return the record of a class, and lines with its details unless one line says all.

    The record has no detail if there are such lines.
    """
    record = each.filled
    details = stop_details(each)
    if not isinstance(record, Stop) or not details:
        return record, []
    label = record.detail.removesuffix(joined_text(each.slots[-1])).removesuffix(": ")
    found = [_Values(detail.ranks, _values_of(detail)) for detail in details]
    is_change = all(len(some.values) == 2 for some in found)
    rows = _change_rows(label, found, layout) if is_change else []
    if not rows and len(found) == 1 and not any(value.looked_at for value in found[0].values):
        return record, []
    rows = rows or _value_rows(label, found, layout, is_change=is_change)
    return cast(R, replace(record, detail="")), layout.lines(rows)


def _values_of(detail: StopDetail) -> tuple[Value, ...]:
    """Return the values in a detail; a text that cannot be taken apart is one."""
    if detail.values:
        return detail.values
    # Two watchpoints that were hit at once have more than one arrow.
    texts = detail.text.split(ARROW)
    return tuple(Value(text=text) for text in (texts if len(texts) == 2 else [detail.text]))


def _change_rows(label: str, found: Sequence[_Values], layout: Layout) -> list[Row]:
    """Return rows for the change of a watched value: the parts that have changed, old and new.

    Nothing is returned where its parts do not show the change.
    """
    changed = [(some.ranks, changes(*some.values)) for some in found]
    if not all(parts for _, parts in changed):
        return _pair_rows(label, found, layout)
    members: dict[str, list[tuple[RankSet, Change]]] = {}
    for ranks, parts in changed:
        for part in parts:
            members.setdefault(part.path, []).append((ranks, part))
    places = [
        Place(path, _joined([(ranks, part.text) for ranks, part in some], layout))
        for path, some in members.items()
    ]
    places = most_prominent_first(places, rate_place)
    shown = places if layout.whole else places[:MOST_PLACES]
    rows: list[Row] = []
    for place in shown:
        title = place_of(label, place.path)
        if len(place.texts) <= HANDFUL or layout.whole:
            rows += choice_rows(f"{title}: ", place.texts, layout)
            continue
        for word, texts in _sides(members[place.path], layout):
            rows += choice_rows(f"{title}, {word} value: ", texts, layout)
    if left := len(places) - len(shown):
        layout.is_shortened = True
        rows.append((None, f"{INDENT}({left} more places have changed)"))
    return rows + _notes(label, found, layout)


def _pair_rows(label: str, found: Sequence[_Values], layout: Layout) -> list[Row]:
    """Return a row for each pair of a few short old and new values."""
    pairs = [(each.ranks, ARROW.join(value.text for value in each.values)) for each in found]
    texts = _joined(pairs, layout)
    is_short = not any(
        value.is_part or value.whole or value.text.startswith("{")
        for each in found
        for value in each.values
    )
    if not is_short or len(found) < 2 or len(texts) > HANDFUL:
        return []
    return choice_rows(f"{label}: ", texts, layout)


def _value_rows(
    label: str, found: Sequence[_Values], layout: Layout, *, is_change: bool
) -> list[Row]:
    """Return the rows of values: merged by their parts, old and new ones apart."""
    rows: list[Row] = []
    for number, word in enumerate((", old value: ", ", new value: ") if is_change else (": ",)):
        said = []
        for each in found:
            value = each.values[number]
            slots: list[str] = []
            text = normalize_values(value.text, slots)
            if value.bounds:
                slots.append(value.bounds)
            record = replace(value, text=text, bounds=SLOT if value.bounds else "")
            said.append(Said(each.ranks, text, tuple(slots), record=record, advice=_advice(label)))
        rows += labelled_rows(f"{label}{word}", said, layout)
    return rows


def _notes(label: str, found: Sequence[_Values], layout: Layout) -> list[Row]:
    """Return a row if changes beyond the elements that were looked at are unknown."""
    unknown = RankSet.union(
        each.ranks for each in found if any(value.looked_at for value in each.values)
    )
    if not unknown:
        return []
    note = f"{layout.brackets(unknown)} compared as far as it is shown; 'print {label}' shows all"
    return [(None, f"{INDENT}({note})")]


def _advice(label: str) -> str:
    what = "$" if label == "value returned" else label
    return f"'print {what}' shows where they differ"


def _joined(
    texts: Sequence[tuple[RankSet, str]], layout: Layout
) -> tuple[tuple[RankSet, str], ...]:
    """Return texts with equal ones joined, the most common first.

    Those that differ in addresses only are equal, unless nothing is to be left out.
    """
    members: dict[str, list[RankSet]] = {}
    shown: dict[str, list[str]] = {}
    for ranks, text in texts:
        key = text if layout.whole else normalize_values(text, [])
        members.setdefault(key, []).append(ranks)
        shown.setdefault(key, []).append(text)
    joined = [
        (
            RankSet.union(sets),
            shown[key][0] if len({*shown[key]}) == 1 else key.replace(SLOT, DIFFERENT),
        )
        for key, sets in members.items()
    ]
    return tuple(sorted(joined, key=lambda pair: (-len(pair[0]), pair[0].first)))


def _sides(
    parts: Sequence[tuple[RankSet, Change]], layout: Layout
) -> list[tuple[str, tuple[tuple[RankSet, str], ...]]]:
    return [
        ("old", _joined([(ranks, part.old) for ranks, part in parts], layout)),
        ("new", _joined([(ranks, part.new) for ranks, part in parts], layout)),
    ]
