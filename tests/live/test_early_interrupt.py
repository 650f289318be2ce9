"""An interrupt that comes before the run that it is meant for: the run is interrupted."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.rank.states import Interrupting
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.overlay.operations import Console, Interrupt, Resume
from pgdb.records import Event, Running, Stop

pytestmark = pytest.mark.gdb

DEADLINE_S = 60.0


@pytest.mark.parametrize("count", [1, 3])
def test_a_run_that_is_still_prepared_is_interrupted(count: int) -> None:
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    asyncio.run(_interrupted_early(gdb, count))


async def _interrupted_early(gdb: str, count: int) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
    stops: asyncio.Queue[Stop] = asyncio.Queue()

    def notify(rank: int, event: Event) -> None:
        assert rank == 0
        if isinstance(event, Stop):
            stops.put_nowait(event)

    factory = GdbFactory(gdb, dict(os.environ), (), IndexCache(os.environ, print))
    rank = GdbDebugger(0, gdb_factory=factory, program="", notify=notify)
    try:
        async with asyncio.timeout(DEADLINE_S):
            await rank.attach(process.pid, 1)
            # The run waits for this command, as it waits for what a run needs first.
            before = asyncio.create_task(rank.perform(Console(command="print 1"), 2))
            run = asyncio.create_task(rank.perform(Resume(command="continue"), 3))
            await asyncio.sleep(0)
            requests = [rank.perform(Interrupt(), request) for request in range(4, 4 + count)]
            interrupts = asyncio.gather(*requests)
            await asyncio.sleep(0)
            assert not before.done() and not run.done(), "the run has begun already"
            await before
            record = await run
            assert isinstance(record, Running)
            stop = await stops.get()
            assert (stop.reason, stop.run) == ("interrupted", 3)
            await interrupts
            # It is no interrupt of the next run.
            assert isinstance(await rank.perform(Resume(command="continue"), 20), Running)
            # A signal that is pending stops the process before it writes.
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"line\n")
            assert await process.stdout.readline() == b"line\n"
            assert not isinstance(rank.machine.motion, Interrupting)
            assert rank.state == "running" and stops.empty()
    finally:
        await rank.detach(DEADLINE_S)
        process.kill()
        await process.wait()
