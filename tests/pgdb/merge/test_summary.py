"""Summaries are exact and do not depend on the order; malformed ones are refused."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import msgspec
import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdb.errors import ProtocolError
from pgdb.merge.graph import from_graph, to_graph
from pgdb.merge.summary import (
    MAX_BINS,
    PROFILE_CELLS,
    SKETCH_SIZE,
    Bins,
    Cell,
    Number,
    Summary,
    empty_bins,
    iterate_bins,
    power_bin,
    power_range,
)
from pgdb.merge.totals import Totals, merge, summarize, summarize_array
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import Reply
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Value, Various
from tests.support.strategies import class_of

SMALLEST = 5e-324
LARGEST = 1.7976931348623157e308

finite = (
    st.integers(-5, 5)
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0.0, -0.0, 0, 1, 1.0, 2.5, SMALLEST, -SMALLEST, LARGEST, -LARGEST, 1e308])
    | st.sampled_from([2**53, 2.0**53, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 2**1000])
)
odd = st.sampled_from(["nan(0x8000000000000)", "-nan(0x1)", "inf", "-inf", '"a"', "{1, 2}", ""])
texts = finite.map(repr) | odd
by_rank = st.dictionaries(st.integers(0, 40) | st.integers(0, 5000), texts, max_size=30)


def whole(numbers: dict[int, str]) -> Summary:
    return summarize((RankSet([rank]), text) for rank, text in numbers.items())


def exactly(summary: Summary) -> tuple[bytes, str]:
    """Return an encoded summary: 1 and 1.0 are equal, but their encodings differ."""
    record = Various(template=Value(text=PLACEHOLDER))
    said = msgspec.structs.replace(class_of(RankSet([0]), record), columns=(summary,))
    data = encode(Reply(request_id=1, graph=to_graph((said,))))
    arrived = decode(data)
    assert isinstance(arrived, Reply)
    assert from_graph(arrived.graph)[0][0].columns == (summary,)
    return data, repr(summary)


# -- the laws --------------------------------------------------------------------------------------


@given(by_rank, st.randoms(use_true_random=False))
def test_any_order_and_any_tree_gives_the_same(numbers: dict[int, str], rng: random.Random) -> None:
    expected = exactly(whole(numbers))
    shuffled = list(numbers.items())
    rng.shuffle(shuffled)
    assert exactly(whole(dict(shuffled))) == expected
    left = [whole({rank: text}) for rank, text in shuffled] or [merge(())]
    while len(left) > 1:
        take = [left.pop() for _ in range(min(len(left), rng.randint(1, 4)))]
        left.insert(rng.randrange(len(left) + 1), merge(take))
    assert exactly(left[0]) == expected


@given(by_rank, by_rank, by_rank)
def test_the_laws_of_a_merge(
    one: dict[int, str], two: dict[int, str], three: dict[int, str]
) -> None:
    a = whole(one)
    b = whole({10_000 + rank: text for rank, text in two.items()})
    c = whole({20_000 + rank: text for rank, text in three.items()})
    assert exactly(a | b) == exactly(b | a)
    assert exactly((a | b) | c) == exactly(a | (b | c)) == exactly(merge((a, b, c)))
    assert exactly(a | Summary()) == exactly(a) == exactly(Summary() | a)


def test_nothing_is_the_identity() -> None:
    assert merge(()) == Summary() == summarize(())
    assert math.isnan(Summary().mean) and math.isnan(Summary().deviation)
    assert Summary().distinct == 0 and Summary().profile == (1, (), ())


# -- the numbers -----------------------------------------------------------------------------------


def exact_root(value: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 1500
        return (Decimal(value.numerator) / Decimal(value.denominator)).sqrt()


@given(st.dictionaries(st.integers(0, 100), finite, min_size=1, max_size=30))
@example({0: 1e308, 1: 1e308, 2: -1e308})
@example({0: SMALLEST, 1: SMALLEST, 2: 0.0})
@example({0: 1e16, 1: 1.0, 2: -1e16})
@example({0: 10**15 + 1, 1: 10**15 + 2})
def test_sums_are_exact(numbers: dict[int, Number]) -> None:
    found = whole({rank: repr(number) for rank, number in numbers.items()})
    fractions = [Fraction(number) for number in numbers.values()]
    count = len(fractions)
    assert found.count == count
    assert found.total.fraction == sum(fractions)
    assert found.squares.fraction == sum(each * each for each in fractions)
    mean = sum(fractions, Fraction()) / count
    assert found.mean == float(mean)
    variance = sum(((each - mean) ** 2 for each in fractions), Fraction()) / count
    deviation = float(exact_root(variance))
    assert abs(found.deviation - deviation) <= math.ulp(deviation)


@given(st.dictionaries(st.integers(0, 5000), texts, max_size=30))
@example({0: "-5e-324", 1: "9223372036854775809"})  # the same 64 bits
@example({0: "0", 1: "11400714819323198485"})  # a usual constant of hash functions
def test_extremes_and_what_is_no_number_have_their_ranks(numbers: dict[int, str]) -> None:
    found = whole(numbers)
    special = {"inf": found.above, "-inf": found.below}
    for rank, text in numbers.items():
        if "nan" in text:
            assert rank in found.nan
        elif text in special:
            assert rank in special[text]
        elif text in ('"a"', "{1, 2}", ""):
            assert rank in found.others
    values = {
        rank: eval(text)  # our own repr
        for rank, text in numbers.items()
        if not any(rank in each for each in (found.nan, found.above, found.below, found.others))
    }
    assert found.count == len(values)
    if not values:
        assert found.low is None and found.high is None and not found.at_low and not found.at_high
        return
    # Integers of more than 64 bits become the nearest double.
    shown = {
        rank: value if -(2**63) <= value < 2**64 else float(value) for rank, value in values.items()
    }
    low, high = min(shown.values()), max(shown.values())
    assert (found.low, found.high) == (low, high)
    assert found.at_low == RankSet(rank for rank, value in shown.items() if value == low)
    assert found.at_high == RankSet(rank for rank, value in shown.items() if value == high)
    assert found.exponents == Counter(power_bin(value) for value in values.values())
    assert found.distinct == len(set(values.values()))


@given(finite)
def test_a_number_is_in_the_range_of_its_bin(number: Number) -> None:
    near, far = power_range(power_bin(number))
    assert power_bin(-number) == -power_bin(number)
    assert (number == 0) == (power_bin(number) == 0)
    assert abs(Fraction(near)) <= abs(Fraction(number))
    assert number == 0 or math.isinf(far) or abs(Fraction(number)) < abs(Fraction(far))
    assert power_bin(float(number)) == power_bin(number) or isinstance(number, int)


@given(st.dictionaries(st.integers(0, 100_000), st.integers(-1000, 1000), min_size=1, max_size=80))
def test_the_profile_has_the_extremes_of_each_block(numbers: dict[int, int]) -> None:
    found = whole({rank: str(number) for rank, number in numbers.items()})
    block, lows, highs = found.profile
    assert block & (block - 1) == 0 and len(lows) == len(highs) <= PROFILE_CELLS
    assert block == 1 or max(numbers) // (block // 2) >= PROFILE_CELLS  # no coarser than it must be
    assert len(lows) == max(numbers) // block + 1
    for cell, (low, high) in enumerate(zip(lows, highs, strict=True)):
        inside = [number for rank, number in numbers.items() if rank // block == cell]
        assert (low, high) == (min(inside, default=None), max(inside, default=None))


@pytest.mark.parametrize("count", range(SKETCH_SIZE, 400, 7))
def test_integers_have_no_more_values_than_their_range(count: int) -> None:
    found = merge([summarize_array(rank, numpy.arange(count)) for rank in range(4)])
    assert SKETCH_SIZE <= found.distinct <= count


@pytest.mark.parametrize("count", [1, SKETCH_SIZE - 1, SKETCH_SIZE, 1000, 50_000])
@pytest.mark.parametrize("scale", [1, 0.1, 2**55 + 1], ids=["small", "fractions", "large"])
def test_different_numbers_are_counted_or_estimated(count: int, scale: Number) -> None:
    array = numpy.arange(count) * scale
    found = merge((summarize_array(0, array), summarize_array(1, array[::-1])))
    if count < SKETCH_SIZE:
        assert found.distinct == count
    # The hashes are equal in every run, so the result does not depend on luck. Four times 9 % is
    # allowed.
    assert abs(found.distinct - count) <= 0.36 * count
    assert len(found.sketch) <= SKETCH_SIZE


# -- arrays ----------------------------------------------------------------------------------------

_DTYPES = [
    *(numpy.int8, numpy.int16, numpy.int32, numpy.int64),
    *(numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64),
    *(numpy.float16, numpy.float32, numpy.float64),
]


def of_elements(rank: int, values: Any, bins: Bins | None = None) -> Summary:
    """Sum up one element after the other."""
    totals = Totals(bins)
    for each in values.ravel().tolist():
        totals.add_text(RankSet([rank]), repr(int(each) if isinstance(each, bool) else each))
    return totals.summary()


def arrays(kind: type) -> st.SearchStrategy[Any]:
    if issubclass(kind, numpy.integer):
        info = numpy.iinfo(kind)
        element: st.SearchStrategy[Any] = st.integers(int(info.min), int(info.max))
        element |= st.sampled_from([int(info.min), int(info.max), 0, 1])
    else:
        width = numpy.dtype(kind).itemsize * 8
        element = st.floats(width=width) | st.sampled_from([0.0, -0.0, 1.0])  # type: ignore[arg-type]
    return st.lists(element, max_size=40).map(lambda values: numpy.array(values, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", _DTYPES, ids=lambda kind: kind.__name__)
def test_an_array_is_the_sum_of_its_elements(kind: type) -> None:
    @given(arrays(kind), st.sampled_from([0, 7, 100_000]))
    def holds(values: Any, rank: int) -> None:
        assert exactly(summarize_array(rank, values)) == exactly(of_elements(rank, values))

    holds()


def test_booleans_are_numbers() -> None:
    values = numpy.array([[True, False], [True, True]])
    found = summarize_array(3, values)
    assert exactly(found) == exactly(of_elements(3, values))
    assert (found.count, found.low, found.high, found.mean) == (4, 0, 1, 0.75)


def big_arrays() -> dict[str, Any]:
    rng = numpy.random.default_rng(5)
    mixed = rng.standard_normal(9000) * 10.0 ** rng.integers(-300, 300, 9000)
    mixed[:60] = [0.0, -0.0, SMALLEST, -SMALLEST, LARGEST, -LARGEST] * 10
    mixed[100:104] = [math.nan, math.inf, -math.inf, math.nan]
    around = 2**53 + numpy.arange(-5000, 5000)
    return {
        "floats": mixed,
        "floats32": rng.random(6000, numpy.float32),
        "twice": numpy.concatenate([mixed[200:], mixed[200:5000]]),
        "ints": rng.integers(-(2**31), 2**31, 6000, numpy.int32),
        "large": rng.integers(-(2**63), 2**63 - 1, 6000, numpy.int64),
        "unsigned": rng.integers(0, 2**64 - 1, 6000, numpy.uint64),
        "small and large": around,
        "all large": numpy.arange(6000).astype(numpy.uint64) + numpy.uint64(2**63),
        "least": numpy.concatenate([numpy.arange(6000), [-(2**63)]]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", big_arrays())
def test_a_big_array_is_the_sum_of_its_elements(name: str) -> None:
    values = big_arrays()[name]
    bins = empty_bins(-1e10, 1e10, 50)
    found = summarize_array(70, values, bins)
    assert exactly(found) == exactly(of_elements(70, values, bins))
    halves = (summarize_array(70, values[:3000], bins), summarize_array(70, values[3000:], bins))
    assert exactly(merge(halves)) == exactly(found)


def test_an_array_of_one_piece_and_more_is_summed_exactly() -> None:
    # Mantissas of all ones, more than fit into one piece: any lost carry would show.
    values = numpy.ldexp(2.0**53 - 1 - numpy.arange(70_000), -53)
    found = summarize_array(0, values)
    exact = [Fraction(each) for each in values.tolist()]
    assert found.total.fraction == sum(exact)
    assert found.squares.fraction == sum(each * each for each in exact)


def test_an_empty_array_is_nothing() -> None:
    for kind in (numpy.float64, numpy.int32, bool):
        assert summarize_array(3, numpy.zeros((0, 4), kind)) == Summary()


# -- histograms with bins that are asked for -----------------------------------------------------


@given(
    st.dictionaries(st.integers(0, 50), finite, max_size=20),
    st.floats(-1e308, 1e308),
    st.floats(-1e308, 1e308),
    st.integers(1, 40),
)
@example({0: 1e308, 1: -LARGEST}, -8e307, 8e307, 4)
@example({0: 1e300}, 0.0, SMALLEST, 4)
@example({0: 2**1000}, 0.0, 1.0, 4)
def test_every_number_is_in_one_bin(
    numbers: dict[int, Number], low: float, high: float, count: int
) -> None:
    if not math.isfinite(high - low):
        with pytest.raises(ValueError, match="no histogram"):
            empty_bins(low, high, count)
        return
    low, high = min(low, high), max(low, high)
    totals = Totals(empty_bins(low, high, count))
    for rank, number in numbers.items():
        totals.add_number(RankSet([rank]), number)
    found = totals.summary().bins
    assert found is not None and sum(found.counts) == len(numbers)
    assert len(found.counts) == count
    assert found.counts[0] >= sum(number < low for number in numbers.values())
    assert found.counts[-1] >= sum(number > high for number in numbers.values())


def test_bins_have_their_ends_and_counts() -> None:
    totals = Totals(empty_bins(0.0, 4.0, 4))
    for rank, number in enumerate([-1, 0, 0.5, 1, 3.5, 4, 9]):
        totals.add_number(RankSet([rank]), number)
    bins = totals.summary().bins
    assert bins is not None
    assert [*iterate_bins(bins)] == [(0.0, 1.0, 3), (1.0, 2.0, 1), (2.0, 3.0, 0), (3.0, 4.0, 3)]


def test_other_bins_cannot_be_added() -> None:
    one = Summary(bins=empty_bins(0.0, 1.0, 4))
    assert merge((one, Summary())).bins == one.bins
    for other in (empty_bins(0.0, 1.0, 5), empty_bins(0.0, 2.0, 4)):
        with pytest.raises(ProtocolError, match="other bins"):
            merge((one, Summary(bins=other)))


def test_bins_have_a_limit() -> None:
    assert len(empty_bins(0.0, 1.0, 10**9).counts) == MAX_BINS


# -- what comes from the wire --------------------------------------------------------------------


def reply_with(**fields: object) -> bytes:
    """Return a reply whose summary has other fields, as a malicious peer could send it."""
    record = Various(template=Value(text=PLACEHOLDER))
    whole_reply = encode(Reply(request_id=1, graph=to_graph((class_of(RankSet([0]), record),))))
    body = msgspec.msgpack.decode(whole_reply)
    (end,) = body["graph"]["ends"]
    (summary,) = end[5]
    summary.update(fields)
    return msgspec.msgpack.encode(body)


def test_a_summary_that_was_not_changed_arrives() -> None:
    assert isinstance(decode(reply_with()), Reply)


@pytest.mark.parametrize(
    "fields",
    [
        {"count": -1},
        {"count": 2**60},
        {"count": 1.5},
        {"low": "1"},
        {"total": {"mantissa": "xyz"}},
        {"total": {"mantissa": ""}},
        {"total": {"mantissa": "1" * 2001}},
        {"total": {"mantissa": "1_0"}},
        {"total": {"mantissa": "1", "exponent": 10**9}},
        {"squares": {"mantissa": "-"}},
        {"nan": "3-1"},
        {"nan": "x"},
        {"at_low": b"junk"},
        {"powers": [[1, -1]]},
        {"powers": [[10**6, 1]]},
        {"powers": [[1]]},
        {"block": 0},
        {"block": 3},
        {"block": 2**40},
        {"cells": [{"number": 64, "low": 1, "high": 1}]},
        {"cells": [{"number": -1, "low": 1, "high": 1}]},
        {"cells": [{"number": 1, "low": 1, "high": 1}, {"number": 0, "low": 1, "high": 1}]},
        {"cells": [{"number": 0, "low": None, "high": 1}]},
        {"sketch": list(range(SKETCH_SIZE + 1))},
        {"sketch": [-1]},
        {"bins": {"low": 0.0, "high": 1.0, "counts": []}},
        {"bins": {"low": 0.0, "high": 1.0, "counts": [0] * (MAX_BINS + 1)}},
        {"bins": {"low": 0.0, "high": 1.0, "counts": [-1]}},
        {"bins": {"low": 0.0, "high": math.inf, "counts": [1]}},
        {"bins": {"low": math.nan, "high": 1.0, "counts": [1]}},
        {"more": 1},
    ],
    ids=str,
)
def test_summaries_that_are_none_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="no valid message"):
        decode(reply_with(**fields))


json_like = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text("0123af-x", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("number low high mantissa exponent counts".split()), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(Summary.__struct_fields__), json_like, max_size=4))
def test_whatever_arrives_can_be_merged_shown_and_sent_on(fields: dict[str, Any]) -> None:
    try:
        reply = decode(reply_with(**fields))
    except ProtocolError:
        return
    assert isinstance(reply, Reply)
    (said,), _ = from_graph(reply.graph)
    (summary,) = said.columns
    both = merge((summary, summary, summarize([(RankSet([3]), "2.5")])))
    assert isinstance(both.mean, float) and isinstance(both.deviation, float)
    assert both.distinct >= 0 and both.profile[0] >= 1
    assert [power_range(key) for key in both.exponents]
    assert [*iterate_bins(both.bins)] if both.bins is not None else True
    encode(Reply(request_id=1, graph=to_graph((msgspec.structs.replace(said, columns=(both,)),))))


def test_what_is_no_range_of_numbers_is_refused() -> None:
    nan = math.nan
    for low, high, cells in (
        (nan, 2, ()),
        (2, 1, ()),
        (1, math.inf, ()),
        (None, 1, ()),
        (None, None, (Cell(number=0, low=1, high=1),)),
        (1, 2, (Cell(number=0, low=nan, high=2),)),
        (1, 2, (Cell(number=0, low=1, high=10**9),)),
        (1, 2, (Cell(number=0, low=2, high=1),)),
    ):
        with pytest.raises(ValueError, match="no range"):
            Summary(count=1, low=low, high=high, cells=cells)


def test_only_powers_of_doubles_are_reported() -> None:
    for number in (5e-324, -1.7976931348623157e308, 1, 0, -(2**1023)):
        key = power_bin(number)
        assert Summary(powers=((key, 1),)).powers == ((key, 1),)
        assert all(math.isfinite(each) or abs(number) > 1 for each in power_range(key))
    for key in (926, 3025, -4000, 4000, 1):
        with pytest.raises(ValueError, match="no power"):
            Summary(powers=((key, 1),))
