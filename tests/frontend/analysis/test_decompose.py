"""Global arrays: every layout split into blocks and assembled again."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.decompose import Conflict, GlobalArray, assemble
from pgdb.frontend.analysis.layouts import Kind, Layout, block_extents, cyclic_indices
from pgdb.ranks import RankSet

Array = numpy.ndarray[Any, Any]


def whole_of(dims: tuple[int, ...]) -> Array:
    return numpy.arange(float(math.prod(dims))).reshape(dims)


def coordinates(rank: int, grid: tuple[int, ...], order: str) -> tuple[int, ...]:
    """Return the place of a rank in NumPy's order."""
    found = numpy.unravel_index(rank, grid, order="C" if order == "row" else "F")
    return tuple(int(each) for each in found)


def take_apart(
    whole: Array,
    grid: tuple[int, ...],
    kind: Kind,
    *,
    block: int = 1,
    even: bool = False,
    halo: int = 0,
    rank_order: str = "row",
) -> dict[int, Array]:
    """Return the block of each rank, computed in another way than the assembly."""
    parts = {}
    padded = numpy.pad(whole, halo, constant_values=-1.0)
    for rank in range(math.prod(grid)):
        place = coordinates(rank, grid, rank_order)
        indices = []
        for extent, count, at in zip(whole.shape, grid, place, strict=True):
            if kind == "block":
                size = -(-extent // count)
                owners = [
                    at_index
                    for at_index in range(extent)
                    if (
                        next(
                            p
                            for p in range(count)
                            if at_index < (p + 1) * (extent // count) + min(p + 1, extent % count)
                        )
                        if even
                        else at_index // size
                    )
                    == at
                ]
            else:
                step = block if kind == "block-cyclic" else 1
                owners = [i for i in range(extent) if (i // step) % count == at]
            if halo:
                first = owners[0] if owners else extent
                owners = list(range(first, first + len(owners) + 2 * halo))
            indices.append(numpy.array(owners, dtype=int))
        parts[rank] = padded[numpy.ix_(*indices)] if halo else whole[numpy.ix_(*indices)]
    return parts


def put(parts: dict[int, Array], layout: Layout) -> GlobalArray:
    return assemble(parts, RankSet(range(math.prod(layout.full_grid))), layout, name="u")


@given(
    dims=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    grid=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    kind=st.sampled_from(["block", "cyclic", "block-cyclic"]),
    block=st.integers(1, 3),
    even=st.booleans(),
    rank_order=st.sampled_from(["row", "column"]),
    flat=st.booleans(),
)
def test_every_layout_comes_back(
    dims: list[int],
    grid: list[int],
    kind: Kind,
    block: int,
    even: bool,
    rank_order: Any,
    flat: bool,
) -> None:
    whole = whole_of(tuple(dims))
    places = tuple(grid[: len(dims)])
    parts = take_apart(whole, places, kind, block=block, even=even, rank_order=rank_order)
    if flat:
        parts = {rank: own.ravel() for rank, own in parts.items()}
    layout = Layout(dims=tuple(dims), grid=places, kind=kind, block=(block,), rank_order=rank_order)
    found = put(parts, layout)
    if not flat:  # the size alone may fit two distributions
        numpy.testing.assert_array_equal(found.values, whole)
    assert (found.missing_count, found.conflict_count) == (0, 0)
    assert found.values.shape == whole.shape


@pytest.mark.parametrize("even", [True, False])
def test_halos_are_cut_off(even: bool) -> None:
    whole = whole_of((11, 9))
    parts = take_apart(whole, (2, 3), "block", even=even, halo=2)
    found = put(parts, Layout(dims=(11, 9), grid=(2, 3), halo=(2,)))
    numpy.testing.assert_array_equal(found.values, whole)
    assert found.conflict_count == 0


def test_stale_halos_are_reported() -> None:
    whole = whole_of((6, 6))
    parts = take_apart(whole, (2, 2), "block", halo=1)
    parts[2][0, 2] = 99.0  # its copy of row 2, column 1, which is rank 0's
    parts[2][0, 0] = 98.0  # a corner: left out
    found = put(parts, Layout(dims=(6, 6), grid=(2, 2), halo=(1,)))
    numpy.testing.assert_array_equal(found.values, whole)
    assert found.conflicts == (Conflict((2, 1), (0, 2), (13.0, 99.0), in_halo=True),)


def test_missing_ranks_leave_gaps() -> None:
    whole = whole_of((4, 6))
    parts = take_apart(whole, (2, 2), "block")
    del parts[1]
    found = put(parts, Layout(dims=(4, 6), grid=(2, 2)))
    assert found.missing_count == 6
    assert found.missing[:2, 3:].all()
    assert numpy.isnan(found.values[:2, 3:]).all()
    counts = put(
        {rank: own.astype(int) for rank, own in parts.items()}, Layout(dims=(4, 6), grid=(2, 2))
    )
    assert counts.values.dtype == int
    assert (counts.values[:2, 3:] == 0).all()


def test_order_of_flat_blocks() -> None:
    whole = whole_of((4, 6))
    parts = take_apart(whole, (2, 2), "block")
    flat = {rank: own.ravel(order="F") for rank, own in parts.items()}
    found = put(flat, Layout(dims=(4, 6), grid=(2, 2), order="F"))
    numpy.testing.assert_array_equal(found.values, whole)


def test_grid_of_fewer_dimensions_and_of_some_ranks() -> None:
    whole = whole_of((4, 6, 2))
    parts = take_apart(whole, (2, 3, 1), "block")
    numpy.testing.assert_array_equal(put(parts, Layout(dims=(4, 6, 2), grid=(2, 3))).values, whole)
    moved = {rank + 10: own for rank, own in parts.items()}
    layout = Layout(dims=(4, 6, 2), grid=(2, 3))
    found = assemble(moved, RankSet(moved), layout)
    numpy.testing.assert_array_equal(found.values, whole)
    assert set(found.owner.ravel()) == set(moved)
    with pytest.raises(CommandError, match=r"2x3x1 has 6 places; there is none for \[10-15\]"):
        assemble(moved, RankSet(range(20)), layout)


def test_what_does_not_fit_says_both_shapes() -> None:
    parts = take_apart(whole_of((11, 9)), (2, 2), "block")
    parts[3] = parts[3][:-1]
    with pytest.raises(CommandError) as caught:
        put(parts, Layout(dims=(11, 9), grid=(2, 2)))
    assert str(caught.value) == (
        "u does not fit: 5x4 elements are expected of rank 3 at (1,1) of the 2x2 grid, and it has "
        "4x4 (ranks that do not fit: [3])"
    )
    with pytest.raises(CommandError, match="6x6 elements are expected of rank 0"):
        put({0: numpy.zeros((9, 9))}, Layout(dims=(7, 7), grid=(2, 2), halo=(1,)))
    with pytest.raises(CommandError, match=r"\[0\]\); with a halo of 2 it would\Z"):
        put({0: numpy.zeros((8, 8))}, Layout(dims=(8, 8), grid=(2, 2)))
    with pytest.raises(CommandError, match="it has a single one"):
        put({0: numpy.zeros(())}, Layout(dims=(7, 7), grid=(2, 2)))
    with pytest.raises(CommandError, match="no rank has given"):
        put({}, Layout(dims=(7, 7), grid=(2, 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # Shapes are checked first: a higher limit would not help.
        ({"dims": (10**11, 10**5), "grid": (4, 1)}, "does not fit: 25000000000x100000 elements"),
        ({"dims": (10**11,), "grid": (4,), "kind": "cyclic"}, "than the memory of this host"),
        ({"dims": (10**11, 10**5), "function": lambda rank, own: 1}, "than the memory of this"),
        ({"dims": (5, 4), "function": lambda rank, own: 1}, "is 160 bytes, more than array-limit"),
        ({"dims": (1,) * 99, "function": lambda rank, own: 1}, "maximum supported dimension"),
    ],
)
def test_too_large_a_whole(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        assemble({0: numpy.zeros((2, 2))}, RankSet([0]), Layout(**changes), limit_bytes=100)


def test_no_memory_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> Array:
        raise MemoryError

    monkeypatch.setattr(numpy, "full", refuse)
    with pytest.raises(CommandError, match="there is no memory for 2x2 elements; check the dims"):
        put({0: numpy.zeros((2, 2))}, Layout(dims=(2, 2), grid=(1,)))


def test_maps() -> None:
    whole = whole_of((4, 6))

    def rows(rank: int, own: Array) -> tuple[Any, ...]:
        return slice(2 * rank, 2 * rank + 2), slice(None)

    layout = Layout(dims=(4, 6), function=rows)
    found = put({0: whole[:2], 1: whole[2:]}, layout)
    numpy.testing.assert_array_equal(found.values, whole)

    every_second = Layout(dims=(4, 6), function=lambda rank, own: (range(4), range(rank, 6, 2)))
    found = put({0: whole[:, ::2], 1: whole[:, 1::2]}, every_second)
    numpy.testing.assert_array_equal(found.values, whole)

    points = Layout(dims=(4, 6), function=lambda rank, own: ([0, 1, 2], [5, 4, 3]))
    found = put({3: numpy.array([1.0, 2.0, 3.0])}, points)
    assert found.values[1, 4] == 2.0
    assert found.owner[2, 3] == 3
    assert found.missing_count == 21

    one = Layout(dims=(4,), function=lambda rank, own: rank)
    assert put({2: numpy.array(7)}, one).values.tolist() == [0, 0, 7, 0]


def test_overlaps_that_disagree() -> None:
    layout = Layout(dims=(5,), function=lambda rank, own: slice(rank, rank + 3))
    found = put({0: numpy.array([1, 2, 3]), 2: numpy.array([3, 4, 5])}, layout)
    assert found.values.tolist() == [1, 2, 3, 4, 5]
    assert found.conflict_count == 0
    found = put({0: numpy.array([1, 2, 3]), 2: numpy.array([9, 4, 5])}, layout)
    assert found.values.tolist() == [1, 2, 3, 4, 5]
    assert found.conflicts == (Conflict((2,), (0, 2), (3, 9)),)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rank, own: sys.exit("x"), "the map failed for rank 0: SystemExit: x"),
        (lambda rank, own: 1 / 0, "the map failed for rank 0: ZeroDivisionError"),
        (lambda rank, own: (slice(3),), "gave 1 indices for rank 0; the array has 2"),
        (lambda rank, own: ([-1], [0]), "negative index"),
        (lambda rank, own: ([9], [0]), "index 9 is out of bounds"),
        (lambda rank, own: (slice(0, 9), slice(0, 1)), "up to 8 of 4"),
        (lambda rank, own: (slice(0, 1), slice(0, 1)), "1x1 elements, and the rank has 2x3"),
        (lambda rank, own: ("a", "b"), "gave 'a' as indices"),
        (lambda rank, own: None, "gave 1 indices for rank 0"),
    ],
)
def test_maps_that_are_wrong(function: Any, message: str) -> None:
    layout = Layout(dims=(4, 6), function=function)
    with pytest.raises(CommandError, match=message):
        put({0: numpy.zeros((2, 3))}, layout)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dims": ()}, "dims"),
        ({"dims": (0, 3)}, "dims 0x3"),
        ({"dims": (10**20, 3)}, "no array has so many elements"),
        ({"grid": ()}, "grid"),
        ({"grid": (10**9, 1)}, "no job has so many ranks"),
        ({"grid": (1, 2, 3)}, "more dimensions"),
        ({"halo": (1, 2, 3)}, "halo"),
        ({"halo": (-1,)}, "halo"),
        ({"block": (0,)}, "block"),
        ({"kind": "cyclic", "halo": (1,)}, "no neighbours"),
    ],
)
def test_layouts_that_are_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Layout(**{"dims": (4, 6), "grid": (2, 2), **changes})


@given(st.integers(0, 30), st.integers(1, 8), st.booleans())
def test_blocks_cover_all(count: int, places: int, even: bool) -> None:
    extents = block_extents(count, places, even=even)
    assert [index for each in extents for index in each] == list(range(count))
    assert len(extents) == places
    cyclic = [cyclic_indices(count, places, place, 2) for place in range(places)]
    assert sorted(index for each in cyclic for index in each) == list(range(count))
