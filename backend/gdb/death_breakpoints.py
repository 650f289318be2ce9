"""The breakpoints of ``catch death``: one with a number of the user's, the others hidden.

The hidden ones follow the numbered one: they are disabled, enabled and deleted with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import death_points, decode
from pgdb.backend.gdb.death_points import Point
from pgdb.backend.gdb.hidden_abort import find
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.mpi_frames import Owner, owner_of
from pgdb.backend.gdb.own_breakpoints import number_in, python
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.sbd.rank_files import mapped

Last = Callable[[], int]
"""Function that returns the last number that GDB has given."""


class DeathBreakpoints:
    """The breakpoints in the functions that end a process, of one GDB."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self.number = 0
        """Number of the breakpoint, 0 for none."""
        self.points: dict[int, Point] = {}
        """The functions by GDB's own numbers; hidden ones are negative. They stay when the
        breakpoints are deleted, as their last stop may be in flight."""
        self.has_new_libraries = False
        """Whether libraries were loaded since the last search for functions without a name."""
        self._is_enabled = True

    @property
    def is_active(self) -> bool:
        """Whether ranks stop before they die."""
        return bool(self.number) and self._is_enabled

    def at(self, payload: Mapping[str, Any]) -> Point | None:
        """Return the function at which the rank stopped, None for other stops."""
        numbers = payload.get("bkptno", ())
        for each in numbers if isinstance(numbers, list) else [numbers]:
            if (point := self.points.get(decode.whole_number(each))) is not None:
                return point
        return None

    def owns(self, number: int) -> tuple[int, ...]:
        """Return GDB's own numbers of a breakpoint."""
        return tuple(self.points) if number == self.number else (number,)

    def enabled(self, number: int, *, is_enabled: bool) -> None:
        """Disable or enable the hidden breakpoints with the numbered one."""
        if number == self.number and is_enabled != self._is_enabled:
            self._is_enabled = is_enabled
            self._gdb.send(python("enable_hidden", is_enabled))

    def deleted(self, number: int) -> None:
        """Delete the hidden breakpoints with the numbered one."""
        if number == self.number:
            self.number = 0
            self._gdb.send(python("delete_hidden"))

    async def hidden_hits(self) -> int:
        """Return the number of hits of the hidden breakpoints."""
        if not self.number or all(own > 0 for own in self.points):
            return 0
        return number_in(await self._gdb.send(python("hidden_hits")))

    async def make(self, pid: int, last: Last) -> None:
        """Make the breakpoints in the process *pid*; the first one has a number of the user's."""
        self.points.clear()
        self.number, self._is_enabled = 0, True
        for command in death_points.RESET:
            await self._gdb.send(console(command))
        has_mpi = any(owner_of(each.path) is Owner.MPI for each in mapped(pid))
        known = [each for each in death_points.POINTS if each.is_known]
        places = await self._places(known)
        # The library that has the others is there already, or is none of MPI's.
        places += [
            (each, each.function)
            for each in known
            if each.is_of_mpi and not has_mpi and each not in {point for point, _ in places}
        ]
        await self._add(places, last)
        self.has_new_libraries = True
        await self.find_hidden(pid, last)

    async def find_hidden(self, pid: int, last: Last) -> None:
        """Add breakpoints that no name leads to, in libraries loaded since the last time."""
        self.has_new_libraries = False
        there = {each.function for each in self.points.values()}
        found = [f"*{address:#x}" for address in await asyncio.to_thread(find, pid)]
        await self._add([(Point(each), each) for each in found if each not in there], last)

    async def _places(self, points: Sequence[Point]) -> list[tuple[Point, str]]:
        """Return the addresses of the functions as places.

        GDB looks up the function of each breakpoint at every library that is loaded: 0.2 s of a
        core for 7 functions and the 68 libraries of Open MPI 4. An address costs nothing.
        """
        results = self._gdb.send_together(*(python("addresses", each.function) for each in points))
        found: list[tuple[Point, str]] = []
        for point, coming in zip(points, results, strict=True):
            if (result := await coming).kind == "error":
                # A GDB without Python, or GDB 12.
                found.append((point, point.function))
            else:
                found += [(point, f"*{each}") for each in result.text.split() if each[:2] == "0x"]
        return found

    async def _add(self, places: Sequence[tuple[Point, str]], last: Last) -> None:
        for point, place in places:
            is_pending = point.is_of_mpi
            if not self.number or not (own := await self._hide(point, place)):
                before = last()
                result = await self._gdb.send(console(point.command(place, is_pending=is_pending)))
                own = last() if result.kind != "error" and last() > before else 0
            if own:
                self.number = self.number or own
                self.points[own] = point

    async def _hide(self, point: Point, place: str) -> int:
        """Make a hidden breakpoint; return its number, or 0 if it is not made."""
        result = await self._gdb.send(python("hide", place, point.condition, point.is_of_mpi))
        return number_in(result)
