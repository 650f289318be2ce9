"""The places at which ranks stand, and the ways that they have taken."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Stack


class Way(msgspec.Struct, frozen=True):
    """A place in the program, with the ranks that stand there."""

    ranks: RankSet
    function: str
    """The function; ``??`` if GDB does not know it."""
    file: str = ""
    """The source file without its folders; empty without line information."""
    line: int = 0
    """The line; 0 without line information."""
    offset: str = ""
    """The offset of the program counter in the function, such as ``+31``, where it counts."""

    @property
    def text(self) -> str:
        """The place in words: ``exchange at ring.c:57``."""
        function = f"{self.function}{self.offset}"
        return f"{function} at {self.file}:{self.line}" if self.line else function

    def beside(self, other: Way) -> str:
        """Return the place in as few words as *other* leaves necessary: ``line 57``."""
        is_near = (self.function, self.file) == (other.function, other.file)
        if not is_near or not self.line:
            return self.text
        return f"line {self.line}{f' at {self.offset}' if self.offset else ''}"


def ways_of(
    classes: Iterable[EquivalenceClass[Record]], *, by_offset: bool = False
) -> tuple[Way, ...]:
    """Return the places of ranks by their innermost listed frames, those of most ranks first.

    With *by_offset* two instructions of one line are two places. The folder of a file does not
    count: ranks of several programs may have one file that was built in several folders.
    """
    found: dict[tuple[str, str, int, str], list[RankSet]] = {}
    for each in classes:
        record = each.filled
        if isinstance(record, Stack) and record.frames:
            frame = record.frames[0]
            file = os.path.basename(frame.file) if frame.line else ""
            offset = frame.offset if by_offset or not frame.line else ""
            key = (frame.function, file, frame.line, offset)
            found.setdefault(key, []).append(each.ranks)
    ways = [Way(RankSet.union(ranks), *key) for key, ranks in found.items()]
    return tuple(sorted(ways, key=lambda way: (-len(way.ranks), way.ranks.first)))


def listed(ways: Iterable[Way]) -> str:
    """Return places with their ranks: ``[0-6] exchange at ring.c:57, [7] main at ring.c:30``."""
    return ", ".join(f"[{way.ranks}] {way.text}" for way in ways)


def distinguished(ways: tuple[Way, ...], start: Way) -> str:
    """Return the ways that ranks took from *start*: ``[0-6] took line 57, [7] line 61``."""
    first, *others = ways
    parts = [f"[{first.ranks}] took {first.beside(start)}"]
    parts += [f"[{way.ranks}] {way.beside(start)}" for way in others]
    return ", ".join(parts)
