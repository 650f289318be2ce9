"""The time for which ranks are held, and its limit."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.hold_time import HoldTime
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import SessionNotice
from pgdb.frontend.api.option_checks import in_seconds_or_off, time_or_off
from pgdb.frontend.api.options import SessionOptions
from pgdb.ranks import RankSet


class Held:
    """Ranks 0-3 of a session whose clock the test moves."""

    def __init__(self, **options: float) -> None:
        self.now = 100.0
        self.detached: list[RankSet] = []
        self.core = Core(None, SessionOptions(**options), None)  # type: ignore[arg-type]
        self.core.state = JobState(RankSet.range(0, 4))
        self.core.state.running = RankSet.range(0, 4)
        self.core.notifier.release()
        self.time = HoldTime(self.core, self._detach, clock=lambda: self.now)

    async def _detach(self, ranks: RankSet) -> None:
        self.detached.append(ranks)
        state = self.core.state
        state.stopped, state.running, state.detached = RankSet(), RankSet(), ranks
        self.core.wake()

    def stop(self, ranks: str) -> None:
        stopped = RankSet.parse(ranks) if ranks else RankSet()
        self.core.state.stopped = stopped
        self.core.state.running = RankSet.range(0, 4) - stopped
        self.core.wake()


def test_the_rank_that_is_stopped_longest_counts() -> None:
    held = Held()
    assert held.time.held_s == 0.0
    held.stop("1")
    assert held.time.held_s == 0.0
    held.now += 10
    held.stop("0-1")
    assert held.time.held_s == 10.0
    held.now += 5
    held.stop("0")
    assert held.time.held_s == 5.0
    held.stop("")
    assert held.time.held_s == 0.0


def test_the_status_line_has_the_nearer_limit() -> None:
    held = Held(max_hold_s=60.0)
    assert held.time.text() == ""
    held.stop("0")
    assert held.time.held_s == 0.0
    held.now += 12
    assert held.time.text() == "held 12 s (--max-hold 60 s)"
    held.time.group_s = 1800.0
    assert held.time.text() == "held 12 s (--max-hold 60 s)"
    held.time.group_s = 30.0
    assert held.time.text() == "held 12 s (process group's time-out 30 s)"
    assert Held().time.text() == ""


def test_all_ranks_are_detached_at_the_limit() -> None:
    asyncio.run(_reach_the_limit())


async def _reach_the_limit() -> None:
    held = Held(max_hold_s=60.0)
    notices: list[str] = []
    held.core.notifier.subscribe(
        lambda each: notices.append(each.text) if isinstance(each, SessionNotice) else None
    )
    held.time.begin()
    held.stop("1")
    await asyncio.sleep(0)
    held.now += 59
    held.core.wake()
    await asyncio.sleep(0)
    assert not held.detached
    held.now += 1
    held.core.wake()
    async with asyncio.timeout(60):
        while not held.detached:
            await asyncio.sleep(0)
    assert held.detached == [RankSet.range(0, 4)]
    assert any(text.startswith("[0-3] detached: ranks were held for 60 s") for text in notices)
    await held.core.cancel_background(60)


def test_a_start_counts_from_its_beginning() -> None:
    asyncio.run(_start())


async def _start() -> None:
    held = Held()
    held.core.notifier = type(held.core.notifier)()
    held.time.begin()
    held.now += 6
    held.stop("0-3")
    assert held.time.held_s == 6.0
    await held.core.cancel_background(60)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60.0), ("60s", 60.0), (" 5min ", 300.0), ("2m", 120.0), ("1h", 3600.0), ("off", 0.0)],
)
def test_times(text: str, seconds: float) -> None:
    assert time_or_off("--max-hold", text) == seconds
    assert in_seconds_or_off(seconds) == (f"{seconds:g} s" if seconds else "off")


@pytest.mark.parametrize("text", ["", "s", "60x", "never", "-1s", "nan", "1e99h"])
def test_no_times(text: str) -> None:
    with pytest.raises(UsageError, match="--max-hold"):
        SessionOptions(max_hold_s=time_or_off("--max-hold", text))
