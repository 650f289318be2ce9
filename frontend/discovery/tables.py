"""Tables of all ranks from a launcher of this host: each way to get one is an attempt."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir
from pgdb.frontend.discovery.found_job import DiscoveryStep, PmixQuery, count
from pgdb.frontend.discovery.mpir import MpirTable
from pgdb.frontend.discovery.pid_meaning import is_twin
from pgdb.jobs import procfs
from pgdb.jobs.processes import Processes
from pgdb.proctable import RankProcess


class Attempt(msgspec.Struct, frozen=True):
    """The result of one way to get the table."""

    step: DiscoveryStep
    table: MpirTable | None = None
    source: str = ""
    has_no_symbol: bool = False
    """Whether the launcher may have a table without its symbol."""


def of_mpir(launcher: int, processes: Processes) -> Iterator[Attempt]:
    """Yield attempts to read the launcher's MPIR_proctable: by its symbol, by its structure."""
    attempt = _by_symbol(launcher, processes)
    yield attempt
    if attempt.has_no_symbol:
        yield _by_structure(launcher, processes)


def _by_symbol(launcher: int, processes: Processes) -> Attempt:
    name = "MPIR_proctable by symbol"
    twins = [each for each in processes.children(launcher) if is_twin(each, launcher, processes)]
    outcome = ""
    has_no_symbol = False
    for pid in (launcher, *twins):
        try:
            table = mpir.read_proctable(pid)
        except DiscoveryError as error:
            # The launcher's error is more useful than its twin's.
            if not outcome:
                outcome = str(error)
                has_no_symbol = isinstance(error, mpir.NoProctableError)
        else:
            who = processes.describe(pid)
            step = DiscoveryStep(name, f"{who} lists {count(table.size)}")
            return Attempt(step=step, table=table, source=f"MPIR_proctable of {who}")
    return Attempt(step=DiscoveryStep(name, outcome), has_no_symbol=has_no_symbol)


def _by_structure(launcher: int, processes: Processes) -> Attempt:
    name = "MPIR_proctable by structure"
    try:
        table = mpir.search_proctable(launcher)
    except DiscoveryError as error:
        return Attempt(step=DiscoveryStep(name, str(error)))
    who = processes.describe(launcher)
    if not processes.is_launcher(launcher) and not any(
        is_here(each, table.size, processes) for each in table.processes
    ):
        # Python's own tables of words contain all parts of a table with one rank elsewhere.
        outcome = f"{who} is no launcher, and an apparent table names no process of this host"
        return Attempt(step=DiscoveryStep(name, outcome))
    step = DiscoveryStep(name, f"the memory of {who} has a table of {count(table.size)}")
    return Attempt(step=step, table=table, source=f"table of ranks in the memory of {who}")


def has_pmix(launcher: int) -> bool:
    """Return whether the launcher answers through PMIx: Open MPI 5's does."""
    return os.path.basename(procfs.executable(launcher) or "") in ("prterun", "prte")


def by_pmix(launcher: int, processes: Processes, pmix: PmixQuery | None) -> Attempt:
    """Ask the launcher through PMIx."""
    if pmix is None:
        from pgdb.frontend.discovery.pmix import query_job

        pmix = query_job
    who = processes.describe(launcher)
    try:
        members = tuple(sorted(pmix(launcher), key=lambda each: each.rank))
    except DiscoveryError as error:
        return Attempt(step=DiscoveryStep("PMIx", str(error)))
    if not members:
        return Attempt(step=DiscoveryStep("PMIx", f"{who} names no rank"))
    step = DiscoveryStep("PMIx", f"{who} names {count(len(members))}")
    # PMIx omits ranks that have ended.
    identities = (processes.identity(each.pid) for each in members)
    sizes = [each.size for each in identities if each is not None and each.size is not None]
    table = MpirTable(processes=members, size=max((members[-1].rank + 1, *sizes[:1])))
    return Attempt(step=step, table=table, source=f"PMIx server of {who}")


def is_here(entry: RankProcess, size: int, processes: Processes) -> bool:
    """Return whether a table's entry is a process of this host.

    Launchers call this host by other names too (Slurm's node names, an address): then a process
    with that pid and that rank in a job of that size must be the entry's.
    """
    if mpir.is_this_host(entry.host):
        return True
    identity = processes.identity(entry.pid)
    return (
        identity is not None
        and (identity.rank, identity.size) == (entry.rank, size)
        and procfs.on_this_host(entry.pid)
    )
