"""The rows of the pane above the prompt."""

from __future__ import annotations

from pgdb.frontend.show.text.pane_text import (
    SourcePlace,
    instruction_rows,
    register_rows,
    source_rows,
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
    rows = source_rows(place, read, 5, 80)
    assert rows == [
        ("ranks", " ▷ 73 ranks         9  line 9;"),
        ("ranks", "B▷ [1]             10  line 10;"),
        ("here", " ▶ [0,2-31]        11  line 11;"),
        ("", "b                  12  line 12;"),
        ("", "                   13  line 13;"),
    ]


def test_a_narrow_screen_has_a_narrow_margin() -> None:
    place = SourcePlace(
        file="ring.c",
        line=11,
        ranks={11: RankSet.parse("0,2-31"), 10: RankSet([1]), 9: RankSet(range(40, 99, 2))},
        breakpoints={10: True},
    )
    assert [text for _, text in source_rows(place, read, 4, 30)] == [
        " ▷ 30     9  line 9;",
        "B▷ [1]   10  line 10;",
        " ▶ 31    11  line 11;",
        "         12  line 12;",
    ]
    many = SourcePlace(file="a.c", line=3, ranks={3: RankSet(range(200000))}, breakpoints={})
    assert source_rows(many, read, 1, 30) == [("here", " ▶ …     3  line 3;")]


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


def test_instructions_have_ranks_and_breakpoints() -> None:
    text = (
        "Dump of assembler code from 0x0 to 0x9:\n"
        "   0x0000000000000000 <main+0>:\tpush\n"
        "=> 0x0000000000000001 <main+1>:\tmov\n"
        "   0x0000000000000004 <main+4>:\tret\n"
        "   0x0000000000000005:\tnop\n"
        "End of assembler dump.\n"
    )
    ranks = {"<main+1>": RankSet([0]), "<main+4>": RankSet.parse("1-3"), "<twice+4>": RankSet([4])}
    rows = instruction_rows(text, ranks, {"0x1": True, "0x4": False}, 3, 80)
    assert [(style, " ".join(row.split())) for style, row in rows] == [
        ("", "0x0000000000000000 <main+0>: push"),
        ("here", "B▶ [0] 0x0000000000000001 <main+1>: mov"),
        ("ranks", "b▷ [1-3] 0x0000000000000004 <main+4>: ret"),
    ]
    assert len(instruction_rows(text, {}, {}, 9, 80)) == 4
    (row,) = instruction_rows(text, {}, {}, 1, 80, down=1, right=21)
    assert row[1].split() == ["ain+4>:", "ret"]
    # Scrolled too far, the last instruction stays.
    assert [row[1].split()[-1] for row in instruction_rows(text, {}, {}, 3, 80, down=99)] == ["nop"]


def test_registers_fill_the_columns() -> None:
    text = "rax            0x0                 0\nrbx  0x1  1\nrip  0x5  0x5 <main>\n"
    assert register_rows(text, 2, 40) == [("", "rax      0x0   rip      0x5"), ("", "rbx      0x1")]
    assert register_rows("", 2, 40) == []
    assert register_rows(text, 1, 5) == [("", "rax")]
    assert register_rows(text, 1, 40, down=2) == [("", "rip      0x5")]
    assert register_rows(text, 1, 40, down=99) == [("", "rip      0x5")]
