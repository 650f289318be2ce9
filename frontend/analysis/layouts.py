"""Layouts: the elements of a global array that each rank holds."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pgdb.errors import UsageError

if TYPE_CHECKING:
    pass

Kind = Literal["block", "cyclic", "block-cyclic"]
Place = tuple[Any, ...]
"""A slice or an array of indices for each dimension of the global array."""
MapFunction = Callable[[int, Any], Place]
"""A function from a rank and its array to the array's place in the global array."""
_MOST_PLACES = 1 << 24  # of a grid: more than any job has ranks


class Layout(msgspec.Struct, frozen=True):
    """The distribution of an array over a grid of ranks."""

    dims: tuple[int, ...]
    """Number of elements of the global array in each dimension."""
    grid: tuple[int, ...] = ()
    """Number of ranks in each dimension, 1 for dimensions without a number; unused with *function*.
    """
    kind: Kind = "block"
    block: tuple[int, ...] = (1,)
    """``block-cyclic``: number of elements of a block in each dimension."""
    halo: tuple[int, ...] = (0,)
    """``block``: number of copies of neighbours' elements at both ends of each dimension; a single
    number is for all dimensions."""
    order: Literal["C", "F", ""] = ""
    """Whether the last (C) or the first index (F) varies fastest in a rank's array, if that array
    was read as a flat row of numbers; empty for C."""
    rank_order: Literal["row", "column"] = "row"
    """Whether the last (as in MPI_Cart_create) or the first dimension of the grid varies fastest
    with the rank."""
    function: MapFunction | None = None
    """Function that returns the place of a rank's elements, instead of grid, kind, block and halo.
    """

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise UsageError(f"dims {shape_text(self.dims)}: each must be at least 1")
        if max(self.dims) > sys.maxsize:
            raise UsageError(f"dims {shape_text(self.dims)}: no array has so many elements")
        if self.function is None:
            if not self.grid or min(self.grid) < 1:
                raise UsageError(f"grid {shape_text(self.grid)}: each must be at least 1")
            if len(self.grid) > len(self.dims):
                raise UsageError(
                    f"grid {shape_text(self.grid)} has more dimensions than "
                    f"dims {shape_text(self.dims)}"
                )
            if math.prod(self.grid) > _MOST_PLACES:
                raise UsageError(f"grid {shape_text(self.grid)}: no job has so many ranks")
        for name, numbers, least in (("block", self.block, 1), ("halo", self.halo, 0)):
            if len(numbers) not in (1, len(self.dims)) or min(numbers) < least:
                raise UsageError(
                    f"{name} {shape_text(numbers)}: one number, or one for each dimension, of at "
                    f"least {least}"
                )
        if any(self.halo) and self.kind != "block":
            raise UsageError(f"halo: the ranks of a {self.kind} layout have no neighbours")

    @property
    def full_grid(self) -> tuple[int, ...]:
        """The grid, with 1 for the dimensions that are not distributed."""
        return (*self.grid, *(1,) * (len(self.dims) - len(self.grid)))


# -- layouts -----------------------------------------------------------------------------------


def block_extents(count: int, places: int, *, even: bool) -> tuple[range, ...]:
    """Return the global indices of each place of a block distribution.

    With *even*, sizes differ by at most 1, the larger ones first. Without, all places have the size
    of the first, and the last places get the rest (BLOCK of HPF, MPI_DISTRIBUTE_BLOCK).

    >>> block_extents(9, 4, even=True)
    (range(0, 3), range(3, 5), range(5, 7), range(7, 9))
    >>> block_extents(9, 4, even=False)
    (range(0, 3), range(3, 6), range(6, 9), range(9, 9))
    """
    if even:
        size, more = divmod(count, places)
        starts = [place * size + min(place, more) for place in range(places + 1)]
    else:
        size = -(-count // places)
        starts = [min(place * size, count) for place in range(places + 1)]
    return tuple(itertools.starmap(range, itertools.pairwise(starts)))


def cyclic_indices(count: int, places: int, place: int, block: int) -> Sequence[int]:
    """Return the global indices of one place of a (block-)cyclic distribution, in order.

    >>> cyclic_indices(10, 2, 1, 2)
    (2, 3, 6, 7)
    """
    starts = range(place * block, count, places * block)
    return tuple(index for start in starts for index in range(start, min(start + block, count)))


Extents = tuple[tuple[Sequence[int], ...], ...]
"""Global indices of each place along each dimension."""


def extents(layout: Layout) -> Iterator[Extents]:
    """Yield the possible meanings of a layout; block distributions have two."""
    dimensions = list(zip(layout.dims, layout.full_grid, strict=True))
    if layout.kind == "block":
        even = tuple(block_extents(*each, even=True) for each in dimensions)
        left = tuple(block_extents(*each, even=False) for each in dimensions)
        yield left
        if even != left:
            yield even
        return
    blocks = layout.block if layout.kind == "block-cyclic" else (1,)
    yield tuple(
        tuple(cyclic_indices(count, places, place, block) for place in range(places))
        for (count, places), block in zip(dimensions, each_dimension(blocks, layout), strict=True)
    )


def each_dimension(numbers: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """Return one number for each dimension; a single number is for all dimensions."""
    return numbers if len(numbers) == len(layout.dims) else numbers * len(layout.dims)


def shape_text(numbers: Sequence[int], sign: str = "x") -> str:
    """Return the text of a shape or of indices, such as ``3x4``."""
    return sign.join(map(str, numbers))
