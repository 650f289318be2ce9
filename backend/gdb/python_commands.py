"""Commands about the Python frames of one rank: select, list variables, list source lines."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.python_breakpoints import in_file
from pgdb.backend.gdb.python_listing import listing
from pgdb.backend.gdb.python_source import lines_of
from pgdb.backend.gdb.python_stacks import NO_FRAMES, NO_PYTHON, MixedStack
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.python.reader import PythonFrame
from pgdb.patterns import pattern
from pgdb.records import Failure, Frame, Record, Stack, Text

_MOVES = pattern(
    r"(?P<python>py-)?(?P<word>up|down|f|fr|fra|fram|frame)(?:\s+(?P<number>-?\d+))?\Z"
)
_FUNCTION = pattern(r"\s*f(?:r(?:a(?:me?)?)?)?\s+func(?:tion)?\s+(?P<name>[^\W\d][\w.]*)\s*\Z")
_RANGE = pattern(r"(?:(\d+)(?:\s*,\s*(\d+))?)?\Z")
_LINES = 10
_MOST_LINES = 10_000
SELECTS = pattern(r"(?:thread|t|taskset|frame|f|up|down|up-silently|down-silently|sel\w*)\b")
"""Commands of GDB's that may select another frame."""


async def with_file(command: str, stacks: Stacks, pid: int) -> str:
    """Return a command for a breakpoint with the file of the selected Python frame, where it has
    none: GDB would take a line of the interpreter's code."""
    at = stacks.python.selected
    if not stacks.python.is_python_selected or at is None:
        return command
    mixed = await stacks.mixed(pid)
    frame = None if isinstance(mixed, str) else mixed.python[at]
    return command if frame is None else in_file(command, frame.filename, frame.line)


class PythonCommands:
    """Executor of commands about Python frames with one GDB."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self.python = stacks.python

    async def _stack(self, pid: int) -> MixedStack | Failure:
        mixed = await self._stacks.mixed(pid)
        if isinstance(mixed, str):
            return Failure(message=mixed or NO_FRAMES)
        if mixed.users is None:
            return Failure(message=NO_FRAMES)
        return mixed

    def _current(self, mixed: MixedStack) -> int:
        """Return the index of the selected frame; the user's Python frame if GDB's counts."""
        at = self.python.selected
        users = mixed.users
        assert users is not None, "a stack with Python frames"
        return at if at is not None and at < len(mixed.places) else users

    async def select(self, pid: int, command: str) -> Record | None:
        """Carry out ``frame N``, ``up``, ``down`` or one of these with ``py-``.

        Without a command, the answer has the selected frame. The result is None for a command that
        only GDB can carry out: for a rank without Python frames, and for other forms of ``frame``.
        """
        found = _MOVES.match(command.strip() or "frame")
        if (named := _FUNCTION.match(command)) is not None:
            return await self._select_function(pid, named["name"])
        if found is None or not (found["python"] or await self._stacks.may_have_python(pid)):
            self.python.forget_selection()
            return None
        mixed = await self._stack(pid)
        if isinstance(mixed, Failure):
            return mixed if found["python"] else None
        current = self._current(mixed)
        number = int(found["number"] or 1)
        word = found["word"]
        steps: Sequence[int] = range(len(mixed.places))
        if found["python"]:
            steps = [at for at in steps if mixed.python[at] is not None]
        if word in ("up", "down"):
            number = -number if word == "down" else number
            outer = [at for at in steps if at > current]
            inner = [at for at in reversed(steps) if at < current]
            way = outer if number > 0 else inner
            if number and not way:
                return Failure(message=_no_further(number > 0, is_python=bool(found["python"])))
            at = way[min(abs(number), len(way)) - 1] if number else current
        else:
            at = int(found["number"]) if found["number"] else current
            if not 0 <= at < len(mixed.places):
                return Failure(message=f"No frame at level {at}.")
        if command:
            await self.python.select(mixed, at)
        return _only(mixed, at)

    async def _select_function(self, pid: int, name: str) -> Record | None:
        """Select the innermost Python frame of a function; None if there is none."""
        if await self._stacks.may_have_python(pid):
            mixed = await self._stack(pid)
            if not isinstance(mixed, Failure):
                for at, frame in enumerate(mixed.python):
                    if frame is not None and f".{frame.name}".endswith(f".{name}"):
                        await self.python.select(mixed, at)
                        return _only(mixed, at)
        self.python.forget_selection()
        return None

    async def selected(self, pid: int) -> PythonFrame | Failure:
        """Return the selected Python frame, or the next one outside of the selected C frame."""
        if not await self._stacks.may_have_python(pid):
            return Failure(message=NO_PYTHON)
        mixed = await self._stack(pid)
        if isinstance(mixed, Failure):
            return mixed
        current = self._current(mixed)
        outer = (each for each in mixed.python[current:] if each is not None)
        return next(outer, None) or Failure(message=NO_FRAMES)

    async def frame(self, pid: int) -> Record:
        """Return the selected Python frame, or the next one outside of the selected C frame."""
        frame = await self.selected(pid)
        if isinstance(frame, Failure):
            return frame
        return Stack(
            frames=(
                Frame(
                    level=0,
                    function=frame.name,
                    file=frame.filename,
                    fullname=frame.filename,
                    line=frame.line,
                    language="python",
                ),
            )
        )

    async def source(self, pid: int, argument: str) -> Record:
        """List the lines around the selected Python frame, or those of ``FIRST,LAST``."""
        frame = await self.selected(pid)
        if isinstance(frame, Failure):
            return frame
        wanted = _RANGE.match(argument.strip())
        if wanted is None:
            return Failure(
                message=f"py-list {argument}: it takes FIRST or FIRST,LAST: line numbers"
            )
        try:
            lines = lines_of(pid, frame.filename)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return Failure(message=f"{frame.filename}: {why}")
        half = _LINES // 2
        first = int(wanted[1]) if wanted[1] else max(1, frame.line - half)
        last = int(wanted[2]) if wanted[2] else first + _LINES - (1 if wanted[1] else 0)
        shown = range(max(1, first), min(last, len(lines), first + _MOST_LINES) + 1)
        if not shown:
            return Failure(message=f"{frame.filename} has {len(lines)} lines")
        return Text(text=listing(pid, frame.filename, lines, shown))


def _no_further(is_up: bool, *, is_python: bool) -> str:
    kind = "Python frame" if is_python else "frame"
    return f"There is no {kind} {'outside' if is_up else 'inside'} the selected one."


def _only(mixed: MixedStack, at: int) -> Stack:
    frame = mixed.places[at].frame
    return Stack(frames=(decode.at_level(frame, 0),), hidden=str(at))
