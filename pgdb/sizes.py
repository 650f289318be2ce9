"""Sizes as people read and type them: ``7.6 MiB``, ``16 MiB``, ``4G``."""

from __future__ import annotations

import re

from pgdb.errors import UsageError

MIB = 1 << 20
"""Bytes of a MiB."""
_MOST_DIGITS = 12
"""Digits of a typed number; so many MiB are more than any file system holds."""


def size_text(size_bytes: int) -> str:
    """Return a size in the unit that fits.

    >>> size_text(80), size_text(8_000_000), size_text(1 << 30), size_text(3 << 50)
    ('80 bytes', '7.6 MiB', '1.0 GiB', '3072.0 TiB')
    """
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def whole_size(size_bytes: int) -> str:
    """Return a size without decimals, in no unit above MiB: for limits, files and large areas.

    >>> whole_size(4 << 30), whole_size(65_536), whole_size(3 << 19), whole_size(12)
    ('4096 MiB', '64 KiB', '2 MiB', '12 bytes')
    """
    if size_bytes >= MIB:
        return f"{size_bytes / MIB:.0f} MiB"
    return f"{size_bytes >> 10} KiB" if size_bytes >= 1024 else f"{size_bytes} bytes"


def read_mebibytes(title: str, text: str) -> int:
    """Read a number of MiB; return it in bytes.

    :raises UsageError: if it is none.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text)):
        raise UsageError(f"{title}: {text!r} is no whole number of MiB above 0")
    return int(text) << 20


def read_size(title: str, text: str) -> int:
    """Read a size in bytes: ``500000`` or ``4G``.

    :raises UsageError: if it is none.
    """
    match = re.fullmatch(r"([0-9]{1,18})([KMGT]?)", text, re.IGNORECASE)
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ") if match else 0
    if size_bytes < 1:
        raise UsageError(f"{title}: {text!r} is no number of bytes, such as 500000 or 4G")
    return size_bytes
