"""The breakpoints of one rank: job-wide numbers outside, GDB's own inside.

The front end gives every breakpoint one number for the whole job; each GDB counts for itself.
The translation is kept here, at the leaf, so that its size does not depend on the number of
ranks anywhere. PGDB's own breakpoints have no job-wide number and are never shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import death_points, decode
from pgdb.backend.gdb.death_points import Point
from pgdb.backend.gdb.hidden_abort import find
from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.mpi_frames import Owner, owner_of
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.sbd.rank_files import mapped
from pgdb.patterns import pattern
from pgdb.records import Breakpoint, BreakpointList, BreakpointsMade, Done, Failure, Record, Text

# The pattern begins with a part that can be searched for fast: texts may have megabytes.
_NUMBER = pattern(
    r"(point(?:(?<=[Bb]reakpoint)|(?<=[WwCc]atchpoint))(?: number)? )(\d+)",
)
# The output of clear: "Deleted breakpoints 2 3 ".
_NUMBERS = pattern(r"(Deleted breakpoints )(\d+(?: \d+)*)")


class Breakpoints:
    """Makes, changes and lists the breakpoints of one GDB."""

    def __init__(self, gdb: GdbSession) -> None:
        self.numbers: dict[int, int] = {}
        """GDB's number -> job-wide number; a deleted one stays, as its last stop may be in flight.
        """
        self._active: dict[int, int] = {}
        self.deaths: dict[int, Point] = {}
        """The breakpoints of ``catch death`` by GDB's number."""
        self._has_new_libraries = False
        self._symbols: dict[int, str] = {}  # by GDB's number, of those set at an address
        # The number of a breakpoint, and that of the run in which it was hit or changed.
        self._hit = (0, 0)
        self.prints = False
        """Whether the text that comes next is what a ``dprintf`` prints while the rank runs."""
        self._watchpoints: set[int] = set()  # by GDB's number
        self._gdb = gdb

    @property
    def has_watchpoint(self) -> bool:
        """Whether there is a watchpoint, whoever made it."""
        return bool(self._watchpoints)

    def death_at(self, payload: Mapping[str, Any]) -> Point | None:
        """Return the breakpoint of ``catch death`` at which the rank stopped, None for others."""
        numbers = payload.get("bkptno", ())
        for each in numbers if isinstance(numbers, list) else [numbers]:
            if str(each).isdecimal() and (point := self.deaths.get(int(each))) is not None:
                return point
        return None

    @property
    def last_hit(self) -> int:
        """GDB's number of the breakpoint that has counted a hit last in the present run, or 0."""
        number, run = self._hit
        return number if run == self._gdb.runs else 0

    def forget(self) -> None:
        """Forget all breakpoints: the process is gone or free."""
        self._active.clear()
        self._watchpoints.clear()

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Take a ``=breakpoint-…`` notice of GDB."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if name == "breakpoint-modified":
                self._hit = (int(payload["bkpt"]["number"]), self._gdb.runs)
                self.prints = payload["bkpt"].get("type") == "dprintf"
            elif name == "library-loaded":
                self._has_new_libraries = True
            elif name == "breakpoint-created":
                if "watchpoint" in payload["bkpt"].get("type", ""):
                    self._watchpoints.add(int(payload["bkpt"]["number"]))
            elif name == "breakpoint-deleted":
                self._watchpoints.discard(int(payload["id"]))
                self._active.pop(self.numbers[int(payload["id"])], None)

    def job_numbers(self, text: str) -> str:
        """Return a text of GDB with job-wide breakpoint numbers."""

        def translate(match: re.Match[str]) -> str:
            number = self.numbers.get(int(match[2]))
            return f"{match[1]}{number}" if number is not None else match[0]

        def translate_all(match: re.Match[str]) -> str:
            own = [int(each) for each in match[2].split()]
            return match[1] + " ".join(str(self.numbers.get(each, each)) for each in own)

        return _NUMBERS.sub(translate_all, _NUMBER.sub(translate, text))

    async def insert(self, command: str, first: int) -> Record:
        """Run a command that makes breakpoints; the first one gets the job-wide number *first*."""
        result = await self._gdb.send(console(command))
        if result.kind == "error":
            return failure(result)
        made: list[Breakpoint] = []
        for name, payload in result.notices:
            if name == "breakpoint-created" and isinstance(payload.get("bkpt"), Mapping):
                number = first + len(made)
                own = int(payload["bkpt"].get("number", 0))
                self.numbers[own] = number
                self._active[number] = own
                symbol = self._symbols[own] = await self._symbol(payload["bkpt"])
                made.append(decode.breakpoint_of(payload["bkpt"], number=number, symbol=symbol))
        if not made:
            message = (result.log or result.text).strip()
            if "pending on future shared library load" in message or "not defined" in message:
                message = message.split("\n", 1)[0]
                message += " 'set breakpoint pending on' waits for a library that defines it."
            return Failure(message=message or "GDB made no breakpoint and does not say why")
        return BreakpointsMade(breakpoints=tuple(made))

    async def catch_death(self, letter: str, rest: str, number: int, pid: int) -> Record:
        """Make the breakpoints of ``catch death``, which have one job-wide number together."""
        if letter:
            return Failure(message="'tcatch death' is not possible: use 'catch death'")
        if rest:
            return Failure(message=f"'catch death' takes no argument, and {rest!r} was given")
        if known := self._own_of_death():
            number = self.numbers[known[0]]
            return Failure(message=f"'catch death' is breakpoint {number} already")
        await self._gdb.send(console(death_points.RESET))
        has_mpi = any(owner_of(each.path) is Owner.MPI for each in mapped(pid))
        await self._add_deaths(death_points.POINTS, number, has_mpi=has_mpi)
        self._has_new_libraries = True
        await self.find_hidden(pid)
        made = await self.list()
        if isinstance(made, BreakpointList):
            found = tuple(each for each in made.breakpoints if each.number == number)
            if found:
                return BreakpointsMade(breakpoints=found)
        return Failure(message="GDB made none of the breakpoints of 'catch death'")

    async def find_hidden(self, pid: int) -> None:
        """Add breakpoints of ``catch death`` that no name leads to, in libraries loaded since."""
        known = self._own_of_death()
        if not known or not self._has_new_libraries:
            return
        self._has_new_libraries = False
        there = {each.function for each in self.deaths.values()}
        points = [Point(f"*{address:#x}") for address in await asyncio.to_thread(find, pid)]
        new = [each for each in points if each.function not in there]
        if new:
            await self._add_deaths(new, self.numbers[known[0]], has_mpi=True)

    async def _add_deaths(self, points: Sequence[Point], number: int, *, has_mpi: bool) -> None:
        """Make the breakpoints at the addresses of the functions.

        GDB looks up the function of each breakpoint at every library that is loaded: 0.2 s of a
        core for 7 functions and the 68 libraries of Open MPI 4. An address costs nothing.
        """
        known = [each for each in points if each.is_known]
        made = []
        for point, own, bkpt in await self._break_at([(each, each.function) for each in known]):
            addresses = decode.addresses_of_breakpoint(bkpt)
            self._gdb.send(console(f"delete {own}"))
            made += [(point, f"*{address:#x}") for address in addresses]
        found = {point for point, _ in made}
        # The library that has the others is there already, or is none of MPI's.
        made += [
            (each, each.function)
            for each in known
            if each.is_of_mpi and not has_mpi and each not in found
        ]
        for point, own, _ in await self._break_at(made, is_pending=True):
            self.numbers[own] = number
            self._active[number] = own
            self.deaths[own] = point

    async def _break_at(
        self, places: Sequence[tuple[Point, str]], *, is_pending: bool = False
    ) -> list[tuple[Point, int, Mapping[str, Any]]]:
        """Make breakpoints; return each with GDB's number and description."""
        commands = [point.command(place, is_pending=is_pending) for point, place in places]
        results = self._gdb.send_together(*map(console, commands))
        made = []
        for (point, _), coming in zip(places, results, strict=True):
            for name, payload in (await coming).notices:
                if name == "breakpoint-created" and isinstance(payload.get("bkpt"), Mapping):
                    bkpt = payload["bkpt"]
                    made.append((point, int(bkpt.get("number", 0)), bkpt))
        return made

    def _own_of_death(self) -> list[int]:
        """Return GDB's numbers of the breakpoints of ``catch death`` that are there."""
        return [own for own in self.deaths if self._active.get(self.numbers[own]) is not None]

    def _own_of(self, number: int) -> list[int]:
        """Return GDB's numbers of the breakpoint with a job-wide number; none if there is none."""
        own = self._active.get(number)
        if own is None:
            return []
        if own not in self.deaths:
            return [own]
        return [each for each in self.deaths if self.numbers[each] == number]

    async def _symbol(self, payload: Mapping[str, Any]) -> str:
        """Return the symbol at the address of a breakpoint that was set at an address."""
        address = str(payload.get("addr", ""))
        if not str(payload.get("original-location", "")).startswith("*") or not address:
            return ""
        # GDB names it itself where there is no line.
        if "at" in payload:
            return str(payload["at"])
        result = await self._gdb.send(console(f"info symbol {address}"))
        return decode.symbol_of(result.text) if result.kind != "error" else ""

    async def change(self, command: str, numbers: Sequence[str], argument: str) -> Record:
        """Run ``delete``, ``enable`` … on job-wide *numbers*, or on all breakpoints if there are
        none."""
        own = []
        for number in numbers:
            whole, dot, location = number.partition(".")
            known = self._own_of(int(whole))
            if not known:
                return Failure(message=f"No breakpoint number {number}.")
            if known[0] in self.deaths and (argument or dot):
                return Failure(message=f"'{command}' is not for {number}, which is 'catch death'")
            own += [f"{each}{dot}{location}" for each in known]
        if not numbers:
            if not self._active:
                return Done()
            own = [str(each) for number in self._active for each in self._own_of(number)]
        result = await self._gdb.send(console(f"{command} {' '.join(own)} {argument}".strip()))
        if result.kind == "error":
            return Failure(message=self.job_numbers(result.message))
        text = self.job_numbers((result.text + result.log).rstrip("\n"))
        return Text(text=text) if text else Done()

    async def attach_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Record:
        """Attach GDB commands to breakpoints, which GDB carries out at each hit."""
        for number in numbers:
            known = self._own_of(int(number))
            if not known:
                return Failure(message=f"No breakpoint number {number}.")
            body = " ".join(quote(line) for line in commands)
            for own in known:
                result = await self._gdb.send(f"-break-commands {own} {body}".rstrip())
                if result.kind == "error":
                    return failure(result)
        return Done()

    async def list(self) -> Record:
        """List the breakpoints with a job-wide number."""
        result = await self._gdb.send("-break-list")
        if result.kind == "error":
            return failure(result)
        body = result.payload.get("BreakpointTable", {}).get("body", ())
        found: list[Breakpoint] = []
        deaths: list[Breakpoint] = []
        for each in body:
            own = int(str(each.get("number", "0")).split(".", 1)[0])
            number = self.numbers.get(own)
            if number is not None:
                made = decode.breakpoint_of(each, number=number, symbol=self._symbols.get(own, ""))
                (deaths if own in self.deaths else found).append(made)
        if deaths:
            found.append(
                Breakpoint(
                    number=deaths[0].number,
                    kind="catchpoint",
                    disposition=deaths[0].disposition,
                    enabled=deaths[0].enabled,
                    what="death",
                    times=sum(each.times for each in deaths),
                )
            )
        return BreakpointList(breakpoints=tuple(sorted(found, key=lambda each: each.number)))
