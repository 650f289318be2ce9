"""Tables of breakpoints: one for all ranks, in GDB's words."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.breakpoint_text import breakpoint_made, breakpoint_table, merged_table
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, Failure, Location, Record

PLACE = Breakpoint(number=1, kind="breakpoint", function="f", file="a.c", line=3, original="f")


def test_all_that_a_breakpoint_has_is_listed_as_gdb_lists_it() -> None:
    """The lines are those of GDB 13.1, without the column of addresses."""
    table = breakpoint_table(
        [
            Breakpoint(
                number=1,
                kind="breakpoint",
                original="over",
                condition="x == 3",
                thread="2",
                times=1,
                ignore=5,
                disable_after=3,
                commands=("silent", "print x"),
                locations=(
                    Location(number=1, function="over(int)", file="o.cpp", line=3),
                    Location(
                        number=2, enabled=False, function="over(double)", file="o.cpp", line=4
                    ),
                ),
            ),
            Breakpoint(number=4, kind="hw watchpoint", what="total", disposition="dis"),
            Breakpoint(number=5, kind="catchpoint", event="syscall", what="write"),
            Breakpoint(number=6, kind="catchpoint", event="syscall", what="open, close"),
            Breakpoint(number=7, kind="catchpoint", event="exec", what="exec"),
            Breakpoint(number=8, kind="catchpoint", event="exec", what="/bin/true"),
            Breakpoint(number=9, kind="tracepoint", function="f", file="a.c", line=3, passes=2),
            Breakpoint(
                number=11,
                kind="tracepoint",
                original="over",
                location_count=2,
                locations=(
                    Location(number=1, function="g", file="a.c", line=5, installed=False),
                    Location(number=2, function="h", file="a.c", line=6, installed=True),
                ),
            ),
            Breakpoint(
                number=12,
                kind="tracepoint",
                function="f",
                file="a.c",
                line=3,
                passes=2,
                installed=False,
            ),
            Breakpoint(number=10, kind="breakpoint", original="late", location_count=0),
            Breakpoint(
                number=13,
                kind="breakpoint",
                original="t.py:9",
                what="t.py:9 (not armed yet)",
                location_count=0,
            ),
        ]
    )
    assert table.splitlines() == [
        "Num     Type           Disp Enb What",
        "1       breakpoint     keep y",
        "\tstop only if x == 3",
        "\tstop only in thread 2",
        "\tbreakpoint already hit 1 time",
        "\tignore next 5 hits",
        "\tdisable after additional 3 hits",
        "        silent",
        "        print x",
        "1.1                         y   in over(int) at o.cpp:3",
        "1.2                         n   in over(double) at o.cpp:4",
        "4       hw watchpoint  dis  y   total",
        '5       catchpoint     keep y   syscall "write"',
        '6       catchpoint     keep y   syscalls "open, close"',
        "7       catchpoint     keep y   exec",
        '8       catchpoint     keep y   exec, program "/bin/true"',
        "9       tracepoint     keep y   in f at a.c:3",
        "\tpass count 2",
        "10      breakpoint     keep y   <PENDING>  late",
        "11      tracepoint     keep y",
        "11.1                        y   in g at a.c:5",
        "\tnot installed on target",
        "11.2                        y   in h at a.c:6",
        "\tinstalled on target",
        "12      tracepoint     keep y   in f at a.c:3",
        "\tpass count 2",
        "\tnot installed on target",
        "13      breakpoint     keep y   <PENDING>  t.py:9 (not armed yet)",
    ]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("info breakpoints", "No breakpoints or watchpoints."),
        ("info breakpoints 3-4", "No breakpoint or watchpoint matching '3-4'."),
        ("info watchpoints", "No watchpoints."),
        ("info watchpoints 3", "No watchpoint matching '3'."),
        ("info tracepoints", "No tracepoints."),
        ("info tracepoints 3", "No tracepoint matching '3'."),
    ],
)
def test_an_empty_table_has_gdbs_words(command: str, text: str) -> None:
    assert breakpoint_table([], command) == text
    answer = Answer(command, RankSet([0]), (EquivalenceClass(RankSet([0]), BreakpointList(())),))
    assert render.answer(answer) == f"[0] {text}"


def listed(ranks: str, *breakpoints: Breakpoint) -> tuple[RankSet, BreakpointList]:
    return RankSet.parse(ranks), BreakpointList(breakpoints)


def with_times(times: int, number: int = 1) -> Breakpoint:
    return Breakpoint(number=number, kind="breakpoint", original="f", times=times)


def test_one_table_names_the_ranks_where_they_differ() -> None:
    table = merged_table(
        [
            listed("0-1", with_times(1), with_times(3, 2)),
            listed("2", with_times(1), with_times(4, 2), Breakpoint(3, "breakpoint")),
            listed("3", with_times(1), with_times(3, 2)),
        ],
        "info breakpoints",
        lambda ranks: f"[{ranks}]",
    )
    assert table.splitlines()[1:] == [
        "1       breakpoint     keep y   f",
        "\tbreakpoint already hit 1 time",
        "2       breakpoint     keep y   f",
        "\tbreakpoint already hit 3 times [0-1,3], 4 times [2]",
        "3       breakpoint     keep y     [2]",
    ]


def test_one_number_at_two_places_has_a_row_for_each() -> None:
    other = Breakpoint(number=1, kind="breakpoint", function="f", file="b.c", line=8)
    table = merged_table([listed("1", other), listed("0", PLACE)], "info b", str)
    assert table.splitlines()[1:] == [
        "1       breakpoint     keep y   in f at a.c:3  0",
        "1       breakpoint     keep y   in f at b.c:8  1",
    ]


def test_many_numbers_of_hits_are_a_range() -> None:
    classes = [listed(str(rank), with_times(rank * 2)) for rank in range(9)]
    table = merged_table(classes, "info breakpoints", str)
    assert table.splitlines()[2:] == ["\tbreakpoint already hit 0 to 16 times"]


def test_errors_stand_beside_the_table() -> None:
    failed = Failure(message="no debugger")
    classes: tuple[EquivalenceClass[Record], ...] = (
        EquivalenceClass(RankSet([0]), BreakpointList((with_times(1),))),
        EquivalenceClass(RankSet([1]), failed),
        EquivalenceClass(RankSet([2]), BreakpointList((with_times(2),))),
    )
    lines = render.answer(Answer("info breakpoints", RankSet(range(3)), classes)).splitlines()
    assert lines[0] == "[0,2]"
    assert lines[3] == "\tbreakpoint already hit 1 time [0], 2 times [2]"
    assert lines[4].startswith("[1] error: no debugger")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (PLACE, "Breakpoint 1: file a.c, line 3."),
        (
            Breakpoint(number=1, kind="breakpoint", original="over", line=3, location_count=2),
            "Breakpoint 1: over. (2 locations)",
        ),
        (
            Breakpoint(number=2, kind="tracepoint", file="a.c", line=3, original="f"),
            "Tracepoint 2: file a.c, line 3.",
        ),
        (
            Breakpoint(number=3, kind="hw breakpoint", file="a.c", line=3, original="f"),
            "Hardware assisted breakpoint 3: file a.c, line 3.",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", event="signal", what="SIGUSR1"),
            "Catchpoint 4 (signal SIGUSR1)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", what="failed Ada assertions"),
            "Catchpoint 4: failed Ada assertions",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", what="all Ada exceptions", disposition="del"),
            "Temporary catchpoint 4: all Ada exceptions",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", event="signal", what="SIGUSR1, SIGHUP"),
            "Catchpoint 4 (signals SIGUSR1, SIGHUP)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", event="signal", what="<standard signals>"),
            "Catchpoint 4 (standard signals)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", event="syscall", what="write"),
            "Catchpoint 4 (syscall 'write')",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", what="exception throw"),
            "Catchpoint 4 (throw)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", what="exception throw", disposition="del"),
            "Temporary catchpoint 4 (throw)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", what="fork", disposition="del"),
            "Catchpoint 4 (fork)",
        ),
        (
            Breakpoint(number=4, kind="catchpoint", event="load", what="load of library"),
            "Catchpoint 4 (load)",
        ),
        (
            Breakpoint(number=5, kind="acc watchpoint", what="total"),
            "Hardware access (read/write) watchpoint 5: total",
        ),
        (
            Breakpoint(number=5, kind="read watchpoint", what="total"),
            "Hardware read watchpoint 5: total",
        ),
        (Breakpoint(number=5, kind="watchpoint", what="total"), "Watchpoint 5: total"),
    ],
)
def test_messages_about_new_ones(made: Breakpoint, text: str) -> None:
    assert breakpoint_made(made) == text


def test_locations_of_a_disabled_breakpoint_are_listed_as_gdb_does() -> None:
    first = Location(number=1, function="f", file="a.c", line=1)
    places = (first, Location(number=2, enabled=False, function="g", file="a.c", line=2))
    made = Breakpoint(number=3, kind="breakpoint", enabled=False, locations=places)
    assert breakpoint_table([made]).splitlines()[1:] == [
        "3       breakpoint     keep n",
        "3.1                         y-  in f at a.c:1",
        "3.2                         n   in g at a.c:2",
    ]
