"""A real GDB with PGDB's breakpoints, and no program yet."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.process import start_with
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import SETTINGS
from tests.fakes.gdb_events import GdbEvents

DEADLINE_S = 60.0


@asynccontextmanager
async def started(
    *, has_python: bool = True
) -> AsyncIterator[tuple[GdbSession, GdbEvents, Breakpoints]]:
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    events = GdbEvents()
    session = GdbSession(events)
    breakpoints = events.breakpoints = Breakpoints(session)
    async with asyncio.timeout(DEADLINE_S):
        await session.start(start_with(gdb, os.environ))
        try:
            for each in SETTINGS:
                await session.send(console(each.command))
            if not has_python:
                await session.send(console("python del breakpoints_in_gdb"))
            yield session, events, breakpoints
        finally:
            await session.close(DEADLINE_S)


async def run_to(gdb: GdbSession, events: GdbEvents, program: Path, function: str) -> None:
    """Run a program until it stops in a function."""
    await gdb.send(f"-file-exec-and-symbols {program}")
    await gdb.send(f"-break-insert {function}")
    await gdb.send("-exec-run")
    await events.stops.get()
