"""Processes of tests: what they are, what they do, and waiting for it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from pgdb import elf
from tests.support.programs import Program

# These deadlines are for a machine on which all takes ten times as long as usual.
END_DEADLINE_S = 60.0
LEAVE_DEADLINE_S = 25.0
"""For what is to end by itself when it has lost its session. Below the grace time, 30 s if not said
otherwise: ending only then is a fault."""
EXEC_DEADLINE_S = 10.0
POLL_S = 0.02
# PyTorch's name first: its workers inherit those of a launcher of MPI.
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


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


def pids_of_run(program: Program) -> list[int]:
    """Return the processes of a program that this worker's tests have started."""
    return list(programs_with(f"PGDB_TEST_RUN={os.environ['PGDB_TEST_RUN']}", program))


def _program(pid: int) -> str:
    return f"/proc/{pid}/exe"


def ranks_with(variable: str, *programs: Program) -> dict[int, int]:
    """Return the processes of programs that have ``NAME=value``, by rank, without their forks."""
    found = {}
    processes = programs_with(variable, *programs)
    for pid, variables in processes.items():
        # One that is about to end has no variables any longer.
        if (rank := rank_of(variables)) is None:
            continue
        with suppress(FileNotFoundError):
            parent = parent_of(pid)
            if parent not in processes or not os.path.samefile(*map(_program, (pid, parent))):
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


@cache
def has_libc_symbols() -> bool:
    """Return whether GDB finds the debug information of the C library."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    library = next(line.split()[-1] for line in maps.splitlines() if line.endswith("/libc.so.6"))
    with open(library, "rb") as file:
        identity = elf.build_id_of_file(elf.reader(file.fileno()))
    return Path("/usr/lib/debug/.build-id", identity[:2], f"{identity[2:]}.debug").exists()


def is_traced(pid: int) -> bool:
    """Return whether a debugger holds the process."""
    return status(pid, "TracerPid") != "0"


def wait_progress(pid: int) -> None:
    """Wait until a process that sleeps now and then has done so some times more."""
    # Being stopped is such a switch too, but one only.
    wanted = switches_of(pid) + 10
    wait_until(lambda: switches_of(pid) >= wanted, f"process {pid} progresses")


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
            f"processes {left} progress",
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
