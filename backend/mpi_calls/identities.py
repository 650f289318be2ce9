"""Identities of communicators: the numbers that the members of each one have in common.

Open MPI 4 has a number that all members agree on; the index in Fortran is another one, which each
rank counts for itself. Open MPI 5 has an identifier of 16 bytes, as it has sessions. MPICH
and its descendants have two contexts, for messages sent and received, which the two sides of an
intercommunicator have in turn. These numbers have no fixed place in an object. The predefined
communicators, whose numbers are known, show it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pgdb.backend.mpi_calls.library import MpiLibrary

_OBJECT_BYTES = 0x200
_NUMBERS_OF_SELF = (0, 1 << 24)
"""Identifier of ``MPI_COMM_SELF`` in Open MPI 5; that of ``MPI_COMM_WORLD`` is 0."""
_IDENTIFIER_BYTES = 16
_POINTER_BYTES = 8
_CONTEXT_OF_SELF = 0x10
"""Context of ``MPI_COMM_SELF`` in MPICH; that of ``MPI_COMM_WORLD`` is 0."""
_FIRST_CONTEXT = 8
_LAST_CONTEXT = 0x60
_SELF_OF_MPICH = 0x44000001
_PLACES: dict[object, tuple[str, int]] = {}
"""The form of the numbers and their place in an object, by the library."""


class Identities:
    """Finder of identities in the objects of communicators."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory

    def identity(self, handle: int) -> str:
        """Return a text that all members have in common for a communicator, empty if unknown.

        :raises EmulationError: if a query fails.
        """
        library = self._library
        is_openmpi = library.family == "openmpi"
        address = handle if is_openmpi else library.contexts.object(handle)
        numbers = self._numbers(address) if address is not None else None
        if numbers is None:
            return ""
        if not is_openmpi:
            numbers = tuple(sorted(numbers))
        return ".".join(f"{each:x}" for each in numbers)

    def of_window(self, reads: Sequence[tuple[int, int]]) -> str:
        """Return a text that all members have in common for a window, empty if unknown.

        A window of MPICH has a communicator of its own, which the query for the group reads.

        :param reads: the addresses and sizes of the numbers that the query has read.
        """
        if self._library.family != "mpich":
            return ""
        found = set()
        for place, size in reads:
            address = self._memory.word(place) if size == _POINTER_BYTES else None
            if address is not None and self._library.contexts.is_at(address):
                found.add(self.contexts_at(address))
        if len(found) != 1 or (contexts := found.pop()) is None:
            return ""
        return ".".join(f"{each:x}" for each in sorted(contexts))

    def contexts_at(self, address: int) -> tuple[int, ...] | None:
        """Return the contexts of the messages that a communicator of MPICH, whose object is at
        *address*, sends and receives; None if they are unknown."""
        return self._numbers(address) if self._library.family == "mpich" else None

    def contexts_place(self) -> tuple[str, int] | None:
        """Return the form and the place of the contexts in an object of MPICH."""
        return self._form() if self._library.family == "mpich" else None

    def _numbers(self, address: int) -> tuple[int, ...] | None:
        if (found := self._form()) is None:
            return None
        form, at = found
        data = self._memory.bytes_at(address + at, struct.calcsize(form))
        return struct.unpack(form, data) if data is not None else None

    def _form(self) -> tuple[str, int] | None:
        key = self._library.image.key
        found = _PLACES.get(key) or self._place()
        if found is not None:
            _PLACES[key] = found
        return found

    def _place(self) -> tuple[str, int] | None:
        """Return the form and the place of the numbers, None unless there is one place."""
        library = self._library
        if library.family == "openmpi":
            own: int | None = library.symbol("ompi_mpi_comm_self")
            world: int | None = library.world
        elif library.family == "mpich":
            own, world = (library.contexts.object(each) for each in (_SELF_OF_MPICH, library.world))
        else:
            return None
        if own is None or world is None:
            return None
        a, b = (self._memory.some(each, _OBJECT_BYTES) for each in (world, own))
        if len(a) < _OBJECT_BYTES or len(b) < _OBJECT_BYTES:
            return None
        if library.family == "openmpi" and "PMPI_Session_init" not in library.image.symbols:
            places = list(_agreed(a, b, library.rank))
        elif library.family == "openmpi":
            found = list(_identifiers(a, b))
            # The block from which new identifiers are made begins with the same one.
            is_pair = len(found) == 2 and found[1][1] - found[0][1] == _IDENTIFIER_BYTES
            return found[0] if is_pair else None
        else:
            places = list(_contexts(a, b))
        return places[0] if len(places) == 1 else None


def _agreed(world: bytes, own: bytes, rank: int) -> Iterator[tuple[str, int]]:
    """Yield the places of the agreed number, behind which the rank and the same flags stand."""
    for at in range(0x10, _OBJECT_BYTES - 12, 4):
        one, other = (struct.unpack_from("<III", data, at) for data in (world, own))
        if one[:2] == (0, rank) and other[:2] == (1, 0) and one[2] == other[2] != 0:
            yield "<I", at


def _identifiers(world: bytes, own: bytes) -> Iterator[tuple[str, int]]:
    for at in range(0x10, _OBJECT_BYTES - _IDENTIFIER_BYTES, 8):
        if struct.unpack_from("<QQ", own, at) == _NUMBERS_OF_SELF:
            if struct.unpack_from("<QQ", world, at) == (0, 0):
                yield "<QQ", at


def _contexts(world: bytes, own: bytes) -> Iterator[tuple[str, int]]:
    for form, size in (("<HH", 2), ("<II", 4)):
        for at in range(_FIRST_CONTEXT, _LAST_CONTEXT, size):
            if struct.unpack_from(form, own, at) == (_CONTEXT_OF_SELF, _CONTEXT_OF_SELF):
                if struct.unpack_from(form, world, at) == (0, 0):
                    yield form, at
