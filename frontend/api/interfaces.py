"""The user interfaces of a session, and the runs that each of them has started.

The focus belongs to the user interface. The session asks here for the focus that a stop is about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Protocol
from weakref import WeakSet

from pgdb.ranks import RankSet

_MOST_RUNS = 100


class Interface(Protocol):
    """A user interface, as the session sees it."""

    @property
    def focus(self) -> RankSet:
        """The ranks that its commands act on."""


_ACTING: ContextVar[Interface | None] = ContextVar("pgdb_acting_interface", default=None)
"""The user interface whose command is carried out."""


@contextlib.contextmanager
def acting(interface: Interface) -> Iterator[None]:
    """Attribute the runs that begin within the context, and in its tasks, to *interface*."""
    token = _ACTING.set(interface)
    try:
        yield
    finally:
        _ACTING.reset(token)


class Interfaces:
    """The user interfaces of one session."""

    def __init__(self) -> None:
        self._open: WeakSet[Interface] = WeakSet()
        self._of_run: dict[int, Interface] = {}

    def add(self, interface: Interface) -> None:
        """Add a user interface, for as long as it is in use."""
        self._open.add(interface)

    def on_run(self, number: int, before: int = 0) -> None:
        """Note a run of the acting interface, or of that of the run *before* it."""
        interface = self._of_run.get(before) if before else _ACTING.get()
        if interface is not None and number not in self._of_run:
            self._of_run[number] = interface
        while len(self._of_run) > _MOST_RUNS:
            del self._of_run[next(iter(self._of_run))]

    def focus(self, run: int, ranks: RankSet, everything: RankSet) -> RankSet:
        """Return the focus that a stop of *ranks* in a run is about; empty if it has none of them.

        It is the focus of the interface that started the run. A run that no interface has started,
        of a script for example, is about each focus that has some of the ranks, and about
        *everything* in a session without user interfaces.
        """
        if (owner := self._of_run.get(run)) is not None:
            found = [owner.focus]
        else:
            found = [each.focus for each in self._open] or [everything]
        return RankSet.union(focus for focus in found if not focus.isdisjoint(ranks))
