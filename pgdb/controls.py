"""Control characters made visible: what a program prints must not drive the user's terminal.

Everything that is shown or logged goes through :func:`harmless`, where it is written and not where
it comes from, so that no name of a symbol, file, host or program is forgotten. The job's own
output, at a terminal only, goes through :class:`OutputFilter`, which leaves colours.
"""

from __future__ import annotations

import codecs
import logging
import re

from pgdb.patterns import pattern

# C0 but for tab and line end, DEL, C1, the ends of lines that Unicode adds, and the marks that
# change the direction of writing, by which a text can look like another (Trojan Source; Boucher and
# Anderson, 2021). Lone surrogates stand for bytes that are no UTF-8 (PEP 383).
_SURROGATES = "\ud800-\udfff"
_MARKS = f"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069{_SURROGATES}"
# JSON has C0 and what is quoted escaped by itself; surrogates are the writer's affair.
_RAW_IN_JSON = pattern(f"[\x7f-\x9f{_MARKS.removesuffix(_SURROGATES)}]")
_CONTROLS = pattern(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_MARKS}]")

# What colours and weights text (SGR, ECMA-48 8.3.117) moves nothing and answers nothing.
_COLOUR = r"\x1b\[[\d;:]{0,40}m"
_OUTPUT = pattern(f"({_COLOUR})|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_MARKS}]")
_PLAIN = "\x1b[0m"
_CUT_OFF = pattern(r"\x1b(?:\[[\d;:]{0,40})?\Z")


def harmless(text: str) -> str:
    """Return *text* with control characters as GDB writes them in strings, in octal.

    Tabs and line ends stay.

    >>> print(harmless("\\x1b[31mred"))
    \\033[31mred
    """
    return _CONTROLS.sub(_visible, text)


def harmless_json(text: str) -> str:
    """Return the JSON *text* with what :func:`harmless` shows escaped; it means the same.

    Writers of JSON escape C0 alone. Terminals obey the C1 controls and what changes the direction
    of writing, and Python's str.splitlines() ends a line at U+0085, U+2028 and U+2029.
    """
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\{code:03o}" if code < 0x100 else f"\\u{code:04x}"


class HarmlessFormatter(logging.Formatter):
    """A formatter for logs that people read at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text, its control characters visible."""
        return harmless(super().format(record))


class OutputFilter:
    """Makes one stream of a job's output fit for a terminal, as it comes.

    Colours stay, for they were meant for this user; each piece ends without any, so that none
    hides what is shown next. A carriage return stays as well: progress is shown with it, and it
    reaches no other line than the program's own.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._kept = ""

    def feed(self, data: bytes) -> str:
        """Take some bytes; return what can be shown.

        A character or a colour that is cut off is kept back for the next bytes.
        """
        text = self._kept + self._decoder.decode(data)
        cut = _CUT_OFF.search(text)
        self._kept = cut[0] if cut else ""
        return _fit(text.removesuffix(self._kept))

    def end(self) -> str:
        """Return what was kept back."""
        text, self._kept = self._kept + self._decoder.decode(b"", True), ""
        return _fit(text)


def _fit(text: str) -> str:
    is_coloured = False

    def show(match: re.Match[str]) -> str:
        nonlocal is_coloured
        if match[1] is None:
            return _visible(match)
        is_coloured = True
        return match[1]

    shown = _OUTPUT.sub(show, text)
    if not is_coloured:
        return shown
    end = "\n" if shown.endswith("\n") else ""
    return shown.removesuffix(end) + _PLAIN + end
