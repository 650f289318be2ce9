"""A larger limit for the size of values while ``finish`` runs.

GDB prints the returned value before it reports the stop. If the value is larger than
max-value-size, GDB 13 stops the rank and reports nothing, so that the rank seems to run on.
"""

from __future__ import annotations

import contextlib

from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.patterns import pattern

_FINISH = pattern(r'-exec-finish|-interpreter-exec console "fin(?:i|is|ish)?\b')
_LARGEST_RETURNED_BYTES = 1 << 30


class FinishLimit:
    """Raises max-value-size of one GDB before a ``finish``, and restores it at the next stop."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._before = ""

    async def raise_for(self, command: str) -> None:
        """Raise the limit if *command* is a ``finish``.

        :raises GdbError: if GDB ends.
        """
        if self._before or not _FINISH.match(command):
            return
        shown = await self._gdb.send("-gdb-show max-value-size")
        limit = str(shown.payload.get("value", ""))
        if limit.isdigit() and int(limit) < _LARGEST_RETURNED_BYTES:
            self._before = limit
            self._gdb.send(f"-gdb-set max-value-size {_LARGEST_RETURNED_BYTES}")

    def restore(self) -> None:
        """Restore the limit, if it was raised: the rank has stopped."""
        before, self._before = self._before, ""
        if before:
            with contextlib.suppress(GdbError):
                self._gdb.send(f"-gdb-set max-value-size {before}")
