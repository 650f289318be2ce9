"""Arrays of numbers from memory: compared and checked as numbers, exactly, with their places."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pgdb.frontend.analysis.closeness import EXACT, Closeness
from pgdb.records import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

Number = int | float | Fraction
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
"""The comparison of each sign, for numbers and for arrays."""
_FEWEST_REPEATS = 10
_FRACTION_BITS = {2: 10, 4: 23, 8: 52, 10: 64, 16: 112}
"""Bits of the fraction in a floating-point number, by its size in bytes."""
_LARGEST = sys.float_info.max
MOST_SHOWN = 200
"""Number of elements in a text that is for people."""


def flat(block: Block) -> NDArray[Any]:
    """Return the numbers of a block in the order of memory."""
    import numpy

    return numpy.frombuffer(block.data, block.dtype)


def are_alike(one: Block, other: Block) -> bool:
    """Return whether two arrays have the same shape and order of elements."""
    return one.shape == other.shape and (one.order == other.order or len(one.shape) < 2)


def text_of(block: Block, most: int = MOST_SHOWN) -> str:
    """Return the text of an array in GDB's form, with at most *most* elements; 0 for all.

    Runs of equal elements count as one element, as GDB counts them.
    """
    values = flat(block)
    outer = block.shape if block.order == "C" else block.shape[::-1]
    opening, closing = ("(", ")") if block.lower else ("{", "}")
    left = most or len(values) + 1

    def part(begin: int, dimension: int) -> str:
        nonlocal left
        step = math.prod(outer[dimension + 1 :])
        texts: list[str] = []
        if dimension == len(outer) - 1:
            row = values[begin : begin + outer[dimension]]
            for text, count in _runs(row, is_fortran=bool(block.lower)):
                if left <= 0:
                    texts.append("...")
                    break
                shown = count if count < _FEWEST_REPEATS else 1
                shown = min(shown, left)
                left -= shown
                texts += [text] * shown if count < _FEWEST_REPEATS else [_repeated(text, count)]
        else:
            for number in range(outer[dimension]):
                if left <= 0:
                    texts.append("...")
                    break
                texts.append(part(begin + number * step, dimension + 1))
        between = " " if block.lower and dimension < len(outer) - 1 else ", "
        body = between.join(texts)
        if not block.lower:
            body = body.replace(", ...", "...")
        return f"{opening}{body}{closing}"

    return part(0, 0) if outer else number_text(values[0])


def number_text(number: Any, *, is_fortran: bool = False) -> str:
    """Return the text of a number of NumPy's, as precise as GDB's."""
    kind = number.dtype.kind
    if kind == "b":
        return "true" if number else "false"
    if kind in "iu":
        return str(int(number))
    if kind == "c":
        real, imaginary = number_text(number.real), number_text(number.imag)
        return f"({real},{imaginary})" if is_fortran else f"{real} + {imaginary}i"
    if math.isnan(number):
        return _nan_text(number)
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    digits = {2: 5, 4: 9, 8: 17}.get(number.dtype.itemsize)
    return f"{float(number):.{digits}g}" if digits else str(number).removesuffix(".0")


def _nan_text(number: Any) -> str:
    """Return the text of a NaN with its sign and its bits, as GDB writes it."""
    import numpy

    size = number.dtype.itemsize
    if size > 8 and numpy.finfo(number.dtype).nmant == 63:
        size = 10  # x87; the bytes behind are padding
    data = number.tobytes()[:size] if sys.byteorder == "little" else number.tobytes()[::-1][:size]
    bits = int.from_bytes(data, "little")
    fraction = bits & ((1 << _FRACTION_BITS[size]) - 1)
    return f"{'-' if bits >> (8 * size - 1) else ''}nan({fraction:#x})"


def path_of(block: Block, at: int, count: int = 1) -> str:
    """Return the path to *count* elements from the one at *at* in memory, which are neighbours.

    >>> form = {"dtype": "<f8", "data": b""}
    >>> path_of(Block(shape=(3, 4), **form), 7), path_of(Block(shape=(9,), **form), 2, 3)
    ('[1][3]', '[2]@3')
    >>> path_of(Block(shape=(3, 4), order="F", lower=(0, 1), **form), 7, 2)
    '(1:2,3)'
    """
    outer = block.shape if block.order == "C" else block.shape[::-1]
    index: list[int] = []
    for extent in reversed(outer):
        at, rest = divmod(at, extent)
        index.append(rest)
    if block.lower:
        # In Fortran the first index varies fastest.
        first, *others = [own + low for own, low in zip(index, block.lower, strict=True)]
        run = f"{first}:{first + count - 1}" if count > 1 else str(first)
        return f"({','.join((run, *map(str, others)))})"
    path = "".join(f"[{each}]" for each in reversed(index))
    return f"{path}@{count}" if count > 1 else path


def bounds_text(block: Block) -> str:
    """Return the lower bounds of the arrays of Fortran in :func:`text_of`, in their order.

    >>> form = {"dtype": "<f8", "data": b"", "order": "F"}
    >>> bounds_text(Block(shape=(2, 2), lower=(1, -1), **form))
    '-1,1,1'
    """
    if set(block.lower) <= {1}:
        return ""
    lower, extents = block.lower[::-1], block.shape[::-1]

    def part(dimension: int) -> list[int]:
        if dimension == len(lower):
            return []
        return [lower[dimension], *part(dimension + 1) * extents[dimension]]

    return ",".join(map(str, part(0)))


def runs_of(block: Block, places: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the first place and the length of each run of neighbours along the fastest index."""
    import numpy

    if not len(places):
        return
    inner = (block.shape[-1] if block.order == "C" else block.shape[0]) if block.shape else 1
    cuts = (numpy.diff(places) != 1) | (places[1:] % max(inner, 1) == 0)
    begins = numpy.concatenate(([0], numpy.flatnonzero(cuts) + 1))
    ends = numpy.concatenate((begins[1:], [len(places)]))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield int(places[begin]), end - begin


