"""Ranks of PyTorch: workers of torchrun and of others, and processes that name their own rank."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.frontend.discovery import listing, slurm
from pgdb.frontend.discovery.discover import find_job
from pgdb.frontend.discovery.torch_listing import torch_jobs
from pgdb.jobs import environment_scan, procfs
from pgdb.jobs.environment_scan import RankGroup, scan
from pgdb.jobs.live_environment import live_environment
from pgdb.jobs.processes import Processes
from tests.support.processes import wait_until

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

PYTHON = procfs.executable(os.getpid()) or sys.executable
LAUNCHER = Path(__file__).parents[2] / "programs" / "torchrun"

# Says by a line that it is up, and lives until its input is closed.
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
# A rank with a data loader: a fork.
LOADS = f"import os; child = os.fork(); {WAIT}"
SPAWNS = """\
import multiprocessing, os, sys
def rank(number, names):
    os.environ |= {name: value.format(number) for name, value in names.items()}
    with open(0) as stream:
        if os.fork() == 0:  # a data loader
            print("up", flush=True)
        stream.read()
if __name__ == "__main__":
    starter = multiprocessing.get_context("spawn")
    names = dict(word.split("=") for word in sys.argv[1:])
    ranks = [starter.Process(target=rank, args=(number, names)) for number in range(3)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""


@pytest.fixture
def port() -> str:
    """A text that no other job has for its port."""
    return str(int.from_bytes(os.urandom(6), "little"))


@contextmanager
def run(*words: str | Path, up: int = 1, **names: str) -> Iterator[int]:
    """Run a command until *up* processes have printed a line; give its pid."""
    process = subprocess.Popen(
        list(map(str, words)),
        env={"PATH": os.environ["PATH"]} | names,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        for _ in range(up):
            assert process.stdout.readline() == b"up\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(30)
        # The forks have the other end of the output.
        process.stdout.read()
        process.stdout.close()


def ranks_of(groups: tuple[RankGroup, ...]) -> list[dict[int, int]]:
    return [{each.rank: each.pid for each in group.processes} for group in groups]


def plain(rank: int, size: int, port: str) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "n1", "MASTER_PORT": port}


def test_the_topmost_process_of_a_worker_is_the_rank(port: str) -> None:
    with (
        run(PYTHON, "-c", LOADS, up=2, **plain(1, 2, port)) as one,
        run(PYTHON, "-c", WAIT, **plain(0, 2, port)) as zero,
    ):
        (loader,) = procfs.children(one)
        assert ranks_of(scan(f"key:n1 {port}")) == [{0: zero, 1: one}]
        for pid in (one, loader, zero):
            job = find_job(pid)
            assert [each.pid for each in job.table.processes] == [zero, one]
            assert (job.job_size, job.selector) == (2, f"key:n1 {port}")


@pytest.mark.parametrize("is_in_pod", [False, True], ids=["mpirun", "pod"])
def test_the_workers_of_an_agent_are_ranks(port: str, is_in_pod: bool) -> None:
    outer = plain(1, 2, "1") if is_in_pod else {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": port}
    agent = [PYTHON, LAUNCHER, "--nproc-per-node=2", "--nnodes=2", "--node-rank=1"]
    line = [*agent, "--master-addr=n1", f"--master-port={port}", "--no-python", PYTHON, "-c", WAIT]
    with run(*line, up=2, **outer) as pid:
        (group,) = environment_scan.scan_below(pid, Processes())
        assert (group.size, group.torch, sorted(ranks_of((group,))[0])) == (4, "elastic", [2, 3])
        if not is_in_pod:
            assert ranks_of(scan(f"key:{port}")) == ranks_of((group,))
        for each in (pid, *ranks_of((group,))[0].values()):
            job = find_job(each)
            assert [member.rank for member in job.table.processes] == [2, 3]
            assert job.launcher_pid == pid


def test_all_agents_of_a_host_have_one_job(port: str) -> None:
    def line(node: int) -> list[str | Path]:
        options = ["--nproc-per-node=1", "--nnodes=2", f"--node-rank={node}", "--master-addr=n1"]
        return [PYTHON, LAUNCHER, *options, f"--master-port={port}", "--no-python", PYTHON]

    with (
        run(*line(0), "-c", WAIT) as agent,
        run(*line(1), "-c", WAIT),
    ):
        job = find_job(agent)
        assert [each.rank for each in job.table.processes] == [0, 1]
        assert job.job_size == 2


def test_variables_from_outside_of_a_launcher_do_not_number_its_ranks(
    port: str, tmp_path: Path
) -> None:
    starts = (
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen([sys.argv[1], '-c', sys.argv[2]], env=os.environ |"
        " {'PMI_RANK': str(rank), 'PMI_SIZE': '2', 'PMI_JOBID': sys.argv[3]}) for rank in (0, 1)]\n"
        "[each.wait() for each in ranks]\n"
    )
    launcher = tmp_path / "mpirun"
    launcher.write_bytes(Path(PYTHON).read_bytes())
    launcher.chmod(0o755)
    home = {"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib"}
    words = (launcher, "-c", starts, PYTHON, WAIT, f"{port}x")
    with run(*words, up=2, **plain(0, 1, port), **home) as pid:
        assert Processes().is_launcher(pid)
        (group,) = environment_scan.scan_below(pid, Processes())
        assert sorted(ranks_of((group,))[0]) == [0, 1]


def test_a_program_names_its_own_rank_while_it_runs(port: str) -> None:
    names = " | ".join(f"{{{name!r}: {value!r}}}" for name, value in plain(1, 2, port).items())
    program = f"import os; os.environ.update({names}); {LOADS}"
    with run(PYTHON, "-c", program, up=2) as pid:
        assert "RANK" not in (procfs.environment(pid) or {"RANK": ""})
        assert live_environment(pid)["MASTER_PORT"] == port
        assert ranks_of(scan(f"key:n1 {port}")) == [{1: pid}]
    assert live_environment(pid) == {}


@pytest.mark.parametrize("has_rank", [True, False], ids=["names", "order"])
def test_the_processes_of_multiprocessing_spawn_are_ranks(
    port: str, tmp_path: Path, has_rank: bool
) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(SPAWNS)
    # Ranks that the program names itself may come in another order.
    names = {"MASTER_ADDR": "n1", "MASTER_PORT": port}
    names |= {"RANK": "{}", "WORLD_SIZE": "3"} if has_rank else {}
    line = [PYTHON, script, *(f"{name}={value}" for name, value in names.items())]
    with run(*line, up=3) as pid:
        ranks = sorted(
            each for each in procfs.children(pid) if "--multiprocessing-fork" in _words(each)
        )
        assert len(ranks) == 3
        loader = procfs.children(ranks[1])[-1]
        for given in (pid, ranks[1], loader):
            job = find_job(given)
            assert [each.pid for each in job.table.processes] == ranks
            numbered = any("in the order of their start" in each for each in job.notes)
            assert numbered is not has_rank
        listed = {each.target for each in torch_jobs()}
        assert (pid in listed) or (has_rank and ranks[0] in listed)


def test_spawned_data_loaders_are_no_ranks(tmp_path: Path) -> None:
    script = tmp_path / "load.py"
    script.write_text(SPAWNS)
    with run(PYTHON, script, up=3) as pid:
        assert environment_scan.scan_below(pid, Processes()) == ()


def test_jobs_are_listed_by_the_process_to_attach_to(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = [PYTHON, LAUNCHER, "--nproc-per-node=2", f"--master-port={port}", "--no-python"]
    with (
        run(*line, PYTHON, "-c", WAIT, up=2) as agent,
        run(PYTHON, "-c", WAIT, **plain(0, 2, f"1{port}")) as worker,
    ):
        listed = {each.target: each.group for each in torch_jobs()}
        assert len(listed[agent].processes) == 2
        assert (len(listed[worker].processes), listed[worker].size) == (1, 2)
        # The time to count the ranks of launchers is not that of the search for jobs.
        monkeypatch.setattr(listing, "COUNTING_S", 0.0)
        assert {str(agent), str(worker)} <= {each.target for each in listing.list_jobs()}


def test_workers_in_a_step_of_slurm_are_the_ranks_of_the_step(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = slurm.Step(
        job=port,
        step="0",
        hosts=("n1",),
        tasks=1,
        user="ann",
        name="node.sh",
        age_s=1.0,
        srun_host="login7",
        srun_pid=1,
    )
    monkeypatch.setattr(slurm, "is_available", lambda: True)
    monkeypatch.setattr(slurm, "steps", lambda **_: (step,))
    line = [PYTHON, LAUNCHER, "--nproc-per-node=2", f"--master-port={port}", "--no-python"]
    names = {"SLURM_JOB_ID": port, "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    with run(*line, PYTHON, "-c", WAIT, up=2, **names) as agent:
        listed = {each.target: each.ranks for each in listing.list_jobs()}
        assert listed[f"{port}.0"] == 2
        assert not {str(agent), *map(str, procfs.children(agent))} & {*listed}


def _words(pid: int) -> list[str]:
    return procfs.command_line(pid) or []


def test_a_rank_that_ends_leaves_nothing(port: str) -> None:
    with run(PYTHON, "-c", WAIT, **plain(0, 1, port)):
        pass
    wait_until(lambda: scan(f"key:n1 {port}") == (), "the rank is gone")
