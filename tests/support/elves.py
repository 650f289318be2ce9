"""ELF objects that tests write byte by byte, of any size."""

from __future__ import annotations

import struct
from pathlib import Path


def elf(build_id: str, body: bytes = b"", *, order: str = "<", is_64: bool = True) -> bytes:
    """Return an object with a note of its build-id (none if it is empty) and *body* behind it."""
    value = bytes.fromhex(build_id)
    note = struct.pack(f"{order}III", 4, len(value), 3) + b"GNU\0" + value if value else b""
    note += b"\0" * (-len(note) % 4)
    # Another note comes first, as in real objects.
    note = struct.pack(f"{order}III", 4, 4, 1) + b"GNU\0" + b"\1\2\3\4" + note
    head, entry = (64, 56) if is_64 else (52, 32)
    at = head + entry
    ident = b"\x7fELF" + bytes([2 if is_64 else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    word = "Q" if is_64 else "I"
    rest = struct.pack(
        f"{order}HHI3{word}I6H", 3, 62, 1, 0, head, 0, 0, head, entry, 1, 64 if is_64 else 40, 0, 0
    )
    if is_64:
        segment = struct.pack(f"{order}IIQQQQQQ", 4, 4, at, at, at, len(note), len(note), 4)
    else:
        segment = struct.pack(f"{order}8I", 4, at, at, at, len(note), len(note), 4, 4)
    return ident + rest + segment + note + body


def write_elf(path: Path, build_id: str, body: bytes = b"") -> Path:
    """Write such an object to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf(build_id, body))
    return path
