"""``info threads`` of many ranks as one table, and ``thread N`` with the frames of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.prominence import most_prominent_first
from pgdb.frontend.analysis.text_parts import Said
from pgdb.frontend.analysis.thread_lists import ThreadRow, merge_thread_lists
from pgdb.frontend.analysis.thread_switches import Common, merge_thread_switches
from pgdb.frontend.show.text.layout import MOST_CLASSES, SHOWN_OF_MANY, Layout
from pgdb.frontend.show.text.value_text import place_rows, rate_place
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


def thread_switch(texts: Sequence[Said], layout: Layout) -> list[str] | None:
    """Return the lines of the threads that ranks have selected; None for other texts."""
    merged = merge_thread_switches(texts)
    if merged is None:
        return None
    ranks = merged.heading.ranks
    lines = [layout.brackets(ranks), *map(layout.fit, merged.heading.text.split("\n"))]
    lines += _places(merged.heading, layout)
    # Frames are in the order of their number of ranks.
    frames, left = merged.frames, merged.frames[:0]
    if len(frames) > MOST_CLASSES:
        left = frames[SHOWN_OF_MANY:-SHOWN_OF_MANY]
        frames = (*frames[:SHOWN_OF_MANY], *frames[-SHOWN_OF_MANY:])
    column = layout.column([each.ranks for each in frames])
    for each in frames:
        frame, *source = each.text.split("\n")
        if each.ranks == ranks:
            lines.append(layout.fit(frame))  # the first line names the ranks
        else:
            start = f"{layout.brackets(each.ranks):<{column}} "
            lines.append(layout.fit(start + frame, layout.mark(each.ranks)))
        lines += map(layout.fit, source)
        lines += _places(each, layout)
    if left:
        count = sum(len(each.ranks) for each in left)
        lines.append(layout.folded(f"{len(left)} more places", count))
    return lines


def _places(common: Common, layout: Layout) -> list[str]:
    places = most_prominent_first(common.places, rate_place)
    return layout.lines(place_rows(common.ranks, places, layout))
