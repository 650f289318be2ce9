"""The pane above the prompt: it asks one rank, quietly, and keeps its last content meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from prompt_toolkit.styles import Style

from pgdb.errors import PgdbError
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text.pane_text import (
    Row,
    SourcePlace,
    register_rows,
    source_rows,
    text_rows,
    title,
)
from pgdb.overlay.messages import AnyOperation, Console, ListBreakpoints, SelectFrame
from pgdb.ranks import RankSet
from pgdb.records import BreakpointList, Stack, Stop, Text

ASK_S = 0.5
"""Longest time for the content of a pane, in seconds."""
_BYTES_OF_AN_INSTRUCTION = 15
_LEFT = 6
"""Rows of the screen that a pane leaves free."""


PANE_STYLE = Style.from_dict({"title": "reverse", "here": "bold", "ranks": "ansicyan"})
"""The styles of the rows."""


def fragments(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return rows as a prompt of several lines begins with them."""
    return [(f"class:{style}" if style else "", f"{text}\n") for style, text in rows]


class Pane:
    """The pane of one prompt."""

    def __init__(self, workspace: Workspace, size: Callable[[], os.terminal_size]) -> None:
        self._workspace = workspace
        self._size = size
        self._rows: list[Row] = []
        self._lock = asyncio.Lock()
        self._has_next = False

    @property
    def rows(self) -> list[Row]:
        """The rows to be drawn; none if no pane is wanted."""
        return self._rows if self._workspace.pane.kind else []

    async def update(self) -> bool:
        """Ask for the content anew; return whether it has changed.

        One question is asked at a time; of those that wait, one is enough.
        """
        if not self._workspace.pane.kind or self._has_next:
            return False
        self._has_next = True
        async with self._lock:
            self._has_next = False
            return await self._update()

    async def _update(self) -> bool:
        before, pane = self._rows, self._workspace.pane
        size = self._size()
        height = max(1, min(pane.height, size.lines - _LEFT))
        rank = self._rank()
        if rank is None:
            self._rows = [title("no rank of the focus is stopped", size.columns), *before[1:]]
            return self._rows != before
        match pane.kind:
            case "src":
                rows = await self._source(rank, height, size.columns)
            case "asm":
                rows = await self._instructions(rank, height, size.columns)
            case "split":
                # The title of the second half takes a row of the height.
                lower = max(1, (height - 1) // 2)
                rows = await self._source(rank, max(1, height - 1 - lower), size.columns)
                rows += await self._instructions(rank, lower, size.columns)
            case _:
                rows = await self._text(rank, "info registers", "registers", height, size.columns)
        self._rows = rows or before
        return self._rows != before

    def _rank(self) -> RankSet | None:
        """Return the lowest rank that can be asked now."""
        session = self._workspace.session
        if session.is_recorded or session.has_ended:
            return None
        busy = session.asked | session.traffic.silent
        ready = self._workspace.focus & session.state.stopped - busy
        return RankSet([ready.first]) if ready else None

    async def _ask(self, operation: AnyOperation, rank: RankSet) -> object:
        """Return the record of an answer; None without one in time."""
        traffic = self._workspace.session.traffic
        try:
            gathered = await traffic.ask_quietly(operation, rank, timeout_s=ASK_S)
        except PgdbError:
            return None
        return gathered.classes[0].filled if gathered.classes else None

    async def _instructions(self, rank: RankSet, height: int, width: int) -> list[Row]:
        line = f"disassemble $pc,+{height * _BYTES_OF_AN_INSTRUCTION}"
        return await self._text(rank, line, "instructions", height, width)

    async def _text(
        self, rank: RankSet, line: str, what: str, height: int, width: int
    ) -> list[Row]:
        record = await self._ask(Console(command=line), rank)
        if record is None:
            return []
        head = title(f"{what} · rank {rank}", width)
        if not isinstance(record, Text):
            return [head, ("", f"there are no {what} here")]
        make = register_rows if what == "registers" else text_rows
        return [head, *make(record.text, height, width)]

    async def _source(self, rank: RankSet, height: int, width: int) -> list[Row]:
        stack, breakpoints = await asyncio.gather(
            self._ask(SelectFrame(command="frame"), rank), self._ask(ListBreakpoints(), rank)
        )
        if not isinstance(stack, Stack) or not stack.frames:
            return []
        frame = stack.frames[0]
        path = frame.fullname or frame.file
        if not path:
            return [title(f"{frame.function} has no source · rank {rank}", width)]
        standing = self._standing(path)
        own = rank | standing.get(frame.line, RankSet())
        others = {line: ranks - rank for line, ranks in standing.items() if ranks - rank}
        place = SourcePlace(
            file=path,
            line=frame.line,
            ranks={**others, frame.line: own},
            breakpoints=_lines_of(breakpoints, path),
        )
        head = f"{os.path.basename(path)} · {frame.function} · rank {rank}"
        if source_line(path, frame.line) is None:
            head += " · the file is not on this host"
        rows = source_rows(place, lambda number: source_line(path, number), height, width)
        return [title(head, width), *rows]

    def _standing(self, path: str) -> dict[int, RankSet]:
        """Return the ranks that have stopped in a file, by line."""
        state = self._workspace.session.state
        found: dict[int, RankSet] = {}
        for each in state.latest(state.stopped):
            frame = each.record.frame if isinstance(each.record, Stop) else None
            if frame is not None and path in (frame.fullname, frame.file):
                found[frame.line] = found.get(frame.line, RankSet()) | each.ranks
        return found


def _lines_of(record: object, path: str) -> dict[int, bool]:
    """Return the lines of a file with a breakpoint, and whether one of them is enabled."""
    found: dict[int, bool] = {}
    for each in record.breakpoints if isinstance(record, BreakpointList) else ():
        if each.line and each.file and _is_same(each.file, path):
            found[each.line] = found.get(each.line, False) or each.enabled
    return found


def _is_same(name: str, path: str) -> bool:
    """Return whether the name that a compiler has recorded can be that of *path*."""
    return path == name or path.endswith("/" + name.removeprefix("./"))
