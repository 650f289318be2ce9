"""The reasons why ranks of real jobs wait; tests/why has the programs, with their faults."""

from __future__ import annotations

import os
import signal
import uuid

import pytest

import pgdb
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.jobs import procfs
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.jobs import run_job
from tests.support.processes import is_alive, wait_until
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
LOOKS = 12
FEW_LOOKS = 3


def verdict(session: pgdb.Session, kind: str) -> Explanation:
    """Return the explanation that has a verdict of *kind*, once the ranks have come so far."""
    found: list[Explanation] = []

    def is_there() -> bool:
        found.append(session.why(watch_s=0.5))
        return [each.kind for each in found[-1].verdicts] == [kind]

    wait_until(is_there, f"a verdict {kind}")
    return found[-1]


def test_a_receive_with_another_tag_is_named(build: Build, start_job: StartJob) -> None:
    with start_job(RANKS, build("tag_ssend.c")) as job, pgdb.attach(job.pid) as session:
        found = verdict(session, "unmatched-receive")
        (only,) = found.verdicts
        assert (str(only.ranks), str(only.victims)) == ("0-1", "2-3")
        assert only.confidence == "certain"
        assert "with tag 8" in only.text and "sends it one with tag 7" in only.text
        assert RankSet.union(each.ranks for each in found.waits) == RankSet(range(RANKS))
        assert session.set == RankSet.parse("0-3")
        (looked,) = session.why(look_only=True).verdicts
        assert looked.confidence == "cannot tell"


@pytest.mark.parametrize(
    "program", ["healthy_pingpong.c", "healthy_test_pingpong.c", "healthy_nbx.c"]
)
def test_a_job_that_communicates_is_healthy_wherever_it_is_stopped(
    build: Build, start_job: StartJob, program: str
) -> None:
    with start_job(RANKS, build(program)) as job, pgdb.attach(job.pid) as session:
        for _ in range(LOOKS):
            found = session.why(watch_s=0.5)
            assert found.verdicts == (), found.verdicts[0].text
            session.continue_(wait=False)
            session.interrupt()


def test_a_thread_that_serves_accuses_no_rank_whose_first_thread_works(
    build: Build, start_job: StartJob
) -> None:
    with (
        start_job(RANKS, build("healthy_serving.c", "-pthread")) as job,
        pgdb.attach(job.pid) as session,
    ):
        for _ in range(FEW_LOOKS):
            sure = [
                each for each in session.why(watch_s=0.5).verdicts if each.confidence == "certain"
            ]
            assert sure == [], sure[0].text
            session.continue_(wait=False)
            session.interrupt()


def test_a_rank_that_sleeps_between_its_tests_waits_for_what_it_tests(
    build: Build, start_job: StartJob
) -> None:
    with start_job(RANKS, build("testsome_sleeps.c")) as job, pgdb.attach(job.pid) as session:
        (only,) = verdict(session, "unmatched-receive").verdicts
        assert (str(only.ranks), str(only.victims)) == ("0", "1-3")
        assert "waits in MPI_Testsome" in only.text


@pytest.mark.parametrize(
    ("program", "kind", "ranks", "victims", "words"),
    [
        ("nbx_tag.c", "unmatched-send", "2", "0-1,3", "in MPI_Testall"),
        ("nbx_absent.c", "unmatched-receive", "1", "0,2-3", "from 3 with tag 99"),
        ("test_two.c", "unmatched-receive", "0", "1-3", "MPI_Test"),
        ("callback_op.c", "missing-from-collective", "1", "0,2-3", "MPI_Allreduce has called"),
        ("lock_recv.c", "unmatched-receive", "1", "0,2-3", "from 0 with tag 5"),
        ("rma_flag.c", "missing-from-collective", "0", "1-3", "MPI_Fetch_and_op to 1 at 0"),
        ("win_test.c", "unmatched-rma", "0", "1-3", "in MPI_Win_test in window"),
        ("mutex_recv.c", "cycle", "0-1", "2-3", "MPI_Recv from 0 with tag 1"),
        ("omp_recv.c", "unmatched-receive", "2", "0-1,3", "from 3 with tag 8"),
    ],
)
def test_loops_callbacks_and_threads_lead_to_the_cause(
    build: Build,
    start_job: StartJob,
    program: str,
    kind: str,
    ranks: str,
    victims: str,
    words: str,
) -> None:
    binary = build(program, "-pthread", "-fopenmp")
    with start_job(RANKS, binary) as job, pgdb.attach(job.pid) as session:
        found: list[Explanation] = []

        def is_there() -> bool:
            found.append(session.why(watch_s=0.5))
            return [
                (each.kind, str(each.ranks), str(each.victims)) for each in found[-1].verdicts
            ] == [(kind, ranks, victims)]

        wait_until(is_there, f"a verdict {kind} of ranks {ranks}")
        assert words in found[-1].verdicts[0].text


