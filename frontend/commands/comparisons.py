"""Commands that compare and check: compare, assert, stat."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncIterator

from msgspec.structs import replace

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.comparing import By
from pgdb.frontend.analysis.conditions import only_looks, parse
from pgdb.frontend.analysis.full_answers import in_full, part_of
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.analysis.unseen_addresses import leaves_out_addresses
from pgdb.frontend.api import verdicts
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.options import Option, is_number, number
from pgdb.frontend.commands.saved_answers import find_saved
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Group,
    Outcome,
    Shown,
)
from pgdb.frontend.show.json import json_classes, json_lines
from pgdb.frontend.show.text import comparison_text, layout, render, statistics_text
from pgdb.frontend.system.workers import beside
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Record, Text

_BINS = 8
_MOST_BINS = 100
_WITH = pattern(r"\s*(?:(?P<left>.*)\s)?with\s+(?:session\s+)?(?P<right>.+)\Z", re.S)


@COMMANDS.command(
    "compare",
    group=Group.DATA,
    usage="compare EXPR with NAME|SET",
    summary="compare values: ranks with ranks, or now with before",
    options=(
        Option(name="--pairwise", help="compare the first rank of SET1 with the first of SET2 …"),
        Option(name="--all", help="show every difference, and every value in full"),
        Option(
            name="--tolerance",
            value="T",
            help="numbers are equal if they differ by at most T times the larger one",
            read=number,
            default=0.0,
        ),
        Option(
            name="--atol",
            value="T",
            help="numbers are equal if they differ by at most T",
            read=number,
            argument="absolute_tolerance",
            default=0.0,
        ),
    ),
)
async def _compare(
    call: Call,
    text: str,
    *,
    pairwise: bool,
    all: bool,
    tolerance: float,
    absolute_tolerance: float,
) -> Outcome:
    """Compare values of EXPR, and show where they differ and by how much.

    compare EXPR SET1 with SET2   the values of two rank sets: which occur on one
                                  side only; without SET1, the rest of the focus is
                                  compared
    compare EXPR with NAME        the answer that 'save NAME' has kept with the
                                  values now, rank by rank
    compare EXPR with FILE.json   the same with a file, of this or another session
    compare with NAME             the same with the saved command, whatever it was;
                                  a command of a file or a recording must be unable
                                  to change anything

    Structures are compared field by field, arrays element by element, in full: GDB's
    limits for printing ('set print elements') do not matter. Numbers are compared in full,
    also in containers of a structure; of other containers and strings the first 100000
    elements. Ranks with longer ones that are equal so far are named as not compared.
    Addresses, and two NaNs, count as equal. A rank that
    cannot evaluate EXPR is not compared, and the exit status of a batch run is 1.
    @1 is the set of the ranks that are equal; @2, @3 … are those that differ, in the
    order of the output.
    """
    match = _WITH.match(text)
    if match is None:
        raise UsageError("'compare' needs two sides: 'compare x with NAME', 'compare x 0 with 1-3'")
    left, right = (match["left"] or "").strip(), match["right"].strip()
    kept = await find_saved(call, right)
    by: By = "rank"
    if kept is not None:
        if pairwise:
            raise UsageError("compare: --pairwise is for two rank sets")
        expression, before, after = left or kept.answer.command, right, "now"
        if left and kept.answer.command != f"print {left}":
            before += f" ('{kept.answer.command}')"
        # The report names ranks that only the other job has; it omits ranks outside the focus.
        wanted = call.ranks | (kept.answer.ranks - call.session.set)
        now = await _ask_again(call, left, kept, right)
        sides = await verdicts.look_at_differences(
            call.session, part_of(kept.answer, wanted), now, by, are_both_now=False
        )
    else:
        by = "position" if pairwise else "value"
        expression, ranks, others = _rank_sides(call, left, right)
        before, after = layout.brackets(ranks), layout.brackets(others)
        session = call.session
        said = await verdicts.evaluate_parts(session, expression, ranks | others)
        sides = await verdicts.look_at_differences(
            session, part_of(said, ranks), part_of(said, others), by, are_both_now=True
        )
    found = await verdicts.compared(sides, by, tolerance, absolute_tolerance)
    names = {"before": before, "after": after}
    shown = functools.partial(
        comparison_text.comparison,
        found,
        expression,
        **names,
        whole=all,
        has_addresses=leaves_out_addresses(sides),
        width=call.dispatcher.width,
    )
    text = await beside(shown, name="text")
    line = json_lines.comparison(found, expression, **names, text=_class_text(expression))
    differing = [each.ranks for each in (*found.only_before, *found.only_after)]
    sets = (found.equal, *(each.ranks for each in found.differences), *differing)
    return Shown(text, sets=sets, line=line, failed=found.has_errors or not found.has_compared)


@COMMANDS.command(
    "assert",
    group=Group.DATA,
    usage="assert CONDITION",
    summary="check a condition on all ranks",
    options=(
        Option(
            name="--ranks-missing-ok",
            help="ranks that run or have ended do not fail the check",
            argument="running_ok",
        ),
    ),
)
async def _assert(call: Call, text: str, *, running_ok: bool) -> Outcome:
    """Check a condition over the selected ranks, and name the ranks that fail it.

    assert EXPR                 a comparison such as x > 0 or a == b && c, a value of
                                a type for truth values, or a constant: true on
                                every rank; anything else: the same on all ranks
    assert EXPR same            the same value on all ranks
    assert EXPR true            true on every rank, for an EXPR that does not look
                                like a comparison
    assert EXPR increasing      from each rank to the next; also decreasing,
                                nondecreasing, nonincreasing
    assert EXPR in LOW..HIGH    both ends included

    GDB evaluates the part that concerns one rank. Every element of an array is
    compared, also those that GDB does not print; a NaN fails. Addresses differ on every
    rank and count as the same. A rank that cannot evaluate EXPR, that runs or has ended is
    NOT CHECKED, with the reason. The check passes only if every rank does:
    else the exit status of a batch run is 1, or 4 if ranks have not answered. @1, @2 … are
    the ranks that fail or have errors, in the order of the output.
    """
    requirement = parse(text)
    session = call.session

    found = await verdicts.check_condition(session, requirement, call.ranks, running_ok=running_ok)
    answer = found.answer
    if answer is not None:
        gone = found.missing.lost if running_ok else RankSet()
        answer = replace(
            answer,
            ranks=answer.ranks - gone,
            missing=found.missing - gone,
            may_run=running_ok,
        )
    shown = functools.partial(comparison_text.check, found, width=call.dispatcher.width)
    return Shown(
        await beside(shown, name="text"),
        answer=answer,
        sets=tuple(each.ranks for each in found.failing) or (found.passed,),
        line=json_lines.checked(found),
        failed=not found.ok,
    )


def _read_bins(title: str, text: str) -> int:
    if not is_number(text) or not int(text):
        raise UsageError(f"{title} {text!r} is no number of bins")
    if int(text) > _MOST_BINS:
        raise UsageError(f"{title} {text} is too many; {_MOST_BINS} is the limit")
    return int(text)


@COMMANDS.command(
    "stat",
    group=Group.DATA,
    usage="stat EXPR",
    summary="show range, mean and histogram over ranks",
    needs="an expression",
    options=(
        Option(
            name="--bins",
            value="N",
            help=f"number of bins of the histogram, up to {_MOST_BINS}",
            read=_read_bins,
            default=_BINS,
        ),
    ),
)
async def _stat(call: Call, expression: str, *, bins: int) -> Outcome:
    """Sum up the number EXPR, or all elements of the array EXPR, over the ranks.

    Shows the least and the greatest number with their ranks, mean and standard deviation,
    a line of the values by rank and a histogram, and names the ranks with a NaN or an
    infinity. The aggregators sum up, so that a million ranks cost little more than a few.
    EXPR can be a container of C++. abs(EXPR) is that of each element of an array, real(EXPR) and
    imag(EXPR) are of complex numbers.
    """
    answer = await call.view.stat(expression, bins=bins)
    summed = next((each for each in answer.classes if each.columns), None)
    summary = summed.columns[0] if summed is not None else None
    ranks = summed.ranks if summed is not None else RankSet()
    return Shown(
        statistics_text.statistics(expression, summary, ranks, answer, width=call.dispatcher.width),
        answer=answer,
        line=json_lines.statistics(expression, summary, ranks, answer, _class_text(expression)),
    )


# -- inside ------------------------------------------------------------------------------------


async def _ask_again(call: Call, expression: str, kept: Saved, name: str) -> Answer:
    """Return the ranks' answer of now to the question of a saved answer.

    :raises CommandError: if another session has asked it, and it can do more than look.
    """
    session, command = call.session, kept.answer.command
    if expression:
        return await verdicts.evaluate_like(session, kept.answer, expression, call.ranks)
    if not kept.is_own and not only_looks(command):
        raise CommandError(
            f"compare: '{command}' of {name} may do more than look; "
            f"'compare EXPR with {name}' evaluates EXPR instead"
        )
    word, _, printed = command.partition(" ")
    if (kept.is_own or session.is_recorded) and word.partition("/")[0] == "print":
        letters = word.partition("/")[2]
        return await verdicts.evaluate_like(
            session, kept.answer, printed, call.ranks, format=letters
        )
    if kept.is_own or session.is_recorded:
        outcome = await call.dispatcher.dispatch(command, call.ranks)
    else:
        async with _without_calls(session, call.ranks) as ranks:
            outcome = await call.dispatcher.dispatch(command, ranks)
        if isinstance(outcome, Answer) and (others := call.ranks - ranks):
            # Ranks whose GDB still may call functions are not asked.
            missing = outcome.missing | Missing(late=others)
            outcome = replace(outcome, ranks=call.ranks, missing=missing)
    if isinstance(outcome, Shown):
        outcome = outcome.answer
    if not isinstance(outcome, Answer):
        raise CommandError(f"compare: '{command}' has no answer to be compared with")
    return await in_full(outcome, session.recall)


@contextlib.asynccontextmanager
async def _without_calls(session: Session, ranks: RankSet) -> AsyncIterator[RankSet]:
    """Forbid the GDBs to call functions of the program; yield the ranks where that holds.

    The text of an expression does not show whether it calls one: operators of C++ are functions,
    and GDB calls malloc for the address of a string.
    """
    shown = await session.ranks(ranks).execute_plain("show may-call-functions")
    shown_settings = [(each.ranks, each.filled) for each in shown.classes]
    texts = [(ranks, each.text) for ranks, each in shown_settings if isinstance(each, Text)]
    # Ranks where the user has turned calls off stay as they are.
    quiet = RankSet.union(ranks for ranks, text in texts if text.rstrip().endswith("off."))
    changed = RankSet.union(ranks for ranks, _ in texts) - quiet
    try:
        if changed:
            said = await session.ranks(changed).execute_plain("set may-call-functions off")
            failed = RankSet.union(each.ranks for each in said.errors)
            quiet |= changed - failed - said.missing.ranks
        yield quiet
    finally:
        if changed:
            # Restore the setting even if Ctrl-C gives up waiting.
            asked = session.ranks(changed).execute_plain("set may-call-functions on")
            await asyncio.shield(asyncio.ensure_future(asked))


def _rank_sides(call: Call, left: str, right: str) -> tuple[str, RankSet, RankSet]:
    """Return the expression and the two sets of ``EXPR [SET1] with SET2``."""
    session = call.session
    others = call.workspace.parse_ranks(right)
    # Find the longest end that is a rank set: blanks can stand around operators.
    for blank in re.finditer(r"\s+", left):
        try:
            RankSet.parse(left[blank.end() :], everything=session.set, named=lambda name: RankSet())
        except RankSetError:
            continue
        ranks = call.workspace.parse_ranks(left[blank.end() :])
        return _checked(left[: blank.start()], ranks, others)
    return _checked(left, call.ranks - others, others)


def _checked(expression: str, ranks: RankSet, others: RankSet) -> tuple[str, RankSet, RankSet]:
    if not expression:
        raise UsageError("compare: there is no expression")
    if not ranks or not others:
        raise UsageError("compare: there are no ranks on one of the two sides")
    return expression, ranks, others


def _class_text(expression: str) -> json_classes.ClassText:
    def text(each: EquivalenceClass[Record]) -> str:
        return render.record(each, f"print {expression}")

    return text
