"""Find the ranks of a job that runs already, from a pid of it or from pids given by hand.

The rungs, best first: the launcher's MPIR_proctable by its symbol, the same table by what it
looks like, Open MPI 5's answer through PMIx, and the environment that the launcher gave to its
ranks. Each rung leaves a step that says what came of it. Nothing is stopped, started or changed
on the way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir
from pgdb.frontend.discovery.mpir import MpirTable
from pgdb.jobs import environment_scan, procfs
from pgdb.jobs.environment_scan import Processes, RankGroup
from pgdb.jobs.procfs import ProcessStat
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet

_MANY = 6
_GIVE_LAUNCHER = "give the pid of mpirun, mpiexec or srun"
_GIVE_PIDS = "give the pids of its ranks with --pids"

PmixQuery = Callable[[int], tuple[RankProcess, ...]]
"""Asks the launcher of that pid for its ranks; raises DiscoveryError where it does not tell."""


class DiscoveryStep(msgspec.Struct, frozen=True):
    """One way of finding the ranks that was tried."""

    name: str
    """``launcher``, ``MPIR_proctable by symbol``, ``MPIR_proctable by structure``, ``PMIx``,
    ``environment`` or ``pids``."""
    outcome: str
    """What came of it, in words for the user."""


class FoundJob(msgspec.Struct, frozen=True):
    """The ranks of a running job, as far as this host can tell."""

    launcher_pid: int
    """The launcher on this host, also where the pid asked for is a wrapper around it or a rank
    of its; 0 where it has ended, runs elsewhere, or nobody named it."""
    command: tuple[str, ...]
    """The launcher's command line; empty without a launcher."""
    table: ProcTable
    """The ranks that live, those on other hosts too as far as the launcher names them."""
    hosts: tuple[str, ...]
    """The job's hosts as the launcher names them, those with the least ranks first. A job on
    this host alone has this host's own name here, whatever the launcher calls it. Without a
    table of all ranks they are this host and those that daemons were started on, which leaves
    out what Slurm started: for a :attr:`slurm_job` Slurm itself must be asked too."""
    selector: str
    """What :func:`pgdb.jobs.environment_scan.scan` finds the ranks by on any of the hosts; empty
    where nothing does."""
    slurm_job: str
    """The Slurm job that the launcher or the ranks run in, such as ``17``; else empty."""
    steps: tuple[DiscoveryStep, ...]
    """What was tried, the rung that found the ranks last."""
    job_size: int | None
    """Number of ranks in MPI_COMM_WORLD; None where nothing tells it."""
    local_ranks: RankSet
    """The ranks in the table that run on this host, whatever name the launcher has for it."""
    ended: RankSet
    """Ranks of this host whose process has ended; they are not in the table."""


def find_job(target: int | str, *, pmix: PmixQuery | None = None) -> FoundJob:
    """Find the job of process *target*: a launcher, a wrapper around it, or inside of a rank.

    *pmix* asks a launcher of Open MPI 5 (:func:`pgdb.frontend.discovery.pmix.query_job` if not
    given). It is no error if all ranks run on other hosts, or are only known by
    :attr:`FoundJob.selector`.

    :raises DiscoveryError: if no rank was found; the text says what was tried.
    """
    stat = _process(target)
    processes = Processes()
    steps: list[DiscoveryStep] = []
    launcher, rank_pid = _resolve(stat, processes, steps)
    if launcher:
        try:
            job = _of_launcher(launcher, processes, steps, pmix)
        except DiscoveryError as error:
            if not rank_pid or processes.environment(launcher) is None:
                raise
            steps.append(DiscoveryStep("launcher", str(error)))
        else:
            if not rank_pid or any(each.pid == rank_pid for each in job.table.processes):
                return job
            # It was started with MPI_Comm_spawn, or the launcher only listens on the same port
            # as the rank's own does on another host.
            steps[:] = job.steps
            outcome = f"{processes.describe(launcher)} has no rank with the pid {rank_pid}"
            steps.append(DiscoveryStep("launcher", outcome))
    return _of_rank(rank_pid, launcher, processes, steps)


