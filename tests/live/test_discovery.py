"""Finding the ranks of real jobs: every launcher, before and after MPI_Init, on one host and four.

A process on each host prints the ranks that it found there.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir, pmix
from pgdb.frontend.discovery.discover import find_job
from pgdb.frontend.discovery.explicit_pids import find_pids
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.jobs import environment_scan, procfs, rank_program
from pgdb.jobs.rank_environment import rank_environment
from pgdb.proctable import RankProcess
from tests.support.hosts import Hosts
from tests.support.jobs import START_DEADLINE_S, Job, run_job
from tests.support.patience import patient
from tests.support.processes import processes_with, wait_until
from tests.support.programs import MPI_DIRECTORIES, ROOT, Builder, Mpi, Program, find_mpi
from tests.support.slurm import Slurm

pytestmark = pytest.mark.mpi

SOURCES = {
    "openmpi": "MPIR_proctable of mpirun",
    "openmpi5": "environment of the ranks of prterun",
    "mpich": "table of ranks in the memory of mpirun",
    "mpich-system": "table of ranks in the memory of mpirun",
    "intel": "MPIR_proctable of mpiexec.hydra",
    "slurm": "MPIR_proctable of srun",
    "slurm-pmix": "MPIR_proctable of srun",
}
"""Start of the source of the best discovery step, by launcher."""
MOST_READS = 20
"""Limit for files of one process, for all discovery steps together."""
ON_ONE_HOST = ("openmpi", "openmpi5", "mpich", "mpich-system", "intel")
ON_FOUR_HOSTS = ("openmpi", "openmpi5", "mpich", "intel")

FIND_JOB = """\
import json, sys
from pgdb.frontend.discovery.discover import find_job
from tests.support.patience import patient
job = find_job(int(sys.argv[1]), pmix=patient)
print(json.dumps({
    "launcher": job.launcher_pid,
    "table": [[each.rank, each.host, each.pid] for each in job.table.processes],
    "source": job.table.source,
    "hosts": job.hosts,
    "selector": job.selector,
    "slurm_job": job.slurm_job,
    "local": str(job.local_ranks),
    "size": job.job_size,
    "steps": [[step.name, step.outcome] for step in job.steps],
}))
"""
SCAN = """\
import json, sys
from pgdb.jobs.environment_scan import scan
print(json.dumps([
    [group.key, group.size, {each.rank: each.pid for each in group.processes}]
    for group in scan(sys.argv[1])
]))
"""


@pytest.fixture(autouse=True)
def _intel_finds_its_own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intel's mpirun runs the mpiexec.hydra that comes first in PATH, be it MPICH's."""
    directory = os.environ.get(MPI_DIRECTORIES["intel"])
    if directory is not None and "[intel]" in request.node.name:
        monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


@pytest.fixture(scope="module", params=ON_ONE_HOST)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    return find_mpi(request.param)


def build_sleeper(builder: Builder, mpi: Mpi) -> Program:
    """Build a program whose ranks sleep. Ranks that wait in MPI would use up the cores."""
    return builder.build(mpi, "storm.c", "-DPAUSE_NS=20000000")


@pytest.fixture
def sleeper(builder: Builder, mpi: Mpi) -> Program:
    return build_sleeper(builder, mpi)


@pytest.fixture
def nompi(builder: Builder, mpi: Mpi) -> Program:
    return builder.build(mpi, "nompi")


def no_table(pid: int) -> mpir.MpirTable:
    raise mpir.NoProctableError(f"process {pid} is not looked into")


def no_pmix(pid: int) -> tuple[RankProcess, ...]:
    raise DiscoveryError(f"process {pid} is not asked")


def ranks_of(found: FoundJob) -> dict[int, int]:
    return {each.rank: each.pid for each in found.table.processes}


def assert_found(found: FoundJob, job: Job, program: Program) -> None:
    """Check that just the ranks of *job* were found, all on this host."""
    assert ranks_of(found) == job.ranks
    assert found.job_size == len(job.ranks)
    assert found.local_ranks == found.table.ranks
    assert not found.ended
    assert found.hosts == (os.uname().nodename,)
    assert {each.executable for each in found.table.processes} == {str(program.path)}
    (group,) = environment_scan.scan(found.selector)
    assert {each.rank: each.pid for each in group.processes} == job.ranks
    assert (group.key, group.size) == (found.selector, len(job.ranks))


