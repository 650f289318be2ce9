"""Long parts of structures and containers, looked at one by one.

A structure is compared by GDB's text of it, in which the elements of a long container are cut.
Each container of which the text is cut is then evaluated alone: as an array of numbers it is hashed
in full in the memory of the rank. Where ranks differ, the elements that differ are put into the
text of the structure, so that it is compared as any other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, NotRecordedError
from pgdb.frontend.analysis import block_values, whole_values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Ask
from pgdb.frontend.analysis.block_outliers import by_prominence
from pgdb.frontend.analysis.cut_trees import (
    Trail,
    count_of,
    cut_parts,
    is_of_numbers,
    part_at,
    with_part,
)
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.value_nodes import MarkedText, node_of
from pgdb.frontend.analysis.values import Group, Item, Leaf, Node, filled, parse
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Evaluate
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

_MOST_PARTS = 256
_MOST_VALUES = 256
"""Most different values of which the parts are looked at."""
_MOST_DIFFERING = 200
"""Most elements of an array that are put into a text."""
_SHOWN_FIRST = 20
"""Number of elements at the beginning of an array that are put into a text in any case."""
_MOST_IN_TEXT = 20_000
"""Largest arrays that are put into a text in full."""
_LARGEST_NUMBER = 16
"""Size of the largest numbers, in bytes."""
_EQUAL = Leaf("<equal>")
"""Text for elements that are equal on all ranks."""
HASH = "<elements with hash "
"""Beginning of the text of a part that is kept as a hash."""
_DIGEST_BYTES = 16
_CALL = pattern(r"\w\s*\(")

Show = Literal["differences", "hashes", "elements"]
"""Text for a long part: the elements that differ between the ranks, a hash of all elements, or all
elements (a hash where they are too many)."""


class _Looked(msgspec.Struct, frozen=True):
    """One part of the value on all ranks."""

    keys: dict[int, str]
    """A text for each rank that is the same where the part is; none where nobody knows."""
    shown: tuple[tuple[RankSet, Node], ...] = ()
    """The part with the elements that differ, if some do and could be read."""
    is_cut: bool = False
    """Whether more elements differ than *shown* has."""
    lower: tuple[int, ...] = ()
    """Lower bounds of an array of Fortran, if they are the same on all ranks."""


async def look_at_parts(
    answer: Answer,
    ask: Ask,
    *,
    limit_bytes: int,
    read_bytes: int,
    most_elements: int,
    part_elements: int,
    compute: whole_values.Compute,
    raw_pointers: bool = False,
    show: Show = "differences",
) -> Answer:
    """Return an answer of ``print`` whose values have been looked at beyond *most_elements*.

    The request for *answer* had that number. Values that are equal as far as their hashes go, and
    differ behind it, are of different classes in the result, and have the whole with the elements
    that differ. At most *read_bytes* of numbers are read to show them. The search looks
    at *part_elements* parts that are neither arrays of numbers nor strings; a number below that of
    verdicts is for all of these parts together. *show* says what the text of each part is: without
    the elements that differ, it can be compared later.
    """
    partial = [each for each in answer.classes if _is_partial(each.record)]
    is_alone = sum(len(each.ranks) for each in answer.classes) < 2
    if not partial or (is_alone and show == "differences"):
        return answer
    word, _, expression = answer.command.partition(" ")
    format = word.partition("/")[2]
    if len(partial) > _MOST_VALUES or _calls(expression, partial):
        return answer
    try:
        shown = await whole_values.look(
            replace(answer, classes=tuple(partial)),
            ask,
            limit_bytes=read_bytes,
            raw_pointers=raw_pointers,
            most_elements=most_elements,
        )
        trees, trails = await compute(lambda: _trees_of(shown), name="trees")
        paths: dict[str, list[RankSet]] = {}
        for some, found in trails.items():
            for path in found:
                paths.setdefault(path, []).append(some)
        if len(trees) < len(partial) or not 0 < len(paths) <= _MOST_PARTS:
            return answer
        limits = _limits_of_parts(trees, trails, part_elements, most_elements)
        if limits is None:
            return answer
        looked = {}
        for path, sets in paths.items():
            looking = Evaluate(
                expression=place_of(expression, path),
                format=format,
                raw_pointers=raw_pointers,
                most_elements=limits[path],
                limit_bytes=limit_bytes,
                keeps_history=True,
            )
            some = RankSet.union(sets)
            looked[path] = await _look(looking, some, ask, read_bytes, compute, show)
    except (CommandError, NotRecordedError):
        return answer
    split = await compute(
        lambda: {
            each.ranks: [*_split(each, tree, trails[each.ranks], looked, show)]
            for each, tree in trees
        },
        name="parts",
    )
    classes = [new for each in answer.classes for new in split.get(each.ranks, [each])]
    classes.sort(key=lambda each: each.ranks.first)
    return replace(answer, classes=tuple(classes))


def _trees_of(
    answer: Answer,
) -> tuple[list[tuple[EquivalenceClass[Record], Node]], dict[RankSet, dict[str, Trail]]]:
    """Return the classes with a text and their trees, and the cut parts of each."""
    trees = [(each, node_of(each)) for each in answer.classes if _has_text(each.record)]
    return trees, {each.ranks: cut_parts(tree) for each, tree in trees}


def _limits_of_parts(
    trees: Sequence[tuple[EquivalenceClass[Record], Node]],
    trails: Mapping[RankSet, Mapping[str, Trail]],
    part_elements: int,
    most_elements: int,
) -> dict[str, int] | None:
    """Return the number of elements to look at for each path; None if no look can show more."""
    paths = {path for found in trails.values() for path in found}
    # GDB prints characters much faster than elements.
    texts = _paths_of(trees, trails, lambda part: isinstance(part, Leaf))
    if part_elements < whole_values.MOST_ELEMENTS:
        numbers = _paths_of(trees, trails, is_of_numbers)
        share = part_elements // max(1, len(paths - texts - numbers))
        part_elements = max(most_elements, share)
    # Containers that are known to be longer are not printed in vain.
    too_long = _paths_of(trees, trails, lambda part: count_of(part) > part_elements) - texts
    if "" in paths and (part_elements <= most_elements or "" in too_long):
        return None
    return (
        dict.fromkeys(paths, part_elements)
        | dict.fromkeys(too_long, most_elements)
        | dict.fromkeys(texts, whole_values.MOST_ELEMENTS)
    )


def _paths_of(
    trees: Sequence[tuple[EquivalenceClass[Record], Node]],
    trails: Mapping[RankSet, Mapping[str, Trail]],
    holds: Callable[[Node], bool],
) -> set[str]:
    """Return the paths to the parts for which *holds* is true on some rank."""
    return {
        path
        for each, tree in trees
        for path, trail in trails[each.ranks].items()
        if holds(part_at(tree, trail))
    }


def _is_partial(record: Record) -> bool:
    return isinstance(record, Value) and bool(record.digest) and record.looked_at > 0


def _calls(expression: str, classes: Sequence[EquivalenceClass[Record]]) -> bool:
    """Return whether an expression can call a function, which must not be called again.

    In Fortran an element of an array looks like a call; its values have parentheses.
    """
    is_fortran = all(
        isinstance(each.record, Value) and each.record.text.startswith("(") for each in classes
    )
    return not is_fortran and _CALL.search(expression) is not None


def _has_text(record: Record) -> bool:
    return isinstance(record, Value) and isinstance(record.whole, str)


async def _look(
    operation: Evaluate,
    ranks: RankSet,
    ask: Ask,
    read_bytes: int,
    compute: whole_values.Compute,
    show: Show,
) -> _Looked:
    """Look at one part of a value on some ranks."""
    word = f"print/{operation.format}" if operation.format else "print"
    said = await ask(f"{word} {operation.expression}", operation, ranks)
    keys = await compute(lambda: _keys(said), name="keys")
    if show == "hashes" or (show == "differences" and len(set(keys.values())) < 2):
        return _Looked(keys, is_cut=len(set(keys.values())) > 1)
    if show == "elements":
        read_bytes = min(read_bytes, len(said.classes) * _MOST_IN_TEXT * _LARGEST_NUMBER)
    try:
        said = await whole_values.look(
            said,
            ask,
            limit_bytes=read_bytes,
            raw_pointers=operation.raw_pointers,
            most_elements=operation.most_elements,
        )
    except CommandError:  # too long to be read
        return _Looked(keys, is_cut=True)
    classes = said.classes
    if show == "elements":
        return await compute(lambda: _Looked(keys, _all_elements(classes)), name="elements")
    return await compute(lambda: _with_elements(keys, classes), name="elements")


def _all_elements(
    classes: Sequence[EquivalenceClass[Record]],
) -> tuple[tuple[RankSet, Node], ...]:
    """Return a part with all of its elements, on the ranks that have few enough."""
    found: list[tuple[RankSet, Node]] = []
    for each in classes:
        record = each.record
        if not isinstance(record, Value) or not whole_values.is_known(record):
            continue
        if not isinstance(record.whole, Block):
            found.append((each.ranks, node_of(each)))
        elif math.prod(record.whole.shape) <= _MOST_IN_TEXT:
            found.append((each.ranks, parse(block_values.text_of(record.whole, most=0))))
    return tuple(found)


def _keys(answer: Answer) -> dict[int, str]:
    """Return a key of the value of each rank, for those values that were looked at in full."""
    keys: dict[int, str] = {}
    for each in answer.classes:
        if isinstance(each.record, Value) and not whole_values.is_partial(each.record):
            keys |= dict.fromkeys(each.ranks, _key(each.record))
    return keys


def _with_elements(keys: dict[int, str], classes: Sequence[EquivalenceClass[Record]]) -> _Looked:
    """Return a part with its elements, if all of them are known."""
    wholes: list[tuple[RankSet, Node | Block]] = []
    for each in classes:
        record = each.record
        if not isinstance(record, Value) or not whole_values.is_known(record):
            return _Looked(keys, is_cut=True)
        wholes.append(
            (each.ranks, record.whole if isinstance(record.whole, Block) else node_of(each))
        )
    return _shown(keys, wholes)


def _key(record: Value) -> str:
    key = whole_values.key_of(record)
    return f"{key.text} {key.bounds}" if isinstance(key, Value) else str(key)


def _split(
    each: EquivalenceClass[Record],
    tree: Node,
    trails: dict[str, Trail],
    looked: dict[str, _Looked],
    show: Show,
) -> Iterator[EquivalenceClass[Record]]:
    """Yield the classes of the ranks of one class by what their parts are."""
    record = each.record
    assert isinstance(record, Value)
    members: dict[tuple[str | None, ...], list[int]] = {}
    for rank in each.ranks:
        signature = tuple(looked[path].keys.get(rank) for path in trails)
        members.setdefault(signature, []).append(rank)
    for signature, same in members.items():
        hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for path, key in zip(trails, signature, strict=True):
            hashed.update(f"\0{path}\0{key}".encode(errors="surrogateescape"))
        spliced = tree
        cut: list[str] = []
        lower = {path: looked[path].lower for path in trails if looked[path].lower}
        for path, trail in trails.items():
            key = looked[path].keys.get(same[0])
            if show != "differences" and key is not None:
                spliced = with_part(spliced, trail, _hash_of(part_at(tree, trail), key))
            if looked[path].is_cut:
                cut.append(path)
            for ranks, part in looked[path].shown:
                if same[0] in ranks:
                    spliced = with_part(spliced, trail, part)
        parts = hashed.hexdigest()
        hashed.update(record.digest.encode())
        known = replace(
            record,
            digest=f"0x{hashed.hexdigest()}",
            whole=MarkedText.of(filled(spliced), record, parts, cut, lower)
            if show == "differences"
            else filled(spliced),
            looked_at=record.looked_at if None in signature else 0,
        )
        yield replace(each.part(RankSet(same)), record=known)


def _hash_of(part: Node, key: str) -> Leaf:
    """Return a text for a part that is kept as a hash."""
    hashed = hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return Leaf(f"{part.head.text if isinstance(part, Group) else ''}{HASH}{hashed}>")


def is_kept_as_hashes(record: Record) -> bool:
    """Return whether parts of a value are kept as hashes."""
    return isinstance(record, Value) and isinstance(record.whole, str) and HASH in record.whole


def before_parts(answer: Answer) -> Answer:
    """Return an answer as it was before :func:`look_at_parts`, with the wholes that GDB prints."""
    return replace(
        answer,
        classes=tuple(
            replace(each, record=each.record.whole.before)
            if isinstance(each.record, Value) and isinstance(each.record.whole, MarkedText)
            else each
            for each in answer.classes
        ),
    )


# -- parts that differ -----------------------------------------------------------------------------


def _shown(keys: dict[int, str], wholes: Sequence[tuple[RankSet, Node | Block]]) -> _Looked:
    """Return the parts for the texts of their ranks; none if these can stay as they are."""
    blocks = [(ranks, whole) for ranks, whole in wholes if isinstance(whole, Block)]
    texts = [(ranks, whole) for ranks, whole in wholes if not isinstance(whole, Block)]
    if not blocks:
        return _Looked(keys, tuple(texts))
    first = blocks[0][1]
    if not texts and all(
        block_values.are_alike(first, each) and each.dtype == first.dtype for _, each in blocks
    ):
        places, is_cut = _places(blocks)
        groups = tuple((ranks, _group_of(each, places, is_cut)) for ranks, each in blocks)
        same = all(each.lower == first.lower for _, each in blocks)
        return _Looked(keys, groups, is_cut, first.lower if same else ())
    if any(math.prod(each.shape) > _MOST_IN_TEXT for _, each in blocks):
        return _Looked(keys, is_cut=True)
    everything = ((ranks, each, range(math.prod(each.shape))) for ranks, each in blocks)
    groups = tuple((ranks, _group_of(each, at, is_cut=False)) for ranks, each, at in everything)
    return _Looked(keys, (*groups, *texts))


def _places(blocks: Sequence[tuple[RankSet, Block]]) -> tuple[list[int], bool]:
    """Return the elements to show, and whether more of them differ."""
    import numpy

    length = len(block_values.flat(blocks[0][1]))
    found = block_values.places_that_differ(each for _, each in blocks)
    is_cut = len(found) > _MOST_DIFFERING
    if is_cut:
        # The first elements would hide a NaN, or a rank that differs from all others.
        found = numpy.concatenate(by_prominence(blocks, found))[:_MOST_DIFFERING]
    first = numpy.arange(min(_SHOWN_FIRST, length))
    return numpy.union1d(found, first).tolist(), is_cut


def _group_of(block: Block, shown: Sequence[int], is_cut: bool) -> Group:
    """Return an array with the elements *shown*, and a mark in place of the others."""
    values = block_values.flat(block)
    outer = block.shape if block.order == "C" else block.shape[::-1]
    opening, closing = ("(", ")") if block.lower else ("{", "}")

    def part(begin: int, chosen: Sequence[int], dimension: int) -> Group:
        step = math.prod(outer[dimension + 1 :])
        rows: dict[int, list[int]] = {}
        for at in chosen:
            rows.setdefault((at - begin) // step, []).append(at)
        items: list[Item] = []
        last = 0

        def add(value: Node, count: int = 1) -> None:
            after = f" <repeats {count} times>" if count > 1 else ""
            items.append(Item(", " if items else "", Leaf(""), value, after, count))

        for row, inside in rows.items():
            if row > last:
                add(_EQUAL, row - last)
            if dimension == len(outer) - 1:
                text = block_values.number_text(values[inside[0]], is_fortran=bool(block.lower))
                add(Leaf(text))
            else:
                add(part(begin + row * step, inside, dimension + 1))
            last = row + 1
        if is_cut:
            return Group(Leaf(""), opening, tuple(items), f"...{closing}")
        if last < outer[dimension]:
            add(_EQUAL, outer[dimension] - last)
        return Group(Leaf(""), opening, tuple(items), closing)

    return part(0, shown, 0)
