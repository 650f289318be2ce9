"""One stack of the C frames of a thread and its Python frames; pure functions.

A C function of the interpreter, the evaluator, executes a *run* of Python frames: one that C code
has called, and those that Python code has called in it. So each run stands where its evaluator is.

By address (Python 3.13 and later), the interpreter's entry frame of a run lies inside the C frame
of its evaluator. By name, the evaluators and the runs are matched from the outermost ones: a thread
that is just entering or leaving a frame has an innermost evaluator without a run. If neither gives
an order, both parts follow each other behind a mark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from pgdb.backend.python import glue
from pgdb.backend.python.agent_points import NAME as AGENT
from pgdb.backend.python.reader import PythonFrame

UNKNOWN_BETWEEN = "<the C frames between them are not known>"
"""Name of the frame that stands between parts whose order is unknown."""


class CFrame(msgspec.Struct, frozen=True):
    """A C frame, as far as its place matters."""

    function: str
    path: str
    """Object file of its code, empty if it is in none."""
    address: int
    stack_pointer: int = 0
    """Value of the stack pointer in it; 0 if it is unknown."""

    @property
    def is_interpreter(self) -> bool:
        """Whether it is of the interpreter."""
        return glue.is_interpreter(self.path)

    @property
    def is_evaluator(self) -> bool:
        """Whether it executes Python frames, by its name."""
        return glue.evaluates(self.function)


Run = Sequence[PythonFrame]
Item = int | PythonFrame | None
"""A C frame by its index, a Python frame, or the mark for an unknown order."""


class Mixed(msgspec.Struct, frozen=True):
    """A stack of both kinds of frames, innermost first."""

    items: tuple[Item, ...]
    homes: dict[int, int]
    """Index of the C frame that executes a Python frame, by its index in *items*."""
    is_exact: bool
    """Whether the place of each frame is known."""


def runs_of(frames: Sequence[PythonFrame]) -> list[list[PythonFrame]]:
    """Return the runs of Python frames, innermost first."""
    runs: list[list[PythonFrame]] = [[]]
    for each in frames:
        runs[-1].append(each)
        if each.ends_run:
            runs.append([])
    return [each for each in runs if each]


def interleave(
    c_frames: Sequence[CFrame],
    frames: Sequence[PythonFrame],
    entries: Sequence[tuple[int, int]] | None = None,
) -> Mixed:
    """Return the stack of a thread.

    :param entries: for each run, innermost first, the address of its entry frame and the number of
        its Python frames; None if the interpreter has no table.
    """
    runs = runs_of(frames)
    places = _by_address(c_frames, runs, entries) if entries is not None else None
    if places is None and (entries is None or not _has_pointers(c_frames)):
        places = _by_name(c_frames, runs)
    if places is None:
        return _apart(c_frames, frames)
    items: list[Item] = []
    homes: dict[int, int] = {}
    for at in range(len(c_frames)):
        for frame in places.get(at, ()):
            homes[len(items)] = at
            items.append(frame)
        items.append(at)
    return Mixed(tuple(items), homes, is_exact=True)


def _has_pointers(c_frames: Sequence[CFrame]) -> bool:
    return all(each.stack_pointer for each in c_frames)


def _by_address(
    c_frames: Sequence[CFrame], runs: Sequence[Run], entries: Sequence[tuple[int, int]]
) -> dict[int, Run] | None:
    """Return the runs by the index of their evaluators, None if they do not fit."""
    # An evaluator that is entered or left has an entry frame, and no Python frame above it yet.
    reported = [address for address, count in entries if count]
    pointers = [each.stack_pointer for each in c_frames]
    if len(reported) != len(runs) or not _has_pointers(c_frames) or sorted(pointers) != pointers:
        return None
    found: dict[int, Run] = {}
    for address, run in zip(reported, runs, strict=True):
        # The C frame reaches from its stack pointer to that of its caller; inlined functions share
        # the pointer of the function that contains them, the last of these.
        at = bisect_right(pointers, address) - 1
        if at < 0 or at in found or (found and at < max(found)) or at == len(pointers) - 1:
            return None
        if not c_frames[at].is_interpreter:
            return None
        found[at] = run
    return found


def _by_name(c_frames: Sequence[CFrame], runs: Sequence[Run]) -> dict[int, Run] | None:
    """Return the runs by the index of their evaluators, None if they do not fit."""
    if not _is_complete(c_frames):
        return None
    found = [
        at
        for at, each in enumerate(c_frames)
        if each.is_evaluator and not _is_inlined(c_frames, at)
    ]
    if len(found) == len(runs) + 1:
        # Just being entered or left: nothing but the interpreter may be inside.
        if not all(each.is_interpreter for each in c_frames[: found[0]]):
            return None
        found = found[1:]
    if len(found) != len(runs):
        return None
    return dict(zip(found, runs, strict=True))


def _is_complete(c_frames: Sequence[CFrame]) -> bool:
    """Return whether the stack reaches the start of the program or of the thread."""
    # The code before main has no symbol in a stripped program; the C library has called it.
    outer = c_frames[-2:]
    return any(glue.starts_all(each.function, each.path) for each in outer)


def _is_inlined(c_frames: Sequence[CFrame], at: int) -> bool:
    """Return whether the evaluator is a part of the next frame, which is an evaluator as well."""
    outer = c_frames[at + 1] if at + 1 < len(c_frames) else None
    return outer is not None and outer.is_evaluator and outer.address == c_frames[at].address


def _apart(c_frames: Sequence[CFrame], frames: Sequence[PythonFrame]) -> Mixed:
    """Return the C frames up to the interpreter, a mark, and all Python frames."""
    inner = next((at for at, each in enumerate(c_frames) if each.is_interpreter), len(c_frames))
    items = (*range(inner), None, *frames)
    return Mixed(items, {}, is_exact=False)


def without_agent(mixed: Mixed) -> Mixed:
    """Return the stack without the code that PGDB runs in the rank, if that is innermost."""
    python = [at for at, each in enumerate(mixed.items) if isinstance(each, PythonFrame)]
    if not python or not _is_agent(mixed.items[python[0]]):
        return mixed
    # The agent's frames, and the interpreter's between them and the line that has called them.
    user = next((at for at in python if not _is_agent(mixed.items[at])), None)
    if user is None:
        return mixed
    homes = {at - user: home for at, home in mixed.homes.items() if at >= user}
    return Mixed(mixed.items[user:], homes, mixed.is_exact)


def _is_agent(item: Item) -> bool:
    return isinstance(item, PythonFrame) and item.filename == AGENT


def folded(
    mixed: Mixed, c_frames: Sequence[CFrame], rules: glue.Rules, *, keeps_innermost: bool = False
) -> list[int]:
    """Return the indices in *mixed.items* of the frames to show.

    :param keeps_innermost: the innermost frame is shown, as after a fault in the interpreter.
    """
    items = mixed.items
    python = [at for at, each in enumerate(items) if not isinstance(each, int)]
    if not python:
        return list(range(len(items)))
    first, last = python[0], python[-1]
    outer = [each for each in items[last + 1 :] if isinstance(each, int)]
    if mixed.is_exact and all(
        glue.is_start(c_frames[at].function, c_frames[at].path) for at in outer
    ):
        items = items[: last + 1]
    shown: list[int] = []
    for at, each in enumerate(items):
        if isinstance(each, int):
            frame = c_frames[each]
            is_kept = keeps_innermost and at == 0
            if not is_kept and rules.is_glue(frame.function, frame.path):
                continue
            if not is_kept and frame.is_interpreter:
                if at > first or not glue.says_where_it_waits(frame.function):
                    continue
            is_repeated = shown and _names(items[shown[-1]], c_frames) == _names(each, c_frames)
            if is_repeated and glue.plain_name(frame.function) != frame.function:
                continue
        elif each is not None and shown and glue.is_import(each.filename):
            continue
        shown.append(at)
    return shown


def _names(item: Item, c_frames: Sequence[CFrame]) -> str:
    return glue.plain_name(c_frames[item].function) if isinstance(item, int) else ""
