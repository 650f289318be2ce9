"""Width of an answer: shortened rank sets, cut lines, class numbers.

A layout belongs to one answer. It records whether anything was left out, so that the answer can
name the command that shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdb.print_options import base_of
from pgdb.ranks import RankSet

HANDFUL = 8
"""Maximum number of different values that are listed with their ranks; more are summarized."""
MOST_CLASSES = 12
"""Maximum number of classes that are all shown; of more, the largest and the smallest are shown."""
SHOWN_OF_MANY = 4
"""Number of largest and number of smallest classes that are shown of many."""
DIFFERS = "<-- differs"
"""Mark of the few ranks that differ from most."""

PLACES_OF_PAGE = 200
"""Maximum number of places that ``expand`` lists at once."""

_RANKS_WIDTH = 30
_RANKS_WIDTH_IN_LOG = 200

_TABLE_COLUMN = 24

Row = tuple[RankSet | None, str]
"""Ranks and their text; a row without ranks is a line of its own."""


def brackets(ranks: RankSet) -> str:
    """Return a rank set in brackets: ``[0-3,8]``."""
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
    """The layout of one answer."""

    width: int = 0
    """Columns of the terminal; 0 for no limit."""
    whole: bool = False
    """Whether nothing is left out, for ``expand``."""
    classes: Sequence[RankSet] = ()
    """Rank sets of @1, @2 …."""
    base: str = ""
    """GDB's format letter of numbers that are not decimal: x, z, o or t; else empty."""
    first_place: int = 1
    """Number of the first place that ``expand`` lists, of all places of the answer."""
    place_count: int = field(default=0, init=False)
    """Number of places so far, listed or not; only with *whole*."""
    is_shortened: bool = field(default=False, init=False)
    """Whether anything was left out."""

    @property
    def digits_base(self) -> int:
        """Base of numbers whose digits do not show it: 2, 8 or else 0."""
        return base_of(self.base)

    def is_on_page(self) -> bool:
        """Count a place; return whether it is listed."""
        self.place_count += 1
        return 0 <= self.place_count - self.first_place < PLACES_OF_PAGE

    def brackets(self, ranks: RankSet) -> str:
        """Return a rank set in brackets, shortened for this layout."""
        if self.whole:
            return brackets(ranks)
        text = shortened(ranks, _RANKS_WIDTH if self.width else _RANKS_WIDTH_IN_LOG)
        self.is_shortened = self.is_shortened or "…" in text
        return text

    def mark(self, ranks: RankSet) -> str:
        """Return the mark behind a line of *ranks*: the number of their class, or nothing.

        An answer of one class has no marks. The output of ``expand`` has none either, since the
        numbers belong to the last answer.
        """
        if self.whole or len(self.classes) < 2:
            return ""
        for number, each in enumerate(self.classes, 1):
            if each == ranks:
                return f"  @{number}"
        return ""

    def folded(self, what: str, count: int) -> str:
        """Return the line in place of rows that are left out, with the number of their ranks."""
        self.is_shortened = True
        return f"({what} with {count} ranks are folded)"

    def fit(self, line: str, tail: str = "") -> str:
        """Return *line* with *tail*; only the line is cut at the width of the terminal."""
        if not self.width or self.whole or len(line) + len(tail) <= self.width:
            return line + tail
        self.is_shortened = True
        return f"{line[: max(1, self.width - len(tail) - 1)]}…{tail}"

    def column(self, sets: Sequence[RankSet]) -> int:
        """Return the width of a column of rank sets; very long sets exceed it."""
        widths = [len(self.brackets(ranks)) for ranks in sets]
        return min(max(widths, default=0), _RANKS_WIDTH + 2)

    def lines(self, rows: Sequence[Row]) -> list[str]:
        """Return rows as lines, with all texts in one column."""
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
    """Return rows of two columns as lines."""
    # A very long set must not widen the column of all others.
    width = max((len(left) for left, _ in rows if len(left) <= _TABLE_COLUMN), default=0)
    lines = []
    for left, text in rows:
        first, *rest = text.split("\n")
        lines.append(f"{left:<{width}} {first}".strip() if not left else f"{left:<{width}} {first}")
        lines += [f"{'':<{width}} {line}" for line in rest]
    return [layout.fit(line) for line in lines]
