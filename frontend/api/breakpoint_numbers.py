"""Job-wide numbers of breakpoints: those of the GDBs, which count them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import BreakpointsMade, Record


class BreakpointNumbers:
    """The numbers of a session's breakpoints, and the ranks whose GDBs have counted that far."""

    def __init__(self) -> None:
        self.next = 1
        """The next number."""
        self.has_failed = False
        """Whether the last command that was to make a breakpoint has made none."""
        self.last_traced = 0
        """The number of the tracepoint that was made last, 0 before the first."""
        self._made = 0
        self._level = RankSet()  # ranks that have counted up to the last number made

    @property
    def last(self) -> int:
        """The last number that was used, 0 before the first."""
        return self.next - 1

    @property
    def last_made(self) -> int:
        """The last number that a breakpoint of any rank has, 0 before the first."""
        return self._made

    def reserve(self) -> int:
        """Reserve the number of the first breakpoint of a command.

        It is reserved at once: two commands in flight must not get the same number.
        """
        self.next += 1
        return self.next - 1

    def release(self, number: int) -> None:
        """Give back a reserved number that was not used, unless a later one is reserved."""
        if self.next == number + 1:
            self.next = number

    def reached(self, last: int, ranks: RankSet) -> None:
        """Note that the last breakpoint of *ranks* has the number *last*."""
        if last > self._made:
            self.next, self._made, self._level = max(self.next, last + 1), last, RankSet()
        if last == self._made:
            self._level |= ranks

    def made(self, classes: Sequence[EquivalenceClass[Record]]) -> None:
        """Note the numbers of breakpoints in answers."""
        for each in classes:
            if last := last_made((each,)):
                self.reached(last, each.ranks)
            if isinstance(each.record, BreakpointsMade):
                traced = [one for one in each.record.breakpoints if one.kind.endswith("tracepoint")]
                self.last_traced = max([self.last_traced, *(one.number for one in traced)])

    def begins_anew(self, ranks: RankSet) -> None:
        """Note that ranks have new GDBs, which count from 1."""
        self._level -= ranks

    def behind(self, ranks: RankSet) -> RankSet:
        """Return those of *ranks* whose GDBs have not counted up to the last number made."""
        return ranks - self._level if self._made else RankSet()


def last_made(classes: Iterable[EquivalenceClass[Record]]) -> int:
    """Return the highest number of breakpoints in answers, 0 for none."""
    made = [each.record for each in classes if isinstance(each.record, BreakpointsMade)]
    return max((each.number for record in made for each in record.breakpoints), default=0)
