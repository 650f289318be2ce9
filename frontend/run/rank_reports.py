"""Reports of the watchers of ranks (:mod:`pgdb.jobs.rank_watcher`), received by the front end."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Sequence

import msgspec

from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.startup.incoming_reports import MAX_REPORT_BYTES, IncomingReports
from pgdb.overlay.channel import BACKLOG
from pgdb.ranks import RankSet

_HEAD_FIELDS = 6
"""Kind, rank, size, local rank, host and world."""


class RankStart(msgspec.Struct, frozen=True):
    """A rank that has started."""

    rank: int
    size: int
    host: str
    pid: int
    time: float
    directory: str
    program: tuple[str, ...]
    world: str = ""
    """Open MPI's name of the world, if MPI_Comm_spawn has started the rank."""


class RankTail(msgspec.Struct, frozen=True):
    """The end of a stream that a rank has written."""

    stream: str
    data: bytes
    total: int
    """Bytes of the whole stream so far."""


class RankReports:
    """Starts and ends of ranks, as their watchers report them."""

    def __init__(self, mark: str) -> None:
        self._incoming = IncomingReports(mark)
        self._held: list[asyncio.StreamWriter] = []
        self._releases = False
        self.starts: dict[tuple[str, int], RankStart] = {}
        """By world and rank."""
        self.ends: dict[tuple[str, int], RankEnd] = {}
        """By world and rank, in the order of arrival."""
        self.tails: dict[tuple[str, int], dict[str, RankTail]] = {}
        """By world and rank, then by stream; only with ``--output-by-rank``."""
        self.started = asyncio.Event()
        """Set when all ranks of the first world have started."""
        self.active_s = 0.0
        """Time of the last report of a rank that has read or written, monotonic."""
        self.on_end: Callable[[RankEnd], None] = lambda end: None

    async def listen(self, offered: list[str]) -> tuple[asyncio.Server, tuple[str, ...]]:
        """Listen on addresses; return the server, and the addresses with their ports."""
        server = await asyncio.start_server(
            self._serve, offered, 0, limit=MAX_REPORT_BYTES, backlog=BACKLOG
        )
        names = [each.getsockname() for each in server.sockets]
        return server, tuple(f"{name[0]}:{name[1]}" for name in names)

    @property
    def size(self) -> int:
        """Number of ranks of the job's first world, as the launcher gave it to them."""
        return max((each.size for each in self.starts.values() if not each.world), default=0)

    @property
    def outputs(self) -> dict[int, str]:
        """The end of the output of each rank of the first world, where it is kept apart."""
        return {
            rank: "\n".join(each.data.decode("utf-8", "replace") for each in tails.values())
            for (world, rank), tails in self.tails.items()
            if not world
        }

    def output_of(self, end: RankEnd, mixed: Sequence[str]) -> Sequence[str]:
        """Return what an ended rank has written; *mixed*, the job's output, if that is unknown.

        An error that another rank has written, and survived, is no reason for the end.
        """
        if end.world or not self.tails:
            return mixed
        return (self.outputs.get(end.rank, ""),)

    @property
    def held(self) -> int:
        """Number of ended ranks whose launcher does not know of it yet."""
        return sum(not each.is_closing() for each in self._held)

    @property
    def living(self) -> list[RankStart]:
        """The ranks of the job's first world that have started and not ended."""
        return [
            each
            for key, each in sorted(self.starts.items())
            if key not in self.ends and not each.world
        ]

    @property
    def gone(self) -> RankSet:
        """The ranks of the job's first world that have ended."""
        return RankSet(each.rank for each in self.ends.values() if not each.world)

    @property
    def have_ended(self) -> bool:
        """Whether all ranks have started and ended, those of MPI_Comm_spawn too."""
        return self.started.is_set() and self.starts.keys() <= self.ends.keys()

    def release(self) -> None:
        """Let the launcher know of all ends, from now on at once."""
        self._releases = True
        for each in self._held:
            each.close()
        self._held.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            fields = await self._incoming.read(reader, writer)
            if fields and self._take(fields[1:]) and not self._releases:
                self._held.append(writer)
                await reader.read(1)  # until its launcher ends the watcher, or we close
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Anybody may connect here; only reports of this job count.
        except asyncio.CancelledError:
            pass  # The loop ends; asyncio would report the cancelled task of a server.
        finally:
            writer.close()

    def _take(self, fields: list[str]) -> bool:
        """Take a report; return whether its rank is to be held."""
        kind, rank, size, _local_rank, host, world = fields[:_HEAD_FIELDS]
        rest = fields[_HEAD_FIELDS:]
        key = (world, int(rank))
        if kind == "start":
            pid, began, directory, *program = rest
            self.starts[key] = RankStart(
                rank=int(rank),
                size=int(size),
                host=host,
                pid=int(pid),
                time=float(began),
                directory=directory,
                program=tuple(program),
                world=world,
            )
            if sum(not each.world for each in self.starts.values()) >= self.size:
                self.started.set()
        elif kind == "active":
            self.active_s = time.monotonic()
        elif kind == "output":
            tails = self.tails.setdefault(key, {})
            _pid, *streams = rest
            for stream, total, data in zip(*[iter(streams)] * 3, strict=True):
                tails[stream] = RankTail(stream, base64.b64decode(data), int(total))
        elif kind == "end":
            pid, status, ended, directory, _cpu_s = rest
            end = RankEnd(int(rank), int(pid), int(status), float(ended), host, world, directory)
            self.ends[key] = end
            self.on_end(end)
            return end.is_bad
        return False
