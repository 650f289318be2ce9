"""Make control characters visible: a program's output must not control the user's terminal.

Everything shown or logged passes :func:`harmless` where it is written. There it covers every name
of a symbol, file, host or program. The job's own output passes :class:`OutputFilter`, which leaves
colours, if it goes to a terminal.
"""

from __future__ import annotations

import codecs
import logging
import re

from pgdb.patterns import pattern

# C0 except tab and line end, DEL, C1, Unicode's line ends, and the marks that change the direction
# of writing, by which a text can imitate another (Trojan Source; Boucher and Anderson, 2021). Lone
# surrogates stand for bytes that are not UTF-8 (PEP 383).
_SURROGATES = "\ud800-\udfff"
_MARKS = f"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069{_SURROGATES}"
# JSON encoders escape C0 and quoted characters; the writer replaces surrogates.
_RAW_IN_JSON = pattern(f"[\x7f-\x9f{_MARKS.removesuffix(_SURROGATES)}]")
_CONTROLS = pattern(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_MARKS}]")

# Sequences for colours and weights (SGR, ECMA-48 8.3.117) move nothing and request nothing.
_COLOUR = r"\x1b\[[\d;:]{0,40}m"
_OUTPUT = pattern(f"({_COLOUR})|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_MARKS}]")
_PLAIN = "\x1b[0m"
_CUT_OFF = pattern(r"\x1b(?:\[[\d;:]{0,40})?\Z")


def harmless(text: str) -> str:
    """Return *text* with control characters in octal, as GDB writes them in strings.

    Tabs and line ends stay.

    >>> print(harmless("\\x1b[31mred"))
    \\033[31mred
    """
    return _CONTROLS.sub(_visible, text)


def harmless_json(text: str) -> str:
    """Return the JSON *text* with the characters that :func:`harmless` shows escaped; its value is
    equal.

    JSON encoders escape C0 alone. Terminals obey C1 controls and direction marks, and Python's
    str.splitlines() ends a line at U+0085, U+2028 and U+2029.
    """
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def not_utf8(error: UnicodeEncodeError, what: str) -> str:
    """Return the words for a text that could not be encoded as UTF-8; *what* names the text."""
    byte = ord(error.object[error.start]) & 0xFF
    return f"byte {byte:#04x} at character {error.start + 1} of {what} is not UTF-8"


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\{code:03o}" if code < 0x100 else f"\\u{code:04x}"


class HarmlessFormatter(logging.Formatter):
    """A log formatter whose lines are safe on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text with visible control characters."""
        return harmless(super().format(record))


class OutputFilter:
    """Filter that makes one stream of a job's output safe for a terminal, piece by piece.

    Colours stay, because the program meant them for this user. Each piece ends with the colours
    reset, so that none hides later text. A carriage return stays too: programs show progress with
    it, and it reaches only the program's own line.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._kept = ""

    def feed(self, data: bytes) -> str:
        """Return the text to show for the next bytes.

        A character or colour that is cut off is kept for the bytes after them.
        """
        text = self._kept + self._decoder.decode(data)
        cut = _CUT_OFF.search(text)
        self._kept = cut[0] if cut else ""
        return _fit(text.removesuffix(self._kept))

    def end(self) -> str:
        """Return the text for the bytes that were kept."""
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
