"""Commands of GDB's whose answer is about Python in one rank: ``list``, ``clear``, ``display``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.python_breakpoints import CLEAR, place_in
from pgdb.backend.gdb.python_commands import PythonCommands, with_file
from pgdb.backend.gdb.python_displays import PythonDisplays
from pgdb.backend.gdb.python_listing import PythonListing
from pgdb.backend.gdb.python_parts import bare_names
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.overlay.messages import Evaluate, InsertBreakpoint, ReadBlock, Reduce
from pgdb.patterns import pattern
from pgdb.records import Failure, Record

if TYPE_CHECKING:
    from pgdb.backend.gdb.python_values import PythonValues

_NO_SYMBOL = pattern(r"No symbol \"(?P<name>[^\W\d]\w*)\" in current context\.\Z")
_NO_VARIABLE = pattern(r"No Python variable '(?P<name>\w+)' in .* and its module\.\Z")
_NO_PLACE = pattern(r"\AFunction \"[\w.]+\" not defined|\ANo source file named \w+\.\Z")
_PYTHON_PLACES = "A place of Python is FILE.py:LINE or MODULE.FUNCTION."


class PythonConsole:
    """Executor of the part of GDB's commands that is about Python, with one GDB."""

    def __init__(self, gdb: GdbSession, stacks: Stacks, breakpoints: Breakpoints) -> None:
        self._gdb = gdb
        self._stacks = stacks
        self._breakpoints = breakpoints
        self.commands = PythonCommands(stacks)
        self._listing = PythonListing(stacks)

    @functools.cached_property
    def values(self) -> PythonValues:
        """The values of Python in the rank."""
        from pgdb.backend.gdb.python_values import PythonValues

        return PythonValues(self._gdb, self.commands)

    @functools.cached_property
    def _displays(self) -> PythonDisplays:
        return PythonDisplays(self.values)

    async def answer(self, command: str, pid: int) -> Record | None:
        """Return the answer of a command about Python, None for one that GDB carries out."""
        if (listed := await self._listing.answer(pid, command)) is not None:
            return listed
        match = CLEAR.match(command)
        if match is None or not pid:
            return None
        argument = match[1] or ""
        place = place_in(await with_file(f"break {argument}".strip(), self._stacks, pid))
        if place is None:
            return None
        is_own = place.location != argument
        return await self._breakpoints.clear_python(place, pid, is_own=is_own)

    async def display(self, command: str, pid: int) -> str | Failure:
        """Return what GDB gets in the place of a ``display``."""
        return await self._displays.sent(command, pid)

    async def display_text(self, text: str, pid: int) -> str:
        """Return what GDB has printed of displays as the user knows them."""
        if "_pgdb_python_" in text:
            text = await self._displays.filled(text, pid)
        return self._gdb.displays.as_typed(text)

    async def unless_of_python(self, pid: int, operation: object) -> Failure | None:
        """Return an error if a value for a verdict is GDB's, and Python has a name of it, too.

        At a Python frame, ``step`` is a variable of Python for the user. GDB finds a function of
        the C library, which is the same on all ranks.
        """
        if isinstance(operation, Evaluate):
            is_for_verdict = operation.keeps_history
        else:
            is_for_verdict = isinstance(operation, Reduce | ReadBlock)
        if not is_for_verdict or not pid or not self._stacks.python.is_python_selected:
            return None
        assert isinstance(operation, Evaluate | Reduce | ReadBlock)
        for name in bare_names(operation.expression):
            value = await self.values.evaluate(pid, Evaluate(expression=f"py:{name}"))
            if not isinstance(value, Failure):
                return Failure(
                    message=f"{name!r} is a name of Python, and of compiled code, too: py:{name} "
                    f"is that of the Python frame, ::{name} a global one of compiled code"
                )
        return None

    async def with_way(self, pid: int, operation: object, failure: Failure) -> Failure | None:
        """Return an error about a name that Python knows, or a place that may be one of Python;
        None for another one."""
        message, python = failure.message, self._stacks.python
        if isinstance(operation, InsertBreakpoint):
            is_place = bool(pid) and _NO_PLACE.search(message) and python.runtime_of(pid)
            return Failure(message=f"{message} {_PYTHON_PLACES}") if is_place else None
        if not pid or not python.is_python_selected:
            return None
        unknown_to_gdb = _NO_SYMBOL.search(message)
        missing = unknown_to_gdb or _NO_VARIABLE.match(message)
        if missing is None:
            return None
        name = missing["name"]
        if unknown_to_gdb is not None:
            value = await self.values.evaluate(pid, Evaluate(expression=f"py:{name}"))
            if not isinstance(value, Failure):
                way = f"It is a variable of the Python frame: 'print py:{name}'."
                return Failure(message=f"{message} {way}")
        mixed = await self._stacks.mixed(pid)
        if isinstance(mixed, str):
            return None
        for level, frame in enumerate(mixed.python):
            if frame is not None and await self.values.has(pid, frame, name):
                way = f"The Python frame of {frame.name} has it: frame {level}."
                return Failure(message=f"{message} {way}")
        return None
