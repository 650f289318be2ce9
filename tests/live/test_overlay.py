"""The tree of aggregators on real jobs: deep ones, and what the loss of one does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import pgdb
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.jobs import Job
from tests.support.processes import aggregator_of, status, switches_of, wait_until
from tests.support.programs import Mpi
from tests.support.terminal import DEADLINE_S, assert_untouched, ex, run_json

pytestmark = pytest.mark.mpi
# 10 ranks on 5 aggregators with fan-out 2: node 1 has the ranks 2-3, its children 6-7 and 8-9.
RANKS, AGGREGATORS, FAN_OUT = 10, 5, 2
LOST, BELOW = RankSet.parse("2-3"), RankSet.parse("6-9")


def daemon_of(job: Job, rank: int) -> int:
    """Return the aggregator that has a rank."""
    return aggregator_of(job.ranks[rank])


def test_a_deep_tree_answers_as_one(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    finished = run_json(
        "launch",
        *("--aggregators", AGGREGATORS, "--fan-out", FAN_OUT),
        *ex("break exchange", "c", "p rank", "p size", "bt", "info breakpoints"),
        *mpi.line(RANKS, program, "1"),
        deadline_s=120,
    )
    assert finished.status == 0
    values = finished.answer("print rank")["classes"]
    assert {each["ranks"]: each["value"] for each in values} == {str(r): r for r in range(RANKS)}
    for command in ("print size", "continue", "backtrace", "info breakpoints"):
        assert [each["ranks"] for each in finished.answer(command)["classes"]] == ["0-9"], command


def test_the_aggregators_share_the_ranks(build: Build, start_job: StartJob) -> None:
    with start_job(RANKS, build("storm.c")) as job:
        with pgdb.attach(job.pid, aggregators=AGGREGATORS, fan_out=FAN_OUT) as session:
            daemons = [daemon_of(job, rank) for rank in range(RANKS)]
            assert daemons[0::2] == daemons[1::2]
            assert len(set(daemons)) == AGGREGATORS
            assert session.evaluate("hit_count > 0").values == dict.fromkeys(range(RANKS), 1)
        assert_untouched(job.ranks)


def test_an_aggregator_dies(build: Build, start_job: StartJob) -> None:
    reported: list[tuple[str, RankSet]] = []
    with start_job(RANKS, build("storm.c")) as job:
        with pgdb.attach(
            job.pid,
            aggregators=AGGREGATORS,
            fan_out=FAN_OUT,
            grace_s=60,
            on_event=lambda each: reported.append((each.kind, each.ranks)),
        ) as session:
            session.break_at("hit").check()
            session.continue_().check()
            os.kill(daemon_of(job, 2), signal.SIGKILL)

            def lost() -> RankSet:
                return RankSet.union(ranks for kind, ranks in reported if kind == "lost")

            wait_until(lambda: not LOST - lost(), "the loss is reported", DEADLINE_S)
            others = session.set - LOST

            def all_answer() -> bool:
                answer = session.evaluate("1 + 1", timeout_s=10)
                return set(answer.values) == set(others)

            wait_until(all_answer, "the ranks below the lost aggregator answer", DEADLINE_S)
            answer = session.evaluate("hit_count > 0")
            assert answer.values == dict.fromkeys(others, 1)
            assert answer.missing.lost == LOST
            again = session.ranks(others).continue_(timeout_s=DEADLINE_S).check()
            assert RankSet.union(each.ranks for each in again) == others
            assert [each.ranks for each in session.ranks(BELOW).breakpoints()] == [BELOW]
        assert_untouched(job.ranks)


def test_the_root_aggregator_dies(build: Build, start_job: StartJob) -> None:
    with start_job(6, build("storm.c")) as job:
        with pgdb.attach(job.pid, aggregators=3, fan_out=2, grace_s=60) as session:
            session.break_at("hit").check()
            os.kill(daemon_of(job, 0), signal.SIGKILL)
            others = RankSet.parse("2-5")
            wait_until(
                lambda: set(session.evaluate("1", timeout_s=10).values) == set(others),
                "the other ranks answer",
                DEADLINE_S,
            )
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_a_gdb_dies(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        with pgdb.attach(job.pid) as session:
            os.kill(int(status(job.ranks[1], "TracerPid")), signal.SIGKILL)
            wait_until(
                lambda: session.evaluate("1").missing.lost == RankSet([1]), "the loss is seen"
            )
            assert set(session.evaluate("1").values) == {0, 2}
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_a_gdb_dies_while_its_rank_runs_with_breakpoints(build: Build, start_job: StartJob) -> None:
    program = build("storm.c")
    with start_job(3, program) as job:
        with pgdb.attach(job.pid) as session:
            # A place that is not reached: nothing can remove a breakpoint before its next hit
            # where that comes within a millisecond.
            session.break_at(program.at("done")).check()
            session.continue_(wait=False).check()
            os.kill(int(status(job.ranks[1], "TracerPid")), signal.SIGKILL)
            wait_until(
                lambda: session.ranks("1").evaluate("1").missing.lost == RankSet([1]),
                "the loss is seen",
            )
        assert_untouched(job.ranks)


def test_an_idle_session_uses_no_time(build: Build, start_job: StartJob) -> None:
    def used(pid: int) -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    with start_job(2, build("storm.c")) as job, pgdb.attach(job.pid):
        gdbs = [int(status(pid, "TracerPid")) for pid in job.ranks.values()]
        # The parent of both is the nursery.
        pids = [daemon_of(job, 0), *{int(status(pid, "PPid")) for pid in gdbs}, *gdbs]

        def is_idle() -> bool:
            before = {pid: used(pid) for pid in pids}
            switches = {pid: switches_of(pid) for pid in pids}
            with pytest.raises(AssertionError):
                wait_until(lambda: False, "time to pass", 3.0)
            # Heartbeats are a few wake-ups a second at most.
            return all(
                used(pid) - before[pid] <= 2 and switches_of(pid) - switches[pid] < 30
                for pid in pids
            )

        # No poll remains; the rest of the start takes its time on a busy machine.
        wait_until(is_idle, "the session is idle", DEADLINE_S)
