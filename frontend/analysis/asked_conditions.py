"""Conditions that GDB evaluates: where they are true, and which of them PGDB compares itself."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.characters import ReadNumbers, as_numbers, read_none
from pgdb.frontend.analysis.conditions import (
    check_changes_nothing,
    check_is_one,
    comparison,
    has_ambiguous_differs,
    is_typed_number,
    operands_of,
    possible_arrays,
)
from pgdb.frontend.analysis.element_checks import Failing, elements, text_of
from pgdb.frontend.analysis.full_answers import RecallFull, in_full, part_of
from pgdb.frontend.analysis.number_calls import refused as refused_calls
from pgdb.frontend.analysis.plain_values import (
    is_bitset,
    is_empty_container,
    is_null,
    is_string,
    plain,
)
from pgdb.frontend.analysis.values import Group, exact_of
from pgdb.frontend.analysis.values import parse as parse_value
from pgdb.frontend.analysis.whole_values import Compute, Look, at_once, no_look
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Failure, Record, Value, Various, parse_number

Evaluate = Callable[[str, RankSet], Awaitable[Answer]]
"""A function that evaluates an expression on ranks."""
_NO_LVALUE = pattern(r"lvalue|[Aa]ssignment")
_TOO_WIDE = "integers of more than 8 bytes"
WOULD_ASSIGN = "'/=' would change the program here, where it assigns; '!=' compares"
_STRING = pattern(r"(?:u8|[LuU])?[\"']")
"""The begin of the text of a string, which GDB can have cut. A character begins with its code."""
_HEXADECIMAL = pattern(r"\b0x[0-9a-f]+\b")


class Truth(msgspec.Struct, frozen=True):
    """Ranks on which a condition is true, false, or has no truth value."""

    true: RankSet
    false: RankSet
    errors: tuple[EquivalenceClass[Record], ...]
    """Ranks that cannot evaluate the condition, or whose value is neither true nor false."""
    missing: Missing


def truth(answer: Answer) -> Truth:
    """Return the ranks on which a condition holds, from GDB's values of the condition."""
    true: list[RankSet] = []
    false: list[RankSet] = []
    errors: list[EquivalenceClass[Record]] = []
    for each in answer.classes:
        holds = _is_true(each.record.text) if isinstance(each.record, Value) else None
        if holds is None:
            errors.append(each if each.is_error else _no_condition(each))
        else:
            (true if holds else false).append(each.ranks)
    return Truth(RankSet.union(true), RankSet.union(false), tuple(errors), answer.missing)


def where(answer: Answer) -> RankSet:
    """Return the ranks on which a condition holds.

    :raises CommandError: if no rank has a truth value.
    """
    found = truth(answer)
    if found.true or found.false:
        return found.true
    expression = answer.command.partition(" ")[2]
    if found.errors:
        first = found.errors[0]
        raise CommandError(f"'{expression}' failed on [{first.ranks}]: {text_of(first.filled)}")
    if found.missing.running:
        raise CommandError(f"'{expression}': [{found.missing.running}] run; interrupt them first")
    raise CommandError(f"'{expression}': no answer from [{answer.ranks}]")


async def ask_condition(
    condition: str,
    ranks: RankSet,
    evaluate: Evaluate,
    recall: RecallFull,
    look: Look = no_look,
    read: ReadNumbers = read_none,
    compute: Compute = at_once,
) -> Answer:
    """Evaluate a condition on *ranks* with GDB; *look* reads values in full, and *read* arrays of
    characters that are compared with numbers. *compute* compares long values.

    A comparison of an array is true if all elements meet it. Where GDB would compare or test the
    address of an array otherwise, the answer is an error, since such a condition is true for any
    array.
    """
    check_changes_nothing(condition)
    check_is_one(condition)
    refused: list[EquivalenceClass[Record]] = []
    compared_here: list[EquivalenceClass[Record]] = []
    left = ranks
    missing = Missing()
    if probed := await where_it_compares(condition, ranks, evaluate):
        refused += [
            EquivalenceClass(each.ranks, Failure(message=why_not(each))) for each in probed.errors
        ]
        left, missing = left & comparing(probed), probed.missing
    calls = await refused_calls([condition], left, evaluate)
    refused += calls
    left -= RankSet.union(each.ranks for each in calls)
    compared = comparison(condition)
    subject = compared[0] if compared is not None else ""
    said: Answer | None = None

    async def judge(some: RankSet) -> list[EquivalenceClass[Record]]:
        """Compare the values of the left side on some ranks with the right side."""
        assert compared is not None and said is not None
        mine = await look(part_of(await in_full(said, recall), some))
        side = await right_side(compared[2], some, evaluate, recall, look)
        sides = [(compared[1], side)]
        numbers = await as_numbers(mine, sides, read)
        failing = await compute(functools.partial(elements, numbers, sides), name="elements")
        return judged(some, failing)

    if left and compared is not None:
        with_text = compared[2][:1] in ("'", '"')
        if with_text or possible_arrays([subject]):
            said = await evaluate(subject, left)
            here = RankSet.union(
                each.ranks for each in said.classes if is_compared_here(each, with_text=with_text)
            )
            if here:
                compared_here += await judge(here)
                left -= here
    for operand in possible_arrays(operands_of(condition)):
        if left and (said is None or operand != subject):
            values = await evaluate(operand, left)
            if arrays := RankSet.union(
                each.ranks for each in values.classes if is_compared_here(each)
            ):
                message = f"{operand} is an array; {_instead(operand, compared)}"
                refused.append(EquivalenceClass(arrays, Failure(message=message)))
                left -= arrays
    answer = Answer(command=f"print {condition}", ranks=ranks, classes=())
    if left:
        answer = await in_full(await evaluate(condition, left), recall)
    wide = RankSet.union(each.ranks for each in answer.errors if is_too_wide(each))
    if wide and said is not None:
        compared_here += await judge(wide)
        kept = [each for each in answer.classes if not is_too_wide(each)]
        answer = replace(answer, classes=tuple(kept))
    classes = sorted((*answer.classes, *compared_here, *refused), key=lambda each: each.ranks.first)
    return replace(answer, ranks=ranks, classes=tuple(classes), missing=answer.missing | missing)


