"""Arrays that GDB prints in words, compared with numbers: read from memory as numbers.

GDB prints an array of ``unsigned char`` or ``int8_t`` as a string, whatever it holds, and the
elements of an enumeration by name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pgdb.errors import CommandError, NotRecordedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.element_checks import holds_enumerators, is_number, text_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

ReadNumbers = Callable[[str, RankSet], Awaitable[Arrays]]
"""A function that reads an array on ranks."""

_CHARACTERS = pattern(r"[{(\s]*(?:u8|[LuU])?[\"']")
"""The begin of an array of characters, with one index or more. A pointer begins with an address."""


async def read_none(expression: str, ranks: RankSet) -> Arrays:
    """Read nothing."""
    return Arrays(expression=expression, ranks=ranks, by_rank={})


async def as_numbers(
    answer: Answer, sides: Sequence[tuple[str, Answer]], read: ReadNumbers
) -> Answer:
    """Return *answer* with characters and enumerators as numbers, if all *sides* are numbers.

    A value that cannot be read as numbers, such as a ``std::string``, stays as it is.
    """
    bounds = [each for _, side in sides for each in side.classes]
    texts = [each for each in answer.classes if _has_characters(each) or holds_enumerators(each)]
    if not texts or not all(is_number(text_of(each.filled)) for each in bounds):
        return answer
    ranks = RankSet.union(each.ranks for each in texts)
    try:
        arrays = await read(answer.command.partition(" ")[2], ranks)
    except (CommandError, NotRecordedError):
        return answer
    found: dict[Block, list[int]] = {}
    for rank, array in arrays.by_rank.items():
        block = Block(dtype=array.dtype.str, shape=array.shape, data=array.tobytes())
        found.setdefault(block, []).append(rank)
    known = RankSet(arrays.by_rank)
    classes = [each.part(each.ranks - known) for each in answer.classes if each.ranks - known]
    for block, members in found.items():
        record: Record = Value(text="{...}", whole=block)
        classes.append(EquivalenceClass(RankSet(members), record))
    classes.sort(key=lambda each: each.ranks.first)
    return Answer(answer.command, answer.ranks, tuple(classes), answer.missing)


def _has_characters(each: EquivalenceClass[Record]) -> bool:
    filled = each.filled
    return isinstance(filled, Value) and _CHARACTERS.match(filled.text) is not None
