"""One global array of the blocks that ranks hold of it. No I/O, no session.

A layout says which elements of the global array a rank's own array holds. Every element ends up
with the number that its rank gave, or is told to be missing; what several ranks say of the same
element is compared.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.limits import check_size
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["block", "cyclic", "block-cyclic"]
Place = tuple[Any, ...]
"""For each dimension of the global array a slice or an array of indices."""
MapFunction = Callable[[int, Any], Place]
"""Rank and its own array to the place of that in the global array."""

_MOST_CONFLICTS = 20
_MOST_PLACES = 1 << 24  # of a grid: more than any job has ranks


class Layout(msgspec.Struct, frozen=True):
    """How an array is distributed over a grid of ranks."""

    dims: tuple[int, ...]
    """Elements of the global array along each dimension."""
    grid: tuple[int, ...] = ()
    """Ranks along each dimension, 1 where none are given; not used with *function*."""
    kind: Kind = "block"
    block: tuple[int, ...] = (1,)
    """``block-cyclic``: elements of a block along each dimension."""
    halo: tuple[int, ...] = (0,)
    """``block``: copies of neighbours' elements that a rank holds at both ends of each dimension;
    a single number is for all dimensions."""
    order: Literal["C", "F", ""] = ""
    """Whether the last or the first index varies fastest in a rank's own array, where that was
    read as a flat row of numbers; empty for C."""
    rank_order: Literal["row", "column"] = "row"
    """Whether the last (as MPI_Cart_create has it) or the first dimension of the grid varies
    fastest with the rank."""
    function: MapFunction | None = None
    """Says where the elements of a rank belong, in place of grid, kind, block and halo."""

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise UsageError(f"dims {_times(self.dims)}: each must be at least 1")
        if max(self.dims) > sys.maxsize:
            raise UsageError(f"dims {_times(self.dims)}: no array has so many elements")
        if self.function is None:
            if not self.grid or min(self.grid) < 1:
                raise UsageError(f"grid {_times(self.grid)}: each must be at least 1")
            if len(self.grid) > len(self.dims):
                raise UsageError(
                    f"grid {_times(self.grid)} has more dimensions than dims {_times(self.dims)}"
                )
            if math.prod(self.grid) > _MOST_PLACES:
                raise UsageError(f"grid {_times(self.grid)}: no job has so many ranks")
        for name, numbers, least in (("block", self.block, 1), ("halo", self.halo, 0)):
            if len(numbers) not in (1, len(self.dims)) or min(numbers) < least:
                raise UsageError(
                    f"{name} {_times(numbers)}: one number, or one for each dimension, of at "
                    f"least {least}"
                )
        if any(self.halo) and self.kind != "block":
            raise UsageError(f"halo: the ranks of a {self.kind} layout have no neighbours")

    @property
    def full_grid(self) -> tuple[int, ...]:
        """The grid with 1 for the dimensions that are not distributed."""
        return (*self.grid, *(1,) * (len(self.dims) - len(self.grid)))


class Conflict(msgspec.Struct, frozen=True):
    """Ranks that do not say the same of one element."""

    index: tuple[int, ...]
    ranks: tuple[int, int]
    """The rank whose number was taken, and one that says something else."""
    values: tuple[Any, Any]
    in_halo: bool = False
    """Whether the second is a rank's copy of its neighbour's element."""


class GlobalArray(msgspec.Struct, frozen=True):
    """An array that was put together."""

    name: str
    values: NDArray[Any]
    """All elements; the missing ones are NaN, or 0 where there is no NaN."""
    owner: NDArray[Any]
    """The rank that gave each element, -1 where none did."""
    conflicts: tuple[Conflict, ...] = ()
    """The first elements of which ranks do not say the same."""
    conflict_count: int = 0
    """How many there are: elements outside of halos, and elements of halos."""

    @property
    def missing(self) -> NDArray[Any]:
        """True for every element that no rank gave."""
        return self.owner < 0

    @property
    def missing_count(self) -> int:
        """Number of elements that no rank gave."""
        return int(self.missing.sum())


def assemble(
    by_rank: Mapping[int, NDArray[Any]],
    asked: RankSet,
    layout: Layout,
    *,
    name: str = "array",
    limit_bytes: int = sys.maxsize,
) -> GlobalArray:
    """Put the global array together of what ranks have given.

    *asked* are the ranks of the grid: where they are as many as it has places they are taken in
    their order, else every rank is its own place.

    :raises CommandError: if a rank's array does not fit; its message has both shapes; if the
        whole is more than *limit_bytes*, or than there is memory for.
    """
    if not by_rank:
        raise CommandError(f"{name}: no rank has given any numbers")
    try:
        return _assembled(by_rank, asked, layout, name, limit_bytes)
    except MemoryError:
        raise CommandError(
            f"{name}: there is no memory for {_times(layout.dims)} elements; check the dims"
        ) from None


def _assembled(
    by_rank: Mapping[int, NDArray[Any]],
    asked: RankSet,
    layout: Layout,
    name: str,
    limit_bytes: int,
) -> GlobalArray:
    import numpy

    kind = numpy.result_type(*(values.dtype for values in by_rank.values()))
    size_bytes = math.prod(layout.dims) * kind.itemsize
    what = f"{name} as an array of {_times(layout.dims)}"
    places: dict[int, tuple[int, ...]] = {}
    sizes: Extents = ()
    # That parts do not fit says more than that the whole is too large; but the indices of a cyclic
    # layout are written out.
    if layout.kind != "block":
        check_size(what, size_bytes, limit_bytes, less="or check the dims")
    if layout.function is None:
        places = _places_of_ranks(by_rank, asked, layout)
        sizes = _fitting(by_rank, places, layout, name)
    check_size(what, size_bytes, limit_bytes, less="or check the dims")
    fill = numpy.nan if kind.kind in "fc" else 0
    try:
        values = numpy.full(layout.dims, fill, dtype=kind)
        owner = numpy.full(layout.dims, -1, dtype=numpy.int64)
    except ValueError as error:  # more dimensions or elements than NumPy can have
        raise CommandError(f"{what}: {error}") from None
    building = _Building(values, owner)
    halos: list[tuple[int, Place, NDArray[Any]]] = []
    for rank, own in by_rank.items():
        if layout.function is not None:
            building.add(rank, _mapped(layout, rank, own, name, owner), own)
            continue
        shaped = _shaped(own, _local_shape(places[rank], sizes, layout), layout)
        inner, outer = _split(rank, shaped, places[rank], sizes, layout)
        building.add(rank, *inner)
        halos += outer
    for rank, where, own in halos:
        building.compare(rank, where, own, in_halo=True)
    return GlobalArray(
        name=name,
        values=values,
        owner=owner,
        conflicts=tuple(building.conflicts),
        conflict_count=building.conflict_count,
    )


class _Building:
    """A global array that is being put together."""

    def __init__(self, values: NDArray[Any], owner: NDArray[Any]) -> None:
        self._values = values
        self._owner = owner
        self.conflicts: list[Conflict] = []
        self.conflict_count = 0

    def add(self, rank: int, where: Place, own: NDArray[Any]) -> None:
        """Put a rank's numbers in their place; what another has given already stays."""
        if not own.size:
            return
        self.compare(rank, where, own, in_halo=False)
        free = self._owner[where] < 0
        self._values[where] = _choose(free, own, self._values[where])
        self._owner[where] = _choose(free, rank, self._owner[where])

    def compare(self, rank: int, where: Place, own: NDArray[Any], *, in_halo: bool) -> None:
        """Note where a rank says something else than the owner of an element."""
        there, owner = self._values[where], self._owner[where]
        differs = (owner >= 0) & ~_same(there, own)
        count = int(differs.sum())
        self.conflict_count += count
        if not count or len(self.conflicts) >= _MOST_CONFLICTS:
            return
        import numpy

        shape = self._owner.shape
        numbers = [
            numpy.broadcast_to(numpy.arange(extent).reshape(-1, *(1,) * behind), shape)[where]
            for behind, extent in enumerate(reversed(shape))
        ][::-1]
        for at in map(tuple, numpy.argwhere(differs)[:_MOST_CONFLICTS]):
            self.conflicts.append(
                Conflict(
                    index=tuple(int(each[at]) for each in numbers),
                    ranks=(int(owner[at]), rank),
                    values=(there[at].item(), own[at].item()),
                    in_halo=in_halo,
                )
            )


