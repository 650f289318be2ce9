"""The process that runs the program of a rank, below the wrappers that started it."""

from __future__ import annotations

import os
import re

from pgdb.jobs import procfs, rank_watcher
from pgdb.jobs.processes import Processes
from pgdb.patterns import pattern

# Programs that start another one and do not use MPI themselves.
_SHELL = pattern(r"(?:ba|da|k|mk|pdk|z|tc|c|fi|busybox-)?sh\Z|busybox\Z")
_WRAPPER = pattern(
    r"""(?x)
    (?: time | timeout | env | nice | ionice | nohup | setsid | stdbuf | script | chrt
      | numactl | taskset | hwloc-bind | likwid-\w+ | strace | ltrace | perf | heaptrack
      | sudo | su | runuser | setpriv | unshare | nsenter | chroot
      | starter(?:-suid)? | apptainer | singularity | runc | crun | conmon | docker | podman
      | shifter | enroot | ch-run | pcocc | srun | xvfb-run | catchsegv | libtool )\Z
    """
)
_INTERPRETER = pattern(r"(?:python|perl|ruby|lua|tclsh|julia|guile|Rscript|R|node)[\d.]*\Z")
# Options whose value is a word of its own: bash's, and Python's.
_TAKES_A_VALUE = frozenset({"-o", "-O", "+O", "-W", "-X", "--rcfile", "--init-file"})
# Executables, except interpreters, of which a process has mapped an MPI library.
_MPI_PROGRAMS: set[tuple[int, int, int]] = set()
_TORCH_LIBRARY = pattern(r"/libtorch(?:_\w+)?\.so[\d.]*(?: \(deleted\))?\Z")
MPI_LIBRARY = pattern(r"/libp?mpi[\w+-]*\.so[\d.]*(?: \(deleted\))?\Z")


def program_of_rank(pid: int, program: str = "") -> int:
    """Return the process that runs the program of rank *pid*; *pid* itself if no other one fits
    better.

    A launcher may have been given a script, ``time`` or a container's starter, which forked the
    program. The result is the first process from *pid* downwards whose executable or script has
    the base name *program*; else the first that has mapped an MPI library; else the end of a
    chain of wrappers, each with a single living child: shells and known wrappers, and processes
    whose command line names the child, or that wait for a child that is no tool of the system.
    """
    wanted = os.path.basename(program)
    # Mostly *pid* itself runs the program; then no other process is read.
    if wanted in _program_names(pid) if wanted else is_mpi_program(pid):
        return pid
    processes = Processes()
    below = [each for each in processes.below(pid) if not processes.has_ended(each)]
    if wanted:
        for each in below:
            if wanted in _program_names(each):
                return each
    for each in (pid, *below):
        if is_mpi_program(each):
            return each
    while True:
        living = [each for each in processes.children(pid) if not processes.has_ended(each)]
        if len(living) != 1 or not (_is_wrapper(pid) or _is_wrapper_of(pid, living[0])):
            return pid
        pid = living[0]


def held_end(pid: int) -> int | None:
    """Return the status with which a rank has ended whose watcher *pid* keeps the launcher from
    learning of it (``pgdb run --then hold``); None for all else."""
    stat = procfs.read_stat(pid)
    name, _, status = (stat.comm if stat is not None else "").partition(" ")
    return int(status) if name == rank_watcher.ENDED_NAME and status.isdecimal() else None


def executes(pid: int, program: str) -> bool:
    """Return whether a process executes *program*, or is an interpreter of the script *program*."""
    return os.path.basename(program) in _program_names(pid)


def _program_names(pid: int) -> set[str]:
    path = procfs.executable(pid) or ""
    names = {os.path.basename(path)}
    if _SHELL.match(os.path.basename(path)) or _INTERPRETER.match(os.path.basename(path)):
        names.add(os.path.basename(_script((procfs.command_line(pid) or [])[1:])))
    return names


def _script(words: list[str]) -> str:
    """Return the script among an interpreter's arguments; empty if there is no script file."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _TAKES_A_VALUE:
            skip = True
        elif re.match(r"-[A-Za-z]*[cm]\Z", word):
            return ""
        elif not word.startswith(("-", "+")):
            return word
    return ""


def _is_wrapper(pid: int) -> bool:
    name = os.path.basename(procfs.executable(pid) or "")
    return bool(_SHELL.match(name) or _WRAPPER.match(name))


def _is_forked(pid: int, child: int) -> bool:
    """Return whether *child* runs on in the program of *pid*, as a data loader of Python does."""
    return procfs.executable(pid) == procfs.executable(child) and (
        procfs.command_line(pid) == procfs.command_line(child)
    )


def _runs_torch(pid: int) -> bool:
    return any(map(_TORCH_LIBRARY.search, procfs.mapped_files(pid)))


def _is_wrapper_of(pid: int, child: int) -> bool:
    """Return whether *pid* looks like an unknown wrapper that has started *child*."""
    if _is_forked(pid, child) or _runs_torch(pid):
        return False
    words = " ".join((procfs.command_line(pid) or [])[1:]).split()
    if _program_names(child) & {os.path.basename(word) for word in words}:
        return True
    is_tool = (procfs.executable(child) or "/usr/").startswith(("/usr/", "/bin/", "/sbin/"))
    return not is_tool and procfs.waits_for_child(pid)


def is_mpi_program(pid: int) -> bool:
    """Return whether *pid* is no wrapper and has mapped an MPI library."""
    # A preloaded measuring library maps MPI into shells as well.
    if _is_wrapper(pid):
        return False
    identity = _identity(pid)
    if identity in _MPI_PROGRAMS:
        return True
    is_one = any(map(MPI_LIBRARY.search, procfs.mapped_files(pid)))
    # Listing the mappings of a process takes as long as all other reads here together.
    name = os.path.basename(procfs.executable(pid) or "")
    if is_one and identity is not None and not _INTERPRETER.match(name):
        _MPI_PROGRAMS.add(identity)
    return is_one


def _identity(pid: int) -> tuple[int, int, int] | None:
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns
