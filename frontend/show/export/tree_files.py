"""A merged call tree as a file: DOT, JSON, SVG, PNG, HTML.

Graphviz draws SVG and PNG if its ``dot`` is installed; otherwise this module draws SVG. Every name
from the program is escaped. No function recurses, since call stacks can be deeper than Python's.
"""

from __future__ import annotations

import asyncio
import colorsys
import html
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.analysis import calltree_text
from pgdb.frontend.analysis.call_paths import Node
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.system.subprocesses import Program
from pgdb.frontend.system.user_files import in_place_of, reason
from pgdb.frontend.system.workers import with_file

Format = Literal["dot", "json", "svg", "png", "html"]
FORMATS: tuple[Format, ...] = get_args(Format)

DOT_TIMEOUT_S = 60.0
"""Maximum run time of Graphviz, in seconds; a layout of thousands of nodes takes minutes."""
_RANKS_WIDTH = 40
_LABEL_WIDTH = 60

# Sizes of the SVG of this module, in pixels.
_FONT_PX = 12
_CHARACTER_PX = 7.3
_ROW_PX = 46
_BOX_PX = 22
_GAP_PX = 70


async def write(tree: CallTree, kind: Format, path: Path, *, title: str = "") -> None:
    """Write a tree to a file; an existing file is replaced.

    :raises CommandError: if the file cannot be written, if Graphviz fails, or if Graphviz is not
        installed and the format is PNG; the message names the alternatives.
    """
    match kind:
        case "dot":
            data = dot(tree).encode("utf-8", "replace")
        case "json":
            data = json_text(tree, title, time.time()).encode("utf-8", "replace")
        case "html":
            data = page(tree, title).encode("utf-8", "replace")
        case "svg" if shutil.which("dot") is None:
            data = svg(tree).encode("utf-8", "replace")
        case "png" if shutil.which("dot") is None:
            raise CommandError(
                f"{path}: not written: PNG is drawn by Graphviz's 'dot', which is not installed; "
                "install graphviz, or write --svg or --html, which need nothing"
            )
        case "svg" | "png":
            data = await _drawn(tree, kind, path)
    try:
        # The file can be a named pipe without a reader.
        await with_file(path, lambda: _write(path, data))
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {reason(error)}") from None


def _write(path: Path, data: bytes) -> None:
    # A regular file is replaced as a whole; a pipe or a device is written to.
    if path.exists() and not (path.is_file() and os.access(path.parent, os.W_OK)):
        path.write_bytes(data)
        return
    with in_place_of(path, mode=0o666) as file:
        file.write(data)


def json_text(tree: CallTree, command: str, now_s: float) -> str:
    """Return the tree as a line of ``--json``, indented for people."""
    line = json_lines.encode(json_lines.tree(tree, command, now_s))
    return msgspec.json.format(line, indent=2) + "\n"


# -- DOT -----------------------------------------------------------------------------------------


