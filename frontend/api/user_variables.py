"""Convenience variables of the user's, which the GDBs of another launch get with their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from pgdb.errors import PgdbError
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.settings_journal import UserVariable, VariablesOfRanks
from pgdb.frontend.api.traffic import Traffic
from pgdb.overlay.messages import MachineQuery
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Text

_READ = "list user variables"
_DEFINE = "define user variables"
_ANSWERS_S = 10.0
"""Longest wait for the variables of a job that is about to end."""
_SETS_ONE = pattern(r"set\s+(?:var\w*\s+)?\$[A-Za-z]\w*\s*=")


_DECODER = msgspec.json.Decoder(tuple[UserVariable, ...])


def sets_variable(line: str) -> bool:
    """Return whether a command gives a convenience variable a value.

    >>> sets_variable("set $n = rank"), sets_variable("set print pretty on")
    (True, False)
    """
    return _SETS_ONE.match(line) is not None


async def read_variables(core: Core, traffic: Traffic) -> tuple[VariablesOfRanks, ...]:
    """Return the variables of all ranks whose GDBs can be asked; a notice names other ranks."""
    state = core.state
    found: list[VariablesOfRanks] = []
    for ranks in (state.live, state.exited):
        if not ranks:
            continue
        try:
            answer = await traffic.ask(
                _READ,
                MachineQuery(command=_READ),
                ranks,
                timeout_s=_ANSWERS_S,
                of_ended=True,
            )
        except PgdbError:
            continue
        for each in answer.classes:
            if isinstance(record := each.filled, Text):
                found.append(VariablesOfRanks(each.ranks, _DECODER.decode(record.text)))
    unknown = state.ranks - RankSet.union(each.ranks for each in found)
    has_set = RankSet.union(each.ranks for each in core.settings.kept if sets_variable(each.line))
    if unknown & has_set:
        core.note(
            f"[{unknown & has_set}] could not be asked for convenience variables, which are lost"
        )
    return tuple(found)


async def define_variables(
    core: Core,
    traffic: Traffic,
    kept: Iterable[VariablesOfRanks],
    of: Callable[[RankSet], RankSet],
) -> None:
    """Define variables of an earlier launch; notices name those that have no value now.

    :param of: returns the ranks of this launch for ranks of the earlier one.
    """
    lost: dict[tuple[str, str], RankSet] = {}

    def lose(name: str, why: str, ranks: RankSet) -> None:
        lost[name, why] = lost.get((name, why), RankSet()) | ranks

    for each in kept:
        ranks = of(each.ranks)
        for one in each.variables:
            if one.why:
                lose(one.name, one.why, ranks)
        given = [[one.name, one.language, one.expression] for one in each.variables if not one.why]
        if not given or not ranks:
            continue
        query = MachineQuery(command=_DEFINE, arguments=(json.dumps(given),))
        answer = await traffic.ask(_DEFINE, query, ranks)
        for part in answer.classes:
            record = part.filled
            failed: dict[str, str] = json.loads(record.text) if isinstance(record, Text) else {}
            for name, why in failed.items():
                lose(name, why, part.ranks)
    for (name, why), ranks in lost.items():
        if ranks:
            core.note(f"[{ranks}] ${name} has no value in the new launch: {why}")
