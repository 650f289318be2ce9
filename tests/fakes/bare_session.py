"""A session without a job: the base of all sessions that tests make up."""

from __future__ import annotations

from collections.abc import Callable

from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event


class BareSession:
    """Ranks with a state, and what is no rank's: options, interfaces, notes and listeners."""

    is_recorded = False
    has_ended = False
    description = "fake"

    def __init__(self, ranks: RankSet = RankSet()) -> None:  # it is immutable
        self.set = ranks
        self.sets: dict[str, RankSet] = {}
        self.state = JobState(ranks)
        self.options = SessionOptions()
        self.interfaces = Interfaces()
        self.notes: list[str] = []
        self.listeners: list[Callable[[Notification], None]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def subscribe(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def numbered_on(self, text: str) -> str:
        return text

    def named_set(self, name: str) -> RankSet | None:
        found = self.sets.get(name)
        return found if found is not None else self.state.named(name)

    def apply(self, ranks: RankSet, event: Event) -> None:
        """Change the state as an event of some ranks does."""
        self.state.apply((EquivalenceClass(ranks=ranks, record=event),))
