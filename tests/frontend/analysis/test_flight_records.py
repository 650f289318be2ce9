"""PyTorch's flight records: reading them, and the state of each process group."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pgdb.frontend.analysis.flight_records import (
    RecordError,
    group_states,
    lines,
    read_record,
)
from pgdb.ranks import RankSet
from tests.support.flight_entries import WAITS, entry, record


def test_the_rank_that_has_not_come_is_named() -> None:
    states = group_states(
        {
            0: record(entry(2, "barrier", input_sizes=[]), entry(3, **WAITS)),
            1: record(entry(2, "barrier", input_sizes=[]), ranks="[0, 1, 2, 3]"),
            2: record(entry(3, **WAITS)),
        }
    )
    assert list(lines(states)) == [
        "process group 0 (default_pg): [0-3]",
        "  [0,2] all_reduce 3, waits, [4, 8] Float, train.py:10",
        "  [1] barrier 2, complete, train.py:10; missing from all_reduce 3",
        "  [3] no record",
    ]
    (state,) = states
    assert state.missing == RankSet([1])


def test_ranks_in_another_call_with_one_number_differ() -> None:
    (state,) = group_states(
        {
            0: record(entry(5, **WAITS)),
            1: record(entry(5, "all_gather", **WAITS)),
            2: record(entry(5, input_sizes=[[9]], **WAITS)),
        }
    )
    assert {str(each.ranks): each.state for each in state.places} == {
        "0": "waits",
        "1": "differs",
        "2": "waits",
    }
    assert "all_gather 5, waits, [4, 8] Float, train.py:10; another call" in "\n".join(
        lines([state])
    )


def test_groups_that_wait_come_before_those_that_are_complete() -> None:
    states = group_states(
        {
            0: record(entry(1, "broadcast", "1"), entry(1, **WAITS)),
            1: record(entry(1, "broadcast", "1"), ranks="[0, 1]"),
        }
    )
    assert [(each.name, str(each.missing)) for each in states] == [("0", "1"), ("1", "")]
    assert [place.state for place in states[1].places] == ["done"]
    assert states[0].places[1].call.text == "no call yet"


def test_a_rank_that_waits_in_an_earlier_call_is_not_missing() -> None:
    (state,) = group_states({0: record(entry(1, **WAITS)), 1: record(entry(2, **WAITS))})
    assert [each.state for each in state.places] == ["waits", "waits"]


def test_messages_between_two_ranks_are_no_collective_calls() -> None:
    found = record(entry(0, "send", is_p2p=True), entry(1))
    assert found.calls["0"].sequence == 1
    assert record(entry(1), entry(1, "send", is_p2p=True)).calls["0"].name == "all_reduce"


class Harmful:
    """An object that runs a function when it is unpickled."""

    def __reduce__(self) -> Any:
        return print, ("harm",)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no flight record"),
        (b"{", "no flight record"),
        (b'{"a": 1}', "neither entries nor pg_config"),
        (b"\x80\x04garbage", "no flight record"),
        (pickle.dumps([1]), "no list of entries"),
        (pickle.dumps({"entries": 3}), "no list of entries"),
        (pickle.dumps({"entries": [{}]}), "no flight record"),
        (pickle.dumps({"entries": [Harmful()]}), "plain values only"),
        (pickle.dumps({"entries": [], "pg_config": {"0": {"ranks": "[-1]"}}}), "-1 is no rank"),
        (pickle.dumps({"entries": [], "pg_config": {"0": {"ranks": "[0"}}}), "no flight record"),
        (pickle.dumps({"entries": [], "pg_config": 7}), "no flight record"),
    ],
)
def test_other_data_is_refused(data: bytes, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RecordError, match=why):
        read_record(data)
    assert capsys.readouterr().out == ""
