"""``info proc mappings`` of many ranks as one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdb.frontend.analysis.mapping_lists import MappingRow, merge_mapping_lists
from pgdb.frontend.analysis.text_parts import Said
from pgdb.frontend.show.text.layout import Layout
from pgdb.ranks import RankSet

_HEAD = ("Size", "Offset", "Perms", "File")
_ADDRESSES = "(addresses differ: 'proc N info proc mappings' shows those of a rank)"


def mapping_table(
    texts: Sequence[Said], layout: Layout, merged: Callable[[Sequence[Said]], list[str]]
) -> list[str] | None:
    """Return the lines of merged memory maps; None if a text has none.

    *merged* returns the lines of the texts before the maps and behind them.
    """
    found = merge_mapping_lists(texts) if len(texts) > 1 else None
    if found is None:
        return None
    all_ranks = RankSet.union(each.ranks for each in texts)
    cells = [_HEAD, *(_cells(each) for each in found.rows)]
    widths = [max(len(each[at]) for each in cells) for at in range(len(_HEAD) - 1)]
    lines = [
        f"{size:>{widths[0]}}  {offset:>{widths[1]}}  {permissions:<{widths[2]}}  {file}"
        for size, offset, permissions, file in cells
    ]
    column = layout.column([each.ranks for each in found.rows])
    is_same = all(each.ranks == all_ranks for each in found.rows)
    table = [layout.fit(lines[0] if is_same else f"{'':<{column}} {lines[0]}")]
    for row, line in zip(found.rows, lines[1:], strict=True):
        start = "" if is_same else f"{layout.brackets(row.ranks):<{column}} "
        table.append(layout.fit(f"{start}{line}".rstrip(), layout.mark(row.ranks)))
    behind = merged(found.after) if any(each.text for each in found.after) else []
    return [*merged(found.before), *table, _ADDRESSES, *behind]


def _cells(row: MappingRow) -> tuple[str, str, str, str]:
    mapping = row.mapping
    file = mapping.file or "(no file)"
    if row.count > 1:
        file = f"{file} ({row.count} times)"
    return mapping.size, mapping.offset, mapping.permissions, file
