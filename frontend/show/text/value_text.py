"""Values of many ranks as text: the common part once, different parts with their ranks.

A few different values are listed, the most common first, with outliers marked. Many different
numbers are summarized. Structures and arrays are compared field by field.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from pgdb.frontend.analysis.diff import Place, bounds_of, compare, leaves, placeholders
from pgdb.frontend.analysis.outliers import is_outlier
from pgdb.frontend.analysis.prominence import (
    Prominence,
    Rating,
    most_prominent_first,
    rate_summary,
    rate_texts,
)
from pgdb.frontend.analysis.values import Group, Leaf, Node, filled, number_of, parse
from pgdb.frontend.show.text.layout import (
    DIFFERS,
    HANDFUL,
    MOST_CLASSES,
    SHOWN_OF_MANY,
    Layout,
    Row,
)
from pgdb.merge.normalize import DIFFERENT, join_slots, normalize_values
from pgdb.merge.summary import SKETCH_SIZE, Number, Summary
from pgdb.merge.totals import Totals, summarize
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER

_MOST_PLACES = 12
_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE_WIDTH = 32
_INDENT = "    "
_PATH_WIDTH = 24
_USUAL_WIDTH = 100  # of summaries in a log

_MOST_ELEMENTS = 3  # that are named as NaN or infinite
_RUN = pattern(r"\[(\d+)\]@\d+\Z")
_INDEX = pattern(r"\[(\d+)\]")
_EQUAL: Rating = (Prominence.EQUAL, 0)
_NOWHERE: Mapping[str, str] = MappingProxyType({})

Texts = Sequence[tuple[RankSet, str]]


class Said(msgspec.Struct, frozen=True):
    """One value, or one template of values, of some ranks."""

    ranks: RankSet
    text: str
    """Text with marks for addresses, and with placeholders if *columns* is set."""
    slots: tuple[str, ...] = ()
    """Addresses at the marks."""
    columns: tuple[Summary, ...] | None = None
    """Summaries of the texts at the placeholders."""


def value_rows(name: str, said: Sequence[Said], layout: Layout) -> list[Row]:
    """Return the rows of one value; *name* is its name, or empty."""
    return rated_value_rows(name, said, layout)[1]


def labelled_rows(label: str, said: Sequence[Said], layout: Layout) -> list[Row]:
    """Return the rows of one value behind *label*, such as ``value returned:``."""
    return _plain_rows(label, said, layout)[1]


def rated_value_rows(name: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    """Return the prominence of the differences of one value, and its rows."""
    label = f"{name} = " if name else ""
    rating, rows = _plain_rows(label, [each for each in said if each.columns is None], layout)
    for each in said:
        if each.columns is not None:
            count = len(each.ranks)
            ratings = [rate_summary(column, count) for column in each.columns]
            rating = min(rating, *ratings, (Prominence.REST, 0))
            rows += _template_rows(label, each, layout)
    return rating, rows


def summary_lines(
    summary: Summary, layout: Layout, used: int = 0, *, places: Mapping[str, str] = _NOWHERE
) -> list[str]:
    """Return the summary of many numbers: range, extremes with their ranks, mean, shape.

    *used* columns precede each line. *places* has the elements that are NaN, inf or -inf.
    """
    if not summary.count and summary.others and not (summary.nan or summary.above or summary.below):
        return ["different texts"]
    room = (layout.width or _USUAL_WIDTH) - used
    lines = []
    if summary.low is not None and summary.high is not None:
        low, high = _number(summary.low), _number(summary.high)
        count = summary.distinct
        about = "about " if count >= SKETCH_SIZE else ""
        values = f"{about}{count} different values" if count > 1 else "the only number"
        line = f"{low} … {high}, {values}  "
        # The shape is left out if it does not fit.
        title = f"{_what_bars_show(summary)} "
        bars = sparkline(summary, min(_SPARKLINE_WIDTH, room - len(line) - len(title)))
        lines.append(f"{line}{title.lstrip()}{bars}".rstrip() if bars else line.rstrip())
        parts = [
            f"min {low} {layout.brackets(summary.at_low)}",
            f"max {high} {layout.brackets(summary.at_high)}",
            f"mean {summary.mean:.6g}",
            f"std {summary.deviation:.6g}",
        ]
        lines += _packed(parts, room)
    strange = (
        ("NaN", summary.nan),
        ("inf", summary.above),
        ("-inf", summary.below),
        ("no number", summary.others),
    )
    words = [
        f"{word} on {layout.brackets(ranks)}{places.get(word, '')}"
        for word, ranks in strange
        if ranks
    ]
    return lines + _packed(words, room)


def sparkline(summary: Summary, width: int) -> str:
    """Return the numbers in order of ranks as a line of at most *width* bars.

    Arrays show as their greatest numbers, or as their least numbers where those vary more from rank
    to rank (see :func:`bars_title`). Between the least number and the greatest number of all ranks,
    the height is to scale, so nearly equal arrays have equal bars. Nothing is returned where all
    bars would be equal.
    """
    known = _known_cells(summary)
    if (
        min(len(known), width) < 2
        or summary.low is None
        or summary.high is None
        or summary.low == summary.high
    ):
        return ""
    # Halved: the range of two large doubles can exceed the largest double.
    bottom, top = summary.low / 2, summary.high / 2
    middle = bottom + top
    side = _side(summary, known)
    heights = []
    cells = min(len(known), width)
    for cell in range(cells):
        part = known[cell * len(known) // cells : (cell + 1) * len(known) // cells]
        # A cell shows its extreme, which an average would hide.
        if side == "max":
            peak = max(high for _, high in part)
        elif side == "min":
            peak = min(low for low, _ in part)
        else:
            ends = (each for pair in part for each in pair)
            peak = max(ends, key=lambda value: abs(value - middle))
        height = (peak / 2 - bottom) / (top - bottom)
        heights.append(min(len(_BARS) - 1, int(height * len(_BARS))))
    if side and len({*heights}) == 1:
        return ""
    return "".join(_BARS[height] for height in heights)


def bars_title(summary: Summary) -> str:
    """Return the name of the numbers that :func:`sparkline` draws: ``max by rank`` for arrays."""
    return f"{_side(summary, _known_cells(summary))} by rank".lstrip()


def _what_bars_show(summary: Summary) -> str:
    """Return the title of the bars of arrays; numbers of single ranks need none."""
    return bars_title(summary) if _has_arrays(summary) else ""


def _known_cells(summary: Summary) -> list[tuple[Number, Number]]:
    _, lows, highs = summary.profile
    return [
        (low, high)
        for low, high in zip(lows, highs, strict=True)
        if low is not None and high is not None
    ]


def _has_arrays(summary: Summary) -> bool:
    """Return whether ranks have several numbers each."""
    if summary.block == 1 and any(low != high for low, high in _known_cells(summary)):
        return True
    return summary.count > len(summary.cells) * summary.block


def _side(summary: Summary, known: Sequence[tuple[Number, Number]]) -> str:
    """Return the end of the ranks' arrays that varies most; empty for single numbers."""
    if not _has_arrays(summary) or not known:
        return ""
    lows, highs = [low / 2 for low, _ in known], [high / 2 for _, high in known]
    return "min" if max(lows) - min(lows) > max(highs) - min(highs) else "max"


