"""Values that aggregators summarized, as text: the template, and a summary at each placeholder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdb.frontend.analysis.diff import placeholders
from pgdb.frontend.analysis.paths import behind
from pgdb.frontend.analysis.prominence import most_prominent_first, rate_summary
from pgdb.frontend.analysis.values import filled, parse
from pgdb.frontend.show.text.layout import Layout, Row
from pgdb.frontend.show.text.summary_text import hung, number_text, summary_lines
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.records import PLACEHOLDER

if TYPE_CHECKING:
    from pgdb.frontend.show.text.value_text import Said

MOST_PLACES = 12
"""Most places of a value that are shown."""
INDENT = "    "
"""Indentation of the places of a value."""
PATH_WIDTH = 24
"""Widest path for which the texts of all places stand in one column."""


def template_rows(label: str, said: Said, layout: Layout) -> list[Row]:
    """Return the rows of ranks whose values aggregators summarized."""
    columns = said.columns or ()
    layout.is_shortened = True
    template = parse(said.text, said.slots)
    found = placeholders(template)
    if not found or len(found) != len(columns):
        text = filled(template).replace(PLACEHOLDER, DIFFERENT)
        note = f"different on each of {len(said.ranks)} ranks"
        return [(said.ranks, f"{label}{text}  ({note})" if text else f"{label}{note}")]
    if said.text == PLACEHOLDER:
        used = len(layout.brackets(said.ranks)) + 1 + len(label)
        return [(said.ranks, hung(label, summary_lines(columns[0], layout, used)))]
    constants = [_constant(column) for column in columns]
    pieces = filled(template).split(PLACEHOLDER)
    parts = [piece + (constant or DIFFERENT) for piece, constant in zip(pieces, constants)]  # noqa: B905
    rows: list[Row] = [(said.ranks, f"{label}{''.join(parts)}{pieces[-1]}")]
    differing = [placeholder for placeholder in found if not constants[placeholder.number]]
    ordered = most_prominent_first(
        differing, lambda each: rate_summary(columns[each.number], len(said.ranks))
    )
    shown = ordered[:MOST_PLACES]
    name = label.removesuffix(" = ")
    paths = [behind(name, each.path) if each.path else "" for each in shown]
    width = min(max(map(len, paths), default=0), PATH_WIDTH)
    for placeholder, path in zip(shown, paths, strict=True):
        start = f"{INDENT}{path:<{width}}  "
        lines = summary_lines(columns[placeholder.number], layout, len(start))
        rows.append((None, hung(start, lines)))
    if left := len(differing) - len(shown):
        rows.append((None, f"{INDENT}({left} more places differ)"))
    return rows


def _constant(summary: Summary) -> str:
    """Return the number that all ranks have at a placeholder; otherwise an empty text."""
    strange = summary.nan or summary.above or summary.below or summary.others
    if strange or summary.low is None or summary.low != summary.high:
        return ""
    return number_text(summary.low)
