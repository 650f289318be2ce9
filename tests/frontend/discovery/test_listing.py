"""Stand-ins, copies of bash and sleep under other names, show which processes count as jobs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import listing, slurm
from pgdb.frontend.discovery.listing import RunningJob, list_jobs
from tests.support.processes import wait_until

BASH, SLEEP = shutil.which("bash"), shutil.which("sleep")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BASH is None or SLEEP is None, reason="no bash or no sleep"),
]
ME = pwd.getpwuid(os.geteuid()).pw_name

Start = Callable[..., int]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs: mpirun and prun run scripts, the others sleep. There is no Slurm."""
    assert BASH is not None
    assert SLEEP is not None
    for name, source in (
        ("mpirun", BASH),
        ("prun", BASH),
        ("mpiexec.hydra", SLEEP),
        ("srun", SLEEP),
        ("ring", SLEEP),
    ):
        shutil.copy(source, tmp_path / name)
    monkeypatch.setattr(slurm, "is_available", lambda: False)
    return tmp_path


@pytest.fixture
def start(programs: Path) -> Iterator[Start]:
    """Start one of the programs; all are ended with what they have started."""
    with ExitStack() as stack:

        def start_one(name: str, *arguments: str, **variables: str) -> int:
            path = str(programs / name)
            process = stack.enter_context(
                subprocess.Popen(
                    [path, *arguments],
                    cwd=programs,
                    env=os.environ | variables,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            stack.callback(os.killpg, process.pid, signal.SIGKILL)
            words = Path(f"/proc/{process.pid}/cmdline")
            wait_until(lambda: path in words.read_text().split("\0"), f"{name} runs")
            return process.pid

        yield start_one


def session(pid: int) -> dict[str, int]:
    """Return the processes of a session by the word that their command line begins with."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and os.getsid(int(entry.name)) == pid:
            word = (entry / "cmdline").read_text().split("\0")[0]
            found[os.path.basename(word)] = int(entry.name)
    return found


def wait_for(pid: int, *names: str) -> dict[str, int]:
    """Wait until a session has such processes and return their pids."""
    found: dict[str, int] = {}

    def is_there() -> bool:
        try:
            found.update(session(pid))
        except (FileNotFoundError, ProcessLookupError):
            return False  # one has ended while it was read
        return found.keys() >= set(names)

    wait_until(is_there, f"{', '.join(names)} run")
    return found


def jobs_of(*pids: int) -> list[RunningJob]:
    """Return the jobs among those listed that are of these processes' sessions."""
    return [job for job in list_jobs() if session_of(job.target) in pids]


def session_of(target: str) -> int:
    try:
        return os.getsid(int(target))
    except (ValueError, ProcessLookupError):
        return 0  # a step of Slurm's, or somebody's job that has ended meanwhile


def test_launcher(start: Start, programs: Path) -> None:
    began_s = time.monotonic()
    pid = start("mpirun", "-c", "./ring 300; true", "a b")
    (job,) = jobs_of(pid)
    assert job.target == str(pid)
    assert job.launcher == "mpirun"
    assert job.command == f"{programs}/mpirun -c './ring 300; true' 'a b'"
    # The kernel counts the start in ticks.
    assert 0 <= job.age_s <= time.monotonic() - began_s + 1
    assert job.user == ME
    assert job.is_ours
    # No source for the number of ranks.
    assert (job.ranks, job.hosts) == (None, None)


def test_ranks_are_counted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "COUNTING_S", 60.0)
    ranks = "; ".join(f"PMI_RANK={rank} PMI_SIZE=3 ./ring 300 &" for rank in range(3))
    pid = start("mpirun", "-c", f"{ranks.replace('&;', '&')} wait")
    wait_for(pid, "ring")
    wait_until(lambda: jobs_of(pid)[0].ranks, "the ranks are counted")
    (job,) = jobs_of(pid)
    assert (job.ranks, job.hosts) == (3, 1)


def test_youngest_first(start: Start) -> None:
    pids = [start("srun", "300") for _ in range(3)]
    ages = {int(job.target): job.age_s for job in jobs_of(*pids)}
    assert ages.keys() == set(pids)
    assert list(ages.values()) == sorted(ages.values())
    listed = [job.age_s for job in list_jobs()]
    assert listed == sorted(listed)


def test_script_around_a_launcher(start: Start, programs: Path) -> None:
    # As with Intel MPI: mpirun is a script that runs mpiexec.hydra.
    (programs / "mpirun").unlink()
    (programs / "mpirun").write_text(f"#!{BASH}\n./mpiexec.hydra $@\ntrue\n")
    (programs / "mpirun").chmod(0o755)
    pid = start("mpirun", "300")
    inner = wait_for(pid, "mpiexec.hydra")["mpiexec.hydra"]
    assert [(job.target, job.launcher) for job in jobs_of(pid)] == [(str(inner), "mpiexec.hydra")]


def test_launcher_of_daemons(start: Start) -> None:
    # In a Slurm allocation mpirun starts its daemons with srun, whose twin is its child.
    pid = start("mpirun", "-c", "./prun -c './srun 300; true'; true")
    wait_for(pid, "srun")
    assert [job.target for job in jobs_of(pid)] == [str(pid)]


def test_job_that_a_rank_has_started(start: Start) -> None:
    pid = start("mpirun", "-c", "PMI_RANK=0 PMI_SIZE=1 ./prun -c './srun 300; true'; true")
    found = wait_for(pid, "srun")
    assert {job.target for job in jobs_of(pid)} == {str(pid), str(found["prun"])}


def test_launchers_of_aggregators_are_left_out(start: Start) -> None:
    first = start("srun", "300", PGDB_WIRE_UP="direct")
    second = start("mpirun", "-c", "./ring 300; true", "python3", "-m", "pgdb.backend")
    third = start("srun", "300")
    assert [job.target for job in jobs_of(first, second, third)] == [str(third)]


def test_launcher_that_has_ended(programs: Path) -> None:
    with subprocess.Popen([programs / "srun", "0"], start_new_session=True) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: ") Z " in stat.read_text(), "srun has ended")
        assert not jobs_of(process.pid)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("mpirun -n 2 ./ring -- x", "mpirun -n 2 ./ring -- x"),
        ("mpirun -n 2 py -I -S /p/hold.py MARK h:1 60 1 -- ./ring -- x", "mpirun -n 2 ./ring -- x"),
        (
            "mpirun -n 2 py -I -S hold.py M h:1 9 1 -- ./a : -n 1 py -I -S hold.py M h:1 9 1 -- b",
            "mpirun -n 2 ./a : -n 1 b",
        ),
        ("mpirun python3 -I -S mine.py -- x", "mpirun python3 -I -S mine.py -- x"),
        ("mpirun python3 -I -S hold.py", "mpirun python3 -I -S hold.py"),
    ],
)
def test_command_is_the_users(line: str, shown: str) -> None:
    assert " ".join(listing._without_hold(line.split())) == shown


