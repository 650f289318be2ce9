"""Numbers of one rank are reduced, and anything else is reported."""

from __future__ import annotations

import asyncio
from typing import cast

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.backend.gdb import queries, reduction
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.node.number_summary import NUMBER, sum_up
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.summary import Summary
from pgdb.merge.totals import summarize
from pgdb.overlay.messages import ReadBlock, Reduce
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record, Value


def reduce(*, low: float = 0.0, high: float = 0.0, bins: int = 0) -> Reduce:
    return Reduce(expression="u", low=low, high=high, bins=bins, limit_bytes=1000)


def block(values: object, dtype: str) -> Block:
    array = numpy.array(values, dtype)
    return Block(dtype=dtype, shape=array.shape, data=array.tobytes())


def one(record: Record, rank: int = 3, operation: Reduce | None = None) -> Summary:
    said, (column,) = sum_up(record, operation or reduce(), rank)
    assert said == NUMBER
    return column


@pytest.mark.parametrize("text", ["42", "-1.5e3", "0x10", "nan(0x8000000000000)", "-inf", "0"])
def test_a_number_is_summed_up(text: str) -> None:
    assert one(Value(text=text)) == summarize([(RankSet([3]), text)])


@pytest.mark.parametrize("text", ["{1, 2}", '"abc"', "<optimized out>", "RED", "(int *) 0x0", ""])
def test_what_is_no_number_is_an_error(text: str) -> None:
    said, columns = sum_up(Value(text=text), reduce(), 3)
    assert columns == ()
    assert said == Failure(message=f"u is no number: {text}")


def test_a_long_text_is_cut() -> None:
    said, _ = sum_up(Value(text="x" * 1000), reduce(), 3)
    assert isinstance(said, Failure) and len(said.message) < 100 and said.message.endswith("…")


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i4", "<i8", "<u8", "|u1", "|b1"])
def test_an_array_is_summed_up(dtype: str) -> None:
    found = one(block([1, 0, 1, 1], dtype))
    assert (found.count, found.low, found.high, found.mean) == (4, 0, 1, 0.75)
    assert found.at_low == found.at_high == RankSet([3])


def test_numbers_that_are_not_real_are_refused() -> None:
    said, columns = sum_up(block([1 + 2j], "<c16"), reduce(), 3)
    assert columns == ()
    assert isinstance(said, Failure) and "real(u)" in said.message


def test_a_failure_stays_one() -> None:
    failure = Failure(message="No symbol")
    assert sum_up(failure, reduce(), 3) == (failure, ())


def test_bins_are_filled_as_asked_for() -> None:
    operation = reduce(low=0.0, high=10.0, bins=5)
    for record in (block([0, 1, 2, 9.5, 10], "<f8"), block([0, 1, 2, 9, 10], "<i4")):
        bins = one(record, 3, operation).bins
        assert bins is not None and bins.counts == (2, 1, 0, 0, 2)
    single = one(Value(text="4"), 3, operation).bins
    assert single is not None and single.counts == (0, 0, 1, 0, 0)


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5), min_size=1, max_size=6))
def test_all_ranks_are_of_one_class_whatever_their_numbers(arrays: list[list[int]]) -> None:
    merger: Merger[Record] = Merger()
    for rank, values in enumerate(arrays):
        said, columns = sum_up(block(values, "<i4"), reduce(), rank)
        merger.add_classes((EquivalenceClass(RankSet([rank]), said, (), columns),))
    (found,) = merger.classes
    assert found.ranks == RankSet.range(0, len(arrays)) and found.record == NUMBER
    (column,) = found.columns
    everything = [value for values in arrays for value in values]
    assert column.count == len(everything)
    assert column.total.fraction == sum(everything)
    assert column.low == min(everything, default=None)


@pytest.mark.parametrize(
    ("said", "reads"),
    [
        (Value(text="7"), False),
        (Failure(message='No symbol "u" in current context.'), False),
        (Value(text="{0, 1, 2, 3...}"), True),
        # GDB's answer for an array of more than 64 KiB.
        (Failure(message="value requires 8000000 bytes, which is more than max-value-size"), True),
    ],
)
def test_memory_is_read_where_there_is_more_than_one_number(
    said: Record, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = block([1.0, 2.0], "<f8")

    async def evaluate(gdb: object, expression: str, *, settings: object) -> Record:
        assert (expression, settings) == ("u", ("print elements 4",))
        return said

    async def read_block(
        gdb: object, operation: ReadBlock, pid: int, *, is_summed_up: bool
    ) -> Block:
        assert is_summed_up
        assert (operation.expression, operation.limit_bytes, pid) == ("u", 1000, 17)
        return in_memory

    monkeypatch.setattr(queries, "evaluate_quietly", evaluate)
    monkeypatch.setattr(reduction, "read_block", read_block)
    found = asyncio.run(reduction.read_numbers(cast(GdbSession, None), "u", 1000, 17))
    assert found == (in_memory if reads else said)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_the_address_of_an_array_without_elements_is_no_number(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = Block(dtype="<i4", shape=shape, data=b"")

    async def evaluate(gdb: object, expression: str, *, settings: object) -> Record:
        return Value(text="0x55d0")

    async def read_block(*_: object, **__: object) -> Block:
        return empty

    monkeypatch.setattr(queries, "evaluate_quietly", evaluate)
    monkeypatch.setattr(reduction, "read_block", read_block)
    found = asyncio.run(reduction.read_numbers(cast(GdbSession, None), "u", 1000, 17))
    assert found == empty


@pytest.mark.parametrize(
    ("call", "dtype", "low", "high"),
    [
        ("abs(u)", "<f8", 1, 7), ("fabs(u)", "<f4", 1, 7), ("std::abs( u )", "<i4", 1, 7),
        ("cabs(u)", "<c16", 1, 7), ("creal(u)", "<c16", -7, 2), ("cimag(u)", "<c16", 0, 0),
    ],
)  # fmt: skip
def test_the_size_of_each_element(
    call: str, dtype: str, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_block(_: object, operation: ReadBlock, *rest: object, **more: object) -> Block:
        assert operation.expression == "u"
        return block([-1, 2, -7], dtype)

    monkeypatch.setattr(reduction, "read_block", read_block)
    found = asyncio.run(reduction.read_numbers(cast("GdbSession", None), call, 1000, 1))
    assert isinstance(found, Block)
    numbers = numpy.frombuffer(found.data, found.dtype)
    assert (numbers.min(), numbers.max()) == (low, high)
