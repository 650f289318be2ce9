"""Jobs in Slurm: named in every way, started in every way, ended by others, and left as they were.

The tests run where users sit: on a host that is none of the job's nodes.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import pgdb
import tests.support.slurm
from pgdb.jobs import procfs
from pgdb.jobs.rank_environment import rank_environment
from pgdb.ranks import RankSet
from tests.support.jobs import run_job
from tests.support.processes import (
    aggregator_of,
    is_alive,
    is_traced,
    parent_of,
    processes_with,
    wait_until,
)
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.slurm import CORES, Slurm, private_slurm
from tests.support.terminal import (
    PGDB,
    Finished,
    assert_untouched,
    ex,
    run_json,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.slurm]

START_DEADLINE_S = 120.0
ON_TWO_NODES = [{"host": "n1", "ranks": "0-1"}, {"host": "n2", "ranks": "2-3"}]


@pytest.fixture
def cluster(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The tests' Slurm, for PGDB's commands too; its jobs end with the test."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield slurm
    slurm.cancel_all()


@pytest.fixture
def mpi() -> Mpi:
    return find_mpi("slurm")


@pytest.fixture
def ring(builder: Builder, mpi: Mpi) -> Program:
    return builder.build(mpi, "ring")


def submit(cluster: Slurm, path: Path, script: str, *options: str) -> str:
    """Submit a batch script and return the number of its job."""
    # The last command is not to replace the shell, as it never does in a real script.
    path.write_text(f"#!/bin/bash\n{script}\nexit $?\n")
    words = ("sbatch", "--parsable", f"--output={path}.out", *options, str(path))
    return cluster.run(*words).strip()


def steps(cluster: Slurm) -> list[str]:
    """Return the steps that srun has started, such as ``17.0``."""
    listed = cluster.run("squeue", "--steps", "--noheader", "--format=%i").split()
    return sorted(each for each in listed if each.rpartition(".")[2].isdecimal())


def wait_for_own_step(cluster: Slurm, number: str) -> None:
    """Wait until a job has no step but its first: Slurm is a moment behind the end of ours."""
    wait_until(lambda: steps(cluster) == [f"{number}.0"], "our step is gone")


def number_of_job(cluster: Slurm) -> str:
    return cluster.run("squeue", "--noheader", "--format=%i").strip()


def ranks_of(job: str, program: Program) -> dict[int, int]:
    """Return the processes of a program in a Slurm job, by rank."""
    found = {}
    for pid in processes_with(f"SLURM_JOB_ID={job}"):
        identity = rank_environment(procfs.environment(pid) or {})
        if identity is not None and procfs.executable(pid) == str(program.path):
            found[identity.rank] = pid
    return dict(sorted(found.items()))


def wait_for_ranks(job: str, program: Program, ranks: int) -> dict[int, int]:
    wait_until(
        lambda: len(ranks_of(job, program)) == ranks, f"{ranks} ranks are up", START_DEADLINE_S
    )
    return ranks_of(job, program)


def places(finished: Finished) -> RankSet:
    """Return the ranks that ``hello`` has on the two nodes."""
    hosts = {each["host"]: RankSet.parse(each["ranks"]) for each in finished.objects[0]["hosts"]}
    assert sorted(hosts) == ["n1", "n2"], finished.err
    return hosts["n1"] | hosts["n2"]


@contextmanager
def allocation(script: str, *options: str) -> Iterator[int]:
    """Run a script in the shell of an allocation as long as the context lasts."""
    process = subprocess.Popen(
        ["salloc", *options, "bash", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(START_DEADLINE_S)


# -- attaching ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slurm", "slurm-pmix"])
def test_every_name_of_a_step(builder: Builder, cluster: Slurm, name: str) -> None:
    mpi = find_mpi(name)
    ring = builder.build(mpi, "ring")
    with run_job(builder, mpi.line(4, ring, hosts=cluster.nodes), ring, 4) as job:
        number = number_of_job(cluster)
        for target in (str(job.pid), number, f"{number}.0"):
            finished = run_json("attach", "--verbose", *ex("bt"), target)
            assert finished.status == 0, finished.out + finished.err
            assert finished.objects[0]["hosts"] == ON_TWO_NODES
            assert f"found 4 ranks on 2 hosts (MPIR_proctable of srun {job.pid})" in finished.err
            assert finished.answer("backtrace")["ranks"] == "0-3"
            wait_for_own_step(cluster, number)
            assert_untouched(job.ranks, progress=5)


def test_the_step_of_the_aggregators(builder: Builder, cluster: Slurm, mpi: Mpi) -> None:
    ring = builder.build(mpi, "ring")
    with run_job(builder, mpi.line(4, ring, hosts=cluster.nodes), ring, 4) as job:
        number = number_of_job(cluster)
        with pgdb.attach(job.pid) as session:
            assert steps(cluster) == [f"{number}.0", f"{number}.1"]
            words = procfs.command_line(session._session.transport.overlay.launcher_pid) or []
            assert {"--overlap", "--mem=0", "--gres=none", "--mpi=none"} <= set(words)
            # A second session finds the job's own step, not that of the first one's aggregators.
            finished = run_json("attach", "--ranks", "3", *ex("p 1"), number)
            assert "is already traced by" in finished.out + finished.err
            assert session.evaluate("rank").values == dict(enumerate(range(4)))
        wait_for_own_step(cluster, number)
        assert_untouched(job.ranks, progress=5)


@pytest.mark.parametrize("connect", [False, True])
def test_lost_aggregators_are_started_again_by_steps(
    builder: Builder, cluster: Slurm, mpi: Mpi, ring: Program, connect: bool
) -> None:
    """The lower aggregator comes back first, while the one above it is still lost."""
    lost: list[RankSet] = []
    with run_job(builder, mpi.line(4, ring, hosts=cluster.nodes), ring, 4) as job:
        number = number_of_job(cluster)
        with pgdb.attach(
            job.pid,
            connect=connect,
            on_event=lambda reported: (
                lost.append(reported.ranks) if reported.kind == "lost" else None
            ),
        ) as session:
            session.continue_(wait=False).check()
            for rank in (0, 2):
                os.kill(aggregator_of(job.ranks[rank]), signal.SIGKILL)
            wait_until(
                lambda: RankSet.union(lost) == session.set,
                "all are reported lost",
                START_DEADLINE_S,
            )
            wait_until(lambda: not any(map(is_traced, job.ranks.values())), "all are free")
            for ranks in (RankSet([2, 3]), RankSet([0, 1])):
                session.ranks(ranks).reattach(timeout_s=START_DEADLINE_S).check()
                session.ranks(ranks).interrupt()
                assert session.ranks(ranks).evaluate("rank").values == {r: r for r in ranks}
        wait_for_own_step(cluster, number)
        assert_untouched(job.ranks, progress=5)


def test_srun_in_a_batch_job(cluster: Slurm, mpi: Mpi, ring: Program, tmp_path: Path) -> None:
    line = shlex.join([mpi.launcher, *mpi.options, "-n", "4", str(ring.path)])
    number = submit(cluster, tmp_path / "job.sh", line, "--nodes=2", "--ntasks=4")
    ranks = wait_for_ranks(number, ring, 4)
    finished = run_json("attach", "--verbose", *ex("bt"), number)
    assert finished.status == 0, finished.out + finished.err
    assert places(finished) == RankSet(ranks)
    # That srun runs on a node, where we are not.
    assert f"found a job on 2 hosts (Slurm step {number}.0)" in finished.err
    assert finished.answer("backtrace")["ranks"] == "0-3"
    assert_untouched(ranks, progress=5)
    wait_for_own_step(cluster, number)


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
@pytest.mark.parametrize("program", ["ring", "nompi"])
def test_mpirun_in_a_batch_job(
    builder: Builder, cluster: Slurm, tmp_path: Path, name: str, program: str
) -> None:
    mpi = find_mpi(name)
    built = builder.build(mpi, program)
    # Two ranks on each node, wherever the launcher would begin.
    spread = ["--map-by", "node"] if name == "openmpi" else ["-ppn", "1"]
    line = shlex.join([mpi.launcher, "-n", "4", *mpi.options, *spread, str(built.path)])
    number = submit(cluster, tmp_path / "job.sh", line, "--nodes=2", "--ntasks=4")
    ranks = wait_for_ranks(number, built, 4)
    finished = run_json("attach", "--verbose", *ex("bt"), number)
    assert finished.status == 0, finished.out
    assert places(finished) == RankSet(ranks)
    assert f"found a job on 2 hosts (Slurm job {number})" in finished.err
    # On its own node mpirun is a process like any other; before MPI_Init its table may be empty.
    launchers = {
        pid
        for pid, words in processes_with(f"SLURM_JOB_ID={number}").items()
        if words.startswith(f"{mpi.launcher} ")
    }
    # Its children are called the same until they have executed their programs, also those whose
    # parent has ended: the first one is the launcher.
    mpirun = min(pid for pid in launchers if parent_of(pid) not in launchers)
    on_node = ["nsenter", f"--target={mpirun}", "--uts", "--ipc", "--mount", *PGDB]
    finished = run_json("attach", *ex("bt"), mpirun, command=on_node)
    assert finished.status == 0, finished.out
    assert places(finished) == RankSet(ranks), finished.err
    assert_untouched(ranks, progress=5)


def test_steps_of_one_allocation(cluster: Slurm, mpi: Mpi, ring: Program) -> None:
    srun = shlex.join([mpi.launcher, *mpi.options, "--overlap", "--nodes=2"])
    script = f"{srun} -n4 {ring.path} & {srun} -n2 {ring.path} & wait"
    with allocation(script, "--nodes=2", "--ntasks=8") as pid:
        wait_until(lambda: len(steps(cluster)) == 2, "both steps run", START_DEADLINE_S)
        number = number_of_job(cluster)
        ranks = {each: procfs_ranks(number, each, ring) for each in steps(cluster)}
        assert sorted(map(len, ranks.values())) == [2, 4]
        finished = run_pgdb("attach", "--batch", *ex("bt"), number)
        assert finished.status == 3
        for each in ranks:
            assert each in finished.err
        assert f"use pgdb attach {number}.0" in finished.err
        # A pid above both is just as ambiguous.
        finished = run_pgdb("attach", "--batch", *ex("bt"), pid)
        assert finished.status == 3
        assert "has several launchers below it" in finished.err
        for each, processes in ranks.items():
            finished = run_json("attach", *ex("p size"), each)
            (value,) = finished.answer("print size")["classes"]
            assert value["value"] == len(processes)
            assert_untouched(processes, progress=5)
        finished = run_pgdb("attach", "--batch", *ex("bt"), f"{number}.7")
        assert f"has no running step 7; it has {number}.0 (ring), {number}.1 (ring)" in finished.err


def procfs_ranks(job: str, step: str, program: Program) -> dict[int, int]:
    """Return the ranks of one step, by its number such as ``17.0``, once all of them run."""

    def find() -> dict[int, int]:
        found = {}
        for pid in processes_with(f"SLURM_STEP_ID={step.rpartition('.')[2]}"):
            variables = procfs.environment(pid) or {}
            identity = rank_environment(variables)
            if variables.get("SLURM_JOB_ID") == job and procfs.executable(pid) == str(program.path):
                assert identity is not None and identity.size is not None
                found[identity.rank] = pid
                size = identity.size
        return found if found and len(found) == size else {}

    wait_until(find, f"the ranks of {step} run", START_DEADLINE_S)
    return find()


def test_jobs_that_do_not_run(cluster: Slurm, tmp_path: Path) -> None:
    def refusal(target: str) -> str:
        finished = run_pgdb("attach", "--batch", *ex("bt"), target)
        assert finished.status == 3, finished.out + finished.err
        assert finished.err.count("\n") == 1, finished.err
        return finished.err

    held = submit(cluster, tmp_path / "held.sh", "true", "--hold")
    assert f"Slurm job {held} does not run yet (PENDING, JobHeldUser)" in refusal(f"{held}.0")
    ended = submit(cluster, tmp_path / "ended.sh", "true")
    wait_until(
        lambda: number_of_job(cluster).split() == [held], "the other job ends", START_DEADLINE_S
    )
    assert f"Slurm job {ended} has ended (COMPLETED)" in refusal(f"{ended}.0")
    # A number alone may be a process id: then the message names both.
    for target in ("4194305", "4194305.0"):
        assert "squeue knows no job 4194305" in refusal(target)


def test_the_job_is_cancelled_during_a_session(
    builder: Builder, cluster: Slurm, mpi: Mpi, ring: Program
) -> None:
    lost: list[RankSet] = []
    with run_job(builder, mpi.line(4, ring, hosts=cluster.nodes), ring, 4) as job:
        number = number_of_job(cluster)
        with pgdb.attach(
            job.pid,
            on_event=lambda reported: (
                lost.append(reported.ranks) if reported.kind in ("exit", "lost") else None
            ),
        ) as session:
            session.continue_(wait=False).check()
            cluster.run("scancel", number)
            wait_until(
                lambda: RankSet.union(lost) == RankSet.parse("0-3"),
                "the end of all ranks is reported",
                START_DEADLINE_S,
            )
        wait_until(lambda: not number_of_job(cluster), "the job is gone")
        assert not any(is_alive(pid) for pid in job.ranks.values())


def test_a_job_that_has_all_cores_and_all_memory(
    builder: Builder, mpi: Mpi, ring: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A step without --mem=0 waits for memory for ever, but only where memory is counted.
    text = tests.support.slurm.CONFIG
    assert "CR_Core\n" in text
    monkeypatch.setattr(
        tests.support.slurm, "CONFIG", text.replace("CR_Core\n", "CR_Core_Memory\n")
    )
    with private_slurm(1) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        line = [mpi.launcher, *mpi.options, "--exclusive", "-n", str(CORES), "--mem=1000"]
        with run_job(builder, [*line, str(ring.path)], ring, CORES) as job:
            reported = cluster.run("scontrol", "show", "step", f"{number_of_job(cluster)}.0")
            assert "mem=1000M" in reported and f"cpu={CORES}" in reported, reported
            finished = run_json("attach", *ex("p size"), job.pid)
            (value,) = finished.answer("print size")["classes"]
            assert (value["ranks"], value["value"]) == (f"0-{CORES - 1}", CORES)
            assert_untouched(job.ranks, progress=5)


# -- launching ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [False, True], ids=["its own allocation", "in salloc"])
@pytest.mark.parametrize("name", ["slurm", "slurm-pmix"])
def test_launch(builder: Builder, cluster: Slurm, name: str, inside: bool) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "exitcode")
    nodes: Sequence[str] = () if inside else cluster.nodes
    command = ["salloc", "--quiet", "--nodes=2", "--ntasks=4", *PGDB] if inside else PGDB
    # All end MPI, then all but rank 0 end, and it last: so srun ends no rank by itself.
    commands = ex(f"break {program.at('exit')}", "c", "proc 1-3 c", "proc 0 c")
    line = mpi.line(4, program, "0", "7", hosts=nodes)
    finished = run_json("launch", "--exit-code=job", *commands, *line, command=command)
    stop = finished.of_type("stop")[0]["classes"]
    assert [(each["ranks"], each["reason"]) for each in stop] == [("0-3", "main")], finished.out
    assert places(finished) == RankSet.parse("0-3")
    reported = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    codes = {rank: each["code"] for each in reported for rank in RankSet.parse(each["ranks"])}
    assert codes == {0: 7, 1: 0, 2: 0, 3: 0}
    assert finished.status == 7
    wait_until(lambda: not number_of_job(cluster), "the job is gone", START_DEADLINE_S)


def test_mpirun_launched_in_an_allocation(builder: Builder, cluster: Slurm) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "exitcode")
    command = ["salloc", "--quiet", "--nodes=2", "--ntasks=4", *PGDB]
    line = [mpi.launcher, "-n", "4", *mpi.options, "--map-by", "node", str(program.path)]
    finished = run_json("launch", *ex("c"), *line, command=command)
    stop = finished.of_type("stop")[0]["classes"]
    assert [(each["ranks"], each["reason"]) for each in stop] == [("0-3", "main")], finished.out
    assert len(finished.objects[0]["hosts"]) == 2, finished.objects[0]
    assert finished.status == 0, finished.out + finished.err
