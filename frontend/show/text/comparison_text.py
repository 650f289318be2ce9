"""Comparisons and checks as text. No I/O, no session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.comparing import Comparison, Difference
from pgdb.frontend.analysis.element_checks import Failing
from pgdb.frontend.analysis.long_differences import distinct_wholes, from_difference
from pgdb.frontend.analysis.part_differences import Part
from pgdb.frontend.analysis.paths import behind, place_of
from pgdb.frontend.analysis.prominence import most_prominent_changes_first
from pgdb.frontend.analysis.unseen_addresses import leaves_out_addresses
from pgdb.frontend.analysis.values import Group, parse
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.layout import MOST_CLASSES, Layout, Row, brackets, table
from pgdb.frontend.show.text.value_text import Said, value_rows
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

_MOST_PARTS = 6
NO_ADDRESSES = "but for the addresses, which were not compared; 'set compare-pointers raw' does"
_LEAST_WIDTH = 20
T = TypeVar("T", Difference, Failing, EquivalenceClass[Record])
_MOST_TEXT = 200


def comparison(
    found: Comparison,
    expression: str,
    *,
    before: str,
    after: str,
    whole: bool = False,
    has_addresses: bool = False,
    width: int = 0,
) -> str:
    """Return the text of a comparison of two sides; with *whole*, of every difference.

    *has_addresses* says that equal values have addresses that differ, which were not compared.
    Only rank sets can be wider than *width*; 0 means no limit.
    """
    title = f"{expression}, {before} {'with' if found.by == 'value' else '->'} {after}"
    if found.same:
        sets = _sides(found.equal, found.equal_others, found.by != "rank")
        what = "the same values on" if found.by == "value" else "equal on"
        left_out = f"\n({NO_ADDRESSES})" if has_addresses else ""
        return f"{title}: {what} {sets}{left_out}"
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
        (left, _difference(each, expression, whole, room))
        for left, each in zip(lefts, shown, strict=True)
    )
    rows += note
    values: list[str] = []
    if _have_parts(lone) and not whole:
        # One common value shows what differs; several common values would hide it.
        others = found.on_both if len(found.on_both) == 1 and _have_parts(found.on_both) else ()
        values = layout.lines(_compared(expression, (*others, *lone), layout))
        if layout.is_shortened:
            values.append("(--all shows all of it)")
    else:
        wholes = distinct_wholes((*lone, *found.on_both))
        for classes, side in ((found.only_before, before), (found.only_after, after)):
            some, note = _folded(classes, whole)
            for each in some:
                text = wholes.get(each.ranks) or _text(each.filled)
                rows.append((brackets(each.ranks), f"only {side}: {text}"))
            rows += note
    rows += _left_out(found, before, after)
    return "\n".join((f"{title}: {_verdict(found)}", *table(rows, layout), *values))


def check(found: Check, *, width: int = 0) -> str:
    """Return the text of a check: the failing ranks with their values.

    Only rank sets can be wider than *width*; 0 means no limit.
    """
    title = found.requirement.title
    expression = found.requirement.expression
    unchecked = [(brackets(ranks), f"not checked: {why}") for ranks, why in _missing(found.missing)]
    if found.ok:
        text = f"{title}: passed on {brackets(found.passed)}"
        text = "; ".join((text, *(f"{ranks} {why}" for ranks, why in unchecked)))
        if found.is_zero_unnoticed:
            text += f"\n(the value is {found.common}; 'assert {expression} true' fails for a zero)"
        answers = () if found.answer is None else (found.answer,)
        if found.requirement.kind == "same" and leaves_out_addresses(answers):
            text += f"\n({NO_ADDRESSES})"
        return text
    layout = Layout(width=width)
    values = _same(found, layout)
    rows = []
    failing = [each for each in found.failing if each.is_error or not values]
    shown, note = _folded(failing, whole=False, hint="expand shows every value")
    for each in shown:
        value = f"error: {each.value}" if each.is_error else _short(each.value)
        if value and not each.is_error:
            path, sign, text = value.partition(" = ") if each.is_element else ("", " = ", value)
            value = f"{place_of(expression, path) if path else expression}{sign}{text}"
        start = len(brackets(each.ranks)) + 1
        tail = f", {each.why}" if value and each.why else each.why
        rows.append((brackets(each.ranks), _cut(value, tail, width and width - start)))
    rows += note
    if found.common and not values and found.passed:
        text = f"{expression} = {_short(found.common)}"
        rows.append((brackets(found.passed), f"{text}  (the others)"))
    rows += unchecked
    lines = [f"{title}: {_failed_on(found)}", *values, *table(rows, layout)]
    if found.passed and not found.common:
        lines.append(f"passed on {brackets(found.passed)}")
    if layout.is_shortened:
        lines.append("(expand shows every value)")
    return "\n".join(lines)


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
        return brackets(ranks)
    return f"{brackets(ranks)} and {brackets(others)}"


def _nothing_differs(found: Comparison) -> str:
    if found.has_compared:
        return "nothing differs in what could be compared"
    return "nothing could be compared"


def _left_out(found: Comparison, before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield the ranks that could not be compared, each reason once."""
    members: dict[str, list[RankSet]] = {}
    for left in found.left_out:
        text = f"not compared: {left.why}"
        if found.by == "rank" and left.side != "both":  # else the ranks say which side they are
            text += f" ({before if left.side == 'before' else after})"
        members.setdefault(text, []).append(left.ranks)
    for text, sets in members.items():
        yield brackets(RankSet.union(sets)), text