def test_all_ranks_are_found(builder: Builder, mpi: Mpi, sleeper: Program) -> None:
    with run_job(builder, mpi.line(4, sleeper), sleeper, 4) as job:
        found = find_job(job.pid, pmix=patient)
        assert_found(found, job, sleeper)
        # Intel's mpirun is a script; all others are the launcher, or turn into it.
        assert found.launcher_pid in (job.pid, *procfs.children(job.pid))
        assert found.command[-1] == str(sleeper.path)
        assert found.table.source.startswith(SOURCES[mpi.name]), found.steps
        # Asking has changed nothing: they are all found a second time.
        assert find_job(job.pid, pmix=patient).table == found.table


def test_all_ranks_are_found_before_mpi_init(builder: Builder, mpi: Mpi, nompi: Program) -> None:
    with run_job(builder, mpi.line(3, nompi), nompi, 3, in_mpi=False) as job:
        assert_found(find_job(job.pid), job, nompi)


def test_all_ranks_are_found_by_their_environment_alone(
    builder: Builder, mpi: Mpi, sleeper: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpir, "read_proctable", no_table)
    monkeypatch.setattr(mpir, "search_proctable", no_table)
    with run_job(builder, mpi.line(3, sleeper), sleeper, 3) as job:
        found = find_job(job.pid, pmix=no_pmix)
        assert found.table.source.startswith("environment of the ranks of ")
        assert_found(found, job, sleeper)
    tried = ["MPIR_proctable by symbol", "MPIR_proctable by structure"]
    assert [step.name for step in found.steps] == [*tried, "environment"]


def test_a_stopped_launcher_is_neither_needed_nor_woken(
    builder: Builder, mpi: Mpi, sleeper: Program
) -> None:
    with run_job(builder, mpi.line(2, sleeper), sleeper, 2) as job:
        launcher = find_job(job.pid).launcher_pid
        os.kill(launcher, signal.SIGSTOP)
        try:
            wait_until(lambda: state_of(launcher) == "T", "the launcher is stopped")
            # A stopped prterun cannot answer, and the deadline is the user's time.
            found = find_job(launcher, pmix=lambda pid: pmix.query_job(pid, timeout_s=1))
            assert_found(found, job, sleeper)
            assert state_of(launcher) == "T"
        finally:
            os.kill(launcher, signal.SIGCONT)


def state_of(pid: int) -> str:
    stat = procfs.read_stat(pid)
    assert stat is not None
    return stat.state


def test_two_jobs_at_once_are_kept_apart(builder: Builder, mpi: Mpi, sleeper: Program) -> None:
    with (
        run_job(builder, mpi.line(2, sleeper), sleeper, 2) as one,
        run_job(builder, mpi.line(3, sleeper), sleeper, 3) as other,
    ):
        assert_found(find_job(one.pid), one, sleeper)
        assert_found(find_job(other.pid), other, sleeper)


