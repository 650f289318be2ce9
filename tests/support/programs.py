"""Programs to debug, the MPIs that run them, and jobs to attach to.

The fixtures ``mpi``, ``build`` and ``start_job`` of tests/conftest.py are made of these.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "tests" / "programs", ROOT / "examples")

START_DEADLINE_S = 60.0
END_DEADLINE_S = 10.0
TERMINATE_TIMEOUT_S = 3.0
POLL_S = 0.02
_READY_VARIABLE = "PGDB_TEST_READY"

# Preloaded into the ranks: a byte in the file for every rank that has come out of MPI_Init.
_READY_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void tell(void)
{
    const char *path = getenv("PGDB_TEST_READY");
    int file = path ? open(path, O_WRONLY | O_APPEND) : -1;

    if (file >= 0) {
        if (write(file, "r", 1) != 1)
            abort();
        close(file);
    }
}

int MPI_Init(int *argc, char ***argv)
{
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(RTLD_NEXT, "MPI_Init");
    int result = init(argc, argv);

    tell();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int (*init)(int *, char ***, int, int *) =
        (int (*)(int *, char ***, int, int *))dlsym(RTLD_NEXT, "MPI_Init_thread");
    int result = init(argc, argv, required, provided);

    tell();
    return result;
}
"""


@dataclass(frozen=True)
class Program:
    """A program that was built."""

    path: Path
    source: Path

    def line(self, marker: str) -> int:
        """Return the number of the source line with the comment ``@marker``."""
        pattern = re.compile(rf"@{re.escape(marker)}\b")
        lines = self.source.read_text(encoding="utf-8").splitlines()
        found = [number for number, line in enumerate(lines, start=1) if pattern.search(line)]
        assert len(found) == 1, f"{self.source.name} has {len(found)} lines with @{marker}"
        return found[0]

    def at(self, marker: str) -> str:
        """Return that line as a location, such as ``ring.c:22``."""
        return f"{self.source.name}:{self.line(marker)}"


@dataclass(frozen=True)
class Mpi:
    """A launcher and the compilers that go with it."""

    name: str
    launcher: str
    compilers: dict[str, str]
    """Compiler of each suffix, such as ``.c``."""
    options: tuple[str, ...]

    def line(self, ranks: int, program: Program | Path | str, *args: str) -> list[str]:
        """Return the launch line of *ranks* ranks of a program."""
        path = program.path if isinstance(program, Program) else program
        return [self.launcher, "-n", str(ranks), *self.options, str(path), *args]


def find_mpi(name: str) -> Mpi:
    """Return the MPI ``openmpi`` or ``mpich``; skip the test where it is absent."""
    if name == "openmpi":
        return _mpi_of_system(name, "Open MPI", ("--oversubscribe", "--bind-to", "none"))
    directory = os.environ.get("PGDB_TEST_MPICH")
    if directory is None:
        return _mpi_of_system(name, "HYDRA", ())
    paths = {word: Path(directory, word) for word in ("mpirun", "mpicc", "mpicxx", "mpifort")}
    for word in ("mpirun", "mpicc"):
        if not paths[word].exists():
            pytest.skip(f"PGDB_TEST_MPICH={directory} has no {word}")
    return _mpi(name, {word: str(path) for word, path in paths.items() if path.exists()}, ())


def _mpi_of_system(name: str, sign: str, options: tuple[str, ...]) -> Mpi:
    for suffix in (f".{name}", ""):
        words = ("mpirun", "mpicc", "mpicxx", "mpifort")
        paths = {word: path for word in words if (path := shutil.which(word + suffix))}
        if "mpirun" in paths and "mpicc" in paths and sign in _version(paths["mpirun"]):
            return _mpi(name, paths, options)
    pytest.skip(f"this machine has no {name} with mpicc")


def _mpi(name: str, paths: dict[str, str], options: tuple[str, ...]) -> Mpi:
    suffixes = {".c": "mpicc", ".cpp": "mpicxx", ".f90": "mpifort"}
    compilers = {suffix: paths[word] for suffix, word in suffixes.items() if word in paths}
    return Mpi(name=name, launcher=paths["mpirun"], compilers=compilers, options=options)


