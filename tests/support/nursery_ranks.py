"""Processes as ranks of one aggregator, whose GDBs are forked from nurseries."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.sbd.rank_files import look_at
from pgdb.backend.zygote import nursery
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nurseries
from pgdb.overlay.messages import Console
from pgdb.records import Event, Failure, Stack, Text
from tests.support.processes import status, wait_progress
from tests.support.terminal import DEADLINE_S

PROGRAM = Path(__file__).parent.parent / "programs" / "opener.c"
LIBRARY = PROGRAM.with_name("visit.c")


def build_opener(folder: Path) -> None:
    """Build the program, under two names, and the object that it opens."""
    for line in (
        ["cc", "-g", "-O0", "-o", "opener", str(PROGRAM), "-ldl"],
        ["cc", "-g", "-O0", "-o", "another one", str(PROGRAM), "-ldl"],
        ["cc", "-g", "-O0", "-shared", "-fPIC", "-o", "visit.so", str(LIBRARY)],
    ):
        subprocess.run(line, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=120)


@contextmanager
def running(*lines: list[str]) -> Iterator[list[int]]:
    """Run programs until they are in their main; give their pids."""
    processes = [subprocess.Popen(line, stdin=subprocess.DEVNULL) for line in lines]
    try:
        for process in processes:
            wait_progress(process.pid)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Ranks:
    """Processes as ranks of one aggregator."""

    def __init__(self, gdb: str, environment: dict[str, str], expected: str = "") -> None:
        self.notices: list[str] = []
        self.reported: dict[int, list[Event]] = {}
        index_cache = IndexCache(environment, self.notices.append)
        self.nurseries = Nurseries(gdb, environment, self.notices.append, index_cache)
        self._gdb_factory = GdbFactory(
            gdb,
            environment,
            (),
            index_cache,
            self.nurseries,
            expected_version=expected,
            notice=self.notices.append,
        )
        self.all: list[GdbDebugger] = []

    async def attach(self, pids: list[int]) -> list[Any]:
        """Attach to all at once; return what each says."""
        first = len(self.all)
        for rank in range(first, first + len(pids)):
            self.reported[rank] = []
            self.all.append(
                GdbDebugger(
                    rank,
                    gdb_factory=self._gdb_factory,
                    program="",
                    notify=lambda rank, event: self.reported[rank].append(event),
                )
            )
        return await asyncio.gather(
            *(each.attach(pid, 1) for each, pid in zip(self.all[first:], pids, strict=True))
        )

    async def ask(self, operation: Any, number: int = 2) -> list[Any]:
        """Have all carry out an operation."""
        return await asyncio.gather(*(each.perform(operation, number) for each in self.all))

    async def heard(self, kind: type[Event], count: int) -> None:
        """Wait until every rank has reported so many events of a kind."""
        while any(
            sum(isinstance(e, kind) for e in reported) < count
            for reported in self.reported.values()
        ):
            await asyncio.sleep(0.01)

    async def nursery(self, pid: int) -> nursery.Nursery:
        """Return the nursery for a process."""
        made = await self.nurseries.find(look_at(pid), pid)
        assert made is not None
        return made

    def parents(self) -> set[int]:
        """Return the parents of all ranks' GDBs."""
        return {int(status(each.gdb_pid, "PPid")) for each in self.all}


@asynccontextmanager
async def ranks(
    gdb: str = "", *, environment: dict[str, str] | None = None, expected: str = ""
) -> AsyncIterator[Ranks]:
    """Make ranks without processes yet; detach from all at the end, and end the nurseries."""
    found = Ranks(gdb or shutil.which("gdb") or "gdb", environment or dict(os.environ), expected)
    try:
        yield found
    finally:
        await asyncio.gather(*(each.detach(DEADLINE_S) for each in found.all))
        await found.nurseries.close()


async def reported_by(rank: GdbDebugger, *commands: str) -> list[str]:
    """Have one rank's GDB carry out commands; return what the last one printed, by lines."""
    for command in commands:
        said = await rank.perform(Console(command=command), 9)
        assert not isinstance(said, Failure), said
    return said.text.split() if isinstance(said, Text) else []


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test within the deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    asyncio.run(bounded())


def functions(stack: Any) -> list[str]:
    """Return the names of the functions of a stack."""
    assert isinstance(stack, Stack), stack
    return [frame.function for frame in stack.frames]
