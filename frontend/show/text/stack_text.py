"""Stacks and frames as text, as GDB prints them."""

from __future__ import annotations

from pgdb.frontend.analysis.function_names import shown_name
from pgdb.frontend.show.text.layout import Layout
from pgdb.merge.runs import runs
from pgdb.records import (
    Frame,
    Stack,
)

_LEAST_FOLDED = 4
"""Minimum number of recursive calls that are folded."""


def stack(said: Stack, layout: Layout | None = None) -> str:
    """Return a stack as GDB prints it; recursion is folded if *layout* is given and not whole."""
    is_known = said.hidden.isdecimal() and len(said.hidden) < 10
    hidden = int(said.hidden) if is_known else 0
    unknown = bool(said.hidden) and not is_known
    lines = []
    folds = {} if layout is None or layout.whole else _recursion(said)
    left_out = 0
    is_short = False
    for offset, each in enumerate(said.frames):
        if fold := folds.get(offset):
            left_out, text = fold
            lines.append(text)
        if left_out:
            left_out -= 1
            continue
        level = "#*" if unknown else f"#{offset + hidden}"
        name = each.function if layout is None or layout.whole else shown_name(each.function)
        is_short = is_short or name != each.function
        lines.append(f"{level:<3} {frame(each, name)}")
    if layout is not None and (folds or is_short):
        layout.is_shortened = True
    if said.more:
        lines.append("(more frames follow)")
    if said.note:
        lines.append(f"({said.note})")
    return "\n".join(lines) or "No stack."


def _recursion(said: Stack) -> dict[int, tuple[int, str]]:
    """Return recursive frames: start, number of frames, and replacement text.

    The first and the last call stay.
    """
    places = [(each.function, each.file, each.line) for each in said.frames]
    found = {}
    for run in runs(places):
        count = run.length - 2 * run.period
        if count < _LEAST_FOLDED:
            continue
        start = run.start + run.period
        cycle = [
            f"{each.function} at {each.file}:{each.line}" if each.line else each.function
            for each in said.frames[start : start + run.period]
        ]
        found[start] = (count, f"    … {count} more of {' and '.join(cycle)}")
    return found


def frame_count(said: Stack) -> str:
    """Return the number of all frames of a stack in words, those that are folded included."""
    count = len(said.frames)
    is_least = said.more
    if said.hidden.isdecimal() and len(said.hidden) < 10:
        count += int(said.hidden)
    elif said.hidden:
        is_least = True  # the ranks have different numbers
    return f"at least {count} frames" if is_least else f"{count} frames"


def frame(each: Frame, name: str = "") -> str:
    """Return a frame as GDB prints it, without level and address; *name* is in place of its
    function's name."""
    # GDB's "print frame-arguments presence" shows three points in place of all arguments.
    arguments = ", ".join(
        f"{item.name}={item.value}" if item.value or item.name != "..." else item.name
        for item in each.arguments
    )
    dying = f", {each.dying}" if each.dying else ""
    # Frames of GDB's own have no arguments: <signal handler called>, <function called from gdb>.
    called = "" if each.function.startswith("<") and not arguments else f" ({arguments})"
    text = f"{name or each.function}{dying}{called}"
    if each.line:
        return f"{text} at {each.file}:{each.line}"
    return f"{text} from {each.library}" if each.library else text


def has_recursion(said: Stack) -> bool:
    """Return whether the calls of a stack repeat, so that it is folded."""
    return bool(_recursion(said))
