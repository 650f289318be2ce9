"""Results as HTML for notebooks, and as text for ``print``.

Every text is escaped, and control characters are made visible: names and values are the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from pgdb.controls import harmless
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.calltree import CallTree, label
from pgdb.frontend.analysis.calltree_text import lines_text
from pgdb.frontend.analysis.comparing import Comparison
from pgdb.frontend.analysis.outliers import is_outlier
from pgdb.frontend.analysis.trace_tables import TraceTable
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.show.text import comparison_text, render, trace_text, why_text
from pgdb.frontend.show.text.statistics_text import statistics
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value, Various

MOST_ROWS = 200
"""Most rows of a table."""
MOST_RANKS_TEXT = 40
"""Longest text of a set of ranks that is shown whole."""
_STYLE = (
    "<style>.pgdb td,.pgdb th{text-align:left!important;vertical-align:top}"
    ".pgdb pre{margin:0;background:none;white-space:pre-wrap}"
    ".pgdb .odd td{font-weight:600;background:rgba(255,180,0,.18)}"
    ".pgdb .bad td{background:rgba(220,50,50,.14)}"
    ".pgdb details{margin-left:1em}.pgdb .leaf{margin-left:2em}"
    ".pgdb .ranks{opacity:.7}</style>"
)


def html(shown: object) -> str:
    """Return a result as HTML.

    :raises TypeError: if there is no presentation for it.
    """
    match shown:
        case Answer():
            body = "".join(_answer(shown))
        case CallTree():
            body = "".join(_tree(shown))
        case Comparison():
            body = "".join(_comparison(shown))
        case Check() | TraceTable() | Explanation():
            body = _pre(text(shown))
        case _:
            raise TypeError(f"{type(shown).__name__} has no presentation for notebooks")
    return f'{_STYLE}<div class="pgdb">{body}</div>'


def text(shown: object) -> str:
    """Return a result as text for people.

    :raises TypeError: if there is no presentation for it.
    """
    match shown:
        case Answer() if shown.command.startswith("stat "):
            return harmless(_statistics(shown))
        case Answer():
            return harmless(render.answer(shown, has_sets=False))
        case Comparison():
            return harmless(
                comparison_text.comparison(shown, "values", before="before", after="after")
            )
        case Check():
            return harmless(comparison_text.check(shown))
        case TraceTable():
            return harmless(trace_text.table_text(shown))
        case Explanation():
            ranks = RankSet.union(each.ranks for each in shown.waits)
            return harmless(why_text.text(shown, ranks))
        case _:
            raise TypeError(f"{type(shown).__name__} has no text for people")


def _statistics(answer: Answer) -> str:
    each = next((each for each in answer.classes if each.columns), None)
    column, ranks = (each.columns[0], each.ranks) if each is not None else (None, RankSet())
    return statistics(answer.command.partition(" ")[2], column, ranks, answer)


def _answer(answer: Answer) -> Iterator[str]:
    yield f"<p><code>{_safe(answer.command)}</code> {_ranks(answer.ranks)}</p>"
    is_summed = any(isinstance(each.record, Various) for each in answer.classes)
    if is_summed or answer.command.startswith("stat "):
        yield _pre(text(answer))
        return
    sizes = [len(each.ranks) for each in answer.classes]
    rows = []
    for each in answer.classes[:MOST_ROWS]:
        record: Record = each.filled
        shown = record.text if isinstance(record, Value) else render.record(each, answer.command)
        kind = "odd" if len(sizes) > 1 and is_outlier(len(each.ranks), sizes) else ""
        rows.append(("bad" if isinstance(record, Failure) else kind, each.ranks, shown))
    yield _table(("ranks", "answer"), rows)
    yield _more(len(answer.classes))
    yield from _missing(answer.missing)


def _missing(missing: Missing) -> Iterator[str]:
    for ranks, why in (
        (missing.late, "have not answered in time"),
        (missing.lost, "are lost, or have ended"),
        (missing.running, "still run"),
        (missing.held, "are held"),
    ):
        if ranks:
            yield f"<p>{_ranks(ranks)} {why}</p>"


def _tree(tree: CallTree) -> Iterator[str]:
    children = tree.children()
    odd = tree.odd
    waiting: list[tuple[int, bool]] = [(number, True) for number in reversed(children[0])]
    while waiting:
        number, is_begin = waiting.pop()
        if not is_begin:
            yield "</details>"
            continue
        node = tree[number]
        names = " › ".join(map(label, node.frames)) or "(here)"
        place = f" at {lines_text(node.sources)}" if node.sources and tree.by == "function" else ""
        mark = " <b>← fewest ranks</b>" if odd is not None and odd.number == number else ""
        line = f"<code>{_safe(names + place)}</code> {_ranks(node.ranks)}{mark}"
        if children[number]:
            yield f"<details open><summary>{line}</summary>"
            waiting.append((number, False))
            waiting += [(each, True) for each in reversed(children[number])]
        else:
            yield f'<div class="leaf">{line}</div>'
    for message, ranks in tree.failures.items():
        yield f"<p>{_ranks(ranks)} {_safe(message)}</p>"
    yield from _missing(tree.missing)


def _comparison(found: Comparison) -> Iterator[str]:
    if found.same or not found.differences:
        yield _pre(text(found))
        return
    if found.equal:
        yield f"<p>{_ranks(found.equal)} equal</p>"
    rows: list[tuple[str, RankSet, str, str, str]] = []
    for each in found.differences:
        for part in each.parts:
            rows.append(("", each.ranks, part.path, part.before, part.after))
        if not each.parts:
            before, after = (
                render.record(EquivalenceClass(ranks=each.ranks, record=record))
                for record in (each.before, each.after)
            )
            rows.append(("", each.ranks, "", before, after))
    yield _table(("ranks", "place", "before", "after"), rows[:MOST_ROWS])
    yield _more(len(rows))
    for left in found.left_out:
        yield f"<p>{_ranks(left.ranks)} left out: {_safe(left.why)}</p>"


def _table(heads: Sequence[str], rows: Iterable[tuple[str, RankSet, *tuple[str, ...]]]) -> str:
    parts = ["<table><thead><tr>", *(f"<th>{each}</th>" for each in heads), "</tr></thead><tbody>"]
    for kind, ranks, *cells in rows:
        parts.append(f'<tr class="{kind}"><td>{_ranks(ranks)}</td>')
        parts += [f"<td>{_pre(each)}</td>" for each in cells]
        parts.append("</tr>")
    return "".join((*parts, "</tbody></table>"))


def _more(count: int) -> str:
    return f"<p>{count - MOST_ROWS} more</p>" if count > MOST_ROWS else ""


def _ranks(ranks: RankSet) -> str:
    whole = str(ranks)
    if len(whole) <= MOST_RANKS_TEXT:
        return f'<span class="ranks">[{whole}]</span>'
    cut = whole[: MOST_RANKS_TEXT - 10].rpartition(",")[0]
    return f'<span class="ranks" title="{whole}">[{cut},…] ({len(ranks)})</span>'


def _pre(value: str) -> str:
    return f"<pre>{_safe(value)}</pre>"


def _safe(value: str) -> str:
    return escape(harmless(value))
