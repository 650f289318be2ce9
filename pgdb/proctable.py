"""The proctable of a job: the process of each rank.

The name is from MPIR_proctable (MPIR Process Acquisition Interface, section 6). Any source that
finds the ranks can fill it.
"""

from __future__ import annotations

import msgspec

from pgdb.ranks import RankSet


class RankProcess(msgspec.Struct, frozen=True):
    """The process of one rank."""

    rank: int
    host: str
    """Host name as the source gave it."""
    pid: int
    executable: str
    """Path of the executable on that host; empty if the source does not give it."""


class ProcTable(msgspec.Struct, frozen=True):
    """The found ranks of one job, least rank first."""

    processes: tuple[RankProcess, ...]
    source: str
    """The source in words for the user, e.g. ``MPIR_proctable of mpirun 4711``."""

    @property
    def ranks(self) -> RankSet:
        """The ranks in the table."""
        return RankSet(process.rank for process in self.processes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names, in order of their least rank, each once."""
        return tuple(dict.fromkeys(process.host for process in self.processes))

    def only(self, ranks: RankSet) -> ProcTable:
        """Return the part of the table with *ranks*."""
        kept = tuple(process for process in self.processes if process.rank in ranks)
        return ProcTable(processes=kept, source=self.source)
