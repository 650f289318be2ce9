"""Stop of the launcher while the user looks at ranks that it wants to end.

When a rank dies, most launchers send SIGTERM to the others, at which GDB stops them, and SIGKILL a
moment later, which nothing stops. So the launcher of a job that PGDB has launched is stopped
(SIGSTOP) when its ranks have stopped at SIGTERM, and continued as soon as one of them runs, is
detached, killed or lost, and at the end of the session. The keeper of the job's output continues it
if the front end dies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.closing import Job
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.first_deaths import has_failed
from pgdb.frontend.api.notifications import Events
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop

_MOST_LOOKED_AT = 64
"""Ranks whose ancestors are looked at: those of a host mostly have one parent."""


class LauncherHold:
    """Hold on the launcher of a launched job: it is stopped, and continued."""

    def __init__(self, core: Core, job: Callable[[], Job | None]) -> None:
        self._core = core
        self._job = job
        self._dead = RankSet()
        """Ranks that have ended by a failure, and that the user has not killed."""
        self._ranks = RankSet()
        """Ranks for which the launcher is held."""
        self._pids: tuple[int, ...] = ()
        """The processes that are stopped."""

    def on_events(self, news: Events) -> None:
        """Stop the launcher when it has begun to end ranks."""
        asked_to_end = RankSet()
        for each in news:
            if isinstance(each.record, Exit) and has_failed(each.record):
                self._dead = self._dead | (each.ranks - self._core.state.killed)
            elif isinstance(each.record, Stop) and _is_asked_to_end(each.record):
                asked_to_end = asked_to_end | each.ranks
        if asked_to_end and self._dead and self._core.is_started:
            self._hold(asked_to_end & self._core.state.stopped)

    def on_change(self) -> None:
        """Continue the launcher when the ranks are no longer all there to be looked at."""
        if self._pids and (self._core.is_over or not self._ranks <= self._core.state.stopped):
            self.release()

    def release(self) -> None:
        """Continue the launcher."""
        pids, self._pids, self._ranks = self._pids, (), RankSet()
        job = self._job()
        if pids and job is not None:
            job.resume(pids)

    def _hold(self, ranks: RankSet) -> None:
        job = self._job()
        if job is None or job.has_ended or not ranks:
            return
        if self._pids:
            self._ranks = self._ranks | ranks
            return
        # A rank of another host has no ancestors here; its process id finds some by chance only.
        those = (each.pid for each in self._core.table.processes if each.rank in ranks)
        found = map(job.ancestors_of, itertools.islice(those, _MOST_LOOKED_AT))
        pids = tuple(sorted(set(itertools.chain.from_iterable(found))))
        if pids:
            job.pause(pids)
            self._pids, self._ranks = pids, ranks
            self._core.note(
                f"[{self._dead}] died, and the launcher ends the others; it is held (SIGSTOP) "
                f"while [{ranks}] {by_number(ranks, 'is', 'are')} stopped. Run commands, 'detach', "
                "'kill' and 'quit' let it go on"
            )


def _is_asked_to_end(stop: Stop) -> bool:
    """Return whether a launcher's signal has stopped a rank, and not one of its own."""
    return stop.signal == "SIGTERM" and stop.reason != "death"
