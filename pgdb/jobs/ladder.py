"""Find the ranks of a job that runs already, from the pid of its launcher.

The rungs, best first: the launcher's MPIR_proctable by its symbol, the same table by what it
looks like, and the environment that the launcher gave to its ranks. Each rung leaves a step that
says what came of it. Nothing is stopped, started or changed on the way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from pgdb.errors import DiscoveryError
from pgdb.jobs import mpir, procfs
from pgdb.jobs.mpir import MpirTable
from pgdb.jobs.procfs import ProcessStat, RankIdentity
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet

# mpirun_rsh is MVAPICH's; what stands behind the dot or dash names a flavour (mpirun.openmpi,
# mpiexec.hydra, srun-wlm).
_LAUNCHER_NAME = re.compile(
    r"(?:mpirun|mpiexec|orterun|prterun|prun|srun|mpirun_rsh)(?:[-_.][\w.+-]+)?\Z"
)
_MANY = 6


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One way of finding the ranks that was tried."""

    name: str
    """``MPIR_proctable by symbol``, ``MPIR_proctable by structure`` or ``environment``."""
    outcome: str
    """What came of it, in words for the user."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """The ranks of a running job."""

    launcher_pid: int
    """The launcher itself, where the pid that was asked for is a wrapper around it."""
    table: ProcTable
    """The ranks that live, those on other hosts too as far as the launcher's table names them."""
    steps: tuple[LadderStep, ...]
    """What was tried, the rung that found the ranks last."""
    job_size: int | None
    """Number of ranks in MPI_COMM_WORLD; None where nothing tells it."""
    local_ranks: RankSet
    """The ranks in the table that run on this host, whatever name the launcher has for it."""
    ended: RankSet
    """Ranks of this host whose process has ended; they are not in the table."""


def find_job(pid: int) -> FoundJob:
    """Find the ranks of the job of launcher *pid*, or of the launcher below wrapper *pid*.

    :raises DiscoveryError: if there are none on this host, or *pid* is a rank itself; the text
        says what was tried, or whose pid to give instead.
    """
    stat = procfs.read_stat(pid)
    host = os.uname().nodename
    if stat is None:
        raise DiscoveryError(
            f"there is no process {pid} on {host}; give the pid of mpirun, mpiexec or srun"
        )
    if stat.has_ended:
        raise DiscoveryError(f"{stat.comm} {pid} has ended, and its job with it")
    if stat.is_kernel_thread:
        raise DiscoveryError(
            f"{pid} ({stat.comm}) is a thread of the kernel; "
            "give the pid of mpirun, mpiexec or srun"
        )
    processes = _Processes()
    launcher = _resolve_launcher(stat, processes)
    steps: list[LadderStep] = []
    found = _by_symbol(launcher, processes)
    steps.append(found.step)
    if found.has_no_symbol:
        found = _by_structure(launcher, processes)
        steps.append(found.step)
    if found.table is not None:
        return _from_mpir(found, launcher, processes, steps)
    scan = _scan(launcher, processes)
    steps.append(scan.step)
    if not scan.processes:
        raise DiscoveryError(_nothing_found(stat, launcher, scan, processes, steps))
    return FoundJob(
        launcher_pid=launcher,
        table=ProcTable(
            processes=scan.processes,
            source=f"environment of the ranks of {processes.describe(launcher)}",
        ),
        steps=tuple(steps),
        job_size=scan.size,
        local_ranks=RankSet(each.rank for each in scan.processes),
        ended=scan.ended,
    )


