"""Waiting for the stops of a run command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pgdb.frontend.analysis.answers import Answer, Missing
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.run_control import RunControl
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Running, Stop

WaitChange = Callable[[float | None], Awaitable[None]]
RUN = 7
BOTH = RankSet.parse("0-1")


async def wait_for_time(left_s: float | None) -> None:
    assert left_s is not None, "nothing would end the wait"
    await asyncio.sleep(left_s)


def run_control(state: JobState, wait_change: WaitChange = wait_for_time) -> RunControl:
    core: Any = SimpleNamespace(
        state=state,
        transport=SimpleNamespace(is_recorded=False),
        is_over=False,
        wait_change=wait_change,
        begin=None,
    )
    traffic: Any = SimpleNamespace(stop_modes=SimpleNamespace(flush=lambda: None))
    return RunControl(core, traffic)


def test_the_settle_time_begins_with_a_stop_that_has_overtaken_the_acknowledgement() -> None:
    state = JobState(BOTH)
    state.start_run(RUN, BOTH)
    stop = Stop(reason="breakpoint-hit", run=RUN)
    state.apply([EquivalenceClass(RankSet([0]), stop)])
    started = Answer("continue", BOTH, (EquivalenceClass[Record](BOTH, Running(run=RUN)),))
    answer = asyncio.run(run_control(state).finish(started, settle_s=0.001))
    assert [(each.ranks, each.record) for each in answer.classes] == [(RankSet([0]), stop)]
    assert answer.missing.running == RankSet([1])


def test_a_run_that_was_not_known_counts_from_its_answer_on() -> None:
    state = JobState(BOTH)
    stop = Stop(reason="breakpoint-hit", run=RUN - 1)
    state.apply([EquivalenceClass(BOTH, stop)])
    state.start_unasked(RUN, BOTH)
    assert state.running == BOTH
    # The stop of the run before is in flight yet.
    assert not state.apply([EquivalenceClass(BOTH, stop)])
    # The stop of rank 0 comes, and then the answer once more.
    state.apply([EquivalenceClass(RankSet([0]), Stop(reason="breakpoint-hit", run=RUN))])
    state.start_unasked(RUN, BOTH)
    assert state.stopped == RankSet([0])


@pytest.mark.parametrize("is_early", [False, True])
def test_the_settle_time_begins_with_the_stop_of_a_rank_that_ran_before(is_early: bool) -> None:
    """Rank 1 may wait in MPI for rank 0, which has come to a breakpoint meanwhile."""
    state = JobState(BOTH)
    state.start_run(RUN - 1, RankSet([0]))
    state.start_run(RUN, RankSet([1]))
    stop = Stop(reason="breakpoint-hit", run=RUN - 1)

    async def wait_change(left_s: float | None) -> None:
        if state.running == BOTH:
            assert left_s is None  # nothing has stopped yet
            state.apply([EquivalenceClass(RankSet([0]), stop)])
        else:
            assert left_s is not None, "nothing would end the wait"
            await asyncio.sleep(left_s)

    if is_early:
        state.apply([EquivalenceClass(RankSet([0]), stop)])
    started = Answer(
        "continue",
        BOTH,
        (EquivalenceClass[Record](RankSet([1]), Running(run=RUN)),),
        missing=Missing(running=RankSet([0])),
    )
    answer = asyncio.run(run_control(state, wait_change).finish(started, settle_s=0.001))
    assert [(each.ranks, each.record) for each in answer.classes] == [(RankSet([0]), stop)]
    assert answer.missing.running == RankSet([1])
