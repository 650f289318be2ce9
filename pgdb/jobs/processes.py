"""The processes of this host at one moment, with the ranks that their environments name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from pgdb.bootstrap_env import WIRE_UP_VARIABLE
from pgdb.jobs import procfs, world_keys
from pgdb.jobs.live_environment import live_environment
from pgdb.jobs.procfs import ProcessStat
from pgdb.jobs.rank_environment import (
    RankIdentity,
    rank_environment,
    torch_environment,
    without_torch,
)
from pgdb.patterns import pattern

# Daemons start ranks on their own host and may have a rank's environment themselves: Open MPI's run
# as a Slurm step if there is Slurm. Debian's is slurmstepd-wlm.
_DAEMON = pattern(
    r"(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy|pmi_proxy|slurmstepd|sshd)(?:[-.]\w+)?\Z"
)

_PYTHON = pattern(r"python[\d.]*t?\Z")
# A child that Python's multiprocessing has started by its method "spawn", as
# torch.multiprocessing.spawn does. Forks of it have its command line.
_SPAWNED = "--multiprocessing-fork"


class Processes:
    """The processes of this host at one moment; each fact about a process is read once."""

    def __init__(self) -> None:
        self.parent_of = procfs.parents()
        """Every process with its parent."""
        self._children: dict[int, list[int]] = {}
        for pid, parent in self.parent_of.items():
            self._children.setdefault(parent, []).append(pid)
        self._environments: dict[int, Mapping[str, str] | None] = {}
        self._identities: dict[int, RankIdentity | None] = {}
        self._stats: dict[int, ProcessStat | None] = {}
        self._spawned_numbers: dict[tuple[str, int], Mapping[int, int]] = {}

    def children(self, pid: int) -> list[int]:
        """Return the pids whose parent is *pid*, in order."""
        return self._children.get(pid, [])

    def below(self, pid: int, enter: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """Yield the descendants of *pid*, parents first, except those below a refused one."""
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
        """Return the environment that *pid* was executed with; None if it may not be read."""
        if pid not in self._environments:
            self._environments[pid] = procfs.environment(pid)
        return self._environments[pid]

    def identity(self, pid: int) -> RankIdentity | None:
        """Return the rank in the environment of *pid*, which a child of the rank inherits."""
        if pid not in self._identities:
            self._identities[pid] = self._identity(pid)
        return self._identities[pid]

    def _identity(self, pid: int) -> RankIdentity | None:
        environment = self.environment(pid)
        if environment is None:
            return None
        found = rank_environment(environment)
        if found is None:
            return self._live_identity(pid)
        if found.torch and (outer := without_torch(environment)) is not None:
            # The variables may come from outside of the launcher, as a cluster's pod has them.
            for each in self.above(pid):
                if self.is_launcher(each):
                    given = torch_environment(self.environment(each) or {})
                    return outer if given == found else found
        return found

    def _live_identity(self, pid: int) -> RankIdentity | None:
        """Return the rank that a Python program has set for itself, or that its parent has."""
        if not _PYTHON.match(os.path.basename(procfs.executable(pid) or "")):
            return None
        environment = live_environment(pid)
        found = torch_environment(environment)
        if found is not None or _SPAWNED not in (words := procfs.command_line(pid) or []):
            return found
        parent = self.parent_of.get(pid, 0)
        if procfs.command_line(parent) == words:
            return self.identity(parent)  # a data loader, forked
        # Data loaders can be spawned, too. They have no address, and accept no connections.
        if "MASTER_PORT" not in environment and not procfs.listening_ports(pid):
            return None
        spawned = sorted(
            (each for each in self.children(parent) if self._is_spawned(each)), key=self._age
        )
        return RankIdentity(
            rank=spawned.index(pid) if pid in spawned else 0,
            size=None,
            local_rank=None,
            local_size=None,
            job_key=f"children of {parent}",
            torch="spawn",
        )

    def _is_spawned(self, pid: int) -> bool:
        return not self.has_ended(pid) and _SPAWNED in (procfs.command_line(pid) or [])

    def stat(self, pid: int) -> ProcessStat | None:
        """Return identity and state of the process *pid*."""
        if pid not in self._stats:
            self._stats[pid] = procfs.read_stat(pid)
        return self._stats[pid]

    def has_ended(self, pid: int) -> bool:
        """Return whether *pid* is gone, or a zombie."""
        stat = self.stat(pid)
        return stat is None or stat.has_ended

    def start_time_ticks(self, pid: int) -> int:
        """Return the start time of *pid*, 0 if it is gone."""
        stat = self.stat(pid)
        return stat.start_time_ticks if stat is not None else 0

    def name(self, pid: int) -> str:
        """Return the name of the program."""
        stat = self.stat(pid)
        return stat.comm if stat is not None else "process"

    def describe(self, pid: int) -> str:
        """Return name and pid, as in ``mpirun 4711``."""
        return f"{self.name(pid)} {pid}"

    def is_launcher(self, pid: int) -> bool:
        """Return whether *pid* is a launcher's program; a script with a launcher's name is not."""
        return not self.has_ended(pid) and procfs.is_launcher_name(self._program(pid))

    def is_daemon(self, pid: int) -> bool:
        """Return whether *pid* is a daemon that launchers start on each host."""
        return bool(_DAEMON.match(self._program(pid)))

    def is_ours(self, pid: int) -> bool:
        """Return whether a launcher started *pid*, or an ancestor of it, as a process of PGDB's."""
        return any(
            # The anchors of our aggregators have it; no other process of PGDB's has a rank's
            # environment.
            WIRE_UP_VARIABLE in (self.environment(each) or {})
            for each in (pid, *self.above(pid))
        )

    def selector(self, pid: int) -> str:
        """Return the selector of the job in the environment of *pid*; empty if there is none."""
        identity = self.identity(pid)
        if identity is None:
            return ""
        if identity.job_key is not None:
            step = slurm_step(self.environment(pid) or {})
            if identity.job_key == step:
                return f"slurm:{step}"
            selector = f"key:{identity.job_key}"
            if "PMI_SPAWNED" not in (self.environment(pid) or {}):
                return selector
            # Intel's hydra gives all worlds the same key.
            return self._numbered(selector, self._below_daemon(pid)[0], self.parent_of, 0)
        own, proxy = self._below_daemon(pid, lambda each: bool(self._proxy_selector(each)))
        selector = self._proxy_selector(proxy) if proxy else ""
        if not selector:
            return ""
        return self._numbered(selector, own, self.children(proxy), proxy)

    def _proxy_selector(self, pid: int) -> str:
        return proxy_selector(procfs.command_line(pid) or [])

    def _below_daemon(
        self, pid: int, is_daemon: Callable[[int], bool] | None = None
    ) -> tuple[int, int]:
        """Return the process through which *pid* descends from a daemon, and the daemon, or 0."""
        for each in self.above(pid):
            if (is_daemon or self.is_daemon)(each):
                return pid, each
            pid = each
        return pid, 0

    def _numbered(self, selector: str, pid: int, candidates: Iterable[int], proxy: int) -> str:
        """Return the selector of a daemon's child: that of its job, with the number of its world.

        Nothing in the environments below hydra distinguishes the worlds of MPI_Comm_spawn (MPICH
        5.0.2, Intel MPI 2021.18).
        """
        if "PMI_SPAWNED" not in (self.environment(pid) or {}):
            return selector
        # The hosts of a job can share their process ids, with a proxy each.
        cache = selector, proxy
        if cache not in self._spawned_numbers:
            starts = []
            for each in sorted(candidates, key=self._age):
                identity, parent = self.identity(each), self.parent_of.get(each, 0)
                if identity is None or "PMI_SPAWNED" not in (self.environment(each) or {}):
                    continue
                key = identity.job_key
                if key is None or (f"key:{key}" == selector and self.is_daemon(parent)):
                    local = identity.rank if identity.local_rank is None else identity.local_rank
                    starts.append((each, (parent, identity.size), (identity.rank, local)))
            self._spawned_numbers[cache] = world_keys.in_order(starts)
        number = self._spawned_numbers[cache].get(pid, 0)
        return f"{selector} spawned {number}" if number else selector

    def _age(self, pid: int) -> tuple[int, int]:
        return self.start_time_ticks(pid), pid

    def rank_pid(self, pid: int) -> int:
        """Return the rank's own process for *pid*, which may be a descendant of it."""
        identity, selector = self.identity(pid), self.selector(pid)
        top = pid
        for each in self.above(pid):
            # A rank may run a job of its own, with another rank of that number. Then the outer
            # rank's launcher is in between, and the hydra proxy below that launcher decides.
            if self.identity(each) != identity or self.selector(each) != selector:
                break
            top = each
        return top

    def _program(self, pid: int) -> str:
        path = procfs.executable(pid)
        return os.path.basename(path) if path is not None else self.name(pid)


def proxy_selector(words: Iterable[str]) -> str:
    """Return the selector in the command line of a hydra_pmi_proxy; empty if there is none.

    >>> proxy_selector(["hydra_pmi_proxy", "--control-port", "n1:4242", "--pgid", "0"])
    'proxy:n1:4242 0'
    """
    values = dict(pairwise(words))
    if "--control-port" not in values:
        return ""
    # MPI_Comm_spawn makes process group 1, a job of its own with the same launcher.
    return f"proxy:{values['--control-port']} {values.get('--pgid', '')}".rstrip()


def slurm_job(environment: Mapping[str, str]) -> str:
    """Return the Slurm job in an environment; empty if there is none."""
    return environment.get("SLURM_JOB_ID", "")


def slurm_step(environment: Mapping[str, str]) -> str:
    """Return ``JOB.STEP`` of an environment."""
    return f"{slurm_job(environment)}.{environment.get('SLURM_STEP_ID', '')}"
