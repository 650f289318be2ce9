"""Rows of commands and their answers, beside a bare loop: ``bt``, ``first``, ``values``, ``step``,
``storm``, ``barrier``.

Each round attaches a session to the job, stops all ranks in one place, and asks again and again.
Then plain GDBs attach to the same ranks, stop them in the same place, and get -stack-list-frames
(-exec-step, -exec-continue) from a bare asyncio loop that reads their lines. A round's value is the
median of the session's times over the median of the loop's. In ``storm`` the loop that all ranks
are in has a breakpoint, so all reach it at once. In ``bt`` nothing happens in between; in ``first``
all ranks make a step before each measured time, on both sides. ``barrier`` is ``storm`` with a
barrier in place of the breakpoint: all ranks are held and released. ``values`` has no session: it
is the time of the bare loop itself with the values of arguments, which every ``bt`` shows.

The CPU time of each part is printed too, over that of the loop with its GDBs.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobs import Job, at, placed_job
from measuring import Row, cpu_s
from plain import PlainGdb, plain_gdbs

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.start import attach
from pgdb.jobs import procfs

RANKS = 64
TARGET = 1.5
SAMPLES = 15
WARM_UP = 3
STEPS = 100_000
"""Number of steps in the rank's loop: enough that no rank reaches its end."""


class Cost(NamedTuple):
    """The cost of one command of a row."""

    time_s: float
    """Median seconds from the command to its answer."""
    cpu_s: Mapping[str, float]
    """Mean CPU seconds of each part."""


Costs = dict[str, Cost]
Parts = Mapping[str, Sequence[int]]
"""Process ids by part."""
GDBS = "GDBs"

REFERENCES = {
    "bt": "-stack-list-frames",
    "first": "-stack-list-frames",
    "values": "-stack-list-frames",
    "step": "-exec-step",
    "storm": "-exec-continue",
    "barrier": "-exec-continue",
}
NAMES = {
    "first": "the first bt after a step",
    "values": "the bare loop with values of arguments",
}
FRAMES = "frames"
_VALUES = "-stack-list-frames\n2-stack-list-arguments --simple-values"


async def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Way:
    """The measured command, and the work before each time, before the first and after the last."""

    run: Callable[[], Awaitable[None]]
    before: Callable[[], Awaitable[None]] = nothing
    begin: Callable[[], Awaitable[None]] = nothing
    end: Callable[[], Awaitable[None]] = nothing


def measure(ranks: int, rounds: int, wanted: Sequence[str] = tuple(REFERENCES)) -> list[Row]:
    """Return the rows that are *wanted*."""
    found: dict[str, list[float]] = {name: [] for name in wanted}
    shares: dict[str, list[str]] = {name: [] for name in wanted}
    each_gdb: dict[str, list[str]] = {name: [] for name in wanted}
    with placed_job(ranks, steps=STEPS) as job:
        for _ in range(rounds):
            sessions = [each for each in wanted if each != "values"]
            ours = asyncio.run(time_session(job, sessions)) if sessions else {}
            theirs = asyncio.run(time_plain(job, wanted))
            for name in wanted:
                beside = theirs[FRAMES if name == "values" else name]
                cost = theirs[name] if name == "values" else ours[name]
                found[name].append(cost.time_s / beside.time_s)
                whole_s = sum(beside.cpu_s.values())
                parts_text = [f"{part} {each / whole_s:.2f}" for part, each in cost.cpu_s.items()]
                shares[name].append(" + ".join(parts_text))
                each_gdb[name].append(f"{cost.cpu_s[GDBS] / ranks:.5f}")
    return [
        Row(
            name=f"{NAMES.get(name, name)}, {ranks} ranks",
            reference=f"{REFERENCES[name]} from a bare asyncio loop",
            values=tuple(found[name]),
            target=TARGET,
            note=f"CPU over that of the loop with its GDBs: {'; '.join(shares[name])}; "
            f"each GDB's share of a second: {', '.join(each_gdb[name])}",
        )
        for name in wanted
    ]