def test_ranks_that_run_are_looked_at_and_run_on(build: Build, start_job: StartJob) -> None:
    with start_job(RANKS, build("recv_recv.c")) as job, pgdb.attach(job.pid) as session:
        verdict(session, "cycle")
        session.continue_(wait=False)
        assert [each.kind for each in session.why().verdicts] == ["cycle"]
        missing = session.wait(timeout_s=0.0).missing
        assert missing.running == RankSet(range(RANKS))


def test_a_rank_at_a_breakpoint_stays_there(build: Build, start_job: StartJob) -> None:
    with start_job(RANKS, build("healthy_uneven.c")) as job, pgdb.attach(job.pid) as session:
        session[2].break_at("work")
        session.continue_(wait=False)
        session[2].wait()
        before = session[2].execute("info frame")

        def are_in_the_call() -> bool:
            return len(session.why().verdicts) == 1

        wait_until(are_in_the_call, "the other ranks wait for rank 2")
        (only,) = session.why().verdicts
        assert (only.kind, str(only.ranks)) == ("missing-from-collective", "2")
        assert only.confidence == "certain"
        assert "stopped at breakpoint 1" in only.text
        assert session[2].execute("info frame").for_rank(2) == before.for_rank(2)


def test_a_program_without_mpi_has_nothing_to_explain(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("nompi.c"), in_mpi=False) as job:
        finished = run_pgdb("attach", str(job.pid), "--batch", *ex("why"))
    assert "No rank is in a call of MPI" in finished.out


@pytest.mark.parametrize(
    ("program", "kind", "who", "cause"),
    [
        ("left_barrier.c", "rank-left", "all ranks are in calls", "Rank 3 has left for MPI_"),
        ("missing_loop.c", "missing-from-collective", "ranks 0-1,3 are in calls", "for rank 2,"),
    ],
)
def test_attach_to_a_job_that_hangs_names_the_command(
    build: Build, start_job: StartJob, program: str, kind: str, who: str, cause: str
) -> None:
    with start_job(RANKS, build(program)) as job:
        with pgdb.attach(job.pid) as session:
            verdict(session, kind)
        finished = run_pgdb("attach", str(job.pid), "--batch", *ex("why"))
    assert f"{who} of MPI; if the job hangs, 'why' explains" in finished.out
    assert cause in finished.out


