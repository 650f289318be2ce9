"""A barrier with its state between two events. No I/O."""

from __future__ import annotations

import msgspec

from pgdb.frontend.api import absentees
from pgdb.frontend.api.absentees import Absent, Barrier, BarrierThen
from pgdb.frontend.api.arrivals import Arrival
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.job_state import JobState
from pgdb.ranks import RankSet


class Point(msgspec.Struct):
    """A barrier and its state."""

    arrival: Arrival
    location: str
    ranks: RankSet
    condition: str
    then: BarrierThen
    times: int
    met: int = 0
    incomplete: int = 0
    """The number of these times at which a rank was missing that could not come."""
    reported: tuple[Absent, ...] = ()
    """The ranks that are not there, as last reported."""
    awaited: tuple[RankSet, ...] = ()
    """The ranks that have arrived, the ranks that have not, and the stopped ones of the latter."""
    is_stuck: bool = False
    """Whether all ranks that are not there seem to wait for others."""
    has_news: bool = False
    """Whether ranks have arrived since the last report about those that are not there."""
    is_over: bool = False
    """Whether its breakpoint is deleted."""
    waits: int = 0
    """The number of callers that wait for it."""

    @property
    def number(self) -> int:
        """The number of its breakpoint."""
        return self.arrival.number

    @property
    def reason(self) -> str:
        """The reason for which ranks are held at it."""
        return f"barrier {self.number}"

    def arrived(self, state: JobState) -> RankSet:
        """Return the ranks that are held at it."""
        return state.held_for.get(self.reason, RankSet())

    def shown(self, state: JobState, journal: BreakpointJournal) -> Barrier:
        """Return the barrier as others see it."""
        return Barrier(
            number=self.number,
            location=self.location,
            ranks=self.ranks,
            condition=self.condition,
            then=self.then,
            times=self.times,
            met=self.met,
            incomplete=self.incomplete,
            arrived=self.arrived(state),
            absent=absentees.renewed(self.reported, state, journal),
        )
