"""Answers that nobody waits for any longer, merged when they come within a moment.

Most late ranks are late for one common reason, and answer one after the other when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.ranks import RankSet
from pgdb.records import Record

WINDOW_S = 0.15
"""Answers that come within this time are reported as one."""


class LateAnswers:
    """Merger and reporter of the late answers to each command."""

    def __init__(self, report: Callable[[Answer], None]) -> None:
        self._report = report
        self._kept: dict[int, tuple[str, Merger[Record]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self, request_id: int, command: str, classes: Sequence[EquivalenceClass[Record]]
    ) -> None:
        """Add answers to *command*."""
        _, merger = self._kept.setdefault(request_id, (command, Merger()))
        merger.add_classes(classes)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self.flush)

    def flush(self) -> None:
        """Report all answers now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = self._kept, {}
        for request_id, (command, merger) in kept.items():
            classes = merger.classes
            ranks = RankSet.union(each.ranks for each in classes)
            self._report(
                Answer(command=command, ranks=ranks, classes=classes, request_id=request_id)
            )
