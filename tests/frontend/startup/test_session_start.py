"""The reasons of a session that cannot start."""

from __future__ import annotations

import pytest

from pgdb.errors import StartError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.startup.session_start import check_start
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Failure


def failed(rank: int, message: str) -> EquivalenceClass[Failure]:
    return EquivalenceClass(RankSet([rank]), Failure(message=message))


def test_reasons_that_differ_in_process_numbers_are_one() -> None:
    classes = (
        failed(0, "process 70 has ended"),
        failed(1, "process 71 has ended"),
        failed(2, "process 72 hides"),
    )
    with pytest.raises(StartError) as error:
        check_start(Answer("attach", RankSet.range(0, 3), classes), "attach")
    assert str(error.value) == "[0-1] process … has ended; [2] process 72 hides"
