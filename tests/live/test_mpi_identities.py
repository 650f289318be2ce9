"""Identities of communicators: all members have one, and other communicators have others."""

from __future__ import annotations

import pytest

import pgdb
from pgdb.mpi_calls import Communicator, MpiCallStatus
from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.programs import Mpi as AnMpi
from tests.support.programs import find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

MPIS = ("openmpi", "openmpi5", "mpich-system", "mpich", "intel")
RANKS = 4
STAGES = 4
WAITING = (0, 2, 3)


@pytest.fixture(scope="session", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> AnMpi:
    return find_mpi(request.param)


def standing_in(session: pgdb.Session, stage: int) -> list[Communicator]:
    """Let the job run until all ranks but 1 wait in a stage; return their communicators."""
    waiting = session.ranks("0,2-3")
    while True:
        session.interrupt()
        session.wait()
        stages = session.evaluate("stage").values
        if all(stages.get(rank) == stage for rank in range(RANKS)):
            statuses = [waiting.mpi_calls().for_rank(rank) for rank in WAITING]
            calls = [each.call for each in statuses if isinstance(each, MpiCallStatus)]
            found = [each.communicator for each in calls if each and each.communicator]
            if len(found) == len(WAITING):
                return found
        session.continue_(wait=False)


def test_members_have_one_identity_for_a_communicator(mpi: AnMpi, build: Build) -> None:
    program = build("mpi_identities.c")
    found = []
    with pgdb.launch(mpi.line(RANKS, program)) as session:
        session.continue_(wait=False)
        for stage in range(1, STAGES + 1):
            identities = {each.identity for each in standing_in(session, stage)}
            assert len(identities) == 1, identities
            found += identities
            session.evaluate(f"released = {stage}").check()
            session.continue_(wait=False)
        session.wait()
    assert "" not in found
    assert len(set(found)) == STAGES, found


def test_a_window_taken_for_another_of_the_same_members_is_named(
    mpi: AnMpi, build: Build, start_job: StartJob
) -> None:
    if mpi.name == "openmpi5":
        pytest.skip("PGDB finds no identity of windows in the memory of Open MPI 5")
    with start_job(RANKS, build("win_of_two.c")) as job, pgdb.attach(job.pid) as session:

        def is_there() -> bool:
            verdicts = session.why(watch_s=0.5).verdicts
            return [(each.kind, str(each.ranks)) for each in verdicts] == [
                ("communicator-mixup", "3")
            ]

        wait_until(is_there, "a verdict about rank 3, in another window")
