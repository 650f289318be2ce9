"""Which process is which rank: the proctable of a job.

Named after MPIR_proctable (MPIR Process Acquisition Interface, section 6), but filled from
whatever source found the ranks.
"""

from __future__ import annotations

import msgspec

from pgdb.ranks import RankSet


class RankProcess(msgspec.Struct, frozen=True):
    """One rank's process."""

    rank: int
    host: str
    """Host name as the source gave it."""
    pid: int
    executable: str
    """Path of the executable on that host; may be empty where the source does not tell."""


class ProcTable(msgspec.Struct, frozen=True):
    """All ranks of one job that were found, least rank first."""

    processes: tuple[RankProcess, ...]
    source: str
    """How they were found, in words for the user, e.g. ``MPIR_proctable of mpirun 4711``."""

    @property
    def ranks(self) -> RankSet:
        """The ranks in the table."""
        return RankSet(process.rank for process in self.processes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host names, in order of their least rank, each once."""
        return tuple(dict.fromkeys(process.host for process in self.processes))

    def only(self, ranks: RankSet) -> ProcTable:
        """Return the part of the table that concerns *ranks*."""
        kept = tuple(process for process in self.processes if process.rank in ranks)
        return ProcTable(processes=kept, source=self.source)
