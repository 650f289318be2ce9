"""Limits of arrays: the option ``array_limit_bytes``, and the memory of this host."""

from __future__ import annotations

import os

from pgdb.errors import CommandError
from pgdb.sizes import size_text


def check_size(what: str, size_bytes: int, limit_bytes: int, *, less: str) -> None:
    """Check that an array fits on this host; *less* is advice on how to ask for less.

    :raises CommandError: if the size is above *limit_bytes* or above the memory of this host.
    """
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size_bytes > memory_bytes:
        # Linux would grant the memory, and kill the front end while it fills the array.
        raise CommandError(
            f"{what} is {size_text(size_bytes)}, more than the memory of this host, "
            f"{size_text(memory_bytes)}; {less.removeprefix('or ')}"
        )
    if size_bytes > limit_bytes:
        raise CommandError(
            f"{what} is {size_text(size_bytes)}, more than array-limit, "
            f"{size_text(limit_bytes)}; raise it with 'set array-limit {size_bytes}', {less}"
        )
