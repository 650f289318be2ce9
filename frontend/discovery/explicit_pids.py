"""A job made of explicit pids, for ranks that no other way finds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgdb.errors import DiscoveryError, UsageError
from pgdb.frontend.discovery import mpir
from pgdb.frontend.discovery.found_job import DiscoveryStep, FoundJob, count
from pgdb.jobs import procfs
from pgdb.jobs.processes import Processes
from pgdb.jobs.thread_states import LOST_FIRST_THREAD, NO_DEBUGGER, has_lost_first_thread
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet


def find_pids(entries: Sequence[str]) -> FoundJob:
    """Make a job of the processes that a user names, each as ``PID`` or ``HOST:PID``.

    If all processes are on this host and their environments name different ranks, these are their
    ranks; else the processes are numbered in the given order. Processes that have ended are left
    out, and a note names them. Other hosts are not contacted.

    :raises UsageError: if there is no entry, or one is malformed or given twice.
    :raises DiscoveryError: if no entry is a running process.
    """
    if not entries:
        raise UsageError("no pids were given; write PID or HOST:PID for each rank")
    processes = Processes()
    here = os.uname().nodename
    places: dict[tuple[str, int], str] = {}
    for entry in entries:
        place = _place(entry, here)
        if place in places:
            raise UsageError(f"pid {entry!r} is given twice; leave one of them out")
        places[place] = entry
    ended: dict[tuple[str, int], str] = {}
    for place, entry in places.items():
        if place[0] == here and (why := _why_no_rank(entry, place[1], processes)):
            ended[place] = why
    if len(ended) == len(places):
        raise DiscoveryError("; ".join(ended.values()))
    # A rank keeps its place in the list where others have ended.
    numbers = [number for number, place in enumerate(places) if place not in ended]
    places = {place: entry for place, entry in places.items() if place not in ended}
    identities = [processes.identity(pid) if host == here else None for host, pid in places]
    named = [identity.rank for identity in identities if identity is not None]
    by_environment = len(set(named)) == len(places)
    ranks = named if by_environment else numbers
    members = [
        RankProcess(
            rank=rank,
            host=host,
            pid=pid,
            executable=(procfs.executable(pid) or "") if host == here else "",
        )
        for rank, (host, pid) in zip(ranks, places, strict=True)
    ]
    table = ProcTable(
        processes=tuple(sorted(members, key=lambda each: each.rank)), source="explicit pids"
    )
    sizes = {identity.size for identity in identities if identity is not None}
    how = "ranks by their environment" if by_environment else "numbered as given"
    return FoundJob(
        launcher_pid=0,
        command=(),
        table=table,
        hosts=table.hosts,
        # The processes may be only a part of a job, and the others are not wanted.
        selector="",
        slurm_job="",
        steps=(DiscoveryStep("pids", f"{count(len(places))} given explicitly, {how}"),),
        job_size=sizes.pop() if by_environment and len(sizes) == 1 else None,
        local_ranks=RankSet(each.rank for each in members if each.host == here),
        ended=RankSet(),
        notes=tuple(ended.values()),
    )


def _place(entry: str, here: str) -> tuple[str, int]:
    host, _, number = entry.strip().rpartition(":")
    if not (number.isascii() and number.isdecimal()) or (":" in entry and not host):
        raise UsageError(f"{entry!r} is no pid; write PID or HOST:PID")
    return (here if not host or mpir.is_this_host(host) else host), int(number)


def _why_no_rank(entry: str, pid: int, processes: Processes) -> str:
    """Return the reason why an entry is no running process of this host; empty if it is one."""
    stat = processes.stat(pid)
    if stat is None:
        return (
            f"pid {entry!r}: there is no such process on {os.uname().nodename}; "
            "write HOST:PID for a process of another host"
        )
    if has_lost_first_thread(pid):
        return f"pid {entry!r}: {stat.comm} has {LOST_FIRST_THREAD}; {NO_DEBUGGER}; leave it out"
    if stat.has_ended:
        return f"pid {entry!r}: {stat.comm} has ended; leave it out"
    if stat.is_kernel_thread:
        return f"pid {entry!r}: {stat.comm} is a thread of the kernel; leave it out"
    return ""
