"""Reports of held ranks, and a front end that hears them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from pgdb.frontend.startup import incoming_reports
from pgdb.frontend.startup.held import Reports
from pgdb.jobs import hold

MARK = "pgdb-mark"


DEADLINE_S = 20.0


LIMIT_BYTES = incoming_reports.MAX_REPORT_BYTES


def fields(
    rank: int = 0,
    size: int = 4,
    local_size: int = 2,
    *,
    host: str = "node1",
    alias: str = "",
    slurm_job: str = "",
    program: str = "./app",
) -> list[str]:
    numbers = (rank, size, 0, local_size, 4711)
    return [*map(str, numbers), host, alias, slurm_job, program]


def report(*texts: str, mark: str = MARK) -> bytes:
    """Return the fields as the hold program sends them."""
    return hold.report(mark, texts)


class Hearing:
    """Reports with a listening socket."""

    def __init__(self, reports: Reports, port: int) -> None:
        self.reports = reports
        self._port = port
        self.writers: list[asyncio.StreamWriter] = []

    async def send(self, data: bytes) -> asyncio.StreamReader:
        """Connect and send data; return the reader that sees the end of the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writers.append(writer)
        writer.write(data)
        return reader

    async def is_refused(self, data: bytes, *, ends: bool = False) -> bool:
        """Return whether the connection is closed; *ends* closes our direction first."""
        reader = await self.send(data)
        if ends:
            self.writers[-1].write_eof()
        try:
            return await reader.read() == b""
        except ConnectionResetError:
            return True  # what it had not read was dropped


def run(test: Callable[[Hearing], Coroutine[Any, Any, None]]) -> None:
    @asynccontextmanager
    async def hearing() -> AsyncIterator[Hearing]:
        reports = Reports(MARK)
        server = await asyncio.start_server(reports.serve, "127.0.0.1", 0, limit=LIMIT_BYTES)
        made = Hearing(reports, server.sockets[0].getsockname()[1])
        try:
            yield made
        finally:
            server.close()
            for writer in made.writers:
                writer.close()

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S), hearing() as made:
            await test(made)

    asyncio.run(bounded())
