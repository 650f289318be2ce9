"""Find runs in a sequence: recursion makes them in a call stack."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

_LONGEST_CYCLE = 2
"""Longest cycle of functions that call each other; longer ones are rare and are not searched."""


class Run(NamedTuple):
    """Repeated items: the *period* items from *start* on, *times* times."""

    start: int
    period: int
    times: int

    @property
    def length(self) -> int:
        """Number of items in the run."""
        return self.period * self.times


def runs(items: Sequence[Hashable]) -> Iterator[Run]:
    """Divide *items* into runs, in order; an item that does not repeat is a run of its own.

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
    """Return whether the *period* items from *at* on equal the ones before them."""
    return at + period <= len(items) and all(
        items[at + offset] == items[at + offset - period] for offset in range(period)
    )
