"""MI output as it arrives: bytes become lines, and big lines are parsed in short steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pgdb.backend.gdb.mi import Line, cut, unescape
from pgdb.patterns import pattern
from pgdb.sizes import whole_size

BIG_LINE_BYTES = 256 * 1024
"""Size from which a line is passed on in pieces, for a thread to parse, in bytes."""
MAX_LINE_BYTES = 512 << 20
"""Size from which only the start of a line is kept, in bytes: more than the largest block read."""
_RESULT = pattern(rb"(\d*)\^")
_GIANT = "\x02"
"""Delimiter of the number of a long string that was extracted."""
_GIANTS = pattern(f"{_GIANT}(\\d+){_GIANT}")

Pieces = list[bytes]
"""A big line, as it arrived."""


class Lines:
    """Splitter of arriving bytes into lines; each byte is scanned once."""

    def __init__(self) -> None:
        self._pieces: Pieces = []
        self._size_bytes = 0

    def feed(self, data: bytes) -> Sequence[bytes | Pieces]:
        """Add bytes; return the lines completed by them, a big one in its pieces."""
        if not self._pieces:
            lines: list[bytes | Pieces] = [*data.split(b"\n")]
        else:
            first, end, rest = data.partition(b"\n")
            self._size_bytes += len(first)
            if self._size_bytes <= MAX_LINE_BYTES:
                self._pieces.append(first)
            else:
                del self._pieces[1:]
            if not end:
                return ()
            pieces, self._pieces = self._pieces, []
            if self._size_bytes > MAX_LINE_BYTES:
                lines = [_too_long(pieces[0])]
            elif self._size_bytes > BIG_LINE_BYTES:
                lines = [pieces]
            else:
                lines = [b"".join(pieces)]
            lines += rest.split(b"\n")
        if last := lines.pop():
            assert isinstance(last, bytes)
            self._pieces.append(last)
            self._size_bytes = len(last)
        return lines


def _too_long(start: bytes) -> bytes:
    """Return the replacement of a line that was not kept: the failure of its command."""
    match = _RESULT.match(start)
    why = f"GDB's answer is longer than {whole_size(MAX_LINE_BYTES)}"
    return b'%s^error,msg="%s"' % (match[1], why.encode()) if match is not None else b""


def cut_pieces(pieces: Pieces, rename: Callable[[bytes], bytes] = bytes) -> Line:
    """Return the parts of a big line; for a thread, since it may take long.

    Each step is short, so that other threads progress meanwhile. Long ``contents`` found by
    -data-read-memory-bytes are returned as bytes.
    """
    small, giants = _without_giants(pieces)
    text = rename(small).decode("utf-8", "replace")
    if giants:
        line = cut(text)
        if line.kind and text.count(_GIANT) == 2 * len(giants):
            try:
                values = [each if isinstance(each, bytes) else unescape(each) for each in giants]
            except ValueError:
                return cut(rename(b"".join(pieces)))
            text, payload = _put_back(line.text, values), _put_back(line.payload, values)
            return Line(line.kind, line.token, line.name, payload, text)
    return cut(rename(b"".join(pieces)))


def _without_giants(pieces: Pieces) -> tuple[bytes, list[str | bytes]]:
    """Extract the strings that fill whole pieces of a big line; return the rest and them."""
    small = bytearray()
    giants: list[str | bytes] = []
    run: Pieces = []
    for piece in pieces:
        if _GIANT.encode() in piece:
            return b"".join(pieces), []
        if b'"' not in piece:
            run.append(piece)
            continue
        if run:
            head, quotation, rest = piece.partition(b'"')
            run.append(head)
            _take_giant(small, run, giants)
            small += quotation + rest
            run = []
        else:
            small += piece
    for piece in run:
        small += piece
    return bytes(small), giants


def _take_giant(small: bytearray, run: Pieces, giants: list[str | bytes]) -> None:
    """Replace the string whose end is *run* by its number; no escape is cut in two."""
    start = small.rfind(b'"') + 1
    run.insert(0, bytes(small[start:]))
    del small[start:]
    if small.endswith(b'contents="') and (data := _from_hex(run)) is not None:
        giants.append(data)
        left = b""
    else:
        text = b"".join(run)
        whole = text.rstrip(b"\\")
        left = text[len(whole) :]
        giants.append(whole.decode("utf-8", "replace"))
    small += f"{_GIANT}{len(giants) - 1}{_GIANT}".encode() + left


def _from_hex(pieces: Pieces) -> bytes | None:
    data = []
    odd = b""
    for piece in pieces:
        piece = odd + piece
        even = len(piece) & ~1
        odd = piece[even:]
        try:
            data.append(bytes.fromhex(piece[:even].decode("ascii")))
        except ValueError:
            return None
    return None if odd else b"".join(data)


def _put_back(node: Any, giants: Sequence[str | bytes]) -> Any:
    if isinstance(node, dict):
        return {name: _put_back(item, giants) for name, item in node.items()}
    if isinstance(node, list):
        return [_put_back(item, giants) for item in node]
    if not isinstance(node, str) or _GIANT not in node:
        return node
    parts = _GIANTS.split(node)
    values = [giants[int(each)] for each in parts[1::2]]
    if len(values) == 1 and parts[0] == parts[2] == "":
        return values[0]
    parts[1::2] = [each if isinstance(each, str) else each.hex() for each in values]
    return "".join(parts)
