"""Hold one rank before its program starts, and never for longer than the session wants it.

Run by the job's launcher in place of the program, as ``python -I -S hold.py MARK
HOST:PORT[,HOST:PORT...] SECONDS SHARES -- PROGRAM ARGUMENT...``. Each rank tells its aggregator in
a datagram mark, rank, size, local rank, local size, process id, host, the host's name in Slurm,
Slurm's job, working directory, program and arguments, with NUL between. The first rank of each host
makes a :func:`report` to the front end, at the first address that it can reach.

The rank is not stopped: it sleeps in sigtimedwait, so that nobody has to continue it. It executes
the program when

* the aggregator that has attached a debugger to it sends SIGWINCH, or
* its session is gone (the first rank of each host watches a connection to the front end and
  wakes the others of its host), or
* SECONDS have passed.

This file runs on the job's hosts, where nothing of PGDB may be importable: standard library
only, and as little of that as will do, since every rank pays for it.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence

RELEASE = signal.SIGWINCH
"""What lets a held rank go. It does nothing by default, for a rank can execute its program between
the look at its name and kill(2); and GDB passes it on without stopping at it."""
_CONNECT_S = 3.0  # for each of the front end's addresses
_LOOKED_AT_BYTES = 1 << 16  # of a command line: anybody's process can say that it has gigabytes
_LATE_S = 5.0  # how long the first rank waits for others that are not held yet, to wake them
HELD_NAME = "pgdb-held"
"""Name (/proc/PID/comm) of a process that has blocked :data:`RELEASE` and may be sent it."""
LEAVING_NAME = "pgdb-leaving"
"""Name of one that is about to execute its program, and must not be sent it any longer."""

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


def collector_address(mark: str, share: int, node: str = "") -> str:
    """Return the abstract socket at which the aggregator of a *share* hears of held ranks.

    *node* is Slurm's name of the host, if it has one: several nodes can be on one machine.
    """
    return f"\0pgdb-{mark}-{share}-{node}"


def report(mark: str, fields: Sequence[str], nonce: str = "") -> bytes:
    """Return what a rank tells the front end of *fields*: rank up to Slurm's job, and its program.

    The length in bytes and a newline, a code of authentication, and what it vouches for, with NUL
    between. The mark is its key: it stays off the network, where who reads along could make further
    reports with it. The *nonce* (default: a new one) lets no report be sent twice.
    """
    told = os.fsencode("\0".join((nonce or os.urandom(16).hex(), *fields)))
    whole = authentication(mark, told) + b"\0" + told
    return b"%d\n" % len(whole) + whole


def authentication(mark: str, told: bytes) -> bytes:
    """Return the code, in 64 hexadecimal digits, that only who knows *mark* can make of *told*."""
    import hashlib  # the other ranks of a host have no use for it

    keyed = hashlib.blake2b(told, key=mark.encode("ascii"), digest_size=32)
    return keyed.hexdigest().encode("ascii")


def share_of(local_rank: int, local_size: int, shares: int) -> int:
    """Return which of *shares* aggregators of a host takes a rank: contiguous, even blocks."""
    return local_rank * shares // local_size if 0 <= local_rank < local_size else 0


def identity(environment: Mapping[str, str]) -> tuple[int, int, int, int]:
    """Return rank, size, local rank and local size, as a launcher's variables name them.

    What they do not tell is -1, a local size that they do not tell that of the job. Without any
    of them it is a job of one rank.
    """
    for names in _IDENTITY:
        if names[0] in environment:
            rank, size, local_rank, local_size = (_number(environment, name) for name in names)
            if local_rank < 0:
                # srun with a PMI of its own names the rank as hydra does, the rest as it does.
                local_rank = _number(environment, "SLURM_LOCALID")
            if local_size < 0:
                local_size = slurm_local_size(environment)
            return rank, size, local_rank, local_size if local_size > 0 else size
    return 0, 1, 0, 1


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdigit() else -1


def slurm_local_size(environment: Mapping[str, str]) -> int:
    """Return how many ranks of its step a rank under srun has on its node, -1 if it is not told.

    Slurm lists the counts in the order of the step's nodes, in which SLURM_NODEID numbers them;
    both are of the step, whichever of the job's nodes it has, and of all its components
    (Slurm 22.05).

    >>> slurm_local_size({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "3"})
    1
    """
    try:
        node = int(environment["SLURM_NODEID"])
        for item in environment["SLURM_STEP_TASKS_PER_NODE"].split(","):
            count, _, times = item.partition("(x")
            node -= int(times.removesuffix(")") or 1)
            if node < 0:
                return int(count)
    except (KeyError, ValueError):
        pass
    return -1


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
    # A rank that came to its node in another way than Slurm's does not know its name for it.
    for node in dict.fromkeys((os.environ.get("SLURMD_NODENAME", ""), "")):
        if _send(collector_address(mark, share, node), fields, seconds):
            return


def _send(address: str, fields: list[str], seconds: float) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as collector:
        # The kernel queues few datagrams (net.unix.max_dgram_qlen, 10 here): a busy aggregator is
        # waited for, or it would never hear of us; one that hangs only as long as we may hold.
        collector.settimeout(seconds)
        try:
            collector.sendto(os.fsencode("\0".join(fields)), address)
        except OSError:
            return False
    return True


def _tell_front_end(addresses: list[str], told: bytes) -> socket.socket | None:
    """Report this host, and have SIGIO sent to us when the front end goes away."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            link = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S)
            link.sendall(told)
            _signal_end_of(link)
        except (OSError, ValueError):
            continue
        return link
    return None


