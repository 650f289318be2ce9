"""The report as one HTML file, readable without a network, on a phone, light and dark.

It has no script. Names of functions and output of ranks are hostile: the template engine escapes
every text, control characters are made visible, and the page forbids itself all that is not in it.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

from pgdb.controls import harmless
from pgdb.frontend.report.comparing import ReportComparison
from pgdb.frontend.report.forms.text import frame_text, ranks_text, time_text
from pgdb.frontend.report.model import (
    HostRanks,
    Part,
    RankClass,
    Report,
    ReportNode,
    parse_ranks,
)
from pgdb.ranks import RankSet

MOST_CELLS = 8192
"""Most ranks that have a cell of their own in the map of hosts; of more, ranks are in runs."""
MOST_RANKS_TEXT = 36
"""Longest text of a set of ranks that is shown whole."""
MOST_OPEN = 3
"""Number of classes that are unfolded at first."""
_COLOURS = 8
_HERE = Path(__file__).parent


class Step(Part, frozen=True, kw_only=True):
    """A step of the walk through the tree: the beginning of a node, or its end."""

    node: ReportNode
    is_begin: bool
    has_children: bool


class Cells(Part, frozen=True, kw_only=True):
    """Ranks side by side on one host, of one class: one rank where there are few."""

    ranks: str
    pid: int | None
    group: int
    """Number of the class; 0 for ranks without a stack."""
    state: str
    is_failed: bool
    count: int


class HostRow(Part, frozen=True, kw_only=True):
    """A host with its ranks."""

    host: str
    ranks: str
    count: int
    cells: tuple[Cells, ...]


def render(report: Report) -> str:
    """Return the page of a report."""
    failed = RankSet.union(parse_ranks(each.ranks) for each in report.stops if each.is_error)
    return _template("report.html.j2").render(
        report=report,
        steps=tuple(_walk(report.tree)),
        hosts=tuple(_host(each, report, failed) for each in report.hosts),
        failed=failed,
        failed_outputs={
            each.ranks
            for each in report.output
            if each.ranks and not failed.isdisjoint(parse_ranks(each.ranks))
        },
        most_open=MOST_OPEN,
        count=len(report.rank_set),
        begin=report.timeline[0].time if report.timeline else report.time,
        classes_failed={
            each.number for each in report.classes if not failed.isdisjoint(parse_ranks(each.ranks))
        },
    )


def in_frame(report: Report) -> str:
    """Return the page of a report as a frame for a notebook, which gives it no rights."""
    page = html.escape(render(report))
    style = "width:100%;height:36rem;border:1px solid #888"
    return f'<iframe sandbox srcdoc="{page}" style="{style}"></iframe>'


def compared(found: ReportComparison) -> str:
    """Return the page of a comparison of two reports."""
    return _template("comparison.html.j2").render(found=found)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    functions: dict[str, Callable[..., Any]] = {
        "ranks_text": ranks_text,
        "time_text": time_text,
        "frame_text": frame_text,
        "short_ranks": short_ranks,
        "shows_range": lambda variable: (
            not variable.places or any(place.more for place in variable.places)
        ),
        "level": _level,
        "colour": colour,
        "style": lambda: (_HERE / "report.css").read_text(encoding="utf-8"),
    }
    environment.globals.update(functions)
    return environment


def _template(name: str) -> jinja2.Template:
    return _environment().get_template(name)


def _visible(value: object) -> object:
    """Return a text with its control characters made visible."""
    # Markup is of the template itself; its contents have been here.
    return harmless(value) if type(value) is str else value


def colour(group: int) -> str:
    """Return the style of a class of ranks by its number."""
    return f"g{(group - 1) % _COLOURS + 1}" if group else "g0"


def short_ranks(text: str) -> str:
    """Return a set of ranks in words, cut if it is long.

    >>> short_ranks("0-3"), short_ranks(",".join(map(str, range(0, 99, 7))))
    ('ranks 0-3', '15 ranks: 0,7,14,21,28,35…')
    """
    if len(text) <= MOST_RANKS_TEXT:
        return ranks_text(text)
    shown = text[: MOST_RANKS_TEXT - 18].rpartition(",")[0]
    return f"{len(parse_ranks(text))} ranks: {shown}…"


def _level(each: RankClass, at: int) -> str:
    hidden = int(each.hidden) if each.hidden.isdecimal() and len(each.hidden) < 10 else 0
    return "#*" if each.hidden and not each.hidden.isdecimal() else f"#{at + hidden}"


def _walk(nodes: Sequence[ReportNode]) -> Iterator[Step]:
    """Yield the beginning and the end of each node, children between them."""
    children: dict[int, list[ReportNode]] = {}
    for each in nodes:
        children.setdefault(each.parent, []).append(each)
    waiting = [(each, True) for each in reversed(children.get(0, ()))]
    while waiting:
        node, is_begin = waiting.pop()
        below = children.get(node.number, [])
        yield Step(node=node, is_begin=is_begin, has_children=bool(below))
        if is_begin:
            waiting.append((node, False))
            waiting += [(each, True) for each in reversed(below)]


def _host(host: HostRanks, report: Report, failed: RankSet) -> HostRow:
    ranks = parse_ranks(host.ranks)
    pids = dict(zip(ranks, host.pids, strict=False))
    groups = [(each.number, parse_ranks(each.ranks)) for each in report.classes]
    states = report.states
    named = [
        (name, parse_ranks(text))
        for name, text in (
            ("exited", states.exited),
            ("lost", states.lost),
            ("detached", states.detached),
            ("running", states.running),
            ("stopped", states.stopped),
        )
    ]
    group_of = {rank: number for number, some in groups for rank in some & ranks}
    state_of = {rank: name for name, some in reversed(named) for rank in some & ranks}
    keys = [(group_of.get(rank, 0), state_of.get(rank, ""), rank in failed) for rank in ranks]
    cells = []
    if len(report.rank_set) <= MOST_CELLS:
        for rank, (group, state, is_failed) in zip(ranks, keys, strict=True):
            cells.append(
                Cells(
                    ranks=str(rank),
                    pid=pids.get(rank),
                    group=group,
                    state=state,
                    is_failed=is_failed,
                    count=1,
                )
            )
    else:
        members: dict[tuple[int, str, bool], list[int]] = {}
        for rank, key in zip(ranks, keys, strict=True):
            members.setdefault(key, []).append(rank)
        for (group, state, is_failed), some in members.items():
            cells.append(
                Cells(
                    ranks=str(RankSet(some)),
                    pid=None,
                    group=group,
                    state=state,
                    is_failed=is_failed,
                    count=len(some),
                )
            )
    return HostRow(host=host.host, ranks=host.ranks, count=len(ranks), cells=tuple(cells))
