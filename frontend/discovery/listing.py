"""The jobs that this host knows: those of its launchers and of PyTorch, the steps of its Slurm.

Launchers are recognized by their names; the listing does nothing that they could notice.
"""

from __future__ import annotations

import logging
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from pgdb.bootstrap_env import WIRE_UP_VARIABLE
from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import discover, mpir, slurm
from pgdb.frontend.discovery.pid_meaning import runs_aggregators
from pgdb.frontend.discovery.torch_listing import TorchJob, torch_jobs
from pgdb.frontend.discovery.torch_scripts import starts_torch
from pgdb.jobs import procfs
from pgdb.jobs.processes import slurm_step
from pgdb.jobs.procfs import ProcessStat
from pgdb.jobs.rank_environment import rank_environment
from pgdb.proctable import RankProcess

_log = logging.getLogger(__name__)

# squeue answers in some 10 ms; with a controller that is down it tries for 9 s (Slurm 22.05).
SLURM_TIMEOUT_S = 2.0
# Time to count ranks. Each count reads all of /proc, which takes long if there are thousands.
COUNTING_S = 0.3


class RunningJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """One job, as ``pgdb jobs`` shows it."""

    target: str
    """Argument for ``pgdb attach``: the launcher's pid, or Slurm's ``JOB`` or ``JOB.STEP``."""
    launcher: str
    """Name of the launcher's program, such as ``mpirun``."""
    command: str
    """The launcher's command line as the user gave it; for a step of Slurm its name."""
    ranks: int | None
    """Number of ranks; None if unknown, or not counted in the available time."""
    hosts: int | None
    """Number of hosts with ranks; None as for :attr:`ranks`."""
    age_s: float
    user: str
    is_ours: bool
    """Whether the job belongs to this user, or this user is root."""
    spawned: tuple[int, ...] = ()
    """Number of ranks on this host of each further job that MPI_Comm_spawn has started."""


def list_jobs() -> tuple[RunningJob, ...]:
    """Return the jobs of all users that this host knows, the youngest first.

    The list omits PGDB's own processes, and launchers that another launcher has started for the
    same job.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        steps = pool.submit(_steps) if slurm.is_available() else None
        launchers = _launchers()
        torch = torch_jobs()
        sizes = {_step_of(each): each.size for each in torch}
        by_srun: dict[int, slurm.Step] = {}
        found = []
        known = steps.result() if steps is not None else ()
        for step in known:
            # A step whose srun runs on this host is listed as that srun's job, or omitted as the
            # daemons of another launcher.
            if mpir.is_this_host(step.srun_host) and procfs.is_alive(step.srun_pid):
                by_srun[step.srun_pid] = step
            else:
                found.append(_of_step(step, sizes))
    found += _of_launchers(launchers, by_srun, sizes)
    targets = {each.target for each in known}
    # The workers of a step are below Slurm's daemon, and the step is in the list.
    found += _of_torch(each for each in torch if _step_of(each) not in targets)
    return tuple(sorted(found, key=lambda job: (job.age_s, job.target)))


def _launchers() -> list[ProcessStat]:
    """Return the launchers of this host that have a job of their own, the youngest first."""
    found: dict[int, ProcessStat] = {}
    for pid in procfs.all_pids():
        # The name is checked first: it is the cheapest to read, and thousands are no launchers.
        if (
            procfs.is_launcher_name(procfs.program_name(pid))
            and (stat := _launcher(pid)) is not None
        ):
            found[pid] = stat
    own = [stat for stat in found.values() if not _is_helper(stat, found)]
    return sorted(own, key=lambda stat: stat.start_time_ticks, reverse=True)


def _launcher(pid: int) -> ProcessStat | None:
    """Return the status of *pid* if it is a launcher; a script of that name is none."""
    stat = procfs.read_stat(pid)
    if stat is None or stat.has_ended or stat.is_kernel_thread or not procfs.on_this_host(pid):
        return None
    path = procfs.executable(pid)
    if path is not None and not procfs.is_launcher_name(os.path.basename(path)):
        return None
    return stat


def _is_helper(stat: ProcessStat, launchers: dict[int, ProcessStat]) -> bool:
    """Return whether a launcher serves another launcher, or PGDB.

    srun has a twin that forwards signals, and mpirun starts its daemons with srun inside a Slurm
    allocation. A launcher that a rank has started has that rank's environment.
    """
    environment = procfs.environment(stat.pid) or {}
    if WIRE_UP_VARIABLE in environment or runs_aggregators(stat.pid):
        return True
    identity = rank_environment(environment)
    return any(
        above in launchers and rank_environment(procfs.environment(above) or {}) == identity
        for above in _above(stat)
    )


def _above(stat: ProcessStat) -> Iterator[int]:
    above: ProcessStat | None = stat
    while above is not None and above.ppid > 0:
        yield above.ppid
        above = procfs.read_stat(above.ppid)


def _of_launchers(
    launchers: Sequence[ProcessStat],
    by_srun: Mapping[int, slurm.Step],
    sizes: Mapping[str, int],
) -> list[RunningJob]:
    until = time.monotonic() + COUNTING_S
    found = []
    for stat in launchers:
        is_ours = os.geteuid() in (0, stat.uid)
        ranks: int | None = None
        hosts: int | None = None
        spawned: tuple[int, ...] = ()
        words = procfs.command_line(stat.pid)
        if not words:
            continue  # it has ended
        if stat.pid in by_srun:
            step = by_srun[stat.pid]
            # The tasks may be agents of PyTorch, and the ranks their workers.
            tasks = None if starts_torch(stat.pid) else step.tasks or None
            ranks, hosts = sizes.get(step.target, tasks), len(step.hosts) or None
        elif is_ours and time.monotonic() < until:
            ranks, hosts, spawned = _count(stat.pid)
        found.append(
            RunningJob(
                target=str(stat.pid),
                launcher=stat.comm,
                command=_command_of(words),
                ranks=ranks,
                hosts=hosts,
                age_s=_age_s(stat),
                user=procfs.user_name(stat.uid),
                is_ours=is_ours,
                spawned=spawned,
            )
        )
    return found


def _of_torch(jobs: Iterable[TorchJob]) -> list[RunningJob]:
    """Return jobs of PyTorch that no launcher of MPI has started."""
    found = []
    for each in jobs:
        stat, words = procfs.read_stat(each.target), procfs.command_line(each.target)
        if stat is None or not words:
            continue  # it has ended
        found.append(
            RunningJob(
                target=str(each.target),
                launcher=stat.comm,
                command=_command_of(words),
                ranks=each.size,
                # Nothing on this host names the others.
                hosts=1 if each.size == len(each.group.processes) else None,
                age_s=_age_s(stat),
                user=procfs.user_name(stat.uid),
                is_ours=True,
            )
        )
    return found


def _step_of(job: TorchJob) -> str:
    """Return the step of Slurm's in which the ranks of a job of PyTorch are."""
    return slurm_step(procfs.environment(job.group.processes[0].pid) or {})