def _version(command: str) -> str:
    return subprocess.run(
        [command, "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout


class Builder:
    """Builds each program once for each MPI, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._built: dict[tuple[str, str, tuple[str, ...]], Program] = {}
        self._ready: Path | None = None

    def build(self, mpi: Mpi, name: str, *flags: str) -> Program:
        """Return the program of the source file *name*, such as ``ring.c`` or ``ring``.

        It is built with ``-g -O0`` and *flags*; a script is taken as it is.
        """
        key = (mpi.name, name, flags)
        if key not in self._built:
            self._built[key] = self._build(mpi, _source(name), flags)
        return self._built[key]

    def _build(self, mpi: Mpi, source: Path, flags: tuple[str, ...]) -> Program:
        if source.suffix in (".sh", ".py"):
            return Program(path=source, source=source)
        compiler = mpi.compilers.get(source.suffix)
        if compiler is None:
            pytest.skip(f"this machine's {mpi.name} has no compiler for {source.name}")
        directory = Path(tempfile.mkdtemp(prefix=f"{mpi.name}-", dir=self._directory))
        path = directory / source.stem
        # The modules of a Fortran program go to the directory that the compiler runs in. -g and
        # -O0 come last: MPICH's mpifort brings -O2.
        _compile([compiler, *flags, "-g", "-O0", "-o", str(path), str(source), "-lm"], directory)
        return Program(path=path, source=source)

    def ready_library(self) -> Path:
        """Return the library that tells when a rank has come out of ``MPI_Init``."""
        if self._ready is None:
            compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
            source, path = self._directory / "ready.c", self._directory / "ready.so"
            source.write_text(_READY_C, encoding="utf-8")
            _compile(
                [compiler, "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"],
                self._directory,
            )
            self._ready = path
        return self._ready


def _source(name: str) -> Path:
    for folder in SOURCES:
        if (folder / name).is_file():
            return folder / name
        found = sorted(folder.glob(f"{name}.*"))
        assert len(found) <= 1, f"which of {', '.join(path.name for path in found)}?"
        if found:
            return found[0]
    raise AssertionError(f"there is no source {name} in tests/programs or examples")


def _compile(command: Sequence[str], directory: Path) -> None:
    # The mpicc of a wheel calls the tools beside it.
    environment = os.environ | {"PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"}
    built = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    if built.returncode:
        pytest.fail(f"{' '.join(command)}:\n{built.stdout}", pytrace=False)


# -- processes ---------------------------------------------------------------------------------


def wait_until(holds: Callable[[], object], what: str, deadline_s: float = END_DEADLINE_S) -> None:
    """Wait until *holds* returns something true; fail the test with *what* at the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        # The kernel tells nobody of what is asked for here; no rank waits for this.
        time.sleep(POLL_S)


def status(pid: int, name: str) -> str:
    """Return one field of ``/proc/PID/status``, such as ``TracerPid``."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    raise AssertionError(f"/proc/{pid}/status has no {name}")


def is_alive(pid: int) -> bool:
    """Return whether there is such a process that is no zombie."""
    try:
        return not status(pid, "State").startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(variable: str) -> dict[int, str]:
    """Return pid and command line of every process that has ``NAME=value`` in its environment."""
    found = {}
    wanted = variable.encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = b" ".join(words).decode("utf-8", "replace").strip()
    return found


def is_traced(pid: int) -> bool:
    """Return whether a debugger holds the process."""
    return status(pid, "TracerPid") != "0"


def wait_progress(pid: int) -> None:
    """Wait until a process that sleeps now and then has done so some times more."""
    # Being stopped is such a switch too, but one only.
    wanted = int(status(pid, "voluntary_ctxt_switches")) + 10
    wait_until(
        lambda: int(status(pid, "voluntary_ctxt_switches")) >= wanted, f"process {pid} gets on"
    )


# -- jobs --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A job that runs without a debugger, all of whose ranks are in their program."""

    process: subprocess.Popen[bytes]
    ranks: dict[int, int]
    """Process id of each rank."""

    @property
    def pid(self) -> int:
        """Process id of the launcher."""
        return self.process.pid


RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


@contextmanager
def run_job(
    builder: Builder, line: Sequence[str], program: Program, ranks: int, *, in_mpi: bool = True
) -> Iterator[Job]:
    """Run a job in a session of its own until all ranks are there, and end it at the end.

    A rank is there when it has come out of MPI_Init (of C), or, if not *in_mpi*, as soon as it is
    the program.
    """
    with tempfile.NamedTemporaryFile(prefix="pgdb-test-ready-") as ready:
        mark = f"{_READY_VARIABLE}={ready.name}"
        environment = os.environ | {_READY_VARIABLE: ready.name}
        if in_mpi:
            environment["LD_PRELOAD"] = str(builder.ready_library())
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        try:

            def is_up() -> bool:
                assert process.poll() is None, f"{line} ended, status {process.returncode}"
                return len(_ranks(mark, program)) == ranks and (
                    not in_mpi or os.path.getsize(ready.name) == ranks
                )

            wait_until(is_up, f"{ranks} ranks of {line} are up", START_DEADLINE_S)
            yield Job(process=process, ranks=_ranks(mark, program))
        finally:
            _end(process, mark, program)


def _ranks(mark: str, program: Program) -> dict[int, int]:
    """Return the processes of the program that carry *mark*, by rank."""
    found = {}
    for pid in processes_with(mark):
        with suppress(OSError):
            if Path(f"/proc/{pid}/exe").resolve() != program.path.resolve():
                continue
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace")
            words = dict(each.partition("=")[::2] for each in environment.split("\0"))
            rank = next(words[name] for name in RANK_VARIABLES if name in words)
            found[int(rank)] = pid
    return dict(sorted(found.items()))


def _end(process: subprocess.Popen[bytes], mark: str, program: Program) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERMINATE_TIMEOUT_S)
    # Open MPI 4's mpirun sometimes stays for good after SIGTERM, with zombie ranks.
    process.kill()
    process.wait()
    for pid in processes_with(mark):
        # Each carries a name that only this job has, so it is no other that got the pid.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes_with(mark), f"the processes of {program.path} end")
