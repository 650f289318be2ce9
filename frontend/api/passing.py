"""Ranks that PGDB has stopped for a purpose of its own, and is about to set running."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from pgdb.frontend.api.notifications import Events, RankEvents, was_interrupted
from pgdb.ranks import RankSet
from pgdb.records import Exit, Gone, Stop

if TYPE_CHECKING:
    from pgdb.frontend.api.core import Core


class Passing(msgspec.Struct):
    """Ranks that PGDB stops for one purpose of its own, and sets running afterwards."""

    ranks: RankSet
    counts: bool = True
    """Whether the ranks count as running for those who wait for their stops."""
    is_own: Callable[[Stop], bool] = was_interrupted
    """Function that returns whether a stop is for the purpose."""


class PassingRanks:
    """The ranks that count as running for those who wait for their stops."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._purposes: list[Passing] = []

    @contextlib.contextmanager
    def within(self, ranks: RankSet) -> Iterator[Passing]:
        """Count *ranks* as running within the context."""
        passing = self.begin(ranks)
        try:
            yield passing
        finally:
            self.end(passing)

    @contextlib.contextmanager
    def borrowed(self, ranks: RankSet, is_own: Callable[[Stop], bool]) -> Iterator[Passing]:
        """Keep *ranks* to be set running behind the context; stops for it are those that are own.

        They count as stopped, so that the purpose itself can wait for their stops.
        """
        passing = Passing(ranks, counts=False, is_own=is_own)
        self._purposes.append(passing)
        try:
            yield passing
        finally:
            self.end(passing)

    @property
    def all(self) -> RankSet:
        """The ranks that are to run, whether or not they count as running."""
        return RankSet.union(each.ranks for each in self._purposes)

    def begin(self, ranks: RankSet) -> Passing:
        """Count *ranks* as running until :meth:`end`; return those that still are to run.

        Two purposes can have the same ranks: each sets running those that it has stopped.
        """
        passing = Passing(ranks)
        self._purposes.append(passing)
        self._count()
        return passing

    def end(self, passing: Passing) -> None:
        """Count the ranks as what they are again, except for those of another purpose."""
        self._purposes = [each for each in self._purposes if each is not passing]
        self._count()
        # They may have stopped for good meanwhile.
        self._core.wake()

    def take(self, ranks: RankSet) -> RankSet:
        """Leave ranks where they stop for PGDB; return those that were stopped already.

        No purpose sets them running again, and their later stops are reported.
        """
        ranks = self._leave(ranks)
        self._core.notifier.end_hush(ranks)
        return ranks & self._core.state.stopped

    def take_and_report(self, ranks: RankSet) -> RankSet:
        """Do as :meth:`take`, and report the stops, which were no news so far."""
        stopped = self.take(ranks)
        if classes := self._core.state.latest(stopped):
            self._core.notifier.notify(RankEvents(classes=classes))
        if stopped:
            self._core.wake()
        return stopped

    def on_events(self, classes: Events) -> None:
        """Count ranks as what they are that have stopped for good, or have ended, meanwhile."""
        for each in self._purposes:
            each.ranks -= RankSet.union(
                event.ranks for event in classes if _is_for_good(event.record, each.is_own)
            )
        if self._purposes:
            self._count()

    def on_lost(self, ranks: RankSet) -> None:
        """Count ranks as lost that cannot be reached."""
        self._leave(ranks)

    def _leave(self, ranks: RankSet) -> RankSet:
        if ranks := ranks & self.all:
            for each in self._purposes:
                each.ranks -= ranks
            self._count()
        return ranks

    def _count(self) -> None:
        counted = (each.ranks for each in self._purposes if each.counts)
        self._core.state.passing = RankSet.union(counted)


def _is_for_good(event: object, is_own: Callable[[Stop], bool]) -> bool:
    if isinstance(event, Stop):
        return not is_own(event)
    return isinstance(event, Exit | Gone)
