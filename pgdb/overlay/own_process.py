"""Settings of a whole process, for processes that are PGDB's own.

They change the C library's heap and asyncio's classes, so importing PGDB must not make them: a
user's program imports it too. The entry points call these functions.
"""

from __future__ import annotations

import asyncio.sslproto
import contextlib

TLS_BUFFER_BYTES = 1 << 15
"""Size of asyncio's receive buffer for each TLS link."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of malloc.h
_MMAP_BYTES = 1 << 18

_is_own = False


def mark_own() -> None:
    """Declare this process as one of PGDB's own."""
    global _is_own
    _is_own = True
    limit_tls_buffers()


def limit_tls_buffers() -> None:
    """Limit the receive buffers of TLS links that asyncio creates from now on.

    asyncio keeps 256 KiB for each link: with 32 children more than everything else at a node. TLS
    records have at most 16 KiB.
    """
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES


def limit_heaps() -> None:
    """Make the C library keep less of the memory that is freed, in a process of PGDB's own.

    By default glibc gives each thread a heap of its own. After the first freed megabyte it also
    allocates blocks of that size from the heaps, where they leave gaps: 3 MB at node 0 of a million
    ranks.
    """
    if not _is_own:
        return
    import ctypes  # NumPy, which large jobs load anyway, imports it too

    with contextlib.suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
