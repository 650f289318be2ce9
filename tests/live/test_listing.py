"""The list of running jobs, the query to prterun and the answers of Slurm, with real jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.frontend.discovery import listing, slurm
from pgdb.frontend.discovery.listing import RunningJob, list_jobs
from pgdb.frontend.discovery.mpir import is_this_host
from pgdb.proctable import RankProcess
from tests.support.hosts import Hosts
from tests.support.jobs import run_job
from tests.support.patience import patient
from tests.support.processes import processes_with, wait_until
from tests.support.programs import ROOT, Builder, find_mpi
from tests.support.slurm import Slurm

pytestmark = pytest.mark.mpi

START_DEADLINE_S = 120.0
END_DEADLINE_S = 120.0
ON_HOST = """
import json, sys
from msgspec.structs import astuple
from pgdb.frontend.discovery import listing
from tests.support.patience import patient
listing.COUNTING_S = 60.0
jobs = {job.target: (job.ranks, job.hosts) for job in listing.list_jobs()}
print(json.dumps([jobs, [astuple(rank) for rank in patient(int(sys.argv[1]))]]))
"""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all jobs counted and Slurm waited for, however busy the machine is."""
    monkeypatch.setattr(listing, "COUNTING_S", 60.0)
    monkeypatch.setattr(listing, "SLURM_TIMEOUT_S", 60.0)


def job_of(pid: int) -> RunningJob | None:
    """Return the one job in the list that is in the session of a process, if there is one."""
    found = [job for job in list_jobs() if session_of(job.target) == pid]
    assert len(found) < 2, found
    return found[0] if found else None


def session_of(target: str) -> int:
    try:
        return os.getsid(int(target))
    except (ValueError, ProcessLookupError):
        return 0  # a step of Slurm's, or somebody's job that has ended meanwhile


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich", "mpich-system", "intel"])
@pytest.mark.parametrize("in_mpi", [True, False], ids=["in MPI", "before MPI_Init"])
def test_one_entry_for_a_job(builder: Builder, name: str, in_mpi: bool) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "ring" if in_mpi else "nompi")
    line = mpi.line(3, program)
    began_s = time.monotonic()
    with run_job(builder, line, program, 3, in_mpi=in_mpi) as job:
        found = job_of(job.pid)
        assert found is not None
        # The programs that mpirun has become, or has started, have other names.
        assert found.command.split(" ", 1)[1] == " ".join(line[1:])
        assert (found.ranks, found.hosts) == (3, 1)
        assert found.is_ours
        # The kernel counts the start in ticks.
        assert 0 <= found.age_s <= time.monotonic() - began_s + 1


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich"])
def test_aggregators_are_no_job(builder: Builder, name: str) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "ring")
    changes = {"PGDB_WIRE_UP": "mpi"}
    with run_job(builder, mpi.line(2, program), program, 2, changes=changes) as job:
        assert job_of(job.pid) is None


@pytest.mark.parametrize("in_mpi", [True, False], ids=["in MPI", "before MPI_Init"])
def test_prterun_names_its_ranks_and_ends_as_it_would(builder: Builder, in_mpi: bool) -> None:
    mpi = find_mpi("openmpi5")
    program = builder.build(mpi, "ring" if in_mpi else "nompi")
    with run_job(builder, mpi.line(3, program), program, 3, in_mpi=in_mpi) as job:
        for _ in range(3):
            # Each of them is one more tool to prterun, which waits for tools before it ends.
            assert patient(job.pid) == tuple(
                RankProcess(rank, os.uname().nodename, pid, str(program.path))
                for rank, pid in job.ranks.items()
            )
        # prterun ends the others.
        os.kill(job.ranks[1], signal.SIGUSR1)
        assert job.process.wait(END_DEADLINE_S) == 128 + signal.SIGUSR1


