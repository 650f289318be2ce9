"""The rows of the pane above the prompt: source with a margin, instructions, registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from pgdb.controls import harmless
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_MARGIN = 12
"""Greatest width of the column of ranks, in characters."""
_LEAST_MARGIN = 5
_NUMBER = 5
"""Width of the column of line numbers on a screen that is wide enough, in characters."""
_WIDE = 72
_INSTRUCTION = pattern(r"(?:=>)?\s*(0x[0-9a-f]+|…) (<[^\t]*>):")


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
    down: int = 0
    """Rows by which the text is scrolled."""
    right: int = 0
    """Columns by which it is scrolled."""


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
    first = max(1, place.line - height // 2 + place.down)
    digits = _NUMBER if width >= _WIDE else len(str(first + height - 1))
    rows: list[Row] = []
    for number in range(first, first + height):
        code = read(number)
        ranks, is_here = place.ranks.get(number), number == place.line
        margin = _margin(place.breakpoints.get(number), ranks, is_here, width)
        text = harmless((code or "").expandtabs(8))[place.right :]
        shown = f"{margin} {number:>{digits}}  {text}"[:width].rstrip()
        rows.append((_style(ranks, is_here), shown))
    return rows


def place_of_instruction(line: str) -> tuple[str, str]:
    """Return the address of an instruction, and its function and offset: ``<main+4>``.

    The address is ``…`` in the common answer of several ranks.

    >>> place_of_instruction("=> 0x0000555555555131 <main+8>:\tmov")
    ('0x555555555131', '<main+8>')
    >>> place_of_instruction("Dump of assembler code")
    ('', '')
    """
    found = _INSTRUCTION.match(line)
    if found is None:
        return "", ""
    return found[1] if found[1] == "…" else f"{int(found[1], 16):#x}", found[2]


def instruction_rows(
    text: str,
    ranks: Mapping[str, RankSet],
    breakpoints: Mapping[str, bool],
    height: int,
    width: int,
    down: int = 0,
    right: int = 0,
) -> list[Row]:
    """Return *height* of GDB's instructions around the selected one, or *down* behind these.

    :param ranks: the ranks that stand at an instruction, by function and offset.
    :param breakpoints: the addresses with a breakpoint, and whether one of them is enabled.
    """
    around = ("Dump of", "End of")
    lines = [each for each in text.split("\n") if each.strip() and not each.startswith(around)]
    here = next((at for at, each in enumerate(lines) if each.startswith("=>")), 0)
    first = max(0, min(here - height // 3 + down, len(lines) - 1))
    rows: list[Row] = []
    for at, line in enumerate(lines[first : first + height], first):
        address, place = place_of_instruction(line)
        standing = ranks.get(place) if place else None
        margin = _margin(breakpoints.get(address), standing, at == here, width)
        code = harmless(line.removeprefix("=>").strip().expandtabs(8))[right:]
        rows.append((_style(standing, at == here), f"{margin} {code}"[:width].rstrip()))
    return rows


def _margin(is_enabled: bool | None, ranks: RankSet | None, is_here: bool, width: int) -> str:
    """Return the margin of a row.

    :param is_enabled: whether a breakpoint there is enabled; None if there is none.
    """
    mark = {None: " ", True: "B", False: "b"}[is_enabled]
    arrow = "▶" if is_here else "▷" if ranks else " "
    most = max(_LEAST_MARGIN, min(_MARGIN, width // 6))
    return f"{mark}{arrow} {_column(ranks, most):<{most}}"


def _style(ranks: RankSet | None, is_here: bool) -> str:
    return "here" if is_here else "ranks" if ranks else ""


def register_rows(text: str, height: int, width: int, down: int = 0) -> list[Row]:
    """Return registers and their values in columns, down and then across.

    *down* leaves the first registers out, by rows.
    """
    cells = []
    for line in text.split("\n"):
        if len(words := line.split(maxsplit=2)) > 1:
            cells.append(f"{harmless(words[0]):<8} {harmless(words[1])}")
    widest = max(map(len, cells), default=0) + 3
    cells = cells[max(0, min(down, len(cells) - 1)) :]
    shown = cells[: height * max(1, width // widest)]
    columns = [shown[at : at + height] for at in range(0, len(shown), height)]
    rows = []
    for row in range(max(map(len, columns), default=0)):
        rows.append("".join(f"{each[row]:<{widest}}" for each in columns if row < len(each)))
    return [("", each[:width].rstrip()) for each in rows]


def _column(ranks: RankSet | None, most: int) -> str:
    if not ranks:
        return ""
    count = len(ranks)
    shown = [f"[{ranks}]"] if count < 1000 else []
    shown += [f"{count} ranks", str(count)]
    return next((each for each in shown if len(each) <= most), "…")
