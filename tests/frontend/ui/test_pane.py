"""The pane above the prompt: its commands, and whom it asks."""

from __future__ import annotations

import asyncio
import functools
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.ui.pane import Pane, fragments
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Console, ListBreakpoints
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, Frame, Record, Stack, Stop, Text
from tests.fakes.bare_session import BareSession
from tests.fakes.traffic import FakeTraffic

ALL = RankSet(range(4))


class PaneTraffic(FakeTraffic):
    """Traffic of ranks in lines of *path*, rank 2 in another one than the first two."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.frame = Frame(level=0, function="work", fullname=path, line=3)
        self.line_of_rank_2 = 4
        self.files = ["/job/work", "/job/other"]
        """The file that ranks 0 and 1 execute, and that of rank 2."""

    def answers(self, operation: Any, ranks: RankSet) -> Iterable[EquivalenceClass]:
        for at, part in enumerate((RankSet([0, 1]), RankSet([2]))):
            if ranks & part:
                yield EquivalenceClass(ranks=ranks & part, record=self._answer(operation, at))

    def _answer(self, operation: Any, part: int) -> Record:
        match operation:
            case ListBreakpoints():
                place = os.path.basename(self.frame.fullname)
                made = [Breakpoint(1, "breakpoint", file=place, line=4)]
                if part == 1:
                    made.append(Breakpoint(2, "breakpoint", enabled=False, file=place, line=2))
                return BreakpointList(tuple(made))
            case Console(command="info breakpoints"):
                return Text(
                    "1       breakpoint     keep y   0x0000000000000011 in work at work.c:3"
                )
            case Console(command="info proc exe"):
                return Text(f"process 1{part}\nexe = '{self.files[part]}'")
            case Console(command=command):
                at = [f"{0x10 + part + at:#018x} <work+{8 + part + at}>" for at in range(3)]
                if command.endswith(",+1") and part == 0:
                    at = ["… <work+8>"]  # the addresses of two ranks differ
                return Text(
                    "\n".join(f"   {each}:\t{command}" for each in at).replace("  ", "=>", 1)
                )
            case _ if part == 0:
                return Stack((self.frame,))
            case _:
                return Stack((replace(self.frame, line=self.line_of_rank_2),))


class PaneSession(BareSession):
    """Four ranks: two stopped in line 3, one in line 4 of a file; the last one runs."""

    def __init__(self, path: str) -> None:
        super().__init__(ALL)
        self.asked = RankSet()
        self.traffic = PaneTraffic(path)
        self.programs = dict.fromkeys(ALL, "/job/work")
        for ranks, line in (("0-1", 3), ("2", 4)):
            frame = Frame(level=0, function="work", fullname=path, line=line)
            self.apply(RankSet.parse(ranks), Stop(reason="breakpoint-hit", frame=frame))

    @property
    def table(self) -> ProcTable:
        processes = [
            RankProcess(rank=rank, host="n1", pid=100 + rank, executable=program)
            for rank, program in self.programs.items()
        ]
        return ProcTable(processes=tuple(processes), source="made up")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    path = tmp_path / "work.c"
    path.write_text("".join(f"line {number};\n" for number in range(1, 9)))
    made = Workspace(PaneSession(str(path)))  # type: ignore[arg-type]
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
    head, *rows = drawn(workspace, columns=80)
    assert head.startswith("── work.c · work · rank 0 ──") and len(head) == 81
    assert [each.rstrip("\n") for each in rows] == [
        "                    1  line 1;",
        "b                   2  line 2;",
        " ▶ [0-1]            3  line 3;",
        "B▷ [2]              4  line 4;",
    ]


def test_ranks_are_shown_where_they_have_selected_a_frame(workspace: Workspace) -> None:
    """A rank that does not answer is shown where it has stopped."""
    session: Any = workspace.session
    session.traffic.line_of_rank_2 = 5
    typed(workspace, "layout src", "winheight 6")
    workspace.focus = RankSet([0])
    assert "▷ [2]              5  line 5;" in "".join(drawn(workspace, columns=80))
    session.traffic.late = RankSet([2])
    assert "B▷ [2]              4  line 4;" in "".join(drawn(workspace, columns=80))
    assert {*session.traffic.asked} == {"0-2"}


def test_the_instructions_have_all_classes_and_breakpoints(workspace: Workspace) -> None:
    typed(workspace, "layout asm", "winheight 3")
    rows = [" ".join(each.split()) for each in drawn(workspace, columns=80)]
    assert rows[0].startswith("── instructions · rank 0 ──")
    # From the start of the function on, by its address, and as many bytes as the rows can need.
    assert rows[1:] == [
        "▶ [0-1] 0x0000000000000010 <work+8>: disassemble $pc-8,+53",
        "B▷ [2] 0x0000000000000011 <work+9>: disassemble $pc-8,+53",
        "0x0000000000000012 <work+10>: disassemble $pc-8,+53",
    ]


def test_the_same_function_of_another_program_is_another_place(workspace: Workspace) -> None:
    session: Any = workspace.session
    session.programs[2] = "/job/other"
    typed(workspace, "layout asm", "winheight 3")
    rows = [" ".join(each.split()) for each in drawn(workspace, columns=80)]
    assert rows[1].startswith("▶ [0-1] 0x0000000000000010 <work+8>")
    assert not any("▷" in each for each in rows)


def test_a_program_of_two_names_is_one_program(workspace: Workspace) -> None:
    session: Any = workspace.session
    session.programs[2] = "./link-to-work"
    session.traffic.files[1] = session.traffic.files[0]
    typed(workspace, "layout asm", "winheight 3")

    async def work() -> None:
        pane = Pane(workspace, lambda: os.terminal_size((80, 24)))
        await pane.update()
        rows = [" ".join(text.split()) for _, text in fragments(pane.rows)]
        assert rows[2].startswith("B▷ [2] 0x0000000000000011 <work+9>")
        # The files of names are asked for once.
        asked = len(session.traffic.asked)
        await pane.update()
        assert len(session.traffic.asked) - asked == 3

    asyncio.run(work())


def test_rows_for_another_size_are_outdated(workspace: Workspace) -> None:
    async def work() -> None:
        size = os.terminal_size((60, 24))
        pane = Pane(workspace, lambda: size)
        assert not pane.is_outdated
        workspace.pane.show("src")
        assert pane.is_outdated and await pane.update() and not pane.is_outdated
        size = os.terminal_size((60, 10))
        assert pane.is_outdated and await pane.update() and not pane.is_outdated
        assert len(pane.rows) == 5

    asyncio.run(work())


def test_it_shows_the_lowest_rank_that_can_answer(workspace: Workspace) -> None:
    session: Any = workspace.session
    typed(workspace, "layout src")
    session.asked = RankSet([0])
    assert "· rank 1 ─" in drawn(workspace)[0]
    assert {*session.traffic.asked} == {"1-2"}
    workspace.focus = RankSet([3])
    assert "no rank of the focus is stopped" in drawn(workspace)[0]
    assert {*session.traffic.asked} == {"1-2"}


def test_the_content_stays_while_a_rank_does_not_answer(workspace: Workspace) -> None:
    async def work() -> None:
        pane = Pane(workspace, lambda: os.terminal_size((60, 24)))
        assert await pane.update()
        before = pane.rows
        session: Any = workspace.session
        assert not pane.is_incomplete
        session.traffic.late = ALL
        assert not await pane.update()
        assert pane.rows == before and pane.is_incomplete
        # While the ranks do not answer an earlier question, they get no other one.
        asked, session.traffic.silent = len(session.traffic.asked), ALL
        assert not await pane.update()
        assert pane.rows == before and pane.is_incomplete and len(session.traffic.asked) == asked
        session.traffic.late = session.traffic.silent = RankSet()
        assert not await pane.update() and not pane.is_incomplete
        workspace.pane.hide()
        assert pane.rows == []

    typed(workspace, "layout src")
    asyncio.run(work())


def test_late_ranks_are_asked_again_once(workspace: Workspace) -> None:
    """However often the pane was asked to follow meanwhile."""

    async def work() -> None:
        session: Any = workspace.session
        session.traffic.late = ALL
        loop, drawn = asyncio.get_running_loop(), asyncio.Event()
        timers: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []

        def later(delay_s: float, call: Any, *arguments: Any) -> asyncio.TimerHandle:
            timer = loop.call_at(loop.time() + 3600, call, *arguments)
            timers.append((timer, functools.partial(call, *arguments)))
            return timer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "call_later", later)
            pane = Pane(workspace, lambda: os.terminal_size((60, 24)))
            await asyncio.gather(*(pane.follow(drawn.set) for _ in range(3)))
            await pane.follow(drawn.set)
        (ask_again,) = [call for timer, call in timers if not timer.cancelled()]
        assert not drawn.is_set()
        session.traffic.late = RankSet()
        ask_again()
        await asyncio.wait_for(drawn.wait(), 20)
        assert "· rank 0 ─" in pane.rows[0][1] and not pane.is_incomplete

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
    assert "disass" in rows[heads[1] + 1]


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
    assert "disass" in drawn(workspace)[1]
    typed(workspace, "wh src 9", "wh +2")
    assert pane.height == 11
    typed(workspace, "winheight -1")
    assert pane.height == 10


def test_it_is_scrolled_until_another_place_is_selected(workspace: Workspace) -> None:
    session: Any = workspace.session
    typed(workspace, "layout src", "winheight 3")

    async def work() -> list[list[str]]:
        pane = Pane(workspace, lambda: os.terminal_size((80, 24)))
        seen = []
        for lines, line in ((("+",), 3), (("+ 2", "> 3"), 3), (("- 4", "< 9"), 3), ((), 6)):
            for each in lines:
                await dispatcher.run_line(each)
            session.traffic.frame = replace(session.traffic.frame, line=line)
            await pane.update()
            seen.append([text[19:].strip() for _, text in pane.rows[1:]])
        return seen

    async def never(_: str) -> str | None:
        raise AssertionError("nothing is to be read")

    dispatcher = Dispatcher(workspace, TextDisplay(io.StringIO()), read_line=never)
    assert asyncio.run(work()) == [
        ["3  line 3;", "4  line 4;", "5  line 5;"],
        ["5  e 5;", "6  e 6;", "7  e 7;"],
        ["1  line 1;", "2  line 2;", "3  line 3;"],
        ["5  line 5;", "6  line 6;", "7  line 7;"],
    ]


def test_info_win_is_about_the_pane(workspace: Workspace) -> None:
    assert typed(workspace, "info win") == (
        "No pane is shown; 'layout src' shows one above the prompt.\n"
    )
    typed(workspace, "layout asm", "winheight 7")
    assert typed(workspace, "info win") == "The pane above the prompt is asm, with 7 rows.\n"


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
        ("winheight cmd 5", "'cmd' is no pane; there are src, asm, regs, of one height"),
        ("winheight src 5 6", "is no number of lines"),
        ("refresh now", "takes no argument"),
        ("+", "'layout src' shows one"),
        ("- 3", "'layout src' shows one"),
        ("> x", "is no number of rows or columns"),
        ("< 99999999999", "is no number of rows or columns"),
    ],
)
def test_a_layout_that_is_not_understood(workspace: Workspace, line: str, why: str) -> None:
    assert why in typed(workspace, line)
    assert workspace.pane.kind == "" and workspace.pane.height == 15


@pytest.mark.parametrize("line", ["layout src", "tui enable"])
def test_a_pane_needs_a_screen(workspace: Workspace, line: str) -> None:
    workspace.pane.is_possible = False
    assert "needs a terminal that can move its cursor" in typed(workspace, line)