def test_prterun_knows_the_ranks_of_all_hosts(four_hosts: Hosts, builder: Builder) -> None:
    mpi = find_mpi("openmpi5")
    program = builder.build(mpi, "ring")
    line = four_hosts.command("h1", mpi.line(8, program, hosts=four_hosts.names))
    with run_job(builder, line, program, 8) as job:
        ask = ["env", f"--chdir={ROOT}", sys.executable, "-c", ON_HOST, job.pid]
        jobs, ranks = json.loads(four_hosts.run("h1", ask).splitlines()[-1])
        assert jobs[str(job.pid)] == [8, 4]
        expected = [
            [rank, four_hosts.names[rank // 2], pid, str(program.path)]
            for rank, pid in job.ranks.items()
        ]
        assert ranks == expected
        assert job_of(job.pid) is None, "a job of another host is not one of this host"


# -- Slurm -------------------------------------------------------------------------------------


@pytest.fixture
def cluster(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The tests' Slurm, for Slurm's commands as we run them too; its jobs end with the test."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield slurm
    slurm.cancel_all()


@contextmanager
def started(cluster: Slurm, *words: str) -> Iterator[int]:
    """Run a command as long as the context lasts."""
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield process.pid
        finally:
            cluster.cancel_all()
            process.wait(END_DEADLINE_S)


def submit(cluster: Slurm, path: Path, script: str, *options: str) -> str:
    """Submit a batch script and return the number of its job."""
    path.write_text(f"#!/bin/bash\n{script}\n")
    words = ("sbatch", "--parsable", f"--output={path}.out", "--overcommit", *options, str(path))
    return cluster.run(*words).strip()


def wait_for_steps(job: str, count: int) -> tuple[slurm.Step, ...]:
    wait_until(
        lambda: len(slurm.steps(job)) == count, f"job {job} has {count} steps", START_DEADLINE_S
    )
    return slurm.steps(job)


def test_srun_from_the_shell(cluster: Slurm) -> None:
    words = ("srun", "-N2", "-n4", "--overcommit", "--mpi=none", "-J", "a job", "sleep", "600")
    with started(cluster, *words) as pid:
        wait_until(slurm.steps, "the step runs", START_DEADLINE_S)
        (step,) = slurm.steps()
        assert (step.step, step.tasks, step.hosts, step.name) == ("0", 4, ("n1", "n2"), "a job")
        assert is_this_host(step.srun_host)
        assert step.srun_pid == pid
        assert slurm.find_step(step.job).step is not None
        # One entry, although Slurm and this host both know it, and srun has a twin.
        (job,) = (job for job in list_jobs() if "a job" in job.command)
        assert (job.target, job.ranks, job.hosts) == (str(pid), 4, 2)


def test_steps_of_a_batch_script(cluster: Slurm, tmp_path: Path) -> None:
    script = "srun --overlap -n3 -N2 sleep 601 &\nsrun --overlap -n1 -N1 sleep 602 &\nwait"
    number = submit(cluster, tmp_path / "steps.sh", script, "-N2", "-n4")
    steps = wait_for_steps(number, 2)
    assert sorted(step.tasks for step in steps) == [1, 3]
    for step in steps:
        found = slurm.find_step(step.target)
        assert found.step is not None
        assert found.step.target == step.target
        assert found.hosts == (("n1", "n2") if step.tasks == 3 else ("n1",))
    assert slurm.find_step(f"{number}.batch").hosts == ("n1", "n2")


def test_daemons_of_mpirun_are_no_step_of_ranks(cluster: Slurm, tmp_path: Path) -> None:
    mpi = find_mpi("openmpi")
    script = f"{mpi.launcher} --oversubscribe --bind-to none -n 4 sleep 603"
    number = submit(cluster, tmp_path / "mpirun.sh", script, "-N2", "-n4")
    (step,) = wait_for_steps(number, 1)
    assert step.has_daemons
    found = slurm.find_step(number)
    assert (found.step, found.hosts) == (None, ("n1", "n2"))
    # mpirun runs on the first node, which has a name of its own: only Slurm knows of the job here.
    jobs = [job for job in list_jobs() if job.target.split(".")[0] == number]
    assert [(job.target, job.command, job.ranks) for job in jobs] == [(number, "orted", None)]


def test_elements_of_an_array(cluster: Slurm, tmp_path: Path) -> None:
    script = "srun --overlap -n1 sleep 604"
    number = submit(cluster, tmp_path / "array.sh", script, "-n1", "--array=1-2")
    wait_until(lambda: len(slurm.steps()) == 2, "both elements run", START_DEADLINE_S)
    first = slurm.find_step(f"{number}_1")
    second = slurm.find_step(f"{number}_2.0")
    assert first.step is not None
    assert second.step is not None
    assert first.job != second.job
    # The ranks have the job's own number.
    for found in (first, second):
        assert processes_with(f"SLURM_JOB_ID={found.job}")
        assert found.step is not None
        assert found.step.srun_pid


def test_host_lists_are_expanded_as_slurm_does(cluster: Slurm) -> None:
    text = "n[1-3,007],r[1-2]c[09-10],login"
    shown: Sequence[str] = cluster.run("scontrol", "show", "hostnames", text).split()
    assert list(slurm.expand_hosts(text)) == shown