def _have_parts(classes: Sequence[EquivalenceClass[Record]]) -> bool:
    """Return whether all values are structures or arrays, which are compared part by part."""
    return bool(classes) and all(
        isinstance(each.record, Value)
        and (isinstance(each.record.whole, Block) or isinstance(parse(each.record.text), Group))
        for each in classes
    )


def _compared(
    expression: str, classes: Sequence[EquivalenceClass[Record]], layout: Layout
) -> list[Row]:
    """Return the common part of structures or arrays, and the places that differ."""
    said = [
        Said(each.ranks, each.record.text, each.slots, record=each.record)
        for each in classes
        if isinstance(each.record, Value)
    ]
    return value_rows(expression, said, layout)


def _same(found: Check, layout: Layout) -> list[str]:
    """Return how values with parts differ that must be the same; otherwise nothing."""
    if found.requirement.kind != "same" or found.answer is None:
        return []
    classes = [each for each in found.answer.classes if not each.is_error]
    if len(classes) < 2 or not _have_parts(classes):
        return []
    return layout.lines(_compared(found.requirement.expression, classes, layout))


def _difference(each: Difference, expression: str, whole: bool, room: int) -> str:
    if not each.parts:
        return f"{_text(each.before)} -> {_text(each.after)}"
    ordered = most_prominent_changes_first(each.parts)
    parts = ordered if whole else ordered[:_MOST_PARTS]
    # The places in a list of variables begin with their names.
    name = expression if isinstance(each.before, Value) else ""
    lines = [_part(part, name, whole, room) for part in parts]
    if len(parts) < len(each.parts):
        lines.append(f"({len(each.parts) - len(parts)} more places; --all shows them)")
    return "\n".join(lines)


def _part(part: Part, expression: str, whole: bool, room: int) -> str:
    path = f"{behind(expression, part.path)}: " if part.path else ""
    tail = ""
    if part.absolute is not None:
        tail = f"  (by {part.absolute:.3g}, relative {part.relative or 0:.3g})"
    before, after = part.before or "(none)", part.after or "(none)"
    if not whole:
        before, after = map(_short, from_difference((before, after)))
        if room:
            room -= len(path) + len(" -> ")
            if room - len(tail) < min(_LEAST_WIDTH, len(before) + len(after)):
                tail = f"\n{tail}"
            else:
                room -= len(tail)
            room = max(_LEAST_WIDTH, room)
            # The longer text gets the columns that the shorter text does not need.
            half = max(room // 2, room - min(len(before), len(after)))
            before, after = _cut(before, "", half), _cut(after, "", half)
    return f"{path}{before} -> {after}{tail}"


def _cut(text: str, tail: str, room: int) -> str:
    """Return *text* and *tail*, with *text* cut so that both fit into *room* columns."""
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
    """Return the first classes of very many, and a row with the number of further classes."""
    if whole or len(classes) <= MOST_CLASSES:
        return classes, []
    shown = MOST_CLASSES - 2
    count = sum(len(each.ranks) for each in classes[shown:])
    note = f"({len(classes) - shown} more classes with {count} ranks; {hint})"
    return classes[:shown], [("", note)]


def _failed_on(found: Check) -> str:
    """Return the verdict: the ranks that fail, and those of which nobody knows whether they do."""
    wrong = [each for each in found.failing if not each.is_error]
    failed = RankSet.union(each.ranks for each in wrong)
    unknown = found.failed - failed
    parts = []
    if wrong and found.requirement.kind == "same" and not found.common and len(wrong) > 1:
        parts.append(f"FAILED: {len(wrong)} different answers on {brackets(failed)}")
    elif wrong:
        parts.append(f"FAILED on {_counted(failed, found)}")
    else:
        unknown |= found.unexcused
    if unknown:
        parts.append(f"NOT CHECKED on {_counted(unknown, found)}")
    return ", ".join(parts)


def _counted(ranks: RankSet, found: Check) -> str:
    return f"{brackets(ranks)} ({len(ranks)} of {len(found.ranks)})"


def _missing(missing: Missing) -> Iterator[tuple[RankSet, str]]:
    for ranks, why in (
        (missing.running, "running"),
        (missing.held, "held"),
        (missing.late, "no answer in time"),
        (missing.lost, "ended, detached or lost"),
    ):
        if ranks:
            yield ranks, why
