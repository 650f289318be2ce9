"""Verdicts from the calls of ranks: one row for each kind of fault, and for jobs without any."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.why import collectives
from pgdb.frontend.analysis.why.explain import slow, suspects
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.waiting import NO_WATCH, Watch
from pgdb.mpi_calls import ANY_SOURCE, ANY_TAG, PROC_NULL, Communicator, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Failure
from tests.support.why_calls import WORLD, in_call, outside, recv, request, send, waits
from tests.support.why_groups import GROUP_FAULTS
from tests.support.why_jobs import ALL, BARRIER, FAULTS, WATCHED, Job, classes, explained

EVERY = {**FAULTS, **GROUP_FAULTS}


@pytest.mark.parametrize("name", EVERY)
def test_fault_has_its_verdict(name: str) -> None:
    job, kind, ranks, victims = EVERY[name]
    found = explained(job).verdicts
    first = found[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == (kind, ranks, victims)
    assert first.confidence in ("certain", "likely")
    assert first.evidence and first.rule and first.text
    for each in found[1:]:
        assert each.ranks.isdisjoint(first.ranks)


@pytest.mark.parametrize("name", EVERY)
def test_every_rank_is_in_one_wait(name: str) -> None:
    found = explained(EVERY[name][0]).waits
    assert RankSet.union(each.ranks for each in found) == ALL
    assert sum(len(each.ranks) for each in found) == len(ALL)


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_said_for_sure_about_ranks_that_were_not_watched(name: str) -> None:
    found = explained(EVERY[name][0], NO_WATCH).verdicts
    assert all(each.confidence == "cannot tell" and each.decides for each in found)


HEALTHY: dict[str, Job] = {
    "all compute": {"0-3": outside()},
    "a message that is taken": {"0": send(1), "1": recv(0), "2-3": outside()},
    "any tag": {"0": send(1, 7), "1": recv(ANY_SOURCE, ANY_TAG), "2-3": outside()},
    "to nobody": {"0": send(1), "1": recv(0), "2": recv(PROC_NULL), "3": outside()},
    "an exchange": {
        "0": in_call("MPI_Sendrecv", "sendrecv", dest=1, source=1, tag=1, receive_tag=1),
        "1": in_call("MPI_Sendrecv", "sendrecv", dest=0, source=0, tag=1, receive_tag=1),
        "2-3": outside(),
    },
    "requests of both sides": {
        "0": waits("MPI_Waitall", "all", request("recv", 1), request("send", 1)),
        "1": waits("MPI_Waitall", "all", request("recv", 0), request("send", 0)),
        "2-3": outside(),
    },
    "a root that left early, and a rank that is late": {
        "1": in_call("MPI_Bcast", root=2),
        "2": in_call("MPI_Allreduce"),
        "0,3": outside(),
    },
    "no MPI": {"0-3": MpiCallStatus(state="no_mpi")},
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_job_has_no_verdict(name: str) -> None:
    for watch in (NO_WATCH, Watch(still=ALL - RankSet([0]), moved=RankSet([0]), seconds=1.0)):
        found = explained(HEALTHY[name], watch)
        assert not [each for each in found.verdicts if each.confidence != "cannot tell"]
        assert found.summary or found.verdicts


def test_calls_that_returned_rule_a_deadlock_out() -> None:
    job = FAULTS["receives that wait for each other"][0]
    found = explained(job, Watch(still=RankSet([1]), moved=RankSet([0]), seconds=1.0))
    assert found.verdicts == ()
    assert "rank 0 returned" in found.summary


def test_suspects_are_the_ranks_that_cannot_progress_or_are_waited_for() -> None:
    assert suspects(classes({"0": recv(1), "1": recv(0), "2-3": outside()})) == RankSet([0, 1])
    assert suspects(classes({"0-2": BARRIER, "3": outside()})) == ALL


def test_an_unknown_field_rules_nothing_out() -> None:
    job: Job = {"0": send(1, 1), "1": recv(0, None), "2-3": outside()}
    assert explained(job, NO_WATCH).verdicts == ()
    job = {"0": recv(None), "1-2": BARRIER, "3": outside()}
    assert explained(job, NO_WATCH).verdicts[0].kind == "missing-from-collective"


def test_a_wildcard_waits_for_one_and_a_wait_for_all_waits_for_all() -> None:
    some = waits("MPI_Waitany", "any", request("recv", 1), request("recv", 3))
    every = waits(
        "MPI_Waitall",
        "all",
        request("recv", 1, complete=False),
        request("recv", 3, complete=False),
    )
    job: Job = {"1": recv(0), "2": BARRIER, "3": outside()}
    assert suspects(classes({"0": every, **job})) == RankSet([0, 1, 2])
    found = explained({"0": some, **job})
    assert [each.kind for each in found.verdicts] == ["missing-from-collective"]


def test_ranks_that_are_all_detached_were_not_looked_at() -> None:
    found = explained({}, WATCHED, Elsewhere(RankSet(range(4)), "detached", "detached"))
    assert not found.verdicts
    assert found.summary == (
        "no rank was looked at: ranks 0-3 are detached; 'reattach' attaches again"
    )


def test_a_rank_that_has_ended_is_a_cause() -> None:
    gone = Elsewhere(RankSet([3]), "ended with status 0", "ended")
    found = explained({"0-2": BARRIER}, WATCHED, gone).verdicts
    assert [(each.kind, str(each.ranks), str(each.victims)) for each in found] == [
        ("rank-left", "3", "0-2")
    ]
    assert "ended with status 0, and ranks 0-2 wait for it" in found[0].text


def test_a_rank_that_a_breakpoint_stopped_is_named_without_a_watch() -> None:
    stopped = Elsewhere(RankSet([3]), "stopped at breakpoint 1")
    (found,) = explained({"0-2": BARRIER, "3": outside()}, NO_WATCH, stopped).verdicts
    assert found.confidence == "certain"
    assert "rank 3, which is stopped at breakpoint 1" in found.text


@pytest.mark.parametrize("absence", ["lost", "running", "detached", "silent"])
def test_a_rank_that_gave_no_answer_may_do_anything(absence: str) -> None:
    gone = Elsewhere(RankSet([3]), "", absence)  # type: ignore[arg-type]
    (found,) = explained({"0-2": BARRIER}, WATCHED, gone).verdicts
    assert found.confidence == "cannot tell"
    assert str(found.ranks) == "3"


def test_several_ranks_outside_mpi_have_a_verb_in_the_plural() -> None:
    (found,) = explained({"0-1": BARRIER, "2-3": outside()}).verdicts
    assert "for ranks 2-3, which compute, in work at ring.c:99" in found.text


def test_a_failure_is_no_status() -> None:
    (found,) = explained({"0-2": BARRIER, "3": Failure(message="no such process")}).verdicts
    assert "could not be looked at (no such process)" in found.text


def test_a_match_that_a_watch_has_refuted_is_none() -> None:
    job: Job = {"0": send(1, 1), "1": recv(None, 1), "2-3": BARRIER}
    assert explained(job, NO_WATCH).verdicts == ()
    assert [each.kind for each in explained(job).verdicts] == ["unknown"]


def test_a_rank_that_moved_may_have_been_needed_by_others_in_its_group() -> None:
    job: Job = {"1": in_call("MPI_Bcast", root=2), "2": in_call("MPI_Allreduce"), "0,3": outside()}
    moved = Watch(still=RankSet([1, 2]), moved=RankSet([0, 3]), seconds=1.0)
    assert explained(job, moved).verdicts == ()


def test_a_message_of_another_tag_is_likely_the_one_where_the_source_is_unknown() -> None:
    (found,) = explained({"0": send(1, 1), "1": recv(None, 2), "2-3": BARRIER}).verdicts
    assert (found.kind, str(found.ranks)) == ("unmatched-receive", "0-1")
    assert found.confidence == "likely"


@pytest.mark.parametrize(
    ("one", "other", "confidence"),
    [
        (WORLD, Communicator(members="0-3"), "certain"),
        (Communicator(members="0-3"), Communicator(members="0-3", name="copy"), "likely"),
        (WORLD, None, "likely"),
    ],
)
def test_a_message_that_fits_and_is_not_taken_is_in_another_communicator(
    one: Communicator, other: Communicator, confidence: str
) -> None:
    (found,) = explained(
        {"0": send(1, comm=other), "1": recv(0, comm=one), "2-3": BARRIER}
    ).verdicts
    assert (found.kind, str(found.ranks)) == ("communicator-mixup", "0-1")
    assert found.confidence == confidence


def test_requests_that_may_be_complete_make_no_deadlock() -> None:
    both = [waits("MPI_Waitall", "all", request("recv", n), request("recv", 1)) for n in (3, 0)]
    job: Job = {"0": both[0], "1-2": outside(), "3": both[1]}
    watch = Watch(still=RankSet([0, 3]), moved=RankSet([1, 2]), seconds=1.0)
    assert explained(job, watch).verdicts == ()


def test_no_cause_is_named_where_peers_are_unknown() -> None:
    comm = Communicator(name="MPI_COMM_WORLD", members="0-3")
    job: Job = {
        "0": in_call("MPI_Ssend", "send", communicator=comm),
        "1": recv(comm=comm),
        "2-3": BARRIER,
    }
    (found,) = explained(job).verdicts
    assert (found.kind, found.confidence) == ("unknown", "cannot tell")
    assert str(found.ranks | found.victims) == "0-3"


def test_a_rank_that_came_at_last_was_slow() -> None:
    job: Job = {"0-2": BARRIER, "3": outside()}
    moved = Watch(still=RankSet(), moved=RankSet.parse("0-2"), seconds=2.5)
    (found,) = slow(explained(job), explained(job, moved)).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("slow", "3", "0-2")
    assert found.text.startswith("not hung, but slow: ranks 0-2 wait in MPI_Barrier")
    assert slow(explained(job), explained(job)).verdicts == explained(job).verdicts


def test_two_deadlocks_are_two_verdicts() -> None:
    found = explained({"0": recv(1), "1": recv(0), "2": send(3), "3": send(2)}).verdicts
    assert sorted((each.kind, str(each.ranks)) for each in found) == [
        ("cycle", "0-1"),
        ("head-to-head-sends", "2-3"),
    ]


def test_classes_count_and_not_ranks() -> None:
    """A million ranks in a hundred classes are as quick as a hundred ranks."""
    ranks = 1_000_000
    world = Communicator(name="MPI_COMM_WORLD", members=f"0-{ranks - 1}")
    job: Job = {
        f"{first}-{first + 9_999}": in_call("MPI_Recv", "recv", source=0, tag=n, communicator=world)
        for n, first in enumerate(range(10_000, ranks, 10_000))
    }
    job["0-9999"] = in_call("MPI_Barrier", communicator=world)
    watch = Watch(still=RankSet(range(ranks)), seconds=1.0)
    (found,) = explained(job, watch).verdicts
    assert found.kind == "unmatched-receive"
    assert len(found.ranks) == ranks - 10_000
    assert len(explained(job, watch).edges) < 10_000


@pytest.mark.slow
def test_a_ring_of_many_classes_is_one_cycle() -> None:
    ranks = 3_000
    job: Job = {str(rank): recv((rank + 1) % ranks) for rank in range(ranks)}
    watch = Watch(still=RankSet(range(ranks)), seconds=1.0)
    (found,) = explained(job, watch).verdicts
    assert (found.kind, len(found.ranks)) == ("cycle", ranks)
    assert len(found.text) < 500


def test_calls_with_a_root_are_compared_once_for_each_communicator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks, compared = 50, []
    plain = collectives._differences

    def counted(calls: collectives.Calls) -> object:
        compared.append(len(calls))
        return plain(calls)

    monkeypatch.setattr(collectives, "_differences", counted)
    comm = Communicator(name="MPI_COMM_WORLD", members=f"0-{ranks}")
    # The counts of the recorder, and those of each rank, make classes of one rank.
    job: Job = {
        str(rank): in_call(
            "MPI_Gatherv", root=0, count=rank, communicator=replace(comm, collectives=rank)
        )
        for rank in range(ranks)
    }
    job[str(ranks)] = in_call("MPI_Barrier", communicator=comm)
    (found,) = explained(job, Watch(still=RankSet(range(ranks + 1)), seconds=1.0)).verdicts
    assert (found.kind, str(found.ranks)) == ("different-collectives", str(ranks))
    assert len(compared) <= 4, compared


def test_ranks_that_stand_still_for_an_unknown_reason_are_reported_so() -> None:
    job: Job = {
        "0": waits("MPI_Waitall", "all", request("recv", 1, 1), request("recv", 1, 2)),
        "1": waits("MPI_Waitall", "all", request("send", 0, 1), request("send", 0, 3)),
    }
    (only,) = explained(job).verdicts
    assert (only.kind, only.confidence) == ("no-progress", "cannot tell")
    assert "for whom is unknown" in only.text


def test_waits_without_mpi_are_not_denied() -> None:
    said = explained(HEALTHY["no MPI"], Watch(still=ALL, seconds=1.0)).summary
    assert (
        said == "no rank is in a call of MPI or of torch.distributed: 'tree' shows where ranks are"
    )


def test_a_neighbour_that_may_have_made_the_call_is_no_sure_cause() -> None:
    """Of a grid of two by two: each of the ranks that wait has both others as neighbours."""
    wait = in_call("MPI_Neighbor_allgather", neighbours="0,3")
    (only,) = explained({"0,3": BARRIER, "1-2": wait}).verdicts
    assert (only.kind, only.confidence) == ("missing-from-collective", "cannot tell")
    assert "recorder of MPI calls" in only.decides


def test_a_neighbourhood_call_without_neighbours_waits_for_nobody() -> None:
    alone = in_call("MPI_Neighbor_allgather", neighbours="")
    found = explained({"0": alone, "1-3": BARRIER}).verdicts
    assert [each for each in found if each.confidence != "cannot tell"] == []


@pytest.mark.parametrize("function", ["MPI_Comm_spawn", "MPI_Comm_spawn_multiple"])
def test_ranks_that_start_processes_wait_for_those(function: str) -> None:
    comm = Communicator(name="MPI_COMM_WORLD", members="0-1")
    spawning: Job = {"0-1": in_call(function, "comm", root=0, communicator=comm)}
    watch = Watch(still=RankSet([0, 1]), seconds=1.0)
    started = Elsewhere(RankSet([2, 3]), "stopped at its start", "stopped")
    for others, named in (((), ""), ((started,), "; ranks 2-3, which are not in MPI, may be")):
        (found,) = explained(spawning, watch, *others).verdicts
        assert (str(found.ranks), found.confidence) == ("0-1", "cannot tell")
        assert (
            f"the call waits until MPI_Init has returned in the processes that it starts{named}"
            in (found.text)
        )
        assert found.step.commands[0] == "worlds"
