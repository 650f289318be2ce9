"""Calls of MPI with their arguments, on a program whose every call has its truth beside it."""

from __future__ import annotations

import pytest

import pgdb
from pgdb.mpi_calls import ANY_SOURCE, ANY_TAG, MpiCallStatus, Request
from pgdb.records import Exit
from tests.conftest import Build, StartJob
from tests.support.call_truth import Score, compare, truths
from tests.support.processes import wait_until
from tests.support.programs import Mpi as AnMpi
from tests.support.programs import Program, find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

MPIS = ("openmpi", "mpich", "openmpi5", "mpich-system", "intel")
RANKS = 4
CALLS = 26
VICTIM = "1"


@pytest.fixture(scope="session", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> AnMpi:
    return find_mpi(request.param)


def standing_in(session: pgdb.Session, number: int) -> MpiCallStatus:
    """Let the job run until rank 1 stands in its call with this number; return its status."""
    victim = session.ranks(VICTIM)
    while True:
        session.interrupt()
        session.wait()
        if victim.evaluate("current").values == {1: number}:
            status = victim.mpi_calls().for_rank(1)
            assert isinstance(status, MpiCallStatus), status
            if status.state == "in_call":
                return status
        session.continue_(wait=False)


def look_at_all(session: pgdb.Session, program: Program) -> Score:
    """Compare what is said of each call with the truth."""
    truth = truths(program.source)
    assert len(truth) == CALLS
    score = Score()
    session.continue_(wait=False)
    for number in range(1, CALLS + 1):
        status = standing_in(session, number)
        assert status.where is not None and status.call is not None
        assert status.where.line in truth, status
        assert not status.note, status
        compare(status.call, truth.pop(status.where.line), score)
        session.evaluate(f"released = {number}").check()
        session.continue_(wait=False)
    assert not truth
    return score


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_arguments_are_exact_or_unknown(mpi: AnMpi, build: Build, level: str) -> None:
    program = build("mpi_calls.c", level)
    with pgdb.launch(mpi.line(RANKS, program)) as session:
        score = look_at_all(session, program)
        assert score.wrong == []
        # Of sends, MPICH and Intel MPI keep neither peer nor tag in their requests.
        assert score.exact >= 5 * score.missing, score
        ended = session.wait()
        ends = [each.record for each in ended]
        assert all(isinstance(each, Exit) and each.code == 0 for each in ends), ended


def test_completed_requests_are_distinguished_from_open_ones(
    mpi: AnMpi, build: Build, start_job: StartJob
) -> None:
    truth = [True, False, True, True, False, True, False]
    with start_job(2, build("request_states.c")) as job, pgdb.attach(job.pid) as session:
        found: list[tuple[Request, ...]] = []

        def are_read() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            status = session[0].mpi_calls().for_rank(0)
            assert isinstance(status, MpiCallStatus), status
            if status.call is None or status.call.function != "MPI_Waitall":
                return False
            found.append(status.call.requests)
            # A message is in flight until rank 0 has seen it.
            return [each.complete for each in found[-1][:4]] == truth[:4]

        wait_until(are_read, "the requests of rank 0 are read")
        *states, last = found[-1]
        assert last.kind == "null"
        for each, is_complete in zip(states, truth, strict=True):
            # The objects of persistent requests are not known everywhere.
            is_persistent = each.kind not in ("send", "recv")
            assert each.complete == is_complete or (is_persistent and each.complete is None)


def test_kinds_peers_and_tags_of_requests(mpi: AnMpi, build: Build, start_job: StartJob) -> None:
    expected: list[tuple[str, object, object, str, bool | None]] = [
        ("recv", 1, 301, "dup", False),
        ("recv", 3, 302, "sub", False),
        ("recv", ANY_SOURCE, ANY_TAG, "sub", False),
        ("recv", ANY_SOURCE, 303, "MPI_COMM_WORLD", False),
        ("send", 3, 304, "dup", False),
        ("send", 1, 305, "sub", False),
        ("persistent recv", 3, 306, "sub", True),
        ("persistent send", 1, 307, "sub", True),
        ("persistent recv", 2, 308, "dup", False),
        ("collective", None, None, "dup", False),
        ("generalized", None, None, "", False),
        ("null", None, None, "", None),
    ]
    with start_job(RANKS, build("request_kinds.c")) as job, pgdb.attach(job.pid) as session:
        found: list[tuple[Request, ...]] = []

        def are_read() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            status = session[0].mpi_calls().for_rank(0)
            assert isinstance(status, MpiCallStatus), status
            if status.call is None or status.call.function != "MPI_Waitall":
                return False
            found.append(status.call.requests)
            return True

        wait_until(are_read, "the requests of rank 0 are read")
    assert len(found[-1]) == len(expected)
    for request, (kind, peer, tag, name, complete) in zip(found[-1], expected, strict=True):
        assert request.kind == kind, request
        if kind == "send":
            # MPICH and Intel MPI keep neither peer nor tag of these.
            assert request.peer in (peer, None) and request.tag in (tag, None), request
            # A send may be complete from the library's point of view, as with Intel MPI.
            assert mpi.name == "intel" or not request.complete, request
        else:
            assert (request.peer, request.tag) == (peer, tag), request
            assert request.complete == complete, request
        communicator = request.communicator
        if communicator is None:
            assert kind in ("send", "generalized", "null"), request
        else:
            assert communicator.name == name, request
            assert communicator.members == ("0-1,3" if name == "sub" else "0-3"), request
