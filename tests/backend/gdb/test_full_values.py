"""Values that GDB prints in part: what is looked at, and what it costs."""

from __future__ import annotations

import asyncio

import numpy
import pytest

from pgdb.backend.gdb.full_values import evaluate, look_at_variables
from pgdb.backend.gdb.mi import console
from pgdb.backend.node.value_digest import digested, digested_variables
from pgdb.overlay.messages import Evaluate, ListVariables
from pgdb.records import Block, Value, Variable, Variables
from tests.fakes.table_gdb import TableGdb, said

LIFTED = (
    "with max-value-size 67108864 -- with print elements 50 -- with print repeats 10 -- "
    "with print max-depth -1 -- with print union on -- with print null-stop off -- output "
)


def value(shown: str, lifted: str | None = None, *, most: int = 50) -> Value:
    answers = {console("print x"): said(f"$7 = {shown}")}
    if lifted is not None:
        answers[console(f"{LIFTED}$7")] = said(lifted)
    operation = Evaluate(expression="x", most_elements=most, limit_bytes=1000)
    found = asyncio.run(evaluate(TableGdb(answers), operation, 1))
    assert isinstance(found, Value)
    return found


@pytest.mark.parametrize("text", ["5", "{1, 2}", '"a...b"', "0x40 <f(int, ...)>"])
def test_a_complete_value_costs_one_command(text: str) -> None:
    assert value(text) == Value(text=text)


def test_a_part_is_followed_by_the_whole_from_the_history() -> None:
    found = value('{a = {...}, s = 0x10 "ab"...}', '{a = {b = 1}, s = 0x10 "abc"}')
    assert found.whole == '{a = {b = 1}, s = 0x10 "abc"}' and not found.looked_at


def test_a_whole_with_too_many_elements_says_so() -> None:
    found = value(
        "std::map with 90 elements = {[a] = 1...}",
        "std::map with 90 elements = {[a] = 1, [b] = 2...}",
    )
    assert found.looked_at == 50


@pytest.mark.parametrize(
    ("count", "most", "of_each"),
    [(9, 50, 6), (9, 2000, 250), (200, 2000, 250), (9, 100_000, 12_500), (200, 100_000, 4000)],
)
def test_a_structure_with_many_long_parts_has_fewer_elements_of_each(
    count: int, most: int, of_each: int
) -> None:
    parts = ", ".join(f"x{number} = {{1...}}" for number in range(count))
    lifted = LIFTED.replace("elements 50", f"elements {of_each}")
    answers = {
        console("print x"): said(f"$7 = {{{parts}}}"),
        console(f"{lifted}$7"): said(f"{{{parts.replace('1...', '1, 2...')}}}"),
    }
    operation = Evaluate(expression="x", most_elements=most, limit_bytes=1000)
    found = asyncio.run(evaluate(TableGdb(answers), operation, 1))
    assert isinstance(found, Value) and found.looked_at == of_each


def test_dots_of_a_value_are_no_part() -> None:
    text = "{int (const char *, ...)} 0x401136 <main>"
    assert value(text, text) == Value(text=text)


def test_without_a_number_of_elements_only_the_text_counts() -> None:
    assert value("{a...}", most=0) == Value(text="{a...}")


LARGE = (
    "<error reading variable: value of type `D' requires 90000 bytes, "
    "which is more than max-value-size>"
)


def test_a_reference_to_a_large_object_is_printed_with_a_larger_limit() -> None:
    answers = {
        console("print x"): said(f"$7 = (D &) {LARGE}"),
        console("with max-value-size 67108864 -- print $7"): said("$8 = (D &) @0x7ff0: {a = 1}"),
    }
    operation = Evaluate(expression="x", most_elements=50, limit_bytes=1000)
    assert asyncio.run(evaluate(TableGdb(answers), operation, 1)) == Value(
        text="(D &) @0x7ff0: {a = 1}"
    )


def test_a_reference_that_stays_too_large_is_no_known_value() -> None:
    answers = {
        console("print x"): said(f"$7 = (D &) {LARGE}"),
        console("with max-value-size 67108864 -- print $7"): said(f"$8 = (D &) {LARGE}"),
    }
    operation = Evaluate(expression="x", most_elements=50, limit_bytes=1000)
    found = asyncio.run(evaluate(TableGdb(answers), operation, 1))
    assert isinstance(found, Value) and found.looked_at == -1


# -- variables -----------------------------------------------------------------------------------


def test_variables_that_gdb_cuts_are_looked_at_in_full_without_its_history() -> None:
    listed = Variables(
        items=(
            Variable(name="n", value="5"),
            Variable(name="text", value='"aa"...'),
            Variable(name="d", value=LARGE),
            Variable(name="text", value='"bb"...'),
        )
    )
    answers = {
        console(f"{LIFTED}text"): said('"aab"'),
        console("with max-value-size 67108864 -- output d"): said("{a = 1}"),
    }
    operation = ListVariables(which="locals", most_elements=50, limit_bytes=1000)
    found = asyncio.run(look_at_variables(TableGdb(answers), operation, listed, 1))
    number, text, large, hidden = found.items
    assert (number, large.value, hidden.looked_at) == (listed.items[0], "{a = 1}", -1)
    assert (text.value, text.whole) == ('"aa"...', '"aab"')
    hashed = digested_variables(found, operation).items[1]
    assert hashed.digest == digest_of('"aab"') and hashed.whole is None


# -- hashes --------------------------------------------------------------------------------------

LOOK = Evaluate(expression="x", most_elements=50)


def digest_of(whole: str | Block, operation: Evaluate = LOOK) -> str:
    found = digested(Value(text="{...}", whole=whole), operation)
    assert found.whole is None
    return found.digest


def block_of(data: bytes, dtype: str = "<f8", count: int = 2) -> Block:
    return Block(dtype=dtype, shape=(count,), data=data)


def test_addresses_do_not_count_in_a_hash_unless_asked_for() -> None:
    one, other = '{p = 0x55aa10 "a", n = 1}', '{p = 0x77bb20 "a", n = 1}'
    assert digest_of(one) == digest_of(other)
    raw = Evaluate(expression="x", most_elements=50, raw_pointers=True)
    assert digest_of(one, raw) != digest_of(other, raw)
    assert digest_of(one) != digest_of(one.replace("n = 1", "n = 2"))


def test_the_bits_of_a_nan_do_not_count_in_a_hash() -> None:
    nans = [
        numpy.array([bits, 0x3FF0000000000000], "<u8").tobytes()
        for bits in (0x7FF8000000000000, 0xFFF8000000000001)
    ]
    assert digest_of(block_of(nans[0])) == digest_of(block_of(nans[1]))
    zero = numpy.array([0.0, 1.0]).tobytes()
    assert digest_of(block_of(nans[0])) != digest_of(block_of(zero))


def test_padding_does_not_count_in_a_hash() -> None:
    if numpy.finfo(numpy.longdouble).nmant != 63:
        pytest.skip("long doubles of this processor have no padding")
    number = numpy.array([1.5], numpy.longdouble).tobytes()[:10]
    found = {digest_of(block_of(number + padding * 6, "<f16", 1)) for padding in (b"\0", b"\x7f")}
    assert len(found) == 1


def test_bounds_do_not_count_in_a_hash_and_shapes_do() -> None:
    data = bytes(64)
    low = Block(dtype="<f8", shape=(8,), data=data, lower=(-1,))
    assert digest_of(low) == digest_of(Block(dtype="<f8", shape=(8,), data=data, lower=(3,)))
    assert digest_of(low) != digest_of(Block(dtype="<f8", shape=(2, 4), data=data))
