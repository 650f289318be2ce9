"""Rows ``bt``, ``first``, ``values``, ``step``, ``storm``: command to answer, and a bare loop's.

Each round attaches a session to the job, has all ranks stop in one place, and asks again and
again; then plain GDBs are attached to the same ranks, stop them in the same place and get
-stack-list-frames (-exec-step, -exec-continue) from a bare asyncio loop that reads their lines. A
round's value is the median of the session's times over the median of the loop's. In ``storm`` there
is a breakpoint in the loop that all ranks are in, so that all come to it at once. In ``bt`` nothing
happens in between, in ``first`` all ranks make a step before each time that counts, on both sides.
``values`` has no session in it: it is what the bare loop itself takes once it asks for the values
of arguments, too, which every ``bt`` shows.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from jobs import Job, at, placed_job
from measuring import Row
from plain import PlainGdb, plain_gdbs

from pgdb.frontend.answers import Answer
from pgdb.frontend.session import Session
from pgdb.frontend.starting.start import attach

RANKS = 64
TARGET = 1.5
SAMPLES = 15
WARM_UP = 3
STEPS = 100_000
"""So many that no rank comes to the end of its loop while it is stepped."""

Times = dict[str, float]

REFERENCES = {
    "bt": "-stack-list-frames",
    "first": "-stack-list-frames",
    "values": "-stack-list-frames",
    "step": "-exec-step",
    "storm": "-exec-continue",
}
NAMES = {
    "first": "the first bt after a step",
    "values": "the bare loop with values of arguments",
}
FRAMES = "frames"
_VALUES = "-stack-list-frames\n2-stack-list-arguments --simple-values"


async def nothing() -> None:
    """Make nothing ready."""


@dataclass(frozen=True)
class Way:
    """What is measured, and what is done before each time, before the first and after the last."""

    run: Callable[[], Awaitable[None]]
    before: Callable[[], Awaitable[None]] = nothing
    begin: Callable[[], Awaitable[None]] = nothing
    end: Callable[[], Awaitable[None]] = nothing


def measure(ranks: int, rounds: int, wanted: Sequence[str] = tuple(REFERENCES)) -> list[Row]:
    """Return the rows that are *wanted*."""
    found: dict[str, list[float]] = {name: [] for name in wanted}
    with placed_job(ranks, steps=STEPS) as job:
        for _ in range(rounds):
            sessions = [each for each in wanted if each != "values"]
            ours = asyncio.run(time_session(job, sessions)) if sessions else {}
            theirs = asyncio.run(time_plain(job, wanted))
            for name in wanted:
                if name == "values":
                    found[name].append(theirs[name] / theirs[FRAMES])
                else:
                    found[name].append(ours[name] / theirs[name])
    return [
        Row(
            name=f"{NAMES.get(name, name)}, {ranks} ranks",
            reference=f"{REFERENCES[name]} from a bare asyncio loop",
            values=tuple(found[name]),
            target=TARGET,
        )
        for name in wanted
    ]


async def time_session(job: Job, wanted: Sequence[str]) -> Times:
    """Return the median seconds from a command to its merged answer."""
    session = await attach(job.pid)
    try:
        await _stop_session(session)

        async def bt() -> None:
            _check(await session.backtrace())

        async def step() -> None:
            _check(await session.step())

        async def storm() -> None:
            _check(await session.continue_())

        async def set_breakpoint() -> None:
            _check(await session.break_at(at("step")))

        async def delete_breakpoint() -> None:
            await session.delete()

        ways = {
            "bt": Way(bt),
            "first": Way(bt, before=step),
            "step": Way(step),
            "storm": Way(storm, begin=set_breakpoint, end=delete_breakpoint),
        }
        return await _medians(ways, wanted)
    finally:
        await session.close()


async def time_plain(job: Job, wanted: Sequence[str]) -> Times:
    """Return the median seconds until all of the GDBs have answered."""
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
        }
        more = (FRAMES,) if "values" in wanted else ()
        return await _medians(ways, [*more, *wanted])


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


async def _medians(ways: Mapping[str, Way], wanted: Sequence[str]) -> Times:
    found = {}
    for name in wanted:
        times = []
        await ways[name].begin()
        for _ in range(WARM_UP + SAMPLES):
            await ways[name].before()
            begun = time.perf_counter()
            await ways[name].run()
            times.append(time.perf_counter() - begun)
        await ways[name].end()
        found[name] = statistics.median(times[WARM_UP:])
    return found


def _check(answer: Answer) -> None:
    """See to it that all ranks have said the same: what was meant to be measured."""
    if answer.missing.ranks or len(answer.classes) != 1:
        raise RuntimeError(f"'{answer.command}': not one class of all ranks: {answer}")
