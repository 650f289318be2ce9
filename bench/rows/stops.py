"""Row ``stops``: CPU of breakpoint stops whose condition is false.

All ranks pass STOPS_COUNT times through a breakpoint with a condition, and stop at another one
behind the loop. CPU time counts: of the ranks, their GDBs and the aggregators, over the number of
stops, beside that of one rank and its plain GDB with the same two breakpoints. One condition is
false on every rank. The other one is true once, on the last rank alone; the session has to report
that stop and continue the rank.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jobs import Job, at, placed_job
from measuring import Row, cpu_s
from plain import plain_gdbs

from pgdb.frontend.startup.start import attach
from pgdb.jobs import procfs
from pgdb.ranks import RankSet

RANKS = 16
STOPS_COUNT = 10_000
TARGET = 1.2


def measure(ranks: int, rounds: int, wanted: Sequence[str] = ("stops",)) -> list[Row]:
    """Return a row for each condition."""
    del wanted
    steps = STOPS_COUNT // ranks
    conditions = {
        "false": "count < 0",
        "rank-local": f"local >= {1.5 * (ranks - 1)} && step == {steps // 2}",
    }
    found: dict[str, list[float]] = {name: [] for name in conditions}
    with placed_job(ranks, steps=steps) as job:
        for _ in range(rounds):
            for name, condition in conditions.items():
                is_true_once = name == "rank-local"
                ours = asyncio.run(_session_cpu_s(job, condition, is_true_once=is_true_once))
                theirs = asyncio.run(_plain_cpu_s(job, condition))
                found[name].append(ours / ranks / theirs)
    return [
        Row(
            name=f"{steps * ranks:,} stops, {ranks} ranks, {name} condition",
            reference="plain GDB on one rank, CPU per stop",
            values=tuple(ratios),
            target=TARGET,
        )
        for name, ratios in found.items()
    ]


async def _session_cpu_s(job: Job, condition: str, *, is_true_once: bool) -> float:
    """Return the CPU seconds of all ranks for the loop."""
    session = await attach(job.pid)
    try:
        # The round is completed first, so that the next one is whole.
        await session.break_at(at("swept"))
        await session.continue_()
        await session.break_at(at("step"), condition=condition)
        launcher = session.transport.overlay.launcher_pid
        pids = [launcher, *procfs.descendants(launcher), *job.ranks]
        before = cpu_s(pids)
        answer = await session.continue_()
        if is_true_once:
            last = session.ranks(RankSet([len(job.ranks) - 1]))
            if len(answer.classes) != 2:
                raise RuntimeError(f"the condition was not true on the last rank alone: {answer}")
            answer = await last.continue_()
        used = cpu_s(pids) - before
        if len(answer.classes) != 1 or answer.missing.ranks:
            raise RuntimeError(f"not all ranks have come out of the loop: {answer}")
        await session.delete()
        return used
    finally:
        await session.close()


async def _plain_cpu_s(job: Job, condition: str) -> float:
    """Return the CPU seconds of one rank and a plain GDB for the same hits."""
    async with plain_gdbs(job.ranks[:1]) as (gdb,):
        await gdb.run(f"-break-insert {at('swept')}")
        await gdb.run("-exec-continue", b"1^running", b"*stopped")
        await gdb.run(f'-break-insert -c "{condition}" {at("step")}')
        pids = [gdb.process.pid, job.ranks[0]]
        before = cpu_s(pids)
        line = await gdb.run("-exec-continue", b"1^running", b"*stopped")
        used = cpu_s(pids) - before
        if b'bkptno="1"' not in line:
            raise RuntimeError(f"the rank has not come out of the loop: {line!r}")
        return used