def _process(target: int | str) -> ProcessStat:
    """Return the living process that the user means."""
    text = str(target)
    if not (text.isascii() and text.isdecimal()):
        raise DiscoveryError(f"{text!r} is no pid; {_GIVE_LAUNCHER}")
    stat = procfs.read_stat(int(text))
    if stat is None:
        raise DiscoveryError(
            f"there is no process {text} on {os.uname().nodename}; {_GIVE_LAUNCHER}"
        )
    if stat.has_ended:
        raise DiscoveryError(f"{stat.comm} {text} has ended, and its job with it")
    if stat.is_kernel_thread:
        raise DiscoveryError(f"{text} ({stat.comm}) is a thread of the kernel; {_GIVE_LAUNCHER}")
    return stat


def _resolve(
    stat: ProcessStat, processes: Processes, steps: list[DiscoveryStep]
) -> tuple[int, int]:
    """Return the launcher that the user means by a pid, and the rank, each 0 if there is none.

    The rank is the one whose job is wanted: that around the pid, or the first one below it.
    """
    pid = stat.pid
    if processes.is_launcher(pid):
        # Open MPI starts its daemons with srun in a Slurm job; the ranks are mpirun's.
        if environment_scan.starts_daemons(pid) and (launcher := _launcher_above(pid, processes)):
            return launcher, 0
        # srun's twin, which forwards its signals, has an empty table: its parent has the ranks.
        return (stat.ppid if _is_twin(pid, stat.ppid, processes) else pid), 0
    own = processes.identity(pid)

    def is_no_rank(each: int) -> bool:
        identity = processes.identity(each)
        return not processes.is_launcher(each) and (identity is None or identity == own)

    launchers = [
        each
        for each in processes.below(pid, is_no_rank)
        if processes.is_launcher(each) and not _is_of_overlay(each)
    ]
    if len(launchers) > 1:
        names = _listed([processes.describe(each) for each in launchers])
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has several launchers below it: {names}; give one"
        )
    if launchers:
        return launchers[0], 0
    if own is not None and not processes.is_daemon(pid):
        rank_pid = processes.rank_pid(pid)
        what = f"{pid} is rank {own.rank}"
        if rank_pid != pid:
            what = f"{pid} ({stat.comm}) runs inside rank {own.rank} (pid {rank_pid})"
        return _launcher_of(pid, rank_pid, what, processes, steps), rank_pid
    # Below one that we do not know by name there may still be ranks.
    groups = environment_scan.scan_below(pid, processes)
    if not groups:
        denied = procfs.why_not_traceable(pid) if processes.environment(pid) is None else None
        raise DiscoveryError(
            f"{pid} ({stat.comm}) is no MPI launcher and no process below it has a rank's "
            f"environment; {denied or _GIVE_LAUNCHER}"
        )
    first = groups[0].processes[0].pid
    if processes.is_daemon(pid) or _launcher_above(pid, processes):
        what = f"{pid} ({stat.comm}) has ranks below it"
        return _launcher_of(pid, first, what, processes, steps), first
    if len(groups) > 1:
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has ranks of {len(groups)} jobs below it and none of "
            f"their launchers; {_GIVE_LAUNCHER}"
        )
    if launcher := _owner_of_ports(first, processes):
        what = f"{pid} ({stat.comm}) has ranks below it"
        steps.append(DiscoveryStep("launcher", f"{what}, of {processes.describe(launcher)}"))
        return launcher, first
    outcome = f"{processes.describe(pid)} is no launcher PGDB knows; looked for ranks below it"
    steps.append(DiscoveryStep("launcher", outcome))
    return pid, 0


