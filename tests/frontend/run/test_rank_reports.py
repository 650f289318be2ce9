"""Reports of ranks about themselves."""

from __future__ import annotations

from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.rank_reports import RankReports, RankTail

FIRST, THIRD = RankEnd(0, 100, 1 << 8, 0.0), RankEnd(2, 102, 1 << 8, 0.0)
MIXED = ("rank 0: ERROR: no cache, continuing without it\n", "step 7\n")


def test_words_of_another_rank_are_no_reason_where_outputs_are_kept_apart() -> None:
    reports = RankReports("mark")
    reports.tails["", 0] = {"stderr": RankTail("stderr", MIXED[0].encode(), 50)}
    assert list(reports.output_of(FIRST, MIXED)) == [MIXED[0]]
    assert list(reports.output_of(THIRD, MIXED)) == [""]


def test_without_outputs_of_ranks_that_of_the_job_counts() -> None:
    assert RankReports("mark").output_of(THIRD, MIXED) == MIXED