def count_runs(block: Block, places: NDArray[Any]) -> int:
    """Return the number of runs that :func:`runs_of` yields."""
    import numpy

    inner = (block.shape[-1] if block.order == "C" else block.shape[0]) if block.shape else 1
    cuts = (numpy.diff(places) != 1) | (places[1:] % max(inner, 1) == 0)
    return int(cuts.sum()) + 1 if len(places) else 0


def places_that_differ(blocks: Iterable[Block]) -> NDArray[Any]:
    """Return the places at which any of some alike arrays differs from the first one."""
    import numpy

    first, *others = blocks
    values = flat(first)
    differ = numpy.zeros(len(values), bool)
    for each in others:
        differ[differing(values, flat(each), EXACT)] = True
    return numpy.flatnonzero(differ)


def differing(one: NDArray[Any], other: NDArray[Any], close: Closeness) -> NDArray[Any]:
    """Return the places at which two arrays of one length differ; a NaN equals any NaN."""
    import numpy

    same = _compared(one, "==", other)
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        same = same | (numpy.isnan(one) & numpy.isnan(other))
    places: NDArray[Any] = numpy.flatnonzero(~same)
    if close.is_exact or not len(places):
        return places
    mine, theirs = one[places], other[places]
    with numpy.errstate(all="ignore"):
        size, larger = distances(mine, theirs)
        limit = numpy.maximum(close.tolerance * larger, close.absolute)
        is_near = (size <= limit) & numpy.isfinite(size)
    far: NDArray[Any] = places[~is_near]
    return far


