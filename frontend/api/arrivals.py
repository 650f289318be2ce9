"""Arrivals of ranks at breakpoints of PGDB's own, judged by their stops."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from pgdb.merge.classes import EquivalenceClass
from pgdb.records import BreakpointsMade, Record, Stop


class Arrival(msgspec.Struct, frozen=True):
    """A breakpoint, with the lines at which it is."""

    number: int
    lines: frozenset[tuple[str, int]] = frozenset()
    """Files without their folders, and lines. They count where another breakpoint is at the same
    place: GDB names the one with the least number only."""

    def is_at(self, stop: Stop) -> bool:
        """Return whether a rank that has stopped so is at the breakpoint."""
        if stop.breakpoint == self.number:
            return True
        frame = stop.frame
        if stop.reason != "breakpoint-hit" or frame is None or not frame.line:
            return False
        return (os.path.basename(frame.file), frame.line) in self.lines


def arrival_at(
    number: int, classes: Iterable[EquivalenceClass[Record]], *, is_conditional: bool
) -> Arrival:
    """Return the arrival at breakpoint *number*, which a command with answers *classes* has made.

    The stop of another breakpoint does not say whether the condition of this one is true.
    """
    lines: set[tuple[str, int]] = set()
    for each in classes:
        if isinstance(each.filled, BreakpointsMade) and not is_conditional:
            for made in each.filled.breakpoints:
                places = [(made.file, made.line)]
                places += [(one.file, one.line) for one in made.locations]
                lines |= {(os.path.basename(file), line) for file, line in places if line}
    return Arrival(number, frozenset(lines))
