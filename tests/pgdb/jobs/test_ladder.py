"""The ladder finds the ranks of stand-in launchers, and tells what a pid is when it is none."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError
from pgdb.jobs import ladder, procfs
from pgdb.jobs.ladder import find_job
from tests.pgdb.jobs.test_mpir import CAT, COMPILER, compile_launcher, running, started

pytestmark = pytest.mark.skipif(
    COMPILER is None or CAT is None, reason="no C compiler to make a stand-in launcher with"
)

HELPED_RANK = """\
#!{python}
import subprocess, sys
helper = subprocess.Popen([{cat!r}])
print("up", flush=True)
helper.wait()
"""


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_launcher(tmp_path_factory.mktemp("symbols") / "mpiexec", "-DTABLE")


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_launcher(tmp_path_factory.mktemp("stripped") / "mpiexec", "-DTABLE", "-s")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A launcher that keeps its table on the heap, where no rung finds it."""
    return compile_launcher(tmp_path_factory.mktemp("plain") / "prterun")


def line(launcher: Path, size: int, mode: str = "good") -> list[str]:
    assert CAT is not None
    return [str(launcher), str(size), mode, CAT]


def error_of(pid: int) -> str:
    with pytest.raises(DiscoveryError) as caught:
        find_job(pid)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("kind", "source", "steps"),
    [
        ("symbols", "MPIR_proctable of mpiexec", 1),
        ("stripped", "table of ranks in the memory of mpiexec", 2),
        ("plain", "environment of the ranks of prterun", 3),
    ],
)
def test_each_rung_finds_the_same_ranks(
    request: pytest.FixtureRequest, kind: str, source: str, steps: int
) -> None:
    launcher: Path = request.getfixturevalue(kind)
    with running(launcher, 4) as pid:
        job = find_job(pid)
        children = procfs.children(pid)
    assert job.launcher_pid == pid
    assert [each.rank for each in job.table.processes] == [0, 1, 2, 3]
    assert [each.pid for each in job.table.processes] == children
    assert {each.host for each in job.table.processes} == {os.uname().nodename}
    assert {each.executable for each in job.table.processes} == {os.path.realpath(str(CAT))}
    assert job.table.source == f"{source} {pid}"
    assert len(job.steps) == steps
    assert (job.job_size, str(job.local_ranks), str(job.ended)) == (4, "0-3", "")


def test_an_empty_table_leads_to_the_environment(symbols: Path) -> None:
    with running(symbols, 3, "empty") as pid:
        job = find_job(pid)
    assert [step.name for step in job.steps] == ["MPIR_proctable by symbol", "environment"]
    assert "MPI_Init" in job.steps[0].outcome
    assert job.steps[1].outcome == f"3 ranks below mpiexec {pid}"
    assert str(job.table.ranks) == "0-2"


@pytest.mark.parametrize("kind", ["symbols", "plain"])
def test_a_rank_that_has_ended_is_listed_apart(request: pytest.FixtureRequest, kind: str) -> None:
    with running(request.getfixturevalue(kind), 3, "ended") as pid:
        job = find_job(pid)
    assert (str(job.table.ranks), str(job.ended), job.job_size) == ("0,2", "1", 3)
    assert str(job.local_ranks) == "0,2"


@pytest.mark.parametrize("kind", ["symbols", "plain"])
def test_a_job_without_living_ranks_has_ended(request: pytest.FixtureRequest, kind: str) -> None:
    with running(request.getfixturevalue(kind), 3, "all ended") as pid:
        assert f"{pid} has ended" in error_of(pid)


def test_a_host_under_another_name_is_known_by_its_ranks(symbols: Path) -> None:
    # As Slurm's node names: the pids in the table are of processes with these very ranks.
    with running(symbols, 2, "remote") as pid:
        job = find_job(pid)
        assert job.table.hosts == ("far-away-node",)
        assert str(job.local_ranks) == "0-1"


