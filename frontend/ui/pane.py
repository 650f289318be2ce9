"""The pane above the prompt: it asks one rank, quietly, and keeps its last content meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from prompt_toolkit.styles import Style

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.line_marks import is_same_file, marks_of_frames
from pgdb.frontend.api import programs
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text.pane_text import (
    Row,
    SourcePlace,
    instruction_rows,
    place_of_instruction,
    register_rows,
    source_rows,
    title,
)
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Console, ListBreakpoints, SelectFrame
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Frame, Record, Stack, Stop, Text

ASK_S = 0.5
"""Longest time for the content of a pane, in seconds."""
RETRY_S = 1.0
"""Time after which ranks that have not answered are asked again, in seconds."""
_BYTES_OF_AN_INSTRUCTION = 15
_LEFT = 6
"""Rows of the screen that a pane leaves free."""
_NEAR = 2000
"""Most bytes from the start of a function to the selected instruction if those between are asked
for. Only from the start of a function does GDB know where instructions of x86 begin."""
_OFFSET = pattern(r"<.*\+(\d+)>\Z")
_LISTED_BREAKPOINT = pattern(r"\d[\d.]*\s.*?\s([yn])\s+(0x[0-9a-f]+)(?:\s|\Z)")


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
        self._drawn_for: os.terminal_size | None = None
        self._places: dict[str, object] = {}
        """The selected place in the source, and that in the instructions."""
        self._is_same: dict[tuple[str, str], bool] = {}
        """Whether two names of the job's table are one program."""
        self.is_incomplete = False
        """Whether a rank that is shown has not answered in time."""
        self._retry: asyncio.TimerHandle | None = None
        self._retrying: asyncio.Task[None] | None = None

    @property
    def is_outdated(self) -> bool:
        """Whether the screen has another size than the rows were made for."""
        return bool(self._workspace.pane.kind) and self._size() != self._drawn_for

    @property
    def rows(self) -> list[Row]:
        """The rows to be drawn; none if no pane is wanted."""
        return self._rows if self._workspace.pane.kind else []

    async def follow(self, draw: Callable[[], None]) -> None:
        """Ask for the content anew, and again while ranks are late; call *draw* at a change."""
        if await self.update():
            draw()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.is_incomplete:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._ask_again, draw)

    def _ask_again(self, draw: Callable[[], None]) -> None:
        if self._workspace.pane.kind:
            self._retrying = asyncio.create_task(self.follow(draw))

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
        size = self._drawn_for = self._size()
        height = max(1, min(pane.height, size.lines - _LEFT))
        rank = self._rank()
        self.is_incomplete = rank is None and bool(self._workspace.focus & self._stopped())
        if self.is_incomplete:
            return False
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
                rows = await self._registers(rank, height, size.columns)
        self._rows = rows or before
        return self._rows != before

    def _stopped(self) -> RankSet:
        """Return the ranks that are stopped; none if the session cannot be asked."""
        session = self._workspace.session
        return RankSet() if session.is_recorded or session.has_ended else session.state.stopped

    def _ready(self) -> RankSet:
        """Return the ranks that can be asked now."""
        session = self._workspace.session
        return self._stopped() - session.asked - session.traffic.silent

    def _rank(self) -> RankSet | None:
        """Return the lowest rank of the focus that can be asked now."""
        ready = self._workspace.focus & self._ready()
        return RankSet([ready.first]) if ready else None

    async def _ask_all(
        self, operation: AnyOperation, ranks: RankSet
    ) -> tuple[EquivalenceClass[Record], ...]:
        """Return the answers that come in time."""
        traffic = self._workspace.session.traffic
        try:
            gathered = await traffic.ask_quietly(operation, ranks, timeout_s=ASK_S)
        except PgdbError:
            return ()
        self.is_incomplete = self.is_incomplete or bool(gathered.missing.late)
        return gathered.classes

    async def _ask(self, operation: AnyOperation, rank: RankSet) -> object:
        """Return the record of the answer of one rank; None without one in time."""
        classes = await self._ask_all(operation, rank)
        return classes[0].filled if classes else None

    async def _of_its_program(self, rank: RankSet) -> RankSet:
        """Return the ranks that can be asked and run the program of *rank*.

        The place of an instruction is a function and an offset, and another program can have a
        function of this name.
        """
        names = programs.names_of(self._workspace.session.table, self._ready() | rank)
        own = next((name for name, ranks in names.items() if rank <= ranks), "")
        unknown = [each for each in names if each != own and (own, each) not in self._is_same]
        if unknown:
            asked = rank | RankSet.union(names[each] for each in unknown)
            files = programs.files_of(await self._ask_all(programs.ASK_FILE, asked)).values()
            its_file = next((ranks for ranks in files if rank <= ranks), RankSet())
            for each in unknown:
                if its_file and names[each] <= RankSet.union(files):
                    self._is_same[own, each] = names[each] <= its_file
        same = [ranks for name, ranks in names.items() if self._is_same.get((own, name))]
        return RankSet.union([rank, names.get(own, rank), *same])

    async def _instructions(self, rank: RankSet, height: int, width: int) -> list[Row]:
        ready = await self._of_its_program(rank)
        classes, listed = await asyncio.gather(
            self._ask_all(Console(command="disassemble $pc,+1"), ready),
            self._ask(Console(command="info breakpoints"), rank),
        )
        standing: dict[str, RankSet] = {}
        own = ""
        for each in classes:
            record = each.filled
            text = record.text if isinstance(record, Text) else ""
            lines = [line for line in text.split("\n") if line.startswith("=>")]
            place = place_of_instruction(lines[0])[1] if lines else ""
            if place:
                standing[place] = standing.get(place, RankSet()) | each.ranks
            if rank <= each.ranks:
                own = place
        if not standing:
            return []
        self._go_to("asm", own)
        pane = self._workspace.pane
        found = _OFFSET.match(own)
        before = int(found[1]) if found and int(found[1]) <= _NEAR else 0
        length = before + (height + max(0, pane.down)) * _BYTES_OF_AN_INSTRUCTION
        code = await self._ask(Console(command=f"disassemble $pc-{before},+{length}"), rank)
        if code is None:
            return []
        head = title(f"instructions · rank {rank}", width)
        if not isinstance(code, Text):
            return [head, ("", "there are no instructions here")]
        marks = _addresses_of(listed.text) if isinstance(listed, Text) else {}
        rows = instruction_rows(code.text, standing, marks, height, width, pane.down, pane.right)
        return [head, *rows]

    async def _registers(self, rank: RankSet, height: int, width: int) -> list[Row]:
        record = await self._ask(Console(command="info registers"), rank)
        if record is None:
            return []
        head = title(f"registers · rank {rank}", width)
        if not isinstance(record, Text):
            return [head, ("", "there are no registers here")]
        down = self._workspace.pane.down
        return [head, *register_rows(record.text, height, width, down)]

    async def _source(self, rank: RankSet, height: int, width: int) -> list[Row]:
        ready = self._ready() | rank
        stacks, breakpoints = await asyncio.gather(
            self._ask_all(SelectFrame(command=""), ready), self._ask_all(ListBreakpoints(), ready)
        )
        frames: list[tuple[RankSet, Frame]] = []
        for each in stacks:
            record = each.filled
            if isinstance(record, Stack) and record.frames:
                frames.append((each.ranks, record.frames[0]))
        frame = next((selected for ranks, selected in frames if rank <= ranks), None)
        if frame is None:
            return []
        path = frame.fullname or frame.file
        if not path:
            return [title(f"{frame.function} has no source · rank {rank}", width)]
        self._go_to("src", (path, frame.function, frame.line))
        answered = RankSet.union(ranks for ranks, _ in frames)
        found = {
            each.line: each
            for each in marks_of_frames([*frames, *self._stopped_at(answered)], breakpoints)
            if is_same_file(each.file, path)
        }
        place = SourcePlace(
            file=path,
            line=frame.line,
            ranks={line: each.ranks for line, each in found.items() if each.ranks},
            breakpoints={
                line: bool(each.breakpoints)
                for line, each in found.items()
                if each.breakpoints or each.disabled
            },
            down=self._workspace.pane.down,
            right=self._workspace.pane.right,
        )
        head = f"{os.path.basename(path)} · {frame.function} · rank {rank}"
        if source_line(path, frame.line) is None:
            head += " · the file is not on this host"
        rows = source_rows(place, lambda number: source_line(path, number), height, width)
        return [title(head, width), *rows]

    def _go_to(self, kind: str, place: object) -> None:
        """Show the selected place, unless the user has scrolled away from it."""
        pane = self._workspace.pane
        if self._places.get(kind, place) != place:
            pane.down = pane.right = 0
        self._places[kind] = place

    def _stopped_at(self, answered: RankSet) -> list[tuple[RankSet, Frame | None]]:
        """Return the frames at the last stops of the ranks that have not *answered*."""
        state = self._workspace.session.state
        return [
            (each.ranks, each.record.frame)
            for each in state.latest(state.stopped - answered)
            if isinstance(each.record, Stop)
        ]


def _addresses_of(listed: str) -> dict[str, bool]:
    """Return the addresses in GDB's list of breakpoints, and whether one at each is enabled."""
    found: dict[str, bool] = {}
    for line in listed.split("\n"):
        if match := _LISTED_BREAKPOINT.match(line):
            address = f"{int(match[2], 16):#x}"
            found[address] = found.get(address, False) or match[1] == "y"
    return found
