"""Reports that no rank causes: those on request, those every so often, that before a time limit."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from pgdb.frontend.run import time_limit
from pgdb.frontend.run.options import RunOptions, in_words
from pgdb.frontend.run.snapshots import Snapshots
from pgdb.frontend.run.time_limit import TimeLimit

Kind = Literal["request", "snapshot", "time-limit"]


class Log(Protocol):
    """Receiver of facts about a run."""

    def add_notice(self, text: str) -> None:
        """Add a notice to the time line."""

    def add_note(self, text: str) -> None:
        """Add a fact that could not be found out."""

    def say(self, text: str) -> None:
        """Print a line for the user."""


class Occasions:
    """Sources of events that a run with and one without debuggers have in common."""

    def __init__(
        self,
        options: RunOptions,
        log: Log,
        ask: Callable[[Kind, str], None],
        *,
        find: Callable[[], TimeLimit | None] = time_limit.find,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Note the time from which ``--wall-time`` counts: the job starts later.

        :param ask: Called for each report, with the reason in words.
        """
        self._options = options
        self._log = log
        self._ask = ask
        self._find = find
        self._now = now
        self._begun = now()
        self._tasks: list[asyncio.Future[None]] = []
        self._snapshots = Snapshots(
            options.snapshot_every_s, lambda text: self._ask("snapshot", text)
        )

    def watch_requests(self) -> None:
        """Take SIGUSR1 as a request from now on."""
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGUSR1, self._ask, "request", "a report was requested with SIGUSR1"
        )

    def begin_timers(self) -> None:
        """Wait for the times that the options name."""
        if self._options.snapshot_every_s:
            self.begin(self._snapshots.run())
        if self._options.before_timeout_s:
            self.begin(self.wait_time_limit())

    def begin(self, work: Awaitable[None]) -> None:
        """Start a task that ends with the run."""
        self._tasks.append(asyncio.ensure_future(work))

    def written(self) -> None:
        """Note that a report on request was written."""
        self._snapshots.done()

    async def close(self) -> None:
        """End all tasks."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_time_limit(self) -> None:
        """Ask for a report before the time limit; at once if it is nearer than that already."""
        limit = await self._limit()
        if limit is None:
            self._log.add_note(
                "--before-timeout: no batch system here names a time limit; --wall-time gives it"
            )
            self._log.say("--before-timeout: no time limit was found; give it with --wall-time")
            return
        left_s = limit.end - self._now()
        self._log.add_notice(f"the time limit is in {left_s:.0f} s ({limit.source})")
        before_s = self._options.before_timeout_s
        await asyncio.sleep(max(left_s - before_s, 0.0))
        self._ask("time-limit", f"{in_words(before_s)} before the time limit ({limit.source})")

    async def _limit(self) -> TimeLimit | None:
        if wall_time_s := self._options.wall_time_s:
            return TimeLimit(self._begun + wall_time_s, "--wall-time")
        return await asyncio.to_thread(self._find)
