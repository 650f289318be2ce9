"""Checks of our own installation, the kernel, the network and the disk."""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import json
import os
import re
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pgdb
from pgdb.errors import StartError
from pgdb.frontend.startup.doctor_findings import Finding, Host, Verdict, ask, ask_apart, last_line
from pgdb.frontend.startup.session_directory import runtime_folder, temporary_folder
from pgdb.jobs import procfs
from pgdb.jobs.gdb_program import check_gdb as version_of_gdb
from pgdb.jobs.gdb_program import find_gdb
from pgdb.jobs.tracing_rights import yama_scope
from pgdb.overlay import addresses, archive_bootstrap
from pgdb.sizes import size_text
from pgdb.version import __version__

ROUND_TRIP_TIMEOUT_S = 5.0
MINIMUM_FILES_COUNT = 1024
_GDB_OF_LARGE_REGISTERS = (14, 1)
MINIMUM_PROCESSES_COUNT = 256
MINIMUM_SPACE_BYTES = 64 << 20
_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h
_SECCOMP_FILTER = 2  # include/uapi/linux/seccomp.h

# -- our own side ------------------------------------------------------------------------------


def check_python(host: Host) -> Iterator[Finding]:
    """Check the interpreter, and the packages that PGDB requires."""
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
    """Return what an installed requirement such as ``msgspec>=0.18.6`` lacks, empty if nothing."""
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


def check_gdb(host: Host) -> Iterator[Finding]:
    """Check the version of GDB, and whether it has Python."""
    try:
        version = version_of_gdb(host.gdb)
    except StartError as error:
        message, _, remedy = str(error).partition("; ")
        yield Finding("GDB", "problem", message, remedy)
        return
    path = find_gdb(host.gdb) or host.gdb
    status, said = ask(path, "-nx", "-q", "-batch", "-ex", "python print(6 * 7)")
    if status == 0 and said.strip() == "42":
        yield Finding("GDB", "ok", f"{version} with Python ({path})")
    else:
        yield Finding(
            "GDB",
            "warning",
            f"{version} ({path}) has no Python, and so no pretty printers for C++",
            "install the full gdb package rather than gdb-minimal, or name another GDB with --gdb",
        )
    if tuple(map(int, version.split("."))) < _GDB_OF_LARGE_REGISTERS and _has_amx(host):
        yield Finding(
            "GDB",
            "warning",
            f"{version} cannot write vector registers on this processor: it can call no function "
            "of a program, and a rank whose call is interrupted stays inside it",
            "use GDB 14 or newer: --gdb PATH, or pip install 'pgdb-mpi[embedded]'",
        )


def _has_amx(host: Host) -> bool:
    """Return whether the kernel's register sets are larger than older GDBs know."""
    try:
        return " amx_tile " in (host.proc / "cpuinfo").read_text()
    except OSError:
        return False


# -- what the kernel allows --------------------------------------------------------------------


def check_tracing(host: Host) -> Iterator[Finding]:
    """Check whether processes can be traced, and their memory be read."""
    tried = _try_tracing_apart()
    why, remedy = _what_governs_tracing(host.proc, refused=bool(tried["launched"]))
    if not tried["launched"] and not tried["running"]:
        yield Finding("tracing", "ok", f"works, for pgdb launch and pgdb attach ({why})")
    elif not tried["launched"]:
        message = f"works for pgdb launch; pgdb attach cannot trace a job that is running: {why}"
        yield Finding("tracing", "warning", message, remedy)
    else:
        name = errno.errorcode.get(tried["launched"], str(tried["launched"]))
        message = f"no process can be traced, not even one that allows it ({name}): {why}"
        yield Finding("tracing", "problem", message, remedy)
    if not tried["running"] and tried["memory"]:
        name = errno.errorcode.get(tried["memory"], str(tried["memory"]))
        yield Finding(
            "memory",
            "warning",
            f"/proc/PID/mem cannot be read ({name}): ranks are then found by their environment "
            "alone, and breakpoints that a killed GDB leaves cannot be removed",
            "run pgdb outside of the sandbox, or allow it CAP_SYS_PTRACE",
        )


