"""Explanations as text: the verdict first, then the evidence, and the graph by classes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.ranks import RankSet

MOST_LINES = 12
"""Most lines of evidence, and of the graph, without --all."""
_MOST_ALL = 1000
_LEAST_WIDTH = 40
_INDENT = "  "


def text(found: Explanation, ranks: RankSet, *, width: int = 0, full: bool = False) -> str:
    """Return an explanation; of the verdicts those in which some of *ranks* have a part.

    With *full*, all calls, the rules and the whole graph are shown.
    """
    lines: list[str] = []
    shown = [each for each in found.verdicts if not ranks.isdisjoint(each.ranks | each.victims)]
    for each in shown:
        lines += _verdict(each, width, full=full)
    if not shown:
        lines.append(_sentence(found.summary or _others(found.verdicts, ranks)))
    steps = [each.decides for each in shown]
    notes = [each for each in found.notes if not any(each in step for step in steps)]
    lines += _limited(notes, _MOST_ALL if full else MOST_LINES)
    if full:
        lines.append("calls:")
        waits = [each for each in found.waits if not each.ranks.isdisjoint(ranks)]
        lines += _limited(words.evidence(waits), _MOST_ALL)
    drawn = full or bool(shown)
    graph = list(_edges(found, found.edges, ranks)) if drawn else []
    if graph:
        lines.append("the graph, by classes of ranks:")
        lines += _limited(graph, _MOST_ALL if full else MOST_LINES)
    if not full and found.verdicts:
        lines.append("'why --all' shows all calls and the rules")
    return "\n".join(lines)


def _others(verdicts: Sequence[Verdict], ranks: RankSet) -> str:
    others = RankSet.union(each.ranks | each.victims for each in verdicts)
    return f"[{ranks}] have no part in a hang; [{others}] have"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _verdict(verdict: Verdict, width: int, *, full: bool) -> Iterator[str]:
    sentence = f"{_sentence(verdict.text)} ({verdict.confidence})"
    yield from textwrap.wrap(
        sentence,
        width if width >= _LEAST_WIDTH else 10**6,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from _limited(verdict.evidence, _MOST_ALL if full else MOST_LINES)
    if verdict.victims:
        waits = words.verb(verdict.victims, "waits")
        yield f"{_INDENT}{words.named(verdict.victims)} {waits} because of that"
    if full:
        yield f"{_INDENT}kind: {verdict.kind}; rule: {verdict.rule}"
    if verdict.decides:
        commands = " or ".join(f"'{each}'" for each in verdict.commands)
        yield f"{_INDENT}to decide: {verdict.decides}{f' ({commands})' if commands else ''}"


def _limited(lines: Iterable[str], most: int) -> Iterator[str]:
    listed = list(lines)
    for each in listed[:most]:
        yield _INDENT + each
    if len(listed) > most:
        yield f"{_INDENT}… and {len(listed) - most} more"


def _edges(found: Explanation, edges: Iterable[Edge], ranks: RankSet) -> Iterator[str]:
    """Yield a line for each edge: ``[2-3] ──MPI_Barrier──▶ [0-1]``."""
    merged: dict[tuple[int, str], list[RankSet]] = {}
    for each in edges:
        made = found.waits[each.waiter].call
        name = made.function if made is not None else ""
        merged.setdefault((each.waiter, name), []).append(each.ranks)
    for (waiter, name), targets in merged.items():
        own = found.waits[waiter].ranks
        target = RankSet.union(targets)
        if not ranks.isdisjoint(own | target):
            yield f"[{own}] ──{name}──▶ [{target}]"