def dot(tree: CallTree) -> str:
    """Return the tree in the language of Graphviz, with a colour for each class of ranks."""
    lines = [
        "digraph calltree {",
        '  node [shape=box, style=filled, fontname="sans-serif", fillcolor=white];',
        '  edge [fontname="sans-serif"];',
    ]
    colours = _colours(tree)
    for node in tree.nodes:
        text = [
            calltree_text.chain(calltree_text.node_labels(node), _LABEL_WIDTH),
            calltree_text.place(node),
        ]
        text.append(calltree_text.seen_text(node, tree))
        shown = "\\n".join(_quoted(each) for each in text if each)
        lines.append(
            f'  n{node.number} [label="{shown}", fillcolor="{colours.get(node.number, "white")}", '
            f'ranks="{node.ranks}", tooltip="{_quoted(calltree_text.node_label(node))}"];'
        )
        ranks = calltree_text.short_ranks(node.ranks, _RANKS_WIDTH)
        if node.parent:
            lines.append(f'  n{node.parent} -> n{node.number} [label="{ranks}"];')
        else:
            lines.append(f'  r{node.number} [shape=plaintext, style="", label="{ranks}"];')
            lines.append(f"  r{node.number} -> n{node.number};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """Return *text* escaped for quotes in DOT."""
    plain = _printable(text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _printable(text: str) -> str:
    """Return *text* with characters replaced that XML does not allow or that end a line."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


async def _drawn(tree: CallTree, kind: Format, path: Path) -> bytes:
    """Return the drawing by Graphviz."""
    program = await Program.start(
        "dot",
        f"-T{kind}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DOT_TIMEOUT_S):
            out, err = await program.communicate(dot(tree).encode("utf-8", "replace"))
    except TimeoutError:
        raise CommandError(
            f"{path}: dot has not drawn {len(tree.nodes)} nodes within {DOT_TIMEOUT_S:g} s; "
            "--html and --dot take no time"
        ) from None
    finally:
        await program.end()
    if program.returncode:
        said = err.decode("utf-8", "replace").strip().splitlines()
        raise CommandError(f"{path}: dot failed: {said[0] if said else program.returncode}")
    return out


# -- SVG -----------------------------------------------------------------------------------------


def svg(tree: CallTree) -> str:
    """Return the tree as a drawing: callers at the left, one row for each class of ranks."""
    depths = [0] * (len(tree.nodes) + 1)
    widths: list[float] = []
    shown = {}
    for node in tree.nodes:
        depths[node.number] = depth = depths[node.parent] + 1 if node.parent else 0
        text = calltree_text.chain(calltree_text.node_labels(node), _LABEL_WIDTH)
        place = calltree_text.place(node)
        ranks = calltree_text.short_ranks(node.ranks)
        below = "  ".join(part for part in (ranks, calltree_text.seen_text(node, tree)) if part)
        shown[node.number] = (f"{text}  {place}" if place else text, below)
        widths += [0.0] * (depth + 1 - len(widths))
        widths[depth] = max(widths[depth], *(len(t) * _CHARACTER_PX for t in shown[node.number]))
    lefts = [10.0]
    for width in widths:
        lefts.append(lefts[-1] + width + 16 + _GAP_PX)
    tops = _rows(tree)
    colours = _colours(tree)
    height = (sum(each.is_leaf for each in tree.nodes) or 1) * _ROW_PX + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{lefts[-1]:.0f}" height="{height}" '
        f'font-family="monospace" font-size="{_FONT_PX}">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for node in tree.nodes:
        left, top = lefts[depths[node.number]], tops[node.number]
        text, below = shown[node.number]
        width = len(text) * _CHARACTER_PX + 16
        if node.parent:
            start = lefts[depths[node.parent]] + len(shown[node.parent][0]) * _CHARACTER_PX + 16
            middle = left - _GAP_PX / 2
            parts.append(
                f'<path d="M{start:.0f} {tops[node.parent] + _BOX_PX / 2:.0f}H{middle:.0f}'
                f'V{top + _BOX_PX / 2:.0f}H{left:.0f}" fill="none" stroke="#888"/>'
            )
        parts.append(
            f"<g><title>[{node.ranks}] {_xml(calltree_text.node_label(node))}</title>"
            f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{_BOX_PX}" rx="3" '
            f'fill="{colours.get(node.number, "white")}" stroke="#444"/>'
            f'<text x="{left + 8:.0f}" y="{top + 15:.0f}">{_xml(text)}</text>'
            f'<text x="{left + 8:.0f}" y="{top + 35:.0f}" fill="#555">{_xml(below)}</text></g>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _rows(tree: CallTree) -> list[float]:
    """Return the vertical position of each node; leaves are below one another."""
    children = tree.children()
    tops = [0.0] * (len(tree.nodes) + 1)
    row = 0
    for node in tree.nodes:
        if node.is_leaf:
            tops[node.number] = 10.0 + row * _ROW_PX
            row += 1
    for node in reversed(tree.nodes):
        if below := children[node.number]:
            tops[node.number] = (tops[below[0]] + tops[below[-1]]) / 2
    return tops


def _colours(tree: CallTree) -> Mapping[int, str]:
    """Return a light colour for each leaf; neighbours are far apart on the colour circle."""
    found = {}
    for at, leaf in enumerate(tree.leaves):
        # Steps of the golden section keep new hues far from earlier ones.
        red, green, blue = colorsys.hls_to_rgb(at * 0.618 % 1.0, 0.85, 0.7)
        found[leaf.number] = (
            f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
        )
    return found


def _xml(text: str) -> str:
    return html.escape(_printable(text))


# -- HTML ----------------------------------------------------------------------------------------

# No script and no external resource: the names of a program's functions stay text.
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 14px/1.5 sans-serif; margin: 1.5em; color: #222; background: #fff; }}
code {{ font-family: monospace; }}
.row {{ display: inline-flex; gap: .8em; align-items: center; flex-wrap: wrap; }}
.bar {{ width: 8em; height: .8em; background: #e4e4e4; display: inline-block; }}
.bar i {{ display: block; height: 100%; background: #4a80c0; }}
.odd > .row code, summary.odd code {{ background: #ffd9a0; }}
.at, .seen {{ color: #666; }}
.times {{ display: inline-flex; align-items: flex-end; height: 1.6em;
  border-bottom: 1px solid #888; }}
.times i {{ width: 6px; background: #4a80c0; margin-right: 1px; }}
details > div {{ margin-left: .45em; padding-left: 1.1em; border-left: 1px solid #ccc; }}
details > div > .leaf {{ padding-left: 1.1em; }}
summary {{ cursor: pointer; }}
</style>
</head>
<body>
"""


def page(tree: CallTree, title: str = "") -> str:
    """Return the tree as one HTML page without network access and without script."""
    heading = f"Call tree of {len(tree.ranks)} ranks"
    parts = [_HEAD.format(title=_xml(title or heading)), f"<h1>{heading}</h1>\n"]
    if title:
        parts.append(f"<p><code>{_xml(title)}</code></p>\n")
    if tree.samples > 1:
        parts.append(
            f"<p>{tree.samples} samples, from 0 s at the left to {tree.times_s[-1]:.3g} s at the "
            "right; the height is the share of all ranks.</p>\n"
        )
    parts += _page_nodes(tree)
    parts += [f"<p>{_xml(note)}</p>\n" for note in calltree_text.notes(tree)]
    parts.append("</body>\n</html>\n")
    return "".join(parts)


def _page_nodes(tree: CallTree) -> Iterator[str]:
    children = tree.children()
    odd = tree.odd
    open_nodes: list[int] = []
    for node in tree.nodes:
        while open_nodes and open_nodes[-1] != node.parent:
            open_nodes.pop()
            yield "</div></details>\n"
        mark = " odd" if odd is not None and odd.number == node.number else ""
        row = _page_row(tree, node)
        if children[node.number]:
            yield f"<details open><summary>{row}</summary><div>\n"
            open_nodes.append(node.number)
        else:
            yield f'<div class="leaf{mark}">{row}</div>\n'
    yield "</div></details>\n" * len(open_nodes)


def _page_row(tree: CallTree, node: Node) -> str:
    everyone = len(tree.ranks) or 1
    share = 100 * len(node.ranks) / everyone
    parts = [
        f"<code>{_xml(calltree_text.node_label(node))}</code>",
        f'<span class="at">{_xml(calltree_text.place(node))}</span>' if node.sources else "",
        f'<span class="bar" title="{share:.1f} % of the ranks">'
        f'<i style="width:{share:.1f}%"></i></span>',
        f'<span title="[{node.ranks}]">{calltree_text.short_ranks(node.ranks, _RANKS_WIDTH)} '
        f"{len(node.ranks)} of {everyone}</span>",
    ]
    if tree.samples > 1:
        bars = "".join(
            f'<i style="height:{100 * len(ranks) / everyone:.0f}%" '
            f'title="{at_s:.3g} s: [{calltree_text.short_ranks(ranks)[1:-1]}]"></i>'
            for at_s, ranks in zip(tree.times_s, node.seen, strict=True)
        )
        parts.append(f'<span class="times">{bars}</span>')
    parts.append(f'<span class="seen">{_xml(calltree_text.seen_text(node, tree))}</span>')
    return f'<span class="row">{"".join(part for part in parts if part)}</span>'
