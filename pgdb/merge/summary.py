"""Summaries: very many numbers in a fixed size, merged exactly.

Merging summaries of disjoint ranks is associative and commutative, and the empty summary is its
identity. So the result does not depend on the shape of the tree or the order of arrival. Sums are
exact (integers scaled by a power of two); they are rounded once, when they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Struct

if TYPE_CHECKING:
    pass

Number = int | float

PROFILE_CELLS = 64
"""Most cells of a profile by rank."""
SKETCH_SIZE = 128
"""Number of hashes kept to estimate the number of different values (to about 9 %)."""
MAX_BINS = 4096
"""Most bins of a requested histogram."""
_HEXADECIMAL = pattern(r"-?[0-9a-f]{1,2000}\Z")
# The square of the smallest double is 2 ** -2148; the rest is room for sums.
_MAX_EXPONENT = 10_000
# Other integers cannot be encoded; as an extreme they become a float.
LEAST_INTEGER, GREATEST_INTEGER = -(1 << 63), (1 << 64) - 1
EXPONENT_SHIFT = 2000
# Exponents of doubles: from 2 ** -1074, which is half of 2 ** -1073, to below 2 ** 1024.
_LEAST_POWER = EXPONENT_SHIFT - 1074
_POWERS = 1074 + 1024
# The sum of some hundred such numbers can still be encoded.
_MAX_COUNT = 1 << 56
_MAX_BLOCK = 1 << 26


class Exact(Struct, frozen=True):
    """The number mantissa · 2 ** exponent, with a mantissa of any length."""

    mantissa: str = "0"
    """The mantissa in hexadecimal, with its sign."""
    exponent: int = 0

    def __post_init__(self) -> None:
        # This comes from the wire too: a text that is not a number must not get further.
        if not _HEXADECIMAL.match(self.mantissa) or abs(self.exponent) > _MAX_EXPONENT:
            raise ValueError("no exact number")

    @property
    def fraction(self) -> Fraction:
        """The number itself."""
        mantissa = int(self.mantissa, 16)
        if self.exponent >= 0:
            return Fraction(mantissa << self.exponent)
        return Fraction(mantissa, 1 << -self.exponent)


class Cell(Struct, frozen=True):
    """The least and the greatest value in one block of ranks."""

    number: int
    """Number of the block; its first rank is number * block."""
    low: Number
    high: Number


class Bins(Struct, frozen=True):
    """A histogram with bins of one width; numbers outside are in its first or last bin."""

    low: float
    high: float
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= count <= _MAX_COUNT for count in self.counts):
            raise ValueError("no counts")
        if not 0 < len(self.counts) <= MAX_BINS or not math.isfinite(self.high - self.low):
            raise ValueError("no histogram")


class Summary(Struct, frozen=True):
    """A summary of the numbers of many ranks."""

    count: int = 0
    """Count of numbers; a rank with an array has several."""
    low: Number | None = None
    """The least finite number; None if there is none."""
    high: Number | None = None
    at_low: RankSet = RankSet()
    at_high: RankSet = RankSet()
    total: Exact = Exact()
    squares: Exact = Exact()
    nan: RankSet = RankSet()
    """Ranks with a NaN."""
    above: RankSet = RankSet()
    """Ranks with an infinity."""
    below: RankSet = RankSet()
    """Ranks with a negative infinity."""
    others: RankSet = RankSet()
    """Ranks with something other than a number, such as a string."""
    powers: tuple[tuple[int, int], ...] = ()
    """Bin and count of a histogram by sign and power of two, see :func:`power_bin`."""
    block: int = 1
    """Number of ranks in each cell of the profile, a power of two."""
    cells: tuple[Cell, ...] = ()
    """A profile by rank: the extremes of each block of ranks that has numbers."""
    sketch: tuple[int, ...] = ()
    """The least hashes of the values (K minimum values; Bar-Yossef et al., RANDOM 2002)."""
    bins: Bins | None = None
    is_rounded: bool = False
    """Whether a number had more digits than a double keeps, as long doubles can: the ends and the
    count of different values are those of the rounded numbers."""

    def __post_init__(self) -> None:
        # This comes from the wire too: values that cannot be encoded or drawn must not get further.
        counts = [self.count, *(count for _, count in self.powers)]
        if any(not 0 <= count <= _MAX_COUNT for count in counts):
            raise ValueError("no counts")
        if any(key and not 0 < abs(key) - _LEAST_POWER <= _POWERS for key, _ in self.powers):
            raise ValueError("no power of two")
        numbers = [cell.number for cell in self.cells]
        if self.block > _MAX_BLOCK:
            raise ValueError("no profile")
        if self.block < 1 or self.block & (self.block - 1) or numbers != sorted(set(numbers)):
            raise ValueError("no profile")
        if numbers and not 0 <= numbers[0] <= numbers[-1] < PROFILE_CELLS:
            raise ValueError("no profile")
        if self.low is None or self.high is None:
            is_range = self.low is self.high and not self.cells
        else:
            is_range = _is_range(self.low, self.high) and all(
                _is_range(self.low, each.low)
                and _is_range(each.low, each.high)
                and _is_range(each.high, self.high)
                for each in self.cells
            )
        if not is_range:
            raise ValueError("no range of numbers")
        if len(self.sketch) > SKETCH_SIZE or any(not 0 <= each < 1 << 64 for each in self.sketch):
            raise ValueError("no sketch")

    @property
    def mean(self) -> float:
        """The mean, NaN if there are no numbers."""
        return _float(self.total.fraction / self.count) if self.count else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the numbers as a population, NaN if there are none."""
        if not self.count:
            return math.nan
        mean = self.total.fraction / self.count
        return _root(self.squares.fraction / self.count - mean * mean)

    @property
    def distinct(self) -> int:
        """The number of different numbers: exact if few, estimated if many."""
        if len(self.sketch) < SKETCH_SIZE:
            return len(self.sketch)
        most = self.count
        if isinstance(self.low, int) and isinstance(self.high, int):
            # Bytes, characters and small integers have no more values than their range.
            most = min(most, self.high - self.low + 1)
        return min(most, round((SKETCH_SIZE - 1) * 2**64 / (self.sketch[-1] + 1)))

    @property
    def exponents(self) -> Mapping[int, int]:
        """The histogram by sign and power of two."""
        return dict(self.powers)

    @property
    def profile(self) -> tuple[int, tuple[Number | None, ...], tuple[Number | None, ...]]:
        """Number of ranks per block, and the extremes of each block from rank 0 on."""
        count = self.cells[-1].number + 1 if self.cells else 0
        lows: list[Number | None] = [None] * count
        highs: list[Number | None] = [None] * count
        for cell in self.cells:
            lows[cell.number], highs[cell.number] = cell.low, cell.high
        return self.block, tuple(lows), tuple(highs)

    def __or__(self, other: Summary) -> Summary:
        from pgdb.merge.totals import merge  # imported here, because it imports this module

        return merge((self, other))


