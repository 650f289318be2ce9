"""Hold one rank before its program starts, and never longer than the session needs.

The job's launcher runs it in place of the program, as ``python -I -S hold.py MARK
HOST:PORT[,HOST:PORT...] SECONDS SHARES [LIBRARY] -- PROGRAM ARGUMENT...``. The program is executed
with LIBRARY in LD_PRELOAD. Each rank sends its aggregator a
datagram with mark, rank, size, local rank, local size, process id, host, the host's name in Slurm,
Slurm's job, working directory, program and arguments, with NUL between. The first rank of each host
sends a :func:`report` to the front end, at the first address that it can reach.

The rank is not stopped: it sleeps in sigtimedwait, so no process has to continue it. It executes
the program when

* the aggregator, which has attached a debugger to it, sends SIGWINCH, or
* its session is gone (the first rank of each host watches a connection to the front end and
  wakes the other ranks of its host), or
* SECONDS have passed.

This file runs on the job's hosts, where PGDB may not be importable. It uses the standard library
only, and little of it, since every rank pays for each import.
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
"""Signal that releases a held rank. By default the signal does nothing, because a rank can execute
its program between the check of its name and kill(2); GDB passes it on without a stop."""
_CONNECT_S = 3.0  # for each of the front end's addresses
_LOOKED_AT_BYTES = 1 << 16  # of a command line: any process can claim to have gigabytes
_LATE_S = 5.0  # for which the first rank waits for ranks that are not held yet, to wake them
HELD_NAME = "pgdb-held"
"""Name (/proc/PID/comm) of a process that has blocked :data:`RELEASE` and accepts it."""
LEAVING_NAME = "pgdb-leaving"
"""Name of a process that is about to execute its program, and must not get the signal any longer.
"""

# Names of which the workers of PyTorch have one: torchrun's and DeepSpeed's.
_TORCH = ("TORCHELASTIC_RUN_ID", "MASTER_PORT")
# Names of rank, size, local rank and local size, by launcher. PyTorch's come first: its workers may
# run below another launcher. Programs have a RANK of their own. Open MPI sets its own names beside
# the PMIX ones, hydra (MPICH, Intel) the third row, srun the fourth.
_IDENTITY = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""),
)


def release(pid: int) -> None:
    """Let the held process *pid* run on, unless it does so by itself already.

    The signal is sent only to a process that may wait for it, and does no harm to one that does not
    wait any longer.
    """
    try:
        with open(f"/proc/{pid}/comm") as comm:
            if comm.read().strip() == HELD_NAME:
                os.kill(pid, RELEASE)
    except OSError:
        pass


def collector_address(mark: str, share: int, node: str = "") -> str:
    """Return the abstract socket at which the aggregator of a *share* receives datagrams of held
    ranks.

    *node* is Slurm's name of the host, if it has one: several nodes can be on one machine.
    """
    return f"\0pgdb-{mark}-{share}-{node}"


def report(mark: str, fields: Sequence[str], nonce: str = "") -> bytes:
    """Return the report of a rank to the front end: *fields* from rank to Slurm's job, and its
    program.

    A report is the length in bytes, a newline, an authentication code, and the text that the
    code covers, with NUL between. The mark is the key of the code. It never crosses the network,
    where a reader could use it for further reports. The *nonce* (default: a new one) prevents a
    replay.
    """
    message = os.fsencode("\0".join((nonce or os.urandom(16).hex(), *fields)))
    whole = authentication(mark, message) + b"\0" + message
    return b"%d\n" % len(whole) + whole


def authentication(mark: str, message: bytes) -> bytes:
    """Return the code, in 64 hexadecimal digits, of *message* under the key *mark*."""
    import hashlib  # the other ranks of a host have no use for it

    keyed = hashlib.blake2b(message, key=mark.encode("ascii"), digest_size=32)
    return keyed.hexdigest().encode("ascii")


def share_of(local_rank: int, local_size: int, shares: int) -> int:
    """Return the number of the aggregator, of *shares* on a host, for a rank: contiguous, even
    blocks."""
    return local_rank * shares // local_size if 0 <= local_rank < local_size else 0


def identity(environment: Mapping[str, str]) -> tuple[int, int, int, int]:
    """Return rank, size, local rank and local size from a launcher's variables.

    An unknown number is -1; an unknown local size is the size of the job. Without any of the
    variables the job has one rank.
    """
    for names in _IDENTITY:
        if names[0] in environment and (names[0] != "RANK" or _is_torch(environment)):
            rank, size, local_rank, local_size = (_number(environment, name) for name in names)
            if local_rank < 0:
                # srun with its own PMI names the rank as hydra does, and the other numbers as srun
                # does.
                local_rank = _number(environment, "SLURM_LOCALID")
            if local_size < 0:
                local_size = _number(environment, "LOCAL_SIZE")  # DeepSpeed's
            if local_size < 0:
                local_size = slurm_local_size(environment)
            if local_size <= 0:
                local_size = size
            if names[0] == "RANK":
                local_rank, local_size = _below_agents(environment, local_rank, local_size)
            return rank, size, local_rank, local_size
    return 0, 1, 0, 1


def _below_agents(
    environment: Mapping[str, str], local_rank: int, local_size: int
) -> tuple[int, int]:
    """Return the place of a worker of PyTorch among those of all agents of its host.

    A launcher of MPI may have started several agents there, and their variables are inherited.
    """
    outer = {name: environment[name] for name in environment if name != "RANK"}
    _, _, agent, agents = identity(outer)
    if not 0 <= agent < agents:
        return local_rank, local_size
    return agent * local_size + local_rank, agents * local_size


def _is_torch(environment: Mapping[str, str]) -> bool:
    # A cluster sets the others for a whole pod, in which a launcher of MPI may run.
    return "LOCAL_RANK" in environment and any(name in environment for name in _TORCH)


def spawned_world(environment: Mapping[str, str]) -> str:
    """Return Open MPI's name of the world of a rank that MPI_Comm_spawn has started, else nothing.

    >>> spawned_world({"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "prterun-n1-77@2"})
    'prterun-n1-77@2'
    >>> spawned_world({"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "2977431553"})
    ''
    """
    name = environment.get("PMIX_NAMESPACE", "")
    if "OMPI_COMM_WORLD_RANK" not in environment:
        return ""
    # ORTE counts the jobs of a launcher in the lower half of the number; its daemons are job 0.
    number = name.rpartition("@")[2]
    if not number.isdigit():
        return ""
    return name if int(number) & 0xFFFF > 1 else ""


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdigit() else -1


def slurm_local_size(environment: Mapping[str, str]) -> int:
    """Return the number of ranks of its step on the node of a rank under srun, -1 if unknown.

    Slurm lists the counts in the order of the step's nodes, and SLURM_NODEID numbers them in that
    order. Both cover the step, with any of the job's nodes, and all of its components (Slurm
    22.05).

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
    """Allow any process of this user to attach where Yama would allow only ancestors."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope") as file:
            if file.read().strip() != "1":
                return
    except OSError:
        return
    import ctypes

    pr_set_ptracer, any_process = 0x59616D61, ctypes.c_ulong(-1)
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_ptracer, any_process, 0, 0, 0)


def _report_to_aggregator(mark: str, share: int, fields: list[str], seconds: float) -> None:
    """Report this held rank to the aggregator; a later aggregator finds the rank in /proc."""
    # A rank that Slurm did not start does not know Slurm's name for its node.
    for node in dict.fromkeys((os.environ.get("SLURMD_NODENAME", ""), "")):
        if _send(collector_address(mark, share, node), fields, seconds):
            return


def _send(address: str, fields: list[str], seconds: float) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as collector:
        # The kernel queues few datagrams (net.unix.max_dgram_qlen, 10 here). A busy aggregator
        # would miss this one, so the rank waits for it; for one that hangs it waits only as long as
        # the hold lasts.
        collector.settimeout(seconds)
        try:
            collector.sendto(os.fsencode("\0".join(fields)), address)
        except OSError:
            return False
    return True


def _report_to_front_end(addresses: list[str], message: bytes) -> socket.socket | None:
    """Report this host, and request SIGIO for the end of the front end."""
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            link = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S)
            link.sendall(message)
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
    """Release the other ranks of this host, *count* in all, as they appear; give up soon."""
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
            # Hosts can be containers with one set of process ids.
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
    """Wait for the release; return whether the session is gone."""
    while (left := deadline - time.monotonic()) > 0:
        if link is not None and _is_closed(link):
            return True
        received = signal.sigtimedwait({RELEASE, signal.SIGIO}, left)
        # A terminal (srun --pty) whose size changes sends the signal too; it has the kernel's code,
        # not SI_USER.
        if received is not None and received.si_signo == RELEASE and received.si_code <= 0:
            break
    return False


def _original_environment() -> dict[bytes, bytes]:
    # In the C locale the interpreter sets LC_CTYPE in its own environment (PEP 538); the kernel's
    # copy is the launcher's.
    with open("/proc/self/environ", "rb") as file:
        pairs = (item.partition(b"=") for item in file.read().split(b"\0") if b"=" in item)
        return {name: value for name, _, value in pairs}


def _ignored_by_parent() -> set[int]:
    """Return the signals that the launcher's daemon ignores, as far as they are known.

    The interpreter ignores SIGPIPE and SIGXFSZ from its start, whatever the setting before. Our
    parent shows that setting: between fork and exec no launcher changes the two otherwise than exec
    does (Open MPI 4.1 and 5, MPICH 4 and 5, Slurm 22.05). A parent in Python is the exception: it
    ignores both, and its children do not.
    """
    parent = os.getppid()
    try:
        if os.path.basename(os.readlink(f"/proc/{parent}/exe")).startswith("python"):
            return set()
    except OSError:
        pass  # it belongs to another user, as Slurm's does
    try:
        with open(f"/proc/{parent}/status") as status:
            mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigIgn:"))
    except (OSError, StopIteration):
        return set()
    return {number for number in signal.valid_signals() if mask >> (number - 1) & 1}


def _execute(program: list[str], library: str) -> None:
    """Execute the program as the launcher would, with a library loaded before all others."""
    environment = _original_environment()
    if library and not os.path.exists(library):
        os.write(2, f"pgdb: {library} is not there, so MPI calls are not recorded\n".encode())
    elif library:
        loaded = environment.get(b"LD_PRELOAD", b"")
        environment[b"LD_PRELOAD"] = os.fsencode(library) + (b":" + loaded if loaded else b"")
    paths = [program[0]]
    if "/" not in program[0]:
        paths = [os.path.join(each, program[0]) for each in os.get_exec_path()]
        if spawned_world(os.environ):
            # Open MPI looks there for a program of MPI_Comm_spawn.
            paths.append(os.path.join(os.getcwd(), program[0]))
    failed: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    why = ""
    for path in paths:
        try:
            os.execve(path, program, environment)
        except (FileNotFoundError, NotADirectoryError):
            why = why or _lacking_interpreter(path)
            continue
        except PermissionError as error:
            failed = error
        except OSError as error:
            failed = error
            break
    if failed.errno == errno.ENOEXEC and "MPI_LOCALRANKID" in os.environ:
        # The file is not a program and names no interpreter. hydra's execvp(3) lets the shell read
        # it; Open MPI and Slurm use execve(2), and fail.
        os.execve("/bin/sh", ["/bin/sh", path, *program[1:]], environment)
    if not isinstance(failed, FileNotFoundError):
        why = ""
    os.write(2, f"pgdb: cannot run {program[0]}: {why or failed.strerror}\n".encode())
    raise SystemExit(127 if isinstance(failed, FileNotFoundError) else 126)


def _lacking_interpreter(path: str) -> str:
    """Return why the kernel finds no file although the program is there; empty if it is not."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return ""
    if first.startswith(b"#!") and (words := first[2:].split(None, 1)):
        return f"its interpreter {os.fsdecode(words[0])} does not exist"
    return "the dynamic loader that it names does not exist"


def main(argv: list[str]) -> None:
    """Hold this process, then execute the program; return only by raising SystemExit."""
    mark, addresses, seconds, shares, *rest = argv[1:]
    library = rest.pop(0) if rest and rest[0] != "--" else ""
    program = rest[1:]
    if not program:
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
    link = None
    if world := spawned_world(os.environ):
        # The front end has each rank attached to; a job that outlives its session has none.
        message = report(mark, [*numbers, host, alias, slurm_job, program[0], world])
        link = _report_to_front_end(addresses.split(","), message)
    else:
        _report_to_aggregator(mark, share, fields, float(seconds))
        if local_rank <= 0:
            message = report(mark, [*numbers, host, alias, slurm_job, program[0]])
            link = _report_to_front_end(addresses.split(","), message)
    if world:
        is_gone = link is None or _wait(link, deadline)
    elif local_rank <= 0 and link is None:
        # No session exists to hold the job for.
        os.write(
            2,
            f"pgdb: rank {rank} on {host} cannot reach the front end at "
            f"{addresses.replace(',', ', ')}; the ranks of this host run on undebugged; "
            "--listen ADDRESS names an address that they can reach\n".encode(),
        )
        is_gone = True
    else:
        is_gone = _wait(link, deadline)
    if is_gone and local_rank == 0 and not world:
        _wake_all_others(mark, local_size - 1)
    ignored = _ignored_by_parent()
    for each in (signal.SIGPIPE, signal.SIGXFSZ):
        if each not in ignored:
            signal.signal(each, signal.SIG_DFL)
    # No release may be sent from here on; a second one must not reach the program.
    with open("/proc/self/comm", "w") as comm:
        comm.write(LEAVING_NAME)
    if link is not None:
        # If the front end ended now, SIGIO would end the program.
        link.close()
    while signal.sigtimedwait({RELEASE, signal.SIGIO}, 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _execute(program, library)


if __name__ == "__main__":
    main(sys.argv)
