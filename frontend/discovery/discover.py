"""Search for the ranks of a running job from one of its pids.

The steps, best first: the launcher's MPIR_proctable by its symbol, the same table by its
structure in memory, Open MPI 5's answer through PMIx, and the environment that the launcher gave
to its ranks. Each step records its outcome. The search stops, starts and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import structs

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir, tables, worlds
from pgdb.frontend.discovery.found_job import (
    FoundJob,
    PmixQuery,
    Search,
    count,
    listed,
)
from pgdb.frontend.discovery.mpir import MpirTable
from pgdb.frontend.discovery.pid_meaning import living_process, meaning
from pgdb.frontend.discovery.tables import Attempt
from pgdb.frontend.discovery.torch_limits import hold_limit
from pgdb.frontend.discovery.torch_scripts import starts_torch
from pgdb.frontend.discovery.worlds import ALL_WORLDS, worlds_of
from pgdb.jobs import environment_scan, procfs, world_keys
from pgdb.jobs.environment_scan import RankGroup
from pgdb.jobs.processes import Processes, proxy_selector
from pgdb.jobs.thread_states import has_lost_first_thread
from pgdb.jobs.tracing_rights import why_not_traceable
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet

_GIVE_PIDS = "give the pids of its ranks with --pids"
_BY_START = (
    "the processes of torch.multiprocessing.spawn are numbered in the order of their start, since "
    "nothing outside of the program names their ranks; --pids P0,P1,… sets another order"
)


def find_job(target: int | str, *, pmix: PmixQuery | None = None, world: str = "") -> FoundJob:
    """Find the job of process *target*: a launcher, a wrapper around it, or inside of a rank.

    *pmix* asks a launcher of Open MPI 5 (:func:`pgdb.frontend.discovery.pmix.query_job` if not
    given). It is no error if all ranks run on other hosts, or are only known by
    :attr:`FoundJob.selector`. *world* names the ranks of one MPI_COMM_WORLD of the launcher by a
    number, 0 for those that it has started itself, or all of them.

    :raises DiscoveryError: if no rank was found; the message lists the steps.
    """
    stat = living_process(target)
    search = Search()
    processes = search.processes
    launcher, rank_pid = meaning(stat, search)
    if world:
        return _of_world(world, launcher, search)
    job = _of_target(launcher, rank_pid, search, pmix)
    return _with_worlds(job, launcher, processes)


def _of_target(launcher: int, rank_pid: int, search: Search, pmix: PmixQuery | None) -> FoundJob:
    processes = search.processes
    if not launcher:
        return _of_rank(rank_pid, launcher, search)
    try:
        job = _of_launcher(launcher, search, pmix)
    except DiscoveryError as error:
        if not rank_pid or processes.environment(launcher) is None:
            raise
        search.note("launcher", str(error))
    else:
        if not rank_pid or any(each.pid == rank_pid for each in job.table.processes):
            return job
        # The rank was started with MPI_Comm_spawn, or the launcher listens on the same port as
        # the rank's own launcher does on another host.
        outcome = f"{processes.describe(launcher)} has no rank with the pid {rank_pid}"
        search.note("launcher", outcome)
    return _of_rank(rank_pid, launcher, search)


def _with_worlds(job: FoundJob, launcher: int, processes: Processes) -> FoundJob:
    in_session = {each.pid: each.rank for each in job.table.processes}
    return structs.replace(job, worlds=worlds_of(launcher, in_session, processes))


def _of_world(world: str, launcher: int, search: Search) -> FoundJob:
    """Return the ranks of one world of a launcher, or those of all.

    The ranks of further worlds are numbered on behind those of the worlds before. If the launcher
    has daemons on other hosts, these are searched later.

    :raises DiscoveryError: if there is no such world.
    """
    processes = search.processes
    if not launcher:
        raise DiscoveryError("--world needs the job's launcher, which is not on this host")
    who = processes.describe(launcher)
    what = "all worlds" if world == ALL_WORLDS else f"world {world}"
    source = f"environment of the ranks of {what} of {who}"
    groups = environment_scan.scan_below(launcher, processes)
    others = environment_scan.remote_hosts(launcher, processes)
    family = family_below(launcher, groups, processes)
    if family and (others or _slurm_job(launcher, 0, processes)):
        search.note("environment", f"{what} of {who} may be on {listed(others) or 'other hosts'}")
        job = _from_group(
            RankGroup(key="", size=None, processes=()),
            launcher,
            search,
            source=source,
            hosts=(*([os.uname().nodename] if groups else []), *others),
        )
        return structs.replace(job, selector=world_keys.ALL + family, world=world, ended=RankSet())
    found = worlds.chosen(worlds.assemble([worlds.parts_of(groups)]), world, who)
    joined = worlds.processes_of(found)
    group = RankGroup(key="", size=len(joined), processes=joined)
    search.note("environment", f"{count(len(joined))} of {what} of {who}")
    here = (os.uname().nodename,)
    job = _from_group(group, launcher, search, source=source, hosts=here)
    job = structs.replace(job, ended=RankSet())
    return _with_worlds(job, launcher, processes)


def family_below(launcher: int, groups: Sequence[RankGroup], processes: Processes) -> str:
    """Return what all worlds of a launcher have in common on all hosts, empty if unknown."""
    selectors = (*(each.key for each in groups), _selector_of_launcher(launcher, processes))
    return next(filter(None, map(world_keys.family_of, selectors)), "")


def world_places(launcher: int) -> tuple[str, tuple[str, ...]]:
    """Return what all worlds of a launcher of this host have in common, and the hosts of them.

    The launcher's daemons on other hosts start the ranks there. Slurm's start them in a Slurm job,
    on hosts that this does not name.
    """
    processes = Processes()
    groups = environment_scan.scan_below(launcher, processes)
    hosts = environment_scan.remote_hosts(launcher, processes)
    here = (os.uname().nodename,) if groups else ()
    return family_below(launcher, groups, processes), (*here, *hosts)


def _of_launcher(launcher: int, search: Search, pmix: PmixQuery | None) -> FoundJob:
    """Take the steps for a launcher of this host until one finds ranks.

    :raises DiscoveryError: if the job has ended, or no step finds its ranks.
    """
    processes = search.processes
    if processes.environment(launcher) is None and (why := why_not_traceable(launcher)):
        raise DiscoveryError(f"the job of {processes.describe(launcher)} cannot be debugged: {why}")
    if not processes.is_launcher(launcher):
        groups = environment_scan.scan_below(launcher, processes)
        if groups and groups[0].torch:
            return _from_scan(launcher, search)
    for attempt in tables.of_mpir(launcher, processes):
        search.steps.append(attempt.step)
        if attempt.table is not None:
            return _torch_job(_from_table(attempt, attempt.table, launcher, search), search)
    # Open MPI 5's launcher does not notice that a PMIx tool has left, and ends the later for each
    # (see pgdb.frontend.discovery.pmix): it is asked only if nothing else leads to all its ranks.
    if tables.has_pmix(launcher) and not _scan_will_do(launcher, processes):
        attempt = tables.by_pmix(launcher, processes, pmix)
        search.steps.append(attempt.step)
        if attempt.table is not None:
            return _torch_job(_from_table(attempt, attempt.table, launcher, search), search)
    return _from_scan(launcher, search)


def _torch_job(job: FoundJob, search: Search) -> FoundJob:
    """Return the job of PyTorch's workers if the ranks of *job* on this host are agents of it."""
    processes = search.processes
    if not job.local_ranks and starts_torch(job.launcher_pid):
        return _of_agents_elsewhere(job, search)
    here = [each.pid for each in job.table.processes if each.rank in job.local_ranks]
    workers = environment_scan.with_torch_workers(here, processes)
    groups = [each for each in environment_scan.by_job(workers, processes) if each.torch]
    if workers == here or not groups:
        return job
    who = processes.describe(job.launcher_pid)
    _note_scan(search, groups[0], f"of PyTorch below {who}", len(groups) - 1, job.hosts[1:])
    found = _from_group(
        _whole(groups[0]),
        job.launcher_pid,
        search,
        source=f"environment of the workers below {who}",
        hosts=job.hosts,
    )
    return structs.replace(found, slurm_job=job.slurm_job)


