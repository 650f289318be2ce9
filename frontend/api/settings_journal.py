"""The GDB settings, displays and definitions of a session, for the next launch of its job. No I/O.

A GDB loses them when it ends. The journal keeps the commands in their order, so that the GDBs of
a new job can be given them again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.frontend.api.python_definitions import definitions
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Console, Script
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Text

_KEPT = frozenset(
    "display undisplay set unset handle skip directory cd alias macro mem tvariable "
    "define define-prefix document".split()
)
# "set var x=1", "set *p = 1", "set x = 1", "set a[0] = 1": they change the program.
_ASSIGNMENT = pattern(r"set\s+(?:var\w*\s|[^A-Za-z$]|\w+\s*[-+*/%&|^]?=|\w*(?:->|[\[.(]))")
_FRAME_INFO = pattern(r"set\s+p(?:r|ri|rin|rint)?\s+frame-i\w*\s+(\S+)\s*\Z")
_MOST_CALLS = pattern(r"set\s+max-u[a-z-]*\s+(?:=\s*)?(\S+)\s*\Z")
_CHANGES_DISPLAYS = pattern(
    r"(?:undisplay|(?P<word>delete|disable|enable)\s+disp\w*)"
    r"(?:\s+(?P<numbers>\d+(?:-\d+)?(?:\s+\d+(?:-\d+)?)*))?\s*\Z"
)
_OTHER_LISTS = pattern(
    r"(?:delete|disable|enable)\s+(?:mem|tv\w*|pretty-p\w*|frame-fi\w*|type-p\w*|unwinder|xmethod)\b"
)
_MOST_NUMBERS = 1000
_MADE = pattern(r"\s*(\d+): ")
_DISPLAY = pattern(r"(?:display\b|undisplay\b|delete\s+disp)")


class UserVariable(msgspec.Struct, frozen=True, array_like=True):
    """A convenience variable of the user's, of some ranks."""

    name: str
    language: str
    expression: str
    """An expression with its value, in that language."""
    why: str
    """The reason why there is no expression."""


class VariablesOfRanks(msgspec.Struct, frozen=True):
    """The variables that some ranks have with the same values."""

    ranks: RankSet
    variables: tuple[UserVariable, ...]


class KeptCommand(msgspec.Struct, frozen=True):
    """A command that changed a GDB for good, and the ranks whose GDBs have it."""

    line: str
    operation: Console | Script
    ranks: RankSet
    is_disabled: bool = False
    """Whether it is a display that is disabled."""

    @property
    def display(self) -> int:
        """Job-wide number of the display that the command makes; 0 if it makes none."""
        return self.operation.display if isinstance(self.operation, Console) else 0


