"""``pgdb doctor``: what on this host would keep a session from starting, and what to do about it.

Things are tried rather than looked up where that is possible: two processes are traced, two
Pythons are started by each launcher, a connection is made to our own address. A check that fails
itself is a finding like any other.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import functools
import glob
import importlib.metadata
import json
import logging
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TextIO

import pgdb
from pgdb.errors import PgdbError, StartError
from pgdb.frontend.startup.session_directory import runtime_folder, temporary_folder
from pgdb.jobs import procfs
from pgdb.jobs.gdb_program import check_gdb, find_gdb
from pgdb.jobs.launchers import Family, Launcher, find_launcher
from pgdb.jobs.placement import (
    mpi4py_environment,
    mpi_library,
    overlay_line,
    scrubbed_environment,
)
from pgdb.overlay import addresses, archive_bootstrap
from pgdb.version import __version__

LOG = logging.getLogger(__name__)

ASK_TIMEOUT_S = 20.0
"""Longest wait for a program that only has to say something of itself."""
MPI_TIMEOUT_S = 60.0
"""Longest wait for two processes that come up with MPI; Open MPI 5 takes 1-2 s when all is well."""
ROUND_TRIP_TIMEOUT_S = 5.0
MINIMUM_FILES_COUNT = 1024
MINIMUM_PROCESSES_COUNT = 256
MINIMUM_SPACE_BYTES = 64 << 20
WIDTH_COLUMNS = 80

_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
_SECCOMP_FILTER = 2  # include/uapi/linux/seccomp.h
_LAUNCHER_WORDS = ("mpirun", "mpiexec", "mpiexec.hydra")
# Open MPI 5's mpirun heeds them as well (tried: 5.0.11).
_ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
_MPI_PROGRAM = (
    "from mpi4py import MPI; w = MPI.COMM_WORLD; "
    "print('pgdb-size', w.Get_size(), flush=True) if w.Get_rank() == 0 else None"
)

Verdict = Literal["ok", "warning", "problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found."""

    topic: str
    verdict: Verdict
    """``problem``: sessions will not start; ``warning``: some will not, or not as well."""
    told: str
    remedy: str = ""
    """What the user can do; empty if nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Host:
    """What is examined; tests put trees of their own in the place of the kernel's."""

    gdb: str = "gdb"
    proc: Path = procfs.PROC
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def search_path(self) -> str:
        """Where programs are looked for."""
        return self.environment.get("PATH", os.defpath)


def run_doctor(*, as_json: bool, gdb: str, out: TextIO) -> int:
    """Examine this host and write each finding to *out* as it is made; return the exit status."""
    findings = []
    for finding in examine(Host(gdb=gdb)):
        findings.append(finding)
        out.write(json.dumps(asdict(finding)) if as_json else _lines(finding))
        out.write("\n")
        out.flush()
    if not as_json:
        out.write(_summary(findings) + "\n")
    return int(_count(findings, "problem") > 0)


def report(findings: Iterable[Finding]) -> str:
    """Return findings as text for a screen, summed up in the last line."""
    listed = list(findings)
    return "\n".join([*map(_lines, listed), _summary(listed)]) + "\n"


def _lines(finding: Finding) -> str:
    wrap = functools.partial(
        textwrap.fill, width=WIDTH_COLUMNS, break_long_words=False, break_on_hyphens=False
    )
    first = f"{finding.verdict:<8} {finding.topic}: {finding.told}"
    lines = [wrap(first, subsequent_indent=" " * 9)]
    if finding.remedy:
        lines.append(
            wrap(finding.remedy, initial_indent=" " * 9 + "-> ", subsequent_indent=" " * 12)
        )
    return "\n".join(lines)


def _summary(findings: Sequence[Finding]) -> str:
    problems, warnings = _count(findings, "problem"), _count(findings, "warning")
    return (
        f"{problems or 'no'} problem{'' if problems == 1 else 's'}, "
        f"{warnings or 'no'} warning{'' if warnings == 1 else 's'}"
    )


def _count(findings: Sequence[Finding], verdict: Verdict) -> int:
    return sum(finding.verdict == verdict for finding in findings)


def examine(host: Host) -> Iterator[Finding]:
    """Examine this host, one thing after the other; ends within some seconds a launcher."""
    for check in CHECKS:
        try:
            yield from check(host)
        except PgdbError as error:
            yield Finding(_topic(check), "warning", str(error))
        except Exception as error:
            # A host so odd that a check breaks is what this command is for.
            LOG.debug("the check %s failed", check.__name__, exc_info=True)
            told = f"cannot be examined: {type(error).__name__}: {error}"
            yield Finding(_topic(check), "warning", told)


