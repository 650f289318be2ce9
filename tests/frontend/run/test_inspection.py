"""Samples of ranks: none runs on that has stopped by itself between two of them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from pgdb.frontend.api.session import Session
from pgdb.frontend.run import inspection
from pgdb.frontend.run.inspection import Running, look_for_progress, stopped_by_themselves
from pgdb.frontend.run.progress import Sample
from pgdb.rank_sample import RankSample
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.fakes.bare_session import BareSession

BOTH = RankSet([0, 1])
STILL = Sample({0: RankSample("main:a.c:3"), 1: RankSample("main:a.c:4")}, BOTH)
INTERRUPTED = Stop(reason="interrupted")
DEATHS = (
    Stop(reason="signal-received", signal="SIGSEGV"),
    Stop(reason="death"),
    Stop(reason="sanitizer-report"),
    Stop(reason="breakpoint-hit", breakpoint="2"),
)


@pytest.mark.parametrize("record", DEATHS)
def test_a_rank_that_stops_by_itself_between_samples_does_not_run_on(
    monkeypatch: pytest.MonkeyPatch, record: Stop
) -> None:
    session = BareSession(BOTH)
    session.apply(BOTH, INTERRUPTED)
    runs = 0

    async def sample(*_: object) -> Sample:
        return STILL

    async def later(*_: object) -> Sample:
        nonlocal runs
        runs += 1
        session.apply(RankSet([1]), record)
        return STILL

    monkeypatch.setattr(inspection, "_sample", sample)
    monkeypatch.setattr(inspection, "_later_sample", later)
    gap = Running(0.0, lambda: False)
    for expected in (1, 1):  # it stays an event until the caller has acted on it
        moved = asyncio.run(look_for_progress(cast(Session, session), gap))
        assert moved.ranks == BOTH and runs == expected
    assert stopped_by_themselves(cast(Session, session)) == RankSet([1])