def _signal_end_of(link: socket.socket) -> None:
    import fcntl

    link.settimeout(None)
    fcntl.fcntl(link, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(link, fcntl.F_GETFL)
    fcntl.fcntl(link, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)


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
    own_host = os.stat("/proc/self/ns/uts").st_ino
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            # Hosts can be containers that share their process ids.
            if os.stat(f"/proc/{name}/ns/uts").st_ino != own_host:
                continue
            with open(f"/proc/{name}/comm") as comm, open(f"/proc/{name}/cmdline", "rb") as line:
                words = line.read(_LOOKED_AT_BYTES).split(b"\0")
                if comm.read().strip() == HELD_NAME and mark.encode() in words:
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
        # A terminal (srun --pty) whose size changes sends it too; that has the kernel's code, not
        # SI_USER.
        if received is not None and received.si_signo == RELEASE and received.si_code <= 0:
            break
    return False


def _original_environment() -> dict[bytes, bytes]:
    # An interpreter in the C locale sets LC_CTYPE in its own environment (PEP 538); the kernel's
    # copy is what the launcher gave.
    with open("/proc/self/environ", "rb") as file:
        pairs = (item.partition(b"=") for item in file.read().split(b"\0") if b"=" in item)
        return {name: value for name, _, value in pairs}


def _ignored_by_parent() -> set[int]:
    """Return the signals that the launcher's daemon ignores, as far as that can be told.

    The interpreter ignores SIGPIPE and SIGXFSZ when it starts, whatever was before. What it was
    can be seen in our parent: no launcher changes the two between fork and exec otherwise than
    exec itself does (Open MPI 4.1 and 5, MPICH 4 and 5, Slurm 22.05). A parent in Python is the
    exception, which ignores both and has its children not ignore them.
    """
    parent = os.getppid()
    try:
        if os.path.basename(os.readlink(f"/proc/{parent}/exe")).startswith("python"):
            return set()
    except OSError:
        pass  # another user's, as Slurm's is
    try:
        with open(f"/proc/{parent}/status") as status:
            mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
    except (OSError, StopIteration):
        return set()
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


def _execute(program: list[str]) -> None:
    """Execute the program as the launcher would have done."""
    environment = _original_environment()
    paths = [program[0]]
    if "/" not in program[0]:
        paths = [os.path.join(each, program[0]) for each in os.get_exec_path()]
    failed: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in paths:
        try:
            os.execve(path, program, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failed = error
        except OSError as error:
            failed = error
            break
    if failed.errno == errno.ENOEXEC and "MPI_LOCALRANKID" in os.environ:
        # A file that is no program and names no interpreter: hydra's execvp(3) has the shell read
        # it; Open MPI and Slurm execve(2) the program, and fail.
        os.execve("/bin/sh", ["/bin/sh", path, *program[1:]], environment)
    os.write(2, f"pgdb: cannot run {program[0]}: {failed.strerror}\n".encode())
    raise SystemExit(127 if isinstance(failed, FileNotFoundError) else 126)


def main(argv: list[str]) -> None:
    """Hold this process, then execute the program; returns only by raising SystemExit."""
    mark, addresses, seconds, shares, separator, *program = argv[1:]
    if separator != "--" or not program:
        raise SystemExit("pgdb hold: no program given")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {RELEASE, signal.SIGIO})
    rank, size, local_rank, local_size = identity(os.environ)
    _allow_tracing()
    with open("/proc/self/comm", "w") as comm:
        comm.write(HELD_NAME)
    numbers = [str(number) for number in (rank, size, local_rank, local_size, os.getpid())]
    host, alias = os.uname().nodename, os.environ.get("SLURMD_NODENAME", "")
    slurm_job = os.environ.get("SLURM_JOB_ID", "")
    fields = [mark, *numbers, host, alias, slurm_job, os.getcwd(), *program]
    deadline = time.monotonic() + float(seconds)
    share = share_of(local_rank, local_size, int(shares))
    _tell_aggregator(mark, share, fields, float(seconds))
    link = None
    if local_rank <= 0:
        told = report(mark, [*numbers, host, alias, slurm_job, program[0]])
        link = _tell_front_end(addresses.split(","), told)
    if local_rank <= 0 and link is None:
        # Nobody is there to hold the job for.
        os.write(
            2,
            f"pgdb: rank {rank} on {host} cannot reach the front end at "
            f"{addresses.replace(',', ', ')}; the ranks of this host run on undebugged; "
            "--listen ADDRESS names an address that they can reach\n".encode(),
        )
        is_gone = True
    else:
        is_gone = _wait(link, deadline)
    if is_gone and local_rank == 0:
        _wake_all_others(mark, local_size - 1)
    ignored = _ignored_by_parent()
    for each in (signal.SIGPIPE, signal.SIGXFSZ):
        if each not in ignored:
            signal.signal(each, signal.SIG_DFL)
    # From here on nobody may send a release; one that came twice must not reach the program.
    with open("/proc/self/comm", "w") as comm:
        comm.write(LEAVING_NAME)
    if link is not None:
        # A front end that goes away now would have SIGIO end the program.
        link.close()
    while signal.sigtimedwait({RELEASE, signal.SIGIO}, 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _execute(program)


if __name__ == "__main__":
    main(sys.argv)