def test_a_rank_that_a_signal_has_stopped_is_the_cause_and_stays_stopped(
    build: Build, start_job: StartJob
) -> None:
    with start_job(RANKS, build("healthy_allreduce.c")) as job:
        pid = job.ranks[2]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pgdb.attach(job.pid) as session:
                # Ranks may be outside their calls at this moment; rank 2 makes them wait.
                found = verdict(session, "missing-from-collective")
                (only,) = found.verdicts
                assert (str(only.ranks), only.confidence) == ("2", "certain")
                assert "stopped by a signal that came before PGDB" in only.text
            wait_until(lambda: is_stopped(pid), "rank 2 is stopped again")
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_rank_that_ended_before_the_session_is_the_cause(builder: Builder) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "ended_rank.c")
    end = builder.directory / f"end-{uuid.uuid4().hex}"
    stays = {"OMPI_MCA_orte_abort_on_non_zero_status": "0"}
    line = mpi.line(RANKS, program, str(end))
    with run_job(builder, line, program, RANKS, changes=stays) as job:
        end.touch()
        wait_until(lambda: not is_alive(job.ranks[2]), "rank 2 has ended")
        others = RankSet.parse("0-1,3")
        with pgdb.attach(job.pid) as session:
            (only,) = verdict(session, "rank-left").verdicts
            assert (str(only.ranks), str(only.victims)) == ("2", "0-1,3")
            assert only.confidence == "certain"
            assert "ended before the session began" in only.text
            session.continue_(wait=False)
            for rank in others:
                os.kill(job.ranks[rank], signal.SIGUSR1)
            wait_until(lambda: not session.wait(timeout_s=0.0).missing.running, "all have stopped")
            (only,) = session.why().verdicts
            assert (only.kind, str(only.ranks), only.confidence) == (
                "rank-left",
                "2",
                "cannot tell",
            )
            assert only.commands == ("signal 0", "interrupt", "why")


def is_stopped(pid: int) -> bool:
    status = procfs.read_stat(pid)
    return status is not None and status.state == "T"


@pytest.mark.parametrize(
    ("kind", "activity", "marker", "said"),
    [
        ("join", "sleeping", "helper", "sleeps"),
        ("own", "deadlock", "own", "waits for a lock that it holds itself"),
        ("circle", "deadlock", "circle", "is in a deadlock of threads"),
    ],
)
def test_the_thread_that_keeps_a_rank_from_coming_is_named(
    build: Build, mpi: Mpi, kind: str, activity: str, marker: str, said: str
) -> None:
    program = build("inner_waits.c")
    with pgdb.launch(mpi.line(RANKS, program, kind)) as session:
        session.continue_(wait=False)
        found: list[Explanation] = []

        def is_there() -> bool:
            found[:] = [session.why(watch_s=0.5)]
            lines = [each.status.where and each.status.where.line for each in found[0].waits]
            expected = {program.line("barrier"), program.line(marker)}
            return len(found[0].verdicts) == 1 and set(lines) == expected

        wait_until(is_there, f"rank 1 waits at {marker}, and the others for it")
        (only,) = found[0].verdicts
        assert (only.kind, str(only.ranks)) == ("missing-from-collective", "1")
        (party,) = (each for each in found[0].waits if 1 in each.ranks)
        assert party.status.activity == activity
        # Threads of the MPI library have lower numbers than those of the program.
        assert bool(party.status.thread) == (kind != "own"), only.text
        assert f"for rank 1, which {said}" in only.text


def test_a_message_that_has_come_with_another_tag_is_named(
    build: Build, start_job: StartJob
) -> None:
    with start_job(RANKS, build("tag_wraps.c")) as job, pgdb.attach(job.pid) as session:
        (only,) = verdict(session, "unmatched-receive").verdicts
        assert (str(only.ranks), str(only.victims)) == ("0-3", "")
        for rank, party in enumerate(session.why().waits):
            (message,) = party.status.arrived
            sender = (rank - 1) % RANKS
            assert (message.source, message.tag) == (sender, 66000 + sender)
            assert message.communicator is not None
            assert message.communicator.name == "MPI_COMM_WORLD"
        assert "has come from rank 3 has tag 66003" in only.text
        # Nothing was taken from the ranks themselves.
        (again,) = session.why().verdicts
        assert again.text == only.text


def test_a_signal_that_comes_while_the_ranks_run_is_no_return_from_a_call(
    build: Build, start_job: StartJob
) -> None:
    """A launcher sends one to all ranks when another rank ends."""
    with start_job(RANKS, build("recv_recv.c")) as job, pgdb.attach(job.pid) as session:
        verdict(session, "cycle")
        for pid in job.ranks.values():
            os.kill(pid, signal.SIGUSR1)
        (only,) = session.why(watch_s=0.5).verdicts
        assert (only.kind, str(only.ranks), str(only.victims)) == ("cycle", "0-1", "2-3")
