"""Ranks that MPI_Comm_spawn has started: notes about those that are not in the session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from pgdb.frontend.api.notifications import Notification, RankEvents
from pgdb.frontend.api.session import Session
from pgdb.frontend.discovery.found_job import World
from pgdb.frontend.discovery.worlds import worlds_of
from pgdb.records import Stop

_LEAST_PAUSE_S = 2.0
"""Time between two searches, which read the processes below the launcher."""
_MOST_OF_TIME = 50
"""Time between two searches, as a multiple of the time that one takes."""


def notes_of(worlds: Sequence[World], launcher_pid: int) -> list[str]:
    """Return notes about the worlds of a job, for its start and where further ones appear."""
    absent = [each for each in worlds if not each.ranks]
    present = [each for each in worlds if each.ranks]
    notes = []
    if len(present) > 1:
        listed = ", ".join(
            f"[{each.ranks}] are {each.number}.0-{len(each.ranks) - 1} (@world{each.number})"
            for each in present
        )
        notes.append(f"the ranks of {len(present)} worlds are numbered on: {listed}")
    if absent:
        listed = "; ".join(each.describe() for each in absent)
        notes.append(
            f"not in this session, for MPI_Comm_spawn makes worlds of their own: {listed}; "
            f"'pgdb attach --world {absent[0].number} {launcher_pid}' attaches to one of them, "
            "'--world all' to all"
        )
    return notes


class SpawnWatch:
    """Looks for further worlds of a launcher of this host when ranks have stopped.

    The launcher's own ranks are known already, and so are the processes *known*.
    """

    def __init__(self, session: Session, launcher_pid: int, known: Iterable[int] = ()) -> None:
        self._session = session
        self._launcher_pid = launcher_pid
        self._known = set(known)
        self._next_s = 0.0
        self._search: asyncio.Task[None] | None = None
        session.subscribe(self._on_notification)

    def _on_notification(self, notification: Notification) -> None:
        if not isinstance(notification, RankEvents) or self._session.has_ended:
            return
        if self._search is not None and not self._search.done():
            return
        has_stop = any(isinstance(each.record, Stop) for each in notification.classes)
        if has_stop and time.monotonic() >= self._next_s:
            self._search = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        begun_s = time.monotonic()
        worlds = await asyncio.to_thread(worlds_of, self._launcher_pid, {})
        now_s = time.monotonic()
        self._next_s = now_s + max(_LEAST_PAUSE_S, _MOST_OF_TIME * (now_s - begun_s))
        new = [each for each in worlds if each.number and not self._known.issuperset(each.pids)]
        self._known.update(pid for each in new for pid in each.pids)
        if not self._session.has_ended:
            for note in notes_of(new, self._launcher_pid):
                self._session.note(note)
