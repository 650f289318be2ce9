"""Many numbers as a summary, and the elements of arrays that are NaN or infinite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdb.frontend.analysis.diff import leaves
from pgdb.frontend.analysis.prominence import Texts
from pgdb.frontend.analysis.values import Group, Leaf, Node, number_of, parse
from pgdb.frontend.show.text.layout import HANDFUL, Layout
from pgdb.merge.summary import Summary
from pgdb.merge.totals import Totals, summarize
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import parse_number

MOST_ELEMENTS = 3
"""Most elements that are named in one line."""
_ARRAY_ENDS = ("}", ")")
_RUN = pattern(r"\[(\d+)\]@\d+\Z")
_INDEX = pattern(r"\[(\d+)\]")


def summary_of_many(texts: Texts, base: int = 0) -> tuple[Summary | None, Texts]:
    """Return the summary of many numbers, and the values to list beside or instead of it."""
    if len(texts) <= HANDFUL:
        return None, texts
    numbers = [(ranks, text) for ranks, text in texts if number_of(text, base) is not None]
    if len(numbers) > HANDFUL:
        others = [each for each in texts if number_of(each[1], base) is None]
        # The text itself has all digits of a number; a NaN can have a mark for its bits.
        known = (
            (each, "nan" if parse_number(text, base) is None else text) for each, text in numbers
        )
        return summarize(known, base), others
    elements = summary_of_elements(texts, base)
    return (elements, ()) if elements is not None else (None, texts)


def summary_of_elements(texts: Texts, base: int = 0) -> Summary | None:
    """Return the summary of arrays of numbers; None if a text is no such array."""
    elements = []
    for ranks, text in texts:
        found = _elements(parse(text), base) if text.endswith(_ARRAY_ENDS) else None
        if not found:
            return None
        elements.append((ranks, found))
    if len(elements) < 2:
        return None
    totals = Totals()
    for ranks, found in elements:
        for number, count in found.items():
            totals.add_text(ranks, str(number), count)
    return totals.summary()


def strange_elements(
    texts: Texts, summary: Summary, layout: Layout, path: str, bounds: Sequence[str]
) -> dict[str, str]:
    """Return the indices of NaN and infinities in arrays, as text behind their ranks.

    *bounds* are the lower bounds of the arrays of Fortran in each text, if one is not 1.
    """
    run = _RUN.search(path)
    if ":" in path or (run is None and "@" in path):
        return {}  # parts of a Fortran array, or of several rows
    first = int(run[1]) if run is not None else 0
    named = {"NaN": summary.nan, "inf": summary.above, "-inf": summary.below}
    strange = RankSet.union(named.values())
    found: dict[str, dict[str, RankSet]] = {name: {} for name in named}
    values = [
        (ranks, parse(text, bounds[at : at + 1]))
        for at, (ranks, text) in enumerate(texts)
        if not ranks.isdisjoint(strange)
    ]
    # Arrays with other bounds have no elements in common.
    parts = [[each] for each in values] if bounds else [values]
    for element, said in (each for part in parts for each in leaves(part).items()):
        for ranks, text in said:
            number = number_of(text)
            if element and number is not None and not math.isfinite(number):
                name = "NaN" if math.isnan(number) else "inf" if number > 0 else "-inf"
                at = _INDEX.sub(lambda index: f"[{int(index[1]) + first}]", element, count=1)
                found[name][at] = found[name].get(at, RankSet()) | ranks
    return {
        name: f" at {_elements_text(elements, named[name], layout)}"
        for name, elements in found.items()
        if elements
    }


def _elements_text(elements: Mapping[str, RankSet], all_ranks: RankSet, layout: Layout) -> str:
    shown = list(elements.items())[:MOST_ELEMENTS]
    parts = [
        at if ranks == all_ranks else f"{at} of {layout.brackets(ranks)}" for at, ranks in shown
    ]
    return ", ".join(parts if len(elements) == len(shown) else [*parts, "…"])


def _elements(node: Node, base: int) -> dict[int | float, int]:
    """Return the numbers of an array that has only numbers, each with its count."""
    if isinstance(node, Leaf) or not node.is_array:
        return {}
    found: dict[int | float, int] = {}
    for item in node.items:
        if isinstance(item.value, Group):
            inner = _elements(item.value, base)
        else:
            number = number_of(item.value.text, base)
            inner = {} if number is None else {number: 1}
        if not inner:
            return {}
        for number, count in inner.items():
            found[number] = found.get(number, 0) + count * item.count
    return found