def test_a_job_of_other_hosts_only_names_them(
    symbols: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in containers that share one /proc.
    monkeypatch.setattr(ladder, "_same_namespace", lambda _: False)
    with running(symbols, 2, "remote") as pid:
        assert "run on other hosts (far-away-node), none on" in error_of(pid)


def test_a_wrapper_stands_for_its_launcher(symbols: Path) -> None:
    script = shlex.join(line(symbols, 2)) + "; :"
    with started(["/bin/sh", "-c", script]) as pid:
        job = find_job(pid)
        assert job.launcher_pid in procfs.children(pid)
        assert str(job.table.ranks) == "0-1"


def test_two_launchers_below_a_wrapper_are_both_named(symbols: Path, plain: Path) -> None:
    # Of a shell's jobs in the background only the input that is given by hand stays open.
    first, second = (shlex.join(line(each, 2)) for each in (symbols, plain))
    with started(["/bin/sh", "-c", f"exec 3<&0; {first} <&3 & {second} <&3; wait"], ready=2) as pid:
        text = error_of(pid)
        for child in procfs.children(pid):
            name = procfs.read_stat(child)
            assert name is not None
            assert f"{name.comm} {child}" in text
            assert str(find_job(child).table.ranks) == "0-1"


def test_two_jobs_at_once_are_kept_apart(plain: Path) -> None:
    with running(plain, 3) as one, running(plain, 2) as other:
        first, second = find_job(one), find_job(other)
        assert [each.pid for each in first.table.processes] == procfs.children(one)
        assert [each.pid for each in second.table.processes] == procfs.children(other)


def test_a_rank_names_its_launcher(plain: Path) -> None:
    with running(plain, 4) as pid:
        rank = procfs.children(pid)[3]
        assert error_of(rank) == (
            f"{rank} is rank 3 of the job of prterun {pid}; use pgdb attach {pid}"
        )


def test_a_helper_of_a_rank_is_no_rank(plain: Path, tmp_path: Path) -> None:
    program = tmp_path / "solver"
    program.write_text(HELPED_RANK.format(python=sys.executable, cat=CAT))
    program.chmod(0o755)
    with started([str(plain), "2", "good", str(program)], ready=3) as pid:
        ranks = procfs.children(pid)
        assert [each.pid for each in find_job(pid).table.processes] == ranks
        (helper,) = procfs.children(ranks[1])
        assert error_of(helper) == (
            f"{helper} (cat) runs inside rank 1 (pid {ranks[1]}) of the job of prterun {pid}; "
            f"use pgdb attach {pid}"
        )


def test_a_launcher_inside_of_another_job_is_a_launcher(plain: Path) -> None:
    # As in a batch step, where the launcher and all its helpers have the step's variables.
    env = {"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"}
    with started(line(plain, 2, "helper"), env=env) as pid:
        job = find_job(pid)
        assert len(procfs.children(pid)) == 3
        assert [each.pid for each in job.table.processes] == procfs.children(pid)[1:]
    inner = shlex.join(line(plain, 2)) + "; :"
    outer = shlex.join(["/bin/sh", "-c", inner]) + "; :"
    with started(["/bin/sh", "-c", outer], env=env) as pid:
        assert str(find_job(pid).table.ranks) == "0-1"


def test_an_unknown_launcher_is_taken_by_the_ranks_below_it(tmp_path: Path) -> None:
    launcher = compile_launcher(tmp_path / "site-launch")
    with running(launcher, 2) as pid:
        job = find_job(pid)
    assert job.launcher_pid == pid
    assert str(job.table.ranks) == "0-1"


def test_a_process_that_is_no_launcher_says_so() -> None:
    assert CAT is not None
    process = subprocess.Popen([CAT], stdin=subprocess.PIPE)
    try:
        assert error_of(process.pid) == (
            f"{process.pid} (cat) is no MPI launcher and no process below it has a rank's "
            "environment; give the pid of mpirun, mpiexec or srun"
        )
    finally:
        process.communicate()


def test_a_rank_whose_launcher_is_gone_says_so() -> None:
    assert CAT is not None
    process = subprocess.Popen([CAT], stdin=subprocess.PIPE, env={"PMI_RANK": "5"})
    try:
        assert error_of(process.pid).startswith(
            f"{process.pid} is rank 5 of a job whose launcher is not on this host or has ended"
        )
    finally:
        process.communicate()


def test_a_pid_without_a_process_says_so(plain: Path) -> None:
    with running(plain, 1) as pid:
        pass
    assert error_of(pid).startswith(f"there is no process {pid} on {os.uname().nodename}")


def test_a_launcher_that_is_a_zombie_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert f"{process.pid} has ended, and its job with it" in error_of(process.pid)
    process.wait()
