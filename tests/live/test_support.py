"""The tests' own hosts, Slurm and MPIs work: what fails here fails elsewhere for no fault of PGDB.

A job counts as up when all its ranks have come out of MPI_Init; ring then sends around for good.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.support.hosts import Hosts, several_hosts
from tests.support.jobs import Job, run_job
from tests.support.processes import (
    END_DEADLINE_S,
    is_alive,
    parent_of,
    processes_with,
    status,
    wait_progress,
    wait_until,
)
from tests.support.programs import ROOT, Builder, find_mpi
from tests.support.slurm import Slurm, private_slurm
from tests.support.terminal import FrontEnd, ex

pytestmark = pytest.mark.mpi

MPIS = ("openmpi", "openmpi5", "mpich", "mpich-system", "intel")
ELSEWHERE = ("openmpi", "openmpi5", "mpich", "intel")
"""MPIs that work on several hosts."""


def host_of(pid: int) -> str:
    """Return the name of the host that a process is on, as it sees it."""
    command = ["nsenter", f"--target={pid}", "--uts", "cat", "/proc/sys/kernel/hostname"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def assert_works(job: Job, ranks: int) -> None:
    """Check that all ranks are there and get messages from each other."""
    assert list(job.ranks) == list(range(ranks))
    for pid in job.ranks.values():
        wait_progress(pid)


def wait_empty(hosts: Hosts) -> None:
    """Wait until nothing runs on any host."""
    wait_until(lambda: not any(map(hosts.processes, hosts.names)), "nothing is left on the hosts")


@pytest.mark.parametrize("name", MPIS)
def test_job_on_one_host(builder: Builder, name: str) -> None:
    mpi = find_mpi(name)
    ring = builder.build(mpi, "ring")
    with run_job(builder, mpi.line(3, ring), ring, 3) as job:
        assert_works(job, 3)
        pids = [job.pid, *job.ranks.values()]
    assert not [pid for pid in pids if is_alive(pid)]


@pytest.mark.hosts
@pytest.mark.parametrize("name", ELSEWHERE)
def test_job_on_four_hosts(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    ring = builder.build(mpi, "ring")
    line = four_hosts.command("h1", mpi.line(8, ring, hosts=four_hosts.names))
    with run_job(builder, line, ring, 8) as job:
        assert_works(job, 8)
        places = [host_of(pid) for pid in job.ranks.values()]
        assert places == ["h1", "h1", "h2", "h2", "h3", "h3", "h4", "h4"]
    wait_empty(four_hosts)


@pytest.mark.hosts
@pytest.mark.parametrize("name", ELSEWHERE)
def test_job_ends_on_four_hosts(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    ring = builder.build(mpi, "ring")
    line = mpi.line(8, ring, "3", hosts=four_hosts.names)
    four_hosts.run("h1", line, timeout_s=240)
    wait_empty(four_hosts)


@pytest.mark.hosts
def test_hosts_see_nothing_of_each_other_with_own_pids(builder: Builder) -> None:
    mpi = find_mpi("mpich")
    ring = builder.build(mpi, "ring")
    with several_hosts(2, own_pids=True, shared=[builder.directory]) as hosts:
        line = hosts.command("h1", mpi.line(4, ring, hosts=hosts.names))
        with run_job(builder, line, ring, 4) as job:
            assert_works(job, 4)
            for host, ranks in (("h1", (0, 1)), ("h2", (2, 3))):
                own = {status(job.ranks[rank], "NSpid").split()[-1] for rank in ranks}
                # grep fails if one of them has gone meanwhile.
                script = 'grep -s "^Name:.ring$" /proc/[0-9]*/status; true'
                seen = hosts.run(host, ["sh", "-c", script])
                assert {line.split("/")[2] for line in seen.splitlines()} == own
        mark = Path(hosts.run("h1", ["mktemp"]).strip())
        assert mark.parent == Path("/tmp") and not mark.exists()
        hosts.run("h1", ["touch", "/dev/shm/mark"])
        assert "mark" not in hosts.run("h2", ["ls", "/dev/shm"])


@pytest.mark.hosts
def test_host_can_be_lost_and_come_back(four_hosts: Hosts) -> None:
    def reaches_h2() -> bool:
        # With what ssh itself says, all else fails the test.
        remote = ["ssh", "h2", "hostname"]
        process = four_hosts.popen("h1", remote, stdout=subprocess.PIPE)
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, out) in ((0, b"h2\n"), (255, b""))
        return process.returncode == 0

    assert reaches_h2()
    four_hosts.cut("h2")
    assert not reaches_h2()
    four_hosts.heal("h2")
    wait_until(reaches_h2, "h2 is back")
    four_hosts.stop_sshd("h2")
    assert not reaches_h2()
    four_hosts.start_sshd("h2")
    assert reaches_h2()
    sleeper = four_hosts.popen("h2", ["sleep", "1000"])
    wait_until(lambda: sleeper.pid in four_hosts.processes("h2"), "it runs on h2")
    four_hosts.crash("h2")
    assert sleeper.wait(60) == -signal.SIGKILL
    assert not reaches_h2()
    four_hosts.restore()
    wait_until(reaches_h2, "h2 is back")


@pytest.mark.hosts
def test_hosts_go_with_the_process_that_made_them(four_hosts: Hosts) -> None:
    del four_hosts  # only to be skipped where there can be none
    program = (
        "import pathlib\n"
        "from tests.support.hosts import several_hosts\n"
        "with several_hosts(2) as hosts:\n"
        "    process = hosts.popen('h2', ['sleep', '1000'])\n"
        "    print(process.pid, hosts.directory, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as maker:
        assert maker.stdout is not None
        pid, directory = maker.stdout.readline().split()
        assert is_alive(int(pid))
        maker.kill()
    wait_until(lambda: not is_alive(int(pid)), "the host's processes end")
    wait_until(lambda: not Path(directory).exists(), "the hosts' directory is removed")


@pytest.mark.slurm
@pytest.mark.parametrize("name", ["slurm", "slurm-pmix"])
def test_job_of_slurm(builder: Builder, slurm: Slurm, name: str) -> None:
    mpi = find_mpi(name)
    ring = builder.build(mpi, "ring")
    line = mpi.line(4, ring, hosts=slurm.nodes)
    with run_job(builder, line, ring, 4, changes=slurm.environment) as job:
        assert_works(job, 4)
        nodes = []
        for pid in job.ranks.values():
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            nodes += [word for word in variables if word.startswith(b"SLURMD_NODENAME=")]
        assert nodes == [b"SLURMD_NODENAME=n1"] * 2 + [b"SLURMD_NODENAME=n2"] * 2
    wait_until(lambda: not slurm.run("squeue", "--noheader"), "the job is gone")


@pytest.mark.slurm
def test_job_of_slurm_without_mpi(slurm: Slurm) -> None:
    out = slurm.run("srun", "--nodes=2", "--ntasks=4", "printenv", "SLURM_PROCID")
    assert sorted(out.split()) == ["0", "1", "2", "3"]


@pytest.mark.slurm
def test_batch_job_of_slurm(slurm: Slurm, tmp_path: Path) -> None:
    script, out = tmp_path / "job.sh", tmp_path / "out"
    script.write_text("#!/bin/sh\nsrun sleep 1000\n")
    slurm.run("sbatch", "--nodes=2", "--ntasks=2", f"--output={out}", script)
    wait_until(
        lambda: ".0" in slurm.run("squeue", "--steps", "--noheader", "--format=%i"), "the step runs"
    )
    slurm.cancel_all()
    assert slurm.run("squeue", "--noheader") == ""


@pytest.mark.slurm
def test_a_job_that_slurm_cannot_end_is_ended(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.slurm.CANCEL_PATIENCE_S", 2.0)
    mark = f"PGDB_TEST_STEP={uuid.uuid4().hex}"
    words = ("srun", "--nodes=1", f"--export=ALL,{mark}", "sleep", "1000")

    def ranks() -> list[int]:
        return [pid for pid, line in processes_with(mark).items() if line.endswith("sleep 1000")]

    with subprocess.Popen(
        slurm.command(words),
        env=os.environ | slurm.environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as srun:
        try:
            wait_until(ranks, "the step runs")
            (rank,) = ranks()
            os.kill(parent_of(rank), signal.SIGSTOP)
            slurm.cancel_all()
            assert slurm.run("squeue", "--noheader") == ""
            wait_until(lambda: not ranks(), "the rank is gone")
            srun.wait(END_DEADLINE_S)
        finally:
            srun.kill()
    names = slurm.run("srun", "--nodes=2", "--ntasks=2", "hostname").split()
    assert sorted(names) == ["n1", "n2"]


@pytest.mark.hosts
@pytest.mark.slurm
def test_slurm_on_four_hosts(builder: Builder, four_hosts: Hosts) -> None:
    mpi = find_mpi("slurm")
    ring = builder.build(mpi, "ring")
    with private_slurm(hosts=four_hosts) as slurm:
        line = slurm.command(mpi.line(8, ring, hosts=slurm.nodes))
        with run_job(builder, line, ring, 8, changes=slurm.environment) as job:
            assert_works(job, 8)
            places = [host_of(pid) for pid in job.ranks.values()]
            assert places == ["h1", "h1", "h2", "h2", "h3", "h3", "h4", "h4"]
    wait_empty(four_hosts)


def test_who_waits_for_an_answer_is_informed_that_it_does_not_come(builder: Builder) -> None:
    line = find_mpi("openmpi").line(2, builder.build(find_mpi("openmpi"), "storm.c"))
    with FrontEnd(
        "launch", "--batch", "--json", *ex("p 1", "p 2", "quit"), *line, stdout=subprocess.PIPE
    ) as front_end:
        front_end.wait_answered("print 1")
        with pytest.raises(AssertionError, match="answered print 3"):
            front_end.wait_answered("print 3")


# -- programs ------------------------------------------------------------------------------------


def test_a_shared_program_that_was_replaced_for_a_while_is_noticed(tmp_path: Path) -> None:
    builder = Builder(tmp_path)
    program = builder.build(find_mpi("openmpi"), "nompi.c")
    own = program.copied(tmp_path / "own")
    assert os.access(own.path, os.X_OK) and own.source == program.source
    own.path.write_bytes(b"other")
    assert builder.changed() == []
    data = program.path.read_bytes()
    program.path.unlink()
    assert builder.changed() == [program.path]
    program.path.write_bytes(data)
    assert builder.changed() == [program.path]
