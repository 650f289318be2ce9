"""The host of the job's launcher, from which jobs are found and aggregators are started.

Usually it is this host (:mod:`pgdb.frontend.startup.local_site`). With ``--host`` it is another
one, reached over ssh, on which :mod:`pgdb.frontend.startup.remote` runs the same code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.jobs.launchers import Launcher

OnLine = Callable[[str], None]
GetRendezvous = Callable[[], Awaitable[str]]
"""Function that returns the rendezvous text for aggregators, once it is known."""


class Located(msgspec.Struct, frozen=True):
    """A job that was found, and the means to start aggregators beside it."""

    job: FoundJob
    launcher: Launcher | None
    """The job's own launcher, if known."""
    refusals: tuple[str, ...] = ()
    """Reason why ranks of the site's host cannot be traced, if none of them can be."""
    notes: tuple[str, ...] = ()
    """Further notes for the user."""

    @property
    def lacks_ranks(self) -> bool:
        """Whether ranks may run that are unknown on the site's host."""
        job = self.job
        is_short = job.job_size is not None and len(job.table.ranks | job.ended) < job.job_size
        return bool(job.selector) and (is_short or not job.table.processes)


class WorldPlaces(msgspec.Struct, frozen=True):
    """The places of all worlds of a launcher, which MPI_Comm_spawn makes."""

    family: str
    """The part that their selectors have in common (:func:`pgdb.jobs.world_keys.family_of`); empty
    if unknown."""
    hosts: tuple[str, ...]
    """The hosts on which the launcher has daemons, and its own if ranks run there."""


class AggregatorStart(msgspec.Struct, frozen=True, kw_only=True):
    """The start of one process that starts aggregators."""

    launcher: Launcher | None = None
    """Launcher of the aggregators; None for the ssh to the first host, or without *hosts* for a
    process of the site's own host."""
    words: tuple[str, ...] = ()
    """Options of the user's for the launcher, or the ssh to use."""
    hosts: tuple[str, ...] = ()
    """Hosts of the aggregators; empty for the site's own host."""
    per_host: int = 1
    wire_up: str = "direct"
    first_node: int = 0
    slurm_job: str = ""
    job_pid: int = 0
    """Launcher of the job, whose way to other hosts is used; 0 for none."""
    job_command: tuple[str, ...] = ()
    python: str = ""
    """Python on the hosts; empty for the site's own."""
    python_path: str | None = None
    """PYTHONPATH on the hosts; None for the site's own."""
    program: tuple[str, ...] = ()
    """Program to run in place of Python with the aggregator's module."""
    variables: dict[str, str] = {}
    """Further environment variables of the aggregators."""
    log: str = "aggregators.log"
    prints_addresses: bool = False
    """Whether the caller reads the lines that the aggregators print."""


class Starter(Protocol):
    """A running process that starts aggregators, here or elsewhere."""

    @property
    def pid(self) -> int:
        """Process id on the site's host."""
        ...

    async def wait(self) -> int:
        """Return its exit status when it has ended."""
        ...

    async def end(self) -> None:
        """End the process and the aggregators that it has started."""
        ...

    def last_words(self) -> str:
        """Return its last output, on one line."""
        ...


class Site(Protocol):
    """A host on which jobs are found and aggregators are started."""

    async def find(self, target: str) -> Located:
        """Find a job by a process id or ``JOB[.STEP]``."""
        ...

    async def find_pids(self, entries: Sequence[str]) -> Located:
        """Make a job of explicit pids."""
        ...

    async def world_places(self, launcher_pid: int) -> WorldPlaces:
        """Return the places of the worlds of a launcher."""
        ...

    async def jobs(self) -> tuple[RunningJob, ...]:
        """List the jobs that a session could attach to."""
        ...

    async def start(
        self, start: AggregatorStart, on_line: OnLine, rendezvous: GetRendezvous
    ) -> Starter:
        """Start aggregators; *rendezvous* is all that they are sent."""
        ...

    async def silent_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return those of *hosts* that do not even refuse a connection."""
        ...

    async def settle(self) -> None:
        """Remove the files that aggregators had to read; all aggregators have started."""
        ...

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        """Return the doctor's report on the host, and its exit status."""
        ...

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        """Return the launcher of the aggregators: None for ssh."""
        ...

    async def close(self) -> None:
        """Leave the site."""
        ...
