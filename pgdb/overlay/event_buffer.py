"""Events of ranks that a node has not sent up yet. No I/O."""

from __future__ import annotations

from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.ranks import RankSet
from pgdb.records import Event, Output


class EventBuffer:
    """Merger of events that are close together, which keeps the order of each rank's events."""

    def __init__(self) -> None:
        self._batches: list[Merger[Event]] = []
        self.has_output = False
        """Whether text that ranks have printed is among the events."""

    def add(self, ranks: RankSet, record: Event, slots: tuple[str, ...]) -> None:
        """Add an event of *ranks*, after all their earlier events."""
        self.has_output |= isinstance(record, Output)
        # The event goes into the batch after the last one that has an event of one of these ranks.
        for number in range(len(self._batches) - 1, -1, -1):
            if not self._batches[number].ranks.isdisjoint(ranks):
                at = number + 1
                break
        else:
            at = 0
        if at == len(self._batches):
            self._batches.append(Merger())
        self._batches[at].add(ranks, record, slots)

    def take(self) -> list[tuple[EquivalenceClass[Event], ...]]:
        """Return the batches so far, oldest first, and forget them."""
        batches, self._batches, self.has_output = self._batches, [], False
        return [batch.classes for batch in batches]

    def __bool__(self) -> bool:
        return bool(self._batches)
