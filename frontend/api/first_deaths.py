"""The ranks that died first, which the deaths of others name. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Stop, is_fatal

E = TypeVar("E", bound=Stop | Exit)


class FirstDeaths:
    """The first deaths of a job.

    A launcher ends the other ranks of a job when one has died: by SIGTERM, at which they stop, and
    by SIGKILL. A rank that ends by such a signal can be the first as well (the kernel's SIGKILL
    when memory is short), but it is no reason for the same signal at others: their ends come in
    any order.
    """

    def __init__(self) -> None:
        self._dying = RankSet()
        """The first ranks that were about to die, or have ended by themselves."""
        self._killed = RankSet()
        """The first ranks that a signal of a launcher's has ended."""
        self._before = RankSet()
        self._together = RankSet()
        self._at_death = RankSet()
        """Ranks that are stopped before their death."""
        self._doomed = RankSet()
        """The first ranks that the user has let run on to their death."""

    def begin(self, classes: Iterable[EquivalenceClass[Event]]) -> None:
        """Begin with events that came together: deaths among them may be in any order."""
        self._before = self._dying
        self._together = RankSet.union(
            each.ranks
            for each in classes
            if isinstance(each.record, Exit)
            and has_failed(each.record)
            and not _is_by_launcher(each.record)
        )

    def with_first(self, event: E, ranks: RankSet, killed: RankSet) -> E:
        """Return an event of *ranks* with the ranks that died before.

        No death before is the reason for the SIGKILL of ranks that the user has *killed*.
        """
        if isinstance(event, Stop):
            self._take_stop(event, ranks)
        if isinstance(event, Stop) and is_fatal(event):
            self._dying = self._before or self._dying | ranks
            return replace(event, after=str(self._before))
        if _is_by_launcher(event):
            # The launcher may end a rank in MPI_Abort as it ends the others.
            first = self._before or self._together or self._doomed
            if isinstance(event, Stop):
                first = first or self._killed
            else:
                self._killed = self._killed or ranks
                if ranks <= killed:
                    return event
            return replace(event, after=str(first - ranks))
        if isinstance(event, Exit) and has_failed(event):
            self._dying = self._before or self._dying | ranks
        return event

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
        self._dying = self._dying - ranks

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