def _of_agents_elsewhere(job: FoundJob, search: Search) -> FoundJob:
    """Return a job whose hosts look for the ranks, since a launcher's table has the agents."""
    selector = _selector_of_launcher(job.launcher_pid, search.processes)
    if not selector:
        return job
    who = search.processes.describe(job.launcher_pid)
    search.note("environment", f"{who} starts PyTorch: its hosts look for the workers")
    found = _from_group(
        RankGroup(key="", size=None, processes=()),
        job.launcher_pid,
        search,
        source=f"environment of the workers below {who}",
        hosts=job.hosts,
    )
    return structs.replace(found, slurm_job=job.slurm_job, ended=RankSet())


def _whole(group: RankGroup) -> RankGroup:
    """Return all ranks of this host of a job of PyTorch, which may have several agents."""
    if not group.torch or group.size in (None, len(group.processes)) or not group.key:
        return group
    found = environment_scan.scan(group.key)
    return next((each for each in found if each.key == group.key), group)


def _scan_will_do(launcher: int, processes: Processes) -> bool:
    """Return whether a scan here finds all ranks, or the other hosts to scan are known."""
    groups = environment_scan.scan_below(launcher, processes)
    if environment_scan.remote_hosts(launcher, processes) or _slurm_job(launcher, 0, processes):
        return bool(groups) or bool(_selector_of_launcher(launcher, processes))
    if not groups:
        return False
    group = groups[0]
    ranks = RankSet(each.rank for each in group.processes)
    ended = _missing(group.processes[0].pid, ranks, processes)
    return group.size is not None and len(ranks) + len(ended) == group.size


