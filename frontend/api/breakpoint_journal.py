"""The breakpoints of a session, for ranks that get a new debugger. No I/O.

The breakpoints of a GDB end with it, or when it detaches. The journal keeps the commands about
breakpoints in their order, so that they can be repeated with the same job-wide numbers, also on
ranks that could not be asked at the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_places import with_fixed_place
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    ChangeBreakpoints,
    InsertBreakpoint,
)
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsMade, Event, Failure, Record, Stop, Text

_BreakpointOperation = InsertBreakpoint | ChangeBreakpoints | BreakpointCommands
_MOST_DIGITS = 18  # of a breakpoint's number
_CLEARED = pattern(r"Deleted breakpoints? (\d+(?: \d+)*)")
_TEMPORARY = ("tbreak", "thbreak", "tcatch")
MAKES_MANY = ("rbreak",)
"""Commands that make an unknown number of breakpoints."""


class JournalEntry(msgspec.Struct, frozen=True):
    """A command about breakpoints, and the ranks that have to repeat it."""

    line: str
    operation: _BreakpointOperation
    ranks: RankSet
    numbers: tuple[int, ...]
    """The breakpoints that it makes or changes."""
    asked: _BreakpointOperation | None = None
    """The operation as the ranks were asked, where *operation* has a fixed place instead."""
    made: tuple[Breakpoint, ...] = ()
    """The breakpoints that it has made, as one of the ranks has them."""


class BreakpointJournal:
    """The commands about breakpoints that still hold."""

    def __init__(self) -> None:
        self._entries: list[JournalEntry] = []
        self._temporary: set[int] = set()

    def take(
        self,
        line: str,
        operation: AnyOperation,
        ranks: RankSet,
        classes: Iterable[EquivalenceClass[Record]],
    ) -> None:
        """Add a command that *ranks* were asked for, with the answers of those that could be asked.

        A command from :meth:`of` that was repeated is not added again.
        """
        if any(operation is each.operation or operation is each.asked for each in self._entries):
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
                    self._add(JournalEntry(line, operation, ranks, numbers))
            case BreakpointCommands(numbers=texts):
                self._add(JournalEntry(line, operation, ranks, self._known(texts, ranks)))
            case _:
                return

    def note_cleared(self, classes: Iterable[EquivalenceClass[Record]]) -> None:
        """Forget the breakpoints that ``clear`` has deleted, by its answers."""
        for each in classes:
            if isinstance(each.filled, Text) and (match := _CLEARED.search(each.filled.text)):
                self._forget(map(int, match[1].split()), each.ranks)

    def has(self, number: int) -> bool:
        """Return whether the journal can make the breakpoint of this number again."""
        return any(
            number in each.numbers and isinstance(each.operation, InsertBreakpoint)
            for each in self._entries
        )

    def number_of(self, command: str) -> int:
        """Return the number of the breakpoint that *command* has made, 0 if there is none."""
        for each in self._entries:
            operation = each.operation
            if isinstance(operation, InsertBreakpoint) and operation.command == command:
                return each.numbers[0]
        return 0

    def hit(self, classes: Iterable[EquivalenceClass[Event]]) -> None:
        """Forget a temporary breakpoint on the ranks that have stopped at it."""
        for each in classes:
            if isinstance(each.record, Stop) and each.record.breakpoint in self._temporary:
                self._forget((each.record.breakpoint,), each.ranks)

    def of(self, ranks: RankSet) -> list[JournalEntry]:
        """Return the commands that *ranks* have to repeat, in order."""
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
            # If no rank could be asked, the breakpoint gets its reserved number. The number of
            # breakpoints of rbreak is unknown, and a refused command may be a typing error.
            if classes or word in MAKES_MANY:
                return
            numbers = {operation.first_number}
        if word in _TEMPORARY:
            self._temporary |= numbers
        for part, fixed, breakpoints in _places(line, ranks, classes):
            again = operation if fixed == line else replace(operation, command=fixed)
            number = tuple(sorted(numbers))
            self._add(JournalEntry(fixed, again, part, number, operation, breakpoints))

    def _known(self, texts: tuple[str, ...], ranks: RankSet) -> tuple[int, ...]:
        if texts:
            numbers = (each.partition(".")[0] for each in texts)
            return tuple(int(each) for each in numbers if len(each) <= _MOST_DIGITS)
        return tuple(sorted({number for each in self.of(ranks) for number in each.numbers}))

    def _add(self, entry: JournalEntry) -> None:
        if entry.ranks and entry.numbers:
            self._entries.append(entry)

    def _forget(self, numbers: Iterable[int], ranks: RankSet) -> None:
        """Forget breakpoints of some ranks, and the commands about them alone."""
        gone = set(numbers)
        kept: list[JournalEntry] = []
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


def _places(
    line: str, ranks: RankSet, classes: Sequence[EquivalenceClass[Record]]
) -> Iterator[tuple[RankSet, str, tuple[Breakpoint, ...]]]:
    """Yield the command with a place that stays the same, for each part of *ranks* with one."""
    found: dict[str, tuple[RankSet, tuple[Breakpoint, ...]]] = {}
    for each in classes:
        if not isinstance(each.record, BreakpointsMade) or not each.record.breakpoints:
            continue
        made = each.filled.breakpoints if isinstance(each.filled, BreakpointsMade) else ()
        fixed = with_fixed_place(line, made[0]) if len(made) == 1 else line
        before, first = found.get(fixed, (RankSet(), made))
        found[fixed] = (before | (each.ranks & ranks), first)
    if unknown := ranks - RankSet.union(part for part, _ in found.values()):
        # Ranks without an answer so far: where all others agree, they have the same place.
        fixed = next(iter(found)) if len(found) == 1 else line
        before, first = found.get(fixed, (RankSet(), ()))
        found[fixed] = (before | unknown, first)
    for fixed, (part, first) in found.items():
        yield part, fixed, first


def _about(entry: JournalEntry, numbers: tuple[int, ...], ranks: RankSet) -> JournalEntry:
    """Return an entry that is about some of its breakpoints only.

    A command that makes several at once (rbreak) cannot be divided: it makes all of them again.
    """
    operation = entry.operation
    if not isinstance(operation, InsertBreakpoint) and operation.numbers:
        texts = tuple(each for each in operation.numbers if int(each.partition(".")[0]) in numbers)
        operation = replace(operation, numbers=texts)
    return replace(entry, operation=operation, ranks=ranks, numbers=numbers)
