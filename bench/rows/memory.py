"""Row ``memory``: all GDBs and aggregators of a session per rank, beside one plain GDB.

Both are measured after attach and a backtrace, as proportional set sizes: shared pages count once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jobs import Job, placed_job
from measuring import Row, pss_bytes
from plain import plain_gdbs

from pgdb.frontend.startup.start import attach
from pgdb.jobs import procfs

RANKS = 32
TARGET = 0.25


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("memory",)) -> list[Row]:
    """Return the row."""
    del wanted
    with placed_job(ranks) as job:
        ratios = [
            asyncio.run(_session_bytes(job)) / ranks / asyncio.run(_plain_bytes(job))
            for _ in range(rounds)
        ]
    return [
        Row(
            name=f"memory per rank, {ranks} ranks",
            reference="one plain GDB after attach and bt (PSS)",
            values=tuple(ratios),
            target=TARGET,
        )
    ]


async def _session_bytes(job: Job) -> int:
    session = await attach(job.pid)
    try:
        await session.backtrace()
        # The launcher with the anchors, and below them aggregators and GDBs.
        launcher = session.transport.overlay.launcher_pid
        return pss_bytes([launcher, *procfs.descendants(launcher)])
    finally:
        await session.close()


async def _plain_bytes(job: Job) -> int:
    async with plain_gdbs(job.ranks[:1]) as (gdb,):
        await gdb.run('-interpreter-exec console "bt"')
        return pss_bytes([gdb.process.pid])
