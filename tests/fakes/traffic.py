"""Traffic that notes whom it asks, and answers by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet


class FakeTraffic:
    """Traffic whose ranks answer at once, except those in :attr:`late`."""

    def __init__(self) -> None:
        self.silent = RankSet()
        self.late = RankSet()
        self.asked: list[str] = []
        """The ranks of each request."""
        self.operations: list[Any] = []
        self.of_ended = False
        """Whether the last request was for ranks that have ended as well."""

    async def ask_quietly(
        self, operation: Any, ranks: RankSet, *, timeout_s: float, of_ended: bool = False
    ) -> Gathered:
        self.of_ended = of_ended
        self.asked.append(str(ranks))
        self.operations.append(operation)
        late = ranks & self.late
        there = ranks - late
        classes = tuple(self.answers(operation, there)) if there else ()
        return Gathered(1, classes, Missing(late=late))

    def answers(self, operation: Any, ranks: RankSet) -> Iterable[EquivalenceClass]:
        """Return the answers of *ranks*."""
        raise NotImplementedError