def distances(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the absolute differences of numbers, and the larger magnitude of each two."""
    import numpy

    wide = numpy.clongdouble if "c" in one.dtype.kind + other.dtype.kind else numpy.longdouble
    mine, theirs = one.astype(wide), other.astype(wide)
    return numpy.abs(theirs - mine), numpy.maximum(numpy.abs(mine), numpy.abs(theirs))


def failing(block: Block, sign: str, bound: Number | Block) -> NDArray[Any]:
    """Return the places of the elements that fail a comparison; a NaN fails each.

    *bound* is a number, or an array of the same shape.
    """
    import numpy

    values = flat(block)
    passes = (
        _compared(values, sign, flat(bound))
        if isinstance(bound, Block)
        else _compared_with(values, sign, bound)
    )
    if values.dtype.kind in "fc":
        passes = passes & ~numpy.isnan(values)
    places: NDArray[Any] = numpy.flatnonzero(~passes)
    return places


def sequence_text(block: Block, at: int, count: int) -> str:
    """Return the text of neighbours in memory: one number, or ``{1, 2, 3}``."""
    values = flat(block)[at : at + count]
    if count == 1:
        return number_text(values[0], is_fortran=bool(block.lower))
    lower = (1,) if block.lower else ()
    return text_of(Block(dtype=block.dtype, shape=(count,), data=values.tobytes(), lower=lower))


# -- inside ------------------------------------------------------------------------------------


def _runs(values: NDArray[Any], *, is_fortran: bool) -> Iterator[tuple[str, int]]:
    """Yield the text and the length of each run of elements with equal bits."""
    import numpy

    if not len(values):
        return
    raw = numpy.ascontiguousarray(values).view(numpy.uint8).reshape(len(values), -1)
    cuts = numpy.flatnonzero((raw[1:] != raw[:-1]).any(axis=1)) + 1
    ends = [*cuts.tolist(), len(values)]
    begin = 0
    for end in ends:
        yield number_text(values[begin], is_fortran=is_fortran), end - begin
        begin = end


def _repeated(text: str, count: int) -> str:
    return f"{text} <repeats {count} times>"


def _compared(one: NDArray[Any], sign: str, other: NDArray[Any]) -> NDArray[Any]:
    """Compare two arrays element by element without rounding."""
    import numpy

    kinds = {one.dtype.kind, other.dtype.kind}
    with numpy.errstate(invalid="ignore"):
        if len(kinds) == 1 or kinds == {"c", "f"}:
            found: NDArray[Any] = COMPARE[sign](one, other)
            return found
        # Integers and doubles, or integers of both kinds: NumPy would round large integers.
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        compare = COMPARE[sign]
        return numpy.fromiter((compare(a, b) for a, b in pairs), bool, len(one))


def _compared_with(values: NDArray[Any], sign: str, bound: Number) -> NDArray[Any]:
    """Compare an array with a number without rounding."""
    import numpy

    if values.dtype.kind == "b":
        values = values.astype(numpy.int8)
    if bound != bound or values.dtype.kind == "c":
        if bound != bound or sign not in ("==", "!="):
            return numpy.full(len(values), sign == "!=")
        found: NDArray[Any] = COMPARE[sign](values, complex(bound))
        return found
    if values.dtype.kind in "iu":
        return _integers_with(values, sign, bound)
    near = float(bound) if -_LARGEST <= bound <= _LARGEST else math.inf if bound > 0 else -math.inf
    if near == bound:
        found = COMPARE[sign](values, near)
        return found
    if values.dtype.itemsize > 8 and math.isfinite(near):
        rest = float(bound - Fraction(near))
        found = COMPARE[sign](values, numpy.longdouble(near) + numpy.longdouble(rest))
        return found
    # No double lies between the bound and the double that is nearest to it.
    if sign in ("==", "!="):
        return numpy.full(len(values), sign == "!=")
    if sign[0] == ">":
        found = values > near if near < bound else values >= near
    else:
        found = values <= near if near < bound else values < near
    return found


def _integers_with(values: NDArray[Any], sign: str, bound: Number) -> NDArray[Any]:
    import numpy

    if isinstance(bound, float) and math.isinf(bound):
        return numpy.full(len(values), bool(COMPARE[sign](0, bound)))
    whole: int = math.floor(bound)
    if whole != bound:
        if sign in ("==", "!="):
            return numpy.full(len(values), sign == "!=")
        # No integer lies between the bound and the integer below it.
        sign = ">" if sign[0] == ">" else "<="
    limits = numpy.iinfo(values.dtype)
    if not limits.min <= whole <= limits.max:
        return numpy.full(len(values), bool(COMPARE[sign](0, whole)))
    found: NDArray[Any] = COMPARE[sign](values, values.dtype.type(whole))
    return found
