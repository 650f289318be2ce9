"""The launcher and the rank that a user means by a pid."""

from __future__ import annotations

import os

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery.found_job import Search, listed
from pgdb.jobs import environment_scan, procfs
from pgdb.jobs.processes import Processes
from pgdb.jobs.procfs import ProcessStat
from pgdb.jobs.thread_states import LOST_FIRST_THREAD, NO_DEBUGGER, has_lost_first_thread
from pgdb.jobs.tracing_rights import why_not_traceable

_GIVE_LAUNCHER = "give the pid of mpirun, mpiexec, srun or torchrun"


def living_process(target: int | str) -> ProcessStat:
    """Return the living process whose pid is *target*.

    :raises DiscoveryError: if there is none, or it cannot be part of a job.
    """
    text = str(target)
    if not (text.isascii() and text.isdecimal()):
        raise DiscoveryError(f"{text!r} is no pid; {_GIVE_LAUNCHER}")
    stat = procfs.read_stat(int(text))
    if stat is None:
        raise DiscoveryError(
            f"there is no process {text} on {os.uname().nodename}; {_GIVE_LAUNCHER}"
        )
    if has_lost_first_thread(stat.pid):
        raise DiscoveryError(f"{stat.comm} {text} has {LOST_FIRST_THREAD}; {NO_DEBUGGER}")
    if stat.has_ended:
        raise DiscoveryError(f"{stat.comm} {text} has ended, and its job with it")
    if stat.is_kernel_thread:
        raise DiscoveryError(f"{text} ({stat.comm}) is a thread of the kernel; {_GIVE_LAUNCHER}")
    return stat


def meaning(stat: ProcessStat, search: Search) -> tuple[int, int]:
    """Return the launcher and the rank that the user means by a process, each 0 if there is none.

    The rank identifies the job: it contains the process, or is the first one below it.

    :raises DiscoveryError: if no job, or more than one, belongs to the process.
    """
    pid, processes = stat.pid, search.processes
    if processes.is_launcher(pid):
        return _launcher_meant(stat, processes), 0
    own = processes.identity(pid)

    def is_no_rank(each: int) -> bool:
        identity = processes.identity(each)
        return not processes.is_launcher(each) and (identity is None or identity == own)

    launchers = [
        each
        for each in processes.below(pid, is_no_rank)
        if processes.is_launcher(each) and not runs_aggregators(each)
    ]
    if len(launchers) > 1:
        names = listed([processes.describe(each) for each in launchers])
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has several launchers below it: {names}; give one"
        )
    if launchers:
        return launchers[0], 0
    if own is not None and not processes.is_daemon(pid):
        rank_pid = processes.rank_pid(pid)
        if environment_scan.with_torch_workers([rank_pid], processes) != [rank_pid]:
            return _agent_meant(stat, rank_pid, search)
        what = f"{pid} is rank {own.rank}"
        if rank_pid != pid:
            what = f"{pid} ({stat.comm}) runs inside rank {own.rank} (pid {rank_pid})"
        return _launcher_of(pid, rank_pid, what, search), rank_pid
    return _meaning_of_ranks_below(stat, search)


def _agent_meant(stat: ProcessStat, agent: int, search: Search) -> tuple[int, int]:
    """Return the launcher that a process of an agent of PyTorch means: an MPI's, or the agent."""
    processes = search.processes
    launcher = _launcher_above(agent, processes) or _owner_of_ports(agent, processes)
    what = f"{stat.pid} ({stat.comm}) has workers of PyTorch below it"
    search.note("launcher", f"{what}, of {processes.describe(launcher)}" if launcher else what)
    return launcher or agent, 0


def _meaning_of_ranks_below(stat: ProcessStat, search: Search) -> tuple[int, int]:
    """Return launcher and rank for a process with an unknown name, which may start ranks."""
    pid, processes = stat.pid, search.processes
    groups = environment_scan.scan_below(pid, processes)
    if not groups:
        denied = why_not_traceable(pid) if processes.environment(pid) is None else None
        raise DiscoveryError(
            f"{pid} ({stat.comm}) is no MPI launcher and no process below it has a rank's "
            f"environment; {denied or f'{_GIVE_LAUNCHER}, or the pids of the ranks with --pids'}"
        )
    first = groups[0].processes[0].pid
    what = f"{pid} ({stat.comm}) has ranks below it"
    if processes.is_daemon(pid) or _launcher_above(pid, processes):
        return _launcher_of(pid, first, what, search), first
    if len(groups) > 1:
        raise DiscoveryError(
            f"{pid} ({stat.comm}) has ranks of {len(groups)} jobs below it and none of "
            f"their launchers; {_GIVE_LAUNCHER}"
        )
    if launcher := _owner_of_ports(first, processes):
        search.note("launcher", f"{what}, of {processes.describe(launcher)}")
        return launcher, first
    if groups[0].torch:
        outcome = f"{processes.describe(pid)} has workers of PyTorch below it"
    else:
        outcome = f"{processes.describe(pid)} is no launcher PGDB knows; looked for ranks below it"
    search.note("launcher", outcome)
    return pid, 0


def _launcher_meant(stat: ProcessStat, processes: Processes) -> int:
    # Open MPI starts its daemons with srun in a Slurm job; the ranks belong to mpirun.
    if environment_scan.starts_daemons(stat.pid) and (
        above := _launcher_above(stat.pid, processes)
    ):
        return above
    # srun's twin, which forwards its signals, has an empty table: its parent has the ranks.
    return stat.ppid if is_twin(stat.pid, stat.ppid, processes) else stat.pid


def _launcher_of(pid: int, rank_pid: int, what: str, search: Search) -> int:
    """Return the launcher of process *pid* of rank *rank_pid*, 0 if it is not on this host."""
    processes = search.processes
    launcher = _launcher_above(pid, processes) or _owner_of_ports(rank_pid, processes)
    identity = processes.identity(rank_pid)
    if not launcher and identity is not None and identity.torch in ("elastic", "spawn"):
        # The agent, or the program that has called torch.multiprocessing.spawn.
        parent = processes.parent_of.get(rank_pid, 0)
        launcher = parent if parent > 1 else 0
    whose = (
        f"of the job of {processes.describe(launcher)}"
        if launcher
        else "of a job whose launcher is not on this host or has ended"
    )
    search.note("launcher", f"{what} {whose}")
    return launcher


def _launcher_above(pid: int, processes: Processes) -> int:
    return next((each for each in processes.above(pid) if processes.is_launcher(each)), 0)


def _owner_of_ports(pid: int, processes: Processes) -> int:
    """Return this host's launcher that listens on the port that rank *pid* uses, 0 if none."""
    ports = environment_scan.launcher_ports(processes.environment(pid) or {})
    for each in processes.parent_of if ports else ():
        if processes.is_launcher(each) and procfs.on_this_host(each):
            listening = procfs.listening_ports(each)
            if listening and not listening.isdisjoint(ports):
                return each
    return 0


def is_twin(pid: int, parent: int, processes: Processes) -> bool:
    """Return whether *pid* is a fork of launcher *parent*, and not a launcher run as a rank."""
    path = procfs.executable(pid)
    return (
        path is not None
        and path == procfs.executable(parent)
        and processes.identity(pid) == processes.identity(parent)
    )


def runs_aggregators(pid: int) -> bool:
    """Return whether a launcher runs aggregators of PGDB."""
    return "pgdb.backend" in (procfs.command_line(pid) or [])