class _Processes:
    """The processes of this host at one moment; what is told of one of them is read once."""

    def __init__(self) -> None:
        self.parent_of = procfs.parents()
        self._children: dict[int, list[int]] = {}
        for pid, parent in self.parent_of.items():
            self._children.setdefault(parent, []).append(pid)
        self._environments: dict[int, Mapping[str, str] | None] = {}
        self._stats: dict[int, ProcessStat | None] = {}

    def children(self, pid: int) -> list[int]:
        return self._children.get(pid, [])

    def below(self, pid: int, enter: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """Yield the descendants of *pid*, parents first, without those below a refused one."""
        pending = list(self.children(pid))
        for each in pending:  # grows while it is walked
            yield each
            if enter(each):
                pending.extend(self.children(each))

    def above(self, pid: int) -> Iterator[int]:
        """Yield the parent of *pid*, its parent and so on."""
        while (parent := self.parent_of.get(pid, 0)) > 0:
            yield parent
            pid = parent

    def environment(self, pid: int) -> Mapping[str, str] | None:
        if pid not in self._environments:
            self._environments[pid] = procfs.environment(pid)
        return self._environments[pid]

    def identity(self, pid: int) -> RankIdentity | None:
        return procfs.rank_environment(self.environment(pid) or {})

    def stat(self, pid: int) -> ProcessStat | None:
        if pid not in self._stats:
            self._stats[pid] = procfs.read_stat(pid)
        return self._stats[pid]

    def has_ended(self, pid: int) -> bool:
        stat = self.stat(pid)
        return stat is None or stat.has_ended

    def name(self, pid: int) -> str:
        stat = self.stat(pid)
        return stat.comm if stat is not None else "process"

    def describe(self, pid: int) -> str:
        return f"{self.name(pid)} {pid}"

    def is_launcher(self, pid: int) -> bool:
        """Return whether *pid* is a launcher's program; a script of that name is none."""
        if self.has_ended(pid):
            return False
        path = procfs.executable(pid)
        name = os.path.basename(path) if path is not None else self.name(pid)
        return bool(_LAUNCHER_NAME.match(name))

    def job_key(self, pid: int, identity: RankIdentity) -> str:
        """Return what tells the rank's job from others, also under MPICH.

        MPICH's hydra leaves nothing in the environment, but the proxy above the rank has the
        launcher's address and, for MPI_Comm_spawn, the number of the job on its command line.
        """
        if identity.job_key is not None:
            return identity.job_key
        for each in self.above(pid):
            words = procfs.command_line(each) or []
            if "--control-port" in words:
                wanted = ("--control-port", "--pgid")
                return " ".join(value for option, value in pairwise(words) if option in wanted)
        return ""

    def topmost_of_rank(self, pid: int, identity: RankIdentity) -> int:
        """Return the rank's own process, where *pid* may be a helper that inherited from it."""
        top = pid
        for each in self.above(pid):
            if self.is_launcher(each) or self.identity(each) != identity:
                break
            top = each
        return top


@dataclass(frozen=True, slots=True)
class _MpirResult:
    step: LadderStep
    table: MpirTable | None = None
    source: str = ""
    has_no_symbol: bool = False
    """Whether the table, if there is one, must be found by what it looks like."""


@dataclass(frozen=True, slots=True)
class _Scan:
    step: LadderStep
    processes: tuple[RankProcess, ...] = ()
    size: int | None = None
    ended: RankSet = field(default_factory=RankSet)
    other_jobs: int = 0
    """Number of further jobs whose ranks were found: spawned ones, below a launcher."""


def _resolve_launcher(stat: ProcessStat, processes: _Processes) -> int:
    """Return the launcher that the user means by a pid: itself, or the one below it."""
    pid = stat.pid
    if processes.is_launcher(pid):
        # srun's twin, which forwards its signals, has an empty table: its parent has the ranks.
        return stat.ppid if _is_twin(pid, stat.ppid, processes) else pid
    own = processes.identity(pid)

    def is_no_rank(each: int) -> bool:
        identity = processes.identity(each)
        return not processes.is_launcher(each) and (identity is None or identity == own)

    launchers = [each for each in processes.below(pid, is_no_rank) if processes.is_launcher(each)]
    if len(launchers) > 1:
        names = _listed([processes.describe(each) for each in launchers])
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has several launchers below it: {names}; give one"
        )
    if launchers:
        return launchers[0]
    if own is not None:
        raise DiscoveryError(_is_inside(stat, own, processes))
    # Below one that we do not know by name there may still be ranks.
    scan = _scan(pid, processes)
    above = next((each for each in processes.above(pid) if processes.is_launcher(each)), None)
    if scan.processes and above is None:
        above = _owner_of_ports(scan.processes[0].pid, processes)
    if above is not None and scan.processes:
        raise DiscoveryError(
            f"{pid} ({stat.comm}) belongs to the job of {processes.describe(above)}; "
            f"use pgdb attach {above}"
        )
    if not scan.processes:
        denied = procfs.why_not_traceable(pid) if processes.environment(pid) is None else None
        hint = denied or "give the pid of mpirun, mpiexec or srun"
        raise DiscoveryError(
            f"{pid} ({stat.comm}) is no MPI launcher and no process below it has a rank's "
            f"environment; {hint}"
        )
    if scan.other_jobs:
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has ranks of {scan.other_jobs + 1} jobs below it and none of "
            "their launchers; give the pid of mpirun, mpiexec or srun"
        )
    return pid


