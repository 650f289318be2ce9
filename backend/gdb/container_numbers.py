"""Numbers of a container of the standard library, of which GDB's Python finds the places."""

from __future__ import annotations

import math
import sys

import msgspec

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.process_memory import read_pieces
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import CommandError
from pgdb.patterns import pattern
from pgdb.records import Failure

_STANDARD = pattern(r"(?:(?:const|volatile) )*(?:class|struct|union) std::(?!(?:\w+::)*complex<)")


class Places(msgspec.Struct, frozen=True):
    """The places in memory of the numbers of a container."""

    kind: str
    """Letter of their type: one of NumPy's, or of :mod:`.quadruple`."""
    size_bytes: int
    """Size of a number, in bytes."""
    shape: tuple[int, ...]
    pieces: tuple[tuple[int, int], ...]
    """Address and number of numbers that are neighbours in memory."""
    bits: tuple[int, ...] | None = None
    """Truth values that have no byte each."""

    @property
    def dtype(self) -> str:
        """The type as NumPy writes it."""
        order = "|" if self.size_bytes == 1 else "<" if sys.byteorder == "little" else ">"
        return f"{order}{self.kind}{self.size_bytes}"

    @property
    def count(self) -> int:
        """Number of numbers."""
        return math.prod(self.shape)


def is_container(type_name: str) -> bool:
    """Return whether a type, as ``ptype`` names it, is a class of the standard library."""
    return _STANDARD.match(type_name) is not None


async def locate(gdb: GdbSession, expression: str, *, is_positional: bool) -> Places:
    """Return where the numbers of a container are.

    :param is_positional: whether each number must have a position of its own, as in a list and
        unlike in a set.
    :raises CommandError: if the container has none, or has others than numbers.
    """
    found = await python_calls.ask(
        gdb,
        "numbers_in_gdb.locate",
        expression,
        is_positional,
        needed_for="the numbers of containers need",
    )
    if isinstance(found, Failure):
        raise CommandError(found.message)
    return msgspec.convert(found, Places)


async def read(gdb: GdbSession, pid: int, places: Places, start: int, count: int) -> bytes:
    """Return *count* of the numbers, from number *start* on.

    :raises CommandError: if they cannot be read.
    """
    if places.bits is not None:
        return bytes(places.bits[start : start + count])
    parts = []
    for address, number in places.pieces:
        skipped = min(start, number)
        wanted = min(count, number - skipped)
        start, count = start - skipped, count - wanted
        if wanted:
            at = address + skipped * places.size_bytes
            parts.append((at, wanted * places.size_bytes))
    return await read_pieces(gdb, pid, parts)
