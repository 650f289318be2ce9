"""``info display`` of many ranks as one table, by the job-wide numbers of displays."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.text_parts import Said
from pgdb.frontend.show.text.layout import Layout
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_HEADING = "Auto-display expressions now in effect:\nNum Enb Expression\n"
_NONE = "There are no auto-display expressions now."
_ROW = pattern(r"(?P<number>\d+):   [yn]  ")


def display_table(texts: Sequence[Said], layout: Layout) -> list[str] | None:
    """Return the lines of merged lists of displays; None if a text is none, or all are equal.

    A row that not all ranks have ends with its ranks, as in ``info breakpoints``.
    """
    if len(texts) < 2:
        return None
    rows: dict[tuple[int, str], RankSet] = {}
    for each in texts:
        text = each.text.rstrip("\n")
        if text == _NONE:
            continue
        if each.slots or not text.startswith(_HEADING):
            return None
        for row in _rows(text.removeprefix(_HEADING)):
            match = _ROW.match(row)
            if match is None:
                return None
            key = (int(match["number"]), row)
            rows[key] = rows.get(key, RankSet()) | each.ranks
    if not rows:
        return None
    ranks = RankSet.union(each.ranks for each in texts)
    lines = [layout.brackets(ranks), *_HEADING.rstrip("\n").split("\n")]
    for (_, row), here in sorted(rows.items(), key=lambda item: item[0]):
        of_ranks = "" if here == ranks else f"  {layout.brackets(here)}"
        lines += map(layout.fit, f"{row}{of_ranks}".split("\n"))
    return lines


def _rows(text: str) -> list[str]:
    """Return the rows of a list; an expression of several lines is one row."""
    rows: list[str] = []
    for line in text.split("\n"):
        if _ROW.match(line) or not rows:
            rows.append(line)
        else:
            rows[-1] += f"\n{line}"
    return rows
