"""GDB's ``list`` and ``info source`` of one rank, while a Python frame is selected.

GDB would list the interpreter's code, which executes the frame.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Sequence

from pgdb.backend.gdb.python_source import has_changed, lines_of
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.python.reader import PythonFrame
from pgdb.patterns import pattern
from pgdb.records import Failure, Record, Text

_LIST = pattern(r"l(?:i(?:st?)?)?(?:\s+(?P<argument>\S.*?)|(?P<sign>\s*[-+]))?\s*\Z")
_SOURCE = pattern(r"inf(?:o)?\s+so(?:u(?:r(?:ce?)?)?)?\s*\Z")
_NAME = r"[-+]?\d{1,9}|[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_ONE = pattern(rf"(?:(?P<file>[^\s:,'\"]+\.pyw?):)?(?P<name>{_NAME})\Z")
_RANGE = pattern(
    rf"(?:(?:(?P<file>[^\s:,'\"]+\.pyw?):)?(?P<first>{_NAME}))?\s*,\s*"
    rf"(?:(?:(?P<last_file>[^\s:,'\"]+\.pyw?):)?(?P<last>{_NAME}))?\Z"
)
_LINES = 10
_MOST_LINES = 10_000
_BEFORE = 5


class PythonListing:
    """Lister of the source of Python frames, in the form in which GDB lists that of C frames."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._place: tuple[object, ...] = ()
        """The stop and the frame for which the lines below count."""
        self._file = ""
        self._shown: tuple[int, int] = (0, 0)
        """First and last line that were listed at that frame; 0 for none."""

    async def answer(self, pid: int, command: str) -> Record | None:
        """Return the answer of a command, None for another one, or if GDB's own frame counts."""
        listed, is_source = _LIST.match(command), _SOURCE.match(command)
        python = self._stacks.python
        if not (listed or is_source) or not pid or not python.is_python_selected:
            return None
        at = python.selected
        mixed = await self._stacks.mixed(pid)
        if at is None or isinstance(mixed, str) or at >= len(mixed.python):
            return None
        frame = mixed.python[at]
        if frame is None:
            return None
        place = (pid, self._stacks.gdb.runs, at, frame.filename, frame.line)
        if place != self._place:
            self._place, self._file, self._shown = place, frame.filename, (0, 0)
        if listed is None:
            return self._source()
        argument = (listed["argument"] or listed["sign"] or "").strip()
        return self._list(pid, argument, frame, [each for each in mixed.python if each])

    def _source(self) -> Text:
        """Return the words of GDB's ``info source`` about the file that is listed."""
        name = os.path.basename(self._file)
        return Text(
            text=f"Current source file is {name}\nLocated in {self._file}\n"
            "Source language is python."
        )

    def _list(
        self, pid: int, argument: str, frame: PythonFrame, frames: Sequence[PythonFrame]
    ) -> Record | None:
        one, several = _ONE.match(argument), _RANGE.match(argument)
        if argument not in ("", "-", "+") and not one and not several:
            return None  # an address, 'VALUE', or another form of GDB's alone
        named = ""
        if one is not None:
            named = one["file"] or ""
        elif several is not None:
            named = several["file"] or several["last_file"] or ""
        path = self._file if not named else _path_of(named, frames)
        if path is None:
            return None
        try:
            lines = lines_of(pid, path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return Failure(message=f"{path}: {why}")
        span = self._span(argument, frame, lines)
        if span is None:
            return None  # GDB knows functions of C, and says what it does not know
        first, last = span
        shown = range(max(1, first), min(last, len(lines), first + _MOST_LINES) + 1)
        name = os.path.basename(path)
        if not shown:
            if argument == "-":
                return Failure(message=f'Already at the start of "{name}".')
            return Failure(
                message=f'Line number {max(1, first)} out of range; "{name}" has {len(lines)} '
                f"line{'s' * (len(lines) != 1)}."
            )
        self._file, self._shown = path, (shown[0], shown[-1])
        return Text(text=listing(pid, path, lines, shown))

    def _span(
        self, argument: str, frame: PythonFrame, lines: Sequence[str]
    ) -> tuple[int, int] | None:
        """Return the first and the last line of a ``list``, None for an unknown function."""
        begin, end = self._shown
        if argument in ("", "+"):
            if end:
                return end + 1, end + _LINES
            return _around(frame.line)
        if argument == "-":
            if begin:
                return max(1, begin - _LINES), begin - 1
            first = _around(frame.line)[0]
            return max(1, first - _LINES), first - 1
        if (one := _ONE.match(argument)) is not None:
            line = self._line(one["name"], frame, lines)
            return None if line is None else _around(line)
        several = _RANGE.match(argument)
        assert several is not None, "one of the two forms"
        ends = several["first"], several["last"]
        low, high = (self._line(each, frame, lines) for each in ends)
        if (ends[0] and low is None) or (ends[1] and high is None):
            return None
        if low is not None and (ends[1] or "").startswith("+"):
            high = low + int(ends[1])
        if high is None:
            low = low or 1
            return low, low + _LINES - 1
        return (max(1, high - _LINES + 1) if low is None else low), high

    def _line(self, name: str | None, frame: PythonFrame, lines: Sequence[str]) -> int | None:
        """Return the line that a number, a distance or the name of a function means."""
        if not name:
            return None
        if name[0] in "+-":
            at = self._shown[1] or frame.line
            return max(1, at + int(name))
        return int(name) if name.isdecimal() else defined_at("\n".join(lines), name)


def _around(line: int) -> tuple[int, int]:
    first = max(1, line - _BEFORE)
    return first, first + _LINES - 1


def _path_of(name: str, frames: Sequence[PythonFrame]) -> str | None:
    """Return the path of the file of a frame that has a name or the end of a path."""
    for each in frames:
        if each.filename == name or each.filename.endswith(f"/{name}"):
            return each.filename
    return None


def listing(pid: int, path: str, lines: Sequence[str], shown: range) -> str:
    """Return lines in the form of GDB's ``list``: the front end joins the parts of ranks at
    different lines."""
    text = [f"{number}\t{lines[number - 1].rstrip()}" for number in shown]
    if has_changed(pid, path):
        text.append(f"({path} has changed since the rank began: lines may differ)")
    return "\n".join(text)


def defined_at(text: str, name: str) -> int | None:
    """Return the line at which a function or a class is defined, None for none.

    A name without a class is also that of a method, if no function of the module has it.

    >>> text = "class A:\\n  def f(self): pass\\ndef g(): pass"
    >>> defined_at(text, "A.f"), defined_at(text, "g"), defined_at(text, "x")
    (2, 3, None)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, int] = {}
    queue: list[tuple[str, ast.AST]] = [("", tree)]
    for prefix, node in queue:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                full = f"{prefix}{child.name}"
                found.setdefault(full, child.lineno)
                queue.append((f"{full}.", child))
            else:
                queue.append((prefix, child))
    inner = (line for full, line in found.items() if full.endswith(f".{name}"))
    return found.get(name, next(inner, None))
