"""Checks of conditions on ranks whose answers are given."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check, check
from pgdb.frontend.analysis.conditions import parse
from pgdb.merge.classes import Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record
from tests.support.answers import answer, ranks

ERROR = Failure(message='No symbol "x" in current context.')


async def no_recall(answer: Answer, ranks: RankSet) -> Answer:
    raise AssertionError(f"{answer.command} was recalled for {ranks}")


def checked(
    condition: str,
    *said: tuple[str, Mapping[str, str | Record]],
    running: str = "",
    ok: bool = False,
) -> Check:
    """Check a condition on ranks that give the answers *said* to each expression, in order."""
    left = [*said]

    async def ask(expression: str, asked: RankSet) -> Answer:
        wanted, values = left.pop(0)
        assert expression == wanted
        command = f"print {expression}"
        whole = answer(*values.items(), command=command)
        classes = tuple(each.part(asked) for each in whole.classes if each.ranks & asked)
        gone = Missing(running=asked & ranks(running))
        return Answer(command=command, ranks=asked, classes=classes, missing=gone)

    everybody = RankSet.union([ranks(members) for members in said[0][1]]) | ranks(running)
    found = asyncio.run(check(parse(condition), everybody, ask, no_recall, running_ok=ok))
    assert not left, f"not asked for: {left}"
    # Every rank is in exactly one of the sets.
    sets = [found.passed, found.failed, found.missing.ranks]
    assert RankSet.union(sets) == everybody
    assert sum(map(len, sets)) == len(everybody)
    return found
