"""A private copy of the memory of a process: pages are copied when they are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgdb.backend.mpi_calls.errors import EmulationError, HaltError
from pgdb.backend.mpi_calls.memory import Memory

_PAGE = 4096
STACK = 0x7EBFF000
"""The end of a stack that the process does not have."""
_STACK_BYTES = 1 << 20
_HEAP = 0x7EC00000
_HEAP_BYTES = 16 << 20
MOST_COPIED = 1 << 20
"""Most bytes that one function copies."""


class PrivateCopy:
    """The memory of a process, with a stack and new memory beside it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pages: dict[int, bytearray] = {}
        self._heap = _HEAP
        self._before: dict[int, bytearray | None] | None = None
        """Pages as they were before the code that runs has written into them."""

    @contextmanager
    def restored_at_errors(self) -> Iterator[None]:
        """Restore the memory if the code inside ends in an error in its middle.

        Such code may have locked what the code after it has to lock. Code that ends where it was to
        be ended keeps what it has written.
        """
        before: dict[int, bytearray | None] = {}
        self._before = before
        try:
            yield
        except HaltError:
            raise
        except EmulationError:
            for number, page in before.items():
                if page is None:
                    self._pages.pop(number, None)
                else:
                    self._pages[number] = page
            raise
        finally:
            self._before = None

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return bytes of the private copy.

        :raises EmulationError: if there is no memory.
        """
        found = b""
        while size_bytes > 0:
            number, begin = divmod(address, _PAGE)
            page = self._pages.get(number) or self._original(number)
            piece = page[begin : begin + size_bytes]
            found += piece
            address += len(piece)
            size_bytes -= len(piece)
        return found

    def _original(self, number: int) -> bytes | bytearray:
        address = number * _PAGE
        if STACK - _STACK_BYTES <= address < _HEAP + _HEAP_BYTES:
            made = self._pages[number] = bytearray(_PAGE)
            return made
        page = self._memory.page(number) if 0 <= address < 1 << 63 else None
        if page is None:
            raise EmulationError(f"no memory at {address:#x}")
        return page

    def write(self, address: int, data: bytes) -> None:
        """Write into the private copy.

        :raises EmulationError: if there is no memory.
        """
        while data:
            number, begin = divmod(address, _PAGE)
            page = self._pages.get(number)
            if self._before is not None and number not in self._before:
                self._before[number] = None if page is None else bytearray(page)
            if page is None:
                page = self._pages[number] = bytearray(self._original(number))
            piece = data[: _PAGE - begin]
            page[begin : begin + len(piece)] = piece
            address += len(piece)
            data = data[len(piece) :]

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, filled with zeros.

        :raises EmulationError: if there is too little.
        """
        place = self._heap
        self._heap += size_bytes + 31 & ~15
        if self._heap > _HEAP + _HEAP_BYTES or size_bytes < 0:
            raise EmulationError("too much memory is allocated")
        return place

    def is_allocated(self, address: int) -> bool:
        """Return whether an address is in memory that :meth:`allocate` has returned."""
        return _HEAP <= address < self._heap

    def number(self, address: int, size_bytes: int) -> int:
        """Return an unsigned number of the private copy."""
        return int.from_bytes(self.read(address, size_bytes), "little")

    def text(self, address: int) -> str:
        """Return the text that ends with a zero byte."""
        return self.string(address).decode("utf-8", "replace")

    def string(self, address: int) -> bytes:
        """Return the bytes before the next zero byte."""
        found = b""
        while b"\0" not in found and len(found) < MOST_COPIED:
            found += self.read(address + len(found), 16)
        return found.partition(b"\0")[0]
