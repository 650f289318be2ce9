"""Checks of arrays, element by element: the first element that fails a comparison."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from pgdb.frontend.analysis import block_values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.class_pairs import Partition
from pgdb.frontend.analysis.diff import leaves
from pgdb.frontend.analysis.paths import place_of
from pgdb.frontend.analysis.plain_values import (
    are_equal_strings,
    bits_of,
    is_bitset,
    is_empty_container,
    is_null,
    is_string,
    plain,
)
from pgdb.frontend.analysis.value_nodes import node_of
from pgdb.frontend.analysis.values import Leaf, Node, exact_of, unparse
from pgdb.frontend.analysis.whole_values import NOT_KEPT, how_far, is_known, is_partial
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record, Value

_TRUTH = {"true": 1, ".TRUE.": 1, "false": 0, ".FALSE.": 0}
"""Truth values as numbers: those of C++ and of Fortran."""
_OF_NAMES = ("==", "!=")
_NAME = pattern(r"[A-Za-z_][\w:]*\Z|\([A-Za-z_][\w:]*(?: \| [A-Za-z_][\w:]*)+\)\Z")
"""An enumerator, or several of an enumeration of flags."""
_ENUMERATOR = pattern(r"\(?[A-Za-z_][^\s()]*(?: [^()]*\)|\))?\Z")
"""Enumerators, also with a value that has no name: ``(READ | unknown: 0x8)``."""
_WORD = pattern(r"(?<![\w.<])(?!nan|inf|times>)[A-Za-z_]")
"""The beginning of a name, and not the letters of numbers: ``1e-3``, ``0x1f``, ``-nan(0x8)``, and
``2 <repeats 12 times>``."""
_COMPLEX = pattern(r"\S+ [-+] \S+i\Z|\(\S+,\S+\)\Z")


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
            return NOT_KEPT


def is_number(text: str) -> bool:
    """Return whether a text is a number, or a truth value."""
    return _number(text) is not None


def holds_enumerators(each: EquivalenceClass[Record]) -> bool:
    """Return whether a value is an array or a container with enumerators among its elements."""
    if not isinstance(each.record, Value) or not _WORD.search(text_of(each.filled)):
        return False  # a long array of numbers is not taken apart
    array = plain(node_of(each))
    if array is None or isinstance(array, Leaf):
        return False
    found = leaves(((RankSet([0]), array),))
    texts = {text for each in found.values() for _, text in each} - _TRUTH.keys()
    return any(_ENUMERATOR.match(each) and exact_of(each) is None for each in texts)


def elements(answer: Answer, sides: list[tuple[str, Answer]]) -> list[Failing]:
    """Return the ranks that fail a comparison of elements, grouped by the first failing element."""
    members: dict[Failing, list[RankSet]] = {}
    expression = answer.command.partition(" ")[2]
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
            failing = _first_element(mine, others, expression)
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
    mine: EquivalenceClass[Record],
    others: list[tuple[str, EquivalenceClass[Record]]],
    expression: str,
) -> Failing | None:
    """Return the first element that fails a comparison, without ranks; None if all pass."""

    def refused(why: str) -> Failing:
        return Failing(RankSet(), why, is_error=True)

    if not is_known(mine.record):
        return refused("its elements beyond those that GDB prints cannot be read again")
    if (found := _first_number(mine, others)) is not None:
        return found[0]
    array = plain(node_of(mine))
    if array is None:
        return refused("an array of structures; compare a field of an element: 'x[0].a > 0'")
    limits: list[tuple[str, Node]] = []
    for sign, other in others:
        if not isinstance(other.record, Value):
            return refused(text_of(other.filled))
        if not is_known(other.record):
            return refused("the elements on the right cannot be read again")
        limits.append((sign, plain(node_of(other)) or node_of(other)))
    if is_bitset(array):
        return _first_bit(array, limits)
    if isinstance(array, Leaf):
        return _single(array.filled, limits)
    bad: list[tuple[str, str]] = []
    for sign, limit in limits:
        sides = leaves(((RankSet([0]), array), (RankSet([1]), limit)))
        # A single number is compared with every element and has no path.
        whole = limit.filled if isinstance(limit, Leaf) else ""
        for path, texts in sides.items():
            if not path:
                continue
            value, bound = texts[0][1], whole or texts[-1][1]
            if len(texts) + bool(whole) != 2:
                return refused("the two arrays have different shapes")
            passes = _passes(value, sign, bound)
            if isinstance(passes, str):
                return refused(f"{place_of(expression, path)} {passes}")
            if not passes:
                bad.append((path, value))
    if bad:
        path, value = bad[0]
        return _element(f"{path} = {value}", is_first=len({*bad}) > 1)
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
    return (_element(value, is_first=len(bad) > 1),)


def _element(value: str, *, is_first: bool) -> Failing:
    """Return the failure of an element, the first of several with *is_first*, without ranks."""
    why = "the first of several elements that fail" if is_first else ""
    return Failing(RankSet(), value, why, is_element=True)


def _single(text: str, limits: list[tuple[str, Node]]) -> Failing | None:
    """Return the failure of a value without elements; None if it passes."""
    for sign, limit in limits:
        passes = _passes(text, sign, unparse(limit))
        if isinstance(passes, str):
            return Failing(RankSet(), f"the value {passes}", is_error=True)
        if not passes:
            return Failing(RankSet(), text)
    return None


def _first_bit(bits: Node, limits: list[tuple[str, Node]]) -> Failing | None:
    """Return the first bit of a ``std::bitset`` that fails; None if all pass.

    GDB shows the bits that are 1.
    """
    ones = bits_of(bits)
    unknown = False
    for sign, limit in limits:
        zero, one = (_passes(bit, sign, unparse(limit)) for bit in ("0", "1"))
        if isinstance(zero, str) or isinstance(one, str):
            return Failing(RankSet(), "the bits can be compared with a number only", is_error=True)
        if ones and not one:
            return _element(f"[{ones[0]}] = 1", is_first=len(ones) > 1)
        unknown = unknown or not zero
    if unknown:
        why = "GDB shows the bits that are 1 only; 'stat' counts the others"
        return Failing(RankSet(), why, is_error=True)
    return None


def _passes(value: str, sign: str, bound: str) -> bool | str:
    """Return whether a number, a string or an enumerator passes a comparison.

    The result is a text that says why, if it cannot be compared.
    """
    if is_empty_container(value):
        return True  # it has no element that could fail
    is_same = are_equal_strings(value, bound)
    if is_null(value) and is_string(bound):
        is_same = False
    if is_same is None and sign in _OF_NAMES and (names := _names(value, bound)) is not None:
        is_same = names[0] == names[1]
    if is_same is not None:
        if sign not in _OF_NAMES:
            return "is a string; == and != compare strings"
        return is_same == (sign == "==")
    one, two = _number(value), _number(bound)
    if one is None and two is not None and is_string(value):
        return "is text; 'stat' and 'print/d' show the numbers of an array of characters"
    if one is None or two is None:
        what = value if one is None else bound
        if _COMPLEX.match(what):
            return f"is complex: {what}; in C and C++ $_creal(X) and $_cimag(X) are its parts"
        return f"is not a number: {what}" if one is None else f"is compared with {what}"
    return one == one and bool(block_values.COMPARE[sign](one, two))


def _number(text: str) -> int | float | Fraction | None:
    """Return the number of a text, or of a truth value; None if it is neither."""
    return _TRUTH[text] if text in _TRUTH else exact_of(text)


def _names(value: str, bound: str) -> tuple[str, str] | None:
    """Return two enumerators; None for other texts."""
    both = (value, bound)
    if all(_NAME.match(each) is not None and exact_of(each) is None for each in both):
        return both if not any(each in _TRUTH for each in both) else None
    return None
