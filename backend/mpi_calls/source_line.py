"""The arguments of a call as the user has written them, from the source line."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from pgdb.mpi_calls import Word
from pgdb.mpi_functions import PROTOTYPES
from pgdb.patterns import pattern

_LINES_AROUND = 30
_LARGEST_BYTES = 1 << 24
_LONGEST_WORD = 80
_FORTRAN = pattern(r"\.(?:f|for|ftn|f77|f90|f95|f03|f08|f18)\Z", re.I)
_KEYWORD = pattern(r"(?i)[a-z_]\w*\s*=(?!=)\s*")
_UNNAMED = ("_", "int", "handle")
_FIELDS = {"count2": "receive_count", "tag2": "receive_tag", "comm": "communicator"}
_OPEN, _CLOSED = "([{", ")]}"


def words_of(path: str, line: int, function: str) -> tuple[Word, ...]:
    """Return the arguments of the call of *function* on a line; none unless there is one call."""
    prototype = PROTOTYPES.get(function)
    if prototype is None or not line:
        return ()
    text, first = _around(path, line)
    is_fortran = _FORTRAN.search(path) is not None
    text = _without_comments(text, is_fortran=is_fortran)
    name = re.escape(function.removeprefix("MPI_"))
    call = re.compile(rf"\bP?MPI_{name}(?:_c)?\s*\(", re.I if is_fortran else 0)
    found = []
    for match in call.finditer(text):
        arguments, end = _arguments(text, match.end())
        begin_line = first + text.count("\n", 0, match.start())
        if begin_line <= line <= first + text.count("\n", 0, end):
            found.append(arguments)
    if len(found) != 1 or len(found[0]) < len(prototype.arguments):
        return ()
    shown = []
    for argument, word in zip(prototype.arguments, found[0], strict=False):
        if is_fortran and _KEYWORD.match(word):
            # Arguments with keywords stand in any order.
            return ()
        if argument.name not in _UNNAMED and len(word) <= _LONGEST_WORD:
            shown.append(Word(_FIELDS.get(argument.name, argument.name), word))
    return tuple(shown)


def _around(path: str, line: int) -> tuple[str, int]:
    """Return the lines around a line, and the number of the first of them."""
    try:
        status = os.stat(path)
        if status.st_size > _LARGEST_BYTES:
            return "", 1
        lines = _lines(path, status.st_mtime_ns)
    except (OSError, ValueError):
        return "", 1
    first = max(1, line - _LINES_AROUND)
    return "\n".join(lines[first - 1 : line + _LINES_AROUND]), first


@lru_cache(maxsize=64)
def _lines(path: str, changed_ns: int) -> tuple[str, ...]:
    del changed_ns  # a part of the key: a changed file is read again
    with open(path, encoding="utf-8", errors="replace") as file:
        return tuple(file.read().split("\n"))


def _without_comments(text: str, *, is_fortran: bool) -> str:
    """Return a text with blanks in place of its comments and of Fortran's signs of continuation."""
    quoted = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    removed = r"![^\n]*|&[ \t]*(?=[\n!])|(?<=\n)[ \t]*&" if is_fortran else r"//[^\n]*|/\*.*?\*/"
    either = re.compile(f"({quoted})|{removed}", re.S)

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] else re.sub(r"[^\n]", " ", match[0])

    return either.sub(blank, text)


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """Return the arguments behind an opening bracket, and the place of the closing one."""
    depth = 0
    begin = at
    quote = ""
    found = []
    while at < len(text):
        letter = text[at]
        if quote:
            at += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSED and depth:
            depth -= 1
        elif letter in _CLOSED or (letter == "," and not depth):
            found.append(" ".join(text[begin:at].split()))
            begin = at + 1
            if letter in _CLOSED:
                return found, at
        at += 1
    return [], at
