"""Values that a body needs from the ranks' GDBs: the truth of a condition, the text of an eval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.asked_conditions import truth
from pgdb.frontend.analysis.full_answers import kept_back, pages
from pgdb.frontend.api.gdb_blocks import argument_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Text, Value

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session


class Condition(msgspec.Struct, frozen=True):
    """Ranks on which the condition of an ``if`` or ``while`` is true or false."""

    true: RankSet
    false: RankSet
    answer: Answer
    """The errors, and the ranks without an answer."""


async def condition(session: Session, ranks: RankSet, expression: str) -> Condition:
    """Evaluate the condition of an ``if`` or ``while`` as GDB does."""
    answer = await session.ranks(ranks).evaluate_in_full(expression)
    scalars, void, others = _sorted(answer.classes)
    found = truth(replace(answer, classes=scalars))
    true, false, errors = found.true, found.false | void, found.errors
    if others:
        # GDB takes an array for its address, as C does; a structure is true if one of its bytes is.
        lines = (f"if {expression}", "echo 1\\n", "else", "echo 0\\n", "end")
        said = await session.ranks(others).script(lines)
        true |= _ranks_with(said.classes, "1")
        false |= _ranks_with(said.classes, "0")
        errors += said.errors
    return Condition(true, false, replace(answer, classes=errors))


def _sorted(
    classes: Iterable[EquivalenceClass[Record]],
) -> tuple[tuple[EquivalenceClass[Record], ...], RankSet, RankSet]:
    """Return the classes with a number, a pointer or an error, the ranks without a value, and the
    ranks with a value of several parts."""
    scalars: list[EquivalenceClass[Record]] = []
    void, others = RankSet(), RankSet()
    for each in classes:
        text = each.record.text if isinstance(each.record, Value) else ""
        if text == "void":
            void |= each.ranks
        elif text.startswith(("{", '"')):
            others |= each.ranks
        else:
            scalars.append(each)
    return tuple(scalars), void, others


def _ranks_with(classes: Iterable[EquivalenceClass[Record]], text: str) -> RankSet:
    return RankSet.union(
        each.ranks
        for each in classes
        if isinstance(each.record, Text) and each.record.text.strip() == text
    )


async def formatted(
    session: Session, ranks: RankSet, line: str
) -> tuple[list[tuple[RankSet, str]], Answer]:
    """Return the texts that an ``eval`` makes, with their ranks, and the errors and ranks without
    an answer."""
    answer = await session.ranks(ranks).execute_plain(f"printf {argument_of(line)}")
    left = kept_back(answer)
    texts = _texts(each for each in answer.classes if each.ranks.isdisjoint(left))
    missing = answer.missing
    # Carried out again, a '$i++' among the arguments would count twice.
    for page in pages(left):
        part = await session.recall(answer, page)
        texts += _texts(part.classes)
        missing |= part.missing
    return texts, replace(answer, command=line, classes=answer.errors, missing=missing)


def _texts(classes: Iterable[EquivalenceClass[Record]]) -> list[tuple[RankSet, str]]:
    return [(each.ranks, said.text) for each in classes if isinstance(said := each.filled, Text)]
