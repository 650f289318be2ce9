"""The time for which ranks are held, and its limit.

A process group of PyTorch ends its job when a rank does not answer within the group's time-out,
and a rank that is stopped does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from pgdb.frontend.api.core import Core
from pgdb.ranks import RankSet


class HoldTime:
    """Measure of the time that ranks are stopped; detaches at the limit of the user."""

    def __init__(
        self,
        core: Core,
        detach: Callable[[RankSet], Awaitable[object]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group_s = 0.0
        """Time-out of the job's process groups, in seconds; 0 if none is known."""
        self._core = core
        self._detach = detach
        self._clock = clock
        self._begun = 0.0
        self._since: list[tuple[float, RankSet]] = []  # earliest first

    def begin(self) -> None:
        """Note that GDBs are about to attach to running ranks, and watch the limit."""
        self._begun = self._clock()
        self._core.begin(self._watch())

    @property
    def held_s(self) -> float:
        """Longest time for which a stopped rank is stopped, in seconds; 0 if none is."""
        self._update()
        return self._clock() - self._since[0][0] if self._since else 0.0

    def text(self) -> str:
        """Return the time and its limit for the status line; empty if there is no limit."""
        limit_s, what = self._core.options.max_hold_s, "--max-hold"
        if not limit_s or 0 < self.group_s < limit_s:
            limit_s, what = self.group_s, "process group's time-out"
        held_s = self.held_s
        return f"held {held_s:.0f} s ({what} {limit_s:g} s)" if held_s and limit_s else ""

    def _update(self) -> None:
        stopped = self._core.state.stopped
        kept = [(since, ranks & stopped) for since, ranks in self._since]
        self._since = [(since, ranks) for since, ranks in kept if ranks]
        new = stopped - RankSet.union(ranks for _, ranks in self._since)
        if new:
            # The kernel stops a rank when its GDB attaches, long before the session has started.
            since = self._clock() if self._core.is_started or not self._begun else self._begun
            self._since.append((since, new))
            self._since.sort(key=lambda each: each[0])

    async def _watch(self) -> None:
        while not self._core.is_over:
            held_s, limit_s = self.held_s, self._core.options.max_hold_s
            if limit_s and held_s >= limit_s and self._core.is_started:
                await self._detach_all(limit_s)
                left_s = None
            else:
                left_s = limit_s - held_s if limit_s and held_s else None
            await self._core.wait_change(left_s)

    async def _detach_all(self, limit_s: float) -> None:
        ranks = self._core.state.live
        self._core.note(
            f"[{ranks}] detached: ranks were held for {limit_s:g} s (--max-hold); "
            "'reattach' attaches again"
        )
        await self._detach(ranks)
