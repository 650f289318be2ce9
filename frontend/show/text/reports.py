"""Texts of comparisons, checks, statistics and of who is where. No I/O, no session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check, Failing
from pgdb.frontend.analysis.comparing import Comparison, Difference
from pgdb.frontend.analysis.histogram import has_integers
from pgdb.frontend.analysis.part_differences import Part
from pgdb.frontend.analysis.values import Group, parse
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.layout import Layout, Row
from pgdb.frontend.show.text.value_text import Said, sparkline, value_rows
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.summary import SKETCH_SIZE, Number, Summary, iterate_bins, power_range
from pgdb.proctable import RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Event, Record, Value

_MOST_PARTS = 6
_BAR_WIDTH = 30
_USUAL_WIDTH = 78
_LEAST_WIDTH = 20
_NARROW = 60
T = TypeVar("T", Difference, Failing, EquivalenceClass[Record])
_MOST_PIDS_TEXT = 40
_FEW_TEXT = 24
_MOST_TEXT = 200


class Place(msgspec.Struct, frozen=True):
    """Ranks on one host in one state."""

    ranks: RankSet
    host: str
    pids: tuple[int, ...]
    """Process of each rank, in order."""
    state: str
    """``stopped``, ``running``, ``exited``, ``detached`` or ``lost``."""


def comparison(
    found: Comparison,
    expression: str,
    *,
    before: str,
    after: str,
    whole: bool = False,
    width: int = 0,
) -> str:
    """Return the text of a comparison of two sides; with *whole*, of every difference.

    Nothing is wider than *width* but rank sets; 0 is no limit.
    """
    title = f"{expression}, {before} {'with' if found.by == 'value' else '->'} {after}"
    if found.same:
        sets = _sides(found.equal, found.equal_others, found.by != "rank")
        what = "the same values on" if found.by == "value" else "equal on"
        return f"{title}: {what} {sets}"
    lone = (*found.only_before, *found.only_after)
    numbered = [found.equal, *(each.ranks for each in found.differences)]
    numbered += (each.ranks for each in lone)
    layout = Layout(width=width, whole=whole, classes=numbered)
    rows: list[tuple[str, str]] = []
    if found.equal or found.equal_others:
        sets = _sides(found.equal, found.equal_others, found.by != "rank")
        rows.append((sets, "on both sides" if found.by == "value" else "equal"))
    several = found.by == "position"
    shown, note = _folded(found.differences, whole)
    lefts = [_sides(each.ranks, each.others, several) for each in shown]
    start = 1 + max((len(each) for each in (*lefts, *(left for left, _ in rows))), default=0)
    room = width and max(_LEAST_WIDTH, width - start)
    rows += (
        (left, _difference(each, whole, room)) for left, each in zip(lefts, shown, strict=True)
    )
    rows += note
    values: list[str] = []
    if _have_parts(lone) and not whole:
        # What all others have shows in what a value differs; several would only hide it.
        others = found.on_both if len(found.on_both) == 1 and _have_parts(found.on_both) else ()
        values = layout.lines(_compared(expression, (*others, *lone), layout))
        if layout.is_shortened:
            values.append("(--all shows all of it)")
    else:
        for classes, side in ((found.only_before, before), (found.only_after, after)):
            some, note = _folded(classes, whole)
            rows += [
                (render.brackets(each.ranks), f"only {side}: {_text(each.filled)}") for each in some
            ]
            rows += note
    rows += _left_out(found, before, after)
    return "\n".join((f"{title}: {_verdict(found)}", *_table(rows, layout), *values))


def check(found: Check, *, width: int = 0) -> str:
    """Return the text of a check: who fails it, and with what values.

    Nothing is wider than *width* but rank sets; 0 is no limit.
    """
    title = found.requirement.title
    expression = found.requirement.expression
    unchecked = [
        (render.brackets(ranks), f"not checked: {why}") for ranks, why in _missing(found.missing)
    ]
    if found.ok:
        text = f"{title}: passed on {render.brackets(found.passed)}"
        return "; ".join((text, *(f"{ranks} {why}" for ranks, why in unchecked)))
    layout = Layout(width=width)
    values = _same(found, layout)
    rows = []
    failing = [each for each in found.failing if each.is_error or not values]
    shown, note = _folded(failing, whole=False, hint="expand shows every value")
    for each in shown:
        value = f"error: {each.value}" if each.is_error else _short(each.value)
        if value and not each.is_error:
            value = f"{expression}{'' if each.is_element else ' = '}{value}"
        start = len(render.brackets(each.ranks)) + 1
        tail = f", {each.why}" if value and each.why else each.why
        rows.append((render.brackets(each.ranks), _cut(value, tail, width and width - start)))
    rows += note
    if found.common and not values:
        text = f"{expression} = {_short(found.common)}"
        rows.append((render.brackets(found.passed), f"{text}  (the others)"))
    rows += unchecked
    lines = [f"{title}: {_failed_on(found)}", *values, *_table(rows, layout)]
    if found.passed and not found.common:
        lines.append(f"passed on {render.brackets(found.passed)}")
    if layout.is_shortened:
        lines.append("(expand shows every value)")
    return "\n".join(lines)


def statistics(
    expression: str, found: Summary | None, ranks: RankSet, answer: Answer, *, width: int = 0
) -> str:
    """Return the text of the numbers of some ranks, and who has none; 0 is the usual width."""
    width = max(_LEAST_WIDTH, width or _USUAL_WIDTH)
    lines = []
    if found is not None:
        lines.append(f"{render.brackets(ranks)} {expression}: {_count(found, ranks)}")
        lines += _numbers(found, width)
    lines += [
        f"{render.brackets(each.ranks)} {render.record(each)}"
        for each in answer.classes
        if each.is_error
    ]
    return "\n".join((*lines, *render.missing(answer)))


def places(processes: Sequence[RankProcess], states: Mapping[str, RankSet]) -> tuple[Place, ...]:
    """Return who is where and in what state, least rank first."""
    members: dict[tuple[str, str], list[RankProcess]] = {}
    for process in processes:
        state = next((name for name, ranks in states.items() if process.rank in ranks), "")
        members.setdefault((process.host, state), []).append(process)
    return tuple(
        Place(RankSet(each.rank for each in found), host, tuple(each.pid for each in found), state)
        for (host, state), found in members.items()
    )


def place_lines(
    found: Sequence[Place],
    latest: Sequence[EquivalenceClass[Event]],
    sets: Mapping[str, RankSet],
) -> str:
    """Return the lines that say who is where, has stopped or ended how, and what sets there are."""
    rows = [
        (render.brackets(each.ranks), f"{each.state} on {each.host}, {_pids(each.pids)}")
        for each in found
    ]
    rows += [(render.brackets(each.ranks), render.event(each.filled)) for each in latest]
    lines = [f"@{name} = {render.brackets(ranks)}" for name, ranks in sets.items()]
    return "\n".join((*(_table(rows, Layout()) or ["no ranks"]), *lines))


# -- inside ------------------------------------------------------------------------------------


def _verdict(found: Comparison) -> str:
    if found.by == "value":
        count = len(found.only_before) + len(found.only_after)
        text = f"{count} {'value' if count == 1 else 'values'} on one side only"
        return text if count else _nothing_differs(found)
    differing = found.differing
    if not differing:
        return _nothing_differs(found)
    total = len(differing) + len(found.equal)
    verb = "differs" if len(differing) == 1 else "differ"
    text = f"{len(differing)} of {total} {'rank' if total == 1 else 'ranks'} {verb}"
    absolute = max((each.absolute for each in found.differences if each.absolute), default=None)
    relative = max((each.relative for each in found.differences if each.relative), default=None)
    if len(found.differences) > 1 and absolute is not None and relative is not None:
        text += f", by up to {absolute:.3g} (relative {relative:.3g})"
    return text


def _sides(ranks: RankSet, others: RankSet, several: bool) -> str:
    if not several:
        return render.brackets(ranks)
    return f"{render.brackets(ranks)} and {render.brackets(others)}"


def _nothing_differs(found: Comparison) -> str:
    if found.has_compared:
        return "nothing differs in what could be compared"
    return "nothing could be compared"


def _left_out(found: Comparison, before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield who could not be compared, each reason once."""
    members: dict[str, list[RankSet]] = {}
    for left in found.left_out:
        text = f"not compared: {left.why}"
        if found.by == "rank" and left.side != "both":  # else the ranks say which side they are
            text += f" ({before if left.side == 'before' else after})"
        members.setdefault(text, []).append(left.ranks)
    for text, sets in members.items():
        yield render.brackets(RankSet.union(sets)), text


