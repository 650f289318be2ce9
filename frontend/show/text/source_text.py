"""Listed source lines with marks: where ranks stand, and where breakpoints are.

Ranks that stand at different lines list different parts of a file. Parts that meet are one text.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.line_marks import LineMark
from pgdb.frontend.show.text.layout import Layout
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Record, Text

STANDS, BREAKPOINT, DISABLED = "▶", "●", "○"
_LINE = pattern(r"(\d+)(?:\t|\Z)")
_TAB = 8
_PLAIN = str.maketrans({STANDS: ">", BREAKPOINT: "*", DISABLED: "o"})
Lines = dict[int, str]


def without_signs(text: str, encoding: str) -> str:
    """Return a text with plain signs for the marks if *encoding* does not have them.

    >>> without_signs("▶ [0-3] ●1", "ascii"), without_signs("▶ [0-3] ●1", "utf-8")
    ('> [0-3] *1', '▶ [0-3] ●1')
    """
    try:
        f"{STANDS}{BREAKPOINT}{DISABLED}".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN)
    return text


def source_blocks(said: Answer, layout: Layout) -> tuple[list[str], frozenset[int]]:
    """Return the lines of the listed source, and the numbers of the classes in them."""
    listing = said.listing
    if listing is None:
        return [], frozenset()
    blocks: list[tuple[RankSet, str, Lines]] = []
    notes: dict[str, None] = {}
    taken = set()
    for number, each in enumerate(said.classes):
        lines, note = _numbered(each)
        if not lines:
            continue
        taken.add(number)
        if note:
            notes[note] = None
        ranks, file = each.ranks, listing.file_of(each.ranks)
        for other in [
            each for each in blocks if file and each[1] == file and _meet(each[2], lines)
        ]:
            blocks.remove(other)
            ranks, lines = ranks | other[0], {**other[2], **lines}
        blocks.append((ranks, file, lines))
    shown: list[str] = []
    for ranks, _, lines in blocks:
        shown.append(layout.brackets(ranks) + layout.mark(ranks))
        shown += _marked(lines, listing.marks_of(RankSet([ranks.first])), layout)
    return [*shown, *notes], frozenset(taken)


def _numbered(each: EquivalenceClass[Record]) -> tuple[Lines, str]:
    """Return source lines by number, and the note below them in parentheses; no lines if the record
    has others, too."""
    record = each.filled
    if not isinstance(record, Text):
        return {}, ""
    *numbered, last = record.text.split("\n")
    note = last if numbered and last.startswith("(") else ""
    found = {}
    for line in numbered if note else [*numbered, last]:
        match = _LINE.match(line)
        if match is None:
            return {}, ""
        found[int(match[1])] = line
    return found, note


def _meet(one: Lines, other: Lines) -> bool:
    return min(one) <= max(other) + 1 and min(other) <= max(one) + 1


def _marked(lines: Lines, marks: dict[int, LineMark], layout: Layout) -> Sequence[str]:
    """Return source lines in order, behind a margin if one of them has a mark."""
    signs = {number: _sign(marks[number], layout) for number in lines if number in marks}
    if not signs:
        return [lines[number] for number in sorted(lines)]
    # The lines keep their tabs if the margin ends at a tab stop.
    width = -(-(max(map(len, signs.values())) + 1) // _TAB) * _TAB
    return [f"{signs.get(number, ''):<{width}}{lines[number]}" for number in sorted(lines)]


def _sign(mark: LineMark, layout: Layout) -> str:
    parts = [f"{STANDS} {layout.brackets(mark.ranks)}"] if mark.ranks else []
    parts += [f"{BREAKPOINT}{number}" for number in mark.breakpoints]
    parts += [f"{DISABLED}{number}" for number in mark.disabled]
    return " ".join(parts)
