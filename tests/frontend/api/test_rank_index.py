"""Ranks by index and slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.api.rank_index import ranks_at
from pgdb.ranks import RankSet

JOB = RankSet.parse("0-3")


def test_a_rank_and_a_slice() -> None:
    assert ranks_at(2, JOB) == ranks_at(np.int64(2), JOB) == RankSet([2])  # type: ignore[arg-type]
    assert ranks_at(slice(1, 9), JOB) == RankSet.parse("1-3")
    assert ranks_at(slice(None, None, 2), JOB) == RankSet.parse("0,2")
    assert not ranks_at(slice(5, 9), JOB)


@pytest.mark.parametrize(
    ("which", "text"),
    [
        (1.5, "1.5"),
        ("a", "'a'"),
        (None, "None"),
        ((0, 1), "(0, 1)"),
        (slice("a", 2), "'a':2"),
        (slice(None, None, 0), "::0"),
    ],
)
def test_anything_else_is_refused_with_the_ways_to_name_ranks(which: Any, text: str) -> None:
    with pytest.raises(UsageError) as error:
        ranks_at(which, JOB)
    assert str(error.value) == (
        f"[{text}] is neither a rank nor a slice of ranks; [0] and [0:4] are, and "
        "ranks('0-3,8') takes a set as text"
    )


def test_a_negative_number_is_no_rank() -> None:
    with pytest.raises(RankSetError, match=r"^no rank -1; the job has 0-3$"):
        ranks_at(-1, JOB)
