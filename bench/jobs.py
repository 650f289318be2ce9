"""Jobs to measure on.

The ranks of ``place`` can be stopped in one known place; the ranks of ``long`` have long answers.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery.discover import find_job

# The tests' jobs are not installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.jobs import run_job
from tests.support.processes import wait_until
from tests.support.programs import Builder, Mpi, find_mpi

PLACE = Path(__file__).resolve().parent / "programs" / "place.c"
LONG = PLACE.with_name("long.c")
START_DEADLINE_S = 300.0
END_DEADLINE_S = 5.0
_COUNTER = struct.Struct("l")


@dataclass(frozen=True)
class Job:
    """A job that runs without a debugger."""

    pid: int
    """Process id of the launcher."""
    ranks: tuple[int, ...]
    """Process ids of the ranks."""
    counters: Path | None = None

    def rounds(self) -> tuple[int, ...]:
        """Return the number of rounds of each rank of ``place``."""
        assert self.counters is not None
        return tuple(count for (count,) in _COUNTER.iter_unpack(self.counters.read_bytes()))


def at(marker: str, source: Path = PLACE) -> str:
    """Return the line of a program with the comment ``@marker``, as a location for GDB."""
    lines = source.read_text(encoding="utf-8").splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if f"/* @{marker} */" in line)
    return f"{source.name}:{found}"


@contextlib.contextmanager
def placed_job(ranks: int, *, rest_us: int = 20_000, steps: int = 1000) -> Iterator[Job]:
    """Run ``place`` while the context lasts, once all ranks have left MPI_Init."""
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        counters = Path(folder) / "counters"
        counters.write_bytes(bytes(ranks * _COUNTER.size))
        arguments = (str(counters), str(rest_us), str(steps))
        with _run(PLACE, ranks, arguments, Path(folder)) as process:
            job = Job(pid=process.pid, ranks=(), counters=counters)
            _wait_for(lambda: all(job.rounds()), process, "all ranks leave MPI_Init")
            yield Job(pid=process.pid, ranks=_pids(process, ranks), counters=counters)


@contextlib.contextmanager
def running_job(ranks: int) -> Iterator[tuple[int, list[int]]]:
    """Run ``ring``, whose ranks talk to each other; yield the pids of launcher and ranks."""
    with tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder:
        builder, mpi = Builder(Path(folder)), _any_mpi()
        program = builder.build(mpi, "ring")
        with run_job(builder, mpi.line(ranks, program), program, ranks) as job:
            yield job.pid, list(job.ranks.values())


@contextlib.contextmanager
def long_job(ranks: int) -> Iterator[int]:
    """Run ``long``, whose ranks have long answers; yield the pid of the launcher."""
    with (
        tempfile.TemporaryDirectory(prefix="pgdb-bench-") as folder,
        _run(LONG, ranks, (), Path(folder)) as process,
    ):
        _pids(process, ranks)
        yield process.pid


def _any_mpi() -> Mpi:
    for name in ("openmpi", "mpich", "openmpi5"):
        with contextlib.suppress(pytest.skip.Exception):
            return find_mpi(name)
    raise SystemExit("this needs an mpirun with its mpicc in PATH")


def launch_line(ranks: int) -> list[str]:
    """Return the first mpirun in PATH, with options for more ranks than cores."""
    launcher = shutil.which("mpirun")
    if launcher is None or shutil.which("mpicc") is None or shutil.which("gdb") is None:
        raise SystemExit("this needs mpirun, mpicc and gdb in PATH")
    version = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    is_open_mpi = "Open MPI" in version.stdout or "PRRTE" in version.stdout
    return [launcher, "-n", str(ranks), *(("--oversubscribe",) if is_open_mpi else ())]


@contextlib.contextmanager
def _run(
    source: Path, ranks: int, arguments: tuple[str, ...], folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    program = folder / source.stem
    line = [*launch_line(ranks), str(program), *arguments]
    subprocess.run(["mpicc", "-g", "-O0", "-o", str(program), str(source)], check=True)
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_DEADLINE_S)
        # Open MPI 4's mpirun sometimes never ends after SIGTERM.
        process.kill()
        process.wait()


def _pids(process: subprocess.Popen[bytes], ranks: int) -> tuple[int, ...]:
    found: list[int] = []

    def is_there() -> bool:
        with contextlib.suppress(DiscoveryError):
            found[:] = [each.pid for each in find_job(process.pid).table.processes]
        return len(found) == ranks

    _wait_for(is_there, process, "the job's ranks are found")
    return tuple(found)


def _wait_for(holds: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Wait until a job has come so far; a job that ends before ends the program."""

    def is_so() -> bool:
        if holds():
            return True
        if process.poll() is not None:
            raise SystemExit(f"the job has ended, status {process.returncode}")
        return False

    wait_until(is_so, what, START_DEADLINE_S)
