"""Communicators of MPICH by their contexts: the numbers that their messages carry."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.handle_objects import candidates

if TYPE_CHECKING:
    from pgdb.backend.mpi_calls.library import MpiLibrary

OF_COLLECTIVES = 1
"""Distance between the context of a communicator and that of its collective calls."""
_PREDEFINED = (0x44000000, 0x44000001)
_FIRST = (0x84000000, 0xC4000000)
"""Handles of the first communicators of the library's own table, and of the first block of memory
behind it. Both are arrays of objects, each of which begins with its handle."""
_KINDS = frozenset(each >> 26 for each in (*_PREDEFINED, *_FIRST))
"""Upper bits of the handles of communicators."""
_MOST = 1024
"""Most communicators of one array."""
_LARGEST_BYTES = 0x2000
"""Most bytes of the object of a communicator."""
_MOST_REFERENCES = 1 << 20
_MOST_STEPS = 3000
"""Most instructions to the place where a query has read the object; an error takes many more."""


class Contexts:
    """Finder of the communicator of a context, at one look at a stopped process."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory
        self._places: dict[int, int | None] = {}

    def communicator(self, context: int) -> int | None:
        """Return the handle of the communicator that receives messages with *context*, None if
        there is none or several."""
        found = self._by_context.get(context, ())
        return found[0] if len(found) == 1 else None

    @cached_property
    def _by_context(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for handle, address in self._objects():
            numbers = self._library.identities.contexts_at(address)
            if numbers is not None:
                found.setdefault(numbers[1], []).append(handle)
        return found

    def object(self, handle: int) -> int | None:
        """Return the address of the object of a communicator that is not freed."""
        address = self._place(handle)
        return address if address is not None and self._is_alive(address) else None

    def is_at(self, address: int) -> bool:
        """Return whether the object of a communicator that is not freed is at an address."""
        handle = self._memory.word(address, 4)
        return handle is not None and handle >> 26 in _KINDS and self._is_alive(address)

    def place(self, handle: int) -> tuple[int, bytes, bytes] | None:
        """Return the address of the contexts of a communicator, their bytes, and those of the
        contexts of its collective calls; None if they are unknown."""
        address = self.object(handle)
        found = None if address is None else self._library.identities.contexts_place()
        if address is None or found is None:
            return None
        form, at = found
        data = self._memory.bytes_at(address + at, struct.calcsize(form))
        if data is None:
            return None
        shifted = (each + OF_COLLECTIVES for each in struct.unpack(form, data))
        return address + at, data, struct.pack(form, *shifted)

    def _objects(self) -> Iterator[tuple[int, int]]:
        """Yield the handles and addresses of all communicators."""
        for handle in _PREDEFINED:
            if (address := self.object(handle)) is not None:
                yield handle, address
        for first in _FIRST:
            begin = self._place(first)
            if begin is None:
                continue
            sizes = range(0x20, _LARGEST_BYTES, 8)
            size = next((n for n in sizes if self._memory.word(begin + n, 4) == first + 1), None)
            if size is None:
                continue
            for number in range(_MOST):
                address = begin + number * size
                if self._memory.word(address, 4) != first + number:
                    break
                if self._is_alive(address):
                    yield first + number, address

    def _is_alive(self, address: int) -> bool:
        references = self._memory.word(address + 4, 4)
        return references is not None and 0 < references < _MOST_REFERENCES

    def _place(self, handle: int) -> int | None:
        """Return the address of the object of a handle, also of one that is free: a query reads
        it."""
        if handle not in self._places:
            self._places[handle] = self._find_place(handle)
        return self._places[handle]

    def _find_place(self, handle: int) -> int | None:
        library = self._library
        place = library.emulator.allocate(64)
        # The reads before an error may be enough.
        with library.emulator.recorded_reads() as reads, suppress(EmulationError):
            library.query("Comm_test_inter", handle, place, most_steps=_MOST_STEPS)
        for start in candidates(reads):
            if self._memory.word(start, 4) == handle and not library.is_stack(start):
                return start
        return None
