"""Totals: a summary under construction, from values, arrays and other summaries."""

from __future__ import annotations

import heapq
import math
import struct
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdb.errors import ProtocolError
from pgdb.merge.summary import (
    EXPONENT_SHIFT,
    GREATEST_INTEGER,
    LEAST_INTEGER,
    PROFILE_CELLS,
    SKETCH_SIZE,
    Bins,
    Cell,
    Exact,
    Number,
    Summary,
    power_bin,
)
from pgdb.ranks import RankSet
from pgdb.records import parse_number

if TYPE_CHECKING:
    import numpy

_MAX_DOUBLE = int(sys.float_info.max)
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2 ** 64 divided by the golden ratio
_PIECE = 1 << 16
_DIGITS_OF_DOUBLE = 17


def summarize(texts: Iterable[tuple[RankSet, str]], base: int = 0) -> Summary:
    """Return the summary of values as GDB prints them, each with its ranks.

    *base* is that of :attr:`pgdb.records.Value.base`.

    >>> found = summarize([(RankSet([0, 1]), "2"), (RankSet([2]), "nan(0x8000000000000)")])
    >>> found.count, found.mean, str(found.nan)
    (2, 2.0, '2')
    """
    totals = Totals()
    for ranks, text in texts:
        totals.add_text(ranks, text, base=base)
    return totals.summary()


def summarize_array(
    members: int | RankSet,
    values: numpy.ndarray[Any, Any],
    bins: Bins | None = None,
    *,
    is_rounded: bool = False,
) -> Summary:
    """Return the summary of all elements of an array (integers or floats).

    *members* is the rank that has the array, or all ranks that have an equal one.
    *bins* is an empty histogram; the result has it filled. With *is_rounded*, the values have fewer
    digits than those of the program.
    """
    import numpy

    ranks = members if isinstance(members, RankSet) else RankSet([members])
    totals = Totals(bins)
    flat = values.ravel()
    if flat.dtype.kind == "b":
        flat = flat.astype(numpy.int8)
    if flat.dtype.kind in "iu":
        finite = flat
    else:
        rounded = flat.astype(numpy.float64)
        # A NaN is not equal to itself.
        is_other = (rounded != flat) & ~numpy.isnan(flat)
        totals.is_rounded = is_rounded or bool(flat.dtype.itemsize > 8 and is_other.any())
        flat = rounded
        finite = flat[numpy.isfinite(flat)] + 0.0  # a negative zero is a zero
        if len(finite) < len(flat):
            if numpy.isnan(flat).any():
                totals.nan.append(ranks)
            if numpy.isposinf(flat).any():
                totals.above.append(ranks)
            if numpy.isneginf(flat).any():
                totals.below.append(ranks)
    # Programs' arrays have few different values or very many. Counting equal values sums the first
    # kind fast; the second is summed in pieces whose sums stay exact.
    numbers, counts = numpy.unique(finite, return_counts=True)
    if len(numbers) <= 4096:
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            totals.add_number(ranks, number, count)
    else:
        totals.add_array(ranks, numbers, counts)
    return totals.summary()


def merge(summaries: Iterable[Summary]) -> Summary:
    """Return the summary of the numbers of all *summaries*, which have no rank in common.

    :raises ProtocolError: if they have histograms with other bins.
    """
    totals = Totals()
    for each in summaries:
        totals.add(each)
    return totals.summary()


