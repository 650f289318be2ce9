"""The breakpoints of a session, for ranks that get a new debugger. No I/O.

The breakpoints of a GDB end with it, or when it detaches. The journal keeps the commands about
breakpoints in their order, so that they can be repeated with the same job-wide numbers, also on
ranks that could not be asked at the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_places import with_fixed_place
from pgdb.frontend.api.breakpoint_remake import WHILE_PENDING, changes_of, command_for
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    ChangeBreakpoints,
    InsertBreakpoint,
)
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsChanged,
    BreakpointsMade,
    Event,
    Failure,
    Record,
    Text,
    stopped_at,
)

_BreakpointOperation = InsertBreakpoint | ChangeBreakpoints | BreakpointCommands
_MOST_DIGITS = 18  # of a breakpoint's number
_CLEARED = pattern(r"Deleted breakpoints? (\d+(?: \d+)*)")
_TEMPORARY = ("tbreak", "thbreak", "tcatch")
_MAKES_MANY = ("rbreak",)


def _is_refusal(record: object) -> bool:
    """Return whether a debugger has refused a command; one that is lost has not."""
    return isinstance(record, Failure) and not record.has_no_debugger


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
        failed = RankSet.union(each.ranks for each in classes if _is_refusal(each.record))
        ranks = ranks - failed
        match operation:
            case InsertBreakpoint():
                self._insert(line, operation, ranks, classes)
            case ChangeBreakpoints(command=command, numbers=texts):
                is_traced = command.endswith(" tracepoints")
                numbers = self._known(texts, ranks, are_tracepoints=is_traced)
                if command.startswith("delete") and not any("." in each for each in texts):
                    self._forget(numbers, ranks)
                else:
                    self._add(JournalEntry(line, operation, ranks, numbers))
            case BreakpointCommands(numbers=texts):
                self._add(JournalEntry(line, operation, ranks, self._known(texts, ranks)))
            case _:
                self._take_made(classes)

    def _take_made(self, classes: Iterable[EquivalenceClass[Record]]) -> None:
        """Add the breakpoints that a command has made which is not known to make any."""
        for each in classes:
            if isinstance(each.filled, BreakpointsMade):
                self._remake(each.filled.breakpoints, each.ranks)

    def note_changes(self, classes: Iterable[EquivalenceClass[Event]]) -> None:
        """Add and forget breakpoints by the events of ranks."""
        for each in classes:
            if isinstance(each.filled, BreakpointsChanged):
                self._forget(each.filled.deleted, each.ranks)
                self._remake(each.filled.made, each.ranks)
                for changed in each.filled.changed:
                    self._change(changed, each.ranks)

    def _change(self, changed: Breakpoint, ranks: RankSet) -> None:
        """Replace the changes of a breakpoint by those that it has now."""
        number = (changed.number,)
        self._forget(number, ranks, only_changes=True)
        makers = [each for each in self.of(ranks) if changed.number in each.numbers]
        for maker in makers:
            made = next((each for each in maker.made if each.number == changed.number), changed)
            if made.condition != changed.condition:
                condition = ChangeBreakpoints(
                    command="condition",
                    numbers=(str(changed.number),),
                    argument=changed.condition,
                )
                self._add(JournalEntry(_words(condition), condition, maker.ranks, number))
            judged = RankSet.union(part for part, _ in self.judged_commands(*number, maker.ranks))
            for change in changes_of(changed):
                is_body = isinstance(change, BreakpointCommands)
                left = maker.ranks - judged if is_body else maker.ranks
                self._add(JournalEntry(_words(change), change, left, number))

    def _remake(self, breakpoints: Iterable[Breakpoint], ranks: RankSet) -> None:
        """Add breakpoints by commands that follow from them."""
        for made in breakpoints:
            line, number = command_for(made), (made.number,)
            left = ranks - RankSet.union(
                each.ranks
                for each in self._entries
                if made.number in each.numbers and isinstance(each.operation, InsertBreakpoint)
            )
            if not line or not left:
                continue
            if made.disposition == "del":
                self._temporary.add(made.number)
            operation = InsertBreakpoint(command=line, first_number=made.number)
            self._add(JournalEntry(line, operation, left, number, made=(made,)))
            for change in changes_of(made):
                self._add(JournalEntry(_words(change), change, left, number))

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

    def ranks_of(self, number: int) -> RankSet:
        """Return the ranks that have the breakpoint of this number, or get it again."""
        return RankSet.union(
            each.ranks
            for each in self._entries
            if number in each.numbers and isinstance(each.operation, InsertBreakpoint)
        )

    def conditions_of(self, number: int, ranks: RankSet) -> dict[str, RankSet]:
        """Return the conditions that a breakpoint was given since it was made, with the ranks.

        A condition that was removed is an empty text.
        """
        found: dict[str, RankSet] = {}
        for each in reversed(self._entries):
            operation = each.operation
            if not isinstance(operation, ChangeBreakpoints) or number not in each.numbers:
                continue
            if operation.command.startswith("condition") and (part := each.ranks & ranks):
                condition = operation.argument.strip()
                found[condition] = found.get(condition, RankSet()) | part
                ranks -= part
        return found

    def judged_commands(self, number: int, ranks: RankSet) -> list[tuple[RankSet, tuple[str, ...]]]:
        """Return the commands of a breakpoint that its GDBs do not have, with the ranks."""
        found = []
        for each in reversed(self._entries):
            operation = each.operation
            if not isinstance(operation, BreakpointCommands) or number not in each.numbers:
                continue
            part, ranks = each.ranks & ranks, ranks - each.ranks
            if part and operation.commands and str(number) in operation.judged:
                found.append((part, operation.commands))
        return found

    def disabled_on(self, number: int) -> RankSet:
        """Return the ranks on which a breakpoint is disabled."""
        found = RankSet()
        for each in self._entries:
            operation = each.operation
            if not isinstance(operation, ChangeBreakpoints) or number not in each.numbers:
                continue
            # A location such as 3.1 leaves the others as they are.
            if operation.numbers and str(number) not in operation.numbers:
                continue
            if operation.command.startswith("disable"):
                found |= each.ranks
            elif operation.command.startswith("enable"):
                found -= each.ranks
        return found

    def kind_of(self, number: int) -> str:
        """Return GDB's word for the kind of a breakpoint, empty if it is unknown."""
        made = (one for each in self._entries for one in each.made if one.number == number)
        return next((each.kind for each in made), "")

    def is_temporary(self, number: int) -> bool:
        """Return whether a hit of the breakpoint of this number deletes it."""
        return number in self._temporary

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
            if gone := self._temporary.intersection(stopped_at(each.record)):
                self._forget(gone, each.ranks)

    def of(self, ranks: RankSet) -> list[JournalEntry]:
        """Return the commands that *ranks* have to repeat, in order."""
        found = []
        for each in self._entries:
            if part := each.ranks & ranks:
                found.append(replace(each, ranks=part))
        return found

    def extend(self, before: RankSet, new: RankSet) -> None:
        """Let the commands of all ranks *before* hold for *new* ones too."""
        self._entries = [
            replace(each, ranks=each.ranks | new) if before <= each.ranks else each
            for each in self._entries
        ]

    def _insert(
        self,
        line: str,
        operation: InsertBreakpoint,
        ranks: RankSet,
        classes: Sequence[EquivalenceClass[Record]],
    ) -> None:
        word = gdb_commands.resolve(line.removeprefix(WHILE_PENDING))
        made = [each.record for each in classes if isinstance(each.record, BreakpointsMade)]
        if word in _MAKES_MANY:
            # Made again one by one, they keep their numbers.
            self._take_made(classes)
            return
        numbers = {each.number for record in made for each in record.breakpoints}
        if not made:
            # If no rank could be asked, the breakpoint gets its reserved number. A refused command
            # may be a typing error.
            if classes:
                return
            numbers = {operation.first_number}
        if word in _TEMPORARY:
            self._temporary |= numbers
        for part, fixed, breakpoints in _places(line, ranks, classes):
            number = tuple(sorted({each.number for each in breakpoints} or numbers))
            again = replace(operation, command=fixed, first_number=number[0])
            again = operation if again == operation else again
            self._add(JournalEntry(fixed, again, part, number, operation, breakpoints))

    def _known(
        self, texts: tuple[str, ...], ranks: RankSet, *, are_tracepoints: bool = False
    ) -> tuple[int, ...]:
        if texts:
            numbers = [each.partition(".")[0] for each in texts]
            for number in numbers:
                if not (number.isascii() and number.isdecimal()):
                    raise UsageError(f"{number!r} is no number of a breakpoint")
            return tuple(int(each) for each in numbers if len(each) <= _MOST_DIGITS)
        entries = [
            each for each in self.of(ranks) if not are_tracepoints or _makes_tracepoint(each)
        ]
        return tuple(sorted({number for each in entries for number in each.numbers}))

    def _add(self, entry: JournalEntry) -> None:
        if entry.ranks and entry.numbers:
            self._entries.append(entry)

    def _forget(
        self, numbers: Iterable[int], ranks: RankSet, *, only_changes: bool = False
    ) -> None:
        """Forget breakpoints of some ranks, and the commands about them alone."""
        gone = set(numbers)
        kept: list[JournalEntry] = []
        for each in self._entries:
            left = tuple(number for number in each.numbers if number not in gone)
            is_kept = only_changes and _is_made_by_command(each.operation)
            if is_kept or left == each.numbers or each.ranks.isdisjoint(ranks):
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
    found: dict[tuple[str, tuple[int, ...]], tuple[RankSet, tuple[Breakpoint, ...]]] = {}
    for each in classes:
        if not isinstance(each.record, BreakpointsMade) or not each.record.breakpoints:
            continue
        made = each.filled.breakpoints if isinstance(each.filled, BreakpointsMade) else ()
        fixed = with_fixed_place(line, made[0]) if len(made) == 1 else line
        key = fixed, tuple(one.number for one in made)
        before, first = found.get(key, (RankSet(), made))
        found[key] = (before | (each.ranks & ranks), first)
    if unknown := ranks - RankSet.union(part for part, _ in found.values()):
        # Ranks without an answer so far: where all others agree, they have the same place.
        key = next(iter(found)) if len(found) == 1 else (line, ())
        before, first = found.get(key, (RankSet(), ()))
        found[key] = (before | unknown, first)
    for (fixed, _), (part, first) in found.items():
        yield part, fixed, first


def _is_made_by_command(operation: _BreakpointOperation) -> bool:
    """Return whether a change of the breakpoint in a GDB leaves what an operation has made."""
    is_judged = isinstance(operation, BreakpointCommands) and bool(operation.judged)
    return is_judged or isinstance(operation, InsertBreakpoint)


def _makes_tracepoint(entry: JournalEntry) -> bool:
    return any(each.kind.endswith("tracepoint") for each in entry.made)


def _words(change: ChangeBreakpoints | BreakpointCommands) -> str:
    if isinstance(change, BreakpointCommands):
        return f"commands {' '.join(change.numbers)}"
    return " ".join(filter(None, (change.command, *change.numbers, change.argument)))


def _about(entry: JournalEntry, numbers: tuple[int, ...], ranks: RankSet) -> JournalEntry:
    """Return an entry that is about some of its breakpoints only."""
    operation = entry.operation
    if not isinstance(operation, InsertBreakpoint) and operation.numbers:
        texts = tuple(each for each in operation.numbers if int(each.partition(".")[0]) in numbers)
        operation = replace(operation, numbers=texts)
    return replace(entry, operation=operation, ranks=ranks, numbers=numbers)
