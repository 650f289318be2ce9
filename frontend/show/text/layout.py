"""How wide an answer may get: rank sets shortened, lines cut, class numbers behind them.

A layout belongs to one answer and notes whether anything was left out, so that the answer can
say how to see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdb.ranks import RankSet

HANDFUL = 8
"""So many different values are listed with their ranks; of more, numbers are summed up."""
MOST_CLASSES = 12
"""Classes that are shown in full; of more, the biggest and the smallest."""
SHOWN_OF_MANY = 4
"""How many of the biggest and of the smallest."""
DIFFERS = "<-- differs"
"""Marks the few ranks that are not like most."""

_RANKS_WIDTH = 30
_RANKS_WIDTH_IN_LOG = 200

_TABLE_COLUMN = 24

Row = tuple[RankSet | None, str]
"""Ranks and what they said; without ranks a line that stands as it is."""


def brackets(ranks: RankSet) -> str:
    """Return a rank set as it is shown: ``[0-3,8]``."""
    return f"[{ranks}]"


def shortened(ranks: RankSet, width: int) -> str:
    """Return a rank set in brackets, cut to about *width* characters.

    >>> shortened(RankSet(n * n for n in range(40)), 24)
    '[0-1,4,9,16,… 40 ranks]'
    """
    text = ""
    parts = []
    for first, last, step in ranks.strided_ranges():
        stepped = f"/{step}" if step > 1 else ""
        parts.append(f"{first}" if first == last else f"{first}-{last}{stepped}")
        text = ",".join(parts)
        if len(text) > width:
            break
    else:
        return f"[{text}]"
    note = f"… {len(ranks)} ranks"
    while len(parts) > 1 and len(",".join(parts)) + len(note) + 3 > width:
        parts.pop()
    return f"[{','.join(parts)},{note}]"


@dataclass(slots=True)
class Layout:
    """How one answer is laid out."""

    width: int = 0
    """Columns of the terminal, 0 for no limit."""
    whole: bool = False
    """Whether nothing is left out: for ``expand``."""
    classes: Sequence[RankSet] = ()
    """What @1, @2 … stand for."""
    is_shortened: bool = field(default=False, init=False)
    """Whether something was left out."""

    def brackets(self, ranks: RankSet) -> str:
        """Return a rank set as it is shown here."""
        if self.whole:
            return brackets(ranks)
        text = shortened(ranks, _RANKS_WIDTH if self.width else _RANKS_WIDTH_IN_LOG)
        self.is_shortened = self.is_shortened or "…" in text
        return text

    def mark(self, ranks: RankSet) -> str:
        """Return what is put behind a line of *ranks*: the number of their class, if they are one.

        Nothing where there is only one class, and in ``expand``, whose answer is not the one
        that the numbers stand for.
        """
        if self.whole or len(self.classes) < 2:
            return ""
        for number, each in enumerate(self.classes, 1):
            if each == ranks:
                return f"  @{number}"
        return ""

    def fit(self, line: str, tail: str = "") -> str:
        """Return *line* with *tail*, cut before it where the terminal ends."""
        if not self.width or self.whole or len(line) + len(tail) <= self.width:
            return line + tail
        self.is_shortened = True
        return f"{line[: max(1, self.width - len(tail) - 1)]}…{tail}"

    def column(self, sets: Sequence[RankSet]) -> int:
        """Return the width of the column of some rank sets; very long ones stick out."""
        widths = [len(self.brackets(ranks)) for ranks in sets]
        return min(max(widths, default=0), _RANKS_WIDTH + 2)

    def lines(self, rows: Sequence[Row]) -> list[str]:
        """Return rows as lines, what was said in one column."""
        column = self.column([ranks for ranks, _ in rows if ranks is not None])
        lines: list[str] = []
        for ranks, text in rows:
            first, *rest = text.split("\n")
            if ranks is None:
                lines += (self.fit(line) for line in (first, *rest))
                continue
            start = f"{self.brackets(ranks):<{column}} "
            lines.append(self.fit(start + first, self.mark(ranks)))
            lines += (self.fit(" " * len(start) + line) for line in rest)
        return lines


def table(rows: Sequence[tuple[str, str]], layout: Layout) -> list[str]:
    """Return rows of two columns as lines; a left cell that is very long widens no other row."""
    # A set that is very long must not push all others to the right.
    width = max((len(left) for left, _ in rows if len(left) <= _TABLE_COLUMN), default=0)
    lines = []
    for left, text in rows:
        first, *rest = text.split("\n")
        lines.append(f"{left:<{width}} {first}".strip() if not left else f"{left:<{width}} {first}")
        lines += [f"{'':<{width}} {line}" for line in rest]
    return [layout.fit(line) for line in lines]