def power_bin(number: Number) -> int:
    """Return the bin of a number: 0 for 0, else by sign and power of two.

    >>> power_bin(0), power_bin(1) == power_bin(1.5), power_bin(-1.5) == -power_bin(1.5)
    (0, True, True)
    """
    if not number:
        return 0
    if isinstance(number, int):
        exponent = abs(number).bit_length()
    else:
        exponent = math.frexp(number)[1]
    return (exponent + EXPONENT_SHIFT) * (1 if number > 0 else -1)


def power_range(number: int) -> tuple[float, float]:
    """Return the two ends of a :func:`power_bin`, the end nearer to 0 first."""
    if not number:
        return 0.0, 0.0
    exponent = abs(number) - EXPONENT_SHIFT
    sign = 1 if number > 0 else -1
    return sign * 2.0 ** (exponent - 1), sign * (math.inf if exponent > 1023 else 2.0**exponent)


def _is_range(low: Number, high: Number) -> bool:
    # A NaN is neither less nor greater.
    return -math.inf < low <= high < math.inf


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _root(value: Fraction) -> float:
    """Return the square root of *value*, of any size, correct to the last bit but one."""
    if value <= 0:
        return 0.0
    # isqrt gets the number scaled to about 128 bits: the square of a double may exceed a double.
    shift = 128 - value.numerator.bit_length() + value.denominator.bit_length()
    shift += shift % 2
    scaled = (
        (value.numerator << shift) // value.denominator
        if shift >= 0
        else value.numerator // (value.denominator << -shift)
    )
    return _float(Fraction(math.isqrt(scaled)) / Fraction(2) ** (shift // 2))


def empty_bins(low: float, high: float, count: int) -> Bins:
    """Return an empty histogram of *count* bins from *low* to *high*."""
    return Bins(low=low, high=high, counts=(0,) * min(count, MAX_BINS))


def iterate_bins(bins: Bins) -> Iterator[tuple[float, float, int]]:
    """Yield the ends and the count of each bin."""
    width = (bins.high - bins.low) / len(bins.counts)
    for number, count in enumerate(bins.counts):
        yield bins.low + number * width, bins.low + (number + 1) * width, count
