"""The breakpoints of a session, as a rank needs them that gets a new debugger. No I/O.

A GDB that is gone has taken its breakpoints along, and so has one that let its rank go. What was
asked for is kept here, in the order in which it was, so that it can be asked for again with the
same job-wide numbers: of ranks that could not be asked at the time as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.api import gdb_commands
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    ChangeBreakpoints,
    InsertBreakpoint,
)
from pgdb.ranks import RankSet
from pgdb.records import BreakpointsMade, Event, Failure, Record, Stop

_BreakpointOperation = InsertBreakpoint | ChangeBreakpoints | BreakpointCommands
_MOST_DIGITS = 18  # of a breakpoint's number
_TEMPORARY = ("tbreak", "thbreak", "tcatch")
MAKES_MANY = ("rbreak",)
"""Commands that make nobody knows how many breakpoints."""


class Replayed(msgspec.Struct, frozen=True):
    """One command about breakpoints, and who is to carry it out again."""

    line: str
    operation: _BreakpointOperation
    ranks: RankSet
    numbers: tuple[int, ...]
    """The breakpoints that it makes or is about."""


class BreakpointLog:
    """What has been asked for about breakpoints and still holds."""

    def __init__(self) -> None:
        self._entries: list[Replayed] = []
        self._temporary: set[int] = set()

    def take(
        self,
        line: str,
        operation: AnyOperation,
        ranks: RankSet,
        classes: Iterable[EquivalenceClass[Record]],
    ) -> None:
        """Take a command that *ranks* were asked for, and what those said that could answer.

        One that was asked for again, as :meth:`of` has told, is no news.
        """
        if any(operation is each.operation for each in self._entries):
            return
        classes = tuple(classes)
        failed = RankSet.union(each.ranks for each in classes if isinstance(each.record, Failure))
        ranks = ranks - failed
        match operation:
            case InsertBreakpoint():
                self._insert(line, operation, ranks, classes)
            case ChangeBreakpoints(command=command, numbers=texts):
                numbers = self._known(texts, ranks)
                if command == "delete" and not any("." in each for each in texts):
                    self._forget(numbers, ranks)
                else:
                    self._add(Replayed(line, operation, ranks, numbers))
            case BreakpointCommands(numbers=texts):
                self._add(Replayed(line, operation, ranks, self._known(texts, ranks)))
            case _:
                return

    def has(self, number: int) -> bool:
        """Return whether a breakpoint of this number is to be made again."""
        return any(
            number in each.numbers and isinstance(each.operation, InsertBreakpoint)
            for each in self._entries
        )

    def hit(self, classes: Iterable[EquivalenceClass[Event]]) -> None:
        """Take stops: a temporary breakpoint is gone where it was hit."""
        for each in classes:
            if isinstance(each.record, Stop) and each.record.breakpoint in self._temporary:
                self._forget((each.record.breakpoint,), each.ranks)

    def of(self, ranks: RankSet) -> list[Replayed]:
        """Return what is to be asked for again on *ranks*, in order."""
        found = []
        for each in self._entries:
            if part := each.ranks & ranks:
                found.append(replace(each, ranks=part))
        return found

    def _insert(
        self,
        line: str,
        operation: InsertBreakpoint,
        ranks: RankSet,
        classes: Sequence[EquivalenceClass[Record]],
    ) -> None:
        word = gdb_commands.resolve(line)
        made = [each.record for each in classes if isinstance(each.record, BreakpointsMade)]
        numbers = {each.number for record in made for each in record.breakpoints}
        if not made:
            # Where nobody could be asked it gets the number that was kept for it. Of a command
            # that makes several nobody knows how many, and what was refused may be a slip.
            if classes or word in MAKES_MANY:
                return
            numbers = {operation.first_number}
        if word in _TEMPORARY:
            self._temporary |= numbers
        self._add(Replayed(line, operation, ranks, tuple(sorted(numbers))))

    def _known(self, texts: tuple[str, ...], ranks: RankSet) -> tuple[int, ...]:
        if texts:
            numbers = (each.partition(".")[0] for each in texts)
            return tuple(int(each) for each in numbers if len(each) <= _MOST_DIGITS)
        return tuple(sorted({number for each in self.of(ranks) for number in each.numbers}))

    def _add(self, entry: Replayed) -> None:
        if entry.ranks and entry.numbers:
            self._entries.append(entry)

    def _forget(self, numbers: Iterable[int], ranks: RankSet) -> None:
        """Forget breakpoints of some ranks, and what was said about them alone."""
        gone = set(numbers)
        kept: list[Replayed] = []
        for each in self._entries:
            left = tuple(number for number in each.numbers if number not in gone)
            if left == each.numbers or each.ranks.isdisjoint(ranks):
                kept.append(each)
                continue
            if rest := each.ranks - ranks:
                kept.append(replace(each, ranks=rest))
            if left:
                kept.append(_about(each, left, each.ranks & ranks))
        self._entries = kept


def _about(entry: Replayed, numbers: tuple[int, ...], ranks: RankSet) -> Replayed:
    """Return an entry that is about some of its breakpoints only.

    One that makes several at once (rbreak) makes all of them again; there are no halves of it.
    """
    operation = entry.operation
    if not isinstance(operation, InsertBreakpoint) and operation.numbers:
        texts = tuple(each for each in operation.numbers if int(each.partition(".")[0]) in numbers)
        operation = replace(operation, numbers=texts)
    return Replayed(entry.line, operation, ranks, numbers)