def _topic(check: Callable[[Host], Iterator[Finding]]) -> str:
    return check.__name__.removeprefix("_check_").replace("_", " ")


# -- our own side ------------------------------------------------------------------------------


def _check_python(host: Host) -> Iterator[Finding]:
    del host
    version = ".".join(str(part) for part in sys.version_info[:3])
    where = Path(pgdb.__path__[0]).parent
    yield Finding("Python", "ok", f"{version} ({sys.executable}), PGDB {__version__} in {where}")
    owners = importlib.metadata.packages_distributions().get("pgdb", [])
    if others := sorted({owner for owner in owners if owner != "pgdb-mpi"}):
        yield Finding(
            "Python",
            "warning",
            f"the distribution {others[0]} has a package named pgdb as well",
            f"give PGDB an environment of its own, or {sys.executable} -m pip uninstall "
            f"{others[0]} and install pgdb-mpi again",
        )
    try:
        required = importlib.metadata.requires("pgdb-mpi") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", "note", "pgdb-mpi runs from a folder and is not installed")
        return
    faults = [fault for each in required if "extra ==" not in each if (fault := _lacks(each))]
    if faults:
        way_out = f"{sys.executable} -m pip install --upgrade pgdb-mpi"
        yield Finding("packages", "problem", "; ".join(faults), way_out)
    else:
        yield Finding("packages", "ok", f"all {_names(required)} are there")


def _names(requirements: Iterable[str]) -> str:
    names = [re.split(r"[^\w.-]", each)[0] for each in requirements if "extra ==" not in each]
    return ", ".join(names)


def _lacks(requirement: str) -> str:
    """Return what is wrong with an installed requirement such as ``msgspec>=0.18.6``."""
    name = re.split(r"[^\w.-]", requirement)[0]
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"{name} is not installed"
    wanted = re.search(r">=([\d.]+)", requirement)
    if wanted and _numbers(version) < _numbers(wanted[1]):
        return f"{name} is {version}, at least {wanted[1]} is needed"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _check_gdb(host: Host) -> Iterator[Finding]:
    try:
        version = check_gdb(host.gdb)
    except StartError as error:
        told, _, remedy = str(error).partition("; ")
        yield Finding("GDB", "problem", told, remedy)
        return
    path = find_gdb(host.gdb) or host.gdb
    status, said = _ask(path, "-nx", "-q", "-batch", "-ex", "python print(6 * 7)")
    if status == 0 and said.strip() == "42":
        yield Finding("GDB", "ok", f"{version} with Python ({path})")
    else:
        yield Finding(
            "GDB",
            "warning",
            f"{version} ({path}) has no Python, and so no pretty printers for C++",
            "install the full gdb package rather than gdb-minimal, or name another GDB with --gdb",
        )


# -- what the kernel allows --------------------------------------------------------------------


def _check_tracing(host: Host) -> Iterator[Finding]:
    tried = _try_tracing_apart()
    why, remedy = _what_governs_tracing(host.proc, refused=bool(tried["launched"]))
    if not tried["launched"] and not tried["running"]:
        yield Finding("tracing", "ok", f"works, for pgdb launch and pgdb attach ({why})")
    elif not tried["launched"]:
        told = f"works for pgdb launch; pgdb attach cannot trace a job that is running: {why}"
        yield Finding("tracing", "warning", told, remedy)
    else:
        name = errno.errorcode.get(tried["launched"], str(tried["launched"]))
        told = f"no process can be traced, not even one that allows it ({name}): {why}"
        yield Finding("tracing", "problem", told, remedy)
    if not tried["running"] and tried["memory"]:
        name = errno.errorcode.get(tried["memory"], str(tried["memory"]))
        yield Finding(
            "memory",
            "warning",
            f"/proc/PID/mem cannot be read ({name}): ranks are then found by their environment "
            "alone, and breakpoints left by a GDB that was killed are not mended",
            "run pgdb outside of the sandbox, or allow it CAP_SYS_PTRACE",
        )


