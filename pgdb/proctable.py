"""The proctable of a job: the process of each rank.

The name is from MPIR_proctable (MPIR Process Acquisition Interface, section 6). Any source that
finds the ranks can fill it.
"""

from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.ranks import RankSet

SessionMode = Literal["attach", "launch", "core"]
"""The way in which a session has got its ranks."""


class RankProcess(msgspec.Struct, frozen=True):
    """The process of one rank."""

    rank: int
    host: str
    """Host name as the source gave it."""
    pid: int
    executable: str
    """Path of the executable on that host; empty if the source does not give it."""


class World(msgspec.Struct, frozen=True):
    """The ranks of one MPI_COMM_WORLD, which a launcher or MPI_Comm_spawn has started."""

    number: int
    """0 for the ranks that the launcher has started, then in the order of their start."""
    size: int
    """Number of ranks in MPI_COMM_WORLD, 0 if unknown."""
    processes: tuple[RankProcess, ...]
    """The living ranks that were found, by their numbers in MPI_COMM_WORLD."""
    ranks: RankSet = RankSet()
    """Numbers of the ranks in the session, in the same order: those of MPI_COMM_WORLD, or numbered
    on behind another world's. Empty if the world is not in the session."""
    job: str = ""
    """The other job of which these are the ranks, as it was named; empty for the session's own."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes, least rank first."""
        return tuple(each.pid for each in self.processes)

    @property
    def own_ranks(self) -> RankSet:
        """The ranks by their numbers in MPI_COMM_WORLD."""
        return RankSet(each.rank for each in self.processes)

    @property
    def span(self) -> int:
        """Number of rank numbers that the world takes in a session, those of ended ranks too."""
        return max(self.size, max(self.own_ranks, default=-1) + 1)

    @property
    def first(self) -> int:
        """The number in the session of rank 0, whether or not it has ended."""
        return self.ranks.first - self.processes[0].rank

    def numbered_from(self, first: int) -> "World":
        """Return the world in a session, with its rank 0 as rank *first*."""
        return replace(self, ranks=RankSet(first + rank for rank in self.own_ranks))

    @property
    def in_session(self) -> tuple[RankProcess, ...]:
        """The processes, by the numbers of the ranks in the session."""
        pairs = zip(self.ranks, self.processes, strict=True)
        return tuple(replace(process, rank=rank) for rank, process in pairs)


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

    def only(self, ranks: RankSet) -> "ProcTable":
        """Return the part of the table with *ranks*."""
        kept = tuple(process for process in self.processes if process.rank in ranks)
        return ProcTable(processes=kept, source=self.source)
