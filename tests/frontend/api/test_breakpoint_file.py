"""Files of breakpoints: GDB's format, read back with the ranks, and places that stay the same."""

from __future__ import annotations

import pytest

from pgdb.frontend.api import breakpoint_file
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.breakpoint_places import with_fixed_place
from pgdb.frontend.api.settings_journal import SettingsJournal, is_kept
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import (
    BreakpointCommands,
    ChangeBreakpoints,
    Console,
    InsertBreakpoint,
)
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsMade, Failure, Record, Text

ALL = RankSet.parse("0-3")


class Kept:
    """A journal, and the commands of a user."""

    def __init__(self) -> None:
        self.journal = BreakpointJournal()
        self._last = 0

    def make(self, line: str, ranks: str = "0-3", **made: object) -> None:
        self._last += 1
        breakpoint_ = Breakpoint(number=self._last, kind="breakpoint", **made)  # type: ignore[arg-type]
        self.journal.take(
            line,
            InsertBreakpoint(command=line, first_number=self._last),
            RankSet.parse(ranks),
            [EquivalenceClass(RankSet.parse(ranks), BreakpointsMade((breakpoint_,)))],
        )

    def change(self, command: str, number: str, argument: str = "", ranks: str = "0-3") -> None:
        operation = ChangeBreakpoints(command=command, numbers=(number,), argument=argument)
        self.journal.take(f"{command} {number}", operation, RankSet.parse(ranks), ())

    def commands(self, number: str, *lines: str, ranks: str = "0-3") -> None:
        operation = BreakpointCommands(numbers=(number,), commands=lines)
        self.journal.take(f"commands {number}", operation, RankSet.parse(ranks), ())

    @property
    def lines(self) -> list[str]:
        text = breakpoint_file.text_of(self.journal.of(ALL), ALL)
        return text.split("\n")[1:-1] if text else []


def test_all_that_a_breakpoint_has_is_written_as_gdb_writes_it() -> None:
    kept = Kept()
    kept.make("break f if x > 1")
    kept.make("tbreak g")
    kept.make("watch total")
    kept.make('dprintf a.c:3,"%d\\n",x')
    kept.change("condition", "1", "x > 2")
    kept.change("ignore", "1", "5")
    kept.commands("1", "    silent", "      print x")
    kept.change("disable", "3")
    kept.change("enable once", "2")
    kept.change("disable", "1.2")
    assert kept.lines == [
        "break f if x > 1",
        "  condition $bpnum x > 2",
        "  ignore $bpnum 5",
        "  commands",
        "    silent",
        "      print x",
        "  end",
        "disable $bpnum.2",
        "tbreak g",
        "enable once $bpnum",
        "watch total",
        "disable $bpnum",
        'dprintf a.c:3,"%d\\n",x',
    ]


def test_last_change_counts_and_deleted_ones_are_left_out() -> None:
    kept = Kept()
    kept.make("break f")
    kept.make("break g")
    kept.change("disable", "1")
    kept.change("enable", "1")
    kept.change("ignore", "1", "5")
    kept.change("ignore", "1", "0")
    kept.change("condition", "1", "x > 2")
    kept.change("condition", "1")
    kept.change("delete", "2")
    assert kept.lines == ["break f", "  condition $bpnum"]
    kept.change("delete", "1")
    assert kept.lines == []


def test_breakpoints_that_clear_has_deleted_are_left_out() -> None:
    kept = Kept()
    for function in "fgh":
        kept.make(f"break {function}")
    deleted = Text(text="Deleted breakpoints 1 3 ")
    kept.journal.note_cleared([EquivalenceClass(ALL, deleted)])
    assert kept.lines == ["break g"]
    one = EquivalenceClass[Record](RankSet.parse("0-2"), Text(text="Deleted breakpoint 2 "))
    kept.journal.note_cleared([one])
    assert kept.lines == ["# pgdb: ranks 3", "break g", "# pgdb: ranks all"]


def test_ranks_are_in_comments_and_come_back() -> None:
    kept = Kept()
    kept.make("break f")
    kept.make("break g", "1-2")
    kept.change("condition", "1", "x == 3", ranks="3")
    kept.commands("2", "if x", "print x", "end", ranks="1-2")
    assert kept.lines == [
        "break f",
        "# pgdb: ranks 3",
        "  condition $bpnum x == 3",
        "# pgdb: ranks 1-2",
        "break g",
        "  commands",
        "    if x",
        "    print x",
        "    end",
        "  end",
        "# pgdb: ranks all",
    ]
    read = [line for line in breakpoint_file.for_ranks(kept.lines) if not line.startswith("#")]
    assert read == [
        "break f",
        "proc 3 condition $bpnum x == 3",
        "proc 1-2 break g",
        "proc 1-2 commands",
        "    if x",
        "    print x",
        "    end",
        "  end",
    ]


def test_what_gdb_does_not_know_is_in_comments() -> None:
    kept = Kept()
    kept.make("catch death")
    kept.commands("1", "print 1")
    assert kept.lines == [
        "# pgdb: do catch death",
        "# pgdb: do   commands",
        "# pgdb: do     print 1",
        "# pgdb: do   end",
    ]
    read = breakpoint_file.for_ranks(kept.lines)
    assert [line.strip() for line in read] == ["catch death", "commands", "print 1", "end"]