class Totals:
    """A summary under construction."""

    def __init__(self, bins: Bins | None = None) -> None:
        self.nan: list[RankSet] = []
        self.above: list[RankSet] = []
        self.below: list[RankSet] = []
        self.others: list[RankSet] = []
        self.is_rounded = False
        self._count = 0
        self._low: Number | None = None
        self._high: Number | None = None
        self._at_low: list[RankSet] = []
        self._at_high: list[RankSet] = []
        self._total = _Sum()
        self._squares = _Sum()
        self._powers: dict[int, int] = {}
        self._block = 1
        self._cells: dict[int, tuple[Number, Number]] = {}
        self._sketch: set[int] = set()
        self._bins = bins
        self._counts = list(bins.counts) if bins is not None else []

    def add_text(self, ranks: RankSet, text: str, times: int = 1, base: int = 0) -> None:
        """Add the value *text* that each of *ranks* has *times* times."""
        number = parse_number(text, base)
        if number is None or (isinstance(number, int) and abs(number) > _MAX_DOUBLE):
            self.others.append(ranks)
        elif number != number:
            self.nan.append(ranks)
        elif number == math.inf:
            self.above.append(ranks)
        elif number == -math.inf:
            self.below.append(ranks)
        else:
            self.is_rounded = self.is_rounded or _is_rounded(text, number)
            self.add_number(ranks, number, times)

    def add_number(self, ranks: RankSet, number: Number, times: int = 1) -> None:
        """Add a finite number that each of *ranks* has *times* times."""
        count = len(ranks) * times
        self._count += count
        shown = _shown(number)
        self._extremes(shown, ranks, shown, ranks)
        mantissa, exponent = _split(number)
        self._total.add(mantissa * count, exponent)
        self._squares.add(mantissa * mantissa * count, 2 * exponent)
        key = power_bin(number)
        self._powers[key] = self._powers.get(key, 0) + count
        self._widen(ranks.last)
        for cell in {rank // self._block for rank in ranks}:
            self._reach(cell, shown, shown)
        self._sketch.add(_hash(number))
        if len(self._sketch) > 16 * SKETCH_SIZE:
            self._trim()
        if self._bins is not None:
            self._counts[_bin(number, self._bins)] += count

    def add_array(
        self,
        ranks: RankSet,
        numbers: numpy.ndarray[Any, Any],
        counts: numpy.ndarray[Any, Any],
    ) -> None:
        """Add many different finite numbers of each of *ranks*, in order, and the count of each."""
        import numpy

        counts = counts * len(ranks)
        self._count += int(counts.sum())
        low, high = _shown(numbers[0].item()), _shown(numbers[-1].item())
        self._extremes(low, ranks, high, ranks)
        self._widen(ranks.last)
        for cell in {rank // self._block for rank in ranks}:
            self._reach(cell, low, high)
        if numbers.dtype.kind in "iu":
            # NumPy's integers would overflow; Python's do not.
            self._add_integers(numbers.tolist(), counts.tolist())
            is_large = (numbers >= 1 << 53) | (numbers <= -(1 << 53))
            self._sketch.update(_hash(number) for number in numbers[is_large].tolist())
            numbers_to_hash = numbers[~is_large].astype(numpy.float64)
        else:
            self._add_floats(numbers, counts)
            numbers_to_hash = numbers
        hashes = _mix_array(numbers_to_hash.view(numpy.uint64))
        self._sketch.update(numpy.sort(hashes)[:SKETCH_SIZE].tolist())
        if self._bins is not None:
            places = numpy.array([_bin(number, self._bins) for number in numbers.tolist()])
            found = numpy.bincount(places, weights=counts, minlength=len(self._counts))
            self._counts = [old + int(new) for old, new in zip(self._counts, found, strict=True)]

    def add(self, other: Summary) -> None:
        """Add a summary of other ranks.

        :raises ProtocolError: if it has a histogram with other bins.
        """
        self._count += other.count
        self.is_rounded = self.is_rounded or other.is_rounded
        if other.low is not None and other.high is not None:
            self._extremes(other.low, other.at_low, other.high, other.at_high)
        self._total.add(int(other.total.mantissa, 16), other.total.exponent)
        self._squares.add(int(other.squares.mantissa, 16), other.squares.exponent)
        for places, ranks in (
            (self.nan, other.nan),
            (self.above, other.above),
            (self.below, other.below),
            (self.others, other.others),
        ):
            if ranks:
                places.append(ranks)
        for key, count in other.powers:
            self._powers[key] = self._powers.get(key, 0) + count
        if other.cells:
            self._widen(other.cells[-1].number * other.block)
            self._coarsen(max(self._block, other.block))
            for cell in other.cells:
                self._reach(cell.number * other.block // self._block, cell.low, cell.high)
        self._sketch.update(other.sketch)
        if other.bins is not None:
            self._add_bins(other.bins)

    def summary(self) -> Summary:
        """Return the summary of everything added."""
        self._trim()
        return Summary(
            count=self._count,
            low=self._low,
            high=self._high,
            at_low=RankSet.union(self._at_low),
            at_high=RankSet.union(self._at_high),
            total=self._total.exact(),
            squares=self._squares.exact(),
            nan=RankSet.union(self.nan),
            above=RankSet.union(self.above),
            below=RankSet.union(self.below),
            others=RankSet.union(self.others),
            powers=tuple(sorted(self._powers.items())),
            block=self._block,
            cells=tuple(
                Cell(number=cell, low=low, high=high)
                for cell, (low, high) in sorted(self._cells.items())
            ),
            sketch=tuple(sorted(self._sketch)),
            bins=replace(self._bins, counts=tuple(self._counts))
            if self._bins is not None
            else None,
            is_rounded=self.is_rounded,
        )

    # -- inside ----------------------------------------------------------------------------------

    def _extremes(self, low: Number, at_low: RankSet, high: Number, at_high: RankSet) -> None:
        if self._low is None or low < self._low:
            self._low, self._at_low = low, []
        if low == self._low:
            self._at_low.append(at_low)
            self._low = _lesser(low, self._low)
        if self._high is None or high > self._high:
            self._high, self._at_high = high, []
        if high == self._high:
            self._at_high.append(at_high)
            self._high = _greater(high, self._high)

    def _widen(self, rank: int) -> None:
        """Make the cells wide enough for a profile up to *rank*."""
        block = self._block
        while rank // block >= PROFILE_CELLS:
            block *= 2
        self._coarsen(block)

    def _coarsen(self, block: int) -> None:
        if block == self._block:
            return
        old, self._cells = self._cells, {}
        factor, self._block = block // self._block, block
        for cell, (low, high) in old.items():
            self._reach(cell // factor, low, high)

    def _reach(self, cell: int, low: Number, high: Number) -> None:
        if (known := self._cells.get(cell)) is not None:
            low, high = _lesser(low, known[0]), _greater(high, known[1])
        self._cells[cell] = (low, high)

    def _trim(self) -> None:
        self._sketch = set(heapq.nsmallest(SKETCH_SIZE, self._sketch))

    def _add_bins(self, bins: Bins) -> None:
        if self._bins is None:
            self._bins, self._counts = bins, list(bins.counts)
            return
        mine = (self._bins.low, self._bins.high, len(self._counts))
        if mine != (bins.low, bins.high, len(bins.counts)):
            raise ProtocolError("summaries have histograms of other bins")
        self._counts = [a + b for a, b in zip(self._counts, bins.counts, strict=True)]

    def _add_integers(self, numbers: list[int], counts: list[int]) -> None:
        pairs = list(zip(numbers, counts, strict=True))
        self._total.add(sum(number * count for number, count in pairs), 0)
        self._squares.add(sum(number * number * count for number, count in pairs), 0)
        for number, count in pairs:
            key = power_bin(number)
            self._powers[key] = self._powers.get(key, 0) + count

    def _add_floats(
        self, numbers: numpy.ndarray[Any, Any], counts: numpy.ndarray[Any, Any]
    ) -> None:
        import numpy

        fractions, exponents = numpy.frexp(numbers)
        signs = numpy.where(numbers < 0, -1, 1)
        keys, places = numpy.unique(
            numpy.where(numbers == 0, 0, signs * (exponents + EXPONENT_SHIFT)),
            return_inverse=True,
        )
        for key, count in zip(
            keys.tolist(), numpy.bincount(places, weights=counts).tolist(), strict=True
        ):
            self._powers[key] = self._powers.get(key, 0) + int(count)
        mantissas = (fractions * 2.0**53).astype(numpy.int64)
        for part in range(0, len(numbers), _PIECE):
            piece = slice(part, part + _PIECE)
            self._add_piece(mantissas[piece], exponents[piece] - 53, counts[piece])

    def _add_piece(
        self,
        mantissas: numpy.ndarray[Any, Any],
        exponents: numpy.ndarray[Any, Any],
        counts: numpy.ndarray[Any, Any],
    ) -> None:
        """Add mantissa · 2 ** exponent for at most _PIECE numbers, exactly.

        Mantissas are cut into three limbs of 18 bits. The sum of 65536 products of two limbs is an
        integer below 2 ** 53, so a float holds it.
        """
        import numpy

        if counts.max() > 1:
            # Repeated numbers are rare in big arrays of different numbers; they are added one by
            # one.
            often = counts > 1
            for mantissa, exponent, count in zip(
                mantissas[often].tolist(),
                exponents[often].tolist(),
                counts[often].tolist(),
                strict=True,
            ):
                self._total.add(mantissa * count, exponent)
                self._squares.add(mantissa * mantissa * count, 2 * exponent)
            mantissas, exponents = mantissas[~often], exponents[~often]
            if not len(mantissas):
                return
        found, places = numpy.unique(exponents, return_inverse=True)
        signs = numpy.sign(mantissas)
        sizes = numpy.abs(mantissas)
        limbs = [((sizes >> (18 * limb)) & 0x3FFFF).astype(numpy.float64) for limb in range(3)]
        scales = found.tolist()
        for at, limb in enumerate(limbs):
            sums = numpy.bincount(places, weights=limb * signs)
            for scale, value in zip(scales, sums.tolist(), strict=True):
                self._total.add(int(value), scale + 18 * at)
            for other in range(at, 3):
                sums = numpy.bincount(places, weights=limb * limbs[other])
                twice = 1 if other == at else 2
                for scale, value in zip(scales, sums.tolist(), strict=True):
                    self._squares.add(int(value) * twice, 2 * scale + 18 * (at + other))


class _Sum:
    """An exact sum of numbers mantissa · 2 ** exponent."""

    def __init__(self) -> None:
        self._by_exponent: dict[int, int] = {}

    def add(self, mantissa: int, exponent: int) -> None:
        self._by_exponent[exponent] = self._by_exponent.get(exponent, 0) + mantissa

    def exact(self) -> Exact:
        """Return the sum in its canonical form: an odd mantissa, or 0."""
        least = min(self._by_exponent, default=0)
        mantissa = sum(part << (at - least) for at, part in self._by_exponent.items())
        if not mantissa:
            return Exact()
        zeros = (mantissa & -mantissa).bit_length() - 1
        return Exact(mantissa=f"{mantissa >> zeros:x}", exponent=least + zeros)


def _shown(number: Number) -> Number:
    """Return *number* as an extreme shows it: a negative zero, which depends on the order, is 0."""
    if isinstance(number, int) and LEAST_INTEGER <= number <= GREATEST_INTEGER:
        return number
    return float(number) + 0.0


def _is_rounded(text: str, number: Number) -> bool:
    """Return whether the extremes show another number than the text of a number is.

    >>> _is_rounded("1.00000000000000000011", 1.0), _is_rounded("0.1", 0.1), _is_rounded("7", 7)
    (True, False, False)
    """
    if isinstance(number, int):
        return _shown(number) != number
    if len(text) <= _DIGITS_OF_DOUBLE:
        return False
    digits = text.lower().partition("e")[0].replace(".", "").lstrip("+-0")
    return len(digits) > _DIGITS_OF_DOUBLE and Fraction(text) != Fraction(number)


# An int and a float can be equal. The choice must not depend on the order, so the int is kept.


def _lesser(one: Number, other: Number) -> Number:
    return min(one, other, key=lambda each: (each, isinstance(each, float)))


def _greater(one: Number, other: Number) -> Number:
    return max(one, other, key=lambda each: (each, isinstance(each, int)))


def _split(number: Number) -> tuple[int, int]:
    if isinstance(number, int):
        return number, 0
    fraction, exponent = math.frexp(number)
    return int(fraction * 2**53), exponent - 53


def _hash(number: Number) -> int:
    """Return 64 bits that look random, and are equal for equal numbers."""
    if abs(number) < 1 << 53 or isinstance(number, float) or int(float(number)) == number:
        bits: int = struct.unpack("<Q", struct.pack("<d", number + 0.0))[0]
    else:
        bits = (number ^ (number >> 64) * _GOLDEN) & _MASK  # of 128 bits, for __int128
        # The integer may have the bits of a double that is another number. It is mixed first, so
        # that no number that programs use becomes the bits of another one.
        bits = _mix(bits) ^ _GOLDEN
    return _mix(bits)


def _mix(bits: int) -> int:
    """Return the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) for 64 bits."""
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def _mix_array(bits: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    import numpy

    with numpy.errstate(over="ignore"):
        bits = (bits ^ (bits >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    mixed: numpy.ndarray[Any, Any] = bits ^ (bits >> numpy.uint64(31))
    return mixed


def _bin(number: Number, bins: Bins) -> int:
    count = len(bins.counts)
    if not bins.low < number:
        return 0
    if number >= bins.high:
        return count - 1
    return min(count - 1, int((number - bins.low) / (bins.high - bins.low) * count))
