"""The search finds the ranks of stand-in launchers, and says what other pids are."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir
from pgdb.frontend.discovery.discover import find_job
from pgdb.frontend.discovery.explicit_pids import find_pids
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.jobs import environment_scan, procfs
from pgdb.jobs.environment_scan import RankGroup
from pgdb.jobs.processes import Processes
from pgdb.proctable import RankProcess
from tests.support.headless import headless
from tests.support.lone_rank import alone
from tests.support.mpir_launchers import CAT, COMPILER, compile_launcher, running, started
from tests.support.processes import wait_until

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
    """A launcher that keeps its table on the heap, where no step finds it."""
    return compile_launcher(tmp_path_factory.mktemp("plain") / "mpiexec")


@pytest.fixture(scope="module")
def prterun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_launcher(tmp_path_factory.mktemp("prterun") / "prterun")


def line(launcher: Path, size: int, mode: str = "good") -> list[str]:
    assert CAT is not None
    return [str(launcher), str(size), mode, CAT]


def error_of(pid: int | str) -> str:
    with pytest.raises(DiscoveryError) as caught:
        find_job(pid)
    text = str(caught.value)
    assert "\n" not in text
    return text


def pids_of(job: FoundJob) -> list[int]:
    return [each.pid for each in job.table.processes]


def names_of(job: FoundJob) -> list[str]:
    return [step.name for step in job.steps]


def refuse(pid: int) -> tuple[RankProcess, ...]:
    raise DiscoveryError(f"{pid} does not answer")


@pytest.mark.parametrize(
    ("kind", "source", "steps"),
    [
        ("symbols", "MPIR_proctable of mpiexec", 1),
        ("stripped", "table of ranks in the memory of mpiexec", 2),
        ("plain", "environment of the ranks of mpiexec", 3),
    ],
)
def test_each_step_finds_the_same_ranks(
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
    assert job.hosts == (os.uname().nodename,)
    assert job.command == (*line(launcher, 4),)
    assert job.slurm_job == ""


def test_an_empty_table_leads_to_the_environment(symbols: Path) -> None:
    with running(symbols, 3, "empty") as pid:
        job = find_job(pid)
    assert [step.name for step in job.steps] == ["MPIR_proctable by symbol", "environment"]
    assert "MPI_Init" in job.steps[0].outcome
    assert job.steps[1].outcome == f"3 ranks of mpiexec {pid}"
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
    # As with Slurm's node names: the pids in the table are of processes with these very ranks.
    with running(symbols, 2, "remote") as pid:
        job = find_job(pid)
        assert job.table.hosts == ("far-away-node",)
        assert str(job.local_ranks) == "0-1"


def test_ranks_on_other_hosts_stay_in_the_table(
    symbols: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in containers that share one /proc.
    monkeypatch.setattr(procfs, "on_this_host", lambda _: False)
    with running(symbols, 2, "remote") as pid:
        job = find_job(pid)
    assert (str(job.table.ranks), str(job.local_ranks)) == ("0-1", "")
    assert job.hosts == ("far-away-node",)
    assert job.job_size == 2


def test_pmix_is_not_asked_where_the_scan_finds_all(prterun: Path) -> None:
    with running(prterun, 3) as pid:
        job = find_job(pid, pmix=refuse)
        assert (str(job.table.ranks), "PMIx" in names_of(job)) == ("0-2", False)


def test_pmix_is_asked_where_ranks_are_somewhere_else(
    prterun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan_below = environment_scan.scan_below

    def without_the_last(launcher: int, processes: Processes) -> tuple[RankGroup, ...]:
        (group,) = scan_below(launcher, processes)
        return (replace(group, processes=group.processes[:-1], size=4),)

    with running(prterun, 3) as pid:
        ranks = procfs.children(pid)
        monkeypatch.setattr(environment_scan, "scan_below", without_the_last)

        def answer(asked: int) -> tuple[RankProcess, ...]:
            assert asked == pid
            local = (RankProcess(number, "localhost", ranks[number], "") for number in (1, 0))
            return (RankProcess(2, "far-away-node", 1, "./solver"), *local)

        job = find_job(pid, pmix=answer)
        executable = procfs.executable(ranks[0])
        here = os.uname().nodename
        assert job.table.processes == (
            RankProcess(0, here, ranks[0], executable or ""),
            RankProcess(1, here, ranks[1], executable or ""),
            RankProcess(2, "far-away-node", 1, "./solver"),
        )
        assert job.hosts == (here, "far-away-node")
        assert job.steps[-1].outcome == f"prterun {pid} names 3 ranks"

        again = find_job(pid, pmix=refuse)
        assert names_of(again)[-2:] == ["PMIx", "environment"]
        assert again.steps[-2].outcome == f"{pid} does not answer"
        assert str(again.table.ranks) == "0-1"


def test_pmix_leaves_out_ranks_that_have_ended(prterun: Path) -> None:
    with running(prterun, 3, "ended") as pid:
        first, _, last = procfs.children(pid)
        host = os.uname().nodename
        job = find_job(
            pid, pmix=lambda _: (RankProcess(0, host, first, ""), RankProcess(2, host, last, ""))
        )
    assert (str(job.table.ranks), str(job.ended), job.job_size) == ("0,2", "1", 3)


def test_no_other_launcher_is_asked_through_pmix(plain: Path) -> None:
    with running(plain, 1) as pid:
        assert "PMIx" not in names_of(find_job(pid, pmix=refuse))


def test_what_looks_like_a_table_of_elsewhere_in_an_unknown_launcher_is_none(
    tmp_path: Path, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python program that starts ranks has such words in its memory."""
    chance = mpir.MpirTable(processes=(RankProcess(0, "extension_suffixes", 2, "/x"),), size=1)
    monkeypatch.setattr(mpir, "search_proctable", lambda pid: chance)
    unknown = compile_launcher(tmp_path / "starter")
    with running(unknown, 2) as pid:
        job = find_job(pid, pmix=refuse)
        assert str(job.table.ranks) == "0-1" and "environment" in job.table.source
        (reported,) = [each.outcome for each in job.steps if "structure" in each.name]
        assert reported.endswith("names no process of this host")
    # A known launcher's table is accepted: all its ranks may be elsewhere.
    with running(plain, 2) as pid:
        assert "table of ranks in the memory" in find_job(pid, pmix=refuse).table.source