def _launcher_of(
    pid: int, rank_pid: int, what: str, processes: Processes, steps: list[DiscoveryStep]
) -> int:
    """Return the launcher that process *pid* of rank *rank_pid* belongs to, 0 if it is not here."""
    launcher = _launcher_above(pid, processes) or _owner_of_ports(rank_pid, processes)
    whose = (
        f"of the job of {processes.describe(launcher)}"
        if launcher
        else "of a job whose launcher is not on this host or has ended"
    )
    steps.append(DiscoveryStep("launcher", f"{what} {whose}"))
    return launcher


def _launcher_above(pid: int, processes: Processes) -> int:
    return next((each for each in processes.above(pid) if processes.is_launcher(each)), 0)


def _owner_of_ports(pid: int, processes: Processes) -> int:
    """Return the launcher of this host that listens where rank *pid* reports to, 0 if none."""
    ports = environment_scan.launcher_ports(processes.environment(pid) or {})
    for each in processes.parent_of if ports else ():
        if processes.is_launcher(each) and procfs.on_this_host(each):
            listening = procfs.listening_ports(each)
            if listening and not listening.isdisjoint(ports):
                return each
    return 0


def _is_of_overlay(pid: int) -> bool:
    """Return whether a launcher runs aggregators of PGDB's."""
    return "pgdb.backend" in (procfs.command_line(pid) or [])