def _is_inside(stat: ProcessStat, identity: RankIdentity, processes: _Processes) -> str:
    pid = stat.pid
    rank_pid = processes.topmost_of_rank(pid, identity)
    launcher = next(
        (each for each in processes.above(rank_pid) if processes.is_launcher(each)), None
    ) or _owner_of_ports(rank_pid, processes)
    what = f"{pid} is rank {identity.rank}"
    if rank_pid != pid:
        what = f"{pid} ({stat.comm}) runs inside rank {identity.rank} (pid {rank_pid})"
    if launcher is None:
        return (
            f"{what} of a job whose launcher is not on this host or has ended; "
            "attach from the launcher's host with its pid"
        )
    return f"{what} of the job of {processes.describe(launcher)}; use pgdb attach {launcher}"


def _is_twin(pid: int, parent: int, processes: _Processes) -> bool:
    """Return whether *pid* is a fork of launcher *parent*, and no launcher run as a rank."""
    path = procfs.executable(pid)
    return (
        path is not None
        and path == procfs.executable(parent)
        and processes.identity(pid) == processes.identity(parent)
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def _by_symbol(launcher: int, processes: _Processes) -> _MpirResult:
    twins = [each for each in processes.children(launcher) if _is_twin(each, launcher, processes)]
    outcome = ""
    has_no_symbol = False
    for pid in (launcher, *twins):
        try:
            table = mpir.read_proctable(pid)
        except DiscoveryError as error:
            # What is wrong with the launcher says more than what is wrong with its twin.
            if not outcome:
                outcome = str(error)
                has_no_symbol = isinstance(error, mpir.NoProctableError)
        else:
            return _MpirResult(
                step=LadderStep(
                    name="MPIR_proctable by symbol",
                    outcome=f"{processes.describe(pid)} lists {_count(table.size)}",
                ),
                table=table,
                source=f"MPIR_proctable of {processes.describe(pid)}",
            )
    step = LadderStep(name="MPIR_proctable by symbol", outcome=outcome)
    return _MpirResult(step=step, has_no_symbol=has_no_symbol)


def _by_structure(launcher: int, processes: _Processes) -> _MpirResult:
    name = "MPIR_proctable by structure"
    try:
        table = mpir.search_proctable(launcher)
    except DiscoveryError as error:
        return _MpirResult(step=LadderStep(name=name, outcome=str(error)))
    where = processes.describe(launcher)
    return _MpirResult(
        step=LadderStep(
            name=name, outcome=f"the memory of {where} has a table of {_count(table.size)}"
        ),
        table=table,
        source=f"table of ranks in the memory of {where}",
    )


def _count(ranks: int) -> str:
    return f"{ranks} rank" if ranks == 1 else f"{ranks} ranks"


def _from_mpir(
    found: _MpirResult, launcher: int, processes: _Processes, steps: list[LadderStep]
) -> FoundJob:
    """Sort the entries of a launcher's table by where they are and whether they live.

    :raises DiscoveryError: if none of them lives on this host.
    """
    assert found.table is not None
    below = set(processes.below(launcher))
    kept: list[RankProcess] = []
    local: list[int] = []
    ended: list[int] = []
    for entry in found.table.processes:
        if not _is_here(entry, found.table.size, processes):
            kept.append(entry)
        elif _lives(entry, below, processes):
            local.append(entry.rank)
            # The table names what the launcher was told to start, the kernel what runs now.
            path = procfs.executable(entry.pid) or entry.executable
            kept.append(
                RankProcess(rank=entry.rank, host=entry.host, pid=entry.pid, executable=path)
            )
        else:
            ended.append(entry.rank)
    who = processes.describe(launcher)
    if not local and ended:
        raise DiscoveryError(
            f"the job of {who} has ended: of its {_count(found.table.size)} "
            f"none is left on {os.uname().nodename}"
        )
    if not local:
        hosts = list(dict.fromkeys(entry.host for entry in kept))
        raise DiscoveryError(
            f"all ranks of {who} run on other hosts ({_listed(hosts)}), none on "
            f"{os.uname().nodename}; run pgdb on one of those"
        )
    return FoundJob(
        launcher_pid=launcher,
        table=ProcTable(processes=tuple(kept), source=found.source),
        steps=tuple(steps),
        job_size=found.table.size,
        local_ranks=RankSet(local),
        ended=RankSet(ended),
    )


def _is_here(entry: RankProcess, size: int, processes: _Processes) -> bool:
    """Return whether a table's entry is a process of this host.

    Launchers call this host by other names too (Slurm's node names, an address): then a process
    of that pid with that rank of a job of that size can only be the one that is meant.
    """
    if mpir.is_this_host(entry.host):
        return True
    identity = processes.identity(entry.pid)
    return (
        identity is not None
        and (identity.rank, identity.size) == (entry.rank, size)
        and _same_namespace(entry.pid)
    )


def _same_namespace(pid: int) -> bool:
    # Hosts that share one /proc, as containers may, have a name each all the same.
    try:
        return os.readlink(f"/proc/{pid}/ns/uts") == os.readlink("/proc/self/ns/uts")
    except OSError:
        return True


def _lives(entry: RankProcess, below: set[int], processes: _Processes) -> bool:
    """Return whether the rank's process still runs, and is not another one with its pid."""
    if processes.has_ended(entry.pid):
        return False
    environment = processes.environment(entry.pid)
    if entry.pid in below or environment is None:
        return True
    identity = processes.identity(entry.pid)
    # A rank may have been started with an environment of its own (env -i).
    parent = processes.parent_of.get(entry.pid, 0)
    return (identity is not None and identity.rank == entry.rank) or (
        processes.name(parent) == "slurmstepd"
    )


def _scan(launcher: int, processes: _Processes) -> _Scan:
    """Find the ranks by the environment that the launcher gave them.

    They are the topmost processes below the launcher that have one of their own: what they
    start inherits it. Slurm starts ranks apart from srun; those name a port that it listens on.
    """
    inherited = processes.identity(launcher)
    found: dict[str, list[tuple[int, RankIdentity]]] = {}
    unreadable = 0
    zombies = 0

    def is_no_rank(pid: int) -> bool:
        identity = processes.identity(pid)
        return identity is None or identity == inherited

    for pid in processes.below(launcher, is_no_rank):
        if processes.has_ended(pid):
            zombies += 1
        elif processes.environment(pid) is None:
            unreadable += 1
        elif not is_no_rank(pid):
            identity = processes.identity(pid)
            assert identity is not None
            found.setdefault(processes.job_key(pid, identity), []).append((pid, identity))
    where = f"below {processes.describe(launcher)}"
    if not found:
        found = _scan_by_port(launcher, processes)
        where = f"of {processes.describe(launcher)}, by the port it listens on"
    if not found:
        unread = f"; {unreadable} could not be read" if unreadable else ""
        dead = f"; {zombies} below it have ended" if zombies else ""
        return _Scan(
            step=LadderStep(
                name="environment",
                outcome=f"no process of {processes.describe(launcher)} has a rank's environment"
                + unread
                + dead,
            )
        )
    # What MPI_Comm_spawn started is a job of its own, and later than the one that asked for it.
    first = min(found, key=lambda key: min(_start_time(pid, processes) for pid, _ in found[key]))
    return _as_scan(found[first], where, len(found) - 1, processes)


def _as_scan(
    members: list[tuple[int, RankIdentity]], where: str, others: int, processes: _Processes
) -> _Scan:
    host = os.uname().nodename
    table: dict[int, RankProcess] = {}
    for pid, identity in sorted(members, key=lambda each: _start_time(each[0], processes)):
        table.setdefault(
            identity.rank,
            RankProcess(
                rank=identity.rank,
                host=host,
                pid=pid,
                executable=procfs.executable(pid) or "",
            ),
        )
    one = members[0][1]
    here = len(table)
    # Only where all ranks were started on this host is it known which of them are missing.
    all_here = one.size is not None and one.local_size == one.size
    ended = RankSet.range(0, one.size or 0) - RankSet(table) if all_here else RankSet()
    outcome = f"{_count(here)} {where}"
    if one.size is not None and here < one.size:
        outcome += f", {one.size - here} of {one.size} not on this host or ended"
    if others:
        outcome += f"; left out: {others} more started with MPI_Comm_spawn"
    return _Scan(
        step=LadderStep(name="environment", outcome=outcome),
        processes=tuple(table[rank] for rank in sorted(table)),
        size=one.size,
        ended=ended,
        other_jobs=others,
    )


def _start_time(pid: int, processes: _Processes) -> int:
    stat = processes.stat(pid)
    return stat.start_time_ticks if stat is not None else 0


def _scan_by_port(
    launcher: int, processes: _Processes
) -> dict[str, list[tuple[int, RankIdentity]]]:
    ports = procfs.listening_ports(launcher) or frozenset()
    found: dict[str, list[tuple[int, RankIdentity]]] = {}
    since = _start_time(launcher, processes)
    for pid in processes.parent_of if ports else ():
        environment = processes.environment(pid)
        identity = processes.identity(pid)
        if (
            environment
            and identity is not None
            and not ports.isdisjoint(_launcher_ports(environment))
            and processes.topmost_of_rank(pid, identity) == pid
            and _start_time(pid, processes) >= since
            and _same_namespace(pid)
        ):
            found.setdefault(processes.job_key(pid, identity), []).append((pid, identity))
    return found


def _launcher_ports(environment: Mapping[str, str]) -> set[int]:
    """Return the ports that a rank's environment gives as its launcher's."""
    texts = [environment.get("SLURM_SRUN_COMM_PORT", "")]
    # 1955790848.0;tcp://192.0.2.2:59781;tcp6://[fd00::2]:44909
    texts += [
        part.rpartition(":")[2]
        for part in environment.get("OMPI_MCA_orte_hnp_uri", "").split(";")[1:]
    ]
    return {int(text) for text in texts if text.isdecimal()}


def _owner_of_ports(pid: int, processes: _Processes) -> int | None:
    """Return the launcher of this host that listens where rank *pid* reports to."""
    ports = _launcher_ports(processes.environment(pid) or {})
    for each in processes.parent_of if ports else ():
        if processes.is_launcher(each):
            listening = procfs.listening_ports(each)
            if listening and not listening.isdisjoint(ports):
                return each
    return None


def _nothing_found(
    stat: ProcessStat,
    launcher: int,
    scan: _Scan,
    processes: _Processes,
    steps: list[LadderStep],
) -> str:
    below = list(processes.below(launcher))
    if below and all(processes.has_ended(pid) for pid in below):
        return (
            f"the job of {processes.describe(launcher)} has ended: all processes below it are gone"
        )
    tried = "; ".join(step.outcome for step in steps)
    return f"no rank of {processes.describe(launcher)} was found on {os.uname().nodename}: {tried}"
