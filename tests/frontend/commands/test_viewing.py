"""block, filter and interpreter-exec."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import JobOutput, RankEvents, SessionNotice
from pgdb.frontend.commands.visibility import TYPES, Visibility, read_types
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop, Value
from tests.fakes.session import ALL
from tests.support.typed_lines import Typed


def _ranks(text: str) -> RankSet:
    return RankSet.parse(text)


@pytest.fixture
def typed() -> Typed:
    return Typed()


def test_blocked_ranks_are_in_no_answer() -> None:
    view = Visibility()
    view.blocked = _ranks("1,3")
    classes = (
        EquivalenceClass(_ranks("0-1"), Value("5")),
        EquivalenceClass(_ranks("2"), Value("6")),
    )
    answer = Answer("print x", ALL, classes, Missing(lost=_ranks("3")))
    shown = view.answer(answer)
    assert shown is not None
    assert [str(each.ranks) for each in shown.classes] == ["0", "2"]
    assert str(shown.ranks) == "0,2" and not shown.missing
    view.blocked = ALL
    assert view.answer(answer) is None


def test_blocked_ranks_and_filtered_kinds_are_in_no_notification() -> None:
    view = Visibility()
    stop = EquivalenceClass(_ranks("0-1"), Stop(reason="breakpoint-hit"))
    end = EquivalenceClass(_ranks("2"), Exit(code=0))
    view.blocked = _ranks("0")
    shown = view.notification(RankEvents((stop, end)))
    assert isinstance(shown, RankEvents)
    assert [str(each.ranks) for each in shown.classes] == ["1", "2"]
    view.filtered = {"stops", "output"}
    shown = view.notification(RankEvents((stop, end)))
    assert isinstance(shown, RankEvents) and [str(each.ranks) for each in shown.classes] == ["2"]
    assert view.notification(RankEvents((stop,))) is None
    assert view.notification(JobOutput("x")) is None
    assert view.notification(SessionNotice("x")) == SessionNotice("x")


def test_kinds_are_those_of_mi_as_well() -> None:
    assert read_types("filter", "exec target") == {"stops", "ends", "runs", "output"}
    assert read_types("filter", " ".join(TYPES)) == set(TYPES)
    with pytest.raises(UsageError, match="filter: no kind 'console'; there are stops, ends"):
        read_types("filter", "console")


def test_commands_block_and_filter(typed: Typed) -> None:
    typed("block 1\nblock 3\nblock\nunblock 1\nunblock\nfilter output\nfilter\nunfilter")
    assert typed.errors.splitlines() == [
        "[1] not shown",
        "[1,3] not shown",
        "[1,3] not shown",
        "[3] not shown",
        "all ranks are shown",
        "left out: output",
        "left out: output",
        "all notifications are shown",
    ]
    typed("block 9")
    assert "9" in typed.errors


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ('disassemble -s $pc -e "$pc + 1"', "MI disassemble -s $pc -e $pc + 1 -- 0"),
        ("disassemble -f a.c -l 3 -n -1 -- 2", "MI disassemble -f a.c -l 3 -n -1 -- 2"),
        ("disassemble /m main", "disassemble /m main"),
        ("var list children 1 s", "MI var list children 1 s"),
        ("var update 2", "MI var update 2"),
        ("var delete -c s", "MI var delete -c s"),
        ("var evaluate expression -f hexadecimal s", "MI var evaluate expression -f hexadecimal s"),
        ("var assign s -c + 1", "MI var assign s -c + 1"),
        ("list locals 1", "MI list locals 1"),
        ("list stack arguments 1 0 0", "MI list stack arguments 1 0 0"),
    ],
)
def test_queries_have_the_options_of_their_commands(typed: Typed, line: str, asked: str) -> None:
    assert typed(line) == [asked]


def test_disassemble_wants_a_mode_of_one_digit(typed: Typed) -> None:
    typed("disassemble -s 1 -e 2 main")
    assert "'main' behind the options is no '-- MODE'" in typed.errors


def test_interpreters(typed: Typed) -> None:
    assert typed('interpreter-exec console "ptype x"') == ["ptype x"]
    assert typed('interpreter exec mi "-stack-list-frames 0 1"') == [
        'interpreter-exec mi "-stack-list-frames 0 1"'
    ]
    assert typed("path -r /x") == ["MI path -r /x"]
    for line, says in (
        ("interpreter-exec mi -exec-run", "'-exec-run' is refused: 'restart' does this"),
        ("interpreter-exec mi -break-list", "refused: 'info breakpoints' does this"),
        ("interpreter-exec mi '-exec-next --reverse'", "refused: 'next' does this"),
        ("interpreter-exec mi -enable-timings", "refused: a command of PGDB does this"),
        ("interpreter-exec tui x", "no interpreter 'tui'"),
        ("interpreter-exec console", "needs a command"),
        ("interpreter-exec console attach 1", "'attach' is refused"),
    ):
        assert typed(line) == []
        assert says in typed.errors


def test_timings_are_shown_on_request(typed: Typed) -> None:
    typed("enable timings\nptype x\nenable timings no\nptype y")
    assert typed.errors.count("elapsed: ") == 2
