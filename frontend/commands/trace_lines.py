"""The line of ``trace``: a location, expressions, a condition. No I/O.

GDB's command of this word makes a tracepoint: ``trace LOCATION [thread N] [if COND]``. A line with
expressions behind the location is PGDB's.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pgdb.bracketed import comma_parts, pieces
from pgdb.errors import UsageError
from pgdb.patterns import pattern

_WORD_ENDS = pattern(r"[\w$)\]'\"]\Z")
_WORD_BEGINS = pattern(r"[A-Za-z_$\d'\"(]")
_OF_GDB = frozenset({"if", "thread", "task", "inferior", "-force-condition"})


class TraceLine(msgspec.Struct, frozen=True):
    """A line of ``trace``, read."""

    place: str
    expressions: tuple[str, ...]
    condition: str = ""


def read_trace(text: str) -> TraceLine:
    """Read the argument of ``trace``; without expressions the line is GDB's.

    Commas separate expressions. A blank does too, where it stands between two operands.

    >>> read_trace("solve.c:57 iter, residual if iter > 3")
    TraceLine(place='solve.c:57', expressions=('iter', 'residual'), condition='iter > 3')
    >>> read_trace("hit i u[i + 1] a + b").expressions
    ('i', 'u[i + 1]', 'a + b')
    >>> read_trace("hit if x > 3").expressions
    ()

    :raises UsageError: for an ``if`` without a condition behind expressions, and for a comma
        without an expression beside it.
    """
    words = list(_words(text))
    if not words:
        return TraceLine("", ())
    place, rest = words[0], words[1:]
    if not rest or rest[0] in _OF_GDB or place.startswith("-"):
        return TraceLine(place, ())
    condition = ""
    if "if" in rest:
        at = rest.index("if")
        rest, condition = rest[:at], " ".join(rest[at + 1 :])
        if not condition:
            raise UsageError("trace: 'if' needs a condition")
    expressions: list[str] = []
    is_open = False
    for word in rest:
        for number, part in enumerate(comma_parts(word)):
            if number == 0 and is_open and not _are_apart(expressions[-1], part):
                expressions[-1] = f"{expressions[-1]} {part}".strip()
            else:
                expressions.append(part)
            is_open = True
    if not all(expressions):
        raise UsageError(f"trace: an expression is missing beside a comma: {' '.join(rest)!r}")
    return TraceLine(place, tuple(expressions), condition)


def _are_apart(left: str, right: str) -> bool:
    """Return whether two words are two expressions; ``(int) x`` is one."""
    last = left.rpartition(" ")[2]
    is_cast = last.startswith("(") and last.endswith(")")
    return not is_cast and bool(_WORD_ENDS.search(left) and _WORD_BEGINS.match(right))


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text; brackets and quotes hold blanks together."""
    word = ""
    for piece in pieces(text):
        if piece.isspace():
            if word:
                yield word
            word = ""
        else:
            word += piece
    if word:
        yield word
