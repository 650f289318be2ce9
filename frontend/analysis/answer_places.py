"""The places at which the answers of ranks differ, for programs: the most prominent first."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.diff import NOT_SHOWN, Place, compare
from pgdb.frontend.analysis.long_differences import long_differences
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.prominence import most_prominent_first, rate_texts
from pgdb.frontend.analysis.text_parts import Said, merge_texts
from pgdb.frontend.analysis.values import parse
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Text, Value, Variables

MOST_PLACES = 200
"""Most places of an answer that are listed."""
_MOST_CHARACTERS = 1 << 20
_MOST_CLASSES = 128


def places_of(answer: Answer) -> tuple[Place, ...]:
    """Return the places at which values, variables or outputs of the ranks differ.

    A single number or text of each rank has no places: its classes are the difference. Answers that
    are too long to be compared at once, and outputs that are not alike, have none either.
    """
    count = sum(isinstance(each.record, Value | Variables | Text) for each in answer.classes)
    # The size of stacks takes long to find out.
    if not 1 < count <= _MOST_CLASSES or answer.size_bytes > _MOST_CHARACTERS:
        return ()
    found = [*_of_values(answer), *_of_variables(answer), *_of_texts(answer)]
    ordered = most_prominent_first(found, lambda place: rate_texts(place.texts))
    return tuple(place for place in ordered if place.path)[:MOST_PLACES]


def _of_values(answer: Answer) -> Iterator[Place]:
    classes = [each for each in answer.classes if isinstance(each.record, Value)]
    if len(classes) < 2:
        return
    beyond = long_differences(classes)
    if beyond is not None:  # GDB's texts are parts of these values
        yield from beyond.places
        return
    values = [
        (each.ranks, parse(each.record.text, each.slots))
        for each in classes
        if isinstance(each.record, Value)
    ]
    yield from compare(values).places


def _of_variables(answer: Answer) -> Iterator[Place]:
    members: dict[tuple[str, int], list[Said]] = {}
    hashes: dict[tuple[str, int], set[str]] = {}
    for each in answer.classes:
        if not isinstance(each.record, Variables):
            continue
        used = 0
        seen: dict[str, int] = {}
        for item in each.record.items:
            marks = item.value.count(SLOT) + item.bounds.count(SLOT)
            slots = each.slots[used : used + marks]
            used += marks
            # A name can stand for several variables, in different blocks.
            number = seen[item.name] = seen.get(item.name, 0) + 1
            said = Said(each.ranks, item.value, slots)
            members.setdefault((item.name, number), []).append(said)
            hashes.setdefault((item.name, number), set()).add(item.digest)
    for (name, number), values in members.items():
        comparison = compare([(each.ranks, parse(each.text, each.slots)) for each in values])
        places = [place for place in comparison.places if not _is_beyond(place)]
        for place in places:
            path = place_of(name, place.path) if place.path else name
            yield replace(place, path=path if number == 1 else f"{path} ({number})")
        if not places and len(hashes[name, number]) > 1:
            # They differ beyond the part that GDB prints.
            yield Place(name, tuple((each.ranks, each.text) for each in values))


def _is_beyond(place: Place) -> bool:
    """Return whether the text of a place is not known on all ranks."""
    return any(NOT_SHOWN in text for _, text in place.texts)


def _of_texts(answer: Answer) -> Iterator[Place]:
    texts = [
        Said(each.ranks, each.record.text, each.slots)
        for each in answer.classes
        if isinstance(each.record, Text)
    ]
    all_ranks = RankSet.union(each.ranks for each in texts)
    for merged in merge_texts(texts) if len(texts) > 1 else ():
        if len(merged.members) > 1 and ("\n" in merged.common or merged.has_fields):
            ranks = RankSet.union(texts[number].ranks for number in merged.members)
            if ranks == all_ranks:
                yield from merged.places
