"""A scan separates ranks from their children, from other jobs and from PGDB's processes.

The ranks are processes of ours with the environment that launchers give. The keys are of this run
only, so other jobs of this machine do not matter.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pgdb.jobs import environment_scan, procfs, rank_program
from pgdb.jobs.environment_scan import RankGroup, scan
from pgdb.jobs.processes import Processes
from pgdb.jobs.rank_program import program_of_rank
from pgdb.overlay.rendezvous import WIRE_UP_VARIABLE
from tests.support.processes import wait_until

CAT = os.path.realpath(shutil.which("cat") or "")
SHELL = os.path.realpath("/bin/sh")
FORKING = "{command} <&3 & wait"

pytestmark = pytest.mark.skipif(
    not (os.access(CAT, os.X_OK) and os.access(SHELL, os.X_OK)), reason="no cat or no /bin/sh"
)


@pytest.fixture
def key() -> str:
    return os.urandom(8).hex()


@pytest.fixture
def slurm_job() -> str:
    # Longer than the numbers that Slurm gives.
    return str(int.from_bytes(os.urandom(6), "little") + 10**12)


def executables_below(pid: int) -> list[str | None]:
    return [procfs.executable(each) for each in procfs.descendants(pid)]


@contextmanager
def run(*words: str, below: int = 0, **env: str) -> Iterator[int]:
    """Run a command until *below* of its descendants are cat, or it is cat itself.

    The processes live until their input, also descriptor 3, is closed.
    """
    read, write = os.pipe()
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec 3<&0; exec "$0" "$@"', *words], stdin=read, env=env
    )
    os.close(read)
    try:
        wait_until(
            lambda: (
                executables_below(process.pid).count(CAT) == below
                if below
                else procfs.executable(process.pid) == os.path.realpath(words[0])
            ),
            f"{words} is up",
        )
        yield process.pid
    finally:
        os.close(write)
        process.wait(10)


def intel(rank: int, key: str, size: int = 4) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "I_MPI_HYDRA_UUID": key}


def slurm(rank: int, job: str, step: str = "0") -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": "4",
        "SLURM_JOB_ID": job,
        "SLURM_STEP_ID": step,
    }


def pids(groups: tuple[RankGroup, ...]) -> list[tuple[str, dict[int, int]]]:
    return [
        (group.key, {process.rank: process.pid for process in group.processes}) for group in groups
    ]


def test_a_job_is_found_by_its_key(key: str) -> None:
    with (
        run(CAT, **intel(2, key)) as two,
        run(CAT, **intel(0, key)) as zero,
        run(CAT, **intel(0, key + "0")),
        run(CAT),
    ):
        assert Processes().selector(two) == f"key:{key}"
        (group,) = scan(f"key:{key}")
    assert (group.key, group.size) == (f"key:{key}", 4)
    assert [(each.rank, each.pid) for each in group.processes] == [(0, zero), (2, two)]
    assert {each.host for each in group.processes} == {os.uname().nodename}
    assert {each.executable for each in group.processes} == {CAT}


def test_what_a_rank_starts_is_no_rank(key: str) -> None:
    with run(SHELL, "-c", FORKING.format(command=CAT), below=1, **intel(0, key)) as pid:
        (helper,) = procfs.children(pid)
        assert pids(scan(Processes().selector(helper))) == [(f"key:{key}", {0: pid})]


@pytest.mark.parametrize("selector", ["", "key:", "proxy:", "slurm:", "key:no such", "else:1"])
def test_a_selector_of_no_job_finds_nothing(selector: str, key: str) -> None:
    # The others have a rank's environment, and nothing that names their job.
    with run(CAT, **intel(0, key)), run(CAT, **slurm(0, "")), run(CAT, PMI_RANK="0"):
        assert scan(selector) == ()


def test_processes_of_pgdb_are_no_ranks(key: str) -> None:
    # An anchor; its children would inherit the variable, unless it were scrubbed.
    ours = intel(0, key) | {WIRE_UP_VARIABLE: "mpi"}
    forgets = FORKING.format(command=f"env -u {WIRE_UP_VARIABLE} PMI_RANK=1 {CAT}")
    with (
        run(SHELL, "-c", forgets, below=1, **ours, PATH=os.environ["PATH"]),
        run(CAT, **intel(2, key)) as rank,
    ):
        assert pids(scan(f"key:{key}")) == [(f"key:{key}", {2: rank})]


def test_hosts_that_share_proc_are_distinguished(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with run(CAT, **intel(0, key)) as here, run(CAT, **intel(1, key)) as elsewhere:
        monkeypatch.setattr(procfs, "on_this_host", lambda pid: pid != elsewhere)
        assert pids(scan(f"key:{key}")) == [(f"key:{key}", {0: here})]


def test_a_proxy_names_the_job_of_its_ranks(tmp_path: Path, key: str) -> None:
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text(f"#!{SHELL}\nPMI_RANK=1 PMI_SIZE=2 {CAT} <&3 &\nwait\n")
    proxy.chmod(0o755)
    words = (str(proxy), "--control-port", f"{key}:4242", "--demux", "poll", "--pgid")
    with run(SHELL, *words, "0", below=1) as first, run(SHELL, *words, "1", below=1) as spawned:
        (rank,) = procfs.children(first)
        (other,) = procfs.children(spawned)
        assert Processes().selector(rank) == f"proxy:{key}:4242 0"
        assert Processes().selector(other) == f"proxy:{key}:4242 1"
        assert pids(scan(f"proxy:{key}:4242 0")) == [(f"proxy:{key}:4242 0", {1: rank})]


def test_a_job_that_a_rank_runs_is_another_one(tmp_path: Path, key: str) -> None:
    # Rank 1 of 2 of the inner job has the same environment as rank 1 of 2 of the outer one.
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text(f"#!{SHELL}\n{CAT} <&3 &\nwait\n")
    inner = f"{SHELL} {proxy} --control-port {key}:2 --pgid 0"
    outer = tmp_path / "outer"
    outer.write_text(f"#!{SHELL}\nPMI_RANK=1 PMI_SIZE=2 {SHELL} -c '{inner} & wait' <&3 &\nwait\n")
    with run(SHELL, str(outer), "--control-port", f"{key}:1", "--pgid", "0", below=1) as launcher:
        (rank,) = procfs.children(launcher)
        (inner_proxy,) = procfs.children(rank)
        (inner_rank,) = procfs.children(inner_proxy)
        assert pids(scan(f"proxy:{key}:1 0")) == [(f"proxy:{key}:1 0", {1: rank})]
        assert pids(scan(f"proxy:{key}:2 0")) == [(f"proxy:{key}:2 0", {1: inner_rank})]


def test_a_slurm_job_has_the_ranks_of_all_its_steps(slurm_job: str, key: str) -> None:
    in_step = slurm(0, slurm_job, "1") | intel(3, key)
    with (
        run(CAT, **slurm(0, slurm_job)) as first,
        run(CAT, **in_step) as second,
        run(CAT, **slurm(0, slurm_job + "0")),
    ):
        one, two = (f"slurm:{slurm_job}.0", {0: first}), (f"key:{key}", {3: second})
        assert pids(scan(f"slurm:{slurm_job}")) == [one, two]
        assert pids(scan(f"slurm:{slurm_job}.0")) == [one]
        assert pids(scan(f"slurm:{slurm_job}.1")) == [two]
        assert Processes().selector(first) == f"slurm:{slurm_job}.0"
        # The selector of a group finds the group again.
        assert pids(scan(f"key:{key}")) == [two]


def test_pmi2_leaves_the_step_as_its_key(slurm_job: str) -> None:
    env = slurm(2, slurm_job, "5") | {"PMI_RANK": "2", "PMI_JOBID": f"{slurm_job}.5"}
    with run(CAT, **env) as pid:
        assert Processes().selector(pid) == f"slurm:{slurm_job}.5"


def test_a_shell_of_salloc_is_no_rank(slurm_job: str) -> None:
    # LaunchParameters=use_interactive_step; the number is SLURM_INTERACTIVE_STEP.
    with run(CAT, **slurm(0, slurm_job, str(0xFFFFFFFA))):
        assert scan(f"slurm:{slurm_job}") == ()


@pytest.mark.parametrize("name", ["mpirun", "orted", "hydra_pmi_proxy", "slurmstepd-wlm"])
def test_launchers_and_daemons_in_a_step_are_no_ranks(
    name: str, slurm_job: str, key: str, tmp_path: Path
) -> None:
    # A daemon that is a Slurm step, or srun -n 1 mpirun; the script has a launcher below it.
    starter = shutil.copy(SHELL, tmp_path / name)
    inner = FORKING.format(command=f"env {shlex.join(assigned(intel(1, key)))} {CAT}")
    env = slurm(0, slurm_job) | {"PATH": os.environ["PATH"]}
    with run(str(starter), "-c", inner, below=1, **env) as pid:
        (rank,) = procfs.children(pid)
        assert pids(scan(f"slurm:{slurm_job}.0")) == [(f"key:{key}", {1: rank})]
    if name == "mpirun":
        script = FORKING.format(command=shlex.join([str(starter), "-c", inner]))
        with run(SHELL, "-c", script, below=1, **env) as pid:
            assert [each for each, _ in pids(scan(f"slurm:{slurm_job}"))] == [f"key:{key}"]


def assigned(env: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def test_the_older_of_two_with_one_number_counts(key: str) -> None:
    with ExitStack() as stack:
        older = stack.enter_context(run(CAT, **intel(0, key)))
        first = procfs.read_stat(older)
        assert first is not None
        # Start times differ only from tick to tick.
        wait_until(lambda: ticks_of_a_new_process() > first.start_time_ticks, "a tick passes")
        stack.enter_context(run(CAT, **intel(0, key)))
        assert pids(scan(f"key:{key}")) == [(f"key:{key}", {0: older})]


def ticks_of_a_new_process() -> int:
    with run(CAT) as pid:
        stat = procfs.read_stat(pid)
        assert stat is not None
        return stat.start_time_ticks


@pytest.mark.parametrize(
    ("words", "host"),
    [
        (["ssh", "-x", "node2", " orted", "-mca", "ess"], "node2"),
        (["ssh", "-F", "config", "-x", "user@node2", "PATH=x;/opt/bin/prted"], "node2"),
        (["ssh", "-q", "-x", "node2", "/opt/bin/hydra_bstrap_proxy"], "node2"),
        (["sh", "/usr/local/bin/rsh", "-l", "user", "node2", '"hydra_pmi_proxy"'], "node2"),
        (["ssh", "-x", "node2", "sleep", "9"], None),
        (["hydra_pmi_proxy", "--control-port", "node1:1", "hydra_pmi_proxy"], None),
    ],
)
def test_hosts_are_where_daemons_are_started(
    words: list[str], host: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes()
    monkeypatch.setattr(processes, "children", lambda _: [os.getpid()])
    monkeypatch.setattr(procfs, "command_line", lambda _: words)
    assert environment_scan.remote_hosts(1, processes) == (() if host is None else (host,))


# -- the program of a rank ----------------------------------------------------------------------


def test_a_program_that_nothing_wraps_is_the_rank_itself() -> None:
    with run(CAT) as pid:
        assert program_of_rank(pid) == pid


@pytest.mark.parametrize(
    "script",
    [
        FORKING.format(command=CAT),
        FORKING.format(command=f"{SHELL} -c '{CAT} <&3 & wait'"),
        FORKING.format(command=f"timeout 60 {CAT}"),
    ],
)
def test_wrappers_with_one_child_lead_to_the_program(script: str) -> None:
    with run(SHELL, "-c", script, below=1, PATH=os.environ["PATH"]) as pid:
        assert procfs.executable(program_of_rank(pid)) == CAT


@pytest.mark.parametrize("is_named", [True, False])
def test_wrappers_that_nobody_knows_lead_to_the_program(is_named: bool, tmp_path: Path) -> None:
    """A script around subprocess: it names the program in its line, or waits for its child."""
    solver = shutil.copy(CAT, tmp_path / "solver")
    script = tmp_path / "wrap.py"
    words = "sys.argv[1:]" if is_named else repr([str(solver)])
    script.write_text(f"import subprocess, sys\nsubprocess.run({words})\n")
    arguments = (str(solver),) if is_named else ()
    with run(sys.executable, str(script), *arguments) as pid:
        wait_until(lambda: str(solver) in executables_below(pid), "solver runs")
        if not is_named:
            wait_until(lambda: procfs.waits_for_child(pid), "the script waits")
        assert procfs.executable(program_of_rank(pid)) == str(solver)


def test_a_child_that_runs_on_in_the_program_is_not_the_rank(tmp_path: Path) -> None:
    """A data loader of Python is a fork, which has the script in its line as well."""
    script = tmp_path / "train.py"
    script.write_text("import os\nif os.fork():\n    os.wait()\nelse:\n    os.read(0, 1)\n")
    with run(sys.executable, str(script)) as pid:
        wait_until(lambda: procfs.children(pid), "the fork is there")
        assert program_of_rank(pid) == pid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces everywhere")
def test_a_program_in_namespaces_of_its_own_is_found() -> None:
    # As in a container, where the program has another pid and its files are not ours.
    words = ("unshare", "--pid", "--mount", "--fork", CAT)
    with run(*words, below=1, PATH=os.environ["PATH"]) as pid:
        assert procfs.executable(program_of_rank(pid)) == CAT
        assert program_of_rank(pid, "cat") == program_of_rank(pid) != pid


def test_a_wrapper_with_two_children_stands_for_itself() -> None:
    with run(SHELL, "-c", f"{CAT} <&3 & {CAT} <&3 & wait", below=2) as pid:
        assert program_of_rank(pid) == pid


def test_a_child_that_has_ended_does_not_count() -> None:
    # The shell reaps its children at wait, after cat has ended.
    def has_ended_child(pid: int) -> bool:
        processes = Processes()
        return any(processes.has_ended(each) for each in processes.children(pid))

    with run(SHELL, "-c", f"{CAT} <&3 & true & while read x; do :; done; wait", below=1) as pid:
        wait_until(lambda: has_ended_child(pid), "true has ended")
        assert procfs.executable(program_of_rank(pid)) == CAT


def test_a_program_that_is_no_wrapper_is_not_left() -> None:
    code = f"import subprocess as s; s.run([{CAT!r}])"
    with run(sys.executable, "-c", code, below=1) as pid:
        assert program_of_rank(pid) == pid


def test_the_program_may_be_named(tmp_path: Path) -> None:
    solver = shutil.copy(CAT, tmp_path / "solver")
    script = tmp_path / "simulate.sh"
    script.write_text(f"#!{SHELL}\n{CAT} <&3 &\n{solver} <&3 &\nwait\n")
    outer = FORKING.format(command=f"{SHELL} -o errexit {script} solver")
    with run(SHELL, "-c", outer, below=1) as pid:
        wait_until(lambda: str(solver) in executables_below(pid), "solver runs")
        (shell,) = procfs.children(pid)
        assert procfs.executable(program_of_rank(pid, "solver")) == str(solver)
        assert procfs.executable(program_of_rank(pid, "./bin/solver")) == str(solver)
        assert program_of_rank(pid, "simulate.sh") == shell
        assert program_of_rank(pid, "no such") == shell


def test_the_first_with_an_mpi_library_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import subprocess as s; s.run([{CAT!r}])"
    outer = FORKING.format(command=shlex.join([sys.executable, "-c", code]))
    with run(SHELL, "-c", outer, below=1) as pid:
        (python,) = procfs.children(pid)
        (cat,) = procfs.children(python)
        assert program_of_rank(pid) == python
        maps_mpi = {cat}
        library = frozenset({"/opt/lib/libmpi.so.40"})
        monkeypatch.setattr(
            procfs, "mapped_files", lambda each: library if each in maps_mpi else frozenset()
        )
        assert program_of_rank(pid) == cat
        # A measuring tool preloads its library, and MPI with it, into the shells too.
        maps_mpi.add(pid)
        assert program_of_rank(pid) == cat


@pytest.mark.parametrize(
    ("path", "is_mpi"),
    [
        ("/usr/lib/libmpi.so.40.30.4", True),
        ("/usr/lib/libmpich.so.12", True),
        ("/opt/lib/libmpi_cray.so.12 (deleted)", True),
        ("/opt/lib/libpmpi.so", True),
        ("/opt/lib/libmpi_usempif08.so.40", True),
        ("/usr/lib/libc.so.6", False),
        ("/usr/lib/libompitrace.so.40", False),
        ("/usr/lib/libmpi.so.40.debug", False),
    ],
)
def test_libraries_of_mpi_are_known(path: str, is_mpi: bool) -> None:
    assert bool(rank_program.MPI_LIBRARY.search(path)) is is_mpi


def test_one_proxy_has_the_ranks_of_several_spawned_jobs(tmp_path: Path, key: str) -> None:
    proxy = tmp_path / "hydra_pmi_proxy"
    starts = ["PMI_RANK=0 PMI_SIZE=1"]
    starts += [f"PMI_SPAWNED=1 PMI_RANK={rank} PMI_SIZE=2" for rank in (0, 1, 0, 1)]
    starts += ["PMI_SPAWNED=1 PMI_RANK=2 PMI_SIZE=3"]
    lines = "".join(f"{each} {CAT} <&3 &\n" for each in starts)
    proxy.write_text(f"#!{SHELL}\n{lines}wait\n")
    proxy.chmod(0o755)
    words = (str(proxy), "--control-port", f"{key}:7", "--pgid", "0")
    with run(SHELL, *words, below=len(starts)) as pid:
        ranks = sorted(procfs.children(pid))
        selectors = [Processes().selector(each) for each in ranks]
        own = f"proxy:{key}:7 0"
        first, second, third = (f"{own} spawned {number}" for number in (1, 2, 3))
        assert selectors == [own, first, first, second, second, third]
        assert pids(scan(second)) == [(second, {0: ranks[3], 1: ranks[4]})]
        found = environment_scan.scan_below(pid, Processes())
        assert [len(each.processes) for each in found] == [1, 2, 2, 1]
