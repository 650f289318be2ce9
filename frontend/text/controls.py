"""Control characters made visible: what a program prints must not drive the user's terminal."""

from __future__ import annotations

import re

# C0 but for tab and line end, DEL, C1, and the marks that change the direction of writing, by which
# a text can look like another (Trojan Source; Boucher and Anderson, 2021).
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """Return *text* with control characters as GDB writes them in strings, in octal.

    >>> print(harmless("\\x1b[31mred"))
    \\033[31mred
    """
    return _CONTROLS.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\{code:03o}" if code < 0x100 else f"\\u{code:04x}"
