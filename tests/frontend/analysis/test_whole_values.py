"""Values in full: numbers compared exactly, values read again only where they differ."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Sequence

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pgdb.frontend.analysis import block_values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.array_screen import passing_ranks, screen
from pgdb.frontend.analysis.assertions import Check, check
from pgdb.frontend.analysis.closeness import Closeness
from pgdb.frontend.analysis.comparing import compare, to_look_at
from pgdb.frontend.analysis.conditions import parse as parse_condition
from pgdb.frontend.analysis.values import exact_of
from pgdb.frontend.analysis.whole_values import look
from pgdb.frontend.show.text import comparison_text, render
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.merge.summary import Summary
from pgdb.merge.totals import merge, summarize_array
from pgdb.overlay.messages import AnyOperation, Evaluate, ReadBlock, Reduce
from pgdb.printed_parts import has_dots, is_cut
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value, Variable, Variables, Various

EXACT = Closeness(0.0, 0.0)
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
doubles = st.floats(allow_nan=True, allow_infinity=True)


def block(values: Sequence[object] | NDArray[numpy.generic], dtype: str = "<f8") -> Block:
    array = numpy.array(values, dtype)
    return Block(dtype=dtype, shape=array.shape, data=array.tobytes())


class Ranks:
    """Ranks with an array each, of which GDB prints the first element only."""

    def __init__(self, *arrays: Sequence[float]) -> None:
        self.arrays = [numpy.array(each, "<f8") for each in arrays]
        self.asked: list[tuple[str, int]] = []
        self.read: set[str] = set()
        self.set = RankSet.range(0, len(arrays))

    def value(self, rank: int) -> Value:
        array = self.arrays[rank]
        return Value(
            text=f"{{{array[0]:.17g}...}}", digest=f"0x{hash(array.tobytes()) & 2**64 - 1:x}"
        )

    async def ask(
        self,
        command: str,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
    ) -> Answer:
        self.asked.append((type(operation).__name__, len(ranks)))
        merger: Merger[Record] = Merger()
        for rank in ranks:
            whole = block(self.arrays[rank])
            columns: tuple[Summary, ...] = ()
            record: Record
            match operation:
                case Evaluate(whole=True):
                    header = Block(dtype=whole.dtype, shape=whole.shape, data=b"")
                    value = self.value(rank)
                    record = Value(text=value.text, digest=value.digest, whole=header)
                case Evaluate():
                    record = self.value(rank)
                case ReadBlock(expression=expression, start=start):
                    self.read.add(expression)
                    data = whole.data if not start else b""
                    record = Block(dtype=whole.dtype, shape=whole.shape, data=data, start=0)
                case Reduce():
                    record = Various(template=Value(text="\ufff9"))
                    columns = (summarize_array(rank, self.arrays[rank]),)
                case _:
                    raise AssertionError(operation)
            merger.add(RankSet([rank]), record, (), columns)
        return Answer(command=command, ranks=ranks, classes=merger.classes)

    async def evaluate(self, expression: str, ranks: RankSet) -> Answer:
        return await self.ask(f"print {expression}", Evaluate(expression=expression), ranks)

    async def look(self, answer: Answer) -> Answer:
        return await look(answer, self.ask, limit_bytes=1 << 30)

    def check(self, condition: str) -> Check:
        async def screened(answer: Answer, comparisons: Sequence[tuple[str, str]]) -> RankSet:
            return await screen(answer, comparisons, self.ask, limit_bytes=1 << 30)

        async def recall(answer: Answer, ranks: RankSet) -> Answer:
            return await self.ask(answer.command, Evaluate(expression="x"), ranks)

        requirement = parse_condition(condition)
        return asyncio.run(
            check(requirement, self.set, self.evaluate, recall, look=self.look, screen=screened)
        )


def test_signs_of_a_part() -> None:
    assert has_dots("{1, 2...}") and has_dots('"abc"...') and has_dots("{a = {...}}")
    assert not has_dots('"..."') and not has_dots("<f(int, ...)>") and not has_dots("{1, 2}")
    assert is_cut("{{1...}, {2}}") and is_cut('{s = 0x10 "a"..., n = 1}') and is_cut("((1) ...)")
    assert not is_cut("{int (const char *, ...)} 0x401136 <main>")


@given(st.lists(st.tuples(doubles, doubles), min_size=1, max_size=60))
def test_differences_are_those_of_the_numbers(pairs: list[tuple[float, float]]) -> None:
    one, other = (numpy.array(each) for each in zip(*pairs, strict=True))
    found = block_values.differing(one, other, EXACT).tolist()
    assert found == [at for at, (a, b) in enumerate(pairs) if a != b and not (a != a and b != b)]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30),
    st.sampled_from(sorted(COMPARE)),
    st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.fractions()),
)
def test_integers_are_not_rounded(values: list[int], sign: str, bound: float) -> None:
    found = block_values.failing(block(values, "<i8"), sign, bound).tolist()
    assert found == [at for at, each in enumerate(values) if not COMPARE[sign](each, bound)]


@given(
    st.lists(doubles, min_size=1, max_size=30),
    st.sampled_from(sorted(COMPARE)),
    st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.fractions()),
)
@example([2.0**1000], "<", 2.0**1000)
def test_doubles_are_compared_exactly(values: list[float], sign: str, bound: float) -> None:
    found = block_values.failing(block(values), sign, bound).tolist()
    assert found == [
        at for at, each in enumerate(values) if each != each or not COMPARE[sign](each, bound)
    ]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=200), st.integers(1, 4))
def test_texts_have_every_element(values: list[int], rows: int) -> None:
    values = values * rows
    whole = Block(
        dtype="<i4",
        shape=(rows, len(values) // rows),
        data=numpy.array(values, "<i4").tobytes(),
    )
    record = Value(text="{{...}}", digest="0x1", whole=whole)
    answer = Answer("print x", RankSet([0]), (EquivalenceClass[Record](RankSet([0]), record),))
    found = {}
    for path, field in answer.fields().items():
        row, _, rest = path[1:].partition("[")
        column, _, count = rest.partition("@")
        first = int(column.rstrip("]"))
        last = first + int(count or 1)
        row, _, row_count = row.rstrip("]").partition("]@")
        for each in range(int(row), int(row) + int(row_count or 1)):
            found.update({(each, at): field.values[0] for at in range(first, last)})
    expected = numpy.array(values).reshape(rows, -1)
    assert found == {(int(i), int(j)): value for (i, j), value in numpy.ndenumerate(expected)}


def test_long_doubles_are_not_rounded() -> None:
    assert exact_of("1.00000000000000000011") != 1
    assert not EXACT.texts("1.00000000000000000011", "1")
    assert EXACT.texts("1.0", "1") and EXACT.texts("-0", "0")
    assert Closeness(1e-9, 0.0).texts("1.00000000000000000011", "1")


def test_equal_values_are_not_read_again() -> None:
    ranks = Ranks(*[[1.0] * 1000] * 5)
    assert ranks.check("x").ok
    assert ranks.asked == [("Evaluate", 5)]


def test_a_difference_behind_the_printed_part_fails() -> None:
    odd = [0.0] * 1000
    odd[500] = numpy.nan
    ranks = Ranks([0.0] * 1000, odd, [0.0] * 1000)
    found = ranks.check("x")
    assert not found.ok and found.failed == RankSet([1])
    text = comparison_text.check(found)
    assert "[500]  [0,2] 0" in text and "nan" in text
    # One rank of each class is read.
    assert ("ReadBlock", 2) in ranks.asked
    bounded = ranks.check("x >= 0")
    assert [each.value for each in bounded.failing] == ["[500] = nan(0x8000000000000)"]
    assert bounded.passed == RankSet.parse("0,2")


def test_options_of_print_are_not_part_of_the_array_that_is_read() -> None:
    ranks = Ranks([0.0] * 1000, [0.0] * 999 + [1.0])

    async def looked() -> Answer:
        printed = await ranks.evaluate("-elements 1 -- /x x", ranks.set)
        return await ranks.look(printed)

    assert all(each.record.whole is not None for each in asyncio.run(looked()).classes)  # type: ignore[union-attr]
    assert ranks.read == {"x"}


def test_values_that_differ_in_their_warnings_alone_are_equal() -> None:
    odd = Value(text="0", warnings="warning: left shift count >= width of type")
    assert compare(said(Value(text="0"), odd), said(odd, Value(text="0"))).same


def test_arrays_of_many_ranks_are_reduced_and_not_read() -> None:
    arrays = [[0.0, float(rank % 90), 1.0] for rank in range(300)]
    ranks = Ranks(*arrays)
    assert ranks.check("x < 90").passed == ranks.set
    assert not [each for each in ranks.asked if each[0] == "ReadBlock"]
    arrays[207][2] = 500.0
    odd = Ranks(*arrays)
    found = odd.check("x in 0..89")
    assert found.failed == RankSet([207])
    assert [each.value for each in found.failing] == ["[2] = 500"]
    assert sum(count for kind, count in odd.asked if kind == "ReadBlock") < 20


@pytest.mark.slow
def test_many_different_arrays_are_not_taken_for_their_addresses() -> None:
    ranks = Ranks(*[[float(rank), -1.0 if rank == 1999 else 1.0] for rank in range(2000)])
    assert ranks.check("x >= 0").failed == RankSet([1999])


@given(
    st.lists(st.lists(doubles, min_size=1, max_size=5), min_size=1, max_size=80),
    st.sampled_from(sorted(COMPARE)),
    st.floats(allow_nan=False),
)
def test_the_screen_passes_no_failing_rank(
    arrays: list[list[float]], sign: str, bound: float
) -> None:
    summary = merge(summarize_array(rank, numpy.array(each)) for rank, each in enumerate(arrays))
    passing = passing_ranks(summary, RankSet.range(0, len(arrays)), [(sign, bound)])
    for rank in passing:
        assert all(COMPARE[sign](each, bound) for each in arrays[rank])


def said(*values: Value) -> Answer:
    classes = tuple(
        EquivalenceClass[Record](RankSet([rank]), each) for rank, each in enumerate(values)
    )
    return Answer("print x", RankSet.range(0, len(values)), classes)


def test_a_value_that_ends_early_is_not_said_to_be_equal() -> None:
    part = Value(text="{1...}", digest="0x1", looked_at=2000)
    found = compare(said(part), said(part))
    assert not found.same and found.has_errors
    assert "the first 2000 elements" in found.left_out[0].why
    by_value = compare(said(part), said(part), by="value")
    assert not by_value.same and by_value.has_errors
    unknown = Value(text="{1, 2...}")  # of a recording made before values were looked at in full
    assert not compare(said(unknown), said(unknown)).same
    variables = Variables(items=(Variable(name="u", value="{1, 2...}"),))
    listed = Answer(
        "info locals", RankSet([0]), (EquivalenceClass[Record](RankSet([0]), variables),)
    )
    assert "single variables" in compare(listed, listed).left_out[0].why
    equal = said(part).classes[0]
    both = Answer("print x", RankSet([0, 1]), (EquivalenceClass(RankSet([0, 1]), equal.record),))
    assert "[0-1] equal in the first 2000 elements" in render.answer(both)


def test_only_values_that_differ_are_looked_at() -> None:
    one, other = (Value(text="{1...}", digest=digest) for digest in ("0x1", "0x2"))
    assert to_look_at(said(one, one), said(one, other), "rank") == {"0x1", "0x2"}
    assert to_look_at(said(one, other), said(one, other), "rank") == frozenset()


def test_parts_of_arrays_name_places_and_sizes() -> None:
    values = numpy.arange(1000.0)
    changed = values.copy()
    changed[[500, 501, 999]] += 1
    sides = (
        said(Value(text="{0...}", digest="0x1", whole=block(values))),
        said(Value(text="{0...}", digest="0x2", whole=block(changed))),
    )
    (difference,) = compare(*sides).differences
    assert [(part.path, part.absolute) for part in difference.parts] == [
        ("[500]@2", 1),
        ("[999]", 1),
    ]
    assert compare(*sides, absolute_tolerance=1).same


@pytest.mark.parametrize("order", ["C", "F"])
def test_places_of_fortran_arrays_count_from_their_bounds(order: str) -> None:
    shape, lower = (4, 3), (-1, 0)
    whole = Block(
        dtype="<f8",
        shape=shape,
        data=numpy.arange(12.0).tobytes(),
        order="F" if order == "F" else "C",
        lower=lower if order == "F" else (),
    )
    path = block_values.path_of(whole, 6)
    assert path == ("(1,1)" if order == "F" else "[2][0]")
    value = Value(text="(...)", digest="0x1", whole=whole)
    fields = Answer("print x", RankSet([0]), said(value).classes).fields()
    assert fields[path].values[0] == 6


@pytest.mark.parametrize(
    ("bits", "dtype", "text"),
    [
        (0xFFF8000000000000, "<f8", "-nan(0x8000000000000)"),
        (0x7FF8000000000123, "<f8", "nan(0x8000000000123)"),
        (0xFFC00000, "<f4", "-nan(0x400000)"),
    ],
)
def test_a_nan_in_memory_has_the_text_of_gdb(bits: int, dtype: str, text: str) -> None:
    data = bits.to_bytes(int(dtype[2:]), "little")
    assert block_values.text_of(Block(dtype=dtype, shape=(1,), data=data)) == f"{{{text}}}"