class SettingsJournal:
    """The commands that the GDBs of a new job get again."""

    def __init__(self) -> None:
        self._kept: list[KeptCommand] = []
        self._last_display = 0
        self._put_off: list[KeptCommand] = []
        self._python_names: set[str] = set()
        """The names that Python code has defined, and that can be called again."""
        self._files: dict[str, str] = {}
        self.variables: tuple[VariablesOfRanks, ...] = ()
        """Convenience variables with their values, as they were when the job was about to end."""
        self.has_lost_python = False
        """Whether Python code has defined something and done more, so that it is not kept."""

    def note_file(self, line: str, code: str) -> None:
        """Note the Python code that a ``source`` makes the GDBs read."""
        self._files[line] = code

    def display_number(self, line: str) -> int:
        """Return the job-wide number of the display that a command makes, 0 if it makes none.

        GDB numbers its displays itself. A rank without an earlier one passes over its number.
        """
        is_display = gdb_commands.resolve(line) == "display" and argument_of(line)
        return self._last_display + 1 if is_display else 0

    def ranks_with_displays(self, line: str) -> RankSet:
        """Return the ranks that have a display that a command names, of those that are known."""
        named = _displays_in(line)
        return RankSet.union(each.ranks for each in self._kept if each.display in named)

    @property
    def put_off(self) -> tuple[KeptCommand, ...]:
        """Displays of an earlier launch whose variables no stop of their ranks has shown yet."""
        return tuple(self._put_off)

    def put_display_off(self, kept: KeptCommand, ranks: RankSet) -> None:
        """Keep a display for later, for ranks that do not have its variables at present."""
        self._put_off.append(replace(kept, ranks=ranks))

    def display_came(self, kept: KeptCommand, ranks: RankSet) -> None:
        """Forget a display that was put off, for ranks that have it now."""
        self._put_off = [
            replace(each, ranks=rest)
            for each in self._put_off
            if (rest := each.ranks - ranks if each.operation is kept.operation else each.ranks)
        ]

    def put_off_in(self, line: str) -> dict[int, RankSet]:
        """Return the displays that were put off and that a command names, with their ranks."""
        named = _displays_in(line)
        return {each.display: each.ranks for each in self._put_off if each.display in named}

    def _change_put_off(self, line: str) -> None:
        """Delete, disable or enable the displays that were put off and that a command names."""
        if (change := _CHANGES_DISPLAYS.match(line)) is None:
            return
        numbers, left = _displays_in(line), []
        for each in self._put_off:
            if numbers and each.display not in numbers:
                left.append(each)
            elif change["word"] in ("disable", "enable"):
                left.append(replace(each, is_disabled=change["word"] == "disable"))
        self._put_off = left

    def take(
        self,
        line: str,
        operation: AnyOperation,
        classes: Iterable[EquivalenceClass[Record]],
    ) -> None:
        """Add a command, for the ranks whose GDBs have carried it out."""
        classes = tuple(classes)
        if not isinstance(operation, Console | Script):
            return
        self._change_put_off(line)
        if (change := _CHANGES_DISPLAYS.match(line)) is not None:
            self._change_displays(change["word"] or "delete", _displays_in(line), _done_on(classes))
            return
        if not is_kept(line) and not self._only_defines(line, operation):
            return
        if any(each.operation is operation for each in self._kept):
            return  # repeated for further ranks
        if not (ranks := _done_on(classes)):
            return
        if isinstance(operation, Console) and operation.display:
            self._last_display = max(self._last_display, _number_of(operation, classes))
        left: list[KeptCommand] = []
        for each in self._kept:
            # A repeated setting holds once; displays have numbers, so each of them counts.
            is_over = not each.display and each.operation == operation
            if rest := each.ranks - ranks if is_over else each.ranks:
                left.append(replace(each, ranks=rest))
        self._kept = [*left, KeptCommand(line, operation, ranks)]

    def keep(self, kept: KeptCommand) -> None:
        """Keep a command for ranks that join later: the others have what it does."""
        self._kept.append(kept)

    def _change_displays(self, word: str, numbers: frozenset[int], ranks: RankSet) -> None:
        """Delete, disable or enable displays of *ranks*: some of them, or all without numbers."""
        changed: list[KeptCommand] = []
        for each in self._kept:
            is_meant = each.display and (not numbers or each.display in numbers)
            if not is_meant or each.ranks.isdisjoint(ranks):
                changed.append(each)
                continue
            if rest := each.ranks - ranks:
                changed.append(replace(each, ranks=rest))
            if word != "delete":
                both = each.ranks & ranks
                changed.append(replace(each, ranks=both, is_disabled=word == "disable"))
        self._kept = changed

    def _only_defines(self, line: str, operation: Console | Script) -> bool:
        """Return whether a command is Python code that has defined something, and no more."""
        if (code := self._files.pop(line, None)) is None:
            if gdb_commands.resolve(line) != "python":
                return False
            if isinstance(operation, Script):
                code = "\n".join(operation.lines[1:-1])
            else:
                code = argument_of(line)
        names = definitions(code, self._python_names)
        self._python_names |= names or set()
        if names is None and ("def " in code or "class " in code):
            self.has_lost_python = True
        return names is not None

    def extend(self, before: RankSet, new: RankSet) -> tuple[KeptCommand, ...]:
        """Let the commands of all ranks *before* hold for *new* ones too; return them, in order."""
        self._kept = [
            replace(each, ranks=each.ranks | new) if before <= each.ranks else each
            for each in self._kept
        ]
        return tuple(each for each in self._kept if new <= each.ranks)

    def shows_frames_otherwise(self, ranks: RankSet) -> bool:
        """Return whether ``print frame-info`` of one of the ranks is not ``auto``."""
        otherwise = RankSet()
        for each in self._kept:
            if match := _FRAME_INFO.match(each.line):
                is_auto = "auto".startswith(match[1])
                otherwise = otherwise - each.ranks if is_auto else otherwise | each.ranks
        return bool(otherwise & ranks)

    def most_calls(self, default: int) -> int:
        """Return GDB's limit of user-defined commands inside each other, at most *default*."""
        for each in reversed(self._kept):
            if match := _MOST_CALLS.match(each.line):
                return min(default, int(match[1])) if match[1].isdigit() else default
        return default

    @property
    def kept(self) -> tuple[KeptCommand, ...]:
        """The commands, in order."""
        return tuple(self._kept)


def _displays_in(line: str) -> frozenset[int]:
    """Return the numbers of the displays that a command changes or ends."""
    match = _CHANGES_DISPLAYS.match(line)
    if match is None or match["numbers"] is None:
        return frozenset()
    numbers: set[int] = set()
    for each in match["numbers"].split():
        first, _, last = each.partition("-")
        numbers.update(range(int(first), min(int(last or first), int(first) + _MOST_NUMBERS) + 1))
    return frozenset(numbers)


def _done_on(classes: Iterable[EquivalenceClass[Record]]) -> RankSet:
    """Return the ranks that have carried out a command."""
    return RankSet.union(each.ranks for each in classes if not isinstance(each.record, Failure))


def _number_of(operation: Console, classes: Iterable[EquivalenceClass[Record]]) -> int:
    """Return the number of a display that was made: bodies of the user's make some unseen."""
    return max([operation.display, *displays_made(classes)])


def displays_made(classes: Iterable[EquivalenceClass[Record]]) -> dict[int, RankSet]:
    """Return the numbers of the displays that have been made, with their ranks."""
    made: dict[int, RankSet] = {}
    for each in classes:
        if isinstance(text := each.filled, Text) and (match := _MADE.match(text.text)):
            number = int(match[1])
            made[number] = made.get(number, RankSet()) | each.ranks
    return made


def is_kept(line: str) -> bool:
    """Return whether a command changes a GDB for good, and not the program.

    >>> is_kept("set print pretty on"), is_kept("set var x = 3"), is_kept("set x = 3")
    (True, False, False)
    """
    word = gdb_commands.resolve(line)
    if word in ("delete", "disable", "enable"):
        return bool(_OTHER_LISTS.match(line) or (word == "delete" and _DISPLAY.match(line)))
    if word == "set":
        return _ASSIGNMENT.match(line) is None
    return word in _KEPT