def judged(ranks: RankSet, failing: Sequence[Failing]) -> list[EquivalenceClass[Record]]:
    """Return the truth of a comparison that PGDB has made, as GDB would print it."""
    errors = [each for each in failing if each.is_error]
    false = RankSet.union(each.ranks for each in failing if not each.is_error)
    true = ranks - RankSet.union(each.ranks for each in failing)
    found = [EquivalenceClass[Record](e.ranks, Failure(message=e.value)) for e in errors]
    found += [
        EquivalenceClass[Record](some, Value(text=text))
        for some, text in ((true, "1"), (false, "0"))
        if some
    ]
    return found


def _instead(operand: str, compared: tuple[str, str, str] | None) -> str:
    """Return advice for an array that a condition cannot have at this place."""
    if compared is None:
        return f"compare all elements, alone and on the left, as in '{operand} > 0'"
    return f"compare it on the left, as in '{operand} > 0'"


async def where_it_compares(text: str, ranks: RankSet, evaluate: Evaluate) -> Answer | None:
    """Return the answer of *ranks* to a ``/=`` of two numbers; None if *text* has no ``/=``.

    Fortran compares and returns a value. Other languages would assign, which GDB refuses for a
    number. Only ranks that return a value may evaluate *text*.
    """
    if not has_ambiguous_differs(text):
        return None
    return await evaluate("1 /= 2", ranks)


def comparing(probed: Answer) -> RankSet:
    """Return the ranks on which the answer of :func:`where_it_compares` is a value."""
    return RankSet.union(each.ranks for each in probed.classes if not each.is_error)


def why_not(said: EquivalenceClass[Record]) -> str:
    """Return why a condition with ``/=`` cannot be evaluated on some ranks."""
    message = said.filled.message if isinstance(said.filled, Failure) else ""
    return WOULD_ASSIGN if _NO_LVALUE.search(message) else message


def _word(text: str) -> str:
    return text.strip().strip(".").lower()


def is_truth_value(text: str) -> bool:
    """Return whether a value is of a type for truth values, as GDB prints it.

    >>> [is_truth_value(each) for each in ("true", ".FALSE.", "1")]
    [True, True, False]
    """
    return _word(text) in ("true", "false")


def _is_true(text: str) -> bool | None:
    """Return whether GDB's value of a condition is true; None if it is neither true nor false."""
    if is_truth_value(text):
        return _word(text) == "true"
    number = exact_of(text)
    if number is not None:
        return number != 0  # a NaN is true, as in C
    if text.endswith("}"):
        return None  # a structure or an array, whatever pointers are in it
    if SLOT in text:
        return True  # an address; a null pointer is no longer than 0x0
    pointer = _HEXADECIMAL.search(text)
    return int(pointer[0], 16) != 0 if pointer else None


def _no_condition(each: EquivalenceClass[Record]) -> EquivalenceClass[Record]:
    message = f"{text_of(each.filled)} is neither true nor false"
    return EquivalenceClass(ranks=each.ranks, record=Failure(message=message))


def is_too_wide(each: EquivalenceClass[Record]) -> bool:
    """Return whether GDB computes with no numbers of this size."""
    return _TOO_WIDE in text_of(each.filled)


def is_compared_here(each: EquivalenceClass[Record], *, with_text: bool = False) -> bool:
    """Return whether PGDB compares the value: an array, which GDB would replace by its address, a
    string, or a container.

    :param with_text: whether it is compared with a string, as the target of a pointer is too.
    """
    record = each.record.template if isinstance(each.record, Various) else each.record
    if not isinstance(record, Value):
        return False
    if _STRING.match(record.text) or is_string(record.text):
        return not record.text.startswith(("(", "0x", SLOT)) or with_text
    node = parse_value(record.text)
    if not isinstance(node, Group):
        is_absent = with_text and is_null(record.text)
        return is_absent or is_bitset(node) or is_empty_container(record.text)
    is_of_library = node.head.text.startswith("std::")
    return node.is_array or is_of_library or plain(node) is not None


async def right_side(
    text: str, ranks: RankSet, evaluate: Evaluate, recall: RecallFull, look: Look
) -> Answer:
    """Return the right side of a comparison: the values of the ranks, or the typed number.

    A variable named ``inf`` or ``nan`` goes before the number of this name.
    """
    if not is_typed_number(text):
        said = await evaluate(text, ranks)
        is_name = any(isinstance(each.record, Value) for each in said.classes)
        if is_name or parse_number(text) is None:
            return await look(await in_full(said, recall))
    typed = EquivalenceClass[Record](ranks=ranks, record=Value(text=text))
    return Answer(command=f"print {text}", ranks=ranks, classes=(typed,))
