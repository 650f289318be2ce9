"""The details of stops on many ranks as text: returned values, and the values of watchpoints."""

from __future__ import annotations

from typing import TypeVar, cast

from msgspec.structs import replace

from pgdb.frontend.show.text.layout import Layout
from pgdb.frontend.show.text.value_text import Said, labelled_rows
from pgdb.merge.classes import EquivalenceClass, stop_details
from pgdb.merge.normalize import DIFFERENT, normalize_values
from pgdb.ranks import RankSet
from pgdb.records import Event, Record, Stop

R = TypeVar("R", bound=Record | Event)

_ARROW = " -> "


def split_details(each: EquivalenceClass[R], layout: Layout) -> tuple[R, list[str]]:
    """Return the record of a class, and lines with its details where its ranks have different ones.

    The record has no detail if there are such lines.
    """
    record = each.filled
    if not isinstance(record, Stop) or not record.detail.endswith(DIFFERENT):
        return record, []
    texts = stop_details(each)
    if len(texts) < 2:
        return record, []
    label = record.detail.removesuffix(DIFFERENT)
    rows = []
    for name, part in _parts(label, texts):
        said = []
        for ranks, text in part:
            slots: list[str] = []
            normalized = normalize_values(text, slots)
            said.append(Said(ranks, normalized, tuple(slots)))
        rows += labelled_rows(name, said, layout)
    return cast(R, replace(record, detail="")), layout.lines(rows)


def _parts(
    label: str, texts: tuple[tuple[RankSet, str], ...]
) -> list[tuple[str, list[tuple[RankSet, str]]]]:
    """Return the parts of details by label: the old and the new value of a watchpoint."""
    if any(text.count(_ARROW) != 1 for _, text in texts):
        return [(label, list(texts))]
    name = label.removesuffix(": ")
    found: list[tuple[str, list[tuple[RankSet, str]]]] = []
    for number, what in enumerate(("old value", "new value")):
        part = [(ranks, text.split(_ARROW)[number]) for ranks, text in texts]
        found.append((f"{name}, {what}: ", part))
    return found
