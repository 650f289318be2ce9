"""Long arrays of numbers that differ: all elements count, and a NaN is not hidden."""

from __future__ import annotations

import math

import numpy

from pgdb.frontend.analysis.long_differences import (
    LongDifferences,
    distinct_wholes,
    long_differences,
)
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

LENGTH = 27_000


def differences(*arrays: tuple[str, numpy.ndarray]) -> LongDifferences:
    """Return the differences of the arrays of sets of ranks."""
    classes = []
    for number, (ranks, array) in enumerate(arrays):
        whole = Block(dtype=array.dtype.str, shape=array.shape, data=array.tobytes())
        record = Value(text="{0...}", digest=f"0x{number:x}", whole=whole)
        classes.append(EquivalenceClass[Record](RankSet.parse(ranks), record, ()))
    found = long_differences(classes)
    assert found is not None
    return found


def places(found: LongDifferences) -> dict[str, list[str]]:
    """Return the ranks of each text, by place."""
    return {place.path: [str(ranks) for ranks, _ in place.texts] for place in found.places}


def test_an_array_that_differs_in_each_element_is_summed_up_in_full() -> None:
    usual, other = numpy.arange(LENGTH, dtype=float), numpy.arange(LENGTH) + 0.5
    odd = other.copy()
    odd[25_000] = math.nan
    found = differences(("0,2", usual), ("1", odd), ("3", other))
    assert found.summary is not None
    assert (found.summary.low, found.summary.high) == (0, LENGTH - 0.5)
    assert str(found.summary.nan) == "1"
    assert places(found) == {"[25000]": ["0,2", "1", "3"]}


def test_one_rank_that_differs_is_a_place_beside_a_summary() -> None:
    usual, other = numpy.arange(LENGTH), numpy.arange(LENGTH) + 1
    usual[9000] = other[9000] = 5
    odd = usual.copy()
    odd[9000] = 7
    found = differences(("0-1", usual), ("2", odd), ("3-4", other))
    assert found.summary is not None and places(found) == {"[9000]": ["0-1,3-4", "2"]}


def test_a_rank_that_differs_all_over_has_no_places() -> None:
    usual = numpy.arange(LENGTH)
    found = differences(("0-2", usual), ("3", usual + 100_000))
    assert found.summary is not None and found.summary.high == LENGTH + 99_999
    assert not found.places


def test_a_long_run_is_summed_up_in_full_and_does_not_hide_a_nan() -> None:
    usual, other = numpy.zeros(LENGTH), numpy.zeros(LENGTH)
    other[100:6100] = numpy.arange(6000)
    odd = other.copy()
    odd[6000] = math.nan
    odd[5000] = -4
    found = differences(("0-1", usual), ("2", other), ("3", odd))
    assert found.summary is None
    first, second = found.places[0], found.places[1]
    assert first.path == "[6000]" and len(first.texts) == 3
    assert second.path == "[101]@5899" and second.summary is not None
    # Beyond the part in the text, ranks 2 and 3 differ: they are not one class.
    assert [str(ranks) for ranks, _ in second.texts] == ["0-1", "2", "3"]
    assert (second.summary.low, second.summary.high) == (-4, 5899)


def cut(ranks: str, text: str, whole: str) -> EquivalenceClass[Record]:
    """Return a value of which GDB has printed a part."""
    return EquivalenceClass(RankSet.parse(ranks), Value(text=text, whole=whole), ())


def test_short_values_that_gdb_has_cut_are_shown_in_full() -> None:
    zeros, seven = "'\\000' <repeats 399 times>", "'\\000' <repeats 299 times>"
    whole = f"{seven}, \"\\a\", '\\000' <repeats 99 times>"
    classes = (cut("0", zeros, zeros), cut("1", f"{seven}...", whole))
    assert list(distinct_wholes(classes).values()) == [zeros, whole]
    # Two texts that GDB has cut at one place.
    classes = (cut("0", seven, seven), cut("1", f"{seven}...", whole))
    assert list(distinct_wholes(classes).values()) == [seven, whole]
    long = f'{seven}, "{"ab" * 200}"'
    assert distinct_wholes((cut("0", zeros, zeros), cut("1", f"{seven}...", long))) == {}
    assert distinct_wholes((cut("0", zeros, zeros), cut("1", seven, seven))) == {}