def _age_s(stat: ProcessStat) -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    now_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * ticks
    return max(0.0, (now_ticks - stat.start_time_ticks) / ticks)


def _count(launcher_pid: int) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Return the numbers of ranks and of hosts, None for an unknown one, and of spawned ranks."""
    try:
        job = discover.find_job(launcher_pid, pmix=_no_pmix)
    except DiscoveryError as error:
        _log.info("ranks of %s: %s", launcher_pid, error)
        return None, None, ()
    spawned = tuple(len(each.pids) for each in job.worlds[1:])
    return job.job_size or len(job.table.processes) or None, len(job.hosts) or None, spawned


def _no_pmix(launcher_pid: int) -> tuple[RankProcess, ...]:
    # prterun would notice, and might not end (see pgdb.frontend.discovery.pmix).
    raise DiscoveryError(f"{launcher_pid} is not asked through PMIx for a list")


def _command_of(words: Sequence[str]) -> str:
    """Return a command line as the user has written it."""
    # A title that the process has written over its line, such as a Ray worker's, has an empty rest.
    is_title = not any(words[1:])
    return shlex.join(words[:1] if is_title else _without_hold(words))


def _without_hold(words: Sequence[str]) -> list[str]:
    """Return a launcher's command line without the words that ``pgdb launch`` put before the
    program.

    These are ``PYTHON -I -S hold.py ... --``, or ``-c`` and the text of that file.
    """
    kept: list[str] = []
    at = 0
    while at < len(words):
        if "--" in words[at:] and _is_hold(words[at : at + 5]):
            at = words.index("--", at)
        else:
            kept.append(words[at])
        at += 1
    return kept


def _is_hold(words: Sequence[str]) -> bool:
    match words:
        case [_, "-I", "-S", "-c", text]:
            return "pgdb: " in text
        case [_, "-I", "-S", path, _]:
            return os.path.basename(path) == "hold.py"
    return False


def _steps() -> tuple[slurm.Step, ...]:
    try:
        return slurm.steps(timeout_s=SLURM_TIMEOUT_S)
    except DiscoveryError as error:
        _log.info("steps of Slurm: %s", error)
        return ()


def _of_step(step: slurm.Step, sizes: Mapping[str, int]) -> RunningJob:
    # A step of daemons cannot be attached to, only its job: the ranks are in no step, and some of
    # them run on the launcher's own host, which has no daemon.
    return RunningJob(
        target=step.job if step.has_daemons else step.target,
        launcher="srun",
        command=step.name,
        ranks=sizes.get(step.target, None if step.has_daemons else step.tasks or None),
        hosts=None if step.has_daemons else len(step.hosts) or None,
        age_s=step.age_s,
        user=step.user,
        is_ours=os.geteuid() == 0 or step.user == procfs.user_name(os.geteuid()),
    )