def test_a_title_has_no_empty_words_behind_it() -> None:
    assert listing._command_of(["ray::Worker.run", "", "", ""]) == "ray::Worker.run"
    assert listing._command_of(["mpirun", "./ring", ""]) == "mpirun ./ring ''"


def test_shipped_hold_program_is_left_out() -> None:
    text = 'import sys; sys.exit("pgdb: needs 3.11")'
    line = ["mpirun", "python3", "-I", "-S", "-c", text, "MARK", "h:1", "60", "1", "--", "./ring"]
    assert listing._without_hold(line) == ["mpirun", "./ring"]


def step(number: int, name: str = "ring", *, host: str = "", pid: int = 0) -> slurm.Step:
    return slurm.Step(
        job="99990017",
        step=str(number),
        hosts=("n1", "n2"),
        tasks=6,
        user=ME,
        name=name,
        age_s=1e9 + number,
        srun_host=host,
        srun_pid=pid,
    )


def test_steps_of_slurm(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.uname().nodename
    pid = start("srun", "300")
    daemons = start("mpirun", "-c", "./srun 300; true")
    found = [
        step(1),
        step(2, host="login7", pid=pid),
        step(3, host=here, pid=pid),
        step(4, "orted"),
        step(5, "orted", host=here, pid=wait_for(daemons, "srun")["srun"]),
    ]
    monkeypatch.setattr(slurm, "is_available", lambda: True)
    monkeypatch.setattr(slurm, "steps", lambda **_: tuple(found))
    listed = {job.target: job for job in list_jobs()}
    # A local srun is listed in place of its step, a local mpirun in place of the step of its
    # daemons.
    assert [target for target in listed if target.startswith("99990017")] == [
        "99990017.1",
        "99990017.2",
        "99990017",
    ]
    assert (listed[str(pid)].ranks, listed[str(pid)].hosts) == (6, 2)
    assert listed["99990017.1"] == RunningJob(
        target="99990017.1",
        launcher="srun",
        command="ring",
        ranks=6,
        hosts=2,
        age_s=1e9 + 1,
        user=ME,
        is_ours=True,
    )
    # Daemons are no ranks.
    assert (listed["99990017"].ranks, listed["99990017"].hosts) == (None, None)


def test_slurm_that_does_not_answer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: float) -> tuple[slurm.Step, ...]:
        raise DiscoveryError("no controller")

    pid = start("srun", "300")
    monkeypatch.setattr(slurm, "is_available", lambda: True)
    monkeypatch.setattr(slurm, "steps", fail)
    assert [job.target for job in jobs_of(pid)] == [str(pid)]


def test_job_of_another_user(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = start("srun", "300")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    (job,) = jobs_of(pid)
    assert (job.user, job.is_ours, job.ranks) == (ME, False, None)