def test_an_error_has_every_step(prterun: Path) -> None:
    with running(prterun, 0) as pid, pytest.raises(DiscoveryError) as caught:
        find_job(pid, pmix=refuse)
    text = str(caught.value)
    assert text.startswith(f"no rank of prterun {pid} was found on {os.uname().nodename}: ")
    assert "MPIR_proctable by symbol: no object mapped by prterun" in text
    assert "; MPIR_proctable by structure: nothing in the memory" in text
    assert f"; PMIx: {pid} does not answer; environment: no process of prterun" in text
    assert text.endswith("; give the pids of its ranks with --pids")


def test_hosts_of_daemons_are_the_jobs(prterun: Path, tmp_path: Path) -> None:
    # The shell stands for ssh, and the launcher for prterun on a host without ranks of its own.
    agent = tmp_path / "ssh"
    agent.write_text("#!/bin/sh\nread line\n")
    agent.chmod(0o755)
    script = tmp_path / "launch"
    words = f"{agent} -x -F config node7 orted -mca orte_hnp_uri '\"16.0;tcp://192.0.2.1:99\"'"
    script.write_text(f"#!/bin/sh\nexec 3<&0\n{words} <&3 &\necho up\nread line\nwait\n")
    script.chmod(0o755)
    shell = shutil.copy(os.path.realpath("/bin/sh"), tmp_path / "orterun")
    with started([str(shell), str(script)]) as pid:
        wait_until(lambda: len(procfs.children(pid)) == 1, "the agent is there")
        (child,) = procfs.children(pid)
        wait_until(lambda: "node7" in (procfs.command_line(child) or []), "the agent runs")
        job = find_job(pid)
    assert job.hosts == ("node7",)
    assert job.selector == "key:16.0;tcp://192.0.2.1:99 17"
    assert (job.table.processes, job.job_size) == ((), None)


def test_a_wrapper_stands_for_its_launcher(symbols: Path) -> None:
    script = shlex.join(line(symbols, 2)) + "; :"
    with started(["/bin/sh", "-c", script]) as pid:
        job = find_job(pid)
        assert job.launcher_pid in procfs.children(pid)
        assert str(job.table.ranks) == "0-1"


def test_two_launchers_below_a_wrapper_are_both_named(symbols: Path, plain: Path) -> None:
    # A shell closes the input of its background jobs unless it is redirected.
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


def test_a_rank_leads_to_its_job(plain: Path) -> None:
    with running(plain, 4) as pid:
        ranks = procfs.children(pid)
        job = find_job(ranks[3])
    assert job.launcher_pid == pid
    assert pids_of(job) == ranks
    assert job.steps[0].outcome == f"{ranks[3]} is rank 3 of the job of mpiexec {pid}"