async def time_session(job: Job, wanted: Sequence[str]) -> Costs:
    """Return the cost of commands from their beginning to the merged answer."""
    session = await attach(job.pid)
    try:
        await _stop_session(session)

        async def bt() -> None:
            _check(await session.backtrace())

        async def step() -> None:
            _check(await session.step())

        async def storm() -> None:
            _check(await session.continue_())

        async def meet() -> None:
            _check(await session.continue_())
            if session.held_for:
                raise RuntimeError(f"ranks are held still: {session.held_for}")

        async def set_barrier() -> None:
            await session.barrier(at("step"))

        async def set_breakpoint() -> None:
            _check(await session.break_at(at("step")))

        async def delete_breakpoint() -> None:
            await session.delete()

        ways = {
            "bt": Way(bt),
            "first": Way(bt, before=step),
            "step": Way(step),
            "storm": Way(storm, begin=set_breakpoint, end=delete_breakpoint),
            "barrier": Way(meet, begin=set_barrier, end=delete_breakpoint),
        }
        return await _costs(ways, wanted, _parts(session))
    finally:
        await session.close()


async def time_plain(job: Job, wanted: Sequence[str]) -> Costs:
    """Return the cost until all of the GDBs have answered."""
    async with plain_gdbs(job.ranks) as gdbs:
        await asyncio.gather(*(_stop_plain(gdb) for gdb in gdbs))

        async def bt() -> None:
            await _all(gdbs, "-stack-list-frames", b"1^done")

        async def values() -> None:
            await _all(gdbs, _VALUES, b"1^done", b"2^done")

        async def step() -> None:
            await _all(gdbs, "-exec-step", b"1^running", b"*stopped")

        async def storm() -> None:
            await _all(gdbs, "-exec-continue", b"1^running", b"*stopped")

        async def set_breakpoint() -> None:
            await _all(gdbs, f"-break-insert {at('step')}", b"1^done")

        async def delete_breakpoint() -> None:
            await _all(gdbs, "-break-delete", b"1^done")

        ways = {
            "bt": Way(bt),
            "first": Way(bt, before=step),
            FRAMES: Way(bt),
            "values": Way(values),
            "step": Way(step),
            "storm": Way(storm, begin=set_breakpoint, end=delete_breakpoint),
            "barrier": Way(storm, begin=set_breakpoint, end=delete_breakpoint),
        }
        more = (FRAMES,) if "values" in wanted else ()
        pids = [gdb.process.pid for gdb in gdbs]
        return await _costs(ways, [*more, *wanted], {GDBS: pids, "loop": [os.getpid()]})


async def _stop_session(session: Session) -> None:
    place = await session.break_at(at("step"), temporary=True)
    _check(place)
    _check(await session.continue_())


async def _stop_plain(gdb: PlainGdb) -> None:
    await gdb.run(f"-break-insert -t {at('step')}")
    await gdb.run("-exec-continue", b"1^running", b"*stopped")


async def _all(gdbs: Sequence[PlainGdb], command: str, *beginnings: bytes) -> None:
    for gdb in gdbs:
        gdb.write(command)
    await asyncio.gather(*(gdb.read_to(*beginnings) for gdb in gdbs))


def _parts(session: Session) -> Parts:
    launcher = session.transport.overlay.launcher_pid
    below = [launcher, *procfs.descendants(launcher)]
    gdbs = [pid for pid in below if "-i=mi3" in (procfs.command_line(pid) or ())]
    others = [pid for pid in below if pid not in gdbs]
    return {GDBS: gdbs, "aggregator": others, "front end": [os.getpid()]}


async def _costs(ways: Mapping[str, Way], wanted: Sequence[str], parts: Parts) -> Costs:
    found = {}
    for name in wanted:
        times = []
        used_s = dict.fromkeys(parts, 0.0)
        await ways[name].begin()
        for sample in range(WARM_UP + SAMPLES):
            await ways[name].before()
            before = {part: cpu_s(pids) for part, pids in parts.items()}
            begun = time.perf_counter()
            await ways[name].run()
            times.append(time.perf_counter() - begun)
            if sample >= WARM_UP:
                for part, pids in parts.items():
                    used_s[part] += (cpu_s(pids) - before[part]) / SAMPLES
        await ways[name].end()
        found[name] = Cost(statistics.median(times[WARM_UP:]), used_s)
    return found


def _check(answer: Answer) -> None:
    """Check that all ranks gave one answer: otherwise something else was measured."""
    if answer.missing.ranks or len(answer.classes) != 1:
        raise RuntimeError(f"'{answer.command}': not one class of all ranks: {answer}")
