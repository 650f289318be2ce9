"""The file of ``save breakpoints``: GDB's own format, with the rank sets in comments. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import dedent, indent
from typing import Protocol

import msgspec
from msgspec.structs import replace

from pgdb.frontend.api.breakpoint_journal import JournalEntry
from pgdb.frontend.api.gdb_blocks import Nesting, reads_lines
from pgdb.overlay.messages import BreakpointCommands, ChangeBreakpoints, InsertBreakpoint
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_FIRST_LINE = "# Breakpoints, for 'source FILE' in PGDB and in GDB. GDB skips the rank sets."
_RANKS = "# pgdb: ranks "
_OURS = "# pgdb: do "
"""Prefix of a command that plain GDB does not know."""
_OPTIONS = "# pgdb: options "
"""Prefix of a command that is carried out with options, which plain GDB does not know."""
_IS_OURS = pattern(r"t?catch\s+death\b")
_EVERYBODY = "all"
_DIRECTIVE = pattern(r"\s*# pgdb: ranks (\S+)\s*\Z")


class KeptBreakpoint(msgspec.Struct, frozen=True):
    """A breakpoint as some ranks have it."""

    line: str
    """The command that makes it."""
    condition: str | None = None
    """The condition that it was given later, empty for none; None if it was not changed."""
    ignore: str = ""
    passcount: str = ""
    """``passcount N`` of a tracepoint."""
    commands: tuple[str, ...] = ()
    enabled: str = ""
    """``disable``, ``enable once`` …; empty for an ordinary breakpoint."""
    disabled_locations: tuple[str, ...] = ()

    @property
    def changes(self) -> Iterator[str]:
        """The lines of the file behind the command that makes it."""
        if self.condition is not None:
            yield f"  condition $bpnum {self.condition}".rstrip()
        if self.ignore:
            yield f"  ignore $bpnum {self.ignore}"
        if self.passcount:
            yield f"  {self.passcount} $bpnum"
        if self.commands:
            yield "  commands"
            # Lines of Python in them need their indentation, and no more.
            yield from indent(dedent("\n".join(self.commands)), "    ").split("\n")
            yield "  end"
        if self.enabled:
            yield f"{self.enabled} $bpnum"
        for each in self.disabled_locations:
            yield f"disable $bpnum.{each}"


class Words(Protocol):
    """Words of the commands that make breakpoints, which are PGDB's and not GDB's."""

    def options_of(self, number: int) -> str:
        """Return the options that a breakpoint was made with."""

    def line_of(self, number: int, line: str) -> str:
        """Return the command that makes a breakpoint; *line* is the one that GDB has got."""


_Parts = list[tuple[RankSet, KeptBreakpoint]]


def text_of(
    entries: Iterable[JournalEntry],
    everybody: RankSet,
    words: Words | None = None,
) -> str:
    """Return the file for the commands of a journal; empty if there is no breakpoint.

    *words* returns what PGDB alone knows of a breakpoint.
    """
    kept: dict[int, _Parts] = {}
    for each in entries:
        match each.operation:
            case InsertBreakpoint():
                for number in each.numbers:
                    kept.setdefault(number, []).append((each.ranks, KeptBreakpoint(each.line)))
            case ChangeBreakpoints() | BreakpointCommands():
                _change(kept, each)
    lines: list[str] = []
    for number in sorted(kept):
        makers: dict[str, _Parts] = {}
        for ranks, made in _joined(kept[number]):
            makers.setdefault(made.line, []).append((ranks, made))
        # One number for all ranks with one place, whatever else differs.
        for line, parts in makers.items():
            everyone = RankSet.union(ranks for ranks, _ in parts)
            mark = _OURS if _IS_OURS.match(line) else ""
            options = words.options_of(number) if words is not None else ""
            line = words.line_of(number, line) if words is not None else line
            mentioned = [f"{_OPTIONS}{options}"] if options else []
            lines += _for(everyone, everybody, [*mentioned, f"{mark}{line}"])
            for ranks, made in parts:
                lines += _for(ranks, everybody, [f"{mark}{each}" for each in made.changes])
    return "\n".join([_FIRST_LINE, *_shortened(lines)]) + "\n" if lines else ""


def _for(ranks: RankSet, everybody: RankSet, lines: Sequence[str]) -> list[str]:
    """Return lines of the file with the comments that give them to some ranks."""
    if not lines or everybody <= ranks:
        return list(lines)
    return [f"{_RANKS}{ranks}", *lines, f"{_RANKS}{_EVERYBODY}"]


def _shortened(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines without the comments that change nothing."""
    ranks = before = f"{_RANKS}{_EVERYBODY}"
    for line in lines:
        if line.startswith(_RANKS):
            ranks = line
            continue
        if ranks != before:
            yield ranks
            before = ranks
        yield line
    if before != f"{_RANKS}{_EVERYBODY}":
        yield f"{_RANKS}{_EVERYBODY}"


