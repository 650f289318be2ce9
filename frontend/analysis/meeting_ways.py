"""Ways to bring ranks to one place, from which they can step together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdb.merge.classes import EquivalenceClass
from pgdb.records import Frame, Record, Stack

MOST_FRAMES = 200
"""Number of frames of a stack that is looked at; a longer one is recursive."""
ANYWHERE = (
    "'barrier LOCATION', with a place that all have still to reach, and 'continue' bring them "
    "together"
)
"""The way that needs no common function."""
OF_SEVERAL_ITERATIONS = (
    "ranks of several iterations meet by 'barrier LOCATION if VAR == N' and 'continue'"
)
"""The way for ranks whose stacks look as if they could meet at a later line."""


def way_together(classes: Iterable[EquivalenceClass[Record]]) -> str:
    """Return the commands that bring ranks of one program together, from their whole stacks.

    The ranks meet at the end of the innermost call that all of them are in: the callers of that
    function stand at one line, so that it returns to one place. In a function that nobody calls,
    such as main, they meet at a later line.
    """
    stacks = [
        each.filled.frames
        for each in classes
        if isinstance(each.filled, Stack) and each.filled.frames
    ]
    if not stacks or any(map(_is_unusable, stacks)):
        return ANYWHERE
    depth = _common_depth(stacks)
    if depth < 0:
        return ANYWHERE
    function = stacks[0][-1 - depth].function
    # 'frame function' selects the innermost frame of a function.
    if any(_times(function, stack) > 1 for stack in stacks):
        return ANYWHERE
    is_inside = any(stack[0].function != function for stack in stacks)
    selects = f"'frame function {function}' and then " if is_inside else ""
    has_lines = all(stack[-1 - depth].line for stack in stacks)
    until = f"'until LINE --lockstep' with a line of {function} that is ahead of all"
    if depth:
        either = f", or {until}" if has_lines else ""
        return f"{selects}'finish --lockstep' brings them together{either}"
    if not has_lines:
        return ANYWHERE
    return f"{selects}{until} brings them together; {OF_SEVERAL_ITERATIONS}"


def _common_depth(stacks: Sequence[Sequence[Frame]]) -> int:
    """Return the depth of the innermost common call, 0 for the outermost; -1 if there is none.

    All its callers stand at one place.
    """
    outwards = [tuple(reversed(stack)) for stack in stacks]
    depth = -1
    for frames in zip(*outwards, strict=False):
        if len({each.function for each in frames}) != 1:
            break
        depth += 1
        if len({_place(each) for each in frames}) != 1:
            break
    return depth


def _place(frame: Frame) -> tuple[str, int, str]:
    return frame.file, frame.line, "" if frame.line else frame.offset


def _is_unusable(stack: Sequence[Frame]) -> bool:
    # 'frame function' and 'finish' know no frames of Python.
    is_long = len(stack) >= MOST_FRAMES
    return is_long or any(each.language or each.function == "??" for each in stack)


def _times(function: str, stack: Sequence[Frame]) -> int:
    return sum(each.function == function for each in stack)
