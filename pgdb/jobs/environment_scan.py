"""Find the ranks on this host by the environment that their launcher gave them.

The scan does not need the launcher. So it works on every host of a job, with an unknown launcher,
and after the launcher's end. A *selector* is a string that means one job on all of its hosts:

``key:KEY``
    the text that the launcher leaves in the environment of all ranks
    (:attr:`RankIdentity.job_key`);
``proxy:HOST:PORT PGID``
    the command line of the proxy above the rank: MPICH's hydra leaves nothing in the environment.
    The selectors of MPICH's and Intel's hydra have ``spawned N`` behind them for the Nth world of
    MPI_Comm_spawn on the host;
``slurm:JOB.STEP``, ``slurm:JOB``
    all ranks of one Slurm step, or of one Slurm job;
``worlds:FAMILY``, ``spawned:FAMILY``
    the ranks of all worlds of one launcher, or of those of MPI_Comm_spawn
    (:mod:`pgdb.jobs.world_keys`).

A rank is the topmost process that has a rank's environment: its children inherit the environment.
PGDB's own processes are never ranks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from pgdb.jobs import procfs, world_keys
from pgdb.jobs.processes import Processes, slurm_job, slurm_step
from pgdb.jobs.rank_program import is_mpi_program
from pgdb.proctable import RankProcess

# slurm/slurm.h: steps that srun did not start have a number from here on. These are the batch
# script and, among others, the shell of salloc with LaunchParameters=use_interactive_step.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
_REMOTE_DAEMONS = ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy")
# ssh's options whose value is a word of its own (ssh(1)); rsh, blaunch and the like have fewer.
_SSH_TAKES_A_VALUE = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw")


class RankGroup(msgspec.Struct, frozen=True):
    """The ranks of one job on this host."""

    key: str
    """The job's own selector; empty if its ranks cannot be distinguished from another job's."""
    size: int | None
    """Number of ranks in MPI_COMM_WORLD; None if unknown."""
    processes: tuple[RankProcess, ...]
    """The ranks, least first, with this host's own name for itself."""
    torch: str = ""
    """Starter of the ranks, as :attr:`RankIdentity.torch`."""


def scan(selector: str) -> tuple[RankGroup, ...]:
    """Return the ranks of *selector* on this host, by job, the oldest job first."""
    processes = Processes()
    kind, _, value = selector.partition(":")
    found = []
    for pid in processes.parent_of if value else ():
        if processes.identity(pid) is None:
            continue
        if kind == "slurm":
            job, _, step = value.partition(".")
            environment = processes.environment(pid) or {}
            if slurm_job(environment) != job or (step and slurm_step(environment) != value):
                continue
        elif world_keys.is_of_worlds(selector):
            if not world_keys.matches(processes.selector(pid), selector):
                continue
        elif processes.selector(pid) != selector:
            continue
        if is_rank(pid, processes) and procfs.on_this_host(pid):
            found.append(pid)
    return by_job(with_torch_workers(found, processes), processes)


def with_torch_workers(pids: Iterable[int], processes: Processes) -> list[int]:
    """Return *pids* with PyTorch's workers in place of the ranks that have started them.

    ``mpirun -n 2 torchrun …`` starts an agent on each node, whose children are the ranks. A
    program of MPI that starts such a job stays a rank.
    """
    found: dict[int, None] = {}
    for pid in pids:
        workers = _workers_below(pid, processes)
        is_agent = workers and not is_mpi_program(pid)
        found.update(dict.fromkeys(workers if is_agent else [pid]))
    return list(found)


def _workers_below(pid: int, processes: Processes) -> list[int]:
    own = processes.identity(pid)
    if own is not None and own.torch in ("elastic", "spawn"):
        return []

    def is_worker(each: int) -> bool:
        identity = processes.identity(each)
        if identity is None or identity == own:
            return False
        # In a pod of a cluster the agent has a RANK of its own: the number of the node.
        return identity.torch == "elastic" or (
            bool(identity.torch) and own is not None and not own.torch
        )

    def enters(each: int) -> bool:
        return not is_worker(each) and not processes.is_launcher(each)

    return [
        each
        for each in processes.below(pid, enters)
        if is_worker(each) and not processes.is_ours(each)
    ]


