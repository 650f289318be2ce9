"""The breakpoints of one rank: job-wide numbers outside, GDB's own inside.

The front end gives every breakpoint one number for the whole job; each GDB counts for itself.
The translation is kept here, at the leaf, so that its size does not depend on the number of
ranks anywhere. PGDB's own breakpoints have no job-wide number and are never shown.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern
from pgdb.records import Breakpoint, BreakpointList, BreakpointsMade, Done, Failure, Record, Text

# The pattern begins with a part that can be searched for fast: texts may have megabytes.
_NUMBER = pattern(
    r"(point(?:(?<=[Bb]reakpoint)|(?<=[WwCc]atchpoint))(?: number)? )(\d+)",
)


class Breakpoints:
    """Makes, changes and lists the breakpoints of one GDB."""

    def __init__(self, gdb: GdbSession) -> None:
        self.numbers: dict[int, int] = {}
        """GDB's number -> job-wide number; a deleted one stays, as its last stop may be in flight.
        """
        self._active: dict[int, int] = {}
        self._last_hit: int | None = None
        self._gdb = gdb

    @property
    def last_hit(self) -> int:
        """Job-wide number of the breakpoint that was hit last, or 0."""
        return self.numbers.get(self._last_hit, 0) if self._last_hit is not None else 0

    def forget(self) -> None:
        """Forget all breakpoints: the process is gone or free."""
        self._active.clear()

    def on_notice(self, name: str, payload: Mapping[str, Any]) -> None:
        """Take a ``=breakpoint-…`` notice of GDB."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            if name == "breakpoint-modified":
                self._last_hit = int(payload["bkpt"]["number"])
            elif name == "breakpoint-deleted":
                self._active.pop(self.numbers[int(payload["id"])], None)

    def job_numbers(self, text: str) -> str:
        """Return a text of GDB with job-wide breakpoint numbers."""

        def translate(match: re.Match[str]) -> str:
            number = self.numbers.get(int(match[2]))
            return f"{match[1]}{number}" if number is not None else match[0]

        return _NUMBER.sub(translate, text)

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
                made.append(decode.breakpoint_of(payload["bkpt"], number=number))
        if not made:
            message = (result.log or result.text).strip()
            if "pending on future shared library load" in message or "not defined" in message:
                message = message.split("\n", 1)[0]
                message += " 'set breakpoint pending on' waits for a library that defines it."
            return Failure(message=message or "GDB made no breakpoint and does not say why")
        return BreakpointsMade(breakpoints=tuple(made))

    async def change(self, command: str, numbers: Sequence[str], argument: str) -> Record:
        """Run ``delete``, ``enable`` … on job-wide *numbers*, or on all breakpoints if there are
        none."""
        own = []
        for number in numbers:
            whole, dot, location = number.partition(".")
            known = self._active.get(int(whole))
            if known is None:
                return Failure(message=f"No breakpoint number {number}.")
            own.append(f"{known}{dot}{location}")
        if not numbers:
            if not self._active:
                return Done()
            own = [str(known) for known in self._active.values()]
        result = await self._gdb.send(console(f"{command} {' '.join(own)} {argument}".strip()))
        if result.kind == "error":
            return Failure(message=self.job_numbers(result.message))
        text = self.job_numbers((result.text + result.log).rstrip("\n"))
        return Text(text=text) if text else Done()

    async def attach_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Record:
        """Attach GDB commands to breakpoints, which GDB carries out at each hit."""
        for number in numbers:
            own = self._active.get(int(number))
            if own is None:
                return Failure(message=f"No breakpoint number {number}.")
            body = " ".join(quote(line) for line in commands)
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
        found = []
        for each in body:
            number = self.numbers.get(int(str(each.get("number", "0")).split(".", 1)[0]))
            if number is not None:
                found.append(decode.breakpoint_of(each, number=number))
        return BreakpointList(breakpoints=tuple(sorted(found, key=lambda each: each.number)))
