"""Held ranks: run commands leave them where they are, until they are released."""

from __future__ import annotations

from collections.abc import Mapping

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.job_state import BY_USER
from pgdb.ranks import RankSet


class Holding:
    """Holder of ranks, which also releases them.

    A hold ends with the rank, and when the rank is detached. A rank that is lost is held again when
    it is back, but not for a barrier, at which it is no longer.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    @property
    def held_for(self) -> Mapping[str, RankSet]:
        """The held ranks by the reason."""
        return self._core.state.held_for

    def hold(self, ranks: RankSet, reason: str = BY_USER) -> RankSet:
        """Hold ranks for a reason; return those that were not held for it before.

        A rank that runs goes on to its next stop, and stays there.

        :raises UsageError: if there is no job, but a recording, or *ranks* is empty.
        :raises CommandError: if none of *ranks* lives under a debugger.
        """
        core = self._core
        if core.transport.is_recorded:
            raise UsageError("hold: this is a recording; there is no job with ranks to be held")
        state = core.state
        if not ranks:
            raise UsageError("hold: the set of ranks is empty")
        if not ranks & (state.live | state.lost):
            raise CommandError(f"hold: {'; '.join(state.absent(ranks))}")
        held = state.hold(ranks, reason)
        core.wake()
        return held

    def release(self, ranks: RankSet, reason: str | None = None) -> RankSet:
        """Hold ranks no longer for a reason, None for all; return those that are free now.

        :raises UsageError: if *ranks* is empty.
        :raises CommandError: if none of *ranks* is held.
        """
        state = self._core.state
        if not ranks:
            raise UsageError("release: the set of ranks is empty")
        if not state.held:
            raise CommandError("release: no rank is held")
        if not ranks & state.held:
            raise CommandError(f"release: no rank of [{ranks}] is held; held are [{state.held}]")
        free = state.release(ranks, reason)
        self._core.wake()
        return free
