"""Barriers at the start of main, which ranks do not come to again."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.session import Session
from pgdb.overlay.messages import InsertBreakpoint
from tests.fakes.moving import MovingJob, frame, run


def ranks_in(*functions: str) -> MovingJob:
    """Return a job whose ranks are in these functions."""
    job = MovingJob({rank: [] for rank in range(len(functions))})
    job.frames = {rank: frame(7, function) for rank, function in enumerate(functions)}
    return job


@pytest.mark.parametrize("location", ["main", "a.c:main", "-function main"])
def test_ranks_in_main_do_not_come_to_its_start_again(location: str) -> None:
    job = ranks_in("main", "main")

    async def test(session: Session) -> None:
        with pytest.raises(
            UsageError,
            match=r"a barrier of \[0-1\] can never be met: \[0-1\] are in main already, and will "
            r"not come to its start again$",
        ):
            await session.barrier(location)
        assert not session.barriers

    run(job, test)
    assert not any(isinstance(each, InsertBreakpoint) for each in job.asked)


def test_ranks_that_have_not_begun_main_can_meet_at_its_start() -> None:
    async def test(session: Session) -> None:
        with pytest.raises(UsageError, match=r"\[0\] is in main .*'barrier main 1-2' is for the"):
            await session.barrier("main")
        assert (await session.ranks("1-2").barrier("main")).number == 1

    run(ranks_in("main", "_start", "_start"), test)


@pytest.mark.parametrize(
    "location", ["Solver::main", "main_loop", "a.c:7", "main.c:7", "f if main"]
)
def test_other_places_are_no_start_of_main(location: str) -> None:
    async def test(session: Session) -> None:
        assert (await session.barrier(location)).number == 1

    run(ranks_in("main", "main"), test)
