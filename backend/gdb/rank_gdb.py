"""The GDB of one rank, whose output names files as the rank does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgdb.backend.gdb.gdb_events import Listener
from pgdb.backend.gdb.session import GdbSession


class RankGdb(GdbSession):
    """A GDB whose output names files as its rank does, wherever GDB has found them.

    :mod:`pgdb.backend.sbd.rank_files` says why the names differ.
    """

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self._names: tuple[tuple[bytes, bytes], ...] = ()

    def rename(self, names: Sequence[tuple[str, str]]) -> None:
        """Replace the first of each pair by the second in all further output of GDB."""
        self._names = tuple((os.fsencode(found), os.fsencode(name)) for found, name in names)

    def _renamed(self, line: bytes) -> bytes:
        for found, name in self._names:
            line = line.replace(found, name)
        return line
