"""The wait-for graph as a file: DOT, SVG, HTML. Every name from the program is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from pgdb.errors import CommandError
from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.system.user_files import replace_file
from pgdb.frontend.system.workers import with_file
from pgdb.ranks import RankSet

Format = Literal["dot", "svg", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)
MOST_DRAWN = 60
"""Most parties in a picture; the others are counted."""

# Sizes of a picture, in pixels.
_BOX_WIDTH = 230
_BOX_HEIGHT = 48
_MARGIN = 30
_FONT = 12
_LABEL = 32
_COLOURS = {"cause": "#f6c7c2", "victim": "#fbe9c0", "": "#e6ebf0"}


async def write(found: Explanation, kind: Format, path: Path, *, title: str = "") -> None:
    """Write the graph to a file; an existing file is replaced.

    :raises CommandError: if the file cannot be written.
    """
    match kind:
        case "dot":
            text = dot(found)
        case "svg":
            text = svg(found)
        case "html":
            text = page(found, title)
    data = text.encode("utf-8", "replace")
    try:
        await with_file(path, lambda: replace_file(path, lambda file: file.write(data)))
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error}") from None


def dot(found: Explanation) -> str:
    """Return the graph in the language of Graphviz."""
    lines = ["digraph why {", "  node [shape=box, style=filled, fontname=sans];"]
    for number in _drawn(found):
        label = "\\n".join(_quoted(each) for each in _label(found, number))
        colour = _COLOURS[_role(found, found.waits[number].ranks)]
        lines.append(f'  n{number} [label="{label}", fillcolor="{colour}"];')
    for waiter, target in _arrows(found):
        lines.append(f"  n{waiter} -> n{target};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def svg(found: Explanation) -> str:
    """Return the graph as a picture, with the parties on an ellipse."""
    numbers = _drawn(found)
    count = max(len(numbers), 1)
    radius_x = max(_BOX_WIDTH, count * _BOX_WIDTH / (1.3 * math.pi))
    radius_y = max(2 * _BOX_HEIGHT, count * _BOX_HEIGHT / 2.2)
    middle_x = radius_x + _BOX_WIDTH / 2 + _MARGIN
    middle_y = radius_y + _BOX_HEIGHT / 2 + _MARGIN
    places = {
        number: (
            middle_x + radius_x * math.sin(2 * math.pi * index / count),
            middle_y - radius_y * math.cos(2 * math.pi * index / count),
        )
        for index, number in enumerate(numbers)
    }
    width, height = round(2 * middle_x), round(2 * middle_y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="{_FONT}" '
        'role="img" aria-label="wait-for graph">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
    ]
    for waiter, target in _arrows(found):
        if waiter == target:
            continue
        begin = _edge(places[waiter], places[target])
        end = _edge(places[target], places[waiter])
        lines.append(
            f'<line x1="{begin[0]:.0f}" y1="{begin[1]:.0f}" x2="{end[0]:.0f}" y2="{end[1]:.0f}" '
            'stroke="#555" marker-end="url(#tip)"/>'
        )
    for number, (x, y) in places.items():
        party = found.waits[number]
        first, second = _label(found, number)
        colour = _COLOURS[_role(found, party.ranks)]
        lines += [
            f"<g><title>{html.escape(f'[{party.ranks}] {words.states(party)}')}</title>",
            f'<rect x="{x - _BOX_WIDTH / 2:.0f}" y="{y - _BOX_HEIGHT / 2:.0f}" rx="5" '
            f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" fill="{colour}" stroke="#555"/>',
            f'<text x="{x:.0f}" y="{y - 5:.0f}" text-anchor="middle" fill="#222">'
            f"{html.escape(first)}</text>",
            f'<text x="{x:.0f}" y="{y + 13:.0f}" text-anchor="middle" fill="#222">'
            f"{html.escape(second)}</text></g>",
        ]
    left_out = len(found.waits) - len(numbers)
    if left_out > 0:
        lines.append(
            f'<text x="{_MARGIN}" y="{height - 8}">and {left_out} more classes of ranks</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def _edge(place: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return the point at which the line between the middles of two boxes leaves the first."""
    across, down = other[0] - place[0], other[1] - place[1]
    scale = min(
        _BOX_WIDTH / 2 / abs(across) if across else math.inf,
        _BOX_HEIGHT / 2 / abs(down) if down else math.inf,
    )
    # Arrows in both directions are two lines.
    length = math.hypot(across, down)
    shift = 4 / length if length else 0.0
    return (place[0] + across * scale - down * shift, place[1] + down * scale + across * shift)


def page(found: Explanation, title: str = "") -> str:
    """Return a page with the verdicts, the picture and all calls."""
    heading = html.escape(title or "why")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>',
        "<style>body{font-family:sans-serif;margin:2em;max-width:70em}svg{max-width:100%;"
        "height:auto;background:#fff}td{padding:.2em .8em .2em 0;vertical-align:top}"
        "@media(prefers-color-scheme:dark){body{background:#1c1f22;color:#ddd}}</style></head>",
        f"<body><h1>{heading}</h1>",
    ]
    for each in found.verdicts:
        parts.append(
            f"<h2>{html.escape(each.text)}</h2><p>{html.escape(each.confidence)}; "
            f"{html.escape(each.rule)}</p>"
        )
    if not found.verdicts:
        parts.append(f"<p>{html.escape(found.summary)}</p>")
    parts += [svg(found), "<table>"]
    parts += [
        f"<tr><td>[{each.ranks}]</td><td>{html.escape(words.states(each))}</td></tr>"
        for each in found.waits
    ]
    return "\n".join([*parts, "</table></body></html>", ""])


def _drawn(found: Explanation) -> list[int]:
    """Return the parties in the picture: those with a part in the graph, verdicts first."""
    ends = {each.waiter for each in found.edges} | {each.target for each in found.edges}
    numbers = sorted(ends) or list(range(len(found.waits)))
    rank = {"cause": 0, "victim": 1, "": 2}
    numbers.sort(key=lambda number: rank[_role(found, found.waits[number].ranks)])
    return sorted(numbers[:MOST_DRAWN])


def _arrows(found: Explanation) -> Iterator[tuple[int, int]]:
    drawn = {*_drawn(found)}
    pairs = {(each.waiter, each.target) for each in found.edges}
    return (pair for pair in sorted(pairs) if drawn.issuperset(pair))


def _role(found: Explanation, ranks: RankSet) -> str:
    if any(not ranks.isdisjoint(each.ranks) for each in found.verdicts):
        return "cause"
    return "victim" if any(not ranks.isdisjoint(each.victims) for each in found.verdicts) else ""


def _label(found: Explanation, number: int) -> tuple[str, str]:
    party = found.waits[number]
    made = party.call
    first = f"[{party.ranks}] {made.function if made is not None else party.absence}".rstrip()
    second = words.place(party.status.where) or party.text or party.status.state
    return _cut(first), _cut(second)


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"
