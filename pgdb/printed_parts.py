"""Signs in GDB's text of a value that it is only a part of the value."""

from __future__ import annotations

from pgdb.patterns import pattern

# Quoted text, and names of symbols such as <f(int, ...)>, can contain dots of their own.
_DOTS = pattern(
    r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|<(?!repeats )[^<>]*+>|(?P<cut>\.\.\.)(?![.\w])"
)
# At the end of elements, of a string, of a structure (max-depth) or of elements in Fortran. The
# arguments of a function with "(int, ...)" end like elements in Fortran.
_CUT_END = pattern(r"\.\.\.(?=\s*\}|\Z|[,\]])")


def has_dots(text: str) -> bool:
    """Return whether a text can be a part of a value: dots stand for the rest.

    >>> has_dots("{1, 2...}"), has_dots('"a"...'), has_dots('"..."'), has_dots("<f(int, ...)>")
    (True, True, False, False)
    """
    return "..." in text and any(match["cut"] for match in _DOTS.finditer(text))


def is_cut(text: str) -> bool:
    """Return whether a text without GDB's limits is a part of a value all the same.

    >>> is_cut("{1, 2...}"), is_cut("(1, 2, ...)"), is_cut("{int (const char *, ...)} 0x40 <f>")
    (True, True, False)
    """
    for match in _DOTS.finditer(text):
        if match["cut"] and (_CUT_END.match(text, match.start()) or text.startswith("(")):
            return True
    return False
