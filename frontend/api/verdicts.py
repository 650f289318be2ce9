"""Values for verdicts: in full, whatever GDB's limits for showing are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Container
from typing import TYPE_CHECKING, Literal

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis import whole_values
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.array_screen import Comparisons, screen
from pgdb.frontend.analysis.arrays import Arrays, read_arrays
from pgdb.frontend.analysis.asked_conditions import ask_condition, judged
from pgdb.frontend.analysis.assertions import Check, check
from pgdb.frontend.analysis.comparing import By, Comparison, compare, to_look_at
from pgdb.frontend.analysis.conditions import (
    Requirement,
    check_changes_nothing,
    over_ranks,
)
from pgdb.frontend.analysis.cut_parts import Show, is_kept_as_hashes, look_at_parts
from pgdb.frontend.analysis.full_answers import in_full, part_of
from pgdb.frontend.system.workers import beside
from pgdb.overlay.messages import Evaluate, ListVariables
from pgdb.ranks import RankSet
from pgdb.records import Record, Value

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_PRINTED_BYTES = 1 << 28
"""Most bytes of numbers that a rank hashes for ``print``, which is to answer at once."""
_MOST_PRINTED_VALUES = 64
_LOOKED_AT_BYTES = 1 << 25
"""Most bytes of numbers that ``print`` reads to show where they differ."""


async def evaluate_printed(
    session: Session,
    expression: str,
    ranks: RankSet,
    *,
    format: str = "",
    timeout_s: float | None = None,
    of_ended: bool = False,
) -> Answer:
    """Print the value of an expression, with a hash of the whole where GDB prints a part."""
    limit_bytes = min(session.options.array_limit_bytes, _PRINTED_BYTES)
    most = whole_values.MOST_PRINTED
    return await _ask(
        session,
        expression,
        ranks,
        format,
        timeout_s,
        most,
        limit_bytes,
        of_ended=of_ended,
        keeps_history=False,
    )


async def variables(
    session: Session,
    which: Literal["locals", "arguments", "python"],
    ranks: RankSet,
    timeout_s: float | None = None,
) -> Answer:
    """List variables of the selected frame, with a hash of the whole where GDB prints a part."""
    operation = ListVariables(
        which=which,
        raw_pointers=_raw_pointers(session),
        most_elements=whole_values.MOST_PRINTED,
        limit_bytes=min(session.options.array_limit_bytes, _LOOKED_AT_BYTES),
    )
    command = {"locals": "info locals", "arguments": "info args", "python": "py-locals"}[which]
    return await session.ask(command, operation, ranks, timeout_s=timeout_s, of_ended=True)


async def evaluate(
    session: Session, expression: str, ranks: RankSet, *, format: str = ""
) -> Answer:
    """Print the value of an expression for a verdict: each value, with a hash of the whole.

    Long arrays of numbers in a structure are read from memory, one by one: GDB would take minutes
    for the text of a structure with several of them.
    """
    answer, _ = await _by_parts(session, expression, ranks, format, show="elements")
    if not _has_partial(answer):
        return answer
    return await _evaluate_at_once(session, expression, ranks, format)


async def _by_parts(
    session: Session, expression: str, ranks: RankSet, format: str, *, show: Show
) -> tuple[Answer, bool]:
    """Print a value, and look at its long parts one by one if it has any.

    :param show: what takes the place of a long part: its ``elements``, or ``hashes``.
    :returns: the answer, and whether there are such parts.
    """
    most, limit_bytes = whole_values.MOST_PRINTED, session.options.array_limit_bytes
    answer = await _ask(session, expression, ranks, format, None, most, limit_bytes)
    answer = await in_full(answer, session.recall)
    if not _has_partial(answer):
        return answer, False
    looked = await _look_at_parts(
        session,
        answer,
        most_elements=most,
        part_elements=whole_values.MOST_ELEMENTS,
        show=show,
    )
    return looked, True


def _has_partial(answer: Answer) -> bool:
    return any(whole_values.is_partial(each.record) for each in answer.classes)


async def _evaluate_at_once(
    session: Session, expression: str, ranks: RankSet, format: str
) -> Answer:
    """Print a value with as many elements as a verdict looks at."""
    most, limit_bytes = whole_values.MOST_ELEMENTS, session.options.array_limit_bytes
    answer = await _ask(session, expression, ranks, format, None, most, limit_bytes)
    return await in_full(answer, session.recall)


async def evaluate_to_keep(session: Session, expression: str, ranks: RankSet) -> Answer:
    """Print the value of an expression to keep it.

    Of a structure with long parts each part becomes a hash: as GDB's text, the long arrays of a
    mini-application would take minutes.
    """
    answer, has_long_parts = await _by_parts(session, expression, ranks, "", show="hashes")
    if not has_long_parts or any(is_kept_as_hashes(each.record) for each in answer.classes):
        return answer
    return await evaluate(session, expression, ranks)  # one long container


async def evaluate_like(
    session: Session, kept: Answer, expression: str, ranks: RankSet, *, format: str = ""
) -> Answer:
    """Print the value of an expression as far as the answer *kept* has it, to compare both."""
    records = [each.record for each in kept.classes]
    if any(map(is_kept_as_hashes, records)):
        return await evaluate_to_keep(session, expression, ranks)
    if not any(map(_is_of_print, records)):
        return await evaluate(session, expression, ranks, format=format)
    most, limit_bytes = whole_values.MOST_PRINTED, session.options.array_limit_bytes
    answer = await _ask(session, expression, ranks, format, None, most, limit_bytes)
    return await in_full(answer, session.recall)


def _is_of_print(record: Record) -> bool:
    """Return whether a kept value has as few elements as ``print`` looks at."""
    return isinstance(record, Value) and 0 < record.looked_at <= whole_values.MOST_PRINTED


async def evaluate_parts(session: Session, expression: str, ranks: RankSet) -> Answer:
    """Print the value of an expression for a verdict about *ranks* among themselves.

    Long parts of structures are looked at in full.
    """
    return await in_full(await _ask_parts(session, expression, ranks), session.recall)


async def look(
    session: Session,
    answer: Answer,
    *,
    wanted: Container[str] | None = None,
    most_elements: int = whole_values.MOST_ELEMENTS,
) -> Answer:
    """Return *answer* with the values in full that GDB has printed in part.

    :raises CommandError: if they are larger than the option ``array_limit_bytes``.
    """
    return await whole_values.look(
        answer,
        session.ask,
        limit_bytes=session.options.array_limit_bytes,
        raw_pointers=_raw_pointers(session),
        most_elements=most_elements,
        wanted=wanted,
    )


async def look_to_print(session: Session, answer: Answer) -> Answer:
    """Return an answer of ``print`` with the values in full, if they differ beyond what GDB prints.

    Very many or very long values stay as they are: ``print`` is to answer at once.
    """
    try:
        check_changes_nothing(answer.command.partition(" ")[2])
    except UsageError:
        return answer
    answer = await _look_at_parts(
        session,
        answer,
        limit_bytes=_PRINTED_BYTES,
        most_elements=whole_values.MOST_PRINTED,
        part_elements=whole_values.MOST_OF_PRINTED_PARTS,
    )
    values = [each.record for each in answer.classes if isinstance(each.record, Value)]
    keys = await beside(lambda: {*map(whole_values.key_of, values)}, name="keys")
    if not 2 <= len(keys) <= _MOST_PRINTED_VALUES:
        return answer
    try:
        return await whole_values.look(
            answer,
            session.ask,
            limit_bytes=_LOOKED_AT_BYTES,
            raw_pointers=_raw_pointers(session),
            most_elements=whole_values.MOST_PRINTED,
        )
    except CommandError:
        return answer


async def look_at_differences(
    session: Session, before: Answer, after: Answer, by: By, *, are_both_now: bool
) -> tuple[Answer, Answer]:
    """Return the two sides of a comparison with the values in full that differ.

    The first side is of now if *are_both_now* is set; otherwise it is as it was kept.
    """
    wanted = await beside(lambda: to_look_at(before, after, by), name="keys")
    if not wanted:
        return before, after
    if are_both_now:
        before = await look(session, before, wanted=wanted)
    return before, await look(session, after, wanted=wanted)


async def sides(
    session: Session, expression: str, ranks: RankSet, other: Answer | RankSet, by: By
) -> tuple[Answer, Answer]:
    """Return both sides of a comparison with an earlier answer, or with other ranks.

    An earlier answer is the first side, other ranks are the second.
    """
    if isinstance(other, Answer):
        mine = await evaluate_like(session, other, expression, ranks)
        return await look_at_differences(session, other, mine, by, are_both_now=False)
    both = await evaluate_parts(session, expression, ranks | other)
    mine, theirs = part_of(both, ranks), part_of(both, other)
    return await look_at_differences(session, mine, theirs, by, are_both_now=True)


async def compared(
    sides: tuple[Answer, Answer], by: By, tolerance: float = 0.0, absolute_tolerance: float = 0.0
) -> Comparison:
    """Return what differs between two sides."""
    return await beside(
        lambda: compare(*sides, by=by, tolerance=tolerance, absolute_tolerance=absolute_tolerance),
        name="comparison",
    )


async def check_condition(
    session: Session, requirement: Requirement, ranks: RankSet, *, running_ok: bool = False
) -> Check:
    """Return which of *ranks* meet a requirement, with values in full."""

    async def ask(expression: str, some: RankSet) -> Answer:
        if requirement.kind == "same" and not requirement.conditions:
            return await _ask_parts(session, expression, some)
        most, limit_bytes = whole_values.MOST_ELEMENTS, session.options.array_limit_bytes
        return await _ask(session, expression, some, "", None, most, limit_bytes)

    async def look_at(answer: Answer) -> Answer:
        return await look(session, answer)

    async def screened(answer: Answer, comparisons: Comparisons) -> RankSet:
        limit_bytes = session.options.array_limit_bytes
        return await screen(answer, comparisons, session.ask, limit_bytes=limit_bytes)

    return await check(
        requirement,
        ranks,
        ask,
        session.recall,
        running_ok=running_ok,
        look=look_at,
        read=functools.partial(_read_numbers, session),
        screen=screened,
        compute=beside,
    )


async def evaluate_condition(session: Session, condition: str, ranks: RankSet) -> Answer:
    """Evaluate a condition: 1 or 0 on each rank, or an error."""
    if (requirement := over_ranks(condition)) is not None:
        found = await check_condition(session, requirement, ranks)
        classes = judged(ranks - found.missing.ranks, found.failing)
        classes.sort(key=lambda each: each.ranks.first)
        return Answer(f"print {condition}", ranks, tuple(classes), found.missing)

    async def ask(expression: str, some: RankSet) -> Answer:
        most, limit_bytes = whole_values.MOST_ELEMENTS, session.options.array_limit_bytes
        return await _ask(session, expression, some, "", None, most, limit_bytes)

    async def look_at(answer: Answer) -> Answer:
        return await look(session, answer)

    read = functools.partial(_read_numbers, session)
    return await ask_condition(condition, ranks, ask, session.recall, look_at, read, beside)


async def _read_numbers(session: Session, expression: str, ranks: RankSet) -> Arrays:
    return await read_arrays(
        session.ask, expression, ranks, limit_bytes=session.options.array_limit_bytes
    )


async def _ask_parts(session: Session, expression: str, ranks: RankSet) -> Answer:
    """Print a value, and look at its long parts; at more elements of the text if those do not do.

    Most structures have few long containers, which are read faster alone than as GDB's text.
    """
    limit_bytes = session.options.array_limit_bytes
    for most in (whole_values.MOST_PRINTED, whole_values.MOST_ELEMENTS):
        answer = await _ask(session, expression, ranks, "", None, most, limit_bytes)
        answer = await _look_at_parts(
            session, answer, most_elements=most, part_elements=whole_values.MOST_ELEMENTS
        )
        if not _has_partial(answer):
            break
    return answer


async def _look_at_parts(
    session: Session,
    answer: Answer,
    *,
    most_elements: int,
    part_elements: int,
    limit_bytes: int = sys.maxsize,
    show: Show = "differences",
) -> Answer:
    limit = session.options.array_limit_bytes
    return await look_at_parts(
        answer,
        session.ask,
        limit_bytes=min(limit, limit_bytes),
        read_bytes=min(limit, _LOOKED_AT_BYTES),
        raw_pointers=_raw_pointers(session),
        most_elements=most_elements,
        part_elements=part_elements,
        compute=beside,
        show=show,
    )


async def _ask(
    session: Session,
    expression: str,
    ranks: RankSet,
    format: str,
    timeout_s: float | None,
    most_elements: int,
    limit_bytes: int,
    *,
    of_ended: bool = False,
    keeps_history: bool = True,
) -> Answer:
    word = f"print/{format}" if format else "print"
    operation = Evaluate(
        expression=expression,
        format=format,
        raw_pointers=_raw_pointers(session),
        most_elements=most_elements,
        limit_bytes=limit_bytes,
        keeps_history=keeps_history,
    )
    return await session.ask(
        f"{word} {expression}", operation, ranks, timeout_s=timeout_s, of_ended=of_ended
    )


def _raw_pointers(session: Session) -> bool:
    return session.options.compare_pointers == "raw"
