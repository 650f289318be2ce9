"""Breakpoints at lines and functions of Python, with numbers of GDB's own.

Each one is a breakpoint of GDB at the function that the agent calls at a hit, with a condition that
says whose hit it is. So GDB counts the hits, ignores, disables and deletes; the agent knows the
place and the condition in Python.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.python_agent import Hit, PythonAgent
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.python.agent_points import UNCAUGHT
from pgdb.backend.python.injection import CannotArmError
from pgdb.jobs import procfs
from pgdb.jobs.wrapped_program import interpreted_script, path_of
from pgdb.patterns import pattern
from pgdb.records import Breakpoint, Failure
from pgdb.regular_files import open_regular

_WORD = r"\s*(?P<word>t?b(?:r(?:e(?:ak?)?)?)?)"
_COMMAND = pattern(rf"{_WORD}\s+(?P<rest>\S.*)\Z")
_OWN_LINE = pattern(rf"{_WORD}(?:\s+(?P<line>[-+]?\d{{1,9}}))?(?P<tail>\s+if\b.*|\s*)\Z")
_TAIL = pattern(r"\s+if\b\s*(?P<condition>.*)\Z")
_LINE = pattern(r"(?P<file>[^\s:'\"]+\.pyw?):(?P<line>\d+)\Z")
_FUNCTION = pattern(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+\Z")
CATCH = pattern(r"\s*(t?)cat(?:c|ch)?\s+py-exception(?!\S)\s*(.*)\Z")
"""The command that stops a rank at an uncaught exception of Python."""
CLEAR = pattern(r"cl(?:e(?:ar?)?)?(?:\s+(\S.*?))?\s*\Z")
"""The command that deletes the breakpoints at a place, and the place."""
PENDING = "not armed yet: the rank has to execute Python code first"
UNKNOWN = "armed, but the rank has executed no such code yet"
_MOST_OF_SCRIPT_BYTES = 1 << 22
_RUNS = "the rank runs; 'interrupt' stops it"


class Place(msgspec.Struct, frozen=True):
    """The place and the condition that a command for a breakpoint at Python code names."""

    is_temporary: bool
    location: str
    wanted: dict[str, Any]
    """The place and the condition, for the agent."""


def place_in(command: str) -> Place | None:
    """Return the Python place of a command that makes a breakpoint, None for another command.

    >>> place_in("tbreak steps.py:4 if n > 3").wanted
    {'file': 'steps.py', 'line': 4, 'condition': 'n > 3'}
    """
    match = _COMMAND.match(command)
    if match is None:
        return None
    tail = _TAIL.search(match["rest"])
    location = match["rest"][: tail.start()] if tail is not None else match["rest"].rstrip()
    condition = {"condition": tail["condition"].strip()} if tail is not None else {}
    wanted: dict[str, Any]
    if (line := _LINE.match(location)) is not None:
        wanted = {"file": line["file"], "line": int(line["line"])}
    elif _FUNCTION.match(location):
        wanted = {"function": location}
    else:
        return None
    return Place(match["word"].startswith("t"), location, {**wanted, **condition})


def in_file(command: str, file: str, line: int) -> str:
    """Return a command for a breakpoint with a file in front of a line that has none.

    :param line: the line at which *file* is executed: '+2' counts from it.

    >>> in_file("tbreak +2 if n", "a.py", 7), in_file("break", "a.py", 7), in_file("b f", "a.py", 7)
    ('tbreak a.py:9 if n', 'break a.py:7', 'b f')
    """
    match = _OWN_LINE.match(command)
    if match is None:
        return command
    wanted = int(match["line"] or 0)
    if not match["line"] or match["line"][0] in "+-":
        wanted += line
    return f"{match['word']} {file}:{wanted}{match['tail']}"


def _is_same_file(one: str, other: str) -> bool:
    """Return whether two names can be of one file: one may be the end of the other's path."""
    longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
    return longer == shorter or (bool(shorter) and longer.endswith(f"/{shorter}"))


