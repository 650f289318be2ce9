"""Labels: a partition of very many ranks as an array with the number of each rank's set.

Sets of ranks cost memory and time for each set and each child. An array costs two bytes a rank for
any number of sets, and a table lookup unites partitions. Work is done in slices, so that no thread
holds the interpreter for long and no copy is large.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgdb.ranks import RankSet

if TYPE_CHECKING:
    import numpy

    Numbers = numpy.ndarray[Any, numpy.dtype[Any]]

NOBODY = 0xFFFF
"""The label in a :class:`Field` of a rank without a set; there are fewer sets than this."""
SLICE = 1 << 14
# Sorting uses larger slices: each slice makes sets of its own.
LONG_SLICE = 1 << 17
# From this many ranks a run is written whole rather than rank by rank.
_LONG_RUN = 16
# Most places of a field for each of its ranks, apart from one slice.
_MOST_PLACES = 4


class Labels:
    """A partition of ranks into *count* sets."""

    __slots__ = ("_numbers", "_table", "count", "ranks")

    def __init__(
        self, ranks: RankSet, numbers: Numbers, count: int, table: Numbers | None = None
    ) -> None:
        """Keep *numbers*, one for each rank in order: unsigned integers of 16 bits, or of 32 bits
        where there are more sets. A *table* maps numbers to sets."""
        self.ranks = ranks
        self.count = count
        self._numbers = numbers
        self._table = table

    def part(self, begin: int, end: int) -> Numbers:
        """Return the labels of the ranks from the place *begin* to *end* among all ranks."""
        part = self._numbers[begin:end]
        return part if self._table is None else self._table[part]

    def parts(self, size: int = SLICE) -> Iterator[tuple[int, Numbers]]:
        """Yield the place and the labels of each slice of ranks."""
        for begin in range(0, len(self._numbers), size):
            yield begin, self.part(begin, begin + size)

    @classmethod
    def of(cls, sets: Sequence[RankSet], ranks: RankSet | None = None) -> Labels:
        """Return the partition into *sets*, which do not overlap; *ranks* is their union."""
        import numpy

        ranks = RankSet.union(sets) if ranks is None else ranks
        if len(sets) < NOBODY and Field.suits(ranks):
            field = Field(ranks)
            for number, each in enumerate(sets):
                field.put(each, number)
            return field.labels(ranks, len(sets))
        everybody = as_numpy(ranks)
        kind = numpy.uint16 if len(sets) <= 1 << 16 else numpy.uint32
        numbers = numpy.zeros(len(ranks), kind)
        for number, each in enumerate(sets):
            numbers[numpy.searchsorted(everybody, as_numpy(each))] = number
        return cls(ranks, numbers, len(sets))

    def sizes(self) -> Numbers:
        """Return the number of ranks in each set."""
        import numpy

        found = numpy.zeros(self.count, numpy.int64)
        for _, part in self.parts():
            found += numpy.bincount(part, minlength=self.count)
        return found

    def firsts(self) -> Numbers:
        """Return the place of the least rank of each set among all ranks; for an empty set their
        number."""
        import numpy

        found = numpy.full(self.count, len(self._numbers), numpy.int64)
        for begin in range(0, len(self._numbers), SLICE)[::-1]:
            part = self.part(begin, begin + SLICE)
            # If an index repeats, NumPy keeps the last assignment.
            found[part[::-1]] = numpy.arange(begin + len(part) - 1, begin - 1, -1)
        return found

    def count_changes(self) -> int:
        """Return the number of ranks whose set differs from that of the rank before."""
        import numpy

        return sum(
            int(numpy.count_nonzero(numpy.diff(self.part(max(0, begin - 1), begin + SLICE))))
            for begin in range(0, len(self._numbers), SLICE)
        )

    def renumbered(self, table: Numbers, count: int) -> Labels:
        """Return the partition in which *table* gives the new number of each set."""
        if self._table is not None:
            table = table[self._table]
        return Labels(self.ranks, self._numbers, count, table)

    def without(self, number: int) -> Labels:
        """Return the partition without the set *number* and its ranks."""
        import numpy

        table = numpy.arange(self.count, dtype=self._numbers.dtype)
        table[number + 1 :] -= 1
        is_left = ~self._are_in(number)
        left = [table[part[is_left[begin : begin + len(part)]]] for begin, part in self.parts()]
        return Labels(self._only(is_left), numpy.concatenate(left), self.count - 1)

    def with_sets(self, sets: Sequence[RankSet]) -> Labels:
        """Return the partition with *sets* of other ranks appended."""
        ranks = RankSet.union((self.ranks, *sets))
        field = Field(ranks)
        field.put_labels(self)
        for number, each in enumerate(sets, self.count):
            field.put(each, number)
        return field.labels(ranks, self.count + len(sets))

    def split(self, count: int) -> tuple[Labels, tuple[RankSet, ...]]:
        """Return the partition into the first *count* sets, and the other sets."""
        import numpy

        others = tuple(self._only(self._are_in(number)) for number in range(count, self.count))
        ranks = self.ranks - RankSet.union(others)
        left = [part[part < count] for _, part in self.parts()]
        return Labels(ranks, numpy.concatenate(left), count), others

    def sets(self) -> tuple[RankSet, ...]:
        """Return all sets."""
        import numpy

        found: list[list[RankSet]] = [[] for _ in range(self.count)]
        for begin, ranks in self.slices(LONG_SLICE):
            # One sort finds the ranks of all sets; searching for each set would take *count*
            # passes. NumPy sorts
            # 16-bit numbers by their digits, several times as fast.
            part = self.part(begin, begin + len(ranks))
            order = numpy.argsort(part, kind="stable")
            ends = numpy.cumsum(numpy.bincount(part, minlength=self.count)).tolist()
            ordered = array("I", ranks[order].tobytes())
            at = 0
            for number, end in enumerate(ends):
                if end > at:
                    found[number].append(RankSet.from_array(ordered[at:end]))
                at = end
        return tuple(map(RankSet.union, found))

    def slices(self, size: int = SLICE) -> Iterator[tuple[int, Numbers]]:
        """Yield the place of the first rank and the ranks of each slice."""
        import numpy

        first = self.ranks.first if self.ranks else 0
        everybody = None if _is_block(self.ranks) else as_numpy(self.ranks)
        for begin in range(0, len(self._numbers), size):
            end = min(begin + size, len(self._numbers))
            if everybody is None:
                yield begin, numpy.arange(first + begin, first + end, dtype=numpy.uint32)
            else:
                yield begin, everybody[begin:end]

    def __len__(self) -> int:
        return len(self._numbers)

    def _are_in(self, number: int) -> Numbers:
        """Return for each rank whether it is in the set *number*."""
        import numpy

        found = numpy.empty(len(self._numbers), bool)
        for begin, part in self.parts():
            numpy.equal(part, number, out=found[begin : begin + len(part)])
        return found

    def _only(self, is_in: Numbers) -> RankSet:
        import numpy

        if _is_block(self.ranks):
            return from_numpy(numpy.flatnonzero(is_in) + self.ranks.first)
        return from_numpy(as_numpy(self.ranks)[is_in])


class Field:
    """A partition under construction: a place for each rank number from the least to the greatest
    rank."""

    def __init__(self, ranks: RankSet) -> None:
        import numpy

        self._first = ranks.first
        self._numbers = numpy.full(ranks.last - ranks.first + 1, NOBODY, numpy.uint16)

    @staticmethod
    def suits(ranks: RankSet) -> bool:
        """Return whether *ranks* are close enough together for a field."""
        return bool(ranks) and (ranks.last - ranks.first < _MOST_PLACES * len(ranks) + SLICE)

    def put(self, ranks: RankSet, number: int) -> None:
        """Put *ranks*, which are in the field's range, into the set *number*."""
        if _has_long_runs(ranks):
            for low, high in ranks.runs():
                self._numbers[low - self._first : high - self._first + 1] = number
            return
        places = as_numpy(ranks)
        for begin in range(0, len(places), SLICE):
            self._numbers[places[begin : begin + SLICE] - self._first] = number

    def put_labels(self, labels: Labels) -> None:
        """Put the ranks of *labels*, which are in the field's range, into their sets."""
        if _has_long_runs(labels.ranks):
            done = 0
            for low, high in labels.ranks.runs():
                for begin in range(low, high + 1, SLICE):
                    count = min(SLICE, high + 1 - begin)
                    at = begin - self._first
                    self._numbers[at : at + count] = labels.part(done, done + count)
                    done += count
            return
        for begin, ranks in labels.slices():
            self._numbers[ranks - self._first] = labels.part(begin, begin + len(ranks))

    def labels(self, ranks: RankSet, count: int) -> Labels:
        """Return the partition of *ranks*, which are all that were put in, into *count* sets."""
        if len(ranks) == len(self._numbers):
            return Labels(ranks, self._numbers, count)
        return Labels(ranks, self._numbers[self._numbers != NOBODY], count)


def as_numpy(ranks: RankSet) -> Numbers:
    """Return the ranks in order, as unsigned integers of 32 bits."""
    import numpy

    return numpy.frombuffer(ranks.to_array(), numpy.uint32)


def from_numpy(ranks: Numbers) -> RankSet:
    """Return the set of *ranks*."""
    return RankSet.from_array(array("I", ranks.astype("uint32", copy=False).tobytes()))


def _has_long_runs(ranks: RankSet) -> bool:
    return ranks.run_count * _LONG_RUN <= len(ranks)


def _is_block(ranks: RankSet) -> bool:
    return bool(ranks) and ranks.last - ranks.first + 1 == len(ranks)
