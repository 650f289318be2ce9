"""Verdicts from the flight records of PyTorch."""

from __future__ import annotations

from pgdb.frontend.analysis.flight_records import GroupCall, RankRecord, group_states
from pgdb.frontend.analysis.why import flight
from pgdb.frontend.analysis.why.explain import with_flight
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.ranks import RankSet
from tests.support.why_calls import outside
from tests.support.why_jobs import explained

ALL = RankSet.parse("0-3")


def record(sequence: int, name: str = "all_reduce", *, done: bool = False) -> RankRecord:
    call = GroupCall(sequence, name, "[4] Float", "train.py:10", done)
    return RankRecord({"0": call}, {"0": "default_pg"}, {"0": ALL})


def found(records: dict[int, RankRecord]) -> list[Verdict]:
    return list(flight.verdicts(group_states(records)))


def test_a_rank_that_is_missing_is_named_with_the_last_call_that_it_made() -> None:
    records = {rank: record(7) for rank in (0, 1, 3)} | {2: record(6, done=True)}
    (only,) = found(records)
    assert (only.kind, str(only.ranks), str(only.victims)) == (
        "missing-from-collective",
        "2",
        "0-1,3",
    )
    assert only.text == (
        "ranks 0-1,3 wait in all_reduce 7 (train.py:10) of process group 0 for rank 2, which has "
        "come to all_reduce 6"
    )
    assert only.confidence == "likely" and only.decides


def test_a_rank_in_another_call_of_the_same_number_is_named() -> None:
    records = {rank: record(7) for rank in (0, 1, 2)} | {3: record(7, "broadcast")}
    (only,) = found(records)
    assert (only.kind, str(only.ranks)) == ("different-collectives", "3")
    assert "rank 3 waits in broadcast 7" in only.text and "all_reduce 7" in only.text


def test_ranks_that_are_all_done_or_all_wait_have_no_verdict() -> None:
    assert found({rank: record(7, done=True) for rank in ALL}) == []
    assert found({rank: record(7) for rank in ALL}) == []


def test_an_explanation_has_the_verdicts_too() -> None:
    records = {rank: record(7) for rank in (0, 1, 3)} | {2: record(6, done=True)}
    plain = explained({"0-3": outside()})
    both = with_flight(plain, found(records))
    assert [each.kind for each in both.verdicts] == ["missing-from-collective"]
    assert both.summary == "" and plain.summary
    assert with_flight(plain, []) is plain
