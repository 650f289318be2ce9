"""The rows of the pane above the prompt: source with a margin, instructions, registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from pgdb.controls import harmless
from pgdb.ranks import RankSet

_MARGIN = 12
"""Width of the column of ranks, in characters."""


class SourcePlace(Struct, frozen=True):
    """The content of a pane with source."""

    file: str
    """The name for the title."""
    line: int
    """The line of the selected frame."""
    ranks: Mapping[int, RankSet]
    """The ranks that stand at a line of the file."""
    breakpoints: Mapping[int, bool]
    """The lines with a breakpoint, and whether one of them is enabled."""


Row = tuple[str, str]
"""A style (``title``, ``here``, ``ranks`` or none) and a text."""


def title(text: str, width: int) -> Row:
    """Return the first row of a pane."""
    head = f"── {harmless(text)} "
    return ("title", (head + "─" * max(0, width - len(head)))[:width])


def source_rows(
    place: SourcePlace, read: Callable[[int], str | None], height: int, width: int
) -> list[Row]:
    """Return *height* rows around the line of *place*, read line by line by *read*."""
    first = max(1, place.line - height // 2)
    rows: list[Row] = []
    for number in range(first, first + height):
        code = read(number)
        ranks = place.ranks.get(number)
        mark = {None: " ", True: "B", False: "b"}[place.breakpoints.get(number)]
        is_here = number == place.line
        arrow = "▶" if is_here else "▷" if ranks else " "
        margin = f"{mark}{arrow} {_column(ranks):<{_MARGIN}} {number:>5} "
        text = harmless((code or "").expandtabs(8))
        style = "here" if is_here else "ranks" if ranks else ""
        rows.append((style, f"{margin} {text}"[:width].rstrip()))
    return rows


def text_rows(text: str, height: int, width: int) -> list[Row]:
    """Return the first *height* lines of GDB's instructions."""
    lines = [each for each in text.split("\n") if each.strip()]
    lines = [each for each in lines if not each.startswith(("Dump of", "End of"))]
    return [
        ("here" if each.startswith("=>") else "", harmless(each.expandtabs(8))[:width])
        for each in lines[:height]
    ]


def register_rows(text: str, height: int, width: int) -> list[Row]:
    """Return registers and their values in columns, down and then across."""
    cells = []
    for line in text.split("\n"):
        if len(words := line.split(maxsplit=2)) > 1:
            cells.append(f"{harmless(words[0]):<8} {harmless(words[1])}")
    widest = max(map(len, cells), default=0) + 3
    shown = cells[: height * max(1, width // widest)]
    columns = [shown[at : at + height] for at in range(0, len(shown), height)]
    rows = []
    for row in range(max(map(len, columns), default=0)):
        rows.append("".join(f"{each[row]:<{widest}}" for each in columns if row < len(each)))
    return [("", each[:width].rstrip()) for each in rows]


def _column(ranks: RankSet | None) -> str:
    if not ranks:
        return ""
    text = f"[{ranks}]" if len(ranks) < 1000 else ""
    return text if 0 < len(text) <= _MARGIN else f"{len(ranks)} ranks"