def is_rank(pid: int, processes: Processes) -> bool:
    """Return whether *pid* is a rank itself: not a helper, a daemon, a launcher, or a process of
    PGDB's."""
    identity = processes.identity(pid)
    if identity is None or processes.rank_pid(pid) != pid:
        return False
    if processes.is_launcher(pid) or processes.is_daemon(pid) or processes.is_ours(pid):
        return False
    if not processes.selector(pid).startswith("slurm:"):
        return True
    step = (processes.environment(pid) or {}).get("SLURM_STEP_ID", "")
    if step.isdecimal() and int(step) >= _FIRST_SPECIAL_STEP:
        return False
    # srun -n 1 ./script with an mpirun in the script: nobody debugs the script.
    return not any(processes.is_launcher(each) for each in processes.below(pid))


def by_job(pids: Iterable[int], processes: Processes) -> tuple[RankGroup, ...]:
    """Group ranks by job, the oldest job first.

    If two processes of one job have the same rank, the older one counts.
    """
    host = os.uname().nodename
    jobs: dict[str, dict[int, RankProcess]] = {}
    sizes: dict[str, int | None] = {}
    starters: dict[str, str] = {}
    for pid in sorted(pids, key=processes.start_time_ticks):
        identity = processes.identity(pid)
        if identity is None:
            continue
        key = processes.selector(pid)
        sizes.setdefault(key, identity.size)
        starters.setdefault(key, identity.torch)
        jobs.setdefault(key, {}).setdefault(
            identity.rank,
            RankProcess(
                rank=identity.rank,
                host=host,
                pid=pid,
                executable=procfs.executable(pid) or "",
            ),
        )
    return tuple(
        RankGroup(
            key=key,
            size=sizes[key],
            processes=tuple(job[rank] for rank in sorted(job)),
            torch=starters[key],
        )
        for key, job in jobs.items()
    )


def scan_below(launcher: int, processes: Processes) -> tuple[RankGroup, ...]:
    """Return the ranks of *launcher* on this host, by job, the oldest job first.

    They are the topmost processes below it with an environment other than its own. Slurm starts
    ranks apart from srun; their environment names a port of srun's.
    """
    inherited = processes.identity(launcher)

    def is_no_rank(pid: int) -> bool:
        identity = processes.identity(pid)
        return identity is None or identity == inherited or processes.is_daemon(pid)

    found = [
        pid
        for pid in processes.below(launcher, is_no_rank)
        if not is_no_rank(pid) and not processes.is_ours(pid)
    ]
    found = found or _reporting_to(launcher, processes)
    return by_job(with_torch_workers(found, processes), processes)


def _reporting_to(launcher: int, processes: Processes) -> list[int]:
    ports = procfs.listening_ports(launcher) or frozenset()
    since = processes.start_time_ticks(launcher)
    return [
        pid
        for pid in (processes.parent_of if ports else ())
        if not ports.isdisjoint(launcher_ports(processes.environment(pid) or {}))
        and processes.start_time_ticks(pid) >= since
        and is_rank(pid, processes)
        and procfs.on_this_host(pid)
    ]


def launcher_ports(environment: Mapping[str, str]) -> set[int]:
    """Return the ports of the launcher in a rank's environment."""
    texts = [environment.get("SLURM_SRUN_COMM_PORT", "")]
    # Example: 1955790848.0;tcp://192.0.2.2:59781;tcp6://[fd00::2]:44909
    texts += [
        part.rpartition(":")[2]
        for part in environment.get("OMPI_MCA_orte_hnp_uri", "").split(";")[1:]
    ]
    return {int(text) for text in texts if text.isdecimal()}


def starts_daemons(pid: int) -> bool:
    """Return whether *pid*, such as an ssh or srun, starts a launcher's daemon."""
    words = procfs.command_line(pid) or [""]
    return os.path.basename(words[0]) not in _REMOTE_DAEMONS and any(
        daemon in word for word in words[1:] for daemon in _REMOTE_DAEMONS
    )


def remote_hosts(launcher: int, processes: Processes) -> tuple[str, ...]:
    """Return the other hosts on which *launcher*'s children start daemons, by ssh or its like.

    Tried with Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18: all run
    ``ssh OPTIONS HOST COMMAND``, and COMMAND has the daemon's name in it somewhere.
    """
    hosts: dict[str, None] = {}
    for pid in processes.children(launcher):
        # The words of srun name no host.
        if starts_daemons(pid) and not processes.is_launcher(pid):
            host = _host_of_ssh((procfs.command_line(pid) or [])[1:])
            if host and host != os.uname().nodename:
                hosts[host] = None
    return tuple(hosts)


def _host_of_ssh(words: list[str]) -> str:
    is_value = False
    for word in words:
        # A script around ssh may have its own path as a word.
        if not is_value and not word.startswith(("-", "/")):
            return word.rpartition("@")[2]
        is_value = word in _SSH_TAKES_A_VALUE
    return ""
