"""Runs in a sequence: what recursion makes of a call stack."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

_LONGEST_CYCLE = 2
"""Functions that call each other in turn; longer cycles are rare, and not looked for."""


class Run(NamedTuple):
    """Items that repeat: *times* times the *period* ones from *start* on."""

    start: int
    period: int
    times: int

    @property
    def length(self) -> int:
        """Number of items in the run."""
        return self.period * self.times


def runs(items: Sequence[Hashable]) -> Iterator[Run]:
    """Divide *items* into runs, in order; what does not repeat is a run of one item.

    >>> [tuple(run) for run in runs("abbbcdcdcde")]
    [(0, 1, 1), (1, 1, 3), (4, 2, 3), (10, 1, 1)]
    """
    at = 0
    while at < len(items):
        found = Run(at, 1, 1)
        for period in range(1, _LONGEST_CYCLE + 1):
            times = 1
            while _is_again(items, at + period * times, period):
                times += 1
            if times > 1 and period * times > found.length:
                found = Run(at, period, times)
        yield found
        at += found.length


def _is_again(items: Sequence[Hashable], at: int, period: int) -> bool:
    """Return whether the *period* items from *at* on are those before them."""
    return at + period <= len(items) and all(
        items[at + offset] == items[at + offset - period] for offset in range(period)
    )