def _what_governs_tracing(proc: Path, *, refused: bool) -> tuple[str, str]:
    """Return the kernel's rule for tracing here, and how to get more of it.

    *refused* means that even a process that allows it cannot be traced, which neither Yama's scope
    1 nor a lack of the capability explains.
    """
    status = _fields(proc / "self" / "status")
    has_capability = bool(int(status.get("CapEff", "0"), 16) >> _CAP_SYS_PTRACE & 1)
    is_filtered = int(status.get("Seccomp", "0")) == _SECCOMP_FILTER
    scope = yama_scope(proc)
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
    """Run :mod:`pgdb.frontend.startup.ptrace_trial` in a process of its own, since it forks."""
    found: dict[str, int] = json.loads(ask_apart("tracing", "pgdb.frontend.startup.ptrace_trial"))
    return found


def check_proc(host: Host) -> Iterator[Finding]:
    """Check whether /proc hides processes (proc(5): hidepid)."""
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


def check_limits(host: Host) -> Iterator[Finding]:
    """Check the limits of open files and processes."""
    # Aggregators raise their soft limit by themselves.
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < MINIMUM_FILES_COUNT:
        yield Finding(
            "limits",
            "warning",
            f"{files} open files, and every rank of a host takes several",
            "have the hard limit raised (nofile in /etc/security/limits.conf)",
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
    """Yield the number of threads of each process of our user."""
    for pid in procfs.all_pids(proc):
        with contextlib.suppress(OSError):
            status = _fields(proc / str(pid) / "status")
            if status.get("Uid", "-1").split()[0] == str(os.getuid()):
                yield int(status.get("Threads", "1"))


# -- the network and the disk ------------------------------------------------------------------


def check_ssh(host: Host) -> Iterator[Finding]:
    """Check whether there is an ssh."""
    path = shutil.which("ssh", path=host.search_path)
    if path is not None:
        status, said = ask(path, "-V")
        verdict: Verdict = "warning" if status else "ok"
        yield Finding("ssh", verdict, f"{last_line(said)} ({path})")
    else:
        yield Finding(
            "ssh",
            "warning",
            "there is no ssh in PATH: --host, and most launchers on several hosts, need it",
            "install openssh-client",
        )


def check_network(host: Host) -> Iterator[Finding]:
    """Check this host's name and address, and connect to the address."""
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
            f"{name} is {address} here, which others cannot reach; PGDB gives them {own} "
            "(--listen names another)",
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
    """Listen at an address of ours and connect to it; return the failure, if any."""
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


def check_disk(host: Host) -> Iterator[Finding]:
    """Check the places of the session's files and of the cache."""
    places = {}
    try:
        places["session files"] = runtime_folder(host.environment) or temporary_folder()
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        yield Finding("session files", "problem", message, "set TMPDIR to a directory of your own")
    try:
        places["cache"] = archive_bootstrap.cache_directory()
    except OSError as error:
        yield Finding("cache", "warning", *str(error).partition("; ")[::2])
    for name, place in places.items():
        try:
            with tempfile.TemporaryFile(dir=place):
                free_bytes = shutil.disk_usage(place).free
        except OSError as error:
            message = f"{place} cannot be written to: {error.strerror}"
            yield Finding(name, "problem", message, "set TMPDIR to a directory of your own")
            continue
        message = f"{place}, {size_text(free_bytes)} free"
        if free_bytes < MINIMUM_SPACE_BYTES:
            remedy = "make room there, or set TMPDIR (XDG_CACHE_HOME for the cache)"
            yield Finding(name, "warning", message, remedy)
        else:
            yield Finding(name, "ok", message)
