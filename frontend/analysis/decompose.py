"""One global array, assembled from the arrays of the ranks. No I/O, no session.

A layout defines which elements of the global array a rank holds. Every element is the number of its
rank, or is marked as missing. The values of one element on several ranks are compared.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.analysis.layouts import (
    Extents,
    Layout,
    Place,
    each_dimension,
    extents,
    shape_text,
)
from pgdb.frontend.analysis.limits import check_size
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_CONFLICTS = 20


class Conflict(msgspec.Struct, frozen=True):
    """Two ranks with different values for one element."""

    index: tuple[int, ...]
    ranks: tuple[int, int]
    """The rank whose number is in the array, and the rank with another value."""
    values: tuple[Any, Any]
    in_halo: bool = False
    """Whether the second value is a copy of a neighbour's element, in a halo."""


class GlobalArray(msgspec.Struct, frozen=True):
    """An assembled array."""

    name: str
    values: NDArray[Any]
    """All elements; missing ones are NaN, or 0 if the element type has no NaN."""
    owner: NDArray[Any]
    """Rank that gave each element; -1 for missing elements."""
    conflicts: tuple[Conflict, ...] = ()
    """The first conflicts."""
    conflict_count: int = 0
    """Number of conflicts, outside and inside of halos."""

    @property
    def missing(self) -> NDArray[Any]:
        """Mask of the missing elements."""
        return self.owner < 0

    @property
    def missing_count(self) -> int:
        """Number of missing elements."""
        return int(self.missing.sum())


def assemble(
    by_rank: Mapping[int, NDArray[Any]],
    asked: RankSet,
    layout: Layout,
    *,
    name: str = "array",
    limit_bytes: int = sys.maxsize,
) -> GlobalArray:
    """Assemble the global array from the arrays of the ranks.

    *asked* are the ranks of the grid. If the grid has as many places as *asked* has ranks, the
    ranks fill the places in order; otherwise the rank is the number of the place.

    :raises CommandError: if a rank's array does not fit (the message has both shapes), or if the
        global array is larger than *limit_bytes* or than the memory.
    """
    if not by_rank:
        raise CommandError(f"{name}: no rank has given any numbers")
    try:
        return _assembled(by_rank, asked, layout, name, limit_bytes)
    except MemoryError:
        raise CommandError(
            f"{name}: there is no memory for {shape_text(layout.dims)} elements; check the dims"
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
    what = f"{name} as an array of {shape_text(layout.dims)}"
    places: dict[int, tuple[int, ...]] = {}
    sizes: Extents = ()
    # An error about shapes is more useful than an error about size. But a cyclic layout lists all
    # its indices, so that its size is checked first.
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
    """A global array during assembly."""

    def __init__(self, values: NDArray[Any], owner: NDArray[Any]) -> None:
        self._values = values
        self._owner = owner
        self.conflicts: list[Conflict] = []
        self.conflict_count = 0

    def add(self, rank: int, where: Place, own: NDArray[Any]) -> None:
        """Put a rank's numbers in their place; elements with an owner stay unchanged."""
        if not own.size:
            return
        self.compare(rank, where, own, in_halo=False)
        free = self._owner[where] < 0
        self._values[where] = _choose(free, own, self._values[where])
        self._owner[where] = _choose(free, rank, self._owner[where])

    def compare(self, rank: int, where: Place, own: NDArray[Any], *, in_halo: bool) -> None:
        """Record where a rank's values differ from the owner's."""
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
    """Return where two arrays are equal; a NaN equals a NaN."""
    equal: NDArray[Any] = (one == other) | ((one != one) & (other != other))
    return equal


def _fitting(
    by_rank: Mapping[int, NDArray[Any]],
    places: Mapping[int, tuple[int, ...]],
    layout: Layout,
    name: str,
) -> Extents:
    """Return the extents of the layout that match the sizes of the ranks' arrays.

    :raises CommandError: if no meaning of the layout matches.
    """
    expected: list[tuple[int, ...]] = []
    at_fault: list[int] = []
    for sizes in extents(layout):
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
    words = dict.fromkeys(map(shape_text, expected))
    more = {a - b for a, b in zip(shape, expected[0], strict=False)}
    hint = ""
    if len(shape) == len(layout.dims) and len(more) == 1 and (width := more.pop()) > 0:
        hint = f"; with a halo of {width // 2 + layout.halo[0]} it would" if width % 2 == 0 else ""
    where = shape_text(places[rank], ",")
    halo = f" with a halo of {shape_text(layout.halo, ',')}" if any(layout.halo) else ""
    raise CommandError(
        f"{name} does not fit: {' or '.join(words)} elements are expected of "
        f"rank {rank} at ({where}) of the {shape_text(layout.full_grid)} grid{halo}, and it has "
        f"{shape_text(shape) or 'a single one'} (ranks that do not fit: "
        f"[{RankSet(at_fault)}]){hint}"
    )


def _places_of_ranks(
    by_rank: Mapping[int, NDArray[Any]], asked: RankSet, layout: Layout
) -> dict[int, tuple[int, ...]]:
    """Return the grid coordinates of each rank."""
    grid = layout.full_grid
    count = math.prod(grid)
    numbers = {rank: number for number, rank in enumerate(asked)} if len(asked) == count else {}
    if not numbers and (outside := RankSet(rank for rank in by_rank if rank >= count)):
        raise CommandError(
            f"grid {shape_text(grid)} has {count} places; there is none for [{outside}] "
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
    halo = each_dimension(layout.halo, layout)
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
    """Return a rank's own elements, and the faces of its halo inside the global array.

    Edges and corners of a halo are left out: stencils without diagonals do not set them.
    """
    halo = each_dimension(layout.halo, layout)
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
    """Return an index of the block of all combinations of *indices*."""
    if all(isinstance(each, range) for each in indices):
        return tuple(slice(each.start, each.stop) for each in indices if isinstance(each, range))
    import numpy

    return numpy.ix_(*(numpy.asarray(each, dtype=numpy.int64) for each in indices))


def _mapped(layout: Layout, rank: int, own: NDArray[Any], name: str, owner: NDArray[Any]) -> Place:
    """Return the place of a rank's elements from the user's function.

    :raises CommandError: if the function fails, or returns a place that does not fit.
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
        # One row of indices for each dimension addresses the block of all combinations, except
        # together with a flat row of numbers.
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
            f"{name}: the map's place for rank {rank} has {shape_text(shape)} elements, and "
            f"the rank has {shape_text(own.shape)}"
        )
    return where
