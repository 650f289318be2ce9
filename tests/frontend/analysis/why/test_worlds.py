"""Calls of ranks in several worlds: each world of MPI numbers its ranks from 0."""

from __future__ import annotations

from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.explain import explain
from pgdb.frontend.analysis.why.parties import parties_of
from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.frontend.analysis.why.waiting import Watch, solve
from pgdb.frontend.analysis.why.worlds import in_session
from pgdb.mpi_calls import ELSEWHERE, ArrivedMessage, Communicator, Group, MpiCallStatus, Request
from pgdb.ranks import RankSet
from tests.support.why_calls import call, in_call, status, waits
from tests.support.why_jobs import Job, classes

WORLDS = {0: RankSet.parse("0-1"), 1: RankSet.parse("2-4")}
STILL = Watch(still=RankSet.parse("0-4"), seconds=1.0)


def world(members: str) -> Communicator:
    return Communicator(name="MPI_COMM_WORLD", members=members, identity="world")


def across(members: str, identity: str = "3") -> Communicator:
    return Communicator(members=members, remote=ELSEWHERE, identity=identity)


def moved(job: Job, worlds: dict[int, RankSet] = WORLDS) -> dict[str, MpiCallStatus]:
    found = in_session(tuple(classes(job)), worlds)
    return {
        str(each.ranks): each.record for each in found if isinstance(each.record, MpiCallStatus)
    }


def verdicts(job: Job, worlds: dict[int, RankSet] = WORLDS) -> list[Verdict]:
    found = explain(in_session(tuple(classes(job)), worlds), (), STILL)
    return list(found.verdicts)


def test_ranks_of_a_further_world_are_those_of_the_session() -> None:
    made = status(
        call(
            "MPI_Recv", "recv", source=2, dest=0, root=1, communicator=world("0-2"),
            window=Group(members="0-2"), group=Group(members="1"), neighbours="0,2", awaits="",
            came="1", requests=(Request(peer=1, communicator=world("0-2"), neighbours="2"),),
        )
    )  # fmt: skip
    made = MpiCallStatus(
        state="in_call",
        calls=made.calls,
        callback_of=made.calls[0],
        arrived=(ArrivedMessage(source=1, tag=7, communicator=world("0-2")),),
    )
    found = moved({"3": made})["3"]
    for each in (found.calls[0], found.callback_of):
        assert each is not None and each.communicator is not None
        assert (each.source, each.dest, each.root) == (4, 2, 3)
        assert (each.communicator.members, each.communicator.remote) == ("2-4", "")
        assert each.window is not None and each.group is not None
        assert (each.window.members, each.group.members) == ("2-4", "3")
        assert (each.neighbours, each.awaits, each.came) == ("2,4", "", "3")
        (request,) = each.requests
        assert (request.peer, request.neighbours) == (3, "4")
    assert found.arrived[0].source == 3
    assert moved({"3": made}, {}) == {"3": made}, "one world alone stays as it is"


def test_equal_calls_of_two_worlds_are_two() -> None:
    barrier = in_call("MPI_Barrier", communicator=world("0-1"))
    found = moved({"0-4": barrier})
    members = {ranks: each.calls[0].communicator for ranks, each in found.items()}
    assert {ranks: one.members for ranks, one in members.items() if one} == {
        "0-1": "0-1",
        "2-4": "2-3",
    }
    identities = {one.identity for one in members.values() if one}
    assert len(identities) == 2, "MPI_COMM_WORLD of two worlds is not one communicator"


def test_a_world_that_is_not_in_the_session_is_no_culprit() -> None:
    receive = in_call("MPI_Recv", "recv", tag=42, communicator=across("0-1"))
    barrier = in_call("MPI_Barrier", communicator=across("0-1"))
    request = Request(kind="recv", communicator=across("0-1"))
    for job in (
        {"0": receive, "1": barrier},
        {"0": waits("MPI_Wait", "all", request), "1": barrier},
        {"0-1": barrier},
    ):
        for found in verdicts(job, {}):
            assert (found.kind, found.confidence) == ("unknown", "cannot tell")
            assert "a process of another world; PGDB does not know which" in found.text
            assert found.step.commands == ("worlds",)
    assert words.communicator(across("0-1")) == "a communicator of [0-1] and another world"


def test_the_two_worlds_of_a_communicator_are_linked() -> None:
    receive = in_call("MPI_Recv", "recv", tag=42, communicator=across("0-1"))
    inside = in_call("MPI_Barrier", communicator=across("0-1"))
    outside = in_call("MPI_Barrier", communicator=across("0-2"))
    job: Job = {"0": receive, "1": inside, "2-4": outside}
    found = {ranks: each.calls[0].communicator for ranks, each in moved(job).items()}
    sides = {ranks: (one.members, one.remote) for ranks, one in found.items() if one}
    assert sides == {"0": ("0-1", "2-4"), "1": ("0-1", "2-4"), "2-4": ("2-4", "0-1")}
    (verdict,) = verdicts(job)
    assert (verdict.kind, str(verdict.ranks)) == ("unmatched-receive", "0")
    assert str(verdict.victims) == "1-4"


def test_a_message_to_the_other_world_waits_for_that_world_alone() -> None:
    job: Job = {
        "0": in_call("MPI_Recv", "recv", tag=5, communicator=across("0-1")),
        "1": in_call("MPI_Barrier", communicator=world("0-1")),
        "2-3": in_call("MPI_Barrier", communicator=world("0-2")),
        "4": in_call("MPI_Ssend", "send", tag=6, communicator=across("0-2")),
    }
    parties = parties_of(in_session(tuple(classes(job)), WORLDS))
    waiting = solve(parties, STILL)
    wanted = {
        str(each.ranks): [str(need.targets) for need in waiting.open_needs(number)]
        for number, each in enumerate(parties)
    }
    assert wanted == {"0": ["2-4"], "1": ["0"], "2-3": ["4"], "4": ["0-1"]}


def test_peers_of_the_other_world_are_said_to_be_unknown() -> None:
    """The library has the number of a peer in its group alone."""
    job: Job = {
        "0": in_call("MPI_Recv", "recv", tag=5, communicator=across("0-1")),
        "1": in_call("MPI_Barrier", communicator=world("0-1")),
        "2-3": in_call("MPI_Barrier", communicator=world("0-2")),
        "4": in_call("MPI_Recv", "recv", tag=5, communicator=across("0-2")),
    }
    (verdict,) = verdicts(job)
    assert verdict.confidence == "cannot tell"
    assert (
        "wait for ranks of another world, and no call returns; PGDB does not know" in verdict.text
    )
    assert ", for one of [2-4]; [4] " in verdict.text
    assert verdict.text.endswith(", for one of [0-1]")
    assert "a rank in the other group" in verdict.step.text


def test_communicators_of_other_identities_are_not_linked() -> None:
    inside = in_call("MPI_Barrier", communicator=across("0-1", "3"))
    outside = in_call("MPI_Barrier", communicator=across("0-2", "4"))
    assert {each.confidence for each in verdicts({"0-1": inside, "2-4": outside})} == {
        "cannot tell"
    }
