"""Lines at which ranks stand and breakpoints are, and the listed source with them."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.line_marks import Listing, listed_files, marks
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.source_text import without_signs
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointList,
    Event,
    Failure,
    Frame,
    Location,
    Record,
    Stop,
    Text,
)

FILE = "/home/user/app/ring.c"
SOURCE = f"Current source file is ring.c\nLocated in {FILE}\nContains 90 lines."


def stop(ranks: str, line: int, file: str = FILE) -> EquivalenceClass[Event]:
    frame = Frame(level=0, function="f", file="ring.c", fullname=file, line=line)
    return EquivalenceClass(RankSet.parse(ranks), Stop(reason="breakpoint-hit", frame=frame))


def record(ranks: str, said: Record) -> EquivalenceClass[Record]:
    return EquivalenceClass(RankSet.parse(ranks), said)


def lines(first: int, last: int) -> Text:
    return Text("\n".join(f"{number}\tline {number};" for number in range(first, last + 1)))


def listed(
    *classes: EquivalenceClass[Record], stops: tuple[EquivalenceClass[Event], ...]
) -> Answer:
    breakpoints = BreakpointList(
        breakpoints=(
            Breakpoint(number=1, kind="breakpoint", file="ring.c", line=5),
            Breakpoint(number=2, kind="breakpoint", file="ring.c", line=7, enabled=False),
            Breakpoint(
                number=3,
                kind="breakpoint",
                location_count=2,
                locations=(
                    Location(number=1, file="ring.c", line=5),
                    Location(number=2, file="other.c", line=6),
                ),
            ),
        )
    )
    everybody = RankSet.union(each.ranks for each in classes)
    listing = Listing(
        listed_files([record(str(everybody), Text(SOURCE))]),
        marks(stops, [record(str(everybody), breakpoints)]),
    )
    return replace(Answer("list", everybody, tuple(classes)), listing=listing)


def test_ranks_and_breakpoints_stand_in_the_margin() -> None:
    said = listed(record("0-3", lines(4, 8)), stops=(stop("0,2-3", 5), stop("1", 8)))
    assert render.answer(said).split("\n") == [
        "[0-3]",
        "                4\tline 4;",
        "▶ [0,2-3] ●1 ●3 5\tline 5;",
        "                6\tline 6;",
        "○2              7\tline 7;",
        "▶ [1]           8\tline 8;",
    ]


def test_parts_of_one_file_that_meet_are_one_text() -> None:
    said = listed(
        record("0,2", lines(4, 6)),
        record("1", lines(6, 8)),
        record("3", lines(50, 51)),
        record("4", Failure("No symbol table.")),
        stops=(stop("0,2", 5), stop("1", 7), stop("3", 50)),
    )
    shown = render.answer(said).split("\n")
    assert shown[0] == "[0-2]"
    assert [line.split("\t")[0].split()[-1] for line in shown[1:6]] == ["4", "5", "6", "7", "8"]
    assert shown[6] == "[3]  @3"
    assert shown[7].startswith("▶ [3]") and shown[7].endswith("50\tline 50;")
    assert shown[-1] == "[4] error: No symbol table.  @4"


def test_lines_without_a_mark_stay_as_gdb_has_them() -> None:
    said = listed(record("0-3", lines(20, 21)), stops=(stop("0-3", 20, "/elsewhere/ring.c"),))
    assert render.answer(said) == "[0-3]\n20\tline 20;\n21\tline 21;"


def test_a_note_below_the_lines_and_lines_without_text_are_shown() -> None:
    said = listed(record("0-3", Text("5\tx\n6\n(it has changed)")), stops=(stop("1", 5),))
    assert render.answer(said).split("\n") == [
        "[0-3]",
        "▶ [1] ●1 ●3     5\tx",
        "                6",
        "(it has changed)",
    ]


def test_a_terminal_without_the_signs_has_plain_ones() -> None:
    text = "▶ [0] ●1 ○2 5\tx"
    assert without_signs(text, "iso-8859-1") == "> [0] *1 o2 5\tx"
    assert without_signs(text, "utf-8") == text
    assert without_signs(text, "no-such") == "> [0] *1 o2 5\tx"


def test_json_has_the_marks_of_the_listed_files() -> None:
    said = listed(record("0-3", lines(4, 8)), stops=(stop("0,2-3", 5), stop("1", 8)))
    line = json_lines.answer(said, lambda each: "", 0.0)
    found = [(each.line, each.ranks, each.breakpoints, each.disabled) for each in line.marks]
    assert found == [(5, "0,2-3", (1, 3), ()), (8, "1", (), ()), (7, "", (), (2,))]
