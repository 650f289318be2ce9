"""Conditions over ranks: the ranks on which a condition holds or fails, with their values.

GDB evaluates a condition of one rank. PGDB evaluates conditions over several ranks (the same value
everywhere, an order from rank to rank) from their values. PGDB also compares arrays, element by
element, since GDB compares their addresses as C does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.array_screen import Screen, no_screen
from pgdb.frontend.analysis.asked_conditions import (
    WOULD_ASSIGN,
    Evaluate,
    comparing,
    is_compared_here,
    is_too_wide,
    is_truth_value,
    right_side,
    truth,
    where_it_compares,
    why_not,
)
from pgdb.frontend.analysis.characters import ReadNumbers, as_numbers, read_none
from pgdb.frontend.analysis.conditions import Kind, Requirement
from pgdb.frontend.analysis.element_checks import Failing, elements, text_of
from pgdb.frontend.analysis.full_answers import RecallFull, in_full, part_of
from pgdb.frontend.analysis.long_differences import distinct_wholes
from pgdb.frontend.analysis.number_calls import refused as refused_calls
from pgdb.frontend.analysis.plain_values import is_null
from pgdb.frontend.analysis.rich_display import RichText
from pgdb.frontend.analysis.values import Exact, exact_of
from pgdb.frontend.analysis.whole_values import (
    Compute,
    Look,
    at_once,
    how_far,
    is_hidden,
    is_partial,
    joined_by_content,
    key_of,
    no_look,
    not_seen,
    unread,
    way_out,
)
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Record, Value

_ABSENT = ("<not allocated>", "<not associated>")


class Check(msgspec.Struct, RichText, frozen=True):
    """The result of a check. Every asked rank passes, fails, or is missing."""

    requirement: Requirement
    ranks: RankSet
    passed: RankSet
    failing: tuple[Failing, ...] = ()
    """Failing ranks, smallest groups first."""
    missing: Missing = msgspec.field(default_factory=Missing)
    running_ok: bool = False
    """Whether ranks that run, or have ended, count as no failure."""
    common: str = ""
    """Value of the passing ranks, if all ranks must have the same value."""
    answer: Answer | None = None
    """Last answer of the ranks: the values of the failing ranks, if those were requested."""

    @property
    def ok(self) -> bool:
        """Whether no rank fails and no missing rank counts as a failure."""
        return not self.failing and not self.unexcused

    @property
    def is_zero_unnoticed(self) -> bool:
        """Whether all values are a zero or null, which a bare expression does not test."""
        is_zero = exact_of(self.common) == 0 or is_null(self.common)
        return self.requirement.is_bare and is_zero

    @property
    def unexcused(self) -> RankSet:
        """Missing ranks that count as a failure."""
        return self.missing.late if self.running_ok else self.missing.ranks

    @property
    def failed(self) -> RankSet:
        """Failing ranks, without missing ranks."""
        return RankSet.union(each.ranks for each in self.failing)


async def check(
    requirement: Requirement,
    ranks: RankSet,
    evaluate: Evaluate,
    recall: RecallFull,
    *,
    running_ok: bool = False,
    look: Look = no_look,
    read: ReadNumbers = read_none,
    screen: Screen = no_screen,
    compute: Compute = at_once,
) -> Check:
    """Return which of *ranks* meet a requirement; *look* reads values in full.

    *read* reads arrays of characters that are compared with numbers.
    *screen* returns the ranks whose long arrays pass, as far as it can say without their elements.
    *compute* compares long values.

    :raises UsageError: if the expression of a value that must be the same assigns on some rank.
    """
    texts = (requirement.expression, *requirement.conditions)
    if refused := await refused_calls(texts, ranks, evaluate):
        others = ranks - RankSet.union(each.ranks for each in refused)
        rest = Check(requirement, others, RankSet(), running_ok=running_ok)
        if others:
            rest = await check(
                requirement, others, evaluate, recall, running_ok=running_ok, look=look, read=read,
                screen=screen, compute=compute,
            )  # fmt: skip
        errors = [Failing(each.ranks, text_of(each.filled), is_error=True) for each in refused]
        return replace(rest, ranks=ranks, failing=(*errors, *rest.failing))
    if requirement.conditions:
        checking = _Checking(requirement, ranks, evaluate, recall, look, read, screen, compute)
        return replace(await checking.result(), running_ok=running_ok)
    probed = await where_it_compares(requirement.expression, ranks, evaluate)
    if probed is not None and (others := ranks - comparing(probed)):
        raise UsageError(f"'{requirement.expression}' on [{others}]: {WOULD_ASSIGN}")
    said = await in_full(await evaluate(requirement.expression, ranks), recall)
    if requirement.is_bare and _are_truth_values(said):
        return _judge_truth(requirement, said, running_ok=running_ok)
    if await compute(functools.partial(_have_several, said), name="keys"):
        said = await look(said)
    judge = functools.partial(judge_values, requirement, said, running_ok=running_ok)
    return await compute(judge, name="verdict")


class _Checking:
    """The check of a requirement whose conditions the ranks evaluate."""

    def __init__(
        self,
        requirement: Requirement,
        ranks: RankSet,
        evaluate: Evaluate,
        recall: RecallFull,
        look: Look,
        read: ReadNumbers,
        screen: Screen,
        compute: Compute,
    ) -> None:
        self._requirement = requirement
        self._ranks = ranks
        self._evaluate = evaluate
        self._recall = recall
        self._look = look
        self._read = read
        self._screen = screen
        self._compute = compute
        self._left = ranks
        """The ranks without a verdict so far."""
        self._passed = RankSet()
        self._failing: list[Failing] = []
        self._missing = Missing()
        self._seen: dict[str, Answer] = {}
        """The values of the operands, by operand."""
        self._answer: Answer | None = None

    async def result(self) -> Check:
        """Evaluate the conditions, and return the verdict on all ranks."""
        for condition in self._requirement.conditions:
            await self._drop_assignments(condition)
        for operand in self._requirement.operands:
            if self._left:
                await self._compare_arrays(operand)
        false = RankSet()
        for condition in self._requirement.conditions:
            if self._left:
                false |= await self._false_ranks(condition)
        if false and self._answer is not None:
            await self._add_values(false, self._answer)
        return Check(
            self._requirement,
            self._ranks,
            self._left | self._passed,
            tuple(sorted(self._failing, key=_prominence)),
            self._missing,
            answer=self._answer,
        )

    async def _drop_assignments(self, condition: str) -> None:
        """Take out the ranks on which a condition would assign, or cannot be read."""
        if not self._left:
            return
        probed = await where_it_compares(condition, self._left, self._evaluate)
        if probed is not None:
            self._failing += [
                Failing(each.ranks, why_not(each), is_error=True) for each in probed.errors
            ]
            self._missing |= probed.missing
            self._left &= comparing(probed)

    async def _compare_arrays(self, operand: str) -> None:
        """Take out the ranks on which an operand is absent, or an array that PGDB compares."""
        requirement = self._requirement
        self._seen[operand] = said = await self._evaluate(operand, self._left)
        absent = [each for each in said.classes if _is_absent(each)]
        self._failing += [
            Failing(each.ranks, f"{operand} is {text_of(each.filled)[1:-1]}", is_error=True)
            for each in absent
        ]
        self._left -= RankSet.union(each.ranks for each in absent)
        is_left_side = operand == requirement.expression
        with_text = is_left_side and requirement.is_about_text
        arrays = RankSet.union(
            each.ranks for each in said.classes if is_compared_here(each, with_text=with_text)
        )
        if not arrays:
            return
        self._left -= arrays
        self._answer = answer = await in_full(part_of(said, arrays), self._recall)
        if requirement.comparisons and is_left_side:
            unknown = arrays - await self._screen(answer, requirement.comparisons)
            self._answer = answer = await self._look(part_of(answer, unknown))
            await self._compare(answer, unknown, with_characters=True)
        else:
            why = f"{operand} is an array; compare it alone, on the left: '{operand} > 0'"
            self._failing.append(Failing(arrays, why, is_error=True))
        self._pass_unless_failing(arrays)

    async def _compare(
        self, answer: Answer, ranks: RankSet, *, with_characters: bool = False
    ) -> None:
        """Compare the elements of arrays with the right sides of the comparisons."""
        sides = [
            (sign, await right_side(other, ranks, self._evaluate, self._recall, self._look))
            for sign, other in self._requirement.comparisons
        ]
        if with_characters:
            answer = await as_numbers(answer, sides, self._read)
        compare = functools.partial(elements, answer, sides)
        self._failing += await self._compute(compare, name="elements")

    def _pass_unless_failing(self, ranks: RankSet) -> None:
        self._passed |= ranks - RankSet.union(each.ranks for each in self._failing)

    async def _false_ranks(self, condition: str) -> RankSet:
        """Evaluate a condition; return the ranks on which it is false."""
        requirement = self._requirement
        answer = await in_full(await self._evaluate(condition, self._left), self._recall)
        self._answer = answer
        found = truth(answer)
        wide = RankSet.union(each.ranks for each in found.errors if is_too_wide(each))
        if wide and requirement.comparisons and requirement.expression in self._seen:
            said = part_of(self._seen[requirement.expression], wide)
            await self._compare(await in_full(said, self._recall), wide)
            self._pass_unless_failing(wide)
            found = replace(
                found, errors=tuple(each for each in found.errors if not is_too_wide(each))
            )
        self._failing += _errors(_with_causes(found.errors, self._seen))
        self._missing |= found.missing
        self._left = found.true
        return found.false

    async def _add_values(self, false: RankSet, answer: Answer) -> None:
        """Add the ranks on which a condition is false, with the values of the expression."""
        expression = self._requirement.expression
        if self._requirement.conditions != (expression,):
            known = self._seen.get(expression)
            said = known if known is not None else await self._evaluate(expression, false)
            self._answer = answer = await in_full(part_of(said, false), self._recall)
        self._failing += _by_value(answer, false)


def _have_several(answer: Answer) -> bool:
    """Return whether not all values of an answer are equal, as far as GDB prints them."""
    return len({key_of(each.record) for each in answer.classes}) > 1


def _are_truth_values(answer: Answer) -> bool:
    """Return whether all values are ``true`` or ``false``, those of a type for truth values."""
    values = [each for each in answer.classes if not each.is_error]
    return bool(values) and all(
        isinstance(each.record, Value) and is_truth_value(each.record.text) for each in values
    )


def _judge_truth(requirement: Requirement, answer: Answer, *, running_ok: bool) -> Check:
    """Check that truth values are true: their user means a condition, however short it is."""
    expression = requirement.expression
    found = truth(answer)
    failing = [*_errors(found.errors), *_by_value(answer, found.false)]
    failing.sort(key=_prominence)
    return Check(
        replace(requirement, kind="true", conditions=(expression,), title=f"{expression} is true"),
        answer.ranks,
        found.true,
        tuple(failing),
        found.missing,
        running_ok=running_ok,
        answer=answer,
    )


def judge_values(requirement: Requirement, answer: Answer, *, running_ok: bool = False) -> Check:
    """Check that the values of all ranks are the same, or in the required order."""
    failing = [*_errors(answer.errors)]
    classes = [each for each in answer.classes if not each.is_error]
    for each in classes:
        if is_hidden(each.record):
            why = f"the value is {not_seen(each.record)}"
            failing.append(Failing(each.ranks, why, is_error=True))
    classes = [each for each in classes if not is_hidden(each.record)]
    if requirement.kind == "same":
        classes = joined_by_content(classes)
    texts = {each.ranks: text_of(each.filled) for each in classes} | distinct_wholes(classes)
    common = ""
    if requirement.kind == "same":
        majority = max(classes, key=lambda each: len(each.ranks), default=None)
        if majority is not None and 2 * len(majority.ranks) > sum(len(c.ranks) for c in classes):
            common = texts[majority.ranks]
            classes.remove(majority)
            failing += _half_seen(requirement.expression, majority)
        if len(classes) > 1 or common:
            failing += [Failing(each.ranks, texts[each.ranks]) for each in classes]
    else:
        failing += _out_of_order(requirement.kind, classes)
    failing.sort(key=_prominence)
    failed = RankSet.union(each.ranks for each in failing)
    answered = RankSet.union(each.ranks for each in answer.classes)
    return Check(
        requirement,
        answer.ranks,
        answered - failed,
        tuple(failing),
        answer.missing,
        running_ok=running_ok,
        common=common,
        answer=answer,
    )


def _errors(classes: tuple[EquivalenceClass[Record], ...]) -> Iterator[Failing]:
    for each in classes:
        yield Failing(each.ranks, text_of(each.filled), is_error=True)


def _by_value(answer: Answer, ranks: RankSet) -> Iterator[Failing]:
    """Yield *ranks* grouped by value, then the ranks that no longer answer."""
    for each in answer.classes:
        if members := each.ranks & ranks:
            yield Failing(members, text_of(each.filled), is_error=each.is_error)
            ranks = ranks - members
    if ranks:
        yield Failing(ranks, "", "false; its value is not available")


def _is_absent(each: EquivalenceClass[Record]) -> bool:
    """Return whether a variable of Fortran has no memory, so that GDB cannot compare it."""
    return isinstance(each.record, Value) and each.record.text in _ABSENT


def _with_causes(
    errors: Sequence[EquivalenceClass[Record]], operands: Mapping[str, Answer]
) -> tuple[EquivalenceClass[Record], ...]:
    """Return the errors of a condition; that of an operand comes in place of what it has led to."""
    found: list[EquivalenceClass[Record]] = []
    for each in errors:
        left = each.ranks
        for cause in (cause for said in operands.values() for cause in said.errors):
            if members := cause.ranks & left:
                found.append(replace(cause, ranks=members))
                left -= members
        if left:
            found.append(replace(each, ranks=left))
    return tuple(found)


def _half_seen(expression: str, each: EquivalenceClass[Record]) -> Iterator[Failing]:
    """Yield the ranks of a value that was not looked at in full, so that nobody knows if it is the
    same."""
    if mark := unread(each.record):
        why = f"the same but for {mark}, of which PGDB cannot read all"
        yield Failing(each.ranks, why, is_error=True)
    elif is_partial(each.record):
        why = f"the same in {how_far(each.record)}, the others were not looked at"
        yield Failing(each.ranks, f"{why}; {way_out(expression)}", is_error=True)
    elif mark := not_seen(each.record):
        why = f"the same but for parts that are {mark}"
        yield Failing(each.ranks, f"{why}; {way_out(expression)}", is_error=True)


def _out_of_order(kind: Kind, classes: list[EquivalenceClass[Record]]) -> Iterator[Failing]:
    """Yield the ranks whose value breaks the order after the value of the previous rank."""
    by_rank = sorted(
        (rank, text_of(each.filled), number)
        for each, number in ((each, exact_of(text_of(each.filled))) for each in classes)
        for rank in each.ranks
    )
    is_down = kind in ("decreasing", "nonincreasing")
    is_strict = kind in ("increasing", "decreasing")
    failing: dict[tuple[str, str], list[int]] = {}
    before: tuple[str, Exact] | None = None
    for rank, text, number in by_rank:
        if number is None or number != number:
            failing.setdefault((text, "not a number, which has no order"), []).append(rank)
            continue
        if before is not None:
            low, high = (number, before[1]) if is_down else (before[1], number)
            if not (low < high or (low == high and not is_strict)):
                failing.setdefault((text, f"after {before[0]}"), []).append(rank)
        before = (text, number)
    for (text, why), members in failing.items():
        yield Failing(RankSet(members), text, why)


def _prominence(each: Failing) -> tuple[int, int]:
    return (len(each.ranks), each.ranks.first)
