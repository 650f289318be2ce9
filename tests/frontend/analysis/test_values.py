"""Values as GDB prints them: parsed without loss, compared field by field."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.frontend.analysis.diff import NONE, NOT_SHOWN, Comparison, compare, leaves, placeholders
from pgdb.frontend.analysis.values import Group, Leaf, Node, filled, number_of, parse, unparse
from pgdb.merge.normalize import normalize_values
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, SLOT

# Output of GDB 13.1 (width 0) with libstdc++'s pretty-printers.
C_STRUCT = (
    "{id = 5, x = {0, 2.5, 0}, name = \"even\", '\\000' <repeats 11 times>, "
    'label = 0x55555555601b "a particle", colour = GREEN, flags = (FAST | LOUD), is_ghost = 0, '
    "corner = {{x = 0, y = 0}, {x = 0, y = -1}}, {count = 3, weight = 4.20389539e-45}, "
    "next = 0x7fffffffe650, move = 0x555555555199 <move>}"
)
CXX_OBJECT = (
    '@0x7fffffffe650: {<Base> = {id = 5, static count = 3}, weight = 2.5, name = "common", '
    "cells = std::vector of length 3, capacity 3 = {1, 2, 3}, "
    'ages = std::map with 2 elements = {["a"] = 1, ["b, c"] = 2}}'
)
FORTRAN_TYPE = (
    "( id = 5, x = (1, 2.5, 3), is_ghost = .FALSE., name = 'even', ' ' <repeats 4 times> )"
)
PRETTY = """{
  <Base> = {
    id = 5,
    static count = 3
  }, 
  members of Derived:
  weight = 2.5,
  corner = {{
      x = 0,
      y = 0
    }, {
      x = 0,
      y = -1
    }} <repeats 30 times>,
  ages = std::map with 2 elements = {
    ["a"] = 1,
    ["b, c"] = 2
  }
}"""  # noqa: W291  # GDB ends that line with a blank
GROUPS = [
    C_STRUCT,
    CXX_OBJECT,
    FORTRAN_TYPE,
    PRETTY,
    "{0, 1, 4, 9...}",
    "{0 <repeats 1000 times>}",
    "{1431654894, 21845, 0 <repeats 26 times>}",
    "{{1, 0 <repeats 11 times>}, {0 <repeats 12 times>}, {0 <repeats 12 times>} <repeats 9 times>}",
    '{0x555555556008 "x", 0x55555555600a "y, {z}", 0x0}',
    '{"ab\\000", "cd\\000"}',
    "{0x555555555139 <f(int, std::vector<int, std::allocator<int> >&)>, 0x0}",
    "{0x5555 <Point::operator<(Point const&) const+4>, 0x5556 <Point::operator->()>}",
    "{a = 0x8 <error: Cannot access memory at address 0x8>, b = <optimized out>}",
    "{a = {...}, b = 1}",
    "{...}",
    "{<No data fields>}",
    "{[0] = {[0] = 1, [1] = 0 <repeats 11 times>}, [1] = {[0] = 0 <repeats 12 times>}}",
    "{get() = 0x5555}",
    "std::shared_ptr<Point> (use count 1, weak count 0) = {get() = 0x55555556b2c0}",
    'std::tuple containing = {[0] = 1, [1] = "a"}',
    "{_vptr.Base = 0x555555557d50 <vtable for Derived+16>, x = 1}",
    "{wide = L\"wide\", L'\\000' <repeats 15 times>, c = 97 'a', z = 1 + 2i}",
    "(0, <repeats 49 times>, 3, 0, <repeats 50 times>)",
    "((0, 0, 0) (0, 0, 1))",
    "((0, <repeats 3 times>) (0, 0, 1))",
    "((1,2), (3,4))",
    "(.TRUE., .FALSE.)",
    "(1, 2, 3, ...)",
]
LEAVES = [
    "",
    "5",
    "-2.5e-10",
    "-nan(0x8000000000000)",
    "97 'a'",
    "'{'",
    "(FAST | LOUD)",
    "(unknown: 0x8)",
    "(1,2)",
    "1 + 2i",
    ".TRUE.",
    "[ PF IF ]",
    "void",
    "<optimized out>",
    "(struct particle *) 0x7fffffffe650",
    "(void (*)(int, struct s *)) 0x555555555139 <f>",
    "{void (int, struct s *)} 0x555555555139 <f>",
    "{int ()} 0x555555555147 <main>",
    "0x8 <error: Cannot access memory at address 0x8>",
    '"abc", \'x\' <repeats 20 times>, "de"...',
    "'\\000' <repeats 39 times>",
    "'even', ' ' <repeats 4 times>",
    '"say \\"{\\", \'{\'"',
    # The end of one string and the beginning of the next cannot be distinguished.
    "{\"abc\", '\\000' <repeats 36 times>, \"def\", '\\000' <repeats 30 times>}",
    "{1, 2",
    "{1, 2}}",
    "{1, (2}",
    "{" * 5000,
    "<" * 50,
]


@pytest.mark.parametrize("text", GROUPS)
def test_values_with_parts_are_read(text: str) -> None:
    node = parse(text)
    assert isinstance(node, Group), text
    assert unparse(node) == text
    slots: list[str] = []
    normalized = normalize_values(text, slots)
    assert isinstance(parse(normalized, slots), Group)
    assert unparse(parse(normalized, slots)) == normalized
    assert filled(parse(normalized, slots)) == text


@pytest.mark.parametrize("text", LEAVES)
def test_what_has_no_parts_is_a_leaf(text: str) -> None:
    assert parse(text) == Leaf(text)


_PIECES = st.sampled_from(
    [
        *(
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "<",
            ">",
            '"',
            "'",
            "\\",
            "\n",
            " ",
            ", ",
            " = ",
            ": ",
            "...",
        ),
        *(
            "x = ",
            "5",
            "5,6",
            "0x55555",
            SLOT,
            PLACEHOLDER,
            "std::",
            '"a"',
            "'x' <repeats 12 times>",
        ),
        *(" <repeats 3 times>", "<error: at 0x8>", "members of A:\n"),
        "std::vector of length 1, capacity 2 = {",
    ]
)
_texts = st.lists(_PIECES | st.text(max_size=2), max_size=30).map("".join)


@given(_texts, st.booleans())
def test_no_text_is_lost(text: str, is_normalized: bool) -> None:
    slots = [f"0x{number}" for number in range(text.count(SLOT))] if is_normalized else []
    assert unparse(parse(text, slots)) == text
    if is_normalized:
        whole = text
        for slot in slots:
            whole = whole.replace(SLOT, slot, 1)
        assert filled(parse(text, slots)) == whole


_values = st.recursive(
    st.sampled_from(["0", "1", "nan", '"a, b"', "0x0", "<optimized out>"]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4).map(lambda each: f"{{{', '.join(each)}}}")
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda each: "{" + ", ".join(f"m{n} = {one}" for n, one in enumerate(each)) + "}"
        )
    ),
    max_leaves=12,
)


@given(st.lists(_values, min_size=1, max_size=5))
def test_every_rank_is_at_every_place_once(texts: list[str]) -> None:
    found = compare([(RankSet([rank]), parse(text)) for rank, text in enumerate(texts)])
    assert bool(found.places) == (len(set(texts)) > 1)
    for place in found.places:
        ranks = [rank for members, _ in place.texts for rank in members]
        assert sorted(ranks) == list(range(len(texts)))
        assert len({text for _, text in place.texts}) == len(place.texts) > 1


@given(_values, st.integers(2, 5))
def test_equal_values_are_common(text: str, count: int) -> None:
    found = compare([(RankSet([rank]), parse(text)) for rank in range(count)])
    assert (found.common, found.places) == (text, ())


def compared(*pairs: tuple[str, str]) -> Comparison:
    return compare([(RankSet.parse(ranks), parse(text)) for ranks, text in pairs])


def places(found: Comparison) -> dict[str, list[tuple[str, str]]]:
    return {each.path: [(str(ranks), text) for ranks, text in each.texts] for each in found.places}


def test_one_field_differs() -> None:
    found = compared(("0-6,8-31", C_STRUCT), ("7", C_STRUCT.replace("2.5", "nan(0x80000)")))
    assert found.common == C_STRUCT.replace("2.5", "…")
    assert places(found) == {".x[1]": [("0-6,8-31", "2.5"), ("7", "nan(0x80000)")]}


@pytest.mark.parametrize(
    ("texts", "common", "paths"),
    [
        (("{a = {b = 1}}", "{a = {b = 2}}"), "{a = {b = …}}", [".a.b"]),
        (("{{a = 1}, {a = 2}}", "{{a = 1}, {a = 3}}"), "{{a = 1}, {a = …}}", ["[1].a"]),
        (("{1, {a = 2}, x = 3}", "{1, {a = 4}, x = 3}"), "{1, {a = …}, x = 3}", [".a"]),
        ((FORTRAN_TYPE, FORTRAN_TYPE.replace("2.5", "0")), None, ["%x(2)"]),
        (("((0, 0) (0, 1))", "((0, 0) (5, 1))"), "((0, 0) (…, 1))", ["(1,2)"]),
        (("(1, 2, 3, 4)", "(1, 0, 0, 4)"), "(1, …, …, 4)", ["(2:3)"]),
        (("{1, 2, 3, 4}", "{1, 0, 0, 4}"), "{1, …, …, 4}", ["[1]@2"]),
        ((CXX_OBJECT, CXX_OBJECT.replace("] = 2", "] = 3")), None, ['.ages["b, c"]']),
        ((CXX_OBJECT, CXX_OBJECT.replace("id = 5", "id = 6")), None, [".id"]),
        ((CXX_OBJECT, CXX_OBJECT.replace("count = 3", "count = 4")), None, [".count"]),
        (("{[0] = 7, [1] = 8}", "{[0] = 7, [1] = 9}"), None, ["[1]"]),
        (("1", "2"), "…", [""]),
        (("{a = 1}", "<optimized out>"), "…", [""]),
        (("{a = 1}", "{1}"), "…", [""]),
    ],
)
def test_paths_are_as_gdb_takes_them(
    texts: Sequence[str], common: str | None, paths: list[str]
) -> None:
    found = compared(*((str(rank), text) for rank, text in enumerate(texts)))
    assert [each.path for each in found.places] == paths
    if common is not None:
        assert found.common == common


def test_runs_are_compared_without_writing_them_out() -> None:
    found = compared(
        ("0", "{0 <repeats 1000000000 times>}"),
        ("1", "{0 <repeats 500000000 times>, 7, 0 <repeats 499999999 times>}"),
    )
    assert found.common == "{0 <repeats 500000000 times>, …, 0 <repeats 499999999 times>}"
    assert places(found) == {"[500000000]": [("0", "0"), ("1", "7")]}


def test_neighbours_that_split_the_ranks_alike_are_one_place() -> None:
    found = compared(("0,2", "{9, 0 <repeats 20 times>, 5}"), ("1", "{9, 1 <repeats 20 times>, 6}"))
    assert found.common == "{9, … <repeats 21 times>}"
    assert places(found) == {
        "[1]@21": [("0,2", "{0 <repeats 20 times>, 5}"), ("1", "{1 <repeats 20 times>, 6}")]
    }


def test_an_array_that_differs_nearly_everywhere_is_one_place() -> None:
    one = ", ".join(str(n) for n in range(40))
    two = ", ".join(str(n if n % 2 else n + 100) for n in range(40))
    three = ", ".join(str(n + 200) for n in range(40))
    found = compared(*((str(n), f"{{{text}}}") for n, text in enumerate((one, two, three))))
    assert len(found.places) == 1
    assert (found.common, found.has_common) == ("…", False)


def test_lengths_and_members_that_some_ranks_lack() -> None:
    found = compared(
        ("0-2", "{n = 3, v = std::vector of length 3, capacity 3 = {1, 2, 3}}"),
        ("3", "{n = 3, v = std::vector of length 4, capacity 6 = {1, 2, 3, 4}, extra = 1}"),
    )
    assert places(found) == {
        ".v": [
            ("0-2", "std::vector of length 3, capacity 3"),
            ("3", "std::vector of length 4, capacity 6"),
        ],
        ".v[3]": [("0-2", NONE), ("3", "4")],
        ".extra": [("0-2", NONE), ("3", "1")],
    }
    cut = compared(("0", "{1, 2...}"), ("1", "{1, 2, 3...}"))
    assert places(cut) == {"[2]": [("0", NOT_SHOWN), ("1", "3")]}


def test_addresses_do_not_differ() -> None:
    texts = ['{id = 1, p = (T *) 0x7ffe10, s = 0x55555500 "a"}'] * 2
    texts += ['{id = 2, p = (T *) 0x7ffe20, s = 0x55555500 "a"}']
    values: list[tuple[RankSet, Node]] = []
    for rank, text in enumerate(texts):
        slots: list[str] = []
        normalized = normalize_values(text, slots)
        values.append((RankSet([rank]), parse(normalized, slots)))
    found = compare(values)
    assert found.common == '{id = …, p = (T *) …, s = 0x55555500 "a"}'
    assert places(found) == {".id": [("0-1", "1"), ("2", "2")]}


def test_leaves_by_path() -> None:
    values = [(RankSet([0]), parse("{a = 1, b = {1, 0, 0}}")), (RankSet([1]), parse("{a = 2}"))]
    assert leaves(values) == {
        ".a": [(RankSet([0]), "1"), (RankSet([1]), "2")],
        ".b[0]": [(RankSet([0]), "1")],
        ".b[1]": [(RankSet([0]), "0")],
        ".b[2]": [(RankSet([0]), "0")],
    }
    runs = leaves([(RankSet([0]), parse("{0 <repeats 30 times>, 1}"))])
    assert list(runs) == ["[0]@30", "[30]"]
    assert leaves([(RankSet([0]), parse("7"))]) == {"": [(RankSet([0]), "7")]}


def test_placeholders_of_a_template() -> None:
    form = "{id = □, x = {1, □}, m = {[□] = □}, s = 0x8 □}".replace("□", PLACEHOLDER)
    assert [each.path for each in placeholders(parse(form))] == [
        ".id",
        ".x[1]",
        ".m",
        ".m[…]",
        ".s",
    ]
    assert [each.number for each in placeholders(parse(form))] == list(range(5))
    assert [each.path for each in placeholders(parse(PLACEHOLDER))] == [""]


@pytest.mark.parametrize("text", [PRETTY, FORTRAN_TYPE, "( a = 1 )", "{\n  a = 1\n}"])
def test_blanks_are_no_part_of_a_value(text: str) -> None:
    found = [said for pairs in leaves([(RankSet([0]), parse(text))]).values() for _, said in pairs]
    assert found and found == [each.strip() for each in found]


def test_numbers() -> None:
    assert number_of("-0x10") == -16
    assert str(number_of(f"nan({SLOT})")) == "nan"
    assert number_of("(1,2)") is None


# -- places that can be typed --------------------------------------------------------------------


def paths_of(*texts: str, bounds: Sequence[str] = ()) -> list[str]:
    """Return the places at which values of the ranks 0, 1 … differ."""
    slots: list[tuple[str, ...]] = [(each,) for each in bounds] or [()] * len(texts)
    nodes = [(RankSet([rank]), parse(text, slots[rank])) for rank, text in enumerate(texts)]
    for text, (_, node) in zip(texts, nodes, strict=True):
        assert unparse(node) == text
    return [place.path for place in compare(nodes).places]


@pytest.mark.parametrize(
    ("one", "other", "bounds", "path"),
    [
        ("(4, 5, 6)", "(4, 9, 6)", "-1", "(0)"),
        ("(4, 5, 6)", "(4, 9, 8)", "10", "(11:12)"),
        ("((4, 5) (6, 7))", "((4, 5) (9, 7))", "-3,0,0", "(0,-2)"),
        ("( n = 2, x = (1, 2) )", "( n = 2, x = (1, 3) )", "5", "%x(6)"),
        (
            "(( x = (1, 2) ), ( x = (1, 2) ))",
            "(( x = (1, 2) ), ( x = (1, 3) ))",
            "0,5,7",
            "(1)%x(8)",
        ),
        ("(4, 5, 6)", "(4, 9, 6)", "?", "(lbound+1)"),
        ("(4, 5, 6)", "(4, 9, 6)", "1,1", "(lbound+1)"),
    ],
)
def test_fortran_indices_begin_at_the_lower_bounds(
    one: str, other: str, bounds: str, path: str
) -> None:
    assert paths_of(one, other, bounds=(bounds, bounds)) == [path]


def test_fortran_arrays_with_other_bounds_are_compared_as_a_whole() -> None:
    assert paths_of("(4, 5)", "(4, 6)", bounds=("0", "10")) == [""]
    assert paths_of("(4, 5)", "(4, 5)", bounds=("0", "10")) == []


def test_an_empty_vector_shifts_no_element() -> None:
    empty, full = "std::vector of length 0, capacity 0", "std::vector of length 2, capacity 2 = "
    rows = f"std::vector of length 3, capacity 4 = {{{empty}, {full}{{1, %d}}, {empty}}}"
    assert paths_of(rows % 2, rows % 3) == ["[1][1]"]
    flags = "std::vector<bool> of length 0, capacity 0"
    assert paths_of(f"{{a = {flags}, b = 1}}", f"{{a = {flags}, b = 2}}") == [".b"]
    assert paths_of(f"{{a = {empty}, b = 1}}", f"{{a = {full}{{4, 5}}, b = 1}}") == [".a"]


def test_a_key_that_a_cut_map_lacks_is_not_known_to_be_absent() -> None:
    cut = "std::map with 300 elements = {[1] = 5, [2] = 6...}"
    other = "std::map with 2 elements = {[1] = 5, [9] = 6}"
    places = compare([(RankSet([0]), parse(cut)), (RankSet([1]), parse(other))]).places
    shown = {place.path: {text: ranks for ranks, text in place.texts} for place in places}
    assert shown["[9]"] == {NOT_SHOWN: RankSet([0]), "6": RankSet([1])}
    assert shown["[2]"] == {"6": RankSet([0]), NONE: RankSet([1])}


@pytest.mark.parametrize(
    "text",
    [
        "'a' <repeats 20 times>, \"bc\"",
        "'a' <repeats 20 times>, \"bc\", 'x' <repeats 20 times>, \"dd\"",
        '"xx", \'a\' <repeats 20 times>, "bc"',
        "'\\000' <repeats 14 times>",
    ],
)
@pytest.mark.parametrize("before", ["", "0x5555555592a0 ", "0x5555555592a0 <name> "])
def test_a_string_that_begins_with_a_repeated_character_hides_no_field(
    text: str, before: str
) -> None:
    one = f"{{i = 3, name = {before}{text}, x = 1, y = {{1, 2}}}}"
    assert paths_of(one, one.replace("x = 1", "x = 2")) == [".x"]
    if before:
        row = f'{{{before}{text}, {before}"b"}}'
        assert paths_of(row, row.replace('"b"', '"c"')) == ["[1]"]


@pytest.mark.parametrize(
    ("one", "path"),
    [
        ("{std::__cxx11::list = {[0] = 1}, std::__cxx11::list = {[0] = %d}}", "[1][0]"),
        ("std::map with 2 elements = {[0] = 5, [1] = %d}", "[1]"),
        ("std::map with 1 element = {[120 'x'] = {1, %d}}", "[120][1]"),
        ("std::map with 2 elements = {[{x = 1}] = {1, 1}, [{x = 2}] = {1, %d}}", "._element(1)[1]"),
        ("std::multimap with 2 elements = {[4] = {1, 1}, [4] = {1, %d}}", "._element(1)[1]"),
        ("std::optional<P> = {[contained value] = {x = 1, y = %d}}", ".value().y"),
        (
            "std::optional<A> containing std::vector of length 2, capacity 2 = {1, %d}",
            ".value()[1]",
        ),
        (
            "std::variant<A, B> [index 1] containing std::set with 1 element = {[0] = %d}",
            "[0][0]",
        ),
        ("{<A> = {id = %d, n = 1}, id = 2}", ".A::id"),
        ("{<A> = {id = 1, n = %d}, id = 2}", ".n"),
        ("{<A> = {n = 1}, <B> = {<C> = {n = %d}, m = 1}, k = 2}", ".C::n"),
        ("{k = 1, {u = %d, v = 1}}", ".u"),
    ],
)
def test_paths_into_containers_and_classes(one: str, path: str) -> None:
    assert paths_of(one % 3, one % 4) == [path]


def test_parts_of_a_run_are_named_one_by_one() -> None:
    one = "{{x = 1, y = 2} <repeats 3 times>}"
    assert paths_of(one, one.replace("x = 1", "x = 5")) == ["[0].x", "[1].x", "[2].x"]
    deque = "std::deque with 4 elements = {7, 1, 1, 7}"
    assert paths_of(deque, deque.replace("1, 1", "2, 2")) == ["[1]", "[2]"]
    assert paths_of("{7, 1, 1, 7}", "{7, 2, 2, 7}") == ["[1]@2"]


def test_an_object_of_another_class_has_parts() -> None:
    """With "set print object on", the class stands before the object to which a pointer points."""
    text = "(grid::Fine<int>) {<Base> = {kind = 1}, extra = 2.5, inner = {1, 2}}"
    node = parse(text)
    assert isinstance(node, Group)
    assert unparse(node) == text
    assert [item.label.text for item in node.items] == ["<Base> = ", "extra = ", "inner = "]
