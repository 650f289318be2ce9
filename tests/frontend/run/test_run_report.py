"""The report of a run, from the ends of ranks."""

from __future__ import annotations

import signal

from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.run_report import stops_of

SEGV = RankEnd(1, 101, signal.SIGSEGV, 0.0)
TERM = RankEnd(0, 100, signal.SIGTERM, 0.0)


def test_a_rank_that_was_ended_with_a_hanging_job_is_no_first_failure() -> None:
    (only,) = stops_of([TERM], has_failed=False)
    assert (only.ranks, only.is_first) == ("0", False)
    (only,) = stops_of([TERM], has_failed=True)
    assert only.is_first


def test_a_rank_that_dies_of_its_own_is_the_first_in_a_hanging_job_too() -> None:
    found = stops_of([TERM, SEGV], has_failed=False)
    assert [(each.ranks, each.is_first) for each in found] == [("1", True), ("0", False)]
    # The launcher has ended rank 0: it is no failure of its own.
    assert [each.is_error for each in found] == [True, False]
