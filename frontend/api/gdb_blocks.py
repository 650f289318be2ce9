"""GDB's multi-line commands: which line ends which, and their tree. No I/O.

GDB 13 nests as follows. ``commands``, ``define``, ``document``, ``if``, ``while`` and
``while-stepping`` open a block inside another one, with an argument or without. ``python``,
``guile``, ``compile`` and ``expression`` do so only without an argument. Their text, and that of a
``document`` that is in no other block, has no nesting: the first ``end`` ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_words import first_word, resolve
from pgdb.patterns import pattern

_NESTS = frozenset("commands define document if while while-stepping".split())
_TEXT = frozenset("python guile compile expression".split())
# "compile code -r" and "expression" read their code from the lines behind them.
_NO_TEXT = {
    "python": pattern(r"\Z"),
    "guile": pattern(r"\Z"),
    "compile": pattern(r"(?:code|print(?:\s*/\w+)?)?(?:\s*-r(?:aw)?)?(?:\s*--)?\Z"),
    "expression": pattern(r"(?:-r(?:aw)?)?(?:\s*--)?\Z"),
}
_CONTROLS = ("if", "while")


class Line(msgspec.Struct, frozen=True):
    """A line of a block that opens none itself."""

    number: int
    """The number of the line: 1 for the line behind the one that opens the outermost block."""
    text: str


class Block(msgspec.Struct, frozen=True):
    """A multi-line command."""

    number: int
    word: str
    """The command in full: ``if``, ``define`` …"""
    text: str
    """The line that opens the block."""
    body: tuple[Line | Block, ...]
    otherwise: tuple[Line | Block, ...] = ()
    """The lines behind the ``else`` of an ``if``."""
    raw: tuple[str, ...] = ()
    """The lines as they were read, from the one that opens the block to its ``end``."""

    @property
    def argument(self) -> str:
        """The text behind the word."""
        return argument_of(self.text)

    @property
    def is_text(self) -> bool:
        """Whether the body is no GDB commands: Python, Guile, C, or documentation."""
        return self.word in _TEXT or self.word == "document"


Node = Line | Block


def argument_of(line: str) -> str:
    """Return the text of a line behind its first word."""
    line = line.strip()
    return line[len(first_word(line)) :].strip()


def reads_lines(line: str) -> bool:
    """Return whether a line that is in no block opens one.

    >>> reads_lines("python"), reads_lines("python print(1)"), reads_lines("if x")
    (True, False, True)
    """
    word = resolve(line)
    if word in _TEXT:
        return _NO_TEXT[word].match(argument_of(line)) is not None
    # Outside of a list of actions GDB refuses while-stepping at once.
    return word == "actions" or (word in _NESTS and word != "while-stepping")


def _nests(line: str) -> str:
    """Return the word of a line that opens a block inside another one, else an empty string."""
    word = resolve(line)
    if word in _NESTS or (word in _TEXT and not argument_of(line)):
        return word
    return ""


class Nesting:
    """The blocks that are open while the lines of a multi-line command are read."""

    def __init__(self, line: str) -> None:
        word = resolve(line)
        self._open = [word in _TEXT or word == "document"]
        """Whether each open block is text."""

    @property
    def is_text(self) -> bool:
        """Whether the next line is no command of GDB's, but Python, C or documentation."""
        return self._open[-1]

    def take(self, line: str) -> bool:
        """Take the next line; return whether it ends the command."""
        if line.strip(" \t") == "end":
            self._open.pop()
        elif not self._open[-1] and (word := _nests(line)):
            self._open.append(word in _TEXT)
        return not self._open


def whole(opener: str, lines: Iterator[str]) -> list[str]:
    """Return the lines of a block, without its last ``end``.

    :raises UsageError: if the lines end before.
    """
    nesting = Nesting(opener)
    found: list[str] = []
    for line in lines:
        if nesting.take(line):
            return found
        found.append(line)
    raise not_finished(opener)


def not_finished(opener: str) -> UsageError:
    """Return the error for a multi-line command whose lines end too early."""
    word = resolve(opener)
    return UsageError(f"'{word}' is not finished; its last line must be 'end'")


def parse(opener: str, lines: Sequence[str]) -> Block:
    """Return the tree of a multi-line command, whose *lines* come without the last ``end``.

    :raises UsageError: for an ``else`` in a wrong place, or an ``if`` without a condition.
    """
    numbered = iter([*enumerate(lines, 1), (len(lines) + 1, "end")])
    word = resolve(opener)
    return _block(0, opener, word, word in _TEXT or word == "document", numbered)


def _block(
    number: int, opener: str, word: str, is_text: bool, lines: Iterator[tuple[int, str]]
) -> Block:
    parts: list[list[Node]] = [[]]
    raw = [opener]
    for at, line in lines:
        bare = line.strip(" \t")
        raw.append(line)
        if bare == "end":
            break
        if is_text:
            parts[-1].append(Line(at, line))
        elif bare == "else":
            if word != "if" or len(parts) > 1:
                raise UsageError(f"line {at}: 'else' belongs to no 'if'")
            parts.append([])
        elif inner := _nests(bare):
            if inner in _CONTROLS and not argument_of(bare):
                raise UsageError(f"line {at}: '{inner}' needs a condition")
            found = _block(at, bare, inner, inner in _TEXT, lines)
            raw += found.raw[1:]
            parts[-1].append(found)
        elif bare and not bare.startswith("#"):
            parts[-1].append(Line(at, bare))
    return Block(
        number=number,
        word=word,
        text=opener,
        body=tuple(parts[0]),
        otherwise=tuple(parts[1]) if len(parts) > 1 else (),
        raw=tuple(raw),
    )


def lines_of(nodes: Iterable[Node]) -> Iterator[Line]:
    """Yield the lines of all depths that are commands."""
    for each in nodes:
        if isinstance(each, Line):
            yield each
        elif not each.is_text:
            yield from lines_of(each.body)
            yield from lines_of(each.otherwise)
