"""Outputs of a command that GDB has carried out for several threads or frames.

GDB prints a heading for each thread or frame, and the output of the command below it. The parts of
all ranks are compared thread by thread, or frame by frame. Threads with equal outputs are joined,
whatever their numbers are on each rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pgdb.frontend.analysis.diff import Place
from pgdb.frontend.analysis.text_parts import ANY_HISTORY, HISTORY, Said, merge_texts
from pgdb.frontend.analysis.values import Leaf
from pgdb.merge.normalize import join_slots
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

_THREAD = pattern(r"Thread (\d+(?:\.\d+)?) \((?:Thread|LWP|process) .*\):\Z")
_FRAME = pattern(
    rf"(?P<level>#\d+ +)(?P<address>(?:{SLOT}|0x[0-9a-f]+) in )?(?P<function>\S.*?) \("
    r".*?(?P<place>(?: at \S+:\d+| from \S+)?)\Z"
)


class Section(msgspec.Struct, frozen=True):
    """The equal or similar outputs for some threads, or for one frame."""

    threads: Mapping[str, RankSet]
    """The ranks of each thread number; empty for frames."""
    ranks: RankSet
    common: str
    places: tuple[Place, ...]


class _Part(msgspec.Struct, frozen=True):
    key: str
    said: Said


def merge_sections(texts: Sequence[Said]) -> list[Section] | None:
    """Return the merged parts of all texts, in GDB's order.

    Return None if a text does not begin with the heading of a thread or a frame, and for frames of
    equal stacks, of which the whole text can be compared.
    """
    split = [_by_thread(text) for text in texts]
    is_of_threads = all(split)
    if not is_of_threads:
        split = [_by_frame(text) for text in texts]
        stacks = {tuple(part.key for part in parts) for parts in split}
        if len(stacks) < 2 or not all(stacks):
            return None
    else:
        split = [[_without_history(part) for part in parts] for parts in split]
    joined = _joined_threads(split) if is_of_threads else {}
    found: list[Section] = []
    shown = set()
    for key in _in_order([[part.key for part in parts] for parts in split]):
        here = [part.said for parts in split for part in parts if part.key == key]
        for text in {each.text: None for each in here}:
            if text in joined and text not in shown:
                shown.add(text)
                found.append(joined[text])
        here = [each for each in here if each.text not in joined]
        if not is_of_threads and len({_level_of(each) for each in here}) > 1:
            here = [_without_level(each) for each in here]
        for merged in merge_texts(here) if here else ():
            members = [here[at] for at in merged.members]
            ranks = RankSet.union(each.ranks for each in members)
            common = merged.common or _text_of(members)
            threads = {key: ranks} if is_of_threads else {}
            found.append(Section(threads, ranks, common, merged.places))
    return found


def _joined_threads(split: Sequence[Sequence[_Part]]) -> dict[str, Section]:
    """Return the outputs that threads with other numbers have on other ranks, or on the same."""
    members: dict[str, dict[str, list[Said]]] = {}
    for parts in split:
        for part in parts:
            members.setdefault(part.said.text, {}).setdefault(part.key, []).append(part.said)
    found = {}
    for text, threads in members.items():
        if len(threads) > 1:
            ranks = {key: RankSet.union(each.ranks for each in s) for key, s in threads.items()}
            common = _text_of([each for same in threads.values() for each in same])
            found[text] = Section(ranks, RankSet.union(ranks.values()), common, ())
    return found


def _text_of(same: Sequence[Said]) -> str:
    """Return the text of equal outputs, with ``…`` for addresses that differ."""
    slots = functools.reduce(join_slots, (each.slots for each in same))
    return Leaf(same[0].text, slots).filled


def _without_history(part: _Part) -> _Part:
    """Return a part without the numbers of GDB's history of values: each thread has its own."""
    text = HISTORY.sub(ANY_HISTORY, part.said.text)
    return _Part(part.key, msgspec.structs.replace(part.said, text=text))


def _in_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return all keys once, in an order that keeps that of the longest list."""
    order = list(sorted(lists, key=len)[-1])
    for keys in lists:
        at = 0
        for key in keys:
            if key in order:
                at = order.index(key) + 1
            else:
                order.insert(at, key)
                at += 1
    return order


def _by_thread(said: Said) -> list[_Part]:
    def number(line: str) -> str:
        match = _THREAD.match(line)
        return match[1] if match is not None else ""

    found = []
    for key, part in _cut(said, number):
        # The heading says no more than the number.
        head, _, body = part.text.partition("\n")
        begin = head.count(SLOT)
        body = body.rstrip("\n")
        slots = part.slots[begin : begin + body.count(SLOT)]
        found.append(_Part(key, Said(part.ranks, body, slots)))
    return found


def _by_frame(said: Said) -> list[_Part]:
    def name(line: str) -> str:
        match = _FRAME.match(line)
        return f"{match['function']}\n{match['place']}" if match is not None else ""

    parts = _cut(said, name)
    functions = [key.partition("\n")[0] for key, _ in parts]
    # The outermost call of a recursion is the same one on all ranks.
    seen: dict[str, int] = {}
    found = []
    for key, part in reversed(parts):
        function = key.partition("\n")[0]
        if functions.count(function) < 2:
            key = function
        seen[key] = seen.get(key, 0) + 1
        text, slots = part.text.rstrip("\n"), part.slots
        match = _FRAME.match(text.partition("\n")[0])
        assert match is not None
        if address := match["address"]:
            # GDB has none where a frame is at the beginning of a line.
            text = text[: match.start("address")] + text[match.end("address") :]
            slots = slots[address.count(SLOT) :]
        found.append(_Part(f"{key} {seen[key]}", Said(part.ranks, text, slots)))
    return found[::-1]


def _level_of(frame: Said) -> str:
    return frame.text.partition(" ")[0]


def _without_level(frame: Said) -> Said:
    return msgspec.structs.replace(frame, text=frame.text.partition(" ")[2].lstrip())


def _cut(said: Said, key_of: Callable[[str], str]) -> list[tuple[str, Said]]:
    """Return the parts of a text, each from a heading on; nothing if it begins otherwise."""
    parts: list[tuple[str, list[str]]] = []
    for line in said.text.lstrip("\n").split("\n"):
        if key := key_of(line):
            parts.append((key, [line]))
        elif not parts:
            return []
        else:
            parts[-1][1].append(line)
    found = []
    used = 0
    for key, lines in parts:
        text = "\n".join(lines)
        count = text.count(SLOT)
        found.append((key, Said(said.ranks, text, said.slots[used : used + count])))
        used += count
    return found
