"""The breakpoints of one rank, with GDB's numbers, which are those of the whole job.

GDB counts its breakpoints itself. Before it makes one with a certain number, its count is advanced
to the number before, by catchpoints that are deleted at once. PGDB's own breakpoints have no such
number (:mod:`.own_breakpoints`) and are never shown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import breakpoint_decode, decode
from pgdb.backend.gdb.barrier_hits import BarrierHits
from pgdb.backend.gdb.death_breakpoints import DeathBreakpoints
from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.passed_breakpoints import PassedBreakpoints
from pgdb.backend.gdb.python_agent import PythonAgent
from pgdb.backend.gdb.python_breakpoints import Place, PythonBreakpoints, place_in
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.sanitizer_reports import SanitizerReports
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import (
    Breakpoint,
    BreakpointList,
    BreakpointsChanged,
    BreakpointsMade,
    Done,
    Failure,
    Record,
    Text,
)

_OF_HARDWARE = frozenset({"hw breakpoint", "hw watchpoint", "read watchpoint", "acc watchpoint"})
_NEVER_STOP = frozenset({"dprintf", "tracepoint", "fast tracepoint", "static tracepoint"})
_AT_ONCE = 50
"""Numbers that are passed over in one write."""


class Breakpoints:
    """Maker and keeper of the breakpoints of one GDB."""

    def __init__(self, gdb: GdbSession, runtime_of: Callable[[int], int] = lambda _: 0) -> None:
        """Begin without breakpoints.

        :param runtime_of: returns the address of a process's Python interpreter, 0 without one.
        """
        self._runtime_of = runtime_of
        self.last = 0
        """The last number that GDB has given."""
        self._there: dict[int, Breakpoint] = {}
        self._settings: dict[int, dict[str, Any]] = {}  # GDB's description at the latest hit
        self.is_asked = True
        """Whether GDB carries out an operation that sets nothing running, or attaches."""
        self._temporary: set[int] = set()
        self._made: list[Breakpoint] = []
        self._deleted: list[int] = []
        self._changed: dict[int, Breakpoint] = {}
        self._known = 0  # the last number that was reported
        self._passed = 0
        """Numbers up to this one are those of deleted catchpoints, if they are new."""
        self._addresses: dict[int, str] = {}  # by number, of those set at an address
        self._symbols: dict[int, str] = {}
        self._places: dict[int, frozenset[int]] = {}
        # The number of a breakpoint, and that of the run in which it was hit or changed.
        self._hit = (0, 0)
        self._hits: set[int] = set()
        self._time_of_hits = (0, 0)
        """The run of these hits, and the stops before them: a function that GDB calls is no run."""
        self._gdb = gdb
        self.deaths = DeathBreakpoints(gdb)
        self.passed = PassedBreakpoints(gdb, self.deaths)
        self._judged: dict[int, tuple[str, ...]] = {}
        """Commands by number that GDB does not have: the front end gives them at a hit."""
        self.python = PythonBreakpoints(gdb, PythonAgent(gdb, runtime_of))
        self.reports = SanitizerReports(gdb)
        self.barriers = BarrierHits(gdb)

    @property
    def has_watchpoint(self) -> bool:
        """Whether there is a watchpoint, whoever made it."""
        return any(each.kind.endswith("watchpoint") for each in self._there.values())

    @property
    def has_hardware(self) -> bool:
        """Whether GDB uses the processor's debug registers."""
        return any(each.kind in _OF_HARDWARE for each in self._there.values())

    @property
    def places(self) -> frozenset[int]:
        """Addresses of the user's breakpoints in code."""
        return frozenset().union(*self._places.values())

    def number_of(self, own: int) -> int:
        """Return the job-wide number for a number of GDB's, 0 for a breakpoint of PGDB's own."""
        return self.deaths.number if own in self.deaths.points else max(own, 0)

    @property
    def first_hit(self) -> int:
        """Least number of GDB's for a breakpoint that was hit in the present run, or 0."""
        if self._hits and self._time_of_hits[0] == self._gdb.runs:
            return min(self._hits)
        number, run = self._hit
        return number if run == self._gdb.runs else 0

    def all_hit(self, shown: int) -> tuple[int, ...]:
        """Return the job-wide numbers of the breakpoints that were hit together with *shown* in the
        present run; empty if there was no other one.

        GDB counts a hit of each of them before it reports the stop, whose ``bkptno`` is only the
        first of them.
        """
        if not shown or len(self._hits) < 2 or self._time_of_hits[0] != self._gdb.runs:
            return ()
        hit = {shown, *map(self.number_of, self._hits)} - {0}
        return tuple(sorted(hit)) if len(hit) > 1 else ()

    def forget(self) -> None:
        """Forget all breakpoints: the process is gone or free."""
        self._there.clear()
        self._places.clear()
        self._settings.clear()
        self._judged.clear()
        self.passed.forget()
        self.reports.forget()
        self.python.agent.forget()

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Take a ``=breakpoint-…`` notice of GDB, or that of a loaded library."""
        if name == "library-loaded":
            self.deaths.has_new_libraries = self.reports.has_new_libraries = True
            return
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if name == "breakpoint-created":
                self._on_created(payload["bkpt"])
            elif name == "breakpoint-modified":
                self._on_modified(payload["bkpt"])
            elif name == "breakpoint-deleted":
                number = int(payload["id"])
                self._places.pop(number, None)
                self._settings.pop(number, None)
                self._judged.pop(number, None)
                self.passed.forget(number)
                if (gone := self._there.pop(number, None)) is not None:
                    self.deaths.deleted(number)
                    self.python.deleted(number)
                    if self._is_by_command(gone):
                        self._deleted.append(number)

    def _on_created(self, bkpt: Mapping[str, Any]) -> None:
        made = breakpoint_decode.breakpoint_of(bkpt)
        self._places[made.number] = breakpoint_decode.addresses_of(bkpt)
        is_passed = self.last < made.number <= self._passed
        self.last = max(self.last, made.number)
        if not is_passed:
            self._there[made.number] = made
            self._made.append(made)
            if made.disposition == "del":
                self._temporary.add(made.number)
            if str(bkpt.get("original-location", "")).startswith("*"):
                self._addresses[made.number] = str(bkpt.get("addr", ""))

    def _on_modified(self, bkpt: Mapping[str, Any]) -> None:
        bkpt = self.passed.as_set(bkpt)
        number = decode.whole_number(bkpt.get("number", "0"))
        self._hit = (number, self._gdb.runs)
        before = self._there.get(number)
        if before is None:
            self._places[number] = breakpoint_decode.addresses_of(bkpt)
            return
        self._note_hit(before, bkpt)
        settings = {**bkpt, "times": ""}
        is_only_hit = self._settings.get(number) == settings and not self._made
        self._settings[number] = settings
        if is_only_hit:
            # Mostly so: only the decoded count changes.
            times = decode.whole_number(bkpt.get("times", "0"))
            self._there[number] = replace(before, times=times)
            return
        now = breakpoint_decode.breakpoint_of(bkpt)
        self._places[number] = breakpoint_decode.addresses_of(bkpt)
        self._there[number] = now
        self.deaths.enabled(number, is_enabled=now.enabled)
        if number in [each.number for each in self._made]:
            # GDB reports a dprintf before it has its text.
            self._made = [now if each.number == number else each for each in self._made]
        elif _settings(before, self.is_asked) != _settings(now, self.is_asked):
            is_death = number == self.deaths.number
            (shown,) = self.python.shown([now])
            self._changed[number] = replace(
                shown, times=0, condition="" if is_death else shown.condition
            )

    def _note_hit(self, before: Breakpoint, bkpt: Mapping[str, Any]) -> None:
        """Note a hit that stops the rank: it is counted, and not one to ignore."""
        if decode.whole_number(bkpt.get("times", "0")) in (0, before.times):
            return
        is_ignored = decode.whole_number(bkpt.get("ignore", "0")) < before.ignore
        if is_ignored or before.kind in _NEVER_STOP:
            return
        now = (self._gdb.runs, self._gdb.stops)
        if self._time_of_hits != now:
            self._time_of_hits = now
            self._hits.clear()
        self._hits.add(before.number)

    def _is_by_command(self, gone: Breakpoint) -> bool:
        """Return whether a command has deleted a breakpoint: not its hit, nor its scope's end."""
        ends_by_itself = gone.number in self._temporary or gone.kind.endswith("watchpoint")
        return self.is_asked or not ends_by_itself

    def is_temporary(self, number: int) -> bool:
        """Return whether a hit of the breakpoint of this number deletes it, or has deleted it."""
        return number in self._temporary

    def pass_over(self) -> None:
        """Disable the breakpoints that the next run passes over."""
        self.passed.disable(self._there)

    def note_unreported_hit(self, number: int) -> None:
        """Record a hit that is not reported: the commands of the breakpoint let the rank run on."""
        if number in self._temporary and number not in self._there:
            self._deleted.append(number)

    def take_changes(self) -> BreakpointsChanged | None:
        """Return the breakpoints made, deleted and changed since the last call, None for none.

        Temporary ones that a hit has deleted are not among them.
        """
        has_changes = self._made or self._deleted or self._changed
        if not has_changes and self._known == self.last:
            return None  # as after nearly each operation
        made, self._made = [each for each in self._made if each.number in self._there], []
        deleted, self._deleted = self._deleted, []
        changed = [each for number, each in self._changed.items() if number in self._there]
        self._changed.clear()
        known, self._known = self._known, self.last
        if not made and not deleted and not changed and known >= self.last:
            return None
        return BreakpointsChanged(
            made=tuple(made), deleted=tuple(deleted), changed=tuple(changed), last=self.last
        )

    async def advance(self, to: int) -> None:
        """Pass over the numbers up to *to*; the next breakpoint has the number behind.

        Catchpoints look up no symbol and change nothing in the rank.
        """
        while self.last < to:
            numbers = range(self.last + 1, min(to, self.last + _AT_ONCE) + 1)
            self._passed = numbers[-1]
            commands = [
                console(command)
                for number in numbers
                for command in ("tcatch exec", f"delete {number}")
            ]
            for result in self._gdb.send_together(*commands):
                await result
            self.last = max(self.last, numbers[-1])
        self._known = max(self._known, to)

    async def insert(self, command: str, first: int, pid: int = 0) -> Record:
        """Run a command that makes breakpoints; the first one gets the number *first*.

        Compilers write lines of files ending in .py, too, and C++ has names with dots. So GDB is
        asked first, and a place that it does not know is one of Python in a rank with Python.
        """
        await self.advance(first - 1)
        python = place_in(command) if pid else None
        python = python if python is not None and self._runtime_of(pid) else None
        pending_off = "with breakpoint pending off -- " if python is not None else ""
        result = await self._gdb.send(console(f"{pending_off}{command}"))
        if python is not None and not self._made and _is_unknown(result.message, result.log):
            return await self._insert_python(command, python, pid)
        if result.kind == "error":
            return failure(result)
        if made := await self.take_made():
            notes = breakpoint_decode.notes_of(result.text, self._public)
            warnings = breakpoint_decode.warnings_of(result.log)
            notes = "\n".join(filter(None, (notes, warnings)))
            return BreakpointsMade(breakpoints=made, notes=notes)
        message = (result.log or result.text).strip()
        if "pending on future shared library load" in message or "not defined" in message:
            message = message.split("\n", 1)[0]
            message += " 'set breakpoint pending on' waits for a library that defines it."
        if not message and command.startswith("rb"):
            message = f"no function matches: {command}"
        return Failure(message=message or "GDB made no breakpoint and does not say why")

    async def _insert_python(self, command: str, place: Place, pid: int) -> Record:
        made = await self.python.insert(command, place, pid, self.last)
        if isinstance(made, Failure):
            return made
        return await self._made_python(made)

    async def clear_python(self, place: Place, pid: int, *, is_own: bool) -> Record | None:
        """Delete the breakpoints at a place of Python, as ``clear`` does; None if GDB is to be
        asked, since the place may be one of C.

        :param is_own: whether the place is in the file of the selected Python frame.
        """
        numbers = self.python.at_place(place.wanted)
        if numbers:
            words = " ".join(map(str, numbers))
            result = await self._gdb.send(console(f"delete {words}"))
            if result.kind == "error":
                return failure(result)
            return Text(text=f"Deleted breakpoint{'s' * (len(numbers) > 1)} {words}")
        if is_own:
            return Failure(message=f"No breakpoint at {place.location}.")
        if not self._runtime_of(pid):
            return None
        result = await self._gdb.send(console(f"clear {place.location}"))
        if result.kind == "error" and _is_unknown(result.message):
            return Failure(message=f"No breakpoint at {place.location}.")
        return failure(result) if result.kind == "error" else Text(text=result.text.rstrip("\n"))

    async def catch_python(self, letter: str, rest: str, first: int, pid: int) -> Record:
        """Make the catchpoint of ``catch py-exception``."""
        if letter:
            return Failure(
                message="'tcatch py-exception' is not possible: use 'catch py-exception'"
            )
        if rest:
            return Failure(
                message=f"'catch py-exception' takes no argument, and {rest!r} was given"
            )
        await self.advance(first - 1)
        made = await self.python.catch(pid, self.last)
        return made if isinstance(made, Failure) else await self._made_python(made)

    async def _made_python(self, number: int) -> Record:
        made = self.python.shown(await self.take_made())
        why = self.python.reason(number)
        notes = [f"Breakpoint {number} is {why}." for each in made if not each.location_count]
        return BreakpointsMade(breakpoints=tuple(made), notes="\n".join(notes))

    async def take_made(self) -> tuple[Breakpoint, ...]:
        """Return the breakpoints made since the last call; their addresses have symbols."""
        made, self._made = self._made, []
        self._known = max([self._known, *(each.number for each in made)])
        return tuple([await self._with_symbol(each) for each in made])

    async def _with_symbol(self, made: Breakpoint) -> Breakpoint:
        """Return a breakpoint with the symbol at its address, if it was set at an address."""
        symbol = ""
        # GDB names it itself where there is no line.
        if (address := self._addresses.pop(made.number, "")) and not made.at:
            result = await self._gdb.send(console(f"info symbol {address}"))
            symbol = decode.symbol_of(result.text) if result.kind != "error" else ""
        self._symbols[made.number] = symbol
        return breakpoint_decode.with_symbol(made, symbol)

    async def catch_death(self, letter: str, rest: str, first: int, pid: int) -> Record:
        """Make the breakpoints of ``catch death``, which have one number together."""
        if letter:
            return Failure(message="'tcatch death' is not possible: use 'catch death'")
        if rest:
            return Failure(message=f"'catch death' takes no argument, and {rest!r} was given")
        if self.deaths.number in self._there:
            return Failure(message=f"'catch death' is breakpoint {self.deaths.number} already")
        await self.advance(first - 1)
        await self.deaths.make(pid, lambda: self.last)
        await self.take_made()
        self._keep_public()
        listed = await self.list((str(self.deaths.number),))
        if isinstance(listed, BreakpointList) and listed.breakpoints:
            return BreakpointsMade(breakpoints=listed.breakpoints)
        return Failure(message="GDB made none of the breakpoints of 'catch death'")

    async def find_hidden(self, pid: int) -> None:
        """Add breakpoints of ``catch death`` that no name leads to, and those at the reports of
        sanitizers, in libraries loaded since."""
        await self.reports.find(pid)
        if self.deaths.number in self._there and self.deaths.has_new_libraries:
            await self.deaths.find_hidden(pid, lambda: self.last)
            self._keep_public()

    def _public(self, own: int) -> int:
        """Return the job-wide number for a number of GDB's, 0 if no breakpoint of the table."""
        number = self.number_of(own)
        return number if number in self._there else 0

    def _keep_public(self) -> None:
        """Forget the further breakpoints of ``catch death`` that a GDB without Python numbers."""
        for own in self.deaths.points:
            if own != self.deaths.number:
                self._there.pop(own, None)
        self._made = [each for each in self._made if each.number in self._there]

    async def change(self, command: str, numbers: Sequence[str], argument: str) -> Record:
        """Run ``delete``, ``enable`` … on *numbers*, or on all breakpoints if there are none."""
        kind = "tracepoint" if command.startswith("passcount") else "breakpoint"
        there = {
            number
            for number, each in self._there.items()
            if kind == "breakpoint" or each.kind.endswith(kind)
        }
        unknown = [each for each in numbers if int(each.partition(".")[0]) not in there]
        complaints = [f"No {kind} number {each.partition('.')[0]}." for each in unknown]
        known = [each for each in numbers if each not in unknown]
        if unknown and not known:
            return Failure(message="\n".join(complaints))
        for number in known:
            whole, dot, _ = number.partition(".")
            if int(whole) == self.deaths.number and (argument or dot):
                return Failure(message=f"'{command}' is not for {number}, which is 'catch death'")
        if not numbers and not self._there:
            return Done()
        if command.startswith("condition"):
            ours = [int(each) for each in known if each.isdecimal()]
            ours = [each for each in ours if each in self.python.slots]
            for each in ours:
                if (refused := self.python.change_condition(each, argument)) is not None:
                    return refused
            known = [each for each in known if not each.isdecimal() or int(each) not in ours]
            if ours and not known:
                none = [f"Breakpoint {each} now unconditional." for each in ours if not argument]
                text = "\n".join((*complaints, *none))
                return Text(text=text) if text else Done()
        self.passed.leave(command, known)
        result = await self._gdb.send(console(" ".join((command, *known, argument)).strip()))
        self._deleted.clear()
        self._changed.clear()
        if result.kind == "error":
            return failure(result)
        complaints.append((result.text + result.log).rstrip("\n"))
        text = "\n".join(filter(None, complaints))
        return Text(text=text) if text else Done()

    async def attach_commands(
        self, numbers: Sequence[str], commands: Sequence[str], judged: Collection[str] = ()
    ) -> Record:
        """Attach GDB commands to breakpoints, which GDB carries out at each hit.

        GDB does not get those of the numbers *judged*.
        """
        unknown = [each for each in numbers if int(each) not in self._there]
        complaints = "\n".join(f"No breakpoint number {each}." for each in unknown)
        if unknown and len(unknown) == len(numbers):
            return Failure(message=complaints)
        body = " ".join(quote(line) for line in commands)
        for number in (each for each in numbers if each not in unknown):
            given = "" if number in judged else body
            self._judged.pop(int(number), None)
            if number in judged and commands:
                self._judged[int(number)] = tuple(commands)
            for own in self.deaths.owns(int(number)):
                result = await self._gdb.send(f"-break-commands {own} {given}".rstrip())
                if result.kind == "error":
                    return failure(result)
        self._changed.clear()
        return Text(text=complaints) if complaints else Done()

    async def list(self, numbers: Sequence[str] = (), kind: str = "") -> Record:
        """List breakpoints: all, or some *numbers* and ranges, or those of a *kind*."""
        result = await self._gdb.send("-break-list")
        if result.kind == "error":
            return failure(result)
        body = result.payload.get("BreakpointTable", {}).get("body", ())
        found: list[Breakpoint] = []
        hits = 0
        for each in body:
            made = breakpoint_decode.breakpoint_of(self.passed.as_set(each))
            if made.number in self.deaths.points:
                hits += made.times
            if made.number not in self._there or not _is_meant(made, numbers, kind):
                continue
            if (judged := self._judged.get(made.number)) is not None:
                made = replace(made, commands=judged)
            if made.number == self.deaths.number:
                made = Breakpoint(
                    number=made.number,
                    kind="catchpoint",
                    disposition=made.disposition,
                    enabled=made.enabled,
                    what="death",
                    commands=made.commands,
                )
            else:
                made = breakpoint_decode.with_symbol(made, self._symbols.get(made.number, ""))
            found.append(made)
        hits += await self.deaths.hidden_hits() if found else 0
        return BreakpointList(
            breakpoints=tuple(
                replace(each, times=hits) if each.number == self.deaths.number else each
                for each in sorted(self.python.shown(found), key=lambda each: each.number)
            )
        )


def _settings(made: Breakpoint, is_asked: bool) -> tuple[object, ...]:
    """Return what a command can change in a breakpoint; hits change its counts, too."""
    disabled = tuple(each.number for each in made.locations if not each.enabled)
    counts = (made.ignore, made.disable_after, made.passes) if is_asked else ()
    return made.enabled, made.disposition, made.condition, made.commands, disabled, counts


def _is_meant(made: Breakpoint, numbers: Sequence[str], kind: str) -> bool:
    if kind and not made.kind.endswith(kind):
        return False
    ends = [each.partition("-")[::2] for each in numbers]
    return not ends or any(int(low) <= made.number <= int(high or low) for low, high in ends)


def _is_unknown(*messages: str) -> bool:
    """Return whether GDB says that it does not know a place."""
    words = ("No source file named", "not defined", "No symbol ", "No line ")
    return any(word in message for message in messages for word in words)
