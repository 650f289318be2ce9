"""The progress of ranks as text: one line for each class, one letter for each sample. No I/O."""

from __future__ import annotations

from pgdb.frontend.analysis.progress import SYMBOLS, Progress, Row
from pgdb.frontend.show.text import mpi_call_text
from pgdb.ranks import RankSet

_MOST_ROWS = 20
_LEAST = 40
"""Characters of the last place that are shown in any case."""


def text(found: Progress, *, width: int, full: bool = False) -> str:
    """Return the rows, the meanings of their letters, and the ranks that fall behind."""
    rows = found.rows if full else found.rows[:_MOST_ROWS]
    names = [f"[{each.ranks}]" for each in rows]
    indent = max(map(len, names), default=0)
    lines = []
    for name, row in zip(names, rows, strict=True):
        head = f"{name:{indent}}  {row.symbols}  "
        last = _last(row)
        room = max(_LEAST, width - len(head)) if width else len(last)
        lines.append(head + (last if len(last) <= room else f"{last[: room - 1]}…"))
    if left := found.rows[len(rows) :]:
        ranks = RankSet.union(each.ranks for each in left)
        lines.append(f"and {len(left)} more rows of [{ranks}]; 'progress --all' shows them")
    letters = sorted({letter for row in found.rows for letter in row.symbols})
    meanings = [f"{letter} {SYMBOLS[letter]}" for letter in letters if letter in SYMBOLS]
    lines += ["; ".join(meanings), _conclusion(found)]
    return "\n".join(lines)


def _last(row: Row) -> str:
    """Return the last place of some ranks in short."""
    if row.last is None:
        return ""
    call = row.last.call
    if call is None:
        return mpi_call_text.status(row.last)
    return call.function + mpi_call_text.place(row.last.where)


def _conclusion(found: Progress) -> str:
    seconds = f"{found.times_s[-1]:.3g} s" if found.times_s else "0 s"
    source = " from the recorder" if found.recorded else ""
    seen = f"{len(found.times_s)} samples{source} in {seconds}"
    if found.behind:
        return f"[{found.behind}] may be behind: outside MPI, while all others wait ({seen})"
    if found.stands_still:
        return f"no rank left its call of MPI ({seen}); 'why' explains for whom they wait"
    return seen
