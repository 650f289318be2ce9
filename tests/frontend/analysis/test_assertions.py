"""Conditions over ranks: ranks on which they hold, failing ranks."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.asked_conditions import ask_condition, is_compared_here, truth, where
from pgdb.frontend.analysis.assertions import Check, check
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.show.text import comparison_text
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Failure, Record, Value
from tests.support.answers import answer, ranks
from tests.support.canned_checks import ERROR, checked, no_recall

VECTOR = "std::vector of length 2, capacity 2"

# -- where -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("0", False),
        ("1", True),
        ("-2", True),
        ("0.0", False),
        ("0.25", True),
        ("nan(0x8000000000000)", True),
        ("true", True),
        ("false", False),
        (".TRUE.", True),
        (".FALSE.", False),
        ("0 '\\000'", False),
        ("97 'a'", True),
        ("(int *) 0x0", False),
        (f"(int *) {SLOT}", True),
        ("(int *) 0x10", True),
        ("red", None),
        ("{x = 1}", None),
    ],
)
def test_truth_of_values(text: str, holds: bool | None) -> None:
    found = truth(answer(("0", text)))
    assert (bool(found.true), bool(found.false), bool(found.errors)) == (
        holds is True,
        holds is False,
        holds is None,
    )


def test_where_it_holds() -> None:
    said = answer(("0-3", "1"), ("4-5", "0"), ("6", ERROR), missing=Missing(running=ranks("7")))
    assert where(said) == ranks("0-3")
    assert where(answer(("4-5", "0"), ("6", ERROR))) == RankSet()
    with pytest.raises(CommandError, match=r"'x' failed on \[0-6\]: No symbol"):
        where(answer(("0-6", ERROR)))
    with pytest.raises(CommandError, match=r"\[7\] run"):
        where(answer(missing=Missing(running=ranks("7"))))
    with pytest.raises(CommandError, match="no answer"):
        where(answer(missing=Missing(late=ranks("7"))))


# -- checks ------------------------------------------------------------------------------------


def test_same() -> None:
    assert checked("x", ("x", {"0-31": "3"})).ok
    found = checked("x", ("x", {"0-6,8-31": "3", "7": "9", "5,32-34": "4", "40": ERROR}))
    assert not found.ok
    assert found.common == "3"
    assert [str(each.ranks) for each in found.failing] == ["7", "40", "5,32-34"]
    assert (
        comparison_text.check(found)
        .splitlines()[0]
        .startswith("x is the same on all ranks: FAILED on")
    )


def test_same_without_a_majority_blames_all() -> None:
    found = checked("x", ("x", {"0-1": "3", "2-3": "4"}))
    assert (found.common, found.passed) == ("", RankSet())
    assert found.failed == ranks("0-3")
    assert "2 different answers on [0-3]" in comparison_text.check(found)


@pytest.mark.parametrize(
    ("word", "values", "failing"),
    [
        ("increasing", ("1", "2", "3"), ""),
        ("increasing", ("1", "1", "2"), "1"),
        ("nondecreasing", ("1", "1", "2"), ""),
        ("nondecreasing", ("1", "0.5", "2"), "1"),
        ("decreasing", ("3", "2", "2"), "2"),
        ("nonincreasing", ("3", "2", "2"), ""),
        ("nonincreasing", ("3", "nan(0x8)", "2"), "1"),
        ("increasing", ("1", "red", "2"), "1"),
        ("increasing", ("1.10000000000000000002", "1.100000000000000001"), ""),
        ("nondecreasing", ("2e-400", "1e-400"), "1"),
    ],
)
def test_orders(word: str, values: tuple[str, ...], failing: str) -> None:
    said = {str(rank): value for rank, value in enumerate(values)}
    found = checked(f"x {word}", ("x", said))
    assert found.failed == ranks(failing)
    assert found.ok == (not failing)


def test_an_order_is_that_of_ranks_and_not_of_classes() -> None:
    found = checked("x increasing", ("x", {"0,2": "5", "1": "7", "3": "9"}))
    (each,) = found.failing
    assert (each.ranks, each.value, each.why) == (ranks("2"), "5", "after 7")


def test_failing_ranks_are_reported_with_their_values() -> None:
    found = checked(
        "x > 0",
        ("x", {"0-29": "7", "30": "-1", "31": "0", "32": ERROR}),
        ("x > 0", {"0-29": "1", "30-31": "0", "32": ERROR}),
    )
    assert found.passed == ranks("0-29")
    assert comparison_text.check(found) == (
        "x > 0: FAILED on [30-31] (2 of 33), NOT CHECKED on [32] (1 of 33)\n"
        "[30] x = -1\n"
        "[31] x = 0\n"
        '[32] error: No symbol "x" in current context.\n'
        "passed on [0-29]"
    )
    passed = checked("x > 0", ("x", {"0-31": "7"}), ("x > 0", {"0-31": "1"}))
    assert comparison_text.check(passed) == "x > 0: passed on [0-31]"


def test_a_range_asks_the_second_only_of_those_that_pass_the_first() -> None:
    found = checked(
        "x in 0..3",
        ("x", {"0-5": "2", "6": "4", "7": "-1"}),
        ("(x) >= (0)", {"0-6": "1", "7": "0"}),
        ("(x) <= (3)", {"0-5": "1", "6": "0"}),
    )
    assert [(str(each.ranks), each.value) for each in found.failing] == [("6", "4"), ("7", "-1")]
    nobody = checked("x in 0..3", ("x", {"0-1": "-1"}), ("(x) >= (0)", {"0-1": "0"}))
    assert nobody.failed == ranks("0-1")


ARRAY = "{0, 1, 2 <repeats 20 times>}"


@pytest.mark.parametrize(
    ("condition", "array", "value"),
    [
        # GDB compares the address of an array, which is above 5 and below no number.
        ("x >= 0", ARRAY, ""),
        ("x > 5", ARRAY, "[0] = 0"),
        ("x < 2", ARRAY, "[2]@20 = 2"),
        ("(x != 1)", ARRAY, "[1] = 1"),
        ("x in 0..2", ARRAY, ""),
        ("x in 1..2", ARRAY, "[0] = 0"),
        ("x <= 1", "{{0, 1}, {1, 2}}", "[1][1] = 2"),
        ("x .le. 1", "((0, 1) (1, 2))", "(2,2) = 2"),
        ("x > 0", "{1, nan(0x8000000000000), 1}", "[1] = nan(0x8000000000000)"),
        ("x != 3", "{1, -nan(0x8000000000000)}", "[1] = -nan(0x8000000000000)"),
        ("x > 0", "std::vector of length 2, capacity 2 = {1, -1}", "[1] = -1"),
        ("x > 0", "{{_M_elems = {1, 2}}, {_M_elems = {3, -1}}}", "[1]._M_elems[1] = -1"),
        ("x < 5", 'std::map with 2 elements = {["a"] = 1, ["b"] = 9}', '["b"] = 9'),
        ("x < 5", "std::map with 1 element = {[{x = 1}] = 9}", "._element(0) = 9"),
        ("x < 5", f"std::optional<V> containing {VECTOR} = {{1, 9}}", ".value()[1] = 9"),
        ("x < 5", "std::optional<int> = {[contained value] = 9}", ".value() = 9"),
        ("x < 5", "std::vector of length 0, capacity 0", ""),
        ("x < 5", f"{VECTOR} = {{std::vector of length 0, capacity 0, {{9}}}}", "[1][0] = 9"),
        ("x < 5", "{static _S_alignment = 8, _M_i = 9}", "._M_i = 9"),
        ("x < 5", "{<Base> = {static _S_size = 9, _M_i = 7}, static free = true}", "._M_i = 7"),
        ("x == 0", "std::bitset = {[3] = 1}", "[3] = 1"),
        ("x == 0", "std::bitset", ""),
        ("x < 2", "std::bitset = {[3] = 1, [9] = 1}", ""),
    ],
)
def test_an_array_is_compared_element_by_element(condition: str, array: str, value: str) -> None:
    found = checked(condition, ("x", {"0-3": array}))
    assert found.ok == (not value)
    if value:
        (each,) = found.failing
        assert (each.value, each.ranks, each.is_element) == (value, ranks("0-3"), True)
        first = comparison_text.check(found).splitlines()[1]
        assert first.startswith(f"[0-3] x{value}")


@pytest.mark.parametrize(
    ("sign", "bound", "array", "value"),
    [
        ("==", "false", "{false, true, false}", "[1] = true"),
        ("==", "0", "{false <repeats 300 times>}", ""),
        ("!=", "true", "std::vector<bool> of length 2, capacity 64 = {false, true}", "[1] = true"),
        ("==", ".FALSE.", "((.FALSE., .FALSE.) (.TRUE., .FALSE.))", "(1,2) = .TRUE."),
        ("==", "RED", "{RED, GREEN, RED}", "[1] = GREEN"),
        ("!=", "Side::left", "{Side::right, Side::left}", "[1] = Side::left"),
        ("==", "(A | B)", "{(A | B), A}", "[1] = A"),
        ("==", '"ab"', 'std::vector of length 2, capacity 2 = {"ab", "AB"}', '[1] = "AB"'),
        ("==", '"ab"', r'{"ab\000\000", "ab\000c"}', r'[1] = "ab\000c"'),
        ("==", "'ab'", "('ab   ', 'ab  c')", "(2) = 'ab  c'"),
    ],
)
def test_truth_values_names_and_strings_are_compared_too(
    sign: str, bound: str, array: str, value: str
) -> None:
    found = checked(f"x {sign} y", ("x", {"0-3": array}), ("y", {"0-3": bound}))
    assert found.ok == (not value), found
    if value:
        (each,) = found.failing
        assert (each.value, each.is_element) == (value, True)


@pytest.mark.parametrize(
    ("bound", "text", "passes"),
    [
        ('"ab"', '"ab"', True),
        ('"ab"', r'"ab\000\000"', True),
        ('"ab"', '0x5555555592a0 "ab"', True),
        ('"ab"', '"abc"', False),
        ('"ab"', "0x0", False),
        ('"ab"', "0x5555555592a0 'a' <repeats 20 times>, \"b\"", False),
        ("'ab'", "'ab    '", True),
        ("'ab'", "'ab', ' ' <repeats 20 times>", True),
        ("'ab'", "'a'", False),
    ],
)
def test_a_string_is_compared_by_its_content(bound: str, text: str, passes: bool) -> None:
    said = (("x", {"0-3": text}), (bound, {"0-3": bound}))
    found = checked(f"x == {bound}", *said)
    assert found.ok == passes
    assert passes or [each.value for each in found.failing] == [text]
    assert checked(f"x != {bound}", *said).ok != passes

    async def ask(expression: str, members: RankSet) -> Answer:
        return answer((str(members), text if expression == "x" else bound))

    judged = asyncio.run(ask_condition(f"x == {bound}", RankSet.range(0, 2), ask, no_recall))
    assert where(judged) == (RankSet([0, 1]) if passes else RankSet())


def test_integers_beyond_those_of_gdb_are_compared() -> None:
    refused = Failure(message="That operation is not available on integers of more than 8 bytes.")
    said = {"0-2": "5", "3": str(9 << 70)}
    found = checked("x < 100", ("x", said), ("x < 100", {"0-3": refused}))
    assert found.passed == ranks("0-2")
    assert [(str(each.ranks), each.value) for each in found.failing] == [("3", str(9 << 70))]


def test_bits_that_are_not_shown_are_not_judged() -> None:
    (each,) = checked("x == 1", ("x", {"0-3": "std::bitset = {[3] = 1}"})).failing
    assert each.is_error and "the bits that are 1 only" in each.value


def test_ranks_fail_by_their_first_element_that_does() -> None:
    said = {"0": "{1, 2, 3}", "1-2": "{1, -2, 3}", "3": "{-1, -2, 3}", "4": ERROR}
    found = checked("x > 0", ("x", said), ("x > 0", {"4": ERROR}))
    assert comparison_text.check(found) == (
        "x > 0: FAILED on [1-3] (3 of 5), NOT CHECKED on [4] (1 of 5)\n"
        "[3]   x[0] = -1, the first of several elements that fail\n"
        '[4]   error: No symbol "x" in current context.\n'
        "[1-2] x[1] = -2\n"
        "passed on [0]"
    )


def test_the_other_side_can_differ_by_rank_and_be_an_array() -> None:
    found = checked(
        "x == n",
        ("x", {"0-1": "{3, 3}", "2": "{4, 3}"}),
        ("n", {"0": "3", "1": "4", "2": "{4, 3}"}),
    )
    assert found.passed == ranks("0,2")
    found = checked("x < y", ("x", {"0": "{3, 3}"}), ("y", {"0": "{4, 5, 6}"}))
    assert "different shapes" in found.failing[0].value


def test_variables_named_as_numbers_are_variables() -> None:
    ones = ("inf", {"0-3": "{1, 1}"})
    assert checked("inf == 1", ones).passed == ranks("0-3")
    assert checked("nan < 3", ("nan", {"0-2": "{2, 2}", "3": "{2, 3}"})).passed == ranks("0-2")
    assert checked("x < inf", ("x", {"0-3": "{0, 2}"}), ones).failed == ranks("0-3")
    unknown = ("inf", {"0-3": Failure(message='No symbol "inf" in current context.')})
    assert checked("x < inf", ("x", {"0-3": "{0, 2}"}), unknown).passed == ranks("0-3")


@pytest.mark.parametrize(
    ("condition", "said", "why"),
    [
        ("x > y", {"x": '"abc"', "y": '"abd"'}, "a string"),
        ("x > 0", {"x": "'\\000' <repeats 15 times>"}, "an array of characters"),
        ("x > 0", {"x": "{{a = 1}, {a = 2}}"}, "an array of structures"),
        ("x > 0", {"x": '{"ab", "cd"}'}, "x[0] is text"),
        ("x > y", {"x": '{"ab", "cd"}', "y": '"aa"'}, "x[0] is a string"),
        ("x == y", {"x": "{RED, GREEN}", "y": "0"}, "x[0] is not a number"),
        ("s->m > 0", {"s->m": "{{1, 2}, {3, 4 + 2i}}"}, "s->m[1][1] is complex"),
        ("u%z < 1", {"u%z": "((1,2), (3,4))"}, "u%z(1) is complex"),
        ("x < 100", {"x": r'"\001\002"'}, "an array of characters"),
        ("x > 0", {"x": "{1, 2...}"}, "set print elements unlimited"),
        ("0 < x", {"x": ARRAY}, "'x > 0'"),
        ("n > 0 && x > 0", {"n": "1", "x": ARRAY}, "'x > 0'"),
        ("n || (x)", {"n": "1", "x": ARRAY}, "'x > 0'"),
        ("n > 0 || !(x < 3)", {"n": "1", "x": ARRAY}, "'x > 0'"),
        ("n in 0..x", {"n": "1", "x": ARRAY}, "'x > 0'"),
    ],
)
def test_no_array_passes_by_its_address(condition: str, said: dict[str, str], why: str) -> None:
    found = checked(condition, *((name, {"0-3": text}) for name, text in said.items()))
    assert found.passed == RankSet()
    (each,) = found.failing
    if each.is_error:
        assert why in each.value
    else:
        assert each.value.startswith(why)


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("x > 0", ("x", "x > 0")),
        ("x same", ("x",)),
        ("x", ("x",)),
        ("x increasing", ("x",)),
        ("x in 0..3", ("x", "(x) >= (0)")),
    ],
)
def test_a_condition_that_no_rank_can_evaluate_is_not_checked(
    condition: str, asked: tuple[str, ...]
) -> None:
    found = checked(condition, *((each, {"0-3": ERROR}) for each in asked))
    assert not found.ok and not found.passed
    lines = comparison_text.check(found).splitlines()
    assert lines[0].endswith(": NOT CHECKED on [0-3] (4 of 4)")
    assert lines[1:] == ['[0-3] error: No symbol "x" in current context.']


def test_what_has_an_effect_is_evaluated_once() -> None:
    assert checked("x++ > 0", ("x++ > 0", {"0": "1"})).ok
    assert checked("f(x) > 0", ("f(x) > 0", {"0": "1"})).ok


def test_ranks_that_run_fail_unless_they_may() -> None:
    said = (("x", {"0-2": "1"}), ("x > 0", {"0-2": "1"}))
    found = checked("x > 0", *said, running="3")
    assert not found.ok
    assert comparison_text.check(found) == (
        "x > 0: NOT CHECKED on [3] (1 of 4)\n[3] not checked: running\npassed on [0-2]"
    )
    found = checked("x > 0", *said, running="3", ok=True)
    assert found.ok
    assert comparison_text.check(found) == "x > 0: passed on [0-2]; [3] not checked: running"


def test_ranks_that_cannot_be_checked_are_not_among_those_that_fail() -> None:
    said = (("x", {"0-1": "1", "2": "0"}), ("x > 0", {"0-1": "1", "2": "0"}))
    for ok in (False, True):
        assert comparison_text.check(checked("x > 0", *said, running="3", ok=ok)) == (
            "x > 0: FAILED on [2] (1 of 4)\n[2] x = 0\n[3] not checked: running\npassed on [0-1]"
        )


def test_ranks_that_have_ended_may_be_missing_too() -> None:
    requirement = parse("x > 0")
    gone = Missing(lost=ranks("3"))
    for ok in (False, True):
        found = Check(requirement, ranks("0-3"), ranks("0-2"), missing=gone, running_ok=ok)
        assert found.ok == ok
    late = Check(
        requirement, ranks("0-3"), ranks("0-2"), missing=Missing(late=ranks("3")), running_ok=True
    )
    assert not late.ok


def test_structures_that_should_be_the_same_are_reported_by_field() -> None:
    long = ", ".join(str(number) for number in range(100, 160))
    said = {"0-2": f"{{id = 1, u = {{{long}}}}}", "3": f"{{id = 2, u = {{{long}}}}}"}
    lines = comparison_text.check(checked("p", ("p", said)), width=80).splitlines()
    assert lines[0] == "p is the same on all ranks: FAILED on [3] (1 of 4)"
    assert lines[1].startswith("[0-3] p = {id = …, u = {100, ")
    assert [line.split() for line in lines[2:4]] == [
        [".id", "[0-2]", "1"],
        ["[3]", "2", "<--", "differs"],
    ]
    assert max(map(len, lines)) <= 80


def test_the_error_of_an_operand_comes_in_place_of_what_it_has_led_to() -> None:
    cause = Failure(message="u has an impossible size: its bounds are not set yet")
    wrong = Failure(message="Invalid type combination in ordering comparison.")
    found = checked("u > 0", ("u", {"0": "(1, 2)", "1-2": cause}), ("u > 0", {"1-2": wrong}))
    assert (str(found.passed), str(found.failed)) == ("0", "1-2")
    assert found.failing[0].value == cause.message


@pytest.mark.parametrize("word", ["allocated", "associated"])
def test_a_variable_without_memory_is_named_as_such(word: str) -> None:
    found = checked("u > 0", ("u", {"0": "(1, 2)", "1-2": f"<not {word}>"}))
    assert (str(found.passed), str(found.failed)) == ("0", "1-2")
    assert found.failing[0].value == f"u is not {word}" and found.failing[0].is_error


# -- conditions of sets ------------------------------------------------------------------------


def test_a_comparison_of_an_array_is_true_if_all_elements_meet_it() -> None:
    missing = Failure(message='No symbol "u" in current context.')
    said: dict[str, dict[str, str | Failure]] = {
        "u": {"0": "{1, -2}", "1": "{1, 2}", "2": "7", "3": missing},
        "u > 0": {"2": "1", "3": missing},
    }
    asked: list[tuple[str, str]] = []

    async def ask(expression: str, members: RankSet) -> Answer:
        asked.append((expression, str(members)))
        return answer(*said[expression].items())

    found = asyncio.run(ask_condition("u > 0", RankSet.range(0, 4), ask, no_recall))
    assert asked == [("u", "0-3"), ("u > 0", "2-3")]
    assert where(found) == RankSet([1, 2])
    assert truth(found).false == RankSet([0])
    assert {str(each.ranks): each.record for each in found.errors} == {"3": missing}


def test_the_elements_of_a_condition_are_looked_at_in_full() -> None:
    cut = Value(text="{1...}", digest="0x1")
    looked: list[str] = []

    async def ask(expression: str, members: RankSet) -> Answer:
        return answer((str(members), cut))

    async def look(said: Answer) -> Answer:
        looked.append(str(said.ranks))
        whole = EquivalenceClass[Record](said.ranks, replace(cut, whole="{1, 1, -3}"))
        return replace(said, classes=(whole,))

    found = asyncio.run(ask_condition("u > 0", RankSet.range(0, 2), ask, no_recall, look))
    assert (where(found), looked) == (RankSet(), ["0-1"])
    found = asyncio.run(ask_condition("u > 0", RankSet.range(0, 2), ask, no_recall))
    with pytest.raises(CommandError, match="beyond those that GDB prints cannot be read"):
        where(found)


def test_a_condition_compares_integers_beyond_those_of_gdb() -> None:
    refused = Failure(message="That operation is not available on integers of more than 8 bytes.")

    async def ask(expression: str, members: RankSet) -> Answer:
        return answer(("0", "5"), ("1", str(9 << 70)) if expression == "x" else ("1", refused))

    found = asyncio.run(ask_condition("x < 100", RankSet.range(0, 2), ask, no_recall))
    assert truth(found).false == RankSet([1])
    assert not found.errors


@pytest.mark.parametrize("text", ["u", "3 < u", "u > 0 && v > 0"])
def test_an_array_anywhere_else_makes_no_condition(text: str) -> None:
    async def ask(expression: str, members: RankSet) -> Answer:
        return answer(("0-1", "3" if expression == "3" else "{1, -2}"))

    found = asyncio.run(ask_condition(text, RankSet.range(0, 2), ask, no_recall))
    with pytest.raises(CommandError, match=r"\[0-1\]: u is an array; compare .*'u > 0'"):
        where(found)


def test_what_assigns_in_another_language_than_fortran_is_not_asked() -> None:
    probed = answer(("0,2", ".TRUE."), ("1,3", Failure(message="Left operand of assignment is …")))
    asked: list[tuple[str, str]] = []

    async def ask(expression: str, members: RankSet) -> Answer:
        asked.append((expression, str(members)))
        return probed if expression == "1 /= 2" else answer((str(members), ".TRUE."))

    everybody = RankSet.range(0, 4)
    found = asyncio.run(ask_condition("u /= 3", everybody, ask, no_recall))
    assert asked == [("1 /= 2", "0-3"), ("u", "0,2"), ("u /= 3", "0,2")]
    assert where(found) == ranks("0,2")
    assert [str(each.ranks) for each in found.errors] == ["1,3"]
    checked = asyncio.run(check(parse("u /= 3"), everybody, ask, no_recall))
    assert (checked.passed, checked.failed) == (ranks("0,2"), ranks("1,3"))
    with pytest.raises(UsageError, match=r"on \[1,3\]: '/=' would change the program"):
        asyncio.run(check(parse("(u /= 3) + 1 same"), everybody, ask, no_recall))
    assert {each for each in asked if "u" in each[0]} == {("u", "0,2"), ("u /= 3", "0,2")}
    # Quoted text is a string; no rank need be asked.
    asked.clear()
    asyncio.run(ask_condition("s == '/='", everybody, ask, no_recall))
    assert asked[0][0] == "s"


def test_values_that_gdb_cannot_show_are_not_called_the_same() -> None:
    everywhere = checked("x same", ("x", {"0-3": "<optimized out>"}))
    assert [(str(e.ranks), e.value, e.is_error) for e in everywhere.failing] == [
        ("0-3", "the value is <optimized out>", True)
    ]
    assert not everywhere.passed
    some = checked("x same", ("x", {"0-2": "5", "3": "<optimized out>"}))
    assert [(str(e.ranks), e.is_error) for e in some.failing] == [("3", True)]
    assert some.passed == ranks("0-2")
    part = checked("x same", ("x", {"0-3": "{n = 1, p = <synthetic pointer>}"}))
    (failing,) = part.failing
    assert failing.is_error and "parts that are <synthetic pointer>" in failing.value
    assert "the others" not in comparison_text.check(part)
    assert checked("x same", ("x", {"0-3": '"<optimized out>"'})).ok


@pytest.mark.parametrize(
    ("text", "is_compared"),
    [
        ("'x' <repeats 200 times>...", True),
        ("'ab', 'x' <repeats 195 times>...", True),
        ("L'x' <repeats 200 times>...", True),
        ("97 'a'", False),
        ("0x5555555592a0 'x' <repeats 200 times>...", False),
    ],
)
def test_a_string_that_gdb_has_cut_is_compared(text: str, is_compared: bool) -> None:
    """GDB has no operator for a std::string that the program does not compare itself."""
    (each,) = answer(("0", text)).classes
    assert is_compared_here(each) == is_compared
