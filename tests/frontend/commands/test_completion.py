"""Completion at the prompt, by the real table of commands and a GDB that is given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.api import line_completion
from pgdb.frontend.api.gdb_blocks import parse
from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.line_completion import Completed, complete_line, completed_of
from pgdb.frontend.commands import completion
from pgdb.frontend.commands.completion import Candidates, LineCompleter
from pgdb.frontend.commands.user_commands import UserCommand
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.ui.prompt_keys import finished, in_columns
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Text
from tests.fakes.traffic import FakeTraffic

GDB = (
    "break main", "break mark", "b main", "info auxv", "info line", "print point.x",
    "print point.y", "print counter", "list main", "set print pretty", "set print elements",
    "show print pretty", "handle SIGUSR1", "handle SIGUSR2", "run", "add-symbol-file",
    "explore", "attach", "help info line", "edit x", "bt -threshold", "bt -full", "bt -fused",
    "commands main", "condition main", "break storm.c:hit", "delete display", "delete main",
    "enable once", "enable main", "disable main", "info breakpoints main", "info line hit",
)  # fmt: skip
"""The lines that the GDB of these tests knows."""


def make_workspace() -> Workspace:
    """Return the workspace of a session with two breakpoints and two named sets."""
    session = SimpleNamespace(
        set=RankSet(range(4)),
        sets={"edge": RankSet([0])},
        last_breakpoint=2,
        interfaces=Interfaces(),
        numbered_on=lambda text: text,
        named_set=lambda name: RankSet([3]),
        ranks=lambda ranks: ranks,
    )
    workspace = Workspace(cast(Any, session))
    workspace.sets["odd"] = RankSet([1, 3])
    workspace.saved.put(Saved("before", Answer("print x", RankSet([0]), ()), 0.0, "job"))
    return workspace


def completed(text: str, asked: list[tuple[str, str]] | None = None) -> list[str]:
    """Return the candidates of a line."""

    async def ask(line: str, ranks: RankSet) -> Completed:
        if asked is not None:
            asked.append((line, str(ranks)))
        return Completed(tuple(each for each in GDB if each.startswith(line)))

    return [*asyncio.run(LineCompleter(make_workspace(), ask=ask)(text)).lines]


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        # PGDB's own words, sets, numbers, options and their values.
        ("decom", ["decompose"]),
        ("add-sy", ["add-symbol-file", "add-symbol-file-from-memory"]),
        ("focus @e", ["focus @edge", "focus @error", "focus @exited"]),
        ("proc @odd backt", ["proc @odd backtrace"]),
        ("proc @o", ["proc @odd"]),
        ("info sou", ["info source", "info sources"]),
        ("help plo", ["help plot"]),
        ("tree --by ", ["tree --by function", "tree --by line", "tree --by pc"]),
        ("tree -by l", ["tree -by line"]),
        # GDB completes a name behind a minus where it does not know the option.
        ("bt -t", ["bt -threads", "bt -tree"]),
        ("bt -f", ["bt -full", "bt -fused"]),
        ("commands ", ["commands 1", "commands 2"]),
        ("delete ", ["delete 1", "delete 2", "delete display", "delete main"]),
        ("delete 1 ", ["delete 1 1", "delete 1 2"]),
        ("delete breakpoints ", ["delete breakpoints 1", "delete breakpoints 2"]),
        ("delete display ", []),
        ("disable 1-2 ", ["disable 1-2 1", "disable 1-2 2"]),
        ("enable once ", ["enable once 1", "enable once 2"]),
        ("enable on", ["enable once"]),
        ("info b ", ["info b 1", "info b 2"]),
        ("condition ", ["condition 1", "condition 2"]),
        ("proc 0 plot u --h", ["proc 0 plot u --heat", "proc 0 plot u --hist"]),
        ("saved -d ", ["saved -d before"]),
        ("set -k", ["set -keep"]),
        (
            "set -keep stop",
            [
                *("set -keep stop-before-death", "set -keep stop-mode"),
                *("set -keep stop-on-error", "set -keep stop-on-report"),
            ],
        ),
        ("set stop-on-error ", ["set stop-on-error off", "set stop-on-error on"]),
        ("show compare", ["show compare-pointers"]),
        ("set logging e", ["set logging enabled"]),
        ("set logging enabled o", ["set logging enabled off", "set logging enabled on"]),
        # Locations, expressions, settings, topics and signals are GDB's.
        ("break ma", ["break main", "break mark"]),
        ("b ma", ["b main"]),
        ("print point.", ["print point.x", "print point.y"]),
        ("info au", ["info auxv"]),
        ("set print p", ["set print pretty"]),
        ("handle SIGU", ["handle SIGUSR1", "handle SIGUSR2"]),
        ("help info l", ["help info line"]),
        ("proc 0-1 break mai", ["proc 0-1 break main"]),
        ("timeout 3 print co", ["timeout 3 print counter"]),
        # An expression of a command that GDB does not have.
        ("plot point.", ["plot point.x", "plot point.y"]),
        ("stat --bins 3 coun", ["stat --bins 3 counter"]),
        ("condition 1 coun", ["condition 1 counter"]),
        ("edit mai", ["edit main"]),
        # GDB completes FILE:FUNCTION behind 'break' alone.
        ("list storm.c:h", ["list storm.c:hit"]),
        ("clear storm.c:h", ["clear storm.c:hit"]),
        ("info line storm.c:h", ["info line storm.c:hit"]),
        ("info line h", ["info line hit"]),
        # A command behind an argument of another one.
        ("gather cores print co", ["gather cores print counter"]),
        # The words of a usage line; the GDB of a rank has no layouts.
        ("layout s", ["layout split", "layout src"]),
        ("tui d", ["tui disable"]),
        ("layout src ", []),
        # Refused words are not offered, and nothing is made up.
        ("atta", []),
        ("nosuch ", []),
        ("set var ", []),
    ],
)
def test_a_line_is_completed(text: str, candidates: list[str]) -> None:
    assert completed(text) == candidates


@pytest.mark.parametrize(
    ("text", "candidates"),
    [
        ("zon", ["zones"]),
        ("on", ["ones"]),
        ("abc ", ["abc one"]),
        ("ones point.", ["ones point.x", "ones point.y"]),
        ("zones point.", ["zones point.x", "zones point.y"]),
    ],
)
def test_commands_and_aliases_of_the_user_are_completed(text: str, candidates: list[str]) -> None:
    workspace = make_workspace()
    body = parse("define x", ["proc 1 print 1"])
    for name in ("zones", "abc one"):
        workspace.user.define(UserCommand(name, body, is_ours=True))
    workspace.user.set_alias("ones", "proc 1 print", in_gdb=False)

    async def ask(line: str, ranks: RankSet) -> Completed:
        return Completed(tuple(each for each in GDB if each.startswith(line)))

    assert [*asyncio.run(LineCompleter(workspace, ask=ask)(text)).lines] == candidates


@pytest.mark.parametrize(
    ("text", "line", "ranks"),
    [
        ("break ma", "break ma", "0-3"),
        ("proc @odd b ma", "b ma", "1,3"),
        ("proc @odd proc 0 b ma", "b ma", "0"),
        ("plot a + b.x", "print b.x", "0-3"),
        ("pipe info so", "info so", "0-3"),
    ],
)
def test_gdb_gets_the_line_that_it_will_get(text: str, line: str, ranks: str) -> None:
    asked: list[tuple[str, str]] = []
    completed(text, asked)
    assert asked == [(line, ranks)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("source co", ["source commands", "source count/"]),
        ("source count/", ["source count/deep"]),
        ("shell cat comm", ["shell cat commands"]),
        ("save breakpoints co", ["save breakpoints commands", "save breakpoints count/"]),
        ("session save comm", ["session save commands"]),
        ("dump u comm", ["dump u commands"]),
        ("gather co", ["gather commands", "gather count/"]),
        ("set logging file comm", ["set logging file commands"]),
        ("pipe bt | grep -f comm", ["pipe bt | grep -f commands"]),
        ("source .h", ["source .hidden"]),
        ("source nosuch/", []),
        ("source ~nobody-of-that-name/", []),
    ],
)
def test_names_of_files_are_completed(
    text: str, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "count").mkdir()
    for name in ("commands", "count/deep", ".hidden"):
        (tmp_path / name).touch()
    assert completed(text) == names


def test_a_gdb_that_does_not_answer_leaves_the_own_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completion, "LIMIT_S", 0.01)

    async def work() -> Candidates:
        answered = asyncio.Event()

        async def never(line: str, ranks: RankSet) -> Completed:
            await answered.wait()
            return Completed((f"{line}late",))

        return await LineCompleter(make_workspace(), ask=never)("info so")

    assert asyncio.run(work()).lines == ("info source", "info sources")


@pytest.mark.parametrize("command_between", [False, True])
def test_an_answer_that_comes_late_is_there_for_the_next_tab(
    monkeypatch: pytest.MonkeyPatch, command_between: bool
) -> None:
    monkeypatch.setattr(completion, "LIMIT_S", 0.01)
    asked: list[str] = []

    async def work() -> None:
        answered = asyncio.Event()

        async def late(line: str, ranks: RankSet) -> Completed:
            asked.append(line)
            await answered.wait()
            return Completed((f"{line}in",))

        completer = LineCompleter(make_workspace(), ask=late)
        assert (await completer("break ma")).lines == ()
        assert (await completer("break ma")).lines == ()
        assert asked == ["break ma"]
        answered.set()
        if command_between:
            completer.forget()
        monkeypatch.setattr(completion, "LIMIT_S", 60.0)
        assert (await completer("break ma")).lines == ("break main",)
        assert asked == ["break ma"] * (1 + command_between)
        # A kept answer is for one TAB.
        await completer("break ma")
        assert asked == ["break ma"] * (2 + command_between)

    asyncio.run(work())


def test_a_gdb_that_fails_leaves_the_own_candidates() -> None:
    async def fail(line: str, ranks: RankSet) -> Completed:
        raise RuntimeError(line)

    assert asyncio.run(LineCompleter(make_workspace(), ask=fail)("info so")).lines == (
        "info source",
        "info sources",
    )


@pytest.mark.parametrize(
    ("text", "lines", "is_cut", "inserted", "listed"),
    [
        ("b m", ("b main",), False, "ain ", []),
        ("b ma", ("b main", "b mark"), False, "", ["main", "mark"]),
        ("b m", ("b main", "b mark"), False, "a", []),
        ("p a.", ("p a.x", "p a.y"), False, "", ["x", "y"]),
        ("source d", ("source dir/",), False, "ir/", []),
        ("b x", (), False, "", []),
        # GDB has more than it shows: what they have in common is not known.
        ("b m", ("b main", "b main2"), True, "", ["main", "main2", "…"]),
        ("b m", ("b main",), True, "", ["main", "…"]),
        ("x", ("x",), False, " ", []),
    ],
)
def test_tab_inserts_what_all_candidates_begin_with(
    text: str, lines: tuple[str, ...], is_cut: bool, inserted: str, listed: list[str]
) -> None:
    assert finished(text, Candidates(lines, is_cut)) == (inserted, listed)


def test_candidates_are_listed_in_columns() -> None:
    assert in_columns(["a", "bb", "c", "d", "e"], 12) == "a   c   e\nbb  d"
    assert in_columns(["wide" * 10, "b"], 12) == "wide" * 10 + "\nb"
    assert in_columns(["a", "bb", "c", "d", "e"], 12, 1) == "a   bb  …"


# -- the GDB of one rank -------------------------------------------------------------------------


class TextTraffic(FakeTraffic):
    """Traffic whose ranks answer with a text; ranks in *late* do not, and count as silent then."""

    def __init__(self, text: str, late: str = "") -> None:
        super().__init__()
        self._text = text
        self.late = RankSet.parse(late) if late else RankSet()

    async def ask_quietly(self, operation: Any, ranks: RankSet, **how: Any) -> Gathered:
        gathered = await super().ask_quietly(operation, ranks, **how)
        self.silent |= gathered.missing.late
        return gathered

    def answers(self, operation: Any, ranks: RankSet) -> Iterable[EquivalenceClass]:
        yield EquivalenceClass(ranks=ranks, record=Text(self._text))


def make_session(traffic: TextTraffic, *, stopped: str, asked: str = "") -> Any:
    """Return a session of four ranks, some of which are stopped."""
    state = JobState(RankSet(range(4)))
    state.stopped = RankSet.parse(stopped) if stopped else RankSet()
    return SimpleNamespace(
        traffic=traffic,
        state=state,
        asked=RankSet.parse(asked) if asked else RankSet(),
        is_recorded=False,
        has_ended=False,
    )


def ask(session: Any, ranks: str = "0-3", line: str = "b m") -> tuple[str, ...]:
    return asyncio.run(complete_line(session, line, RankSet.parse(ranks), timeout_s=0.1)).lines


def test_one_rank_is_asked_that_can_answer() -> None:
    traffic = TextTraffic("b main\nb mark\n")
    # Rank 0 runs, rank 1 is busy with another command.
    session = make_session(traffic, stopped="1-3", asked="1")
    assert ask(session) == ("b main", "b mark")
    assert traffic.asked == ["2"] and traffic.operations[0].command == "complete b m"
    assert ask(session, "0-1") == () and len(traffic.asked) == 1


def test_a_rank_that_was_silent_is_not_asked_again() -> None:
    traffic = TextTraffic("b main", late="0")
    session = make_session(traffic, stopped="0-3")
    assert ask(session) == ()
    assert ask(session) == ("b main",)
    assert traffic.asked == ["0", "1"]


def test_a_rank_that_has_ended_is_asked_if_none_of_the_focus_lives() -> None:
    traffic = TextTraffic("list main")
    session = make_session(traffic, stopped="2-3")
    session.state.exited = RankSet.parse("0-1")
    assert ask(session, "0-1") == ("list main",) and traffic.of_ended
    assert ask(session) == ("list main",) and not traffic.of_ended
    assert traffic.asked == ["0", "2"]


@pytest.mark.parametrize("what", ["is_recorded", "has_ended"])
def test_nobody_is_asked_without_a_job(what: str) -> None:
    traffic = TextTraffic("b main")
    session = make_session(traffic, stopped="0-3")
    setattr(session, what, True)
    assert ask(session) == () and traffic.asked == []
    # Nor with a line that would be two for GDB.
    assert ask(make_session(traffic, stopped="0"), line="b m\nkill") == () and traffic.asked == []


def test_output_of_complete_is_read() -> None:
    cut = f"b main\nb mark {line_completion._CUT}, max-completions reached. ***\n"
    assert completed_of("b main\n\nb main\n") == Completed(("b main",))
    assert completed_of(cut) == Completed(("b main",), is_cut=True)
