"""The barriers of one GDB, at which commands of breakpoints set nothing running."""

from __future__ import annotations

from collections.abc import Iterable

from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession


class BarrierHits:
    """Keeper of the numbers of barriers in GDB's Python (:mod:`.barriers_in_gdb`)."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._has_some = False

    def add(self, numbers: Iterable[int]) -> None:
        """Hold the rank at breakpoints of these numbers."""
        for number in numbers:
            self._has_some = True
            self._gdb.send(call("barriers_in_gdb.hold_at", number))

    def pass_on(self) -> None:
        """Let the next command set the rank running."""
        if self._has_some:
            self._gdb.send(call("barriers_in_gdb.pass_on"))
