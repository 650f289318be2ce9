"""Hold one rank before its program starts, and never for longer than the session wants it.

Run by the job's launcher in place of the program, as ``python -I -S hold.py MARK HOST:PORT
SECONDS SHARES -- PROGRAM ARGUMENT...``. The rank is not stopped: it sleeps in sigtimedwait, so
that nobody has to continue it. It executes the program when

* the aggregator that has attached a debugger to it sends SIGUSR1, or
* its session is gone (the first rank of each host watches a connection to the front end and
  wakes the others of its host), or
* SECONDS have passed.

This file runs on the job's hosts, where nothing of PGDB may be importable: standard library
only, and as little of that as will do, since every rank pays for it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

RELEASE = signal.SIGUSR1
_LATE_S = 5.0  # how long the first rank waits for others that are not held yet, to wake them
HELD_NAME = "pgdb-held"
"""Name (/proc/PID/comm) of a process that has blocked :data:`RELEASE` and may be sent it."""

# Names of rank, size, local rank and local size, by launcher. Open MPI sets its own names beside
# the PMIX ones, hydra (MPICH, Intel) the second row, srun the third.
_IDENTITY = (
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""),
)


def collector_address(mark: str, share: int) -> str:
    """Return the abstract socket at which the aggregator of a *share* hears of held ranks."""
    return f"\0pgdb-{mark}-{share}"


def share_of(local_rank: int, local_size: int, shares: int) -> int:
    """Return which of *shares* aggregators of a host takes a rank: contiguous, even blocks."""
    return local_rank * shares // local_size if 0 <= local_rank < local_size else 0


def _identity() -> tuple[int, int, int, int]:
    for names in _IDENTITY:
        if names[0] in os.environ:
            rank, size, local_rank, local_size = (
                int(os.environ[name]) if name and os.environ.get(name, "").isdigit() else -1
                for name in names
            )
            if local_rank < 0:
                # srun with a PMI of its own names the rank as hydra does, the rest as it does.
                slurm = os.environ.get("SLURM_LOCALID", "")
                local_rank = int(slurm) if slurm.isdigit() else local_rank
            if local_size < 0:
                local_size = _slurm_local_size(size)
            return rank, size, local_rank, local_size
    return 0, 1, 0, 1


def _slurm_local_size(size: int) -> int:
    # "4", "2(x3)" or "2,1": only the form that is the same for all nodes tells ours at once.
    text = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    text = text.split("(", 1)[0]
    return int(text) if text.isdigit() else size


def _allow_tracing() -> None:
    """Let any process of this user attach where Yama would allow only ancestors."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            if file.read().strip() != "1":
                return
    except OSError:
        return
    import ctypes

    pr_set_ptracer, any_process = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_ptracer, any_process, 0, 0, 0)


def _tell_aggregator(mark: str, share: int, fields: list[str], seconds: float) -> None:
    """Say that this rank is held; an aggregator that is not there yet will find us in /proc."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as collector:
        # The kernel queues few datagrams (net.unix.max_dgram_qlen, 10 here): a busy aggregator is
        # waited for, or it would never hear of us; one that hangs only as long as we may hold.
        collector.settimeout(seconds)
        try:
            collector.sendto(os.fsencode("\0".join(fields)), collector_address(mark, share))
        except OSError:
            pass


def _tell_front_end(address: str, fields: list[str]) -> socket.socket | None:
    """Report this host, and have SIGIO sent to us when the front end goes away."""
    import fcntl

    host, _, port = address.rpartition(":")
    try:
        link = socket.create_connection((host, int(port)), timeout=10)
        link.sendall(os.fsencode("\0".join(fields)) + b"\n")
        link.settimeout(None)
        fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(link, fcntl.F_GETFL)
        fcntl.fcntl(link, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    except OSError:
        return None
    return link


def _is_closed(link: socket.socket) -> bool:
    try:
        return link.recv(64) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _wake_all_others(mark: str, count: int) -> None:
    """Release the other ranks of this host, *count* in all, as they come; soon give up."""
    deadline = time.monotonic() + _LATE_S
    woken: set[int] = set()
    while True:
        woken |= _wake_others(mark)
        if len(woken) >= count or time.monotonic() > deadline:
            return
        signal.sigtimedwait({RELEASE}, 0.1)


def _wake_others(mark: str) -> set[int]:
    """Release the other ranks that the same session holds on this host; return their pids."""
    woken = set()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/comm") as comm, open(f"/proc/{name}/cmdline", "rb") as line:
                if comm.read().strip() == HELD_NAME and mark.encode() in line.read().split(b"\0"):
                    os.kill(int(name), RELEASE)
                    woken.add(int(name))
        except OSError:
            continue
    return woken


def _wait(link: socket.socket | None, deadline: float) -> bool:
    """Wait to be let go; return whether that is because the session is gone."""
    while (left := deadline - time.monotonic()) > 0:
        if link is not None and _is_closed(link):
            return True
        received = signal.sigtimedwait({RELEASE, signal.SIGIO}, left)
        if received is None or received.si_signo == RELEASE:
            break
    return False


def _original_environment() -> dict[bytes, bytes]:
    # An interpreter in the C locale sets LC_CTYPE in its own environment (PEP 538); the kernel's
    # copy is what the launcher gave.
    with open("/proc/self/environ", "rb") as file:
        pairs = (item.partition(b"=") for item in file.read().split(b"\0") if b"=" in item)
        return {name: value for name, _, value in pairs}


def main(argv: list[str]) -> None:
    """Hold this process, then execute the program; returns only by raising SystemExit."""
    mark, address, seconds, shares, separator, *program = argv[1:]
    if separator != "--" or not program:
        raise SystemExit("pgdb hold: no program given")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {RELEASE, signal.SIGIO})
    rank, size, local_rank, local_size = _identity()
    _allow_tracing()
    with open("/proc/self/comm", "w") as comm:
        comm.write(HELD_NAME)
    numbers = [str(number) for number in (rank, size, local_rank, local_size, os.getpid())]
    fields = [mark, *numbers, os.uname().nodename, os.getcwd(), *program]
    deadline = time.monotonic() + float(seconds)
    share = share_of(local_rank, local_size, int(shares))
    _tell_aggregator(mark, share, fields, float(seconds))
    link = _tell_front_end(address, fields) if local_rank <= 0 else None
    if local_rank <= 0 and link is None:
        # Nobody is there to hold the job for.
        is_gone = True
    else:
        is_gone = _wait(link, deadline)
    if is_gone and local_rank == 0:
        _wake_all_others(mark, local_size - 1)
    # The interpreter ignores these two; what is ignored stays so across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    # A release that came twice must not be delivered to the program.
    while signal.sigtimedwait({RELEASE, signal.SIGIO}, 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    environment = _original_environment()
    try:
        os.execvpe(program[0], program, environment)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        os.write(2, f"pgdb: cannot run {program[0]}: {error.strerror}\n".encode())
        raise SystemExit(127 if missing else 126) from None


if __name__ == "__main__":
    main(sys.argv)
