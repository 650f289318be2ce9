"""Row ``idle``: the cost of a session while the job runs and the user asks nothing.

CPU is that of all our processes, with this front end, as a share of one core. The job's own
counters show its speed: as many ranks as cores compute without a rest. Their rounds are counted for
a while with the session and for as long without it, half of that before and half after. The rounds
are also divided by the CPU time that the ranks got, which other work on the machine does not
change.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from jobs import Job, placed_job
from measuring import Row, cpu_s

from pgdb.frontend.startup.start import attach
from pgdb.jobs import procfs

RANKS = os.cpu_count() or 1
WINDOW_S = 20.0
SHARE_TARGET = 0.001
SLOWED_TARGET = 1.01


@dataclass(frozen=True)
class Pace:
    """Progress of a job during a while."""

    rounds: int
    cpu_s: float
    """CPU seconds of its ranks."""

    def __add__(self, other: Pace) -> Pace:
        return Pace(self.rounds + other.rounds, self.cpu_s + other.cpu_s)


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("idle",)) -> list[Row]:
    """Return the rows: share of a core, slowdown by the clock and by CPU time."""
    del wanted
    shares, slowed, slowed_by_cpu = [], [], []
    with placed_job(ranks, rest_us=0) as job:
        for _ in range(rounds):
            before = asyncio.run(_pace(job, WINDOW_S / 2))
            share, held = asyncio.run(_in_session(job))
            # Half of it comes afterwards, so that changes of the machine count for both.
            free = before + asyncio.run(_pace(job, WINDOW_S / 2))
            shares.append(share)
            slowed.append(free.rounds / held.rounds)
            slowed_by_cpu.append((free.rounds / free.cpu_s) / (held.rounds / held.cpu_s))
    job_words = f"the same job, {ranks} ranks, without a session"
    return [
        Row("idle session, CPU of all our processes", "one core", tuple(shares), SHARE_TARGET),
        Row("idle session, job's time for a round", job_words, tuple(slowed), SLOWED_TARGET),
        Row(
            "idle session, job's CPU time for a round",
            job_words,
            tuple(slowed_by_cpu),
            SLOWED_TARGET,
        ),
    ]


async def _pace(job: Job, window_s: float) -> Pace:
    before, cpu_before = sum(job.rounds()), cpu_s(job.ranks)
    # This is the length of the measurement; there is nothing to wait for.
    await asyncio.sleep(window_s)
    return Pace(sum(job.rounds()) - before, cpu_s(job.ranks) - cpu_before)


async def _in_session(job: Job) -> tuple[float, Pace]:
    """Return the share of a core of our processes, and the progress of the job meanwhile."""
    session = await attach(job.pid)
    try:
        await session.continue_(wait=False)
        launcher = session.transport.overlay.launcher_pid
        own = [os.getpid(), launcher, *procfs.descendants(launcher)]
        before = cpu_s(own)
        pace = await _pace(job, WINDOW_S)
        return (cpu_s(own) - before) / WINDOW_S, pace
    finally:
        await session.close()