# -- a few values, or many -----------------------------------------------------------------------


def _plain_rows(label: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    if layout.whole:
        return _whole_rows(label, said, layout)
    nodes = [(each.ranks, parse(each.text, each.slots)) for each in _with_equal_joined(said)]
    if len(nodes) < 2:
        return _EQUAL, [(ranks, f"{label}{filled(node)}") for ranks, node in nodes]
    comparison = compare(nodes)
    places = most_prominent_first(comparison.places, lambda place: rate_texts(place.texts))
    if not places:  # equal after all: classes that differ in another variable
        ranks = RankSet.union(ranks for ranks, _ in nodes)
        return _EQUAL, [(ranks, f"{label}{comparison.common}")]
    rating = rate_texts(places[0].texts)
    if comparison.common == DIFFERENT:
        place = places[0]
        return rating, choice_rows(label, place.texts, layout, path=place.path, bounds=place.bounds)
    if not comparison.has_common and len(nodes) <= HANDFUL and _have_one_partition(places):
        texts = _texts(nodes)
        return rating, choice_rows(label, texts, layout, bounds=bounds_of(nodes, texts))
    return rating, _compared(label, nodes, comparison.common, places, layout)


def _whole_rows(label: str, said: Sequence[Said], layout: Layout) -> tuple[Rating, list[Row]]:
    """Return all places at which structures differ, addresses too; other values as they are."""
    texts = [Said(each.ranks, filled(parse(each.text, each.slots))) for each in said]
    joined = _with_equal_joined(texts)
    rows: list[Row] = [(each.ranks, f"{label}{each.text}") for each in joined]
    rating = rate_place(Place("", tuple((each.ranks, each.text) for each in joined)))
    nodes = [(each.ranks, parse(each.text)) for each in joined]
    if len(nodes) < 2 or not all(isinstance(node, Group) for _, node in nodes):
        return rating, rows
    comparison = compare(nodes)
    if not comparison.has_common or comparison.common == DIFFERENT:
        return rating, rows
    places = most_prominent_first(comparison.places, rate_place)
    return rate_place(places[0]), _compared(label, nodes, comparison.common, places, layout)


def rate_place(place: Place) -> Rating:
    """Return the prominence of a place with raw addresses; these are no differences."""
    slots: list[str] = []
    if len({normalize_values(text, slots) for _, text in place.texts}) == 1:
        return _EQUAL
    return rate_texts(place.texts)


def _with_equal_joined(said: Sequence[Said]) -> list[Said]:
    """Return values with equal ones joined: the classes of several variables differ in another."""
    members: dict[tuple[str, int], list[Said]] = {}
    for each in said:
        members.setdefault((each.text, len(each.slots)), []).append(each)
    return [
        same[0]
        if len(same) == 1
        else Said(
            RankSet.union(each.ranks for each in same),
            same[0].text,
            functools.reduce(join_slots, (each.slots for each in same)),
        )
        for same in members.values()
    ]


def _texts(nodes: Iterable[tuple[RankSet, Node]]) -> Texts:
    pairs = [(ranks, filled(node)) for ranks, node in nodes]
    return sorted(pairs, key=lambda pair: (-len(pair[0]), pair[0].first))


def _have_one_partition(places: Sequence[Place]) -> bool:
    sets = [{ranks for ranks, _ in place.texts} for place in places]
    return all(each == sets[0] for each in sets[1:])


def choice_rows(
    label: str,
    texts: Texts,
    layout: Layout,
    used: int = 0,
    *,
    path: str = "",
    bounds: Sequence[str] = (),
) -> list[Row]:
    """Return a row for each of a few values, or the summary of many numbers.

    A few arrays of numbers also get a summary if a line cannot show all of them. *used* columns
    precede each row; *path* leads to the value. *bounds* are the lower bounds of the arrays of
    Fortran in each text, if one is not 1.
    """
    rows: list[Row] = []
    summed, listed = (None, texts) if layout.whole else _summed(texts)
    above = summed
    if above is None and not layout.whole and _is_long(label, texts, layout, used):
        above = _summed_elements(texts)
    if above is not None:
        ranks = RankSet.union(
            ranks for ranks, text in texts if summed is None or (ranks, text) not in listed
        )
        start = used + len(layout.brackets(ranks)) + 1 + len(label)
        places = _strange_elements(texts, above, layout, path, bounds)
        rows.append((ranks, _hung(label, summary_lines(above, layout, start, places=places))))
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
        layout.is_shortened = True
        count = sum(sizes) - sum(len(ranks) for ranks, _ in shown)
        rows.append((None, f"({left} more classes with {count} ranks are folded)"))
    return rows


def _chosen(texts: Texts) -> Texts:
    if len(texts) <= MOST_CLASSES:
        return texts
    return (*texts[:SHOWN_OF_MANY], *texts[-SHOWN_OF_MANY:])


def _summed(texts: Texts) -> tuple[Summary | None, Texts]:
    """Return the summary of many numbers, and the values to list beside or instead of it."""
    if len(texts) <= HANDFUL:
        return None, texts
    numbers = [(ranks, text) for ranks, text in texts if number_of(text) is not None]
    if len(numbers) > HANDFUL:
        others = [each for each in texts if number_of(each[1]) is None]
        return summarize([(ranks, str(number_of(text))) for ranks, text in numbers]), others
    elements = _summed_elements(texts)
    return (elements, ()) if elements is not None else (None, texts)


def _summed_elements(texts: Texts) -> Summary | None:
    """Return the summary of arrays of numbers; None if a text is no such array."""
    elements = [(ranks, _elements(parse(text))) for ranks, text in texts]
    if len(elements) < 2 or not all(each for _, each in elements):
        return None
    totals = Totals()
    for ranks, found in elements:
        for number, count in found.items():
            totals.add_text(ranks, str(number), count)
    return totals.summary()


def _is_long(label: str, texts: Texts, layout: Layout, used: int) -> bool:
    """Return whether a value does not fit into a line."""
    room = (layout.width or _USUAL_WIDTH) - used - len(label)
    return any(len(layout.brackets(ranks)) + 1 + len(text) > room for ranks, text in texts)


def _strange_elements(
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
    shown = list(elements.items())[:_MOST_ELEMENTS]
    parts = [
        at if ranks == all_ranks else f"{at} of {layout.brackets(ranks)}" for at, ranks in shown
    ]
    return ", ".join(parts if len(elements) == len(shown) else [*parts, "…"])


def _elements(node: Node) -> dict[int | float, int]:
    """Return the numbers of an array that has only numbers, each with its count."""
    if isinstance(node, Leaf) or not node.is_array:
        return {}
    found: dict[int | float, int] = {}
    for item in node.items:
        if isinstance(item.value, Group):
            inner = _elements(item.value)
        else:
            number = number_of(item.value.text)
            inner = {} if number is None else {number: 1}
        if not inner:
            return {}
        for number, count in inner.items():
            found[number] = found.get(number, 0) + count * item.count
    return found


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
    places = (
        [place for place in ordered if layout.is_on_page()]
        if layout.whole
        else ordered[:_MOST_PLACES]
    )
    rows: list[Row] = []
    if not places:
        return rows
    paths = [place.path or name for place in places]
    column = min(max(map(len, paths)), _PATH_WIDTH)
    start_width = len(_INDENT) + column + 2
    blocks = [
        choice_rows("", place.texts, layout, start_width, path=place.path, bounds=place.bounds)
        for place in places
    ]
    ranks_column = layout.column([ranks for block in blocks for ranks, _ in block if ranks])
    for path, block in zip(paths, blocks, strict=True):
        start = f"{_INDENT}{path:<{column}}  "
        for ranks, text in block:
            if ranks is not None:
                # A summary covers all ranks unless it names ranks.
                is_all = ranks == all_ranks and len(block) == 1
                if not is_all:
                    start += f"{layout.brackets(ranks):<{ranks_column}} "
                text = _hung(start, text.split("\n"))
                first, newline, rest = text.partition("\n")
                text = layout.fit(first, layout.mark(ranks)) + newline + rest
            else:
                text = start + text
            rows.append((None, text))
            start = " " * start_width
    if (left := len(ordered) - len(places)) and not layout.whole:
        layout.is_shortened = True
        rows.append((None, f"{_INDENT}({left} more places differ)"))
    return rows


def _template_rows(label: str, said: Said, layout: Layout) -> list[Row]:
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
        return [(said.ranks, _hung(label, summary_lines(columns[0], layout, used)))]
    constants = [_constant(column) for column in columns]
    pieces = filled(template).split(PLACEHOLDER)
    parts = [piece + (constant or DIFFERENT) for piece, constant in zip(pieces, constants)]  # noqa: B905
    rows: list[Row] = [(said.ranks, f"{label}{''.join(parts)}{pieces[-1]}")]
    differing = [placeholder for placeholder in found if not constants[placeholder.number]]
    ordered = most_prominent_first(
        differing, lambda each: rate_summary(columns[each.number], len(said.ranks))
    )
    shown = ordered[:_MOST_PLACES]
    width = min(max((len(placeholder.path) for placeholder in shown), default=0), _PATH_WIDTH)
    for placeholder in shown:
        start = f"{_INDENT}{placeholder.path:<{width}}  "
        lines = summary_lines(columns[placeholder.number], layout, len(start))
        rows.append((None, _hung(start, lines)))
    if left := len(differing) - len(shown):
        rows.append((None, f"{_INDENT}({left} more places differ)"))
    return rows


def _constant(summary: Summary) -> str:
    """Return the number that all ranks have at a placeholder; otherwise an empty text."""
    strange = summary.nan or summary.above or summary.below or summary.others
    if strange or summary.low is None or summary.low != summary.high:
        return ""
    return _number(summary.low)


def _hung(start: str, lines: Sequence[str]) -> str:
    """Return lines; the first follows *start*, the others stand below it."""
    blank = " " * len(start)
    return "\n".join((blank if number else start) + line for number, line in enumerate(lines))


def _packed(parts: Sequence[str], room: int) -> list[str]:
    """Return parts in as few lines of *room* columns as possible."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= room:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _number(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"
