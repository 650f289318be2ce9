"""A session with a GDB that says what the test wants: results by token, the rest as events."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.process import StartedGdb
from pgdb.backend.gdb.session import GdbSession
from tests.fakes.gdb_events import GdbEvents

FAKE_GDB = Path(__file__).resolve().with_name("fake_gdb.py")
DEADLINE_S = 20.0

Script = dict[str, list[str]]


def run(
    test: Callable[[GdbSession, GdbEvents], Coroutine[Any, Any, None]], script: Script
) -> GdbEvents:
    async def bounded() -> GdbEvents:
        async with asyncio.timeout(DEADLINE_S), started(script) as (gdb, events):
            await test(gdb, events)
        return events

    return asyncio.run(bounded())


@asynccontextmanager
async def started(script: Script) -> AsyncIterator[tuple[GdbSession, GdbEvents]]:
    events = GdbEvents()
    gdb = GdbSession(events)
    argv = [sys.executable, "-I", "-S", str(FAKE_GDB), json.dumps(script)]
    await gdb.start(partial(StartedGdb.start, argv, os.environ))
    try:
        yield gdb, events
    finally:
        if not await gdb.close(5.0):
            os.kill(gdb.pid, 9)
            await events.ended.wait()


async def ask(gdb: GdbSession, command: str) -> Result:
    return await asyncio.wait_for(gdb.send(command), DEADLINE_S)