def test_lines_without_rank_sets_are_read_as_they_are() -> None:
    lines = ["# a comment", "break f", "commands", "  print 1", "end", "", "define go", "end", "go"]
    assert breakpoint_file.for_ranks(lines) == lines


@pytest.mark.parametrize(
    ("line", "made", "fixed"),
    [
        ("break f", {"file": "a.c", "line": 3}, "break f"),
        ("break a.c:3 if x", {"file": "a.c", "line": 4}, "break a.c:3 if x"),
        ("break 3", {"file": "a.c", "line": 4, "original": "/src/a.c:3"}, "break /src/a.c:4"),
        ("tbreak +1 if x > 2", {"file": "a.c", "line": 4}, "tbreak a.c:4 if x > 2"),
        ("break", {"file": "a.c", "line": 4, "original": "a.c:4"}, "break a.c:4"),
        ("break if x", {"file": "a.c", "line": 4}, "break a.c:4 if x"),
        ("break -line 9 thread 2", {"file": "a.c", "line": 9}, "break a.c:9 thread 2"),
        ("break *$pc", {"line": 4, "at": "<main+15>", "original": "*$pc"}, "break *main+15"),
        ("break *$pc if x", {"at": "<f(int)>", "original": "*$pc"}, "break *'f(int)' if x"),
        ("break", {"at": "<main+4>", "original": "<main+4>"}, "break *main+4"),
        ("break *0x1234", {"original": "*0x1234"}, "break *0x1234"),
        ('dprintf 7,"%d",x', {"file": "a.c", "line": 7}, 'dprintf a.c:7,"%d",x'),
        ("watch 3", {"what": "3"}, "watch 3"),
        ("break *f+(if_x) if y", {"at": "<f+8>", "original": "*f"}, "break *f+8 if y"),
    ],
)
def test_place_is_fixed_where_it_depends_on_frame_or_process(
    line: str, made: dict[str, object], fixed: str
) -> None:
    breakpoint_ = Breakpoint(number=1, kind="breakpoint", **made)  # type: ignore[arg-type]
    assert with_fixed_place(line, breakpoint_) == fixed


def test_ranks_at_different_places_get_their_own_again() -> None:
    journal = BreakpointJournal()
    classes: list[EquivalenceClass[Record]] = [
        EquivalenceClass(
            RankSet.parse(ranks),
            BreakpointsMade((Breakpoint(number=1, kind="breakpoint", file="a.c", line=line),)),
        )
        for ranks, line in (("0-1", 4), ("2", 9))
    ]
    operation = InsertBreakpoint(command="break", first_number=1)
    journal.take("break", operation, ALL, classes)
    # The answer comes a second time, when it is applied to the state.
    journal.take("break", operation, ALL, classes)
    assert {(str(each.ranks), each.line) for each in journal.of(ALL)} == {
        ("0-1", "break a.c:4"),
        ("2", "break a.c:9"),
        ("3", "break"),
    }


@pytest.mark.parametrize(
    "line",
    ["set print pretty on", "set $n = 3", "display x", "handle SIGUSR1 nostop", "define go"],
)
def test_settings_are_kept(line: str) -> None:
    assert is_kept(line)


_CHANGES = (
    "set var x = 3|set variable x=3|set x = 3|set x=3|set *p = 1|set a[0] = 1|set (x) = 1|"
    "set p->x = 1|set s.x = 1|print x|x/4x p|info frame|call f()"
)


@pytest.mark.parametrize("line", _CHANGES.split("|"))
def test_changes_of_the_program_are_not_kept(line: str) -> None:
    assert not is_kept(line)


def test_ended_displays_and_failed_settings_are_forgotten() -> None:
    journal = SettingsJournal()

    def take(line: str, record: Record | None = None) -> None:
        answer = record or Text(text="")
        command = Console(command=line, display=journal.display_number(line))
        journal.take(line, command, [EquivalenceClass(ALL, answer)])

    take("display x")
    take("set print pretty on")
    take("set nosuch on", Failure(message="no"))
    take("set print pretty on")
    take("display y")
    take("undisplay 1")
    assert [each.line for each in journal.kept] == ["set print pretty on", "display y"]
    take("undisplay")
    assert [each.line for each in journal.kept] == ["set print pretty on"]


def test_options_stand_in_a_comment_and_are_read_again() -> None:
    lines = [
        "# pgdb: options --stop all --ranks @even",
        "break solve if x > 3",
        "  ignore $bpnum 2",
        "# pgdb: ranks 0-1",
        "# pgdb: options --stop focus",
        "tbreak f",
        "# pgdb: ranks all",
    ]
    read = [line for line in breakpoint_file.for_ranks(lines) if not line.startswith("#")]
    assert read == [
        "break --stop all --ranks @even solve if x > 3",
        "  ignore $bpnum 2",
        "proc 0-1 tbreak --stop focus f",
    ]
