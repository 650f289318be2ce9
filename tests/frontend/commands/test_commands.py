"""The command table and its help, bad options, files of trees."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from pgdb.errors import InternalError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.api import sampling
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.ranks import split_set
from pgdb.frontend.commands.table import COMMANDS, CommandTable, Group, Shown
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.store import saved_files
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.records import Frame, Stack, Value
from tests.fakes.session import ALL, FakeSession, dispatch


def test_all_help_fits_a_terminal() -> None:
    for line in COMMANDS.overview().splitlines():
        assert len(line) <= 80, line
    for command in COMMANDS.commands:
        for line in command.help.splitlines():
            assert len(line) <= 80, f"{command.word}: {line}"


def test_overview_and_help_are_laid_out() -> None:
    table = CommandTable()

    @table.command("short", group=Group.DATA, summary="does it")
    async def _short(call: object) -> None:
        """Do it."""

    usage = "verylong [-one] [--two] [--three] [N]"

    @table.command("verylong", group=Group.DATA, usage=usage, summary="does more " + "x" * 30)
    async def _long(call: object) -> None:
        """Do what is a longer sentence than fits into one line of a terminal, and so it is wrapped
        over two lines.

        --one WHAT    the first of all options, which has much to say of itself and of what it does
                      to the others
        --two         the second
        """

    assert table.overview().splitlines() == [
        "Data:",
        "  short                          does it",
        f"  {usage}",
        f"{'':33}does more {'x' * 30}",
    ]
    command = table.find("verylong")
    assert command is not None
    assert command.help.splitlines()[3:] == [
        "Do what is a longer sentence than fits into one line of a terminal, and so it is",
        "wrapped over two lines.",
        "",
        "--one WHAT    the first of all options, which has much to say of itself and of",
        "              what it does to the others",
        "--two         the second",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "bt --nosuch",
            "backtrace: no option '--nosuch'; there are -args, -threads, -tree, --full",
        ),
        ("bt -nosuch 3", "no option '-nosuch'"),
        ("bt --hide", "no option '--hide'"),
        ("thread apply all bt --nosuch", "no option '--nosuch'"),
        ("disable x", "'x' is no breakpoint number"),
        ("enable x", "'x' is no breakpoint number"),
        ("delete 1-99999999999", "'1-99999999999' are too many breakpoints"),
        (f"delete 1-{'9' * 5000}", "is no range of breakpoint numbers"),
        ("enable count \u00b2 1", "'\u00b2' is no number of hits"),
        ("stat --bins \u00b2 x", "'\u00b2' is no number of bins"),
        ("@1", "'@1' is no command; 'focus @1' selects those ranks"),
        ("@bp2 p x", "'proc @bp2 COMMAND' asks them"),
        ("0-3", "'0-3' is no command; 'focus 0-3' selects those ranks"),
        ("1,3 bt", "'proc 1,3 COMMAND' asks them"),
        ("detach 1-2", "no argument, not '1-2'; 'proc 1-2 detach' is for these ranks"),
        ("kill x", "'kill' takes no argument, not 'x'"),
    ],
)
def test_slips_are_reported(line: str, says: str) -> None:
    session = FakeSession()
    with pytest.raises(UsageError) as caught:
        dispatch(line, session)
    assert says in str(caught.value)
    assert not session.lines


@pytest.mark.parametrize(
    ("line", "sent"),
    [
        ("bt -full", "backtrace -full"),
        ("bt -frame-arguments all 2", "backtrace -frame-arguments all 2"),
        ("bt -past-m on", "backtrace -past-m on"),
        ("bt -5", "backtrace -5 ['fold']"),
        ("bt --full -threads 2", "backtrace 2 ['threads']"),
        ("disable display 1", "disable display 1"),
        ("delete disp", "delete disp"),
    ],
)
def test_options_of_gdb_go_to_gdb(line: str, sent: str) -> None:
    session = FakeSession()
    dispatch(line, session)
    assert session.lines == [sent]


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)


def tree_of(monkeypatch: pytest.MonkeyPatch, tree: CallTree) -> None:
    async def take(*_: object, **__: object) -> sampling.Samples:
        return sampling.Samples(tree, Answer("backtrace", ALL, ()))

    monkeypatch.setattr(sampling, "check", lambda *_, **__: None)
    monkeypatch.setattr(sampling, "take", take)


def test_a_picture_that_cannot_be_drawn_keeps_nothing_else_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_dot: None
) -> None:
    stack = Stack(frames=(Frame(level=0, function="main"),))
    tree_of(monkeypatch, CallTree.from_classes([EquivalenceClass(ranks=ALL, record=stack)]))
    shown = dispatch(f"tree --png {tmp_path}/t.png --dot {tmp_path}/t.dot --html {tmp_path}/t.html")
    assert isinstance(shown, Shown)
    assert shown.failed
    first, second, third = shown.text.splitlines()
    assert first == "@1 main  [0-3]"
    assert "t.png: not written: PNG is drawn by Graphviz's 'dot'" in second
    assert third == f"written: {tmp_path}/t.dot, {tmp_path}/t.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.dot", "t.html"]


def test_a_tree_without_stacks_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree_of(monkeypatch, CallTree.from_classes([], missing=Missing(lost=ALL)))
    shown = dispatch(f"tree --html {tmp_path}/t.html")
    assert isinstance(shown, Shown)
    assert shown.failed
    assert "t.html: not written: no rank has a stack" in shown.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("timeout inf bt", r"^timeout: 'inf' is no time; 0.001 s to 1e9 s is one$"),
        ("timeout 1e99 bt", "^timeout: '1e99' is no time"),
        ("timeout 0 bt", "^timeout: '0' is no time"),
        ("timeout soon bt", "^timeout: 'soon' is no number of seconds"),
        ("wait -1", r"^wait: '-1' is no time; 0, or 0.001 s to 1e9 s is one$"),
        ("wait nan", "^wait: 'nan' is no time"),
        ("tree --samples 2 --every 1e10", "^tree: --every: '1e10' is no time"),
        ("set settle 1e10", "^set settle: '1e10' is no time"),
        ("set timeout", "^set timeout needs a number of seconds$"),
    ],
)
def test_times_are_read_by_one_rule(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        dispatch(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("focus 0!0", r"^0!0 is an empty set; the focus stays \[0-3\]$"),
        ("expand 0", "^there is no answer 0; 'expand' alone shows the last$"),
        ("set -keep", "^set -keep needs a name and a value"),
        ("set -keep print elements 4", "every session by --gdb-command 'set …'$"),
        ("defset running 0", "^defset: @running is a set of PGDB's own"),
        ("info static-tracepoint-markers", "would let the rank run"),
        ("i stat", "would let the rank run"),
        ("defset late py:step > 3", "'defset late if py:step > 3' takes the ranks on which"),
        ("defset 3 0", "^defset: '3' cannot be the name of a set; write a letter, then"),
    ],
)
def test_what_would_say_nothing_or_harm_is_refused(line: str, why: str) -> None:
    with pytest.raises(PgdbError, match=why):
        dispatch(line)


def test_a_line_that_is_no_text_costs_only_itself() -> None:
    class Errors:
        def __init__(self) -> None:
            self.reported: list[str] = []

        def flush(self) -> None:
            pass

        def error(self, error: PgdbError, command: str) -> None:
            self.reported.append(str(error))

    session, display = FakeSession(), Errors()
    dispatcher = Dispatcher(Workspace(session), display, read_line=None)  # type: ignore[arg-type]
    asyncio.run(dispatcher.run_line('p "\udcff"'))
    assert display.reported == ["byte 0xff at character 4 of the line is not UTF-8"]
    assert (dispatcher.status, session.lines) == (1, [])


def test_a_bug_in_a_command_costs_that_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Errors:
        """Keeper of the errors that are shown."""

        def __init__(self) -> None:
            self.reported: list[PgdbError] = []

        def flush(self) -> None:
            pass

        def error(self, error: PgdbError, command: str) -> None:
            self.reported.append(error)

    async def fails(self: FakeSession, line: str) -> Answer:
        raise RuntimeError("this should\nnot have come")

    monkeypatch.setattr(FakeSession, "execute_plain", fails)
    display = Errors()
    dispatcher = Dispatcher(Workspace(FakeSession()), display, read_line=None)  # type: ignore[arg-type]
    asyncio.run(dispatcher.run_line("info all-registers"))
    (error,) = display.reported
    assert isinstance(error, InternalError) and dispatcher.status == 1
    assert str(error).startswith(
        "a bug of PGDB's: RuntimeError: this should not have come; the session goes on"
    )


@pytest.mark.parametrize(
    "line",
    [
        "dump x ~nobody-of-that-name/a.npz",
        "dump x a\0b.npz",
        "tree --svg ~nobody-of-that-name/a.svg",
        "compare x with ~nobody-of-that-name/a.json",
        f"tree --samples {'1' * 5000}",
    ],
)
def test_what_can_be_no_file_or_number_is_an_error_of_the_line(line: str) -> None:
    with pytest.raises(PgdbError) as refused:
        dispatch(line)
    assert not isinstance(refused.value, InternalError)


@pytest.mark.parametrize(
    "command",
    [
        "python open('made', 'w')",
        "print $_shell('touch made')",
        "print/x size = 4",
        "print size /= 4",
        "print size xor_eq 4",
        "decompose u --dims 4 --map made.py:f",
        "tree --dot made",
        "print\ncontinue",
    ],
)
def test_what_a_file_wants_asked_is_not_if_it_may_do_more_than_look(
    tmp_path: Path, command: str
) -> None:
    value = EquivalenceClass(ALL, Value("4"))
    kept = Saved("before", Answer(command, ALL, (value,)), 0.0, is_own=True)
    saved_files.write(kept, tmp_path / "a.json")
    session = FakeSession()
    with pytest.raises(PgdbError, match="may do more than look; 'compare EXPR with "):
        dispatch(f"compare with {tmp_path}/a.json", session)
    assert not session.lines


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("0,1 bt", ("0,1", "bt")),
        ("0 , 1 bt 3", ("0 , 1", "bt 3")),
        ("[0-3] p x, y", ("[0-3]", "p x, y")),
        ("0,,1 bt", ("0,,1", "bt")),
        ("0&&1 p 1", ("0&&1", "p 1")),
        ("0, bt", ("0 , bt", "")),
    ],
)
def test_a_set_is_cut_from_its_command(text: str, cut: tuple[str, str]) -> None:
    assert tuple("".join(each.split()) for each in split_set(text)) == tuple(
        "".join(each.split()) for each in cut
    )
