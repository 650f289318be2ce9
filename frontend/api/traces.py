"""The traces of a session: values that ranks collect at each hit of a place, and run on. No I/O.

The GDB of each rank collects and keeps the values. A GDB that is new, after ``reattach`` or
``restart``, gets the traces again, without earlier values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.overlay.breakpoint_operations import StartTrace
from pgdb.ranks import RankSet


class Trace(msgspec.Struct, frozen=True):
    """A place, and what is collected there."""

    number: int
    """The trace's number, from 1 on; it has nothing to do with those of breakpoints."""
    place: str
    """The location as it was given."""
    expressions: tuple[str, ...]
    condition: str
    every: int
    """Rows are collected at the first hit, and at each *every*-th one from there on."""
    first: int
    """Most rows, 0 for no limit."""
    ranks: RankSet
    """Ranks that have it."""

    @property
    def operation(self) -> StartTrace:
        """The operation that starts it on a rank."""
        return StartTrace(
            number=self.number,
            place=self.place,
            expressions=self.expressions,
            condition=self.condition,
            every=self.every,
            first=self.first,
        )

    @property
    def line(self) -> str:
        """The command that makes it."""
        parts = [f"trace {self.place} {', '.join(self.expressions)}"]
        parts += [f"if {self.condition}"] if self.condition else []
        parts += [f"--every {self.every}"] if self.every > 1 else []
        parts += [f"--first {self.first}"] if self.first else []
        return " ".join(parts)


class Traces:
    """The traces that a session has, by number."""

    def __init__(self) -> None:
        self._traces: dict[int, Trace] = {}
        self._next = 1

    def __iter__(self) -> Iterator[Trace]:
        return iter(tuple(self._traces.values()))

    def __len__(self) -> int:
        return len(self._traces)

    def new(
        self,
        place: str,
        expressions: Sequence[str],
        condition: str,
        every: int,
        first: int,
        ranks: RankSet,
    ) -> Trace:
        """Return a trace with the next number, which :meth:`keep` adds.

        :raises UsageError: if there is nothing to collect, or a count is wrong.
        """
        if not all(isinstance(each, str) for each in expressions):
            raise UsageError("each expression of a trace is a text: trace('f', 'x', 'y')")
        wanted = tuple(each.strip() for each in expressions)
        if not place.strip() or not wanted or not all(wanted):
            raise UsageError(
                "a trace needs a location and at least one expression, none of them empty"
            )
        if every < 1 or first < 0:
            raise UsageError("a trace takes every 1 or more, and first 0 (no limit) or more")
        number, self._next = self._next, self._next + 1
        return Trace(number, place.strip(), wanted, condition.strip(), every, first, ranks)

    def keep(self, trace: Trace) -> None:
        """Add or change a trace; one without ranks is forgotten."""
        if trace.ranks:
            self._traces[trace.number] = trace
        else:
            self._traces.pop(trace.number, None)

    def take_back(self, trace: Trace) -> None:
        """Let the next trace have the number of one that no rank has."""
        if trace.number == self._next - 1:
            self._next = trace.number

    def find(self, number: int) -> Trace:
        """Return the trace of a number.

        :raises UsageError: if there is none.
        """
        if (found := self._traces.get(number)) is not None:
            return found
        known = ", ".join(map(str, self._traces))
        there = f"there are {known}" if known else "'trace LOCATION EXPR' makes one"
        raise UsageError(f"there is no trace {number}; {there}")

    def of(self, ranks: RankSet) -> tuple[Trace, ...]:
        """Return the traces that some of *ranks* have, for these."""
        return tuple(replace(each, ranks=part) for each in self if (part := each.ranks & ranks))

    def extend(self, before: RankSet, new: RankSet) -> None:
        """Let the traces of all ranks *before* hold for *new* ones, too."""
        for each in self:
            if before <= each.ranks:
                self.keep(replace(each, ranks=each.ranks | new))

    def take_over(self, before: Traces, old: RankSet, everybody: RankSet) -> None:
        """Take the traces of an earlier launch, whose ranks were *old*."""
        self._next = before._next
        for each in before:
            ranks = everybody if old <= each.ranks else each.ranks & everybody
            self.keep(replace(each, ranks=ranks))
