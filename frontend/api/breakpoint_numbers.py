"""Job-wide numbers of breakpoints."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_journal import MAKES_MANY
from pgdb.merge.classes import EquivalenceClass
from pgdb.records import BreakpointsMade, Record

_MOST_MADE = 1000
"""Numbers reserved for a command that makes several breakpoints, until it is answered."""


class BreakpointNumbers:
    """Gives each breakpoint of a session a number."""

    def __init__(self) -> None:
        self.next = 1
        """The next number."""
        self.has_failed = False
        """Whether the last command that was to make a breakpoint has made none."""

    @property
    def last(self) -> int:
        """The last number that was used, 0 before the first."""
        return self.next - 1

    def reserve(self, line: str) -> tuple[int, int]:
        """Reserve numbers for a command; return the first, and the first one behind.

        They are reserved at once: two commands in flight must not get the same number.
        """
        makes_many = gdb_commands.resolve(line) in MAKES_MANY
        first, self.next = self.next, self.next + (_MOST_MADE if makes_many else 1)
        return first, self.next

    def release(self, end: int, next_number: int) -> None:
        """Return the reserved numbers from *next_number* to *end*, unless later ones are used."""
        if self.next == max(end, next_number):
            self.next = next_number

    def made(self, classes: Sequence[EquivalenceClass[Record]]) -> None:
        """Note the numbers of breakpoints in answers."""
        self.next = max(self.next, last_made(classes) + 1)


def last_made(classes: Sequence[EquivalenceClass[Record]]) -> int:
    """Return the highest number of breakpoints in answers, 0 for none."""
    made = [each.record for each in classes if isinstance(each.record, BreakpointsMade)]
    return max((each.number for record in made for each in record.breakpoints), default=0)
