"""The rows of the pane above the prompt."""

from __future__ import annotations

from pgdb.frontend.show.text.pane_text import (
    SourcePlace,
    register_rows,
    source_rows,
    text_rows,
    title,
)
from pgdb.ranks import RankSet

CODE = [f"line {number};" for number in range(1, 31)]


def read(number: int) -> str | None:
    return CODE[number - 1] if number <= len(CODE) else None


def test_the_margin_has_ranks_and_breakpoints() -> None:
    place = SourcePlace(
        file="ring.c",
        line=11,
        ranks={
            11: RankSet.parse("0,2-31"),
            10: RankSet([1]),
            9: RankSet.parse("0-9,12,20-40,50,60-99"),
        },
        breakpoints={10: True, 12: False},
    )
    rows = source_rows(place, read, 5, 40)
    assert rows == [
        ("ranks", " ▷ 73 ranks         9  line 9;"),
        ("ranks", "B▷ [1]             10  line 10;"),
        ("here", " ▶ [0,2-31]        11  line 11;"),
        ("", "b                  12  line 12;"),
        ("", "                   13  line 13;"),
    ]


def test_the_first_and_the_last_line_of_a_file_are_shown() -> None:
    first = SourcePlace(file="a.c", line=1, ranks={}, breakpoints={})
    assert [text.split()[-2:] for _, text in source_rows(first, read, 2, 40)] == [
        ["line", "1;"],
        ["line", "2;"],
    ]
    last = SourcePlace(file="a.c", line=30, ranks={}, breakpoints={})
    assert [text.strip() for _, text in source_rows(last, read, 4, 40)][-1] == "31"


def test_control_sequences_of_a_file_are_harmless() -> None:
    place = SourcePlace(file="a.c", line=1, ranks={}, breakpoints={})
    rows = source_rows(place, lambda number: "\x1b[31mred\ttab", 1, 80)
    assert "\x1b" not in rows[0][1] and "\t" not in rows[0][1]
    assert "\x1b" not in title("\x1b[31m", 80)[1]


def test_instructions_have_a_mark() -> None:
    text = "Dump of assembler code:\n=> 0x1 <main+4>:\tret\n   0x2 <main+5>:\tnop\nEnd of dump.\n"
    assert text_rows(text, 5, 80) == [
        ("here", "=> 0x1 <main+4>:        ret"),
        ("", "   0x2 <main+5>:        nop"),
    ]
    assert len(text_rows(text, 1, 80)) == 1


def test_registers_fill_the_columns() -> None:
    text = "rax            0x0                 0\nrbx  0x1  1\nrip  0x5  0x5 <main>\n"
    assert register_rows(text, 2, 40) == [("", "rax      0x0   rip      0x5"), ("", "rbx      0x1")]
    assert register_rows("", 2, 40) == []
    assert register_rows(text, 1, 5) == [("", "rax")]
