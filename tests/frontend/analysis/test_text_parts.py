"""Texts of several lines compared part by part."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pgdb.frontend.analysis.text_parts import Merged, Said, merge_texts
from pgdb.ranks import RankSet
from tests.support.merged_texts import said


def merged(*texts: str) -> Merged:
    found = merge_texts(said(*texts))
    assert [each.members for each in found] == [tuple(range(len(texts)))]
    return found[0]


def places(found: Merged) -> dict[str, list[tuple[str, str]]]:
    return {
        place.path: [(str(ranks), text) for ranks, text in place.texts] for place in found.places
    }


def registers(rax: int, sp: int, at: str, flags: str) -> str:
    return (
        f"rax            {rax:#x}                 {rax}\n"
        "rbx            0x5                 5\n"
        f"rsi            {sp:#x}      {sp}\n"
        f"rip            0x55efa1ccd29a      0x55efa1ccd29a <{at}>\n"
        f"eflags         0x246               [ {flags} ]\n"
    )


def test_fields_of_the_machine_interface() -> None:
    line = "locals: 2\n  name = n, value = 4\n  name = a, value = {{1, {}}}, type = int [2]"
    found = merged(*(line.format(n) for n in (2, 2, 3)))
    assert found.common.endswith("name = a, value = {1, …}, type = int [2]")
    assert places(found) == {"a value[1]": [("0-1", "2"), ("2", "3")]}
    lines = [f"  id = i1, type = process, pid = {7 + n}, cores = {{0{', 1' * n}}}" for n in (0, 1)]
    found = merged(*lines)
    assert places(found)["i1 pid"] == [("0", "7"), ("1", "8")]
    lines = [f"  level = 0, args = {{{{name = n, value = {n}}}}}" for n in (1, 2)]
    assert [*places(merged(*lines))] == ["level 0 args[0].value"]


def test_lists_of_values_keep_their_numbers_where_one_is_longer() -> None:
    found = merged("$3 = 1\n$4 = 5\n$5 = 7", "$3 = 1\n$4 = 6", "$3 = 1\n$4 = 5\n$5 = 7")
    assert found.common == "$3 = 1\n$4 = …\n…"
    found = merged("$3 = 1\n$4 = 5", "$7 = 1\n$8 = 6")
    assert found.common == "$… = 1\n$… = …"


def test_registers() -> None:
    stacks = [0x7FFC36004710 + (rank << 20) for rank in range(4)]
    texts = [registers(1, sp, "look(Cell&, int)+12", "PF ZF") for sp in stacks]
    texts[3] = registers(7, stacks[3], "main()+40", "PF IF ZF")
    found = merged(*texts)
    assert found.common.split("\n") == [
        "rax            …",
        "rbx            0x5                 5",
        "rsi            …      …",
        "rip            0x55efa1ccd29a      0x55efa1ccd29a <…>",
        "eflags         0x246               […]",
    ]
    assert places(found) == {
        "rax": [("0-2", "0x1  1"), ("3", "0x7  7")],
        "rip": [("0-2", "look(Cell&, int)+12"), ("3", "main()+40")],
        "eflags": [("0-2", "PF ZF"), ("3", "PF IF ZF")],
    }


def thread(number: int, rank: int, function: str = "wait") -> str:
    mark = "*" if number == 1 else " "
    where = f"{function} (rank={rank}) at threads.c:26"
    return f'{mark} {number}    Thread 0x7ffff7d8c740 (LWP 47{number}) "ring" {where}\n'


def test_arguments_of_threads() -> None:
    head = "  Id   Target Id                                 Frame \n"
    found = merged(*(head + thread(1, rank) + thread(2, 5) for rank in range(3)))
    assert found.common.split("\n")[1].endswith('"ring" wait (rank=…) at threads.c:26')
    assert found.common.split("\n")[2].endswith('"ring" wait (rank=5) at threads.c:26')
    assert places(found) == {"1 Thread rank": [("0", "0"), ("1", "1"), ("2", "2")]}


def test_a_line_that_one_rank_has_or_lacks() -> None:
    head = "  Id   Target Id                                 Frame \n"
    usual = [head, thread(1, 0), thread(2, 0), thread(3, 0)]
    found = merged(*["".join(usual)] * 3, "".join((*usual, thread(4, 0, "other"))))
    assert len(found.common.split("\n")) == 4
    ((label, texts),) = places(found).items()
    assert label == "4 Thread"
    assert texts[0] == ("0-2", "(none)")
    assert texts[1][0] == "3" and texts[1][1].endswith("other (rank=0) at threads.c:26")
    lacking = merged(*["".join(usual)] * 3, "".join(usual[:2] + usual[3:]))
    assert [texts[1] for texts in places(lacking).values()] == [("3", "(none)")]
    assert "…" in lacking.common.split("\n")


def test_structures_are_compared_by_field() -> None:
    def text(rank: int) -> str:
        weight = "nan(0x8000000000000)" if rank == 2 else "2.5"
        return (
            f"1: cell = {{id = {rank}, weight = {weight}, next = 0x5555555592a{rank}}}\n2: n = 5\n"
        )

    found = merged(*map(text, range(3)))
    assert found.common == "1: cell = {id = …, weight = …, next = …}\n2: n = 5"
    assert places(found) == {
        "cell.id": [("0", "0"), ("1", "1"), ("2", "2")],
        "cell.weight": [("0-1", "2.5"), ("2", "nan(0x8000000000000)")],
    }
    assert found.has_fields


def test_memory_is_labelled_by_symbol_or_line() -> None:
    named = merged(*(f"<buf>:\t0x1\t0x{rank}\n<buf+16>:\t0x3\t0x4" for rank in range(3)))
    assert list(places(named)) == ["<buf> word 3"]
    bare = merged(*(f"0x7ffff7d8c740:\t1\t{rank}\n0x7ffff7d8c750:\t3\t4" for rank in range(3)))
    assert list(places(bare)) == ["line 1 word 3"]


def test_texts_that_are_not_alike_stay_apart() -> None:
    one = 'Symbol "a" is static.\nIt is in main.\nNothing else.\n'
    other = "0x5555\tcall\n0x5556\tret\n0x5557\tnop\n"
    assert [each.members for each in merge_texts(said(one, other))] == [(0,), (1,)]
    groups = merge_texts(said(one, other, one.replace("main", "look"), other.replace("nop", "hlt")))
    assert [each.members for each in groups] == [(0, 2), (1, 3)]


def test_the_most_frequent_text_is_the_model() -> None:
    texts = said("x 1\ny 2", "x 1\ny 3")
    (found,) = merge_texts([texts[0], Said(RankSet.range(1, 9), texts[1].text)])
    assert places(found) == {"y": [("1-8", "3"), ("0", "2")]}


WORDS = st.sampled_from(["rax", "0x5", "(x=1)", '"a b"', "=", "* 1", "<f(int)+4>", "{1, 2}", "…"])
LINES = st.lists(WORDS, max_size=5).map(" ".join)


@given(st.lists(st.lists(LINES, min_size=1, max_size=6), min_size=1, max_size=5))
def test_every_text_is_in_one_group_and_every_rank_has_one_text_at_a_place(
    texts: list[list[str]],
) -> None:
    groups = merge_texts(said(*("\n".join(lines) for lines in texts)))
    members = list(itertools.chain.from_iterable(each.members for each in groups))
    assert sorted(members) == list(range(len(texts)))
    for group in groups:
        for place in group.places:
            ranks = [rank for each, _ in place.texts for rank in each]
            assert sorted(ranks) == sorted(group.members)
            assert len({text for _, text in place.texts}) == len(place.texts)


def test_variables_of_other_frames_are_not_compared() -> None:
    main = "#{}  main (argc=1) at a.c:{}\n        rank = 1\n        sum = 2\n"
    at_main = main.format(0, 9)
    deeper = f"#0  work (n=3) at a.c:5\nNo locals.\n{main.format(1, 9)}"
    assert [each.members for each in merge_texts(said(at_main, deeper))] == [(0,), (1,)]
    other_line = main.format(0, 7)
    assert places(merged(at_main, other_line)) == {"#0 main": [("0", "9"), ("1", "7")]}


def test_punctuation_is_no_part_of_a_value() -> None:
    line = " rip = 0x401136 in {} (a.c:{}); saved rip = 0x401200\n called by frame at 0x10\n"
    found = merged(line.format("main", 4), line.format("work", 4), line.format("main", 4))
    assert places(found) == {"rip": [("0,2", "main"), ("1", "work")]}
    found = merged(line.format("main", 4), line.format("work", 5))
    assert places(found) == {"rip": [("0", "main (a.c:4)"), ("1", "work (a.c:5)")]}


def test_elements_of_fortran_in_a_text_are_counted_from_the_lower_bound() -> None:
    texts = [Said(RankSet([rank]), f"1: v = (0, 0, {rank})") for rank in range(2)]
    (merged,) = merge_texts(texts)
    assert [place.path for place in merged.places] == ["v(lbound(v,1)+2)"]
