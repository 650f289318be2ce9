"""Answers in full, as 'expand' shows them: all places, addresses, page by page."""

from __future__ import annotations

from pgdb.frontend.analysis.whole_values import with_known
from pgdb.frontend.show.text import render
from pgdb.records import Text, Value, Variable, Variables
from tests.support.rendered import by_rank, fields, shown


def test_expand_lists_all_places_and_addresses() -> None:
    usual = {"f20": "1", "f38": "0.5", "f39": "(int *) 0x5555555592a0"}
    said = [fields(rank, **usual) for rank in range(4)]
    said[2] = fields(2, **usual | {"f38": "inf", "f39": "(int *) 0x5555555592b0"})
    lines = shown(by_rank("print s", said), whole=True, width=0)
    assert lines[0].startswith("[0-3] s = {f0 = …, f1 = …")
    assert [line.split() for line in lines[1:3]] == [
        [".f38", "[0-1,3]", "0.5"],
        ["[2]", "inf", "<--", "differs"],
    ]
    assert sum(line.lstrip().startswith(".f") for line in lines) == 39  # f20 is equal
    # An address comes last.
    assert [line.split()[-2:] for line in lines[-2:]] == [
        ["*)", "0x5555555592a0"],
        ["<--", "differs"],
    ]
    assert "more places" not in "".join(lines)


def test_expand_lists_places_page_by_page() -> None:
    def structure(rank: int) -> str:
        return "{" + ", ".join(f"f{n} = {rank + n}" for n in range(450)) + ", g = 1}"

    said = by_rank("print s", [structure(rank) for rank in range(2)])

    def page(first: int, number: int = 0) -> list[str]:
        text = render.answer(said, whole=True, first_place=first, number=number)
        return text.split("\n")

    assert [len(page(first)) for first in (1, 201, 401)] == [402, 402, 102]
    assert page(1)[-1] == "(places 1-200 of 450; 'expand 201..' shows the next)"
    assert page(201, 7)[1].split() == [".f200", "[0]", "200"]
    assert page(201, 7)[-1] == "(places 201-400 of 450; 'expand 7 401..' shows the next)"
    assert page(401)[-1] == "(places 401-450 of 450)"


def test_expand_shows_equal_variables_once() -> None:
    said = by_rank(
        "info locals",
        [Variables((Variable("a", "{1, 2}"), Variable("n", str(rank)))) for rank in range(3)],
    )
    assert shown(said, whole=True) == ["[0-2] a = {1, 2}", *(f"[{n}]   n = {n}" for n in range(3))]


def test_expand_shows_addresses_of_outputs() -> None:
    texts = [f"rax 0x1 1\nrsp 0x7ffc3600481{rank}\nrbx 0x5 5" for rank in range(2)]
    lines = shown(by_rank("info registers", [Text(text) for text in texts]), whole=True)
    assert lines == [
        "[0-1]",
        "rax 0x1 1",
        "rsp …",
        "rbx 0x5 5",
        "    rsp  [0] 0x7ffc36004810",
        "         [1] 0x7ffc36004811",
    ]


def test_expand_keeps_the_lower_bounds_of_fortran() -> None:
    said = [Value(text=f"( a = (1, {rank}, 3), n = 1 )", bounds="-1") for rank in range(2)]
    lines = shown(by_rank("print t", said), whole=True)
    assert [line.split() for line in lines[1:]] == [["%a(0)", "[0]", "0"], ["[1]", "1"]]


def test_expand_shows_strings_up_to_their_ends() -> None:
    def string(rank: int) -> Value:
        at = f"0x5555555592{rank}0 "
        end = "b" if rank == 1 else "a"
        whole = f"0x555555559200 'a' <repeats 300 times>, \"{end}\""
        return Value(f"{at}'a' <repeats 200 times>...", digest=f"0x{end}", whole=whole)

    lines = shown(by_rank("print s", [string(rank) for rank in range(2)]), whole=True, width=0)
    assert lines == [
        "[0] s = 0x555555559200 'a' <repeats 300 times>, \"a\"",
        "[1] s = 0x555555559210 'a' <repeats 300 times>, \"b\"",
    ]


def test_expand_lists_places_behind_the_printed_part_and_addresses() -> None:
    def structure(rank: int) -> Value:
        begin = f"{{p = 0x5555555592{rank}0, x = {{1, 2"
        third = "nan(0x8000000000000)" if rank == 1 else "3"
        return Value(
            f"{begin}...}}}}",
            digest=f"0x{third}",
            whole=f"{{p = 0x5555555592f0, x = {{1, 2, {third}}}}}",
        )

    # The values of a class have one text that is the whole of one rank.
    before = by_rank("print s", [structure(rank) for rank in range(3)])
    bare = [Value(each.text) for each in map(structure, range(3))]
    marked = [Value(each.text, digest="0x1", looked_at=2) for each in bare]
    recalled = with_known(by_rank("print s", marked), before)
    lines = [line.split() for line in shown(recalled, whole=True, width=0)]
    assert lines[1:] == [
        [".x[2]", "[0,2]", "3"],
        ["[1]", "nan(0x8000000000000)", "<--", "differs"],
        [".p", "[0]", "0x555555559200"],
        ["[1]", "0x555555559210"],
        ["[2]", "0x555555559220"],
    ]
