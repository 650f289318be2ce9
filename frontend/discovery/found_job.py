"""The ranks of a running job as a search finds them, and the steps of the search."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from pgdb.jobs.processes import Processes
from pgdb.proctable import ProcTable, RankProcess, World
from pgdb.ranks import RankSet

_MANY = 6

PmixQuery = Callable[[int], tuple[RankProcess, ...]]
"""Function that asks the launcher of a pid for its ranks; raises DiscoveryError on failure."""


class DiscoveryStep(msgspec.Struct, frozen=True):
    """One attempted way to find the ranks."""

    name: str
    """``launcher``, ``MPIR_proctable by symbol``, ``MPIR_proctable by structure``, ``PMIx``,
    ``environment`` or ``pids``."""
    outcome: str
    """Result of the attempt, in words for the user."""


class FoundJob(msgspec.Struct, frozen=True):
    """The ranks of a running job, as far as this host knows them."""

    launcher_pid: int
    """The launcher on this host, also if the given pid is a wrapper around it or one of its ranks;
    0 if the launcher has ended, runs elsewhere, or is unknown."""
    command: tuple[str, ...]
    """The launcher's command line; empty without a launcher."""
    table: ProcTable
    """The living ranks, those on other hosts too if the launcher names them."""
    hosts: tuple[str, ...]
    """The job's hosts by the launcher's names, in the order of their least ranks. For a job on
    this host alone, this host's own name, whatever the launcher calls it. Without a table of all
    ranks, this host and those with daemons of the launcher, which omits hosts of Slurm's daemons:
    for a :attr:`slurm_job` Slurm itself must be asked too."""
    selector: str
    """Selector for :func:`pgdb.jobs.environment_scan.scan` that finds the ranks on any of the
    hosts; empty if there is none."""
    slurm_job: str
    """The Slurm job that the launcher or the ranks run in, such as ``17``; else empty."""
    steps: tuple[DiscoveryStep, ...]
    """The steps of the search; the last one found the ranks."""
    job_size: int | None
    """Number of ranks in MPI_COMM_WORLD; None if unknown."""
    local_ranks: RankSet
    """The ranks in the table that run on this host, whatever the launcher calls it."""
    ended: RankSet
    """Ranks of this host whose process has ended; they are not in the table."""
    headless: RankSet = RankSet()
    """Ranks of :attr:`ended` whose process has lost its first thread only."""
    worlds: tuple[World, ...] = ()
    """All worlds of the launcher's ranks on this host, where MPI_Comm_spawn has started further
    ones; else empty."""
    world: str = ""
    """The world that was asked for, if its ranks have yet to be looked for on the hosts."""
    notes: tuple[str, ...] = ()
    """Further facts about the job, for the user."""
    hold_limit_s: float = 0.0
    """Time for which the job survives that its ranks are held, in seconds; 0 if unknown, as for
    MPI, which has no limit."""


class Search:
    """One search for a job: the processes of this host, and the steps so far."""

    def __init__(self) -> None:
        self.processes = Processes()
        self.steps: list[DiscoveryStep] = []

    def note(self, name: str, outcome: str) -> None:
        """Add a step."""
        self.steps.append(DiscoveryStep(name, outcome))


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def count(ranks: int) -> str:
    """Return a number of ranks in words."""
    return f"{ranks} rank" if ranks == 1 else f"{ranks} ranks"


def describe_world(world: World) -> str:
    """Return a world in words, with its processes on each host."""
    hosts: dict[str, list[str]] = {}
    for each in world.processes:
        hosts.setdefault(each.host, []).append(str(each.pid))
    is_here = hosts.keys() == {os.uname().nodename}
    parts = [
        f"{'' if is_here else f'{host}: '}{'pid' if len(pids) == 1 else 'pids'} {listed(pids)}"
        for host, pids in hosts.items()
    ]
    found = len(world.processes)
    ranks = f"{found} of {world.size} ranks" if found < world.size else count(found)
    return f"world {world.number} has {ranks} ({'; '.join(parts)})"
