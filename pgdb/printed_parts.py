"""Signs in GDB's text of a value that it is only a part of the value."""

from __future__ import annotations

import re

from pgdb.patterns import pattern
from pgdb.records import SLOT

# Quoted text, and names of symbols such as <f(int, ...)>, can contain dots of their own.
_DOTS = pattern(
    r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|<(?!repeats )[^<>]*+>|(?P<cut>\.\.\.)(?![.\w])"
)
# At the end of elements, of a string, of a structure (max-depth) or of elements in Fortran. The
# arguments of a function with "(int, ...)" end like elements in Fortran.
_CUT_END = pattern(r"\.\.\.(?=\s*\}|\Z|[,\]])")


# A string, a character, the name of a symbol, a bracket, the end of an element.
_TOKENS = pattern(
    r"\"(?P<text>(?:[^\"\\]|\\(?:[0-7]{1,3}|.))*+)\"|'(?:[^'\\]|\\.)*+'"
    r"|<[^<>]*+>|(?P<open>[{(])|(?P<close>[})])|(?P<comma>,)",
    re.S,
)
_CHARACTER = pattern(r"\\(?:[0-7]{1,3}|.)|.", re.S)


_MARK = r"<(?:optimized out|unavailable|not saved|synthetic pointer)>"
# Of Python: an object of which no more than the type was read, or the place of a coroutine. A bare
# object and a lock have no other contents.
_UNREAD_MARK = (
    rf"<(?!object |_thread\.)[^\W\d][\w.]* at (?:0x[0-9a-f]+|{SLOT})>"
    r"|<(?:generator|coroutine|async_generator) (?:[^<>]|<\w+>)*>|<unknown>"
)
_QUOTED = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'"
_UNREAD = pattern(rf"{_QUOTED}|(?P<mark>{_UNREAD_MARK})", re.S)
_HIDDEN = pattern(rf"{_QUOTED}|(?P<mark>{_MARK})", re.S)


def hidden_part(text: str) -> str:
    """Return GDB's first mark for a part of a value that it cannot show; nothing if there is none.

    >>> hidden_part("{n = 3, x = <optimized out>}"), hidden_part('"<optimized out>"')
    ('<optimized out>', '')
    """
    if "<" not in text:
        return ""
    return next((match["mark"] for match in _HIDDEN.finditer(text) if match["mark"]), "")


def unread_part(text: str) -> str:
    """Return the first object of Python in a value of which not all was read; nothing for none.

    >>> unread_part("[1, <re.Match at 0x7f0010>]"), unread_part("[<object at 0x10>, '<T at 0x1>']")
    ('<re.Match at 0x7f0010>', '')
    """
    if "<" not in text:
        return ""
    return next((match["mark"] for match in _UNREAD.finditer(text) if match["mark"]), "")


def has_dots(text: str) -> bool:
    """Return whether a text can be a part of a value: dots stand for the rest.

    >>> has_dots("{1, 2...}"), has_dots('"a"...'), has_dots('"..."'), has_dots("<f(int, ...)>")
    (True, True, False, False)
    """
    return "..." in text and any(match["cut"] for match in _DOTS.finditer(text))


def count_dots(text: str) -> int:
    """Return the number of places at which dots stand for the rest of a value.

    >>> count_dots("{x = {1...}, y = {2...}, z = 3}"), count_dots('"..."')
    (2, 0)
    """
    return sum(match["cut"] is not None for match in _DOTS.finditer(text))


def is_cut(text: str) -> bool:
    """Return whether a text without GDB's limits is a part of a value all the same.

    >>> is_cut("{1, 2...}"), is_cut("(1, 2, ...)"), is_cut("{int (const char *, ...)} 0x40 <f>")
    (True, True, False)
    """
    for match in _DOTS.finditer(text):
        if match["cut"] and (_CUT_END.match(text, match.start()) or text.startswith("(")):
            return True
    return False


def cut_elements(text: str, most: int) -> str:
    """Return a value with at most *most* elements of each array, and characters of each string.

    That is what GDB prints with ``print elements``.

    >>> cut_elements("{1, 2, 3}", 2), cut_elements('{a = {1, 2, 3}, b = "xyz"}', 2)
    ('{1, 2...}', '{a = {1, 2...}, b = "xy"...}')
    """
    pieces: list[str] = []
    begin = 0
    counts: list[int] = []
    hidden_from = 0  # depth of the array of which the rest is left out
    for match in _TOKENS.finditer(text):
        if match["open"]:
            counts.append(1)
        elif match["close"]:
            if counts and hidden_from == len(counts):
                pieces.append("...")
                begin, hidden_from = match.start(), 0
            if counts:
                counts.pop()
        elif match["comma"] and counts:
            counts[-1] += 1
            if counts[-1] > most and not hidden_from:
                pieces.append(text[begin : match.start()])
                hidden_from = len(counts)
        elif match["text"] is not None and not hidden_from and len(match["text"]) > most:
            characters = _CHARACTER.findall(match["text"])
            if len(characters) > most:
                start = "".join(characters[:most])
                pieces.append(f'{text[begin : match.start()]}"{start}"...')
                begin = match.end()
    if not hidden_from:
        pieces.append(text[begin:])
    return "".join(pieces)