def _have_parts(classes: Sequence[EquivalenceClass[Record]]) -> bool:
    """Return whether values are structures or arrays, to be compared part by part."""
    return bool(classes) and all(
        isinstance(each.record, Value) and isinstance(parse(each.record.text), Group)
        for each in classes
    )


def _compared(
    expression: str, classes: Sequence[EquivalenceClass[Record]], layout: Layout
) -> list[Row]:
    """Return what is common to structures or arrays, and the places that differ."""
    said = [
        Said(each.ranks, each.record.text, each.slots)
        for each in classes
        if isinstance(each.record, Value)
    ]
    return value_rows(expression, said, layout)


def _same(found: Check, layout: Layout) -> list[str]:
    """Return how values differ that should be the same, where they have parts; else nothing."""
    if found.requirement.kind != "same" or found.answer is None:
        return []
    classes = [each for each in found.answer.classes if not each.is_error]
    if len(classes) < 2 or not _have_parts(classes):
        return []
    return layout.lines(_compared(found.requirement.expression, classes, layout))


def _difference(each: Difference, whole: bool, room: int) -> str:
    if not each.parts:
        return f"{_text(each.before)} -> {_text(each.after)}"
    parts = each.parts if whole else each.parts[:_MOST_PARTS]
    lines = [_part(part, whole, room) for part in parts]
    if len(parts) < len(each.parts):
        lines.append(f"({len(each.parts) - len(parts)} more places; --all shows them)")
    return "\n".join(lines)