def test_a_script_around_the_launcher_stands_for_it(
    builder: Builder, mpi: Mpi, sleeper: Program, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    script.chmod(0o755)
    with run_job(builder, [str(script), *mpi.line(2, sleeper)], sleeper, 2) as job:
        found = find_job(job.pid)
        assert found.launcher_pid != job.pid
        assert_found(found, job, sleeper)


def test_a_pid_below_the_launcher_leads_to_its_job(
    builder: Builder, mpi: Mpi, sleeper: Program
) -> None:
    with run_job(builder, mpi.line(2, sleeper), sleeper, 2) as job:
        launcher = find_job(job.pid).launcher_pid
        # The ranks, and hydra's daemon between them and the launcher.
        for pid in procfs.descendants(launcher):
            found = find_job(pid)
            assert found.launcher_pid == launcher
            assert_found(found, job, sleeper)


def test_the_program_below_a_wrapper_script_is_found(
    builder: Builder, mpi: Mpi, sleeper: Program, tmp_path: Path
) -> None:
    script = tmp_path / "wrapper.sh"
    script.write_text('#!/bin/sh\n"$@" &\nwait\n')
    script.chmod(0o755)
    with run_job(builder, mpi.line(2, script, str(sleeper.path)), sleeper, 2) as job:
        found = find_job(job.pid)
        wrappers = ranks_of(found)
        assert {rank: procfs.children(pid) for rank, pid in wrappers.items()} == {
            rank: [pid] for rank, pid in job.ranks.items()
        }
        for program in ("", "storm", str(sleeper.path)):
            below = {
                rank: rank_program.program_of_rank(wrappers[rank], program) for rank in wrappers
            }
            assert below == job.ranks
        assert rank_program.program_of_rank(wrappers[0], "wrapper.sh") == wrappers[0]
        # A pid that is not the rank's own leads to the job too.
        assert ranks_of(find_job(job.ranks[1])) == wrappers


def test_explicit_pids_know_their_ranks(builder: Builder, mpi: Mpi, sleeper: Program) -> None:
    with run_job(builder, mpi.line(3, sleeper), sleeper, 3) as job:
        found = find_pids([str(job.ranks[rank]) for rank in (2, 0)])
    assert ranks_of(found) == {0: job.ranks[0], 2: job.ranks[2]}
    assert found.job_size == 3


def test_a_job_that_has_ended_says_so(builder: Builder, mpi: Mpi, sleeper: Program) -> None:
    with run_job(builder, mpi.line(2, sleeper), sleeper, 2) as job:
        pass
    with pytest.raises(DiscoveryError, match=f"there is no process {job.pid} "):
        find_job(job.pid)


@pytest.mark.alone
@pytest.mark.slow
def test_finding_32_ranks_reads_little_of_each_process(
    builder: Builder, mpi: Mpi, nompi: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[str] = Counter()
    read = procfs._read

    def counted(path: str) -> bytes | None:
        reads[Path(path).parent.name] += 1
        return read(path)

    with run_job(builder, mpi.line(32, nompi), nompi, 32, in_mpi=False) as job:
        monkeypatch.setattr(procfs, "_read", counted)
        # The reads of prterun while it answers are not ours to count.
        found = find_job(job.pid, pmix=no_pmix)
        monkeypatch.undo()
        assert_found(found, job, nompi)
        most, count = reads.most_common(1)[0]
        print(f"{reads.total()} reads, {count} of process {most}", file=sys.stderr)
        # Each process's parent, who it is, its environment and its words, and those in the way of
        # many ranks more often: never all for each.
        assert max(reads[str(pid)] for pid in job.ranks.values()) <= MOST_READS
        assert reads.total() <= MOST_READS * (len(procfs.all_pids()) + 32)


# -- several hosts ------------------------------------------------------------------------------


def ask(hosts: Hosts, host: str, program: str, *words: object) -> Any:
    """Run one of the programs above on a host."""
    command = ["env", f"--chdir={ROOT}", sys.executable, "-c", program, *words]
    return json.loads(hosts.run(host, command, timeout_s=240))


def launcher_on_host(job: Job) -> int:
    """Return the launcher of a job on a host: nsenter and env turn into it, or into a script."""
    return find_job(job.pid).launcher_pid


@pytest.mark.hosts
@pytest.mark.parametrize("name", ON_FOUR_HOSTS)
def test_ranks_on_four_hosts_are_found(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    sleeper = build_sleeper(builder, mpi)
    line = four_hosts.command("h1", mpi.line(8, sleeper, hosts=four_hosts.names))
    with run_job(builder, line, sleeper, 8) as job:
        launcher = launcher_on_host(job)
        found = ask(four_hosts, "h1", FIND_JOB, job.pid)
        assert found["launcher"] == launcher
        assert found["source"].startswith(SOURCES[name])
        table = [[rank, f"h{rank // 2 + 1}", pid] for rank, pid in job.ranks.items()]
        # Open MPI 5's launcher is better not asked; the others' hosts are scanned for them.
        assert found["table"] == (table[:2] if name == "openmpi5" else table)
        assert found["hosts"] == list(four_hosts.names)
        assert (found["local"], found["size"]) == ("0-1", 8)
        # Each host finds its own ranks from the report of the launcher's host.
        for number, host in enumerate(four_hosts.names):
            own = {str(rank): job.ranks[rank] for rank in (2 * number, 2 * number + 1)}
            selector = found["selector"]
            assert ask(four_hosts, host, SCAN, selector) == [[selector, 8, own]]
        # From a rank: the whole job on its launcher's host, the host's own ranks elsewhere.
        assert ask(four_hosts, "h1", FIND_JOB, job.ranks[1])["table"] == found["table"]
        of_rank = ask(four_hosts, "h3", FIND_JOB, job.ranks[5])
        assert of_rank["table"] == [[rank, "h3", job.ranks[rank]] for rank in (4, 5)]
        assert (of_rank["launcher"], of_rank["hosts"]) == (0, ["h3"])
        assert (of_rank["selector"], of_rank["size"]) == (found["selector"], 8)
        assert "launcher is not on this host" in of_rank["steps"][0][1]


@pytest.mark.hosts
@pytest.mark.parametrize("name", ON_FOUR_HOSTS)
def test_hosts_are_found_without_a_table(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    nompi = builder.build(mpi, "nompi")
    refusing = (
        "from pgdb.frontend.discovery import mpir, pmix\n"
        "from tests.live.test_discovery import no_pmix, no_table\n"
        "mpir.read_proctable = mpir.search_proctable = no_table\n"
        "pmix.query_job = lambda pid, timeout_s: no_pmix(pid)\n"
    )
    line = four_hosts.command("h1", mpi.line(8, nompi, hosts=four_hosts.names))
    with run_job(builder, line, nompi, 8, in_mpi=False) as job:
        found = ask(four_hosts, "h1", refusing + FIND_JOB, job.pid)
        assert found["table"] == [[rank, "h1", job.ranks[rank]] for rank in (0, 1)]
        assert sorted(found["hosts"]) == list(four_hosts.names)
        assert found["hosts"][0] == "h1"
        assert "started daemons on h2, h3, h4" in found["steps"][-1][1]


@pytest.mark.hosts
@pytest.mark.parametrize("name", ON_FOUR_HOSTS)
def test_ranks_may_all_be_on_other_hosts(builder: Builder, four_hosts: Hosts, name: str) -> None:
    mpi = find_mpi(name)
    sleeper = build_sleeper(builder, mpi)
    line = four_hosts.command("h1", mpi.line(4, sleeper, hosts=("h2", "h3")))
    with run_job(builder, line, sleeper, 4) as job:
        found = ask(four_hosts, "h1", FIND_JOB, job.pid)
        table = [[rank, f"h{rank // 2 + 2}", pid] for rank, pid in job.ranks.items()]
        assert found["table"] == ([] if name == "openmpi5" else table)
        size = None if name == "openmpi5" else 4
        assert (found["hosts"], found["local"], found["size"]) == (["h2", "h3"], "", size)
        selector = found["selector"]
        if name == "intel":
            # The launcher gives the job's key to the ranks only.
            assert selector == ""
        else:
            own = {str(rank): job.ranks[rank] for rank in (2, 3)}
            assert ask(four_hosts, "h3", SCAN, selector) == [[selector, 4, own]]


# -- Slurm --------------------------------------------------------------------------------------


def on_node_of(pid: int, program: str, *words: object) -> Any:
    """Run one of the programs above with the host name of the node that a rank runs on."""
    command = ["nsenter", f"--target={pid}", "--uts", sys.executable, "-c", program]
    done = subprocess.run(
        [*command, *map(str, words)], stdout=subprocess.PIPE, check=True, timeout=240, cwd=ROOT
    )
    return json.loads(done.stdout)


@pytest.mark.slurm
@pytest.mark.parametrize("name", ["slurm", "slurm-pmix"])
def test_ranks_of_a_step_are_found(builder: Builder, slurm: Slurm, name: str) -> None:
    mpi = find_mpi(name)
    sleeper = build_sleeper(builder, mpi)
    line = mpi.line(4, sleeper, hosts=slurm.nodes)
    with run_job(builder, line, sleeper, 4, changes=slurm.environment) as job:
        found = find_job(job.pid)
        assert found.table.source == f"{SOURCES[name]} {job.pid}"
        assert ranks_of(found) == job.ranks
        assert [each.host for each in found.table.processes] == ["n1", "n1", "n2", "n2"]
        assert (found.hosts, found.job_size) == (("n1", "n2"), 4)
        # srun made the allocation itself, so that its environment has nothing of it.
        assert "SLURM_JOB_ID" not in (procfs.environment(job.pid) or {})
        number = slurm.run("squeue", "--noheader", "--format=%i").strip()
        assert (found.slurm_job, found.selector) == (number, f"slurm:{number}.0")
        # The twin that forwards srun's signals stands for it.
        (twin,) = procfs.children(job.pid)
        assert find_job(twin).launcher_pid == job.pid
        key = f"key:slurm.pmix.{number}.0" if name == "slurm-pmix" else found.selector
        own = [[key, 4, {str(rank): job.ranks[rank] for rank in (2, 3)}]]
        for selector in (f"slurm:{number}", f"slurm:{number}.0", key):
            assert on_node_of(job.ranks[3], SCAN, selector) == own
        # On a node the daemon of Slurm's is no rank, and its pid stands for the ranks below it.
        for pid in (job.ranks[2], procfs.parents()[job.ranks[2]]):
            of_rank = on_node_of(job.ranks[2], FIND_JOB, pid)
            assert of_rank["table"] == [[rank, "n2", job.ranks[rank]] for rank in (2, 3)]
            assert (of_rank["launcher"], of_rank["selector"]) == (0, key)
    wait_until(lambda: not slurm.run("squeue", "--noheader"), "the job is gone")


@pytest.mark.slurm
def test_ranks_of_mpirun_in_a_batch_job_are_found(
    builder: Builder, slurm: Slurm, tmp_path: Path
) -> None:
    mpi = find_mpi("openmpi")
    nompi = builder.build(mpi, "nompi")
    mark = f"PGDB_TEST_BATCH={os.urandom(8).hex()}"
    script, out = tmp_path / "job.sh", tmp_path / "out"
    line = shlex.join(mpi.line(4, nompi))
    script.write_text(f"#!/bin/sh\nexport {mark}\n{line}\nexit $?\n")
    slurm.run("sbatch", "--nodes=2", "--ntasks=4", f"--output={out}", script)
    try:
        wait_until(lambda: len(ranks_with(mark, nompi)) == 4, "the ranks are up", START_DEADLINE_S)
        job = ranks_with(mark, nompi)
        number = slurm.run("squeue", "--noheader", "--format=%i").strip()
        (mpirun,) = (
            pid for pid, words in processes_with(mark).items() if words.startswith(mpi.launcher)
        )
        # mpirun's table is empty before MPI_Init, and srun has started its daemons.
        found = on_node_of(mpirun, FIND_JOB, mpirun)
        assert (found["launcher"], found["slurm_job"]) == (mpirun, number)
        seen = {}
        for pid in job.values():
            # The daemons are ranks of a step too, which nobody wants to debug.
            ((key, size, own),) = on_node_of(pid, SCAN, f"slurm:{number}")
            assert (key, size) == (found["selector"], 4)
            seen |= {int(rank): pid for rank, pid in own.items()}
        assert seen == job
        assert {rank: pid for rank, _, pid in found["table"]}.items() <= job.items()
    finally:
        slurm.cancel_all()


def ranks_with(mark: str, program: Program) -> dict[int, int]:
    """Return the processes of the program that carry *mark*, by rank."""
    found = {}
    for pid in processes_with(mark):
        identity = rank_environment(procfs.environment(pid) or {})
        if identity is not None and procfs.executable(pid) == str(program.path):
            found[identity.rank] = pid
    return dict(sorted(found.items()))