def _from_table(attempt: Attempt, table: MpirTable, launcher: int, search: Search) -> FoundJob:
    """Sort the entries of a launcher's table by host and by whether the process lives.

    :raises DiscoveryError: if no process is left.
    """
    processes = search.processes
    here = os.uname().nodename
    below = set(processes.below(launcher))
    kept: list[RankProcess] = []
    local: dict[int, int] = {}
    ended: list[int] = []
    unborn: list[int] = []
    names: dict[str, None] = {}
    for entry in table.processes:
        # The name localhost would be useless on other hosts.
        host = here if entry.host in mpir.LOOPBACK else entry.host
        names[host] = None
        if entry.pid == 0:
            # PMIx gives no pid before the rank's host has answered; a scan there finds the rank.
            unborn.append(entry.rank)
        elif not tables.is_here(entry, table.size, processes):
            kept.append(entry)
        elif _lives(entry, below, processes):
            local[entry.rank] = entry.pid
            # The table names the program on the launcher's line, the kernel the running one.
            path = procfs.executable(entry.pid) or entry.executable
            kept.append(RankProcess(rank=entry.rank, host=host, pid=entry.pid, executable=path))
        else:
            ended.append(entry.rank)
    if not kept:
        raise DiscoveryError(
            f"the job of {processes.describe(launcher)} has ended: of its "
            f"{count(table.size)} none is left on {here}"
        )
    is_alone = len(local) == len(kept) and len(names) == 1
    rank_pid = next(iter(local.values()), 0)
    missing = _missing(rank_pid, RankSet(unborn) | RankSet(each.rank for each in kept), processes)
    return _job(
        launcher,
        rank_pid,
        search,
        table=ProcTable(processes=tuple(kept), source=attempt.source),
        hosts=(here,) if is_alone else tuple(names),
        job_size=table.size,
        local_ranks=RankSet(local),
        ended=RankSet(ended) | missing,
        headless=RankSet(
            each.rank
            for each in table.processes
            if each.rank in ended and has_lost_first_thread(each.pid)
        ),
    )