def _choose(free: NDArray[Any], new: Any, old: NDArray[Any]) -> NDArray[Any]:
    import numpy

    return numpy.where(free, new, old)


def _same(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return where two arrays are equal; a NaN is equal to a NaN."""
    equal: NDArray[Any] = (one == other) | ((one != one) & (other != other))
    return equal


# -- layouts -----------------------------------------------------------------------------------


def block_extents(count: int, places: int, *, even: bool) -> tuple[range, ...]:
    """Return the global indices of each place of a block distribution.

    With *even* sizes differ by 1 at most, the larger ones first; else all have the size of the
    first and the last ones get what is left (HPF's BLOCK, MPI_DISTRIBUTE_BLOCK).

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
"""For each dimension and each place along it, the global indices there."""


def _extents(layout: Layout) -> Iterator[Extents]:
    """Yield what a layout can mean; block distributions are made in two ways."""
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
        for (count, places), block in zip(dimensions, _each(blocks, layout), strict=True)
    )


def _fitting(
    by_rank: Mapping[int, NDArray[Any]],
    places: Mapping[int, tuple[int, ...]],
    layout: Layout,
    name: str,
) -> Extents:
    """Return what the layout must mean, since the ranks' arrays are of these sizes.

    :raises CommandError: if it can mean nothing that they fit.
    """
    expected: list[tuple[int, ...]] = []
    at_fault: list[int] = []
    for sizes in _extents(layout):
        wrong = [
            rank
            for rank, own in by_rank.items()
            if not _fits(own, _local_shape(places[rank], sizes, layout))
        ]
        if not wrong:
            return sizes
        at_fault = at_fault or wrong
        rank = at_fault[0]
        expected.append(_local_shape(places[rank], sizes, layout))
    rank = at_fault[0]
    shape = by_rank[rank].shape
    words = dict.fromkeys(map(_times, expected))
    more = {a - b for a, b in zip(shape, expected[0], strict=False)}
    hint = ""
    if len(shape) == len(layout.dims) and len(more) == 1 and (width := more.pop()) > 0:
        hint = f"; with a halo of {width // 2 + layout.halo[0]} it would" if width % 2 == 0 else ""
    where = _times(places[rank], ",")
    halo = f" with a halo of {_times(layout.halo, ',')}" if any(layout.halo) else ""
    raise CommandError(
        f"{name} does not fit: {' or '.join(words)} elements are expected of "
        f"rank {rank} at ({where}) of the {_times(layout.full_grid)} grid{halo}, and it has "
        f"{_times(shape) or 'a single one'} (ranks that do not fit: [{RankSet(at_fault)}]){hint}"
    )


def _places_of_ranks(
    by_rank: Mapping[int, NDArray[Any]], asked: RankSet, layout: Layout
) -> dict[int, tuple[int, ...]]:
    """Return the coordinates of each rank in the grid."""
    grid = layout.full_grid
    count = math.prod(grid)
    numbers = {rank: number for number, rank in enumerate(asked)} if len(asked) == count else {}
    if not numbers and (outside := RankSet(rank for rank in by_rank if rank >= count)):
        raise CommandError(
            f"grid {_times(grid)} has {count} places; there is none for [{outside}] "
            "('proc SET decompose …' names the ranks of the grid)"
        )
    found = {}
    for rank in by_rank:
        rest = numbers.get(rank, rank)
        place = [0] * len(grid)
        backwards = layout.rank_order == "row"
        for dimension in sorted(range(len(grid)), reverse=backwards):
            rest, place[dimension] = divmod(rest, grid[dimension])
        found[rank] = tuple(place)
    return found


def _local_shape(place: tuple[int, ...], sizes: Extents, layout: Layout) -> tuple[int, ...]:
    halo = _each(layout.halo, layout)
    return tuple(
        len(sizes[dimension][at]) + 2 * halo[dimension] for dimension, at in enumerate(place)
    )


def _fits(own: NDArray[Any], shape: tuple[int, ...]) -> bool:
    return own.shape == shape or (own.ndim <= 1 and own.size == math.prod(shape))


def _shaped(own: NDArray[Any], shape: tuple[int, ...], layout: Layout) -> NDArray[Any]:
    return own if own.shape == shape else own.reshape(shape, order=layout.order or "C")


Cut = tuple[Place, "NDArray[Any]"]


def _split(
    rank: int,
    own: NDArray[Any],
    place: tuple[int, ...],
    sizes: Extents,
    layout: Layout,
) -> tuple[Cut, list[tuple[int, Place, NDArray[Any]]]]:
    """Return a rank's own elements, and the faces of its halo that lie in the global array.

    Edges and corners of a halo are left out: stencils without diagonals leave them unset.
    """
    halo = _each(layout.halo, layout)
    mine = [sizes[dimension][at] for dimension, at in enumerate(place)]
    core = [slice(width, width + len(each)) for width, each in zip(halo, mine, strict=True)]
    inner = (_index(mine), own[tuple(core)])
    faces = []
    for dimension, width in enumerate(halo):
        if not width or not all(map(len, mine)):
            continue
        first, last = mine[dimension][0], mine[dimension][-1] + 1
        low = range(max(0, first - width), first)
        high = range(last, min(layout.dims[dimension], last + width))
        cuts = (
            (low, slice(width - len(low), width)),
            (high, slice(width + last - first, width + last - first + len(high))),
        )
        for there, here in cuts:
            if there:
                where, local = list(mine), list(core)
                where[dimension], local[dimension] = there, here
                faces.append((rank, _index(where), own[tuple(local)]))
    return inner, faces


def _index(indices: Sequence[Sequence[int]]) -> Place:
    """Return what addresses the block of all combinations of indices."""
    if all(isinstance(each, range) for each in indices):
        return tuple(slice(each.start, each.stop) for each in indices if isinstance(each, range))
    import numpy

    return numpy.ix_(*(numpy.asarray(each, dtype=numpy.int64) for each in indices))


def _mapped(layout: Layout, rank: int, own: NDArray[Any], name: str, owner: NDArray[Any]) -> Place:
    """Return where a function of the user's puts a rank's elements.

    :raises CommandError: if it fails, or says a place that does not fit.
    """
    import numpy

    assert layout.function is not None
    try:
        said = layout.function(rank, own)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's own code
        raise CommandError(
            f"{name}: the map failed for rank {rank}: {type(error).__name__}: {error}"
        ) from None
    where = said if isinstance(said, tuple) else (said,)
    if len(where) != len(layout.dims):
        raise CommandError(
            f"{name}: the map gave {len(where)} indices for rank {rank}; the array has "
            f"{len(layout.dims)} dimensions"
        )
    arrays = [numpy.asarray(each) for each in where if not isinstance(each, slice)]
    if arrays and len(arrays) == len(where) and all(each.ndim == 1 for each in arrays):
        # One row of indices for each dimension addresses the block of all combinations, unless
        # they go along with a flat row of numbers.
        if own.ndim == len(where) > 1:
            where = numpy.ix_(*arrays)
    for each, extent in zip(where, layout.dims, strict=True):
        if not isinstance(each, slice) and numpy.asarray(each).dtype.kind not in "iu":
            raise CommandError(f"{name}: the map gave {each!r} as indices for rank {rank}")
        if not isinstance(each, slice) and numpy.size(each) and numpy.min(each) < 0:
            raise CommandError(f"{name}: the map gave a negative index for rank {rank}")
        if isinstance(each, slice) and (each.stop or 0) > extent:
            raise CommandError(
                f"{name}: the map gave indices up to {each.stop - 1} of {extent} for rank {rank}"
            )
    try:
        shape = numpy.shape(owner[where])
    except (IndexError, TypeError, ValueError) as error:
        raise CommandError(f"{name}: the map's place for rank {rank}: {error}") from None
    if shape != own.shape:
        raise CommandError(
            f"{name}: the map's place for rank {rank} has {_times(shape)} elements, and the rank "
            f"has {_times(own.shape)}"
        )
    return where


def _each(numbers: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    return numbers if len(numbers) == len(layout.dims) else numbers * len(layout.dims)


def _times(numbers: Sequence[int], sign: str = "x") -> str:
    return sign.join(map(str, numbers))