def _what_governs_tracing(proc: Path, *, refused: bool) -> tuple[str, str]:
    """Return what decides about tracing here, and how to get more of it.

    *refused* says that even a process that allows it cannot be traced, which neither Yama's scope 1
    nor a lack of the capability explains.
    """
    status = _fields(proc / "self" / "status")
    has_capability = bool(int(status.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1)
    is_filtered = int(status.get("Seccomp", "0")) == _SECCOMP_FILTER
    scope = procfs.yama_scope(proc)
    lift = "sudo sysctl kernel.yama.ptrace_scope=0 on every host of the job"
    if scope >= 3:
        return (
            f"kernel.yama.ptrace_scope is {scope}, which forbids all tracing until the next boot",
            "set another value in /etc/sysctl.d and boot, or use another host",
        )
    if is_filtered and refused and (has_capability or scope < 2):
        return (
            "a seccomp filter is on, as in containers",
            "start the container with --cap-add=SYS_PTRACE "
            "(old Docker also: --security-opt seccomp=unconfined)",
        )
    if has_capability:
        return "we have CAP_SYS_PTRACE", "ask whoever set up this host or container"
    if scope == 2:
        return (
            "kernel.yama.ptrace_scope is 2, so only CAP_SYS_PTRACE may trace",
            f"{lift}, or run pgdb as root",
        )
    if scope == 1:
        return (
            "kernel.yama.ptrace_scope is 1, so a process may trace its descendants only",
            f"{lift}, or start the job with pgdb launch",
        )
    return "kernel.yama.ptrace_scope is 0 or absent", "ask whoever set up this host or container"


def _fields(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _try_tracing_apart() -> dict[str, int]:
    """Run :mod:`pgdb.frontend.startup.ptrace_trial` in a process of its own, for it forks."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    status, said = _ask(
        sys.executable, "-P", "-m", "pgdb.frontend.startup.ptrace_trial", environment=environment
    )
    if status:
        raise StartError(f"the trial of tracing ended with {status}: {_last(said)}")
    found: dict[str, int] = json.loads(said.splitlines()[-1])
    return found


def _check_proc(host: Host) -> Iterator[Finding]:
    """See whether /proc hides processes (proc(5): hidepid)."""
    found = ""
    for line in (host.proc / "self" / "mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4] == "/proc" and after.startswith("proc "):
            match = re.search(r"hidepid=(\w+)", line)
            found = match[1] if match else ""
    if found in ("", "0", "off"):
        yield Finding("/proc", "ok", "shows all processes")
    elif found in ("4", "ptraceable"):
        yield Finding(
            "/proc",
            "warning",
            f"shows only what may be traced (hidepid={found}): jobs that run are not found",
            "start the job with pgdb launch, or have /proc mounted with hidepid=2",
        )
    else:
        yield Finding(
            "/proc", "note", f"hides other users' processes (hidepid={found}); yours are seen"
        )


def _check_limits(host: Host) -> Iterator[Finding]:
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    can_be_raised = most_files == resource.RLIM_INFINITY or most_files >= MINIMUM_FILES_COUNT
    if files != resource.RLIM_INFINITY and files < MINIMUM_FILES_COUNT:
        yield Finding(
            "limits",
            "warning",
            f"{files} open files, and every rank of a host takes several",
            f"ulimit -n {MINIMUM_FILES_COUNT}"
            if can_be_raised
            else "have the hard limit raised (nofile in /etc/security/limits.conf)",
        )
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    used = sum(_threads(host.proc))
    is_bound = os.geteuid() != 0 and processes != resource.RLIM_INFINITY
    if is_bound and processes - used < MINIMUM_PROCESSES_COUNT:
        yield Finding(
            "limits",
            "warning",
            f"{processes} processes and threads, of which you have {used}; every rank takes "
            "those of a GDB beside its own",
            "end what you do not need, or raise it (ulimit -u; nproc in /etc/security/limits.conf)",
        )
    words = ["unlimited" if n == resource.RLIM_INFINITY else str(n) for n in (files, processes)]
    yield Finding("limits", "note", f"{words[0]} open files, {words[1]} processes")


def _threads(proc: Path) -> Iterator[int]:
    """Yield the number of threads of each process of ours."""
    for pid in procfs.all_pids(proc):
        with contextlib.suppress(OSError):
            status = _fields(proc / str(pid) / "status")
            if status.get("Uid", "-1").split()[0] == str(os.getuid()):
                yield int(status.get("Threads", "1"))


# -- launchers ---------------------------------------------------------------------------------


def _check_launchers(host: Host) -> Iterator[Finding]:
    found: dict[tuple[Path, str], Launcher] = {}
    for word in _launcher_words(host.search_path):
        try:
            launcher = find_launcher(word)
        except StartError as error:
            # MPICH has an mpiexec.gforker, others other things, that no one may ever use.
            if word in _LAUNCHER_WORDS:
                told, _, remedy = str(error).partition("; ")
                yield Finding("launcher", "warning", told, remedy)
            continue
        found.setdefault((launcher.path.resolve().parent, launcher.version), launcher)
    if not found and shutil.which("srun", path=host.search_path) is None:
        yield Finding(
            "launcher",
            "problem",
            "there is no mpirun, mpiexec or srun in PATH",
            "load the MPI module of this site, install an MPI, or pip install "
            "'pgdb-mpi[embedded]' (MPICH)",
        )
    for launcher in found.values():
        yield from _check_launcher(launcher, host.environment)


def _launcher_words(search_path: str) -> list[str]:
    """Return the launchers in PATH: their names, and the paths of those that have a suffix."""
    words = [word for word in _LAUNCHER_WORDS if shutil.which(word, path=search_path)]
    for directory in search_path.split(os.pathsep):
        for name in ("mpirun", "mpiexec"):
            words += sorted(glob.glob(f"{glob.escape(directory or '.')}/{name}.*"))
    by_file: dict[str, str] = {}
    for word in words:
        path = shutil.which(word, path=search_path)
        if path is not None and not path.endswith((".sh", ".py", ".bat")):
            by_file.setdefault(os.path.realpath(path), word)
    return list(by_file.values())


def _check_launcher(launcher: Launcher, environment: Mapping[str, str]) -> Iterator[Finding]:
    topic, where = launcher.version, str(launcher.path)
    library = mpi_library(launcher)
    if library is not None:
        where += f", library {library}"
    if fault := _try_mpi(launcher, environment):
        yield Finding(
            topic,
            "warning",
            f"{where}; mpi4py does not come up with it: {fault}",
            "PGDB then goes without MPI by itself, some seconds later; "
            "--wire-up direct spares it the attempt",
        )
    else:
        yield Finding(topic, "ok", f"{where}; mpi4py comes up with it (size 2)")
    asks_root = launcher.family in (Family.OPEN_MPI_4, Family.OPEN_MPI_5) and os.geteuid() == 0
    if asks_root and any(environment.get(name) != "1" for name in _ROOT_VARIABLES):
        yield Finding(
            topic,
            "warning",
            "you are root, and it will not start a job for root",
            f"export {' '.join(f'{name}=1' for name in _ROOT_VARIABLES)}, or be another user",
        )
    if launcher.family is Family.OPEN_MPI_5:
        yield _about_pmix(topic, launcher)


def _about_pmix(topic: str, launcher: Launcher) -> Finding:
    """Say how the ranks of Open MPI 5, which has no table for debuggers, are found."""
    prefix = launcher.path.resolve().parent.parent
    beside = (found for name in ("lib", "lib64") for found in prefix.glob(f"{name}/**/libpmix.so*"))
    library = next((str(path) for path in beside), ctypes.util.find_library("pmix"))
    if library is None:
        told = "without libpmix its jobs are found by a scan of /proc on their hosts"
        return Finding(topic, "warning", told, "install the PMIx library (Debian: libpmix2)")
    return Finding(topic, "note", f"its jobs are found through PMIx ({library})")


def _try_mpi(launcher: Launcher, environment: Mapping[str, str]) -> str:
    """Start two processes of mpi4py as aggregators are started; return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="pgdb-doctor-") as directory:
        ours = scrubbed_environment(environment) | mpi4py_environment(launcher, Path(directory))
        ours |= dict.fromkeys(_ROOT_VARIABLES, "1")
        line = overlay_line(launcher, 2, [sys.executable, "-P", "-c", _MPI_PROGRAM])
        status, said = _ask(*line, environment=ours, timeout_s=MPI_TIMEOUT_S)
    sizes = re.findall(r"pgdb-size (\d+)", said)
    if status == 0 and sizes == ["2"]:
        return ""
    if sizes:
        return f"instead of one job of 2 there are {len(sizes)} of {sizes[0]}"
    return _last(said) or f"exit status {status}"


def _check_slurm(host: Host) -> Iterator[Finding]:
    if shutil.which("sinfo", path=host.search_path) is None:
        yield Finding("Slurm", "note", "not here")
        return
    status, said = _ask("sinfo", "--noheader", "--format=%D %T")
    if status:
        yield Finding(
            "Slurm",
            "warning",
            f"sinfo has no answer: {_last(said)}",
            "is SLURM_CONF right, and slurmctld up? Jobs of other launchers do not need it",
        )
        return
    _, version = _ask("sinfo", "--version")
    nodes = ", ".join(line.strip() for line in said.splitlines()) or "none"
    _, help_text = _ask("srun", "--help")
    if "--overlap" in help_text:
        yield Finding("Slurm", "ok", f"{version.strip()}; nodes: {nodes}")
    else:
        yield Finding(
            "Slurm",
            "warning",
            f"{version.strip()} has no srun --overlap, without which no aggregator starts beside "
            "a job's step",
            "start the job with mpirun inside of the allocation",
        )


# -- the network and the disk ------------------------------------------------------------------


def _check_ssh(host: Host) -> Iterator[Finding]:
    path = shutil.which("ssh", path=host.search_path)
    if path is not None:
        status, said = _ask(path, "-V")
        verdict: Verdict = "warning" if status else "ok"
        yield Finding("ssh", verdict, f"{_last(said)} ({path})")
    else:
        yield Finding(
            "ssh",
            "warning",
            "there is no ssh in PATH: --host, and most launchers on several hosts, need it",
            "install openssh-client",
        )


def _check_network(host: Host) -> Iterator[Finding]:
    del host
    name = os.uname().nodename
    address = addresses.resolve(name)
    own = addresses.address_towards(())
    if address is None:
        yield Finding(
            "host name",
            "warning",
            f"{name!r} has no address here; launchers may not start on several hosts",
            f"add a line '{own} {name}' to /etc/hosts",
        )
    elif address.startswith("127.") and not own.startswith("127."):
        yield Finding(
            "host name",
            "note",
            f"{name} is {address} here, which others cannot reach; PGDB tells them {own} "
            "(--listen tells them another)",
        )
    else:
        yield Finding("host name", "ok", f"{name} is {address}")
    if fault := _try_connection(own):
        yield Finding(
            "network",
            "problem",
            f"we cannot connect to our own address {own}: {fault}",
            "name another with --listen, or have the firewall let this host's own through",
        )
    else:
        others = ", ".join(addresses.own_addresses())
        yield Finding("network", "ok", f"connects at {own} (addresses: {others})")


def _try_connection(address: str) -> str:
    """Listen at an address of ours and connect to it; return what went wrong."""
    try:
        with socket.create_server((address, 0)) as server:
            server.settimeout(ROUND_TRIP_TIMEOUT_S)
            where = server.getsockname()
            with socket.create_connection(where, timeout=ROUND_TRIP_TIMEOUT_S) as there:
                here, _ = server.accept()
                with here:
                    there.sendall(b"pgdb")
                    here.settimeout(ROUND_TRIP_TIMEOUT_S)
                    return "" if here.recv(4) == b"pgdb" else "nothing comes through"
    except OSError as error:
        return str(error)


def _check_disk(host: Host) -> Iterator[Finding]:
    places = {}
    try:
        places["session files"] = runtime_folder(host.environment) or temporary_folder()
    except OSError as error:
        told = f"{error.filename}: {error.strerror}"
        yield Finding("session files", "problem", told, "set TMPDIR to a directory of your own")
    try:
        places["cache"] = archive_bootstrap.cache_directory()
    except OSError as error:
        yield Finding("cache", "warning", *str(error).partition("; ")[::2])
    for name, place in places.items():
        try:
            with tempfile.TemporaryFile(dir=place):
                free_bytes = shutil.disk_usage(place).free
        except OSError as error:
            told = f"{place} cannot be written to: {error.strerror}"
            yield Finding(name, "problem", told, "set TMPDIR to a directory of your own")
            continue
        told = f"{place}, {free_bytes >> 20} MiB free"
        if free_bytes < MINIMUM_SPACE_BYTES:
            remedy = "make room there, or set TMPDIR (XDG_CACHE_HOME for the cache)"
            yield Finding(name, "warning", told, remedy)
        else:
            yield Finding(name, "ok", told)


CHECKS: tuple[Callable[[Host], Iterator[Finding]], ...] = (
    _check_python,
    _check_gdb,
    _check_tracing,
    _check_proc,
    _check_limits,
    _check_launchers,
    _check_slurm,
    _check_ssh,
    _check_network,
    _check_disk,
)


# -- other programs ----------------------------------------------------------------------------


def _ask(
    *line: str, environment: Mapping[str, str] | None = None, timeout_s: float = ASK_TIMEOUT_S
) -> tuple[int, str]:
    """Run a program to its end; return its status and all that it has said."""
    # Into a file: what a launcher leaves behind may hold a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return 127, f"{line[0]}: {error.strerror}"
        late = ""
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = f"\nno end within {timeout_s:g} s"
            status = _end(process)
        output.seek(0)
        return status, output.read().decode("utf-8", "replace") + late


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a launcher, which ends its ranks if it is asked to; then its whole session."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(5.0) or 1
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait() or 1


def _last(said: str) -> str:
    """Return the last line that says something, cut to a length for people."""
    lines = [line.strip() for line in said.splitlines() if re.search(r"\w", line)]
    return lines[-1][:200] if lines else ""