def _lives(entry: RankProcess, below: set[int], processes: Processes) -> bool:
    """Return whether the rank's process still runs, and the pid is not that of another one."""
    if processes.has_ended(entry.pid):
        return False
    environment = processes.environment(entry.pid)
    if entry.pid in below or environment is None:
        return True
    identity = processes.identity(entry.pid)
    # A rank may have an environment of its own (env -i).
    parent = processes.parent_of.get(entry.pid, 0)
    return (identity is not None and identity.rank == entry.rank) or processes.is_daemon(parent)


def _from_scan(launcher: int, search: Search) -> FoundJob:
    """Use the launcher's ranks on this host, and the hosts where it started daemons.

    :raises DiscoveryError: if there are neither.
    """
    processes = search.processes
    groups = environment_scan.scan_below(launcher, processes)
    hosts = environment_scan.remote_hosts(launcher, processes)
    who = processes.describe(launcher)
    source = f"environment of the ranks of {who}"
    if groups:
        group = _whole(groups[0])
        _note_scan(search, group, f"of {who}", len(groups) - 1, hosts)
        hosts = (os.uname().nodename, *hosts)
        return _from_group(group, launcher, search, source=source, hosts=hosts)
    outcome = _why_no_rank(launcher, processes)
    if hosts:
        outcome += f", but it started daemons on {listed(hosts)}"
    search.note("environment", outcome)
    # In a Slurm job srun starts the daemons, and only Slurm knows their hosts.
    is_elsewhere = bool(hosts or _slurm_job(launcher, 0, processes))
    if not is_elsewhere or not _selector_of_launcher(launcher, processes):
        raise DiscoveryError(_nothing_found(launcher, search))
    group = RankGroup(key="", size=None, processes=())
    return _from_group(group, launcher, search, source=source, hosts=hosts)


def _of_rank(rank_pid: int, launcher: int, search: Search) -> FoundJob:
    """Find the ranks of this host that belong to the job of a rank.

    :raises DiscoveryError: if the environment does not identify the job.
    """
    processes = search.processes
    identity = processes.identity(rank_pid)
    groups = environment_scan.scan(processes.selector(rank_pid))
    group = next((g for g in groups if any(each.pid == rank_pid for each in g.processes)), None)
    if group is None or identity is None:
        raise DiscoveryError(
            f"{search.steps[-1].outcome}, and its environment does not identify the other "
            f"processes of that job; {_GIVE_PIDS}"
        )
    whose = f"of one job with rank {identity.rank} (pid {rank_pid})"
    _note_scan(search, group, whose, 0, ())
    return _from_group(
        group,
        launcher if launcher in processes.above(rank_pid) else 0,
        search,
        source=f"environment of the ranks {whose}",
        hosts=(os.uname().nodename,),
    )


def _from_group(
    group: RankGroup,
    launcher: int,
    search: Search,
    *,
    source: str,
    hosts: tuple[str, ...],
) -> FoundJob:
    table = ProcTable(processes=group.processes, source=source)
    rank_pid = group.processes[0].pid if group.processes else 0
    job = _job(
        launcher,
        rank_pid,
        search,
        table=table,
        hosts=hosts,
        job_size=group.size,
        local_ranks=table.ranks,
        ended=_missing(rank_pid, table.ranks, search.processes),
    )
    if not group.torch:
        return job
    limit_s, note = hold_limit(rank_pid, search.processes)
    notes = (note, _BY_START) if group.torch == "spawn" else (note,)
    return structs.replace(job, notes=notes, hold_limit_s=limit_s)