def _is_twin(pid: int, parent: int, processes: Processes) -> bool:
    """Return whether *pid* is a fork of launcher *parent*, and no launcher run as a rank."""
    path = procfs.executable(pid)
    return (
        path is not None
        and path == procfs.executable(parent)
        and processes.identity(pid) == processes.identity(parent)
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def _count(ranks: int) -> str:
    return f"{ranks} rank" if ranks == 1 else f"{ranks} ranks"


class _Rung(msgspec.Struct, frozen=True):
    """What came of one rung that gives a table of all ranks."""

    step: DiscoveryStep
    table: MpirTable | None = None
    source: str = ""
    has_no_symbol: bool = False
    """Whether the table, if there is one, must be found by what it looks like."""


def _of_launcher(
    launcher: int, processes: Processes, steps: list[DiscoveryStep], pmix: PmixQuery | None
) -> FoundJob:
    """Climb the ladder for a launcher of this host.

    :raises DiscoveryError: if the job has ended, or no rung tells where its ranks are.
    """
    if processes.environment(launcher) is None and (why := procfs.why_not_traceable(launcher)):
        raise DiscoveryError(f"the job of {processes.describe(launcher)} cannot be debugged: {why}")
    rung = _by_symbol(launcher, processes)
    steps.append(rung.step)
    if rung.has_no_symbol:
        rung = _by_structure(launcher, processes)
        steps.append(rung.step)
    # Open MPI 5's launcher does not notice that a PMIx tool has left, and ends the later for each
    # (see pgdb.frontend.discovery.pmix): it is asked only where nothing else leads to all of its
    # ranks.
    if rung.table is None and _has_pmix(launcher) and not _scan_will_do(launcher, processes):
        rung = _by_pmix(launcher, processes, pmix)
        steps.append(rung.step)
    if rung.table is not None:
        return _from_table(rung, launcher, processes, steps)
    return _from_scan(launcher, processes, steps)


def _scan_will_do(launcher: int, processes: Processes) -> bool:
    """Return whether a scan here finds all ranks, or it is known where else to scan."""
    groups = environment_scan.scan_below(launcher, processes)
    if environment_scan.remote_hosts(launcher, processes) or _slurm_job(launcher, 0, processes):
        return bool(groups) or bool(_selector_of_launcher(launcher, processes))
    if not groups:
        return False
    group = groups[0]
    ranks = RankSet(each.rank for each in group.processes)
    ended = _missing(group.processes[0].pid, ranks, processes)
    return group.size is not None and len(ranks) + len(ended) == group.size


def _by_symbol(launcher: int, processes: Processes) -> _Rung:
    name = "MPIR_proctable by symbol"
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
            who = processes.describe(pid)
            step = DiscoveryStep(name, f"{who} lists {_count(table.size)}")
            return _Rung(step=step, table=table, source=f"MPIR_proctable of {who}")
    return _Rung(step=DiscoveryStep(name, outcome), has_no_symbol=has_no_symbol)


def _by_structure(launcher: int, processes: Processes) -> _Rung:
    name = "MPIR_proctable by structure"
    try:
        table = mpir.search_proctable(launcher)
    except DiscoveryError as error:
        return _Rung(step=DiscoveryStep(name, str(error)))
    who = processes.describe(launcher)
    if not processes.is_launcher(launcher) and not any(
        _is_here(each, table.size, processes) for each in table.processes
    ):
        # In Python's own tables of words there is all that a table of one rank elsewhere has.
        outcome = f"{who} is no launcher, and what looks like a table names nobody on this host"
        return _Rung(step=DiscoveryStep(name, outcome))
    step = DiscoveryStep(name, f"the memory of {who} has a table of {_count(table.size)}")
    return _Rung(step=step, table=table, source=f"table of ranks in the memory of {who}")


def _has_pmix(launcher: int) -> bool:
    return os.path.basename(procfs.executable(launcher) or "") in ("prterun", "prte")


def _by_pmix(launcher: int, processes: Processes, pmix: PmixQuery | None) -> _Rung:
    if pmix is None:
        from pgdb.frontend.discovery.pmix import query_job

        pmix = query_job
    who = processes.describe(launcher)
    try:
        members = tuple(sorted(pmix(launcher), key=lambda each: each.rank))
    except DiscoveryError as error:
        return _Rung(step=DiscoveryStep("PMIx", str(error)))
    if not members:
        return _Rung(step=DiscoveryStep("PMIx", f"{who} names no rank"))
    step = DiscoveryStep("PMIx", f"{who} names {_count(len(members))}")
    # PMIx leaves out the ranks that have ended.
    identities = (processes.identity(each.pid) for each in members)
    sizes = [each.size for each in identities if each is not None and each.size is not None]
    table = MpirTable(processes=members, size=max(members[-1].rank + 1, *sizes[:1]))
    return _Rung(step=step, table=table, source=f"PMIx server of {who}")


def _from_table(
    rung: _Rung, launcher: int, processes: Processes, steps: list[DiscoveryStep]
) -> FoundJob:
    """Sort the entries of a launcher's table by where they are and whether they live.

    :raises DiscoveryError: if none of them is left.
    """
    assert rung.table is not None
    here = os.uname().nodename
    below = set(processes.below(launcher))
    kept: list[RankProcess] = []
    local: dict[int, int] = {}
    ended: list[int] = []
    unborn: list[int] = []
    names: dict[str, None] = {}
    for entry in rung.table.processes:
        # No other host could do anything with the name localhost.
        host = here if entry.host in mpir.LOOPBACK else entry.host
        names[host] = None
        if entry.pid == 0:
            # PMIx's word for a rank whose host has not reported yet; a scan there finds it.
            unborn.append(entry.rank)
        elif not _is_here(entry, rung.table.size, processes):
            kept.append(entry)
        elif _lives(entry, below, processes):
            local[entry.rank] = entry.pid
            # The table names what the launcher was told to start, the kernel what runs now.
            path = procfs.executable(entry.pid) or entry.executable
            kept.append(RankProcess(rank=entry.rank, host=host, pid=entry.pid, executable=path))
        else:
            ended.append(entry.rank)
    if not kept:
        raise DiscoveryError(
            f"the job of {processes.describe(launcher)} has ended: of its "
            f"{_count(rung.table.size)} none is left on {here}"
        )
    is_alone = len(local) == len(kept) and len(names) == 1
    rank_pid = next(iter(local.values()), 0)
    missing = _missing(rank_pid, RankSet(unborn) | RankSet(each.rank for each in kept), processes)
    return _job(
        launcher,
        rank_pid,
        processes,
        steps,
        table=ProcTable(processes=tuple(kept), source=rung.source),
        hosts=(here,) if is_alone else tuple(names),
        job_size=rung.table.size,
        local_ranks=RankSet(local),
        ended=RankSet(ended) | missing,
    )


def _is_here(entry: RankProcess, size: int, processes: Processes) -> bool:
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
        and procfs.on_this_host(entry.pid)
    )