def _part(part: Part, whole: bool, room: int) -> str:
    path = f"{part.path}: " if part.path else ""
    tail = ""
    if part.absolute is not None:
        tail = f"  (by {part.absolute:.3g}, relative {part.relative or 0:.3g})"
    before, after = part.before or "(none)", part.after or "(none)"
    if not whole:
        before, after = _short(before), _short(after)
        if room:
            room -= len(path) + len(" -> ")
            if room - len(tail) < min(_LEAST_WIDTH, len(before) + len(after)):
                tail = f"\n{tail}"
            else:
                room -= len(tail)
            room = max(_LEAST_WIDTH, room)
            # What the shorter one does not need the longer one has.
            half = max(room // 2, room - min(len(before), len(after)))
            before, after = _cut(before, "", half), _cut(after, "", half)
    return f"{path}{before} -> {after}{tail}"


def _cut(text: str, tail: str, room: int) -> str:
    """Return *text*, cut where it does not fit into *room* columns with *tail* behind it."""
    if not room or len(text) + len(tail) <= room:
        return text + tail
    return f"{text[: max(1, room - len(tail) - 1)]}…{tail}"


def _text(record: Record) -> str:
    return render.record(EquivalenceClass(ranks=RankSet(), record=record))


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def _folded(
    classes: Sequence[T], whole: bool, hint: str = "--all shows them"
) -> tuple[Sequence[T], list[tuple[str, str]]]:
    """Return the first of very many classes, and a row that says how many more there are."""
    if whole or len(classes) <= render.MOST_CLASSES:
        return classes, []
    shown = render.MOST_CLASSES - 2
    count = sum(len(each.ranks) for each in classes[shown:])
    note = f"({len(classes) - shown} more classes with {count} ranks; {hint})"
    return classes[:shown], [("", note)]


def _table(rows: Sequence[tuple[str, str]], layout: Layout) -> list[str]:
    # A set that is very long must not push all others to the right.
    width = max((len(left) for left, _ in rows if len(left) <= _FEW_TEXT), default=0)
    lines = []
    for left, text in rows:
        first, *rest = text.split("\n")
        lines.append(f"{left:<{width}} {first}".strip() if not left else f"{left:<{width}} {first}")
        lines += [f"{'':<{width}} {line}" for line in rest]
    return [layout.fit(line) for line in lines]


def _failed_on(found: Check) -> str:
    failed = found.failed
    if not failed:
        ranks = found.unexcused
        return f"NOT CHECKED on {render.brackets(ranks)} ({len(ranks)} of {len(found.ranks)})"
    if found.requirement.kind == "same" and not found.common and len(found.failing) > 1:
        return f"FAILED: {len(found.failing)} different answers on {render.brackets(failed)}"
    return f"FAILED on {render.brackets(failed)} ({len(failed)} of {len(found.ranks)})"


def _missing(missing: Missing) -> Iterator[tuple[RankSet, str]]:
    for ranks, why in (
        (missing.running, "running"),
        (missing.late, "no answer in time"),
        (missing.lost, "ended, detached or lost"),
    ):
        if ranks:
            yield ranks, why


def _count(found: Summary, ranks: RankSet) -> str:
    numbers = "1 number" if found.count == 1 else f"{found.count} numbers"
    if len(ranks) > 1 and found.count > len(ranks):
        numbers += f" on {len(ranks)} ranks"
    return numbers


def _numbers(found: Summary, width: int) -> Iterator[str]:
    if found.low is not None and found.high is not None:
        low = f"{_show(found.low)} {_few(found.at_low)}"
        high = f"{_show(found.high)} {_few(found.at_high)}"
        yield from _columns((f"min  {low:<32}", f"max     {high}"), width)
        about = "about " if found.distinct >= SKETCH_SIZE else ""
        distinct = f"{about}{found.distinct} different"
        deviation = f"std dev {found.deviation:.6g}"
        yield from _columns((f"mean {found.mean:<12.6g}", f"{distinct:<19}", deviation), width)
        if line := sparkline(found, width - len("  by rank ")):
            yield f"  by rank {line}"
        yield from _histogram(found, width)
    for ranks, what in (
        (found.nan, "NaN"),
        (found.above, "+infinity"),
        (found.below, "-infinity"),
        (found.others, "no number"),
    ):
        if ranks:
            yield f"  {what} on {render.brackets(ranks)}"


def _columns(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield cells in one line, or below each other where that is too wide."""
    line = f"  {' '.join(parts)}".rstrip()
    if len(line) <= width:
        yield line
    else:
        yield from (f"  {part}".rstrip() for part in parts)


def _show(number: Number) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _few(ranks: RankSet) -> str:
    text = render.brackets(ranks)
    return text if len(text) <= _FEW_TEXT else f"[{ranks.first},… {len(ranks)} ranks]"


def _histogram(found: Summary, width: int) -> Iterator[str]:
    is_integer = False
    if found.bins is not None and found.bins.high > found.bins.low:
        rows = list(iterate_bins(found.bins))
        is_integer = has_integers(found.bins, found)
    elif len(found.exponents) > 1:
        powers = [(power_range(power), count) for power, count in sorted(found.exponents.items())]
        rows = [(min(ends), max(ends), count) for ends, count in powers]
    else:
        return
    # Empty bins in a row are one.
    shown: list[tuple[float, float, int]] = []
    for is_empty, members in groupby(rows, key=lambda row: not row[2]):
        block = list(members)
        one = is_empty and len(block) > 2
        shown += [(block[0][0], block[-1][1], 0)] if one else block
    is_narrow = width < _NARROW
    labels = _bin_labels(shown, found.high if is_integer else None, 0 if is_narrow else 11)
    most = max(count for *_, count in shown)
    column = max(0 if is_narrow else 8, len(str(most)))
    bar_width = min(_BAR_WIDTH, width - max(map(len, labels)) - column - len("    "))
    for label, (_, _, count) in zip(labels, shown, strict=True):
        bar = "█" * math.ceil(count / most * max(0, bar_width))
        yield f"  {label} {count:>{column}} {bar}".rstrip()


def _bin_labels(
    rows: Sequence[tuple[float, float, int]], highest: Number | None, column: int
) -> tuple[str, ...]:
    """Return the ends of bins in columns of *column* or more, of integers as such."""
    if highest is not None:
        # They end halfway between two integers.
        pairs = [
            (str(math.ceil(low)), str(min(math.floor(high), int(highest)))) for low, high, _ in rows
        ]
    else:
        edges = sorted({each for low, high, _ in rows for each in (low, high)})
        digits = next(
            (
                digits
                for digits in range(4, 17)
                if len({f"{edge:.{digits}g}" for edge in edges}) == len(edges)
            ),
            17,
        )
        pairs = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for low, high, _ in rows]
    column = max(column, *(len(each) for pair in pairs for each in pair))
    return tuple(
        f"{low:>{column}} … {high:<{column}}"
        if low != high
        else f"{low:>{column}}   {'':<{column}}"
        for low, high in pairs
    )


def _pids(pids: Sequence[int]) -> str:
    """Return process ids in the order of their ranks, neighbours folded."""
    parts: list[str] = []
    at = 0
    while at < len(pids):
        end = at
        while end + 1 < len(pids) and pids[end + 1] == pids[end] + 1:
            end += 1
        parts.append(str(pids[at]) if end == at else f"{pids[at]}-{pids[end]}")
        at = end + 1
    text = ",".join(parts)
    if len(text) > _MOST_PIDS_TEXT:
        text = f"{parts[0]},… {len(pids)} processes"
    return f"pid {text}"
