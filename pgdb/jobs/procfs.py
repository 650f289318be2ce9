"""Read facts about the processes of this host from /proc.

Processes vanish while they are being read, and another user's cannot be read at all. Both raise no
exception here: a reader of one process returns None (or False) if there is nothing to read, and
lists omit processes that are gone.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from pathlib import Path

import msgspec

from pgdb.patterns import pattern

PROC = Path("/proc")
"""The directory of the kernel's processes; tests replace it by a tree of their own."""

# include/linux/sched.h; the flags are the ninth field of /proc/PID/stat.
_PF_EXITING, _PF_KTHREAD = 0x00000004, 0x00200000
# include/net/tcp_states.h
_TCP_LISTEN = "0A"

_ENVIRONMENT_BYTES = 1 << 18
# The kernel accepts less than 6 MiB for both together (fs/exec.c). But a process may relocate them
# (PR_SET_MM) to an area of any size.
_MOST_WORDS_BYTES = 6 << 20
# The kernel does not report the end of an execve(2). It takes less than a millisecond, or as long
# as a network file system takes.
_EXEC_S = 1.0
_NAP_S = 0.001

# The part after the dot or dash names a flavour (mpirun.openmpi, mpiexec.hydra, srun-wlm, MVAPICH's
# mpirun_rsh), unless the file is a user's script. proc_pid_maps(5): a name may hold any character
# that Python takes for a line end, except the kernel's own.
_STATUS_LINE = pattern(r"^(\w+):[ \t]*(.*)$", re.M | re.A)
_MAPPED_PATH = pattern(r"^\w+-\w+ \S+ \w+ \S+ \d+ +(/[^\n]*)$", re.M | re.A)
_LAUNCHER_NAME = pattern(
    r"(?:mpirun|mpiexec|orterun|prterun|prun|srun)(?:[-_.][\w.+-]+)?(?<!\.(?:sh|py|pl))"
    r"(?<!\.(?:csh|lua))(?<!\.bash)\Z"
)


class ProcessStat(msgspec.Struct, frozen=True):
    """Identity and state of a process."""

    pid: int
    ppid: int
    state: str
    """One letter as in ps(1): R, S, D, T (stopped), t (traced), Z (zombie), X, I."""
    start_time_ticks: int
    """Start time in clock ticks after boot; with the pid it identifies one process for ever."""
    comm: str
    """Name of the program, cut to 15 bytes by the kernel."""
    uid: int
    """Effective user id."""
    tracer_pid: int
    """Pid of the debugger that traces it, or 0."""
    is_kernel_thread: bool
    is_exiting: bool

    @property
    def has_ended(self) -> bool:
        """Whether the process is a zombie: only its exit status is left."""
        return self.state in "ZXx"


def all_pids(proc: Path = PROC) -> list[int]:
    """Return the pids of all processes, in order."""
    return sorted(int(name) for name in os.listdir(proc) if name.isdecimal())


def parents(proc: Path = PROC) -> dict[int, int]:
    """Return the parent's pid of every process, all read in one pass."""
    found = {}
    for pid in all_pids(proc):
        fields = _stat_fields(pid, proc)
        if fields is not None:
            found[pid] = int(fields[1][1])
    return found


def is_alive(pid: int, proc: Path = PROC) -> bool:
    """Return whether the process *pid* exists and has not ended."""
    fields = _stat_fields(pid, proc)
    return fields is not None and fields[1][0] not in "ZX"


def children(pid: int, proc: Path = PROC) -> list[int]:
    """Return the pids of the processes whose parent is *pid*, in order."""
    return [child for child, parent in parents(proc).items() if parent == pid]


