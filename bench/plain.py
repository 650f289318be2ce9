"""Plain GDBs under MI, driven by a program that only writes and reads lines."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

LINE_LIMIT_BYTES = 1 << 24
END_TIMEOUT_S = 30.0
# Only settings that keep GDB from waiting for keys.
_SETTINGS = (
    "-gdb-set mi-async on",
    "-gdb-set confirm off",
    "-gdb-set pagination off",
    "-gdb-set width 0",
)


@dataclass(frozen=True)
class PlainGdb:
    """A GDB with a rank; it answers one command at a time."""

    process: Process

    def write(self, command: str) -> None:
        """Send a command; its result has the token 1."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"1" + command.encode() + b"\n")

    async def read_to(self, *beginnings: bytes) -> bytes:
        """Read lines until one begins with each of *beginnings*; return the last one.

        :raises RuntimeError: if GDB refuses the command, or ends.
        """
        assert self.process.stdout is not None
        left = set(beginnings)
        while True:
            line = await self.process.stdout.readline()
            if not line or line.startswith(b"1^error"):
                raise RuntimeError(f"a plain GDB: {line.decode(errors='replace') or 'has ended'}")
            left -= {beginning for beginning in left if line.startswith(beginning)}
            if not left:
                return line

    async def run(self, command: str, *beginnings: bytes) -> bytes:
        """Send a command and read until it is done and lines with *beginnings* have come."""
        self.write(command)
        return await self.read_to(*(beginnings or (b"1^done",)))


@asynccontextmanager
async def plain_gdbs(pids: Sequence[int]) -> AsyncIterator[list[PlainGdb]]:
    """Attach a GDB to each process; they detach at the end of the context."""
    gdbs: list[PlainGdb] = []
    slots = asyncio.Semaphore(4)

    async def start(pid: int) -> PlainGdb:
        async with slots:
            argv = ("gdb", "-nx", "-q", "-i=mi3")
            gdb = PlainGdb(
                await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    limit=LINE_LIMIT_BYTES,
                    start_new_session=True,
                )
            )
            gdbs.append(gdb)
            for setting in _SETTINGS:
                await gdb.run(setting)
            await gdb.run(f"-target-attach {pid}", b"1^done", b"*stopped")
            return gdb

    try:
        yield list(await asyncio.gather(*(start(pid) for pid in pids)))
    finally:
        await asyncio.gather(*(_end(gdb.process) for gdb in gdbs))


async def _end(process: Process) -> None:
    assert process.stdin is not None
    # At the end of its input GDB removes its breakpoints and detaches.
    process.stdin.close()
    async with asyncio.timeout(END_TIMEOUT_S):
        assert process.stdout is not None
        await process.stdout.read()
        await process.wait()
