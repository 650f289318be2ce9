"""Objects of MPICH behind handles: the reads of a query show where an object is.

An object begins with its handle and a count of references. In that of a request, the kind follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

KIND_AT = 8
"""Place of the kind of a request."""
HEAD_BYTES = 12
"""Bytes of an object that :func:`is_request` looks at."""
_REACH_BYTES = 0x140
"""Largest distance between the beginning of an object and a field that a query reads."""
_MOST_REFERENCES, _MOST_KINDS = 16, 32


def candidates(reads: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the addresses at which an object may begin, of whose fields there are *reads*: their
    addresses and sizes."""
    for read in dict.fromkeys(address for address, _ in reads):
        for distance in range(0, _REACH_BYTES, 8):
            yield (read - distance) & ~7


def is_request(head: bytes, handle: int) -> bool:
    """Return whether the first bytes of an object are those of the request with a handle."""
    found, references, kind = struct.unpack_from("<Iii", head)
    is_counted = 0 < references < _MOST_REFERENCES
    return bool(found == handle and is_counted and 0 < kind < _MOST_KINDS)