def _lives(entry: RankProcess, below: set[int], processes: Processes) -> bool:
    """Return whether the rank's process still runs, and is not another one with its pid."""
    if processes.has_ended(entry.pid):
        return False
    environment = processes.environment(entry.pid)
    if entry.pid in below or environment is None:
        return True
    identity = processes.identity(entry.pid)
    # A rank may have been started with an environment of its own (env -i).
    parent = processes.parent_of.get(entry.pid, 0)
    return (identity is not None and identity.rank == entry.rank) or processes.is_daemon(parent)


def _from_scan(launcher: int, processes: Processes, steps: list[DiscoveryStep]) -> FoundJob:
    """Take the ranks that the launcher has here, and the hosts where it started daemons.

    :raises DiscoveryError: if there are neither.
    """
    groups = environment_scan.scan_below(launcher, processes)
    hosts = environment_scan.remote_hosts(launcher, processes)
    who = processes.describe(launcher)
    source = f"environment of the ranks of {who}"
    if groups:
        steps.append(_scan_step(groups[0], f"of {who}", len(groups) - 1, hosts))
        hosts = (os.uname().nodename, *hosts)
        return _from_group(groups[0], launcher, processes, steps, source=source, hosts=hosts)
    outcome = _why_no_rank(launcher, processes)
    if hosts:
        outcome += f", but it started daemons on {_listed(hosts)}"
    steps.append(DiscoveryStep("environment", outcome))
    # In a Slurm job srun starts the daemons, and only Slurm knows on which hosts.
    is_elsewhere = bool(hosts or _slurm_job(launcher, 0, processes))
    if not is_elsewhere or not _selector_of_launcher(launcher, processes):
        raise DiscoveryError(_nothing_found(launcher, processes, steps))
    group = RankGroup(key="", size=None, processes=())
    return _from_group(group, launcher, processes, steps, source=source, hosts=hosts)


def _of_rank(
    rank_pid: int, launcher: int, processes: Processes, steps: list[DiscoveryStep]
) -> FoundJob:
    """Find the ranks of this host that are of one job with a rank.

    :raises DiscoveryError: if nothing tells which those are.
    """
    identity = processes.identity(rank_pid)
    groups = environment_scan.scan(processes.selector(rank_pid))
    group = next((g for g in groups if any(each.pid == rank_pid for each in g.processes)), None)
    if group is None or identity is None:
        raise DiscoveryError(
            f"{steps[-1].outcome}, and nothing in its environment tells which other processes "
            f"are of that job; {_GIVE_PIDS}"
        )
    whose = f"of one job with rank {identity.rank} (pid {rank_pid})"
    steps.append(_scan_step(group, whose, 0, ()))
    return _from_group(
        group,
        launcher if launcher in processes.above(rank_pid) else 0,
        processes,
        steps,
        source=f"environment of the ranks {whose}",
        hosts=(os.uname().nodename,),
    )


def _from_group(
    group: RankGroup,
    launcher: int,
    processes: Processes,
    steps: list[DiscoveryStep],
    *,
    source: str,
    hosts: tuple[str, ...],
) -> FoundJob:
    table = ProcTable(processes=group.processes, source=source)
    rank_pid = group.processes[0].pid if group.processes else 0
    return _job(
        launcher,
        rank_pid,
        processes,
        steps,
        table=table,
        hosts=hosts,
        job_size=group.size,
        local_ranks=table.ranks,
        ended=_missing(rank_pid, table.ranks, processes),
    )


