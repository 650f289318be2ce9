"""Stops at several breakpoints at once: the breakpoints that each rank has stopped at."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Stop, StopReason, stopped_at

TEMPORARY = "Temporary breakpoint"
_WORDS = {
    "catchpoint": "Catchpoint",
    "hw watchpoint": "Hardware watchpoint",
    "read watchpoint": "Hardware read watchpoint",
    "acc watchpoint": "Hardware access (read/write) watchpoint",
}
"""GDB's words for a hit of a breakpoint of a kind, unless it is an ordinary one."""


def partition(ranks: RankSet, theirs: Mapping[int, RankSet]) -> dict[tuple[int, ...], RankSet]:
    """Return *ranks* by the breakpoints that are for them, where *theirs* has the ranks of each.

    >>> partition(RankSet.parse("0-2"), {1: RankSet.parse("0"), 4: RankSet.parse("0-1")})
    {(1, 4): RankSet('0'), (4,): RankSet('1'), (): RankSet('2')}
    """
    parts: dict[tuple[int, ...], RankSet] = {(): ranks}
    for number, own in theirs.items():
        split: dict[tuple[int, ...], RankSet] = {}
        for numbers, part in parts.items():
            if inside := part & own:
                split[(*numbers, number)] = inside
            if outside := part - own:
                split[numbers] = outside
        parts = split
    return parts


def at_others(latest: Iterable[EquivalenceClass[Event]], numbers: Container[int]) -> RankSet:
    """Return the ranks that a breakpoint has stopped which has none of these *numbers*."""
    return RankSet.union(
        each.ranks
        for each in latest
        if any(number not in numbers for number in stopped_at(each.record))
    )


def stop_at_another(stop: Stop, kind: str, *, is_temporary: bool) -> Stop:
    """Return a stop at several breakpoints as one at another of them, which is of that kind.

    GDB's words are about the breakpoint with the least number.
    """
    hit = _WORDS.get(kind, TEMPORARY if is_temporary else "")
    reason: StopReason = "watchpoint-trigger" if "watchpoint" in kind else "breakpoint-hit"
    return replace(stop, reason=reason, hit=hit, event="", detail="", values=(), location=0)
