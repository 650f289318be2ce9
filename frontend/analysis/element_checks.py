"""Checks of arrays, element by element: the first element that fails a comparison."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from pgdb.frontend.analysis import block_values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.class_pairs import Partition
from pgdb.frontend.analysis.diff import leaves
from pgdb.frontend.analysis.value_nodes import node_of
from pgdb.frontend.analysis.values import Group, Node, exact_of
from pgdb.frontend.analysis.whole_values import how_far, is_known, is_partial
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record, Value

STRING = pattern(r"(?:u8|[LuU])?\"|'\\000' <repeats ")
"""The begin of the text of a string."""

_TRUTH = {"true": 1, ".TRUE.": 1, "false": 0, ".FALSE.": 0}
"""Truth values as numbers: those of C++ and of Fortran."""
_OF_NAMES = ("==", "!=")
_NAME = pattern(r"[A-Za-z_][\w:]*\Z|\([A-Za-z_][\w:]*(?: \| [A-Za-z_][\w:]*)+\)\Z")
"""An enumerator, or several of an enumeration of flags."""
_IN_STD_ARRAY = "_M_elems = "
_STRING_OF_C = pattern(r"(?:u8|[LuU])?\"(?:[^\"\\]|\\.)*\"\Z")
_ZEROS = pattern(r"(?:\\000)+\"\Z")
_STRING_OF_FORTRAN = pattern(r"'(?:[^']|'')*'\Z")


class Failing(msgspec.Struct, frozen=True):
    """Ranks that fail a check in the same way."""

    ranks: RankSet
    value: str
    """Value of the ranks, or their error; ``[17] = -1`` for an element of an array."""
    why: str = ""
    """Reason of the failure, if the value does not show it."""
    is_error: bool = False
    is_element: bool = False
    """Whether *value* is the first element of an array that fails."""


def text_of(record: Record) -> str:
    """Return the text of a value or an error."""
    match record:
        case Value(text=text):
            return text
        case Failure(message=message):
            return message
        case _:
            return "too many different values, which are not kept"


def elements(answer: Answer, sides: list[tuple[str, Answer]]) -> list[Failing]:
    """Return the ranks that fail a comparison of elements, grouped by the first failing element."""
    members: dict[Failing, list[RankSet]] = {}
    partitions = [(sign, Partition(side.classes)) for sign, side in sides]
    checked: list[RankSet] = []
    for mine in answer.classes:
        groups = [(mine.ranks, list[tuple[str, EquivalenceClass[Record]]]())]
        for sign, partition in partitions:
            groups = [
                (both, [*others, (sign, theirs)])
                for ranks, others in groups
                for theirs, both in partition.split(ranks)
            ]
        for ranks, others in groups:
            failing = _first_element(mine, others)
            if failing is not None:
                members.setdefault(failing, []).append(ranks)
        checked += (ranks for ranks, _ in groups)
    found = [
        Failing(RankSet.union(sets), each.value, each.why, each.is_error, each.is_element)
        for each, sets in members.items()
    ]
    if left := answer.ranks - RankSet.union(checked):
        found.append(Failing(left, "its elements are not available", is_error=True))
    return found


# -- inside ------------------------------------------------------------------------------------


def _first_element(
    mine: EquivalenceClass[Record], others: list[tuple[str, EquivalenceClass[Record]]]
) -> Failing | None:
    """Return the first element that fails a comparison, without ranks; None if all pass."""

    def refused(why: str) -> Failing:
        return Failing(RankSet(), why, is_error=True)

    text = text_of(mine.filled)
    if STRING.match(text):
        if all(_number(text_of(other.filled)) is not None for _, other in others):
            return refused("an array of characters; 'stat' and 'print/d' show their numbers")
        return refused("a string, compared by its address; write '$_streq(NAME, \"text\")'")
    if not is_known(mine.record):
        return refused("its elements beyond those that GDB prints cannot be read again")
    if (found := _first_number(mine, others)) is not None:
        return found[0]
    array = node_of(mine)
    if not _is_plain(array):
        return refused("an array of structures; compare a field of an element: 'x[0].a > 0'")
    bad: list[tuple[str, str]] = []
    for sign, other in others:
        if not isinstance(other.record, Value):
            return refused(text_of(other.filled))
        if not is_known(other.record):
            return refused("the elements on the right cannot be read again")
        limit = node_of(other)
        sides = leaves(((RankSet([0]), array), (RankSet([1]), limit)))
        # A single number is compared with every element and has no path.
        whole = limit.filled if not isinstance(limit, Group) else ""
        for path, texts in sides.items():
            if not path:
                continue
            value, bound = texts[0][1], whole or texts[-1][1]
            if len(texts) + bool(whole) != 2:
                return refused("the two arrays have different shapes")
            if sign in _OF_NAMES and (names := _names(value, bound)) is not None:
                if (names[0] == names[1]) != (sign == "=="):
                    bad.append((path, value))
                continue
            one, two = _number(value), _number(bound)
            if one is None or two is None:
                what = value if one is None else bound
                return refused(f"{path} is not a number: {what}")
            if one != one or not block_values.COMPARE[sign](one, two):
                bad.append((path, value))
    if bad:
        path, value = bad[0]
        why = "the first of several elements that fail" if len({*bad}) > 1 else ""
        return Failing(RankSet(), f"{path} = {value}", why, is_element=True)
    if is_partial(mine.record):
        if not (isinstance(mine.record, Value) and mine.record.digest):
            return refused("only a part of it was checked; 'set print elements unlimited' first")
        seen = how_far(mine.record)
        return refused(f"{seen} pass, the others were not looked at; name a part of the array")
    return None


def _first_number(
    mine: EquivalenceClass[Record], others: list[tuple[str, EquivalenceClass[Record]]]
) -> tuple[Failing | None] | None:
    """Return what :func:`_first_element` returns, for an array of numbers from memory; or None."""
    array = mine.record.whole if isinstance(mine.record, Value) else None
    if not isinstance(array, Block):
        return None
    bounds: list[tuple[str, block_values.Number | Block]] = []
    for sign, other in others:
        if not isinstance(other.record, Value):
            return None
        whole = other.record.whole
        bound = whole if isinstance(whole, Block) else _number(text_of(other.filled))
        if bound is None:
            return None
        if isinstance(bound, Block) and not block_values.are_alike(array, bound):
            why = "the two arrays have different shapes"
            return (Failing(RankSet(), why, is_error=True),)
        bounds.append((sign, bound))
    bad: set[int] = set()
    for sign, bound in bounds:
        bad.update(block_values.failing(array, sign, bound)[:2].tolist())
    if not bad:
        return (None,)
    at = min(bad)
    value = f"{block_values.path_of(array, at)} = {block_values.sequence_text(array, at, 1)}"
    why = "the first of several elements that fail" if len(bad) > 1 else ""
    return (Failing(RankSet(), value, why, is_element=True),)


def _is_plain(node: Node) -> bool:
    """Return whether a value has no fields."""
    if not isinstance(node, Group):
        return True
    # A std::array of C++ is a structure around an array.
    is_wrapper = [item.label.text for item in node.items] == [_IN_STD_ARRAY]
    return (node.is_array or is_wrapper) and all(_is_plain(item.value) for item in node.items)


def _number(text: str) -> int | float | Fraction | None:
    """Return the number of a text, or of a truth value; None if it is neither."""
    return _TRUTH[text] if text in _TRUTH else exact_of(text)


def _names(value: str, bound: str) -> tuple[str, str] | None:
    """Return two enumerators or strings; those of Fortran are without their blanks at the end.

    The result is None for other texts. Fortran compares strings as if the shorter one had blanks
    behind it.
    """
    both = (value, bound)
    if all(_NAME.match(each) is not None and exact_of(each) is None for each in both):
        return both if not any(each in _TRUTH for each in both) else None
    if all(_STRING_OF_C.match(each) is not None for each in both):
        # An array of char has zeros behind its string.
        one, two = (_ZEROS.sub('"', each) for each in both)
        return one, two
    if all(_STRING_OF_FORTRAN.match(each) is not None for each in both):
        one, two = (each[:-1].rstrip(" ") for each in both)
        return one, two
    return None
