"""The memory maps (``info proc mappings``) of many ranks as one list.

The kernel maps libraries in another order on each rank, and other numbers of areas without a file.
An area is the same on all ranks if it has the same file, offset, size and permissions. Addresses
are left out, since no rank has those of another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from pgdb.frontend.analysis.text_parts import Said
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

_HEAD = pattern(r"^ *Start Addr +End Addr +Size +Offset .*\n", re.M)
_ROW = pattern(
    rf" *(?:{SLOT}|0x[0-9a-f]+) +(?:{SLOT}|0x[0-9a-f]+) +(?P<size>0x[0-9a-f]+) +"
    r"(?P<offset>0x[0-9a-f]+)(?: +(?P<permissions>[rwxsp-]{3,5})(?= |\Z))? *(?P<file>.*?) *\Z"
)


class Mapping(msgspec.Struct, frozen=True, order=True):
    """An area of memory without its addresses."""

    file: str
    """The path of a file, or ``[heap]`` and the like; empty if the area has no name."""
    offset: str
    size: str
    permissions: str


class MappingRow(msgspec.Struct, frozen=True):
    """One area of some ranks."""

    ranks: RankSet
    mapping: Mapping
    count: int
    """Number of such areas on each of the ranks."""


class MappingList(msgspec.Struct, frozen=True):
    """The areas of all ranks, and the texts around their lists."""

    before: tuple[Said, ...]
    rows: tuple[MappingRow, ...]
    after: tuple[Said, ...]


def merge_mapping_lists(texts: Sequence[Said]) -> MappingList | None:
    """Return the areas of all lists; None if a text has no such list.

    The files are in the order of the addresses of the first rank that has them. Areas without a
    name come last.
    """
    before, after = [], []
    counts: dict[Mapping, dict[int, RankSet]] = {}
    places: dict[str, int] = {}
    for text in texts:
        split = _split(text)
        if split is None:
            return None
        head, found, rest = split
        before.append(head)
        after.append(rest)
        for mapping, count in found.items():
            places.setdefault(mapping.file, len(places))
            of_count = counts.setdefault(mapping, {})
            of_count[count] = of_count.get(count, RankSet()) | text.ranks
    order = sorted(counts, key=lambda each: (not each.file, places[each.file], _number(each)))
    rows = [
        MappingRow(ranks, mapping, count)
        for mapping in order
        for count, ranks in sorted(
            counts[mapping].items(), key=lambda pair: (-len(pair[1]), pair[1].first)
        )
    ]
    return MappingList(tuple(before), tuple(rows), tuple(after))


def _number(mapping: Mapping) -> tuple[int, int, str]:
    return int(mapping.offset, 16), int(mapping.size, 16), mapping.permissions


def _split(said: Said) -> tuple[Said, Counter[Mapping], Said] | None:
    """Return the text before a list, its areas, and the text behind it."""
    head = _HEAD.search(said.text)
    if head is None:
        return None
    found: Counter[Mapping] = Counter()
    at = head.end()
    while at < len(said.text):
        end = said.text.find("\n", at)
        end = len(said.text) if end < 0 else end
        match = _ROW.match(said.text[at:end])
        if match is None:
            break
        area = Mapping(match["file"], match["offset"], match["size"], match["permissions"] or "")
        found[area] += 1
        at = end + 1
    return _part(said, 0, head.start()), found, _part(said, at, len(said.text))


def _part(said: Said, begin: int, end: int) -> Said:
    first = said.text.count(SLOT, 0, begin)
    text = said.text[begin:end]
    return Said(said.ranks, text.strip("\n"), said.slots[first : first + text.count(SLOT)])
