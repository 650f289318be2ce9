"""Ranks on the way to a barrier at which rank 0 is held: their work, and whom they wait for."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.why.on_the_way import on_the_way
from pgdb.mpi_calls import ANY_SOURCE, ELSEWHERE, CallSite, Communicator, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Failure
from tests.support.why_calls import WORLD, in_call, outside, recv, request, send, waits
from tests.support.why_jobs import ALL, BARRIER, Job, classes

HELD = RankSet.parse("0")
NOBODY = RankSet()


def found(
    job: Job, *, stopped: RankSet = HELD, ended: RankSet = NOBODY, before: Job | None = None
) -> list[tuple[str, bool, str]]:
    asked = {text: status for text, status in job.items() if text != "0"}
    return [
        (str(each.ranks), each.is_stuck, each.text)
        for each in on_the_way(
            classes(asked), HELD, stopped, ended, ALL, classes(before) if before else ()
        )
    ]


def text_of(job: Job, **sets: RankSet) -> str:
    """Return the text about rank 1, which is stuck."""
    ((text, is_stuck),) = [
        (text, stuck) for ranks, stuck, text in found(job, **sets) if ranks == "1"
    ]
    assert is_stuck
    return text


def test_a_message_of_the_held_rank_is_named() -> None:
    text = text_of({"1": recv(0), "2-3": outside()})
    assert text.startswith("is in MPI_Recv from 0")
    assert text.endswith(", and may wait for [0], which is held")


def test_a_collective_call_waits_for_the_ranks_that_stand() -> None:
    text = text_of({"1": BARRIER}, stopped=RankSet.parse("0,2-3"))
    assert text.endswith("may wait for [0], which is held and [2-3], which are stopped")
    text = text_of({"1": BARRIER, "2": BARRIER}, ended=RankSet.parse("3"))
    assert "[3], which has ended" in text


def test_a_rank_that_waits_for_one_at_work_is_not_stuck() -> None:
    (waits, works) = found({"1": recv(2), "2-3": outside()})
    assert waits[:2] == ("1", False) and waits[2].endswith("may wait for [2]")
    assert works[:2] == ("2-3", False) and "wait" not in works[2]


def test_a_chain_that_ends_at_the_held_rank_is_stuck() -> None:
    job = {"1": recv(2), "2": recv(0), "3": outside()}
    assert [(ranks, stuck) for ranks, stuck, _ in found(job)] == [
        ("1", True),
        ("2", True),
        ("3", False),
    ]
    assert text_of(job).endswith("may wait for [2]")


def test_ranks_that_wait_for_each_other_are_stuck() -> None:
    job = {"1": recv(2), "2": recv(1), "3": outside()}
    assert [stuck for _, stuck, _ in found(job)] == [True, True, False]


def around(to: int, source: int, count: int = 1) -> MpiCallStatus:
    return in_call(
        "MPI_Sendrecv",
        "sendrecv",
        dest=to,
        tag=1,
        source=source,
        receive_tag=1,
        count=count,
        communicator=WORLD,
    )


LARGE = 1_000_000
"""Number of elements of a message that waits for its receiver."""


def test_a_ring_of_large_messages_is_stuck_whose_calls_have_stayed() -> None:
    """Rank 1 sends to 2, which fits, and receives from 0, which is held; either can be complete."""
    ring = {str(rank): around((rank + 1) % 4, rank - 1, LARGE) for rank in (1, 2, 3)}
    assert [stuck for _, stuck, _ in found(ring)] == [False, False, False]
    assert [stuck for _, stuck, _ in found(ring, before={**ring, "2": outside()})] == [
        *(False, False, False),
    ]
    stays = found(ring, before=ring)
    assert [stuck for _, stuck, _ in stays] == [True, True, True]
    assert stays[0][2].endswith("and may wait for [0], which is held"), stays
    assert stays[1][2].endswith("and may wait for [1,3]"), stays
    assert stays[2][2].endswith("and may wait for [0], which is held"), stays


def test_a_large_exchange_with_a_rank_at_work_may_end() -> None:
    """The message of rank 0 may have come, and rank 2 receives later."""
    job = {"1": around(2, 0, LARGE), "2-3": outside()}
    assert [stuck for _, stuck, _ in found(job, before=job)] == [False, False]


def test_a_peer_in_another_world_is_said_to_be_unknown() -> None:
    text = text_of({"1": recv(0, comm=Communicator(remote=ELSEWHERE)), "2-3": outside()})
    assert text.endswith(", and may wait for a rank of another world, which its call does not name")


def test_a_ring_is_stuck_whose_calls_have_stayed() -> None:
    """The calls of ranks 1 and 2 fit, as those of a message in flight do."""
    ring = {str(rank): around((rank + 1) % 4, rank - 1) for rank in (1, 2, 3)}
    assert [stuck for _, stuck, _ in found(ring)] == [True, False, False]
    assert [stuck for _, stuck, _ in found(ring, before={**ring, "2": outside()})] == [
        *(True, False, False),
    ]
    stays = found(ring, before=ring)
    assert [stuck for _, stuck, _ in stays] == [True, True, True]
    assert stays[1][2].endswith("and may wait for [1]"), stays
    assert stays[2][2].endswith("and may wait for [2]"), stays


def test_ranks_in_a_loop_may_come_back_to_equal_calls() -> None:
    pair = {"1": recv(0), "2": around(3, 3), "3": around(2, 2)}
    assert [stuck for _, stuck, _ in found(pair, before=pair)] == [True, False, False]


def test_one_of_several_senders_may_be_at_work() -> None:
    assert not found({"1": recv(ANY_SOURCE), "2-3": outside()})[0][1]
    open_ones = (request("recv", 0, complete=False), request("recv", 2, complete=False))
    every = waits("MPI_Waitall", "all", *open_ones)
    assert "[0], which is held" in text_of({"1": every, "2-3": outside()})
    assert not found({"1": waits("MPI_Waitany", "any", *open_ones), "2-3": outside()})[0][1]


def test_a_rank_that_polls_for_a_held_rank_is_stuck() -> None:
    polls = waits("MPI_Test", "all", request("recv", 0, complete=False))
    text = text_of({"1": polls, "2-3": outside()})
    assert text.startswith("polls in MPI_Test") and "[0], which is held" in text


@pytest.mark.parametrize(
    ("activity", "words"), [("sleeping", "sleeps for 1 h or longer, in"), ("computing", "computes")]
)
def test_the_work_outside_mpi_is_named(activity: str, words: str) -> None:
    status = MpiCallStatus(
        state="outside",
        where=CallSite(function="act", file="meet.c", line=40),
        activity=activity,  # type: ignore[arg-type]
        sleeps_s=3600 if activity == "sleeping" else None,
    )
    (own, _) = found({"1": status, "2-3": outside()})
    assert own[1] is False and own[2].startswith(words) and own[2].endswith("act at meet.c:40")


def test_ranks_whose_calls_are_unknown_are_left_to_their_stacks() -> None:
    job: Job = {"1": MpiCallStatus(state="unknown"), "2": send(1)}
    assert [ranks for ranks, _, _ in found(job)] == ["2"]
    failed = classes({"2": outside()})[0]
    other = type(failed)(RankSet.parse("1"), Failure(message="no"))
    assert [str(each.ranks) for each in on_the_way([other, failed], HELD, HELD, NOBODY, ALL)] == [
        "2"
    ]
