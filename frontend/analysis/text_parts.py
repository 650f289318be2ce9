"""Texts of several lines compared part by part: equal lines once, and the parts that differ.

GDB answers most commands with lines: a register, a thread, a library on each. The lines of all
classes are aligned with those of the largest class. Lines that correspond are compared word by
word, and values after `` = `` field by field, as :mod:`pgdb.frontend.analysis.diff` does.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec

from pgdb.frontend.analysis.diff import Place
from pgdb.frontend.analysis.line_parts import ANY_HISTORY as ANY_HISTORY
from pgdb.frontend.analysis.line_parts import Line
from pgdb.frontend.analysis.line_parts import Said as Said
from pgdb.merge.normalize import DIFFERENT
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

MOST_LINES = 4000
"""Most lines of a text that is compared."""
_MOST_CHARACTERS = 1 << 21
"""Most characters of all texts that are compared with one another."""
_MOST_UNLIKE_LINES = 400
"""Most lines that are aligned where two texts have different numbers of lines."""
_MOST_EFFORT = 200_000
"""Most comparisons of lines, so that texts that are not alike are shown without a delay."""
_ABSENT_SHARE = 3
"""Texts are not merged if more than one of so many lines has nothing in common."""
_NUMBERS = pattern(r"(?:0x)?[0-9][0-9a-fA-F]*")
_FRAME = pattern(r"#[0-9]+ +(?:\S+ in )?(.+?) \(")
# Marks of a selected line are not part of its first word.
_START = pattern(rf"(?:[\s*>{SLOT}]|=>)*(\S*)")
HISTORY = pattern(r"^\$[0-9]+(?= = )", re.M)
"""The name of a value of GDB's history at the beginning of a line."""


class Merged(msgspec.Struct, frozen=True):
    """Texts whose lines correspond."""

    members: tuple[int, ...]
    """Indices of the texts."""
    common: str
    """The lines, with ``…`` for each part that differs."""
    places: tuple[Place, ...]
    has_fields: bool = False
    """Whether a line is a structure or an array, compared field by field."""


def merge_texts(texts: Sequence[Said]) -> list[Merged]:
    """Return groups of texts whose lines correspond; a text that is like no other is alone.

    A text alone has no places, and an empty common part.
    """
    texts = _without_history(texts)
    left = list(range(len(texts)))
    groups: list[Merged] = []
    lines = [_lines(each) for each in texts]
    too_much = sum(len(each.text) for each in texts) > _MOST_CHARACTERS
    effort = _MOST_EFFORT
    while left:
        reference = max(left, key=lambda number: len(texts[number].ranks))
        alike = {reference: list(range(len(lines[reference])))}
        if not too_much and len(lines[reference]) <= MOST_LINES:
            for number in left:
                if number != reference and effort > 0:
                    effort -= _effort(lines[reference], lines[number])
                    pairs = _aligned(lines[reference], lines[number])
                    if pairs is not None:
                        alike[number] = pairs
        merged = _merged(texts, lines, alike) if len(alike) > 1 else None
        if merged is None and len(alike) > 2:
            # Texts that are like it must not stay apart because of one that is hardly like it.
            masks = [_mask(each.text) for each in lines[reference]]
            alike = {
                number: pairs
                for number, pairs in alike.items()
                if [_mask(each.text) for each in lines[number]] == masks
            }
            merged = _merged(texts, lines, alike) if len(alike) > 1 else None
        if merged is None:
            alike = {reference: []}
            merged = Merged((reference,), "", ())
        groups.append(merged)
        left = [number for number in left if number not in alike]
    return groups


def _without_history(texts: Sequence[Said]) -> Sequence[Said]:
    """Return texts without the numbers of GDB's history of values, where these differ.

    A rank that has printed more than others counts further, so that all its lines would differ.
    Lists that begin with the same number keep them, also if one has more values than another.
    """
    rows = zip(*(HISTORY.findall(each.text) for each in texts), strict=False)
    if all(len({*row}) == 1 for row in rows):
        return texts
    return [
        msgspec.structs.replace(each, text=HISTORY.sub(ANY_HISTORY, each.text)) for each in texts
    ]


def _effort(one: Sequence[Said], other: Sequence[Said]) -> int:
    """Return about the number of comparisons that an alignment takes."""
    return len(one) if len(one) == len(other) else len(one) * len(other)