def _job(
    launcher: int,
    rank_pid: int,
    processes: Processes,
    steps: list[DiscoveryStep],
    *,
    table: ProcTable,
    hosts: tuple[str, ...],
    job_size: int | None,
    local_ranks: RankSet,
    ended: RankSet,
) -> FoundJob:
    """Add what the launcher, or else one rank of this host, tells about the whole job."""
    return FoundJob(
        launcher_pid=launcher,
        command=tuple(procfs.command_line(launcher) or ()) if launcher else (),
        table=table,
        hosts=hosts,
        selector=(
            processes.selector(rank_pid) if rank_pid else _selector_of_launcher(launcher, processes)
        ),
        slurm_job=_slurm_job(launcher, rank_pid, processes),
        steps=tuple(steps),
        job_size=job_size,
        local_ranks=local_ranks,
        ended=ended,
    )


def _scan_step(group: RankGroup, whose: str, others: int, hosts: tuple[str, ...]) -> DiscoveryStep:
    here = len(group.processes)
    outcome = f"{_count(here)} {whose}"
    if group.size is not None and here < group.size:
        outcome += f", {group.size - here} of {group.size} not on this host or ended"
    if hosts:
        outcome += f"; it started daemons on {_listed(hosts)}"
    if others:
        outcome += f"; left out: {others} more started with MPI_Comm_spawn"
    return DiscoveryStep("environment", outcome)


def _missing(rank_pid: int, ranks: RankSet, processes: Processes) -> RankSet:
    """Return which ranks are not among *ranks*; known only where all were started on this host."""
    identity = processes.identity(rank_pid)
    if identity is None or identity.size is None or identity.local_size != identity.size:
        return RankSet()
    return RankSet.range(0, identity.size) - ranks


def _selector_of_launcher(launcher: int, processes: Processes) -> str:
    """Return what finds the ranks of a launcher that has none on this host, as far as it tells.

    Intel's tells the job's key to its ranks alone.
    """
    if _has_pmix(launcher):
        # The name that PRRTE makes for the first job of its own: prterun-HOST-PID@1.
        return f"key:prterun-{os.uname().nodename}-{launcher}@1"
    if step := mpir.read_slurm_step(launcher):
        return f"slurm:{step}"
    for pid in processes.children(launcher):
        words = procfs.command_line(pid) or []
        if selector := environment_scan.proxy_selector(words):
            return selector
        # Open MPI 4 gives numbers to its jobs: the daemons are one, the ranks the next.
        if "orte_hnp_uri" in words[:-1]:
            uri = words[words.index("orte_hnp_uri") + 1].strip('"')
            job = uri.partition(".")[0]
            return f"key:{uri} {int(job) + 1}" if job.isdecimal() else ""
    return ""


def _slurm_job(launcher: int, rank_pid: int, processes: Processes) -> str:
    for pid in (launcher, rank_pid):
        if pid and (job := (processes.environment(pid) or {}).get("SLURM_JOB_ID")):
            return job
    # An srun outside of any allocation makes one of its own, and tells debuggers alone.
    return mpir.read_slurm_step(launcher).partition(".")[0] if launcher else ""


def _why_no_rank(launcher: int, processes: Processes) -> str:
    below = list(processes.below(launcher))
    ended = sum(processes.has_ended(pid) for pid in below)
    unread = sum(
        processes.environment(pid) is None for pid in below if not processes.has_ended(pid)
    )
    return (
        f"no process of {processes.describe(launcher)} has a rank's environment"
        + (f"; {unread} could not be read" if unread else "")
        + (f"; {ended} below it have ended" if ended else "")
    )


def _nothing_found(launcher: int, processes: Processes, steps: list[DiscoveryStep]) -> str:
    below = list(processes.below(launcher))
    who = processes.describe(launcher)
    if below and all(processes.has_ended(pid) for pid in below):
        return f"the job of {who} has ended: all processes below it are gone"
    tried = "; ".join(f"{step.name}: {step.outcome}" for step in steps)
    return f"no rank of {who} was found on {os.uname().nodename}: {tried}; {_GIVE_PIDS}"
