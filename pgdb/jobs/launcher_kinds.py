"""Launch lines whose launcher does not identify itself: the user, or its name, says its kind.

A wrapper script of a site may pass on the options of one family of launchers. Any other launcher
(*other*) ends up in such a launcher or in srun; PGDB needs to know only where the program is in its
line. Lines of PyTorch have a module of their own (:mod:`pgdb.jobs.torch_lines`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdb.errors import StartError, UsageError
from pgdb.jobs.launch_lines import (
    LaunchLine,
    Program,
    check_program,
    parse_launch_line,
    parse_line_of,
)
from pgdb.jobs.launchers import Family, Launcher, find_launcher, identify
from pgdb.jobs.procfs import is_launcher_name
from pgdb.jobs.torch_lines import begin_of_options, read_torch_line, with_workers

_FAMILIES = {"mpich": Family.MPICH, "intel": Family.INTEL, "slurm": Family.SLURM}
_OPEN_MPI = (Family.OPEN_MPI_4, Family.OPEN_MPI_5)


def read_launch_line(
    argv: Sequence[str], kind: str = "auto", *, environment: Mapping[str, str] | None = None
) -> LaunchLine:
    """Parse the launcher's command line *argv*; *kind* is ``openmpi``, ``mpich``, ``intel``,
    ``slurm``, ``torchrun`` or ``other``; ``auto`` if the launcher shows it.

    :raises StartError: if ``argv[0]`` is not a launcher.
    :raises UsageError: if the line cannot be read.
    """
    begin = begin_of_options(argv)
    if not argv or (kind == "auto" and not begin):
        return with_workers(parse_launch_line(argv, environment=environment))
    found = shutil.which(argv[0])
    if found is None:
        raise StartError(f"{argv[0]!r} is not an executable program here, and it is not in PATH")
    path = Path(os.path.abspath(found))
    if kind == "other":
        return _other(path, argv)
    if kind in ("auto", "torchrun"):
        return read_torch_line(path, argv, begin or 1)
    family = _open_mpi(path) if kind == "openmpi" else _FAMILIES[kind]
    launcher = Launcher(path, family, family.value)
    env = os.environ if environment is None else environment
    return with_workers(parse_line_of(launcher, argv, env))


def rights_lost(path: Path) -> str:
    """Return a note about a program whose own rights the kernel drops under our debugger."""
    if os.geteuid() == 0:
        return ""
    found = []
    with contextlib.suppress(OSError):
        status = os.stat(path)
        if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
            found.append("a set-user-ID bit")
        if status.st_mode & stat.S_ISGID and status.st_gid != os.getegid():
            found.append("a set-group-ID bit")
        os.getxattr(path, "security.capability")
        found.append("file capabilities")
    if not found:
        return ""
    return (
        f"{path.name} has {' and '.join(found)}; the kernel runs it without these rights under a "
        "debugger that is not root's"
    )


def launcher_for_own(launcher: Launcher) -> Launcher:
    """Return the launcher for PGDB's own processes beside a job of *launcher*.

    :raises StartError: if there is none.
    """
    if launcher.family not in (Family.OTHER, Family.TORCHRUN):
        return launcher
    for word in ("mpirun", "mpiexec", "srun"):
        with contextlib.suppress(StartError):
            return find_launcher(word)
    raise StartError(
        f"{launcher.path.name} cannot start PGDB's own processes, and there is no mpirun, mpiexec "
        "or srun in PATH; install an MPI (pip install 'pgdb-mpi[embedded]' brings MPICH), or name "
        "a launcher with --overlay-launcher"
    )


def _open_mpi(path: Path) -> Family:
    """Return the family of a wrapper around Open MPI: that of itself, or of the one in PATH."""
    words: list[Path | str] = [path] if is_launcher_name(path.name) else []
    for word in (*words, "mpirun"):
        with contextlib.suppress(StartError):
            launcher = identify(word) if isinstance(word, Path) else find_launcher(word)
            if launcher.family in _OPEN_MPI:
                return launcher.family
    return Family.OPEN_MPI_5


def _other(path: Path, argv: Sequence[str]) -> LaunchLine:
    """Read the line of a launcher with unknown options: the program is the first one in it."""
    separated = "--" in argv[:-1]
    begin = argv.index("--") + 1 if separated else 1
    for at in range(begin, len(argv)):
        word = argv[at]
        program = Program(at, word, tuple(argv[at + 1 :]), separated, looks_in_directory=True)
        if separated or (not word.startswith(("-", "+")) and _runs(program)):
            return LaunchLine(
                launcher=Launcher(path, Family.OTHER, path.name),
                argv=tuple(argv),
                programs=(program,),
                doubts=(),
                rank_count=None,
                on_this_host_only=False,
            )
    raise UsageError(
        f"no program was found in the line of {argv[0]}; put -- before the program to settle it"
    )


def _runs(program: Program) -> bool:
    try:
        check_program(program, os.environ.get("PATH", os.defpath))
    except StartError:
        return False
    return True
