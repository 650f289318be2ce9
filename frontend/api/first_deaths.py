"""The ranks that died first, which the deaths of others name. No I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Stop, is_fatal

E = TypeVar("E", bound=Stop | Exit)

MOST_LEAVING_S = 2.0
"""Most seconds from the end of a rank that leaves without MPI_Finalize to that of the others."""
_MOST_MOMENTS = 8
"""Most moments of deaths that later deaths name one by one.

Stops are merged by their fields, and the ranks that died before are one of them: with as many
moments as ranks each rank would be a class of its own.
"""


class FirstDeaths:
    """The first deaths of a job.

    A launcher ends the other ranks of a job when one has died: by SIGTERM, at which they stop, and
    by SIGKILL. A rank that ends by such a signal can be the first as well (the kernel's SIGKILL
    when memory is short), but it is no reason for the same signal at others: their ends come in
    any order.

    A launcher also ends the others when a rank has ended with status 0 without MPI_Finalize. No
    event says whether it has called that, so that the time decides: ranks that are ended at once
    right behind a good end are ended because of it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first = RankSet()
        """The first ranks that were about to die, or have ended by themselves."""
        self._dying = RankSet()
        """All such ranks, of the first moments."""
        self._moments = 0
        self._killed = RankSet()
        """The first ranks that a signal of a launcher's has ended."""
        self._left = RankSet()
        """The last ranks that have ended with status 0."""
        self._left_at_s = 0.0
        self._first_before = RankSet()
        self._before = RankSet()
        self._together = RankSet()
        self._at_death = RankSet()
        """Ranks that are stopped before their death."""
        self._doomed = RankSet()
        """The first ranks that the user has let run on to their death."""

    def begin(self, classes: Iterable[EquivalenceClass[Event]], live: RankSet) -> None:
        """Begin with events that came together: deaths among them may be in any order.

        *live* are the ranks that had not ended before, and that the user has not killed.
        """
        classes = tuple(classes)
        if self._dying != self._before and self._moments < _MOST_MOMENTS:
            self._before = self._dying
            self._moments += 1
        self._together = RankSet.union(
            each.ranks
            for each in classes
            if isinstance(each.record, Exit)
            and has_failed(each.record)
            and not _is_by_launcher(each.record)
        )
        left = self._left_before(classes, live)
        if not self._together and not self._doomed:
            self._first = self._first or left
        self._first_before = self._first

    def _left_before(self, classes: Iterable[EquivalenceClass[Event]], live: RankSet) -> RankSet:
        """Return the ranks with a good end for which a launcher ends others, most likely.

        One rank of several can be ended for another reason: the kernel's memory is short. Where
        others are ended behind it, either can be the reason, and both are returned.
        """
        good, ended = RankSet(), RankSet()
        for each in classes:
            if isinstance(each.record, Stop | Exit) and _is_by_launcher(each.record):
                ended |= each.ranks & live
            elif isinstance(each.record, Exit) and each.record.code == 0:
                good |= each.ranks & live
        now_s = self._clock()
        if now_s - self._left_at_s > MOST_LEAVING_S:
            self._left = RankSet()
        if good:
            self._left, self._left_at_s = self._left | good, now_s
        is_at_once = len(ended) > 1 or ended == live - good or bool(self._killed)
        return self._left | self._killed if self._left and ended and is_at_once else RankSet()

    def with_first(self, event: E, ranks: RankSet, killed: RankSet) -> E:
        """Return an event of *ranks* with the ranks that died before.

        No death before is the reason for the SIGKILL of ranks that the user has *killed*.
        """
        if isinstance(event, Stop):
            self._take_stop(event, ranks)
        if isinstance(event, Stop) and is_fatal(event):
            self._note(ranks)
            return replace(event, after=str(self._before - ranks))
        if _is_by_launcher(event):
            # The launcher may end a rank in MPI_Abort as it ends the others.
            first = self._first_before or self._together or self._doomed
            if isinstance(event, Stop):
                first = first or self._killed
            else:
                self._killed = self._killed or ranks
                if ranks <= killed:
                    return event
            return replace(event, after=str(first - ranks))
        if isinstance(event, Exit) and has_failed(event):
            self._note(ranks)
        return event

    def _note(self, ranks: RankSet) -> None:
        """Note that *ranks* are about to die, or have ended by themselves."""
        self._first = self._first_before or self._first | ranks
        if self._moments < _MOST_MOMENTS:
            self._dying |= ranks

    def _take_stop(self, stop: Stop, ranks: RankSet) -> None:
        """Note that *ranks* have not died yet; an interrupt does not save them from it."""
        self._at_death -= ranks
        if stop.reason == "death":
            self._at_death |= ranks
        if stop.reason != "interrupted" and not _is_by_launcher(stop):
            self._doomed -= ranks

    def forget(self, ranks: RankSet) -> None:
        """Note that ranks run, which were about to die."""
        self._doomed = self._doomed or ranks & self._at_death
        self._at_death -= ranks
        self._first -= ranks
        self._dying -= ranks
        self._before -= ranks
        if not self._dying:
            self._moments = 0

    def parts(self, event: Event, ranks: RankSet, killed: RankSet) -> tuple[RankSet, ...]:
        """Return the *ranks* of one event, as parts that died for one reason."""
        if not isinstance(event, Exit):
            return (ranks,)
        by_user = ranks & killed
        first = ranks & self._doomed - by_user
        return tuple(part for part in (by_user, first, ranks - by_user - first) if part)


def has_failed(end: Exit) -> bool:
    """Return whether a rank has ended by a signal or with a status other than 0."""
    return bool(end.signal) or bool(end.code)


def _is_by_launcher(event: Stop | Exit) -> bool:
    return event.signal in ("SIGTERM", "SIGKILL")