def _why_invalid(condition: str) -> str:
    """Return why a condition is no expression of Python, empty if it is one."""
    try:
        compile(condition.strip(), "<condition>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        return f"the condition {condition!r} is no Python expression: {why}"
    return ""


def doubt_about(pid: int, wanted: Mapping[str, Any]) -> str:
    """Return that a file has no such line or name, empty if it has, or if that is unknown.

    Another file can have the same name, and a module gets names from elsewhere, so that this is no
    error.
    """
    file, line = str(wanted.get("file", "")), int(wanted.get("line", 0))
    words = str(wanted.get("function", "")).split(".")
    file = file or f"{words[0]}.py"
    script = interpreted_script(pid)
    folder, base = os.path.split(script)
    named = script if base == file else file
    if len(words) > 1 and folder and base != file:
        named = f"{folder}/{file}"  # Python looks for modules beside the script
    try:
        with open_regular(path_of(pid, named)) as opened:
            data = opened.read(_MOST_OF_SCRIPT_BYTES + 1)
    except OSError:
        return ""
    if len(data) > _MOST_OF_SCRIPT_BYTES:
        return ""
    absent = [each for each in words[1:] if not _is_word_in(each, data)]
    if absent:
        return f"{os.path.basename(file)} does not have the name '{absent[0]}'"
    count = len(data.splitlines())
    if line <= count:
        return ""
    return f"{os.path.basename(file)} has {count} line{'s' * (count != 1)}"


def _is_word_in(word: str, data: bytes) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", data.decode("utf-8", "replace")) is not None


class PythonBreakpoints:
    """The breakpoints at Python code of one GDB."""

    def __init__(self, gdb: GdbSession, agent: PythonAgent) -> None:
        self._gdb = gdb
        self.agent = agent
        self.slots: dict[int, int] = {}
        """Slot by GDB's number, which is that of the job. Numbers stay when breakpoints are
        deleted, as their last stop may be in flight."""
        self._locations: dict[int, str] = {}
        self._doubts: dict[int, str] = {}
        """The reason why the rank may never come to a place, by GDB's number."""

    def at(self, payload: Mapping[str, Any]) -> Hit | None:
        """Return what the agent reports at a stop, None for another stop."""
        return self.agent.hit(payload, self.slots)

    def number_of(self, slot: int) -> int:
        """Return the number of the breakpoint with a slot, 0 for none."""
        return next((number for number, each in self.slots.items() if each == slot), 0)

    async def insert(self, command: str, place: Place, pid: int, last: int) -> int | Failure:
        """Make a breakpoint; return its number, which is behind *last*.

        :raises GdbError: if GDB ends.
        """
        if why := _why_invalid(place.wanted["condition"]) if "condition" in place.wanted else "":
            return Failure(message=why)
        slot = self.agent.new_slot()
        self.agent.points[slot] = place.wanted
        made = await self._make(slot, pid, last, is_temporary=place.is_temporary)
        if isinstance(made, Failure):
            del self.agent.points[slot]
            return replace(made, message=f"{command}: {made.message}")
        self._locations[made] = place.location
        if doubt := await asyncio.to_thread(doubt_about, pid, place.wanted):
            self._doubts[made] = doubt
        return made

    async def catch(self, pid: int, last: int) -> int | Failure:
        """Stop at uncaught exceptions; return the number of the catchpoint.

        :raises GdbError: if GDB ends.
        """
        if self.agent.catches:
            number = self.number_of(UNCAUGHT)
            return Failure(message=f"'catch py-exception' is breakpoint {number} already")
        self.agent.catches = True
        made = await self._make(UNCAUGHT, pid, last, is_temporary=False)
        self.agent.catches = not isinstance(made, Failure)
        return made

    async def _make(self, slot: int, pid: int, last: int, *, is_temporary: bool) -> int | Failure:
        if not procfs.is_at_rest(pid):
            return Failure(message=_RUNS)
        if (why := await self.agent.why_no_hits()) is not None:
            return why
        was_changed, self.agent.is_changed = self.agent.is_changed, True
        try:
            await self.agent.settle(pid)
        except CannotArmError as error:
            self.agent.is_changed = was_changed
            return Failure(message=f"it cannot be armed: {error}")
        word = "tbreak" if is_temporary else "break"
        result = await self._gdb.send(
            python_calls.call("python_hits_in_gdb.insert", word, self.agent.key, slot)
        )
        if result.kind == "error":
            self.agent.is_changed = True
            return failure(result)
        self.slots[last + 1] = slot
        return last + 1

    def at_place(self, wanted: Mapping[str, Any]) -> list[int]:
        """Return the numbers of the breakpoints at a line or a function, as ``clear`` means it."""
        places = self.agent.report().get("places")
        places = places if isinstance(places, dict) else {}
        found = []
        for number, slot in self.slots.items():
            point, known = self.agent.points.get(slot), places.get(slot)
            if point is None:
                continue
            if "function" in wanted:
                is_there = point.get("function") == wanted["function"]
            else:
                at = [(str(point.get("file", "")), point.get("line"))]
                if isinstance(known, tuple) and len(known) == 3:
                    at.append((str(known[0]), known[1]))
                is_there = any(
                    line == wanted["line"] and _is_same_file(file, str(wanted["file"]))
                    for file, line in at
                )
            if is_there:
                found.append(number)
        return found

    def deleted(self, number: int) -> None:
        """Let the agent forget a breakpoint that GDB has deleted."""
        slot = self.slots.get(number)
        if slot == UNCAUGHT:
            self.agent.catches, self.agent.is_changed = False, True
        elif slot is not None and self.agent.points.pop(slot, None) is not None:
            self.agent.is_changed = True

    def change_condition(self, number: int, condition: str) -> Failure | None:
        """Give a breakpoint another condition; return why it cannot have it."""
        slot = self.slots[number]
        if slot == UNCAUGHT:
            return Failure(
                message=f"'condition' is not for {number}, which is 'catch py-exception'"
            )
        if condition and (why := _why_invalid(condition)):
            return Failure(message=why)
        wanted = {
            name: each for name, each in self.agent.points[slot].items() if name != "condition"
        }
        self.agent.points[slot] = {**wanted, "condition": condition} if condition else wanted
        self.agent.is_changed = True
        return None

    def reason(self, number: int) -> str:
        """Return why a breakpoint has no place in the rank yet."""
        why = UNKNOWN if self.agent.is_armed else PENDING
        doubt = self._doubts.get(number)
        return f"{why}; {doubt}" if doubt else why

    def shown(self, made: Sequence[Breakpoint]) -> list[Breakpoint]:
        """Return breakpoints as the user knows them: those at Python code with their places."""
        if not any(each.number in self.slots for each in made):
            return list(made)
        report = self.agent.report()
        places, problems, absences = (
            found if isinstance(found := report.get(each), dict) else {}
            for each in ("places", "problems", "absences")
        )
        general = str(report.get("problem") or "")
        return [
            self._shown(each, places, problems, absences, general)
            if each.number in self.slots
            else each
            for each in made
        ]

    def _shown(
        self,
        made: Breakpoint,
        places: Mapping[Any, Any],
        problems: Mapping[Any, Any],
        absences: Mapping[Any, Any],
        general: str,
    ) -> Breakpoint:
        slot = self.slots[made.number]
        plain = Breakpoint(
            number=made.number,
            kind="breakpoint",
            disposition=made.disposition,
            enabled=made.enabled,
            times=made.times,
            ignore=made.ignore,
            disable_after=made.disable_after,
            commands=made.commands,
        )
        if slot == UNCAUGHT:
            return replace(plain, kind="catchpoint", what="uncaught Python exception")
        location = self._locations.get(made.number, "")
        wanted = self.agent.points.get(slot, {})
        plain = replace(plain, original=location, condition=str(wanted.get("condition", "")))
        place, problem = places.get(slot), str(problems.get(slot, "") or general)
        if isinstance(place, tuple) and len(place) == 3 and not problem:
            path, line, function = place
            if isinstance(line, int):
                file = os.path.basename(str(path))
                return replace(plain, function=str(function), file=file, line=line)
        why = problem or self.reason(made.number)
        if not problem and self.agent.is_armed and (absence := absences.get(slot)):
            why = f"{UNKNOWN}; at PGDB's last look {absence}"
        return replace(plain, location_count=0, what=f"{location} ({why})")
