"""Text with brackets and quotes, cut where it is outside of them. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "\"'"


def pieces(text: str) -> Iterator[str]:
    r"""Yield the characters of a text, those inside brackets or quotes together.

    A backslash inside quotes keeps the next character from ending them.

    >>> list(pieces("f(a, b)+1")), list(pieces(r"'\'' "))
    (['f', '(a, b)', '+', '1'], ["'\\''", ' '])
    """
    closing: list[str] = []
    held = ""
    is_escaped = False
    for letter in text:
        if not closing:
            if letter not in _PAIRS and letter not in _QUOTES:
                yield letter
                continue
            closing.append(_PAIRS.get(letter, letter))
            held = letter
            continue
        held += letter
        is_quoted = closing[-1] in _QUOTES
        if is_escaped:
            is_escaped = False
        elif letter == "\\" and is_quoted:
            is_escaped = True
        elif letter == closing[-1]:
            closing.pop()
        elif not is_quoted and (letter in _PAIRS or letter in _QUOTES):
            closing.append(_PAIRS.get(letter, letter))
        if not closing:
            yield held
            held = ""
    if held:
        yield held


def comma_parts(text: str) -> list[str]:
    """Return the parts of a text between its commas outside brackets and quotes.

    >>> comma_parts("f(a, b),c"), comma_parts("")
    (['f(a, b)', 'c'], [''])
    """
    parts = [""]
    for piece in pieces(text):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    return parts
