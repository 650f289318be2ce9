"""Numbers of 128 bits as the largest that NumPy has, which is ``long double``.

Their sums and extremes are shown with few digits, so that the rounding is not seen. Where numbers
are compared they are not rounded, since two that differ could become equal.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

LETTERS = "qIU"
"""Letters for a binary128 number, and for a signed and an unsigned integer of 128 bits."""
ITEM_BYTES = 16
_FRACTION_BITS = 112
_LOW = 0x7FFF


def rounded(data: bytes, letter: str) -> tuple[str, bytes, bool]:
    """Return numbers of 128 bits as NumPy's dtype and bytes of ``long double``, and whether digits
    are lost.
    """
    import numpy  # only for the few numbers of this size

    halves = numpy.frombuffer(data, numpy.uint64).reshape(-1, 2)
    low, high = halves.T if sys.byteorder == "little" else halves.T[::-1]
    kind = numpy.dtype(numpy.longdouble)
    dtype = kind.str
    if letter != "q":
        of_high = high.astype(numpy.int64) if letter == "I" else high
        unit = kind.type(2) ** 64
        whole = of_high.astype(kind) * unit + low.astype(kind)
        again = numpy.floor(whole / unit)
        lost = (again != of_high.astype(kind)) | (whole - again * unit != low.astype(kind))
        return dtype, whole.tobytes(), bool(lost.any())
    if numpy.finfo(kind).nmant == _FRACTION_BITS:
        return dtype, data, False
    # A NaN has no digits.
    is_number = high >> numpy.uint64(48) & numpy.uint64(_LOW) != _LOW
    lost = is_number & (low & numpy.uint64(_lost_bits(numpy.finfo(kind).nmant)) != 0)
    return dtype, _from_binary128(low, high).astype(kind).tobytes(), bool(lost.any())


def _lost_bits(kept: int) -> int:
    """Return a mask for the low bits of a fraction of which *kept* bits are kept."""
    return (1 << min(64, _FRACTION_BITS - kept)) - 1


def _from_binary128(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    import numpy

    real = numpy.longdouble
    exponent = (high >> numpy.uint64(48) & numpy.uint64(_LOW)).astype(numpy.int64)
    of_high = (high & numpy.uint64((1 << 48) - 1)).astype(real)
    fraction = of_high * real(2) ** -48 + low.astype(real) * real(2) ** -112
    is_normal = exponent > 0
    scale = numpy.where(is_normal, exponent, 1) - 16383
    with numpy.errstate(over="ignore", under="ignore"):
        found: NDArray[Any] = numpy.ldexp(fraction + is_normal, scale.astype(numpy.int32))
    found[exponent == _LOW] = real("inf")
    found[(exponent == _LOW) & (fraction != 0)] = real("nan")
    return numpy.where(high >> numpy.uint64(63) != 0, -found, found)
