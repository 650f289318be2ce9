"""``info threads`` of many ranks as one table."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.text_parts import Said
from pgdb.frontend.analysis.thread_lists import ThreadRow, merge_thread_lists
from pgdb.frontend.show.text.layout import Layout
from pgdb.ranks import RankSet


def thread_table(texts: Sequence[Said], layout: Layout) -> list[str] | None:
    """Return the lines of merged lists of threads; None if a text is no such list."""
    rows = merge_thread_lists(texts)
    if not rows:
        return None
    all_ranks = RankSet.union(each.ranks for each in texts)
    numbers = max(2, *(len(row.number) for row in rows))
    targets = max(len("Target Id"), *(len(row.target) for row in rows))
    lines = [f"  {'Id':<{numbers}}  {'Target Id':<{targets}}  Frame"]
    lines += [
        f"{'*' if row.is_current else ' '} {row.number:<{numbers}}  {row.target:<{targets}}  "
        f"{row.frame}"
        for row in rows
    ]
    if all(row.ranks == all_ranks for row in rows):
        return [layout.brackets(all_ranks), *(layout.fit(line) for line in lines)]
    return _with_ranks(rows, lines, layout)


def _with_ranks(rows: Sequence[ThreadRow], lines: Sequence[str], layout: Layout) -> list[str]:
    column = layout.column([row.ranks for row in rows])
    found = [layout.fit(f"{'':<{column}} {lines[0]}")]
    for row, line in zip(rows, lines[1:], strict=True):
        start = f"{layout.brackets(row.ranks):<{column}} "
        found.append(layout.fit(start + line, layout.mark(row.ranks)))
    return found
