"""Ranks for which a place is behind them: the start of their program's main function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.absentees import Absent
from pgdb.overlay.messages import Backtrace
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Stack

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

# A method A::main is called as often as any function.
_MAIN = pattern(r"(?:\A|\A-function\s+|(?<!:):)(main|MAIN__)\s*\Z")
_OUTERMOST = Backtrace(limit=-2)
"""Question for the outermost frames: a Fortran program has MAIN__ below main."""


async def past_main(session: Session, location: str, ranks: RankSet) -> tuple[Absent, ...]:
    """Return the stopped ones of *ranks* that are in main already, if *location* is its start."""
    stopped = ranks & session.state.stopped
    match = _MAIN.search(location)
    if match is None or not stopped:
        return ()
    answer = await session.ask("backtrace -2", _OUTERMOST, stopped, is_own=True)
    inside = RankSet.union(
        each.ranks
        for each in answer.classes
        if isinstance(stack := each.record, Stack)
        and any(frame.function == match[1] for frame in stack.frames)
    )
    if not inside:
        return ()
    is_ = by_number(inside, "is", "are")
    text = f"{is_} in {match[1]} already, and will not come to its start again"
    return (Absent(inside, "stopped", text),)