def children_of_main_thread(pid: int, proc: Path = PROC) -> list[int]:
    """Return the pids of the children that the main thread of *pid* has started, in order.

    It reads one file; a kernel without CONFIG_PROC_CHILDREN has none.
    """
    data = _read(f"{proc}/{pid}/task/{pid}/children") or b""
    return [int(word) for word in data.split()]


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Return the pids of the children of *pid*, their children and so on, parents first."""
    by_parent: dict[int, list[int]] = {}
    for child, parent in parents(proc).items():
        by_parent.setdefault(parent, []).append(child)
    found = list(by_parent.get(pid, ()))
    for each in found:  # grows while it is walked
        found.extend(by_parent.get(each, ()))
    return found


def read_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """Return identity and state of the process *pid*."""
    fields = _stat_fields(pid, proc)
    status = status_fields(f"{proc}/{pid}/status")
    if fields is None or status is None:
        return None
    comm, rest = fields
    return ProcessStat(
        pid=pid,
        ppid=int(rest[1]),
        state=rest[0],
        start_time_ticks=int(rest[19]),
        comm=comm,
        uid=int(status.get("Uid", "0 0").split()[1]),
        tracer_pid=int(status.get("TracerPid", "0")),
        is_kernel_thread=bool(int(rest[6]) & _PF_KTHREAD),
        is_exiting=bool(int(rest[6]) & _PF_EXITING),
    )


def work_done(pid: int, proc: Path = PROC) -> tuple[int, bool]:
    """Return the CPU ticks of *pid*, and whether it waits for a disk at the moment."""
    fields = _stat_fields(pid, proc)
    if fields is None:
        return 0, False
    _, rest = fields
    return int(rest[11]) + int(rest[12]), rest[0] == "D"


def wait_status(pid: int, proc: Path = PROC) -> int | None:
    """Return the status that wait(2) will report for the zombie *pid*, None if it is not a zombie.

    It is also 0 for a process that we may not trace.
    """
    fields = _stat_fields(pid, proc)
    if fields is None or fields[1][0] != "Z" or len(fields[1]) < 50:
        return None
    return int(fields[1][49])


def environment(pid: int, proc: Path = PROC) -> dict[str, str] | None:
    """Return the environment that *pid* was executed with; empty for a zombie.

    If the process is inside execve(2), the function waits for a short time.
    """
    path = f"{proc}/{pid}/environ"
    data = _read_at_once(path)
    until = time.monotonic() + _EXEC_S
    while data == b"" and not _is_without_environment(pid, proc) and time.monotonic() < until:
        time.sleep(_NAP_S)  # the kernel reports no end of execve(2) to others
        data = _read_at_once(path)
    if data and not data.endswith(b"\0"):
        # The process executed another program between two reads.
        data = _read_at_once(path)
    if data is None:
        return None
    return variables_in(data)


def variables_in(data: bytes) -> dict[str, str]:
    """Return the variables in the text of an ``environ`` file."""
    # A text without an end may be cut off, such as a rank's number.
    text = os.fsdecode(data[: data.rfind(b"\0") + 1])
    found: dict[str, str] = {}
    for entry in text.split("\0"):
        name, equals, value = entry.partition("=")
        if equals:
            # getenv(3) returns the first of two variables with one name.
            found.setdefault(name, value)
    return found


def is_foreign(pid: int, proc: Path = PROC) -> bool:
    """Return whether *pid* runs as another user, or is gone."""
    status = status_fields(f"{proc}/{pid}/status") or {}
    return status.get("Uid", "").split()[1:2] != [str(os.geteuid())]


def command_line(pid: int, proc: Path = PROC) -> list[str] | None:
    """Return the arguments of *pid*, its name first; empty for zombies and kernel threads."""
    data = _read_at_once(f"{proc}/{pid}/cmdline")
    if data is None:
        return None
    text = os.fsdecode(data)
    return text.removesuffix("\0").split("\0") if text else []


def executable(pid: int, proc: Path = PROC) -> str | None:
    """Return the path of the file that *pid* executes; the file may be deleted."""
    try:
        path = os.readlink(f"{proc}/{pid}/exe")
    except OSError:
        return None
    return path.removesuffix(" (deleted)")


def is_closed(pid: int, proc: Path = PROC) -> bool:
    """Return whether the kernel refuses to show the living process *pid*, and to let us trace it.

    The check is that of ptrace(2) without Yama's.
    """
    try:
        os.readlink(f"{proc}/{pid}/exe")
    except PermissionError:
        return is_alive(pid, proc)
    except OSError:
        pass
    return False


def program_name(pid: int) -> str:
    """Return the name of the program of *pid*, cut to 15 bytes; empty if the process is gone."""
    # Listings call this for every process of the host; it takes a third of the time of pathlib.
    try:
        descriptor = os.open(f"/proc/{pid}/comm", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, 64)).rstrip("\n")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def waits_for_child(pid: int, proc: Path = PROC) -> bool:
    """Return whether the main thread of *pid* waits in wait(2), as far as the kernel shows that."""
    return (_read(f"{proc}/{pid}/wchan") or b"").strip() == b"do_wait"


def status_fields(path: str) -> dict[str, str] | None:
    """Return the lines of a ``status`` file by name, None if it cannot be read."""
    data = _read(path)
    return dict(_STATUS_LINE.findall(os.fsdecode(data))) if data else None


def signals_in(mask: str) -> set[int]:
    """Return the numbers of the signals in a mask of a ``status`` file."""
    bits = int(mask, 16)
    return {number for number in range(1, bits.bit_length() + 1) if bits >> (number - 1) & 1}


def pending_signals(pid: int, proc: Path = PROC) -> set[int] | None:
    """Return the signals pending for the process or for any of its threads."""
    statuses = _thread_statuses(pid, proc)
    if not statuses:
        return None
    return {
        signal
        for status in statuses
        for field in ("SigPnd", "ShdPnd")
        for signal in signals_in(status.get(field, "0"))
    }


def blocked_in_all_threads(pid: int, signal: int, proc: Path = PROC) -> bool:
    """Return whether every thread blocks *signal*, so that none can receive it.

    A thread inside sigtimedwait(2) for the signal does not count as blocking it: the kernel removes
    the signal from the mask during the call.
    """
    statuses = _thread_statuses(pid, proc)
    return bool(statuses) and all(
        signal in signals_in(status.get("SigBlk", "0")) for status in statuses
    )


def is_at_rest(pid: int, proc: Path = PROC) -> bool:
    """Return whether every thread of *pid* is stopped or has ended, or *pid* is gone."""
    statuses = _thread_statuses(pid, proc)
    return all(status.get("State", "X")[:1] in "tTZXx" for status in statuses)


def caught_signals(pid: int, proc: Path = PROC) -> set[int] | None:
    """Return the signals that *pid* has handlers for."""
    status = status_fields(f"{proc}/{pid}/status")
    return None if status is None else signals_in(status.get("SigCgt", "0"))


def handled_signals(pid: int, proc: Path = PROC) -> set[int] | None:
    """Return the signals that *pid* has handlers for, or ignores."""
    status = status_fields(f"{proc}/{pid}/status")
    if status is None:
        return None
    return signals_in(status.get("SigCgt", "0")) | signals_in(status.get("SigIgn", "0"))


def own_number(pid: int, proc: Path = PROC) -> int:
    """Return the number that *pid* has for itself: in a container it is another one than here."""
    status = status_fields(f"{proc}/{pid}/status") or {}
    numbers = status.get("NSpid", "").split()
    return int(numbers[-1]) if numbers else pid


def listening_ports(pid: int, proc: Path = PROC) -> frozenset[int] | None:
    """Return the TCP ports on which *pid* accepts connections."""
    directory = f"{proc}/{pid}"
    try:
        descriptors = os.listdir(f"{directory}/fd")
    except OSError:
        return None
    inodes = set()
    for descriptor in descriptors:
        try:
            target = os.readlink(f"{directory}/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in (_read(f"{directory}/net/{name}") or b"").decode().splitlines()[1:]:
            columns = line.split()
            if len(columns) > 9 and columns[3] == _TCP_LISTEN and columns[9] in inodes:
                ports.add(int(columns[1].rpartition(":")[2], 16))
    return frozenset(ports)


def mapped_files(pid: int, proc: Path = PROC) -> frozenset[str]:
    """Return the paths of the files that *pid* has mapped; empty if they may not be read."""
    text = os.fsdecode(_read(f"{proc}/{pid}/maps") or b"")
    return frozenset(_MAPPED_PATH.findall(text))


def on_this_host(pid: int, proc: Path = PROC) -> bool:
    """Return whether *pid* belongs to this process's host.

    Containers with a host name each may share one /proc, like several Slurm nodes on one machine.
    """
    node = os.environ.get("SLURMD_NODENAME")
    if node and (environment(pid, proc) or {}).get("SLURMD_NODENAME", node) != node:
        return False
    try:
        return os.readlink(f"{proc}/{pid}/ns/uts") == os.readlink(f"{proc}/self/ns/uts")
    except OSError:
        return True


def is_launcher_name(name: str) -> bool:
    """Return whether *name* is the name of an MPI launcher.

    >>> [is_launcher_name(name) for name in ("mpirun", "mpiexec.hydra", "mpirun.sh", "ring")]
    [True, True, False, False]
    """
    return bool(_LAUNCHER_NAME.match(name))


def _read(path: str) -> bytes | None:
    # ESRCH comes from files that were open when their process ended, EACCES and EPERM from
    # other users' processes; OSError covers them all.
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None


def _read_at_once(path: str) -> bytes | None:
    """Read a file, with one read(2) if it is not longer than most environments.

    A file longer than any environment is cut off. During one read the kernel keeps the memory of a
    process that executes another program; a later read finds the end of the file.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            pieces, room = [], _MOST_WORDS_BYTES
            while room > 0 and (piece := file.read(min(room, _ENVIRONMENT_BYTES))):
                pieces.append(piece)
                room -= len(piece)
    except OSError:
        return None
    return b"".join(pieces)


def _is_without_environment(pid: int, proc: Path) -> bool:
    """Return whether an empty environment is all there is; during an exec it looks empty too."""
    fields = _stat_fields(pid, proc)
    if fields is None:
        return True
    # Zombies and kernel threads have no memory; the kernel sets the start of the code after the
    # bounds of the environment (fs/binfmt_elf.c).
    memory, code, start, end = (int(fields[1][place]) for place in (20, 23, 47, 48))
    return memory == 0 or (code != 0 and start == end)


def _stat_fields(pid: int, proc: Path) -> tuple[str, list[str]] | None:
    data = _read(f"{proc}/{pid}/stat")
    if not data:
        return None
    # The name may hold spaces and brackets, so the last bracket ends it.
    head, _, tail = os.fsdecode(data).rpartition(")")
    return head.partition("(")[2], tail.split()


def _thread_statuses(pid: int, proc: Path) -> list[dict[str, str]]:
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:
        return []
    found = (status_fields(f"{proc}/{pid}/task/{thread}/status") for thread in threads)
    return [status for status in found if status is not None]


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
