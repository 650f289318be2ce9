"""Numbers, ranges, places and ways in the commands about breakpoints."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Sequence

import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers
from pgdb.frontend.commands.breakpoint_words import NoBreakpointError
from pgdb.frontend.commands.breakpoints import breakpoint_kind
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointList,
    BreakpointsMade,
    Failure,
    Record,
    Text,
)
from tests.fakes.session import ALL, FakeSession

LAST = 7
LAST_TRACED = 5
_VARIABLES = {
    "$mine": "3",
    "$hex": "0xb",
    "$1": "2",
    "$void": "void",
    "$minus": "-1",
    "$half": "2.5",
}


class Session(FakeSession):
    """Session that notes questions about breakpoints; the last one has a number."""

    def __init__(self) -> None:
        super().__init__()
        self.breakpoint_numbers = BreakpointNumbers()
        traced = BreakpointsMade((Breakpoint(number=LAST_TRACED, kind="fast tracepoint"),))
        self.breakpoint_numbers.made([EquivalenceClass(ALL, traced)])
        self.breakpoint_numbers.reached(LAST, ALL)

    async def change_breakpoints(
        self, command: str, numbers: Sequence[str] = (), argument: str = ""
    ) -> Answer:
        return self._note(f"{command} {list(numbers)} {argument}".rstrip())

    async def breakpoints(self, *numbers: str, kind: str = "") -> Answer:
        return self._note(f"list {kind or 'all'} {list(numbers)}")

    async def insert_breakpoint(self, line: str, ranks: RankSet) -> Answer:
        return self.ranks(ranks)._note(f"insert {line}")

    async def breakpoint_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Answer:
        return self._note(f"commands {list(numbers)} {list(commands)}")

    async def execute_plain(self, line: str) -> Answer:
        _, _, name = line.partition("output ")
        if name == "$rank":
            texts = {"0-1": "4", "2-3": "5"}
        elif name == "$silent":
            texts = {}
        elif name in _VARIABLES:
            texts = {"0-3": _VARIABLES[name]}
        else:
            return await super().execute_plain(line)
        classes = tuple(
            EquivalenceClass[Record](ranks, Text(text=text))
            for each, text in texts.items()
            if (ranks := RankSet.parse(each) & self._asked)
        )
        return Answer(line, self._asked, classes)


def sent(line: str, *body: str, has_failed: bool = False) -> str:
    """Return what the GDBs are asked by a line."""
    lines = iter((*body, "end"))

    async def read(_: str) -> str | None:
        return next(lines)

    session = Session()
    session.breakpoint_numbers.has_failed = has_failed
    workspace = Workspace(session)  # type: ignore[arg-type]
    dispatcher = Dispatcher(workspace, TextDisplay(io.StringIO()), read_line=read)
    asyncio.run(dispatcher.dispatch(line, ALL))
    (asked,) = session.lines
    return asked


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("info b", "list all []"),
        ("info breakpoints 3", "list all ['3']"),
        ("i b 1-2 $bpnum 4", "list all ['1-2', '7', '4']"),
        ("info br 1.2", "list all ['1']"),
        ("info watchpoints", "list watchpoint []"),
        ("info wat 1", "list watchpoint ['1']"),
        ("info tp", "list tracepoint []"),
        ("info tracepoints 2-3", "list tracepoint ['2-3']"),
        ("delete 2-4", "delete ['2', '3', '4']"),
        ("delete breakpoints 2", "delete ['2']"),
        ("delete tracepoints", "delete tracepoints []"),
        ("delete tr 3", "delete tracepoints ['3']"),
        ("disable 1.1", "disable ['1.1']"),
        ("disable 1.1-3 5", "disable ['1.1', '1.2', '1.3', '5']"),
        ("disable $bpnum.2", "disable ['7.2']"),
        ("enable once 2", "enable once ['2']"),
        ("enable breakpoints once 2", "enable once ['2']"),
        ("enable on 2", "enable once ['2']"),
        ("enable delete $bpnum", "enable delete ['7']"),
        ("enable count 3 2-3", "enable count 3 ['2', '3']"),
        ("enable breakpoints 2", "enable ['2']"),
        ("enable", "enable []"),
        ("condition 2 x > 3", "condition ['2'] x > 3"),
        ("condition 2", "condition ['2']"),
        ("condition -force 2 x > 3", "condition -force ['2'] x > 3"),
        ("ignore 2 5", "ignore ['2'] 5"),
        ("passcount 3", "passcount 3 ['5']"),
        ("passcount 3 2", "passcount 3 ['2']"),
        ("passcount 3 all", "passcount 3 all"),
        ("trace f", "insert trace f"),
        ("tp f", "insert trace f"),
        ("commands 1-3", "commands ['1', '2', '3'] ['silent']"),
        ("commands", "commands ['7'] ['silent']"),
    ],
)
def test_numbers_are_those_of_the_job(line: str, asked: str) -> None:
    assert sent(line, "silent") == asked


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("delete $mine", "delete ['3']"),
        ("delete $1 $mine $hex", "delete ['2', '3', '11']"),
        ("delete $1-$mine", "delete ['2', '3']"),
        ("disable $mine.2", "disable ['3.2']"),
        ("enable once $mine", "enable once ['3']"),
        ("enable count $1 $mine", "enable count 2 ['3']"),
        ("enable count $1 $bpnum", "enable count 2 ['7']"),
        ("ignore $mine x", "ignore ['3'] x"),
        ("condition $mine $x > $mine", "condition ['3'] $x > $mine"),
        ("commands $mine", "commands ['3'] ['silent']"),
        ("info b $mine $1-3", "list all ['3', '2-3']"),
        ("passcount $mine $1", "passcount 3 ['2']"),
        ("proc 2-3 delete $rank", "[2-3] delete ['5']"),
    ],
)
def test_variables_of_gdbs_stand_for_numbers(line: str, asked: str) -> None:
    assert sent(line, "silent") == asked


class WithoutBreakpoints(Session):
    """A job in which only the last rank has a breakpoint, and the session knows of none."""

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        return False

    async def breakpoints(self, *numbers: str, kind: str = "") -> Answer:
        some = BreakpointList((Breakpoint(number=1, kind="breakpoint"),))
        classes = tuple(
            EquivalenceClass[Record](part, record)
            for ranks, record in ((RankSet.parse("0-2"), BreakpointList(())), (RankSet([3]), some))
            if (part := ranks & self._asked)
        )
        return Answer("info breakpoints", self._asked, classes)

    async def script(self, lines: Sequence[str]) -> Answer:
        return self._note(f"script {list(lines)}")


def carried_out(line: str, *body: str) -> tuple[list[str], list[str]]:
    """Return the errors of a line, and the lines for the GDBs, where few breakpoints exist."""
    lines = iter((*body, "end"))

    async def read(_: str) -> str | None:
        return next(lines)

    session = WithoutBreakpoints()
    workspace = Workspace(session)  # type: ignore[arg-type]
    dispatcher = Dispatcher(workspace, TextDisplay(io.StringIO()), read_line=read)
    outcome = asyncio.run(dispatcher.dispatch(line, ALL))
    assert isinstance(outcome, Answer)
    if outcome.errors:
        # The lines that follow are commands of their own.
        assert list(lines) == [*body, "end"]
    errors = [each.filled.message for each in outcome.errors if isinstance(each.filled, Failure)]
    return errors, session.lines


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("proc 0-2 commands 99", "No breakpoint number 99."),
        ("proc 0-2 commands 8-9", "No breakpoint number 8.\nNo breakpoint number 9."),
        ("proc 0-2 commands", f"No breakpoint number {LAST}."),
        ("proc 1 actions 99", "No tracepoint number 99."),
        ("proc 1 actions", f"No tracepoint number {LAST_TRACED}."),
    ],
)
def test_no_lines_are_read_for_a_breakpoint_that_no_rank_has(line: str, error: str) -> None:
    assert carried_out(line, "collect x") == ([error], [])


def test_lines_are_read_for_a_breakpoint_that_some_rank_has() -> None:
    asked = carried_out("commands 1", "silent")
    assert asked == ([], ["commands ['1'] ['silent']"])


def test_a_gdb_without_the_tracepoint_gets_no_actions() -> None:
    asked = carried_out("actions 1", "collect x")
    assert asked == ([], ["[3] script ['actions 1', 'collect x', 'end']"])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("commands 1.1", "1.1 is one place"),
        ("commands nosuch", "'nosuch' is no breakpoint number"),
        ("commands 2 print x", "the commands are the lines that follow, up to 'end'"),
        ("actions nosuch", "'nosuch' is no breakpoint number"),
        ("define a+b", 'Junk in argument list: "+b"'),
        ("define nosuch mine", 'Undefined command: "nosuch".'),
    ],
)
def test_no_lines_are_read_for_a_name_or_number_that_cannot_be(line: str, says: str) -> None:
    async def read(_: str) -> str | None:
        raise AssertionError("nothing is to be read")

    workspace = Workspace(WithoutBreakpoints())  # type: ignore[arg-type]
    dispatcher = Dispatcher(workspace, TextDisplay(io.StringIO()), read_line=read)
    with pytest.raises(UsageError, match=re.escape(says)):
        asyncio.run(dispatcher.dispatch(line, ALL))


def test_the_last_breakpoint_is_listed_although_a_later_one_was_not_made() -> None:
    assert sent("info b $bpnum", has_failed=True) == "list all ['7']"
    with pytest.raises(NoBreakpointError):
        sent("delete $bpnum", has_failed=True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("delete $void", "delete: $void is no breakpoint number: void"),
        ("disable $minus", "disable: $minus is no breakpoint number: -1"),
        ("info b $half", "info: $half is no breakpoint number: 2.5"),
        ("delete $rank", "delete: $rank differs by rank: 4 on [0-1], 5 on [2-3]; 'proc 0 delete $"),
        ("delete $silent", "delete: no rank has reported the value of $silent"),
    ],
)
def test_a_variable_without_a_number_is_named(line: str, says: str) -> None:
    with pytest.raises(CommandError, match=re.escape(says)):
        sent(line)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("info b foo", "'foo' is no breakpoint number"),
        ("info b 3-1", "'3-1' is an inverted range"),
        ("delete 4-2", "'4-2' is an inverted range"),
        ("disable 1.3-2", "'1.3-2' is an inverted range"),
        ("delete 1.2", "1.2 is one place of a breakpoint; 'disable 1.2' disables it"),
        ("delete 3 $bpnum.1", "$bpnum.1 is one place"),
        ("enable once", "'enable once' needs a breakpoint number"),
        ("enable count 2", "'enable count 2' needs a breakpoint number"),
        ("condition -force", "'condition -force' needs a breakpoint number and a condition"),
        ("passcount x", "passcount: 'x' is no number of hits"),
    ],
)
def test_slips_name_the_faulty_part(line: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        sent(line)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [("b", ""), ("break", ""), ("wat", "watchpoint"), ("tr", "tracepoint"), ("wa", None)]
    + [(each, None) for each in ("t", "w", "threads", "types", "", "bx")],
)
def test_topics_have_gdbs_abbreviations(topic: str, kind: str | None) -> None:
    assert breakpoint_kind(topic) == kind


def made(number: int, ranks: str) -> EquivalenceClass[Record]:
    record = BreakpointsMade((Breakpoint(number=number, kind="breakpoint"),))
    return EquivalenceClass(RankSet.parse(ranks), record)


def test_ranks_that_have_not_counted_up_to_the_last_number_are_behind() -> None:
    numbers = BreakpointNumbers()
    assert not numbers.behind(ALL), "no breakpoint yet"
    assert numbers.reserve() == 1
    numbers.made([made(1, "0-1")])
    assert numbers.behind(ALL) == RankSet.parse("2-3")
    numbers.reached(1, RankSet.parse("2-3"))
    assert not numbers.behind(ALL)
    # A reserved number is nobody's yet.
    assert numbers.reserve() == 2
    assert not numbers.behind(ALL)
    numbers.made([made(2, "1"), made(3, "3")])
    assert (numbers.last, numbers.behind(ALL)) == (3, RankSet.parse("0-2"))
    numbers.reached(2, RankSet.parse("0"))
    assert numbers.behind(ALL) == RankSet.parse("0-2")
    numbers.begins_anew(RankSet([3]))
    assert numbers.behind(ALL) == ALL


def test_a_number_that_was_not_used_is_given_again() -> None:
    numbers = BreakpointNumbers()
    first, second = numbers.reserve(), numbers.reserve()
    numbers.release(first)
    assert numbers.last == second, "a later one is in use"
    numbers.release(second)
    assert numbers.reserve() == second
