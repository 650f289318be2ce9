"""The rows of traces that one user interface has shown. No I/O."""

from __future__ import annotations

import msgspec

from pgdb.ranks import RankSet


class _Part(msgspec.Struct, frozen=True):
    """Ranks whose rows were shown together."""

    ranks: RankSet
    complete: int
    """Number of rows that all of them had."""
    most: int
    """Number of rows of the rank with the most."""


class TracedRows:
    """The number of rows shown, by trace and ranks; a run of some ranks shows theirs alone."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[_Part, ...]] = {}

    def shown(self, trace: int, ranks: RankSet) -> tuple[int, int]:
        """Return the number of rows shown of each of *ranks*, and that of the rank with the most.

        Of ranks that were not shown together, the ones with the fewest rows count.
        """
        parts = [each for each in self._parts.get(trace, ()) if each.ranks & ranks]
        if ranks - RankSet.union(each.ranks for each in parts):
            return 0, 0
        return min(each.complete for each in parts), min(each.most for each in parts)

    def note(self, trace: int, ranks: RankSet, complete: int, most: int) -> None:
        """Note that rows of *ranks* were shown."""
        self._remove(trace, ranks)
        self._parts[trace] = (*self._parts.get(trace, ()), _Part(ranks, complete, most))

    def forget(self, ranks: RankSet) -> None:
        """Note that *ranks* have lost their rows: their GDBs are new ones."""
        for trace in self._parts:
            self._remove(trace, ranks)

    def clear(self) -> None:
        """Note that all ranks have lost their rows."""
        self._parts.clear()

    def _remove(self, trace: int, ranks: RankSet) -> None:
        self._parts[trace] = tuple(
            _Part(left, each.complete, each.most)
            for each in self._parts.get(trace, ())
            if (left := each.ranks - ranks)
        )
