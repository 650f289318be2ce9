"""Values of many ranks as text: the common part once, different parts with their ranks.

A few different values are listed, the most common first, with outliers marked. Many different
numbers are summarized. Structures and arrays are compared field by field.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.diff import (
    NOT_SHOWN,
    Comparison,
    Place,
    bounds_of,
    compare,
)
from pgdb.frontend.analysis.long_differences import (
    LongDifferences,
    from_difference,
    long_differences,
    one_of_each_value,
)
from pgdb.frontend.analysis.outliers import is_outlier
from pgdb.frontend.analysis.paths import behind, place_of
from pgdb.frontend.analysis.prominence import (
    Prominence,
    Rating,
    Texts,
    most_prominent_first,
    rate_summary,
    rate_texts,
)
from pgdb.frontend.analysis.set_differences import may_be_unordered
from pgdb.frontend.analysis.value_nodes import whole_string
from pgdb.frontend.analysis.values import Group, Leaf, Node, filled, parse
from pgdb.frontend.analysis.whole_or_parts import are_clearer_whole
from pgdb.frontend.show.text.element_text import (
    MOST_ELEMENTS,
    strange_elements,
    summary_of_elements,
    summary_of_many,
)
from pgdb.frontend.show.text.layout import (
    DIFFERS,
    HANDFUL,
    MOST_CLASSES,
    SHOWN_OF_MANY,
    Layout,
    Row,
)
from pgdb.frontend.show.text.summary_text import hung, partial_rows, summary_lines
from pgdb.frontend.show.text.template_rows import INDENT, MOST_PLACES, PATH_WIDTH, template_rows
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT, join_slots, normalize_values
from pgdb.merge.summary import Summary
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Record, Value

_MOST_TEXT = 10_000
_CUT_TEXT = 1_000
_USUAL_WIDTH = 100  # of summaries in a log

_MANY_EQUAL = 4  # places with the same texts, which are folded
_EQUAL: Rating = (Prominence.EQUAL, 0)


class Said(msgspec.Struct, frozen=True):
    """One value, or one template of values, of some ranks."""

    ranks: RankSet
    text: str
    """Text with marks for addresses, and with placeholders if *columns* is set."""
    slots: tuple[str, ...] = ()
    """Addresses at the marks."""
    columns: tuple[Summary, ...] | None = None
    """Summaries of the texts at the placeholders."""
    record: Value | None = None
    """The value of which *text* can be a part."""
    advice: str = ""
    """Words that name a command which shows where long values differ, if there is a better one than
    for a value that was printed."""


def value_rows(name: str, said: Sequence[Said], layout: Layout) -> list[Row]:
    """Return the rows of one value; *name* is its name, or empty."""
    return rated_value_rows(name, said, layout)[1]


def labelled_rows(label: str, said: Sequence[Said], layout: Layout) -> list[Row]:
    """Return the rows of one value behind *label*, such as ``value returned:``."""
    rows = _plain_rows(label, said, layout)[1]
    return rows + partial_rows([(each.ranks, each.record) for each in said], layout, INDENT)


def rated_value_rows(name: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    """Return the prominence of the differences of one value, and its rows."""
    label = f"{name} = " if name else ""
    rating, rows = _plain_rows(label, [each for each in said if each.columns is None], layout)
    parts = [(each.ranks, each.record) for each in _with_equal_joined(said)]
    rows += partial_rows(parts, layout, INDENT)
    for each in said:
        if each.columns is not None:
            count = len(each.ranks)
            ratings = [rate_summary(column, count) for column in each.columns]
            rating = min(rating, *ratings, (Prominence.REST, 0))
            rows += template_rows(label, each, layout)
    return rating, rows


# -- a few values, or many -----------------------------------------------------------------------


def _plain_rows(label: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    if layout.whole:
        return _whole_rows(label, said, layout)
    said = _with_equal_joined(said)
    nodes = [(each.ranks, parse(each.text, each.slots)) for each in said]
    if len(nodes) < 2:
        return _EQUAL, [(ranks, f"{label}{filled(node)}") for ranks, node in nodes]
    comparison = compare(nodes)
    beyond = _beyond(said)
    if beyond is not None and beyond.are_equal:
        ranks = RankSet.union(ranks for ranks, _ in nodes)
        return _EQUAL, [(ranks, f"{label}{filled(nodes[0][1])}")]
    if beyond is not None and (
        beyond.is_unknown or beyond.summary is not None or not beyond.places
    ):
        return _differing_all_over(label, said, comparison, beyond, layout)
    if beyond is not None:
        comparison = replace(comparison, places=beyond.places)
    places = most_prominent_first(comparison.places, lambda place: rate_texts(place.texts))
    if not places:  # equal after all: classes that differ in another variable
        ranks = RankSet.union(ranks for ranks, _ in nodes)
        return _EQUAL, [(ranks, f"{label}{comparison.common}")]
    rating = rate_texts(places[0].texts)
    # Elements of which GDB shows a part can be known where the texts have nothing in common.
    is_whole = not places[0].path or (comparison.common == DIFFERENT and beyond is None)
    if is_whole and (comparison.common == DIFFERENT or len(places) == 1):
        place = places[0]
        layout.is_shortened = layout.is_shortened or comparison.common != DIFFERENT
        return rating, _place_choice(label, place, layout)
    has_common = comparison.common != DIFFERENT
    if has_common and len(nodes) <= HANDFUL and are_clearer_whole(nodes, comparison):
        texts = _texts(nodes)
        return rating, choice_rows(label, texts, layout, bounds=bounds_of(nodes, texts))
    rows = _compared(label, nodes, comparison.common, places, layout)
    return rating, [*rows, *_cut_rows(label, beyond)]


def _whole_rows(label: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    """Return all places at which structures differ, addresses too; other values as they are."""
    texts = [
        # The last slot may hold the lower bounds of arrays.
        Said(
            each.ranks,
            filled(parse(each.text, each.slots)),
            each.slots[each.text.count(SLOT) :],
            record=each.record,
            advice=each.advice,
        )
        for each in said
    ]
    joined = _with_equal_joined(texts)
    nodes = [(each.ranks, parse(each.text, each.slots)) for each in joined]
    shown = [
        whole_string(each.text, each.record) if isinstance(node, Leaf) else each.text
        for each, (_, node) in zip(joined, nodes, strict=True)
    ]
    if any(len(text) > _MOST_TEXT for text in shown):
        shown = from_difference(shown)
    rows: list[Row] = _shortened(
        [(each.ranks, f"{label}{text}") for each, text in zip(joined, shown, strict=True)]
    )
    rating = rate_place(Place("", tuple((each.ranks, each.text) for each in joined)))
    if len(nodes) < 2 or not all(isinstance(node, Group) for _, node in nodes):
        return rating, rows
    comparison = compare(nodes)
    beyond = _beyond(joined)
    if beyond is not None and beyond.places:
        # The text of one rank stands for all ranks with its value: their addresses are not in it.
        addresses = [each for each in comparison.places if rate_place(each) == _EQUAL]
        merged = (*beyond.places, *addresses)
        comparison = replace(comparison, places=merged, has_common=True)
    has_places = bool(comparison.places) and comparison.has_common
    if not has_places or comparison.common == DIFFERENT:
        return rating, rows
    places = most_prominent_first(comparison.places, rate_place)
    compared = _compared(label, nodes, comparison.common, places, layout)
    return rate_place(places[0]), [*compared, *_cut_rows(label, beyond)]


def _cut_rows(label: str, beyond: LongDifferences | None) -> list[Row]:
    """Return a row that names the arrays of which not all places that differ are known."""
    if beyond is None or not beyond.cut:
        return []
    name = label.removesuffix(" = ")
    paths = [behind(name, path) for path in beyond.cut]
    named = ", ".join(paths[:MOST_ELEMENTS] + ["…"] * (len(paths) > MOST_ELEMENTS))
    advice = f"'print {place_of(name, beyond.cut[0])}' looks at all of one"
    return [(None, f"{INDENT}(further elements differ in {named}: {advice})")]


def rate_place(place: Place) -> Rating:
    """Return the prominence of a place with raw addresses; these are no differences."""
    slots: list[str] = []
    if len({normalize_values(text, slots) for _, text in place.texts}) == 1:
        return _EQUAL
    return rate_texts(place.texts)


def _beyond(said: Sequence[Said]) -> LongDifferences | None:
    """Return the differences of values of which the texts are parts; None for other values."""
    return long_differences(
        one_of_each_value(
            EquivalenceClass[Record](each.ranks, each.record, each.slots)
            for each in said
            if each.record is not None
        )
    )


def _differing_all_over(
    label: str,
    said: Sequence[Said],
    comparison: Comparison,
    beyond: LongDifferences,
    layout: Layout,
) -> tuple[Rating, list[Row]]:
    """Return the rows of long values that differ in very many places, or nobody knows where."""
    nodes = [(each.ranks, parse(each.text, each.slots)) for each in said]
    texts = _texts(nodes)
    if beyond.summary is not None:
        rows = choice_rows(label, texts, layout, above=beyond.summary)
        ranks = RankSet.union(ranks for ranks, _ in nodes)
        prominent = most_prominent_first(beyond.places, lambda place: rate_texts(place.texts))
        rows += place_rows(ranks, prominent, layout, name=label.removesuffix(" = "))
        return min(map(rate_texts, (texts, *(place.texts for place in prominent)))), rows
    known = [
        place
        for place in comparison.places
        if not any(NOT_SHOWN in text for _, text in place.texts)
    ]
    if known and comparison.has_common and comparison.common != DIFFERENT:
        known = most_prominent_first(known, lambda place: rate_texts(place.texts))
        rows = _compared(label, nodes, comparison.common, known, layout)
    elif comparison.places:
        rows = choice_rows(label, texts, layout)
    else:
        rows = [(RankSet.union(ranks for ranks, _ in nodes), f"{label}{comparison.common}")]
    if len({text for _, text in texts}) == len(nodes) and not any(
        "..." in text for _, text in texts
    ):
        # All elements are shown, as of an array with one run of equal elements.
        return rate_texts(texts), rows
    sets = ", ".join(layout.brackets(ranks) for ranks, _ in nodes[:MOST_CLASSES])
    more = ", …" if len(nodes) > MOST_CLASSES else ""
    note = f"{len(nodes)} different values, beyond the elements shown: {sets}{more}"
    if any(may_be_unordered(text) for _, text in texts):
        note = f"{len(nodes)} different values, or other orders of equal elements: {sets}{more}"
    advice = said[0].advice or "'stat' and 'compare' look at all elements"
    rows += ((None, f"{INDENT}({note};"), (None, f"{INDENT} {advice})"))
    rows += _cut_rows(label, beyond)
    return rate_texts(texts), rows


def _with_equal_joined(said: Sequence[Said]) -> list[Said]:
    """Return values with equal ones joined: the classes of several variables differ in another."""
    members: dict[tuple[str, tuple[str, ...], str], list[Said]] = {}
    for each in said:
        # Values with other lower bounds of arrays are not equal.
        bounds = each.slots[each.text.count(SLOT) :]
        digest = each.record.digest if each.record is not None else ""
        members.setdefault((each.text, bounds, digest), []).append(each)
    return [
        same[0]
        if len(same) == 1
        else Said(
            RankSet.union(each.ranks for each in same),
            same[0].text,
            functools.reduce(join_slots, (each.slots for each in same)),
            record=same[0].record,
            advice=same[0].advice,
        )
        for same in members.values()
    ]


def _texts(nodes: Iterable[tuple[RankSet, Node]]) -> Texts:
    pairs = [(ranks, filled(node)) for ranks, node in nodes]
    return sorted(pairs, key=lambda pair: (-len(pair[0]), pair[0].first))


def choice_rows(
    label: str,
    texts: Texts,
    layout: Layout,
    used: int = 0,
    *,
    path: str = "",
    bounds: Sequence[str] = (),
    above: Summary | None = None,
) -> list[Row]:
    """Return a row for each of a few values, or the summary of many numbers.

    A few arrays of numbers also get a summary if a line cannot show all of them. *used* columns
    precede each row; *path* leads to the value. *bounds* are the lower bounds of the arrays of
    Fortran in each text, if one is not 1. *above* is the summary of arrays of which the texts are
    parts.
    """
    rows: list[Row] = []
    whole = above
    if whole is not None:
        summed, listed = (whole, ()) if len(texts) > HANDFUL else (None, texts)
    else:
        summed, listed = (
            (None, texts) if layout.whole else summary_of_many(texts, layout.digits_base)
        )
        above = summed
    if above is None and not layout.whole and _is_long(label, texts, layout, used):
        above = summary_of_elements(texts, layout.digits_base)
    if above is not None:
        ranks = RankSet.union(
            ranks for ranks, text in texts if summed is None or (ranks, text) not in listed
        )
        start = used + len(layout.brackets(ranks)) + 1 + len(label)
        places = {} if whole is not None else strange_elements(texts, above, layout, path, bounds)
        rows.append((ranks, hung(label, summary_lines(above, layout, start, places=places))))
        layout.is_shortened = layout.is_shortened or summed is not None
    sizes = [len(ranks) for ranks, _ in texts]
    shown = listed if layout.whole else _chosen(listed)
    for ranks, text in shown:
        # Beside a summary of many numbers, every other text differs.
        differs = summed is not None or is_outlier(len(ranks), sizes)
        first, newline, rest = text.partition("\n")
        mark = f"  {DIFFERS}" if differs else ""
        rows.append((ranks, f"{label}{first}{mark}{newline}{rest}"))
    if left := len(listed) - len(shown):
        count = sum(sizes) - sum(len(ranks) for ranks, _ in shown)
        rows.append((None, layout.folded(f"{left} more classes", count)))
    return rows


def _place_choice(label: str, place: Place, layout: Layout, used: int = 0) -> list[Row]:
    """Return a row for each text at a place; see :func:`choice_rows`."""
    return choice_rows(
        label,
        place.texts,
        layout,
        used,
        path=place.path,
        bounds=place.bounds,
        above=place.summary,
    )


def _chosen(texts: Texts) -> Texts:
    if len(texts) <= MOST_CLASSES:
        return texts
    return (*texts[:SHOWN_OF_MANY], *texts[-SHOWN_OF_MANY:])


def _is_long(label: str, texts: Texts, layout: Layout, used: int) -> bool:
    """Return whether a value does not fit into a line."""
    room = (layout.width or _USUAL_WIDTH) - used - len(label)
    return any(len(layout.brackets(ranks)) + 1 + len(text) > room for ranks, text in texts)


# -- field by field ------------------------------------------------------------------------------


def _compared(
    label: str,
    nodes: Sequence[tuple[RankSet, Node]],
    common: str,
    ordered: Sequence[Place],
    layout: Layout,
) -> list[Row]:
    ranks = RankSet.union(ranks for ranks, _ in nodes)
    rows = place_rows(ranks, ordered, layout, name=label.removesuffix(" = "))
    return [(ranks, f"{label}{common}"), *rows]


def place_rows(
    all_ranks: RankSet, ordered: Sequence[Place], layout: Layout, *, name: str = ""
) -> list[Row]:
    """Return the rows of places at which *all_ranks* differ, in their order, up to a limit.

    *name* stands for the place of the whole value.
    """
    if layout.whole:
        places = [place for place in ordered if layout.is_on_page()]
    else:
        ordered = _with_equal_folded(ordered, layout)
        places = list(ordered[:MOST_PLACES])
    rows: list[Row] = []
    if not places:
        return rows
    # The title of a value that a function has returned is no expression.
    expression = "" if name.endswith(": ") else name
    paths = [behind(expression, place.path) or name for place in places]
    column = min(max(map(len, paths)), PATH_WIDTH)
    start_width = len(INDENT) + column + 2
    blocks = [_shortened(_place_choice("", place, layout, start_width)) for place in places]
    ranks_column = layout.column([ranks for block in blocks for ranks, _ in block if ranks])
    for path, block in zip(paths, blocks, strict=True):
        start = f"{INDENT}{path:<{column}}  "
        for ranks, text in block:
            if ranks is not None:
                # A summary covers all ranks unless it names ranks.
                is_all = ranks == all_ranks and len(block) == 1
                if not is_all:
                    start += f"{layout.brackets(ranks):<{ranks_column}} "
                text = hung(start, text.split("\n"))
                first, newline, rest = text.partition("\n")
                text = layout.fit(first, layout.mark(ranks)) + newline + rest
            else:
                text = start + text
            rows.append((None, text))
            start = " " * start_width
    if (left := len(ordered) - len(places)) and not layout.whole:
        layout.is_shortened = True
        rows.append((None, f"{INDENT}({left} more places differ)"))
    return rows


def _with_equal_folded(places: Sequence[Place], layout: Layout) -> Sequence[Place]:
    """Return places with many of the same texts on the same ranks folded into the first of them."""
    members: dict[object, list[Place]] = {}
    for place in places:
        members.setdefault((place.texts, tuple(place.bounds)), []).append(place)
    if len(members) == len(places):
        return places
    folded: list[Place] = []
    for place in places:
        same = members[(place.texts, tuple(place.bounds))]
        if len(same) < _MANY_EQUAL:
            folded.append(place)
        elif place is same[0]:
            layout.is_shortened = True
            folded.append(replace(place, path=f"{place.path} (+{len(same) - 1} more)"))
    return folded


def _shortened(rows: list[Row]) -> list[Row]:
    """Return rows without the ends of very long texts, which come from values in full."""
    return [
        (ranks, text if len(text) <= _MOST_TEXT else f"{text[:_CUT_TEXT]}…") for ranks, text in rows
    ]
