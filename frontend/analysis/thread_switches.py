"""Outputs of ``thread N`` and ``inferior N`` of many ranks as one output.

GDB names the thread, its frame, and the line of the source. Ranks whose threads wait in different
functions have the heading in common. The frames are listed once for each place.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.frontend.analysis.diff import Place
from pgdb.frontend.analysis.text_parts import Said, merge_texts
from pgdb.frontend.analysis.thread_lists import function_of, without_address
from pgdb.frontend.analysis.values import Leaf
from pgdb.merge.normalize import join_slots
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

_HEADING = pattern(r"(?:\[Switching to .*\]\n?)+")
# GDB names a file that it cannot read in this way for the second time.
_UNREADABLE = pattern(r"(\d+)\tin (.+)\Z")
_LEVEL = pattern(r"#\d+ +")


class Common(msgspec.Struct, frozen=True):
    """The text that some ranks have in common, and the places that differ."""

    ranks: RankSet
    text: str
    places: tuple[Place, ...] = ()


class ThreadSwitch(msgspec.Struct, frozen=True):
    """The selected threads."""

    heading: Common
    frames: tuple[Common, ...]
    """The frame and the source of each place, that of most ranks first."""


def merge_thread_switches(texts: Sequence[Said]) -> ThreadSwitch | None:
    """Return the merged outputs; None if there is only one, or if a text selects no thread."""
    headings: list[Said] = []
    frames: dict[str, list[Said]] = {}
    unreadable = _unreadable(texts)
    for text in texts:
        match = _HEADING.match(text.text)
        if match is None:
            return None
        count = match[0].count(SLOT)
        headings.append(Said(text.ranks, match[0].rstrip("\n"), text.slots[:count]))
        frame = _frame(text, match.end(), count, unreadable)
        first = frame.text.partition("\n")[0]
        frames.setdefault(function_of(_LEVEL.sub("", first)), []).append(frame)
    heading = _merged(headings)
    if len(texts) < 2 or len(heading) > 1:
        return None
    found = [each for same in frames.values() for each in _merged(same)]
    found.sort(key=lambda each: (-len(each.ranks), each.ranks.first))
    return ThreadSwitch(heading[0], tuple(found))


def _unreadable(texts: Sequence[Said]) -> frozenset[str]:
    """Return the lines by which GDB says that it cannot read a file, as it does the first time."""
    lines = {line for each in texts for line in each.text.split("\n")}
    return frozenset(line for line in lines if line.endswith(": No such file or directory."))


def _frame(said: Said, begin: int, count: int, unreadable: frozenset[str]) -> Said:
    """Return the part from *begin* on, behind *count* slots, without the address of its frame."""
    first, *rest = said.text[begin:].rstrip("\n").split("\n")
    slots = said.slots[count:]
    level = _LEVEL.match(first)
    if level is not None:
        bare = without_address(Said(said.ranks, first[level.end() :], slots))
        first, slots = level[0] + bare.text, bare.slots
    for number, line in enumerate(rest):
        match = _UNREADABLE.match(line)
        if match is not None:
            whole = f"{match[1]}\t{match[2]}: No such file or directory."
            rest[number] = whole if whole in unreadable else line
    return Said(said.ranks, "\n".join((first, *rest)), slots)


def _merged(texts: Sequence[Said]) -> list[Common]:
    """Return the text that all have in common; several ones if their lines are not alike."""
    found = []
    same: dict[str, list[Said]] = {}
    for each in texts:
        same.setdefault(each.text, []).append(each)
    joined = [_joined(each) for each in same.values()]
    for merged in merge_texts(joined):
        members = [joined[number] for number in merged.members]
        ranks = RankSet.union(each.ranks for each in members)
        text = merged.common or Leaf(members[0].text, members[0].slots).filled
        found.append(Common(ranks, text, merged.places))
    return found


def _joined(same: Sequence[Said]) -> Said:
    slots = same[0].slots
    for each in same[1:]:
        slots = join_slots(slots, each.slots)
    return Said(RankSet.union(each.ranks for each in same), same[0].text, slots)
