"""Commands that make a breakpoint again, from the breakpoint alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.breakpoint_remake import changes_of, command_for
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import BreakpointCommands, ChangeBreakpoints, Console, InsertBreakpoint
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsChanged, BreakpointsMade, Location

ALL = RankSet.parse("0-3")


def of(kind: str, **fields: object) -> Breakpoint:
    return Breakpoint(number=5, kind=kind, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "command"),
    [
        (of("breakpoint", original="f"), "break f"),
        (of("breakpoint", original="f", disposition="del", condition="x > 1"), "tbreak f if x > 1"),
        (of("breakpoint", original="f", thread="2", condition="x"), "break f thread 2 if x"),
        (of("hw breakpoint", original="f", disposition="del"), "thbreak f"),
        (of("breakpoint", file="a.c", line=3, function="f"), "break a.c:3"),
        (of("breakpoint", original="*$pc", at="<main+4>"), "break *main+4"),
        (
            of("breakpoint", original="late", location_count=0),
            "with breakpoint pending on -- break late",
        ),
        (of("hw watchpoint", what="total", condition="total > 3"), "watch total if total > 3"),
        (of("read watchpoint", what="-location u[3]"), "rwatch -location u[3]"),
        (of("acc watchpoint", what="total"), "awatch total"),
        (of("catchpoint", event="fork", what="fork"), "catch fork"),
        (of("catchpoint", event="exec", what="/bin/true", disposition="del"), "tcatch exec"),
        (of("catchpoint", event="throw", what="exception throw"), "catch throw"),
        (of("catchpoint", event="syscall", what="open, close"), "catch syscall open close"),
        (of("catchpoint", event="syscall", what="<any syscall>"), "catch syscall"),
        (of("catchpoint", event="signal", what="SIGUSR1"), "catch signal SIGUSR1"),
        (of("catchpoint", event="load", what="load of library matching libx"), "catch load libx"),
        (of("catchpoint", event="unload", what="unload of library"), "catch unload"),
        (of("catchpoint", what="something new"), ""),
        (
            of("dprintf", original="f", commands=('printf "x=%d\\n",x',)),
            'dprintf f,"x=%d\\n",x',
        ),
        (of("tracepoint", original="f"), "trace f"),
        (of("of another kind", original="f"), ""),
    ],
)
def test_command_follows_from_the_breakpoint(made: Breakpoint, command: str) -> None:
    assert command_for(made) == command


def test_changes_follow_from_the_breakpoint() -> None:
    made = of(
        "breakpoint",
        original="f",
        enabled=False,
        ignore=3,
        disable_after=4,
        commands=("silent",),
        locations=(Location(number=1), Location(number=2, enabled=False)),
    )
    changes = [
        f"{each.command} {each.numbers[0]} {each.argument}".rstrip()
        if isinstance(each, ChangeBreakpoints)
        else each.commands
        for each in changes_of(made)
    ]
    assert changes == [("silent",), "ignore 5 3", "enable count 4 5", "disable 5", "disable 5.2"]
    once = of("dprintf", original="f", disposition="dis", condition="x", commands=('printf "a"',))
    assert [each.command for each in changes_of(once) if isinstance(each, ChangeBreakpoints)] == [
        "condition",
        "enable once",
    ]
    assert not [each for each in changes_of(once) if isinstance(each, BreakpointCommands)]


def test_what_a_script_has_made_is_made_again_with_its_numbers() -> None:
    journal = BreakpointJournal()
    made = BreakpointsMade(
        (
            of("breakpoint", original="f", commands=("silent",)),
            Breakpoint(number=6, kind="catchpoint", event="fork"),
        ),
        text="Breakpoint 5 at …",
    )
    answer = (EquivalenceClass(ALL, made),)
    for _ in range(2):  # an answer is taken when it comes, and when it is applied
        journal.take("source x", Console(command="source x"), ALL, answer)
    entries = journal.of(RankSet([2]))
    assert [each.line for each in entries] == ["break f", "commands 5", "catch fork"]
    first = entries[0].operation
    assert isinstance(first, InsertBreakpoint) and first.first_number == 5
    assert [each.numbers for each in entries] == [(5,), (5,), (6,)]


def test_what_commands_at_a_hit_make_and_delete_is_noted() -> None:
    journal = BreakpointJournal()
    event = BreakpointsChanged(made=(of("breakpoint", original="g"),), last=5)
    journal.note_changes((EquivalenceClass(RankSet.parse("0-1"), event),))
    assert [each.line for each in journal.of(ALL)] == ["break g"]
    gone = BreakpointsChanged(deleted=(5,), last=5)
    journal.note_changes((EquivalenceClass(RankSet([0]), gone),))
    assert [str(each.ranks) for each in journal.of(ALL)] == ["1"]


def test_delete_tracepoints_deletes_no_other_ones() -> None:
    journal = BreakpointJournal()
    for number, (line, kind) in enumerate(
        (("break f", "breakpoint"), ("trace f", "tracepoint")), 1
    ):
        made = Breakpoint(number=number, kind=kind, original="f")
        journal.take(
            line,
            InsertBreakpoint(command=line, first_number=number),
            ALL,
            (EquivalenceClass(ALL, BreakpointsMade((made,))),),
        )
    operation = ChangeBreakpoints(command="delete tracepoints", numbers=())
    journal.take("delete tracepoints", operation, ALL, ())
    assert [each.line for each in journal.of(ALL)] == ["break f"]


def test_what_bodies_and_python_change_replaces_earlier_changes() -> None:
    journal = BreakpointJournal()
    made = Breakpoint(number=5, kind="breakpoint", original="f", condition="x > 1")
    journal.take(
        "break f if x > 1",
        InsertBreakpoint(command="break f if x > 1", first_number=5),
        ALL,
        (EquivalenceClass(ALL, BreakpointsMade((made,))),),
    )
    disable = ChangeBreakpoints(command="disable", numbers=("5",))
    journal.take("disable 5", disable, ALL, ())
    now = replace(made, condition="x > 2", commands=("silent",))
    event = BreakpointsChanged(changed=(now,), last=5)
    journal.note_changes((EquivalenceClass(RankSet([1]), event),))
    assert [each.line for each in journal.of(RankSet([0]))] == ["break f if x > 1", "disable 5"]
    assert [each.line for each in journal.of(RankSet([1]))] == [
        "break f if x > 1",
        "condition 5 x > 2",
        "commands 5",
    ]
