"""Places in values of Python: each is an expression that 'print' takes back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdb.backend.python import values
from pgdb.frontend.analysis.diff import compare
from pgdb.frontend.analysis.values import Group, Leaf, parse, unparse
from pgdb.ranks import RankSet
from pgdb.records import PYTHON


def places(one: str, other: str) -> dict[str, tuple[str, ...]]:
    """Return the texts of two ranks by place."""
    for text in (one, other):
        assert unparse(parse(text)) == text
    found = compare([(RankSet([0]), parse(one)), (RankSet([1]), parse(other))])
    return {each.path: tuple(text for _, text in each.texts) for each in found.places}


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ("{'a': {'b': [(1, [3, 4])]}}", "{'a': {'b': [(1, [3, 5])]}}", "['a']['b'][0][1][1]"),
        ("Data(name='d', values={3: 5})", "Data(name='d', values={3: 6})", ".values[3]"),
        ("<Plain n=1, p=(1, 2)>", "<Plain n=1, p=(1, 3)>", ".p[1]"),
        ("[<Plain n=1>, <Plain n=2>]", "[<Plain n=1>, <Plain n=3>]", "[1].n"),
        ("deque([1, 2, 3])", "deque([1, 2, 4])", "[2]"),
        ("Counter({'h': 1, 'l': 2})", "Counter({'h': 1, 'l': 3})", "['l']"),
        ("[(1,), 'a, b]', b'x\\'']", "[(2,), 'a, b]', b'x\\'']", "[0][0]"),
        ("{'a': [1, 2...], 'b': 5, ...}", "{'a': [1, 3...], 'b': 5, ...}", "['a'][1]"),
        ("{'a': 1}", "{'a': 1, 'b': 2}", "['b']"),
        ("{(1, 'x'): 1, 'a': 2}", "{(1, 'x'): 2, 'a': 2}", "[(1, 'x')]"),
        ("{'a': 1, None: 2}", "{'a': 1, None: 3}", "[None]"),
        ("[<zip over=(1,)>, [2]]", "[<zip over=(3,)>, [2]]", "[0]"),
        ("{'i': <list_iterator next=1, over=[5, 6]>}", "{'i': <list_iterator, ended>}", "['i']"),
        ("[dict_keys(['a', 'b'])]", "[dict_keys(['a', 'c'])]", "[0]"),
        ("{-1.5: 1, b'k': [2]}", "{-1.5: 1, b'k': [3]}", "[b'k'][0]"),
        ("{True: 1, (2.5,): 2}", "{True: 1, (2.5,): 3}", "[(2.5,)]"),
        # No expression names a part of these.
        ("{(1, <A at 0x1>): 1, 'a': 2}", "{(1, <A at 0x1>): 2, 'a': 2}", ""),
        ("{'a': 1, nan: 2}", "{'a': 1, nan: 3}", ""),
        ("[{1, 2}, frozenset({1})]", "[{1, 3}, frozenset({1})]", "[0]"),
        ("[slice(1, 2, None)]", "[slice(1, 3, None)]", "[0]"),
        ("[timedelta(days=1)]", "[timedelta(days=2)]", "[0]"),
        ("<T e=<Color.RED: 1>, f=<f at 0x1>>", "<T e=<Color.RED: 2>, f=<f at 0x1>>", ".e"),
        (
            "[numpy.ndarray of float64, shape (2,) = {1.0, 2.0}, 5]",
            "[numpy.ndarray of float64, shape (2,) = {1.0, 2.5}, 5]",
            "[0]",
        ),
        (
            "NS(a=1, b=functools.partial(<built-in function max>, (1,), {'key': 1}))",
            "NS(a=1, b=functools.partial(<built-in function max>, (2,), {'key': 1}))",
            ".b",
        ),
        ("[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]", "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]", "[11]"),
    ],
)
def test_the_place_of_a_difference(one: str, other: str, place: str) -> None:
    assert list(places(one, other)) == [place]


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ("(1, 2, 0)", "(1, 2, 1)", "[2]"),
        ("((1, (2, 0)), {3})", "((1, (2, 1)), {3})", "[0][1][1]"),
        ("(0,)", "(1,)", "[0]"),
        ("{1, 2, 10}", "{1, 2, 11}", ""),
        ("{'a', (1, 0)}", "{'a', (1, 1)}", ""),
        ("{Fraction(1, 2): 0}", "{Fraction(1, 2): 1}", ""),
        ("{<F.A: 1>: 0, 'b': 2}", "{<F.A: 1>: 1, 'b': 2}", ""),
        ("{frozenset({1}): [0]}", "{frozenset({1}): [1]}", ""),
    ],
)
def test_a_value_that_could_be_of_c_is_known_to_be_of_python(
    one: str, other: str, place: str
) -> None:
    nodes = [parse(each, (PYTHON,)) for each in (one, other)]
    assert [unparse(each) for each in nodes] == [one, other]
    found = compare([(RankSet([rank]), node) for rank, node in enumerate(nodes)])
    assert [each.path for each in found.places] == [place]


def test_equal_elements_are_no_run() -> None:
    """GDB's "<repeats 11 times>" is no Python."""
    one, other = ([0] * 11 + [last] for last in (1, 2))
    found = compare([(RankSet([0]), parse(str(one))), (RankSet([1]), parse(str(other)))])
    assert found.common == str(one).replace("1]", "…]")


@pytest.mark.parametrize(
    "text",
    ["[ PF IF ]", "<error: Cannot access memory at address 0x0>", "<optimized out>", "{1, 2}"],
)
def test_values_of_other_languages_are_none_of_python(text: str) -> None:
    node = parse(text)
    assert unparse(node) == text
    assert isinstance(node, Leaf) or node.opening


VALUES = st.recursive(
    st.integers() | st.text(max_size=6) | st.none() | st.booleans() | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, min_size=1, max_size=4)
    ),
    max_leaves=12,
)


def leaves(value: object, path: str) -> list[tuple[str, object]]:
    match value:
        case list() | tuple():
            return [at for n, each in enumerate(value) for at in leaves(each, f"{path}[{n}]")]
        case dict():
            return [at for k, each in value.items() for at in leaves(each, f"{path}[{k!r}]")]
    return [(path, value)]


def with_leaf(value: object, number: int) -> object:
    """Return a copy of a value in which one leaf is another object."""
    count = 0

    def copied(each: object) -> object:
        nonlocal count
        match each:
            case list():
                return [copied(one) for one in each]
            case tuple():
                return tuple(copied(one) for one in each)
            case dict():
                return {key: copied(one) for key, one in each.items()}
        count += 1
        return "another text" if count == number + 1 else each

    return copied(value)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(VALUES, min_size=1, max_size=3) | st.dictionaries(st.text(), VALUES))
def test_the_place_of_one_element_is_an_expression_for_it(
    data: st.DataObject, value: list[object] | dict[str, object]
) -> None:
    known = leaves(value, "v")
    if not known:
        return
    number = data.draw(st.integers(0, len(known) - 1))
    place, _ = known[number]
    (found,) = places(repr(value), repr(with_leaf(value, number)))
    assert ast.dump(ast.parse(f"v{found}")) == ast.dump(ast.parse(place))
    assert values.parse(f"v{found}").variable == "v"


def test_a_whole_value_has_parts() -> None:
    assert isinstance(parse("[1, 2]"), Group)