def _change(kept: dict[int, _Parts], entry: JournalEntry) -> None:
    operation = entry.operation
    texts = () if isinstance(operation, InsertBreakpoint) else operation.numbers
    for text in texts or tuple(map(str, entry.numbers)):
        whole, _, location = text.partition(".")
        parts: _Parts = []
        for ranks, before in kept.get(int(whole), ()):
            if rest := ranks - entry.ranks:
                parts.append((rest, before))
            if part := ranks & entry.ranks:
                parts.append((part, _changed(before, entry, location)))
        if parts:
            kept[int(whole)] = parts


def _changed(before: KeptBreakpoint, entry: JournalEntry, location: str) -> KeptBreakpoint:
    operation = entry.operation
    if isinstance(operation, BreakpointCommands):
        return replace(before, commands=operation.commands)
    assert isinstance(operation, ChangeBreakpoints)
    command, argument = operation.command, operation.argument
    if location:
        others = [each for each in before.disabled_locations if each != location]
        added = [location] if command == "disable" else []
        return replace(before, disabled_locations=(*others, *added))
    match command.removesuffix(" tracepoints"):
        case "condition" | "condition -force":
            return replace(before, condition=argument)
        case "ignore":
            return replace(before, ignore=argument if argument.strip() != "0" else "")
        case "enable":
            return replace(before, enabled="")
        case passcount if passcount.startswith("passcount"):
            return replace(before, passcount=passcount)
        case _:
            return replace(before, enabled=command)


def _joined(parts: _Parts) -> _Parts:
    """Return the parts, with the ranks of equal ones together."""
    found: dict[KeptBreakpoint, RankSet] = {}
    for ranks, each in parts:
        found[each] = found.get(each, RankSet()) | ranks
    return sorted(((ranks, each) for each, ranks in found.items()), key=lambda part: part[0].first)


def for_ranks(lines: Sequence[str]) -> list[str]:
    """Return the lines of a command file, with ``proc SET`` where it names the ranks of some.

    >>> for_ranks(["# pgdb: ranks 0-1", "break f", "# pgdb: ranks all", "break g"])
    ['# pgdb: ranks 0-1', 'proc 0-1 break f', '# pgdb: ranks all', 'break g']
    """
    found: list[str] = []
    ranks, options = _EVERYBODY, ""
    nesting: Nesting | None = None
    for line in lines:
        line = line.removeprefix(_OURS)
        word = line.strip()
        if nesting is not None:
            # The body of 'commands' is GDB's.
            if nesting.take(line):
                nesting = None
            found.append(line)
            continue
        if word.startswith(_OPTIONS):
            options = word.removeprefix(_OPTIONS)
        elif options and word:
            command, _, rest = word.partition(" ")
            word, options = f"{command} {options} {rest}".rstrip(), ""
            line = word
        if match := _DIRECTIVE.match(line):
            ranks = match[1]
        elif ranks != _EVERYBODY and word and not word.startswith("#"):
            line = f"proc {ranks} {word}"
        if reads_lines(word):
            nesting = Nesting(word)
        found.append(line)
    return found