def _lines(said: Said) -> list[Said]:
    used = 0
    found = []
    for text in said.text.rstrip("\n").split("\n"):
        count = text.count(SLOT)
        found.append(Said(said.ranks, text, said.slots[used : used + count]))
        used += count
    return found


@functools.lru_cache(maxsize=1 << 14)
def _mask(line: str) -> str:
    """Return a line without its numbers, for the alignment; its first word stays as it is."""
    start = _START.match(line)
    assert start is not None
    return start[1] + _NUMBERS.sub("#", line[start.end() :])


def _aligned(reference: Sequence[Said], other: Sequence[Said]) -> list[int] | None:
    """Return for each line of *other* the number of its line in *reference*, -1 for none.

    Return None if most lines do not correspond.
    """
    if _frames(reference) != _frames(other):
        return None
    mine = [_mask(each.text) for each in reference]
    theirs = [_mask(each.text) for each in other]
    if len(mine) == len(theirs):
        pairs = list(range(len(theirs)))
    elif max(len(mine), len(theirs)) > _MOST_UNLIKE_LINES:
        return None
    else:
        pairs = _paired(mine, theirs)
    alike = sum(at >= 0 and _are_alike(mine[at], theirs[i]) for i, at in enumerate(pairs))
    return pairs if 2 * alike >= max(len(mine), len(theirs)) else None


def _frames(lines: Sequence[Said]) -> list[str]:
    """Return the functions of the frames in a text.

    The variables below a frame are those of that frame, so other stacks are not alike.
    """
    return [match[1] for each in lines if (match := _FRAME.match(each.text)) is not None]


def _paired(mine: Sequence[str], theirs: Sequence[str]) -> list[int]:
    pairs = [-1] * len(theirs)
    matcher = difflib.SequenceMatcher(None, mine, theirs, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and i2 - i1 == j2 - j1):
            pairs[j1:j2] = range(i1, i2)
        elif kind == "replace":
            at = i1
            for j in range(j1, j2):
                found = next((i for i in range(at, i2) if _key(mine[i]) == _key(theirs[j])), None)
                if found is not None:
                    pairs[j] = found
                    at = found + 1
    return pairs


def _key(masked: str) -> str:
    return masked.partition(" ")[0]


def _are_alike(one: str, other: str) -> bool:
    """Return whether two masked lines correspond: they have a half of their words in common."""
    if one == other:
        return True
    mine, theirs = one.split(), other.split()
    same = sum(a == b for a, b in zip(mine, theirs, strict=False))
    if mine and theirs and len(mine) != len(theirs):
        behind = zip(reversed(mine), reversed(theirs), strict=False)
        same += sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], behind))
    return 2 * same >= min(len(mine), len(theirs)) and bool(same)


def _merged(
    texts: Sequence[Said], lines: Sequence[Sequence[Said]], alike: dict[int, list[int]]
) -> Merged | None:
    members = sorted(alike)
    common: list[str] = []
    places: list[Place] = []
    all_ranks = RankSet.union(texts[number].ranks for number in members)
    has_fields = False
    unlike = 0
    for number, row in enumerate(_rows(lines, alike), 1):
        here = RankSet.union(each.ranks for each in row)
        line = Line(row, all_ranks - here, number)
        unlike += line.common == DIFFERENT
        if 2 * len(here) >= len(all_ranks):
            common.append(line.common)
        places += line.places
        has_fields = has_fields or line.has_fields
    if _ABSENT_SHARE * unlike > len(common):
        return None
    return Merged(tuple(members), "\n".join(common), tuple(places), has_fields)


def _rows(lines: Sequence[Sequence[Said]], alike: dict[int, list[int]]) -> Iterator[list[Said]]:
    """Yield the lines that correspond, in the order of the reference, which *alike* has first."""
    reference = next(iter(alike))
    rows: list[list[Said]] = [[each] for each in lines[reference]]
    # Lines before line N of the reference that it does not have, by their masked text.
    further: list[dict[tuple[str, int], list[Said]]] = [{} for _ in range(len(rows) + 1)]
    for number, pairs in alike.items():
        if number == reference:
            continue
        at = 0
        seen: dict[str, int] = {}
        for line, pair in zip(lines[number], pairs, strict=True):
            if pair >= 0:
                rows[pair].append(line)
                at = pair + 1
                seen = {}
            else:
                mask = _mask(line.text)
                seen[mask] = seen.get(mask, 0) + 1
                further[at].setdefault((mask, seen[mask]), []).append(line)
    for at, row in enumerate((*rows, None)):
        yield from further[at].values()
        if row is not None:
            yield row
