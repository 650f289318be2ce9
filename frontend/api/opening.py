"""The start of a session, from its first rank to the report of where all were stopped."""

from __future__ import annotations

import asyncio
import contextlib

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import Notification, RankEvents, Starting
from pgdb.frontend.api.recovery import Recovery, stops_in
from pgdb.frontend.api.traffic import Traffic
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop


class Opening:
    """The start of one session."""

    def __init__(self, core: Core, traffic: Traffic, recovery: Recovery) -> None:
        self._core = core
        self._traffic = traffic
        self._recovery = recovery
        self.stage = ""
        """The event that the start waits for, in words."""
        self.answer: Answer | None = None
        """The places where the ranks were stopped."""

    def begin(self, ranks: RankSet) -> None:
        """Set the ranks of the session; all count as running until they have stopped."""
        core = self._core
        core.state = JobState(ranks)
        core.state.start_run(0, ranks)
        core.notifier.notify_at_once(Starting(hosts=hosts_of(core.table)))

    def begin_recorded(self, state: JobState, answer: Answer) -> None:
        """Start with the state that a recording holds."""
        self._core.state = state
        self.answer = answer
        self._core.notifier.release()

    def complete(self, answer: Answer) -> None:
        """Apply the places where the ranks were stopped, and deliver what was held back."""
        core, traffic = self._core, self._traffic
        self.answer = answer
        # Some ranks have answered and were lost before the others answered. The answers of others
        # that were lost for a moment came when they were back.
        lost = core.transport.out_of_reach | traffic.died_early
        for each in answer.classes:
            if not isinstance(each.record, Stop | Exit):
                core.state.lose(each.ranks)
        # Some were cut off with their answer, and are back.
        core.state.lose(answer.missing.ranks - core.state.stopped)
        core.state.apply(stops_in(answer.classes, lost), are_announced=True)
        core.notifier.release()
        for gathered in traffic.early:
            traffic.on_late(gathered)
        traffic.early.clear()
        self._recovery.acquire_rest()
        core.wake()

    async def wait_orphans(self, timeout_s: float) -> None:
        """Wait for a rank that was lost at the start with an aggregator above its own.

        Its own aggregator looks for another way, and may find none in time.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.orphans_are_back:
                    await self._core.wait_change()

    @property
    def orphans_are_back(self) -> bool:
        """Whether a rank is stopped that was lost before the session has started."""
        return bool(self._core.state.stopped) or any(
            isinstance(each.record, Stop)
            for gathered in self._traffic.early
            for each in gathered.classes
        )

    def notifications(self) -> tuple[Notification, ...]:
        """Return the places where the ranks were stopped, as notifications."""
        if classes := self._core.state.latest(self._core.state.ranks):
            return (RankEvents(classes=classes),)
        return ()


def hosts_of(table: ProcTable) -> dict[str, RankSet]:
    """Return the ranks of each host."""
    return {
        host: RankSet(each.rank for each in table.processes if each.host == host)
        for host in table.hosts
    }
