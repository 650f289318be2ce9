"""The pane above the prompt: its commands, and whom it asks."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path
from typing import Any

import pytest

from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.ui.pane import Pane, fragments
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Console, ListBreakpoints
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, Frame, Record, Stack, Stop, Text

ALL = RankSet(range(4))


class FakeTraffic:
    """Answers as a rank in line 3 of *path*, unless it is to be silent."""

    def __init__(self, path: str) -> None:
        self.silent = RankSet()
        self.asked: list[str] = []
        self.is_late = False
        self.frame = Frame(level=0, function="work", fullname=path, line=3)

    async def ask_quietly(self, operation: Any, ranks: RankSet, *, timeout_s: float) -> Gathered:
        self.asked.append(str(ranks))
        if self.is_late:
            return Gathered(1, (), Missing(late=ranks))
        record: Record = Stack((self.frame,))
        if isinstance(operation, ListBreakpoints):
            place = os.path.basename(self.frame.fullname)
            record = BreakpointList((Breakpoint(1, "breakpoint", file=place, line=4),))
        elif isinstance(operation, Console):
            record = Text(f"=> {operation.command}")
        return Gathered(1, (EquivalenceClass(ranks=ranks, record=record),), Missing())


class FakeSession:
    """Four ranks: two stopped in line 3, one in line 4 of a file; the last one runs."""

    is_recorded = False
    has_ended = False

    def __init__(self, path: str) -> None:
        self.set = ALL
        self.asked = RankSet()
        self.traffic = FakeTraffic(path)
        self.state = JobState(ALL)
        for ranks, line in (("0-1", 3), ("2", 4)):
            frame = Frame(level=0, function="work", fullname=path, line=line)
            stop = Stop(reason="breakpoint-hit", frame=frame)
            self.state.apply((EquivalenceClass(ranks=RankSet.parse(ranks), record=stop),))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "work.c"
    path.write_text("".join(f"line {number};\n" for number in range(1, 9)))
    made = Workspace(FakeSession(str(path)))  # type: ignore[arg-type]
    made.pane.is_possible = True
    return made


def typed(workspace: Workspace, *lines: str) -> str:
    """Carry out lines; return what they show."""

    async def never(_: str) -> str | None:
        raise AssertionError("nothing is to be read")

    async def work() -> None:
        for line in lines:
            await dispatcher.run_line(line)

    out = io.StringIO()
    dispatcher = Dispatcher(workspace, TextDisplay(out), read_line=never)
    asyncio.run(work())
    return out.getvalue()


def drawn(workspace: Workspace, *, columns: int = 60, lines: int = 24) -> list[str]:
    """Return the rows of the pane."""

    async def work() -> list[str]:
        pane = Pane(workspace, lambda: os.terminal_size((columns, lines)))
        await pane.update()
        return [text for _, text in fragments(pane.rows)]

    return asyncio.run(work())


def test_the_source_has_all_classes_and_breakpoints(workspace: Workspace) -> None:
    assert typed(workspace, "layout src", "winheight 4") == ""
    head, *rows = drawn(workspace)
    assert head.startswith("── work.c · work · rank 0 ──") and len(head) == 61
    assert [each.rstrip("\n") for each in rows] == [
        "                    1  line 1;",
        "                    2  line 2;",
        " ▶ [0-1]            3  line 3;",
        "B▷ [2]              4  line 4;",
    ]


def test_it_asks_the_lowest_rank_that_can_answer(workspace: Workspace) -> None:
    session: Any = workspace.session
    typed(workspace, "layout src")
    session.asked = RankSet([0])
    drawn(workspace)
    assert {*session.traffic.asked} == {"1"}
    workspace.focus = RankSet([3])
    assert "no rank of the focus is stopped" in drawn(workspace)[0]
    assert {*session.traffic.asked} == {"1"}


def test_the_content_stays_while_a_rank_does_not_answer(workspace: Workspace) -> None:
    async def work() -> None:
        pane = Pane(workspace, lambda: os.terminal_size((60, 24)))
        assert await pane.update()
        before = pane.rows
        session: Any = workspace.session
        session.traffic.is_late = True
        assert not await pane.update()
        assert pane.rows == before
        workspace.pane.hide()
        assert pane.rows == []

    typed(workspace, "layout src")
    asyncio.run(work())


def test_a_file_of_another_host_is_said_to_be_one(workspace: Workspace) -> None:
    session: Any = workspace.session
    session.traffic.frame = Frame(level=0, function="f", fullname="/nosuch/f.c", line=3)
    typed(workspace, "layout src")
    assert "the file is not on this host" in drawn(workspace, columns=100)[0]
    session.traffic.frame = Frame(level=0, function="f")
    assert "f has no source · rank 0" in drawn(workspace)[0]


def test_a_small_screen_keeps_room_for_the_prompt(workspace: Workspace) -> None:
    typed(workspace, "layout src", "winheight 50")
    assert len(drawn(workspace, lines=10)) == 5
    assert len(drawn(workspace, lines=3)) == 2


def test_source_and_instructions_share_the_height(workspace: Workspace) -> None:
    typed(workspace, "layout split", "winheight 9")
    rows = drawn(workspace)
    heads = [at for at, row in enumerate(rows) if "· rank 0" in row]
    assert heads[0] == 0 and len(heads) == 2 and len(rows) <= 10
    assert "instructions" in rows[heads[1]]
    assert "disassemble $pc" in rows[heads[1] + 1]


def test_layouts_and_gdbs_words_for_them(workspace: Workspace) -> None:
    pane = workspace.pane
    for line, kind in (
        ("layout asm", "asm"), ("layout next", "split"), ("layout next", "regs"),
        ("layout next", "src"), ("layout spl", "split"), ("layout next", "regs"),
        ("layout next", "src"),
        ("layout prev", "regs"), ("tui disable", ""), ("tui enable", "regs"),
        ("layout sr", "src"), ("tui reg general", "regs"), ("tui layout asm", "asm"),
    ):  # fmt: skip
        assert typed(workspace, line) == "" and pane.kind == kind, line
    assert "disassemble $pc" in drawn(workspace)[1]
    typed(workspace, "wh src 9", "wh +2")
    assert pane.height == 11
    typed(workspace, "winheight -1")
    assert pane.height == 10


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("layout", "one of src, asm, split, regs"),
        ("layout s", "one of src, asm, split, regs"),
        ("layout nosuch", "one of src, asm, split, regs"),
        ("tui", "enable or disable"),
        ("tui nosuch", "enable or disable"),
        ("winheight", "is no number of lines"),
        ("winheight x", "is no number of lines"),
        ("winheight ++1", "is no number of lines"),
        ("winheight 1", "3 to 200 are possible"),
        ("refresh now", "takes no argument"),
    ],
)
def test_a_layout_that_is_not_understood(workspace: Workspace, line: str, why: str) -> None:
    assert why in typed(workspace, line)
    assert workspace.pane.kind == "" and workspace.pane.height == 15


@pytest.mark.parametrize("line", ["layout src", "tui enable"])
def test_a_pane_needs_a_screen(workspace: Workspace, line: str) -> None:
    workspace.pane.is_possible = False
    assert "needs a terminal that can move its cursor" in typed(workspace, line)
