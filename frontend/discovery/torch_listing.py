"""The jobs of PyTorch that this host knows, without a launcher of MPI above them."""

from __future__ import annotations

import msgspec

from pgdb.jobs import environment_scan, procfs
from pgdb.jobs.environment_scan import RankGroup
from pgdb.jobs.processes import Processes


class TorchJob(msgspec.Struct, frozen=True):
    """The ranks of one job on this host, and the process to attach to."""

    target: int
    """The agent or the program that has started the ranks; else the first rank."""
    group: RankGroup

    @property
    def size(self) -> int:
        """Number of ranks; of those on this host where nothing says how many there are in all."""
        return len(self.group.processes) if self.group.size is None else self.group.size


def torch_jobs() -> tuple[TorchJob, ...]:
    """Return the jobs of PyTorch's workers on this host that this user may debug.

    The search has no deadline: a job that is missing from a list looks like one that has ended. It
    takes some tenths of a millisecond for each process.
    """
    processes = Processes()
    found = []
    for pid in processes.parent_of:
        identity = processes.identity(pid)
        if (
            identity is not None
            and identity.torch
            and identity.job_key is not None
            and environment_scan.is_rank(pid, processes)
            and environment_scan.with_torch_workers([pid], processes) == [pid]
            and not any(map(processes.is_launcher, processes.above(pid)))
            and procfs.on_this_host(pid)
        ):
            found.append(pid)
    return tuple(
        TorchJob(target=_target(group, processes), group=group)
        for group in environment_scan.by_job(found, processes)
    )


def _target(group: RankGroup, processes: Processes) -> int:
    """Return the process that has started these ranks and no others; else a rank."""
    first = group.processes[0].pid
    parents = {processes.parent_of.get(each.pid, 0) for each in group.processes}
    parent = parents.pop()
    is_starter = not parents and parent > 1 and processes.environment(parent) is not None
    if is_starter and group.torch in ("elastic", "spawn"):
        below = environment_scan.scan_below(parent, processes)
        if len(below) == 1:
            return parent
    return first