def _job(
    launcher: int,
    rank_pid: int,
    search: Search,
    *,
    table: ProcTable,
    hosts: tuple[str, ...],
    job_size: int | None,
    local_ranks: RankSet,
    ended: RankSet,
    headless: RankSet = RankSet(),
) -> FoundJob:
    """Add the properties of the whole job that the launcher, or else a rank of this host, has."""
    processes = search.processes
    return FoundJob(
        launcher_pid=launcher,
        command=tuple(procfs.command_line(launcher) or ()) if launcher else (),
        table=table,
        hosts=hosts,
        selector=(
            processes.selector(rank_pid) if rank_pid else _selector_of_launcher(launcher, processes)
        ),
        slurm_job=_slurm_job(launcher, rank_pid, processes),
        steps=tuple(search.steps),
        job_size=job_size,
        local_ranks=local_ranks,
        ended=ended,
        headless=headless,
    )


def _note_scan(
    search: Search, group: RankGroup, whose: str, others: int, hosts: tuple[str, ...]
) -> None:
    here = len(group.processes)
    outcome = f"{count(here)} {whose}"
    if group.size is not None and here < group.size:
        outcome += f", {group.size - here} of {group.size} not on this host or ended"
    if hosts:
        outcome += f"; it started daemons on {listed(hosts)}"
    if others:
        outcome += f"; left out: {others} more " + (
            "jobs of PyTorch" if group.torch else "started with MPI_Comm_spawn"
        )
    search.note("environment", outcome)


def _missing(rank_pid: int, ranks: RankSet, processes: Processes) -> RankSet:
    """Return the ranks that are not in *ranks*; empty unless all were started on this host."""
    identity = processes.identity(rank_pid)
    if identity is None or identity.size is None or identity.local_size != identity.size:
        return RankSet()
    return RankSet.range(0, identity.size) - ranks


def _selector_of_launcher(launcher: int, processes: Processes) -> str:
    """Return the selector for a launcher without ranks on this host, empty if unknown.

    Intel's launcher gives the job's key only to its ranks.
    """
    if tables.has_pmix(launcher):
        # PRRTE names its first job prterun-HOST-PID@1.
        return f"key:prterun-{os.uname().nodename}-{launcher}@1"
    if step := mpir.read_slurm_step(launcher):
        return f"slurm:{step}"
    for pid in processes.children(launcher):
        words = procfs.command_line(pid) or []
        if selector := proxy_selector(words):
            return selector
        # Open MPI 4 numbers its jobs: the daemons are one, the ranks the next.
        if "orte_hnp_uri" in words[:-1]:
            uri = words[words.index("orte_hnp_uri") + 1].strip('"')
            job = uri.partition(".")[0]
            return f"key:{uri} {int(job) + 1}" if job.isdecimal() else ""
    return ""


def _slurm_job(launcher: int, rank_pid: int, processes: Processes) -> str:
    for pid in (launcher, rank_pid):
        if pid and (job := (processes.environment(pid) or {}).get("SLURM_JOB_ID")):
            return job
    # An srun outside of any allocation makes one of its own, and names it only to debuggers.
    return mpir.read_slurm_step(launcher).partition(".")[0] if launcher else ""


def _why_no_rank(launcher: int, processes: Processes) -> str:
    below = list(processes.below(launcher))
    ended = sum(processes.has_ended(pid) for pid in below)
    unread = [
        pid for pid in below if not processes.has_ended(pid) and processes.environment(pid) is None
    ]
    why = next(filter(None, map(why_not_traceable, unread)), "")
    return (
        f"no process of {processes.describe(launcher)} has a rank's environment"
        + (f"; {len(unread)} could not be read" if unread else "")
        + (f" ({why})" if why else "")
        + (f"; {ended} below it have ended" if ended else "")
    )


def _nothing_found(launcher: int, search: Search) -> str:
    processes = search.processes
    below = list(processes.below(launcher))
    who = processes.describe(launcher)
    if below and all(processes.has_ended(pid) for pid in below):
        return f"the job of {who} has ended: all processes below it are gone"
    tried = "; ".join(f"{step.name}: {step.outcome}" for step in search.steps)
    return f"no rank of {who} was found on {os.uname().nodename}: {tried}; {_GIVE_PIDS}"