def test_what_a_rank_has_started_leads_to_its_job(plain: Path, tmp_path: Path) -> None:
    program = tmp_path / "solver"
    program.write_text(HELPED_RANK.format(python=sys.executable, cat=CAT))
    program.chmod(0o755)
    with started([str(plain), "2", "good", str(program)], ready=3) as pid:
        ranks = procfs.children(pid)
        assert pids_of(find_job(pid)) == ranks
        (helper,) = procfs.children(ranks[1])
        job = find_job(helper)
    assert (job.launcher_pid, pids_of(job)) == (pid, ranks)
    assert job.steps[0].outcome == (
        f"{helper} (cat) runs inside rank 1 (pid {ranks[1]}) of the job of mpiexec {pid}"
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
    assert job.steps[0].outcome == (
        f"site-launch {pid} is no launcher PGDB knows; looked for ranks below it"
    )


def test_a_process_that_is_no_launcher_says_so() -> None:
    with alone() as pid:
        assert error_of(pid) == (
            f"{pid} (cat) is no MPI launcher and no process below it has a rank's "
            "environment; give the pid of mpirun, mpiexec, srun or torchrun, or the pids of the "
            "ranks with "
            "--pids"
        )


def test_a_rank_without_its_launcher_leads_to_the_others() -> None:
    key = {"I_MPI_HYDRA_UUID": os.urandom(8).hex()}
    other = {"I_MPI_HYDRA_UUID": os.urandom(8).hex()}
    with (
        alone(PMI_RANK="5", PMI_SIZE="8", **key) as five,
        alone(PMI_RANK="2", PMI_SIZE="8", **key) as two,
        alone(PMI_RANK="3", PMI_SIZE="8", **other),
    ):
        job = find_job(five)
    assert (str(job.table.ranks), pids_of(job)) == ("2,5", [two, five])
    assert (job.launcher_pid, job.command, job.job_size) == (0, (), 8)
    assert job.hosts == (os.uname().nodename,)
    assert job.selector == f"key:{key['I_MPI_HYDRA_UUID']}"
    assert [step.outcome for step in job.steps] == [
        f"{five} is rank 5 of a job whose launcher is not on this host or has ended",
        f"2 ranks of one job with rank 5 (pid {five}), 6 of 8 not on this host or ended",
    ]


def test_the_slurm_job_of_a_rank_is_reported() -> None:
    job, step = str(10**9 + os.getpid()), "3"
    env = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": job, "SLURM_STEP_ID": step}
    with alone(**env) as pid:
        found = find_job(pid)
    assert (found.slurm_job, found.selector) == (job, f"slurm:{job}.{step}")


def test_a_rank_without_a_job_in_its_environment_says_so() -> None:
    with alone(PMI_RANK="5") as pid:
        assert error_of(pid) == (
            f"{pid} is rank 5 of a job whose launcher is not on this host or has ended, and "
            "its environment does not identify the other processes of that job; "
            "give the pids of its ranks with --pids"
        )


def test_a_spawned_rank_leads_to_its_own_job(tmp_path: Path, symbols: Path) -> None:
    # The launcher's table is that of its first job.
    spawned = f"I_MPI_HYDRA_UUID={os.urandom(8).hex()}"
    program = tmp_path / "solver"
    program.write_text(f"#!/bin/sh\nexec 3<&0\nPMI_RANK=7 {spawned} {CAT} <&3\n")
    program.chmod(0o755)
    with started([str(symbols), "1", "good", str(program)]) as pid:
        (rank,) = procfs.children(pid)
        wait_until(lambda: len(procfs.children(rank)) == 1, "the spawned rank is there")
        (child,) = procfs.children(rank)
        wait_until(lambda: procfs.executable(child) == os.path.realpath(str(CAT)), "cat runs")
        job = find_job(child)
    assert (job.launcher_pid, str(job.table.ranks), pids_of(job)) == (pid, "7", [child])
    assert job.steps[-2].outcome == f"mpiexec {pid} has no rank with the pid {child}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a while")
def test_a_job_of_another_user_says_whose_it_is(plain: Path) -> None:
    with running(plain, 2) as pid:
        rank = procfs.children(pid)[0]
        os.seteuid(65534)
        try:
            text, of_rank = error_of(pid), error_of(rank)
        finally:
            os.seteuid(0)
    assert text == (
        f"the job of mpiexec {pid} cannot be debugged: {pid} (mpiexec) belongs to user root; "
        "run pgdb as that user or with CAP_SYS_PTRACE"
    )
    assert "belongs to user root; run pgdb as that user" in of_rank


def test_a_pid_without_a_process_says_so(plain: Path) -> None:
    with running(plain, 1) as pid:
        pass
    assert error_of(pid).startswith(f"there is no process {pid} on {os.uname().nodename}")


def test_a_launcher_that_is_a_zombie_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert f"{process.pid} has ended, and its job with it" in error_of(process.pid)
    process.wait()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="exit has another number")
def test_a_process_without_its_first_thread_has_not_ended() -> None:
    with headless() as process:
        for found in (error_of(process.pid), _error_of_pids(process.pid)):
            assert "has lost its first thread, while others live on" in found
            assert "no debugger can attach" in found


def _error_of_pids(pid: int) -> str:
    with pytest.raises(DiscoveryError) as caught:
        find_pids([str(pid)])
    return str(caught.value)


def test_what_is_no_pid_says_so() -> None:
    assert error_of("17.0") == "'17.0' is no pid; give the pid of mpirun, mpiexec, srun or torchrun"


def test_a_pid_may_be_text(plain: Path) -> None:
    with running(plain, 1) as pid:
        assert find_job(str(pid)).launcher_pid == pid


# -- explicit pids ------------------------------------------------------------------------------
