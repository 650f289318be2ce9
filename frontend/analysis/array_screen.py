"""Arrays of very many ranks, checked by their least and greatest elements only.

Aggregators reduce (:class:`pgdb.overlay.messages.Reduce`), so that the traffic does not depend on
the number of ranks and elements.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pgdb.errors import NotRecordedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Ask
from pgdb.frontend.analysis.block_values import COMPARE
from pgdb.frontend.analysis.values import exact_of
from pgdb.frontend.analysis.whole_values import MOST_ELEMENTS
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.summary import Summary
from pgdb.overlay.messages import Evaluate, Reduce
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

FEW_VALUES = 16
"""Number of different arrays that are read rather than screened."""
_MOST_ROUNDS = 6
"""Each round looks at a 64th of the ranks in one cell of the round before."""

Comparisons = Sequence[tuple[str, str]]
Screen = Callable[[Answer, Comparisons], Awaitable[RankSet]]
"""A function that returns the ranks whose arrays pass comparisons of all elements for sure."""


async def no_screen(answer: Answer, comparisons: Comparisons) -> RankSet:
    """Return no ranks."""
    del answer, comparisons
    return RankSet()


async def screen(
    answer: Answer, comparisons: Comparisons, ask: Ask, *, limit_bytes: int
) -> RankSet:
    """Return the ranks whose arrays pass comparisons with numbers, by their extremes.

    All other ranks must be looked at, whether they fail or nobody knows.
    """
    bounds = [(sign, exact_of(other.strip())) for sign, other in comparisons]
    if any(bound is None or sign not in ("<", "<=", ">", ">=") for sign, bound in bounds):
        return RankSet()
    long = [
        each
        for each in answer.classes
        if isinstance(each.record, Value) and each.record.digest and not each.record.looked_at
    ]
    if len(long) <= FEW_VALUES:
        return RankSet()
    try:
        return await _screened(answer.command, long, bounds, ask, limit_bytes)
    except NotRecordedError:
        return RankSet()


async def _screened(
    command: str,
    long: Sequence[EquivalenceClass[Record]],
    bounds: Sequence[tuple[str, object]],
    ask: Ask,
    limit_bytes: int,
) -> RankSet:
    expression = command.partition(" ")[2]
    left = RankSet.union(each.ranks for each in long)
    if not await _has_exact_extremes(command, expression, left, ask, limit_bytes):
        return RankSet()
    passing = RankSet()
    for _ in range(_MOST_ROUNDS):
        reduce = Reduce(expression=expression, limit_bytes=limit_bytes)
        said = await ask(command, reduce, left)
        summed = next((each for each in said.classes if each.columns), None)
        if summed is None:
            break
        found = passing_ranks(summed.columns[0], summed.ranks, bounds)
        passing |= found
        left -= found
        if summed.columns[0].block == 1 or not found or not left:
            break
    return passing


def passing_ranks(
    summary: Summary, ranks: RankSet, bounds: Sequence[tuple[str, object]]
) -> RankSet:
    """Return the ranks whose numbers all pass, by the extremes of each block of ranks."""
    failing = RankSet.union((summary.nan, summary.above, summary.below, summary.others))
    for cell in summary.cells:
        ends = (cell.low, cell.high)
        if not all(COMPARE[sign](end, bound) for sign, bound in bounds for end in ends):
            first = cell.number * summary.block
            failing |= RankSet.range(first, first + summary.block)
    return ranks - failing


async def _has_exact_extremes(
    command: str, expression: str, ranks: RankSet, ask: Ask, limit_bytes: int
) -> bool:
    """Return whether a summary rounds no element: it has doubles, not long doubles."""
    operation = Evaluate(
        expression=expression,
        most_elements=MOST_ELEMENTS,
        limit_bytes=limit_bytes,
        whole=True,
        keeps_history=True,
    )
    said = await ask(command, operation, RankSet([ranks.first]))
    wholes = [each.record.whole for each in said.classes if isinstance(each.record, Value)]
    return any(
        isinstance(whole, Block)
        and whole.dtype[1] in "biuf"
        and (whole.dtype[1] != "f" or int(whole.dtype[2:]) <= 8)
        for whole in wholes
    )
