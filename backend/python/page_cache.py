"""Memory of a stopped process, read in larger pieces than are asked for."""

from __future__ import annotations

from pgdb.backend.python.runtime import Memory

_PIECE_BYTES = 1 << 14
_MOST_PIECES = 4096


class PageCache:
    """A memory whose pieces are read once.

    Objects of Python are small and stand close together, and each of them needs several reads. The
    process must stand still as long as the cache is used.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._pieces: dict[int, bytes] = {}

    def __call__(self, address: int, size_bytes: int) -> bytes:
        """Return the bytes at an address, fewer where the memory ends."""
        number, at = divmod(address, _PIECE_BYTES)
        if size_bytes > _PIECE_BYTES - at or address <= 0:
            return self._memory(address, size_bytes)
        piece = self._pieces.get(number)
        if piece is None:
            if len(self._pieces) >= _MOST_PIECES:
                self._pieces.clear()
            piece = self._memory(number * _PIECE_BYTES, _PIECE_BYTES)
            self._pieces[number] = piece
        if len(piece) < at + size_bytes:
            # The piece begins, or ends, outside of what is mapped.
            return self._memory(address, size_bytes)
        return piece[at : at + size_bytes]
