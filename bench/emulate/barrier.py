"""The front end's part of a barrier, beside its part of a stop storm.

The aggregators do the same for both: they merge stops, and pass one Resume on. So the front end is
all that a barrier adds: it holds the ranks of each message, and when the last have come it releases
all and sets them running. The stops come in several messages with random ranks, which is the worst
case for sets of ranks.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import AnyOperation, Events, InsertBreakpoint, Resume
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsMade, Done, Event, Frame, Record, Running, Stop

MESSAGES = 16
"""Number of messages in which the stops of all ranks come."""
ROUNDS = 9
PLACE = Frame(level=0, function="exchange", file="halo.c", fullname="/emulated/halo.c", line=57)


@dataclass(frozen=True, slots=True)
class Barrier:
    """CPU seconds of the front end for one number of ranks."""

    ranks: int
    storm_s: float
    """From the first message of a stop storm to the answer of ``continue``."""
    barrier_s: float
    """The same with a barrier, up to the Resume that releases the ranks."""


def measure(ranks: int) -> Barrier:
    """Return the median costs of a storm and of a barrier."""
    storms = [asyncio.run(_cost(ranks, has_barrier=False)) for _ in range(ROUNDS)]
    barriers = [asyncio.run(_cost(ranks, has_barrier=True)) for _ in range(ROUNDS)]
    return Barrier(ranks, statistics.median(storms), statistics.median(barriers))


def report(measured: Sequence[Barrier], whole_s: float) -> Iterator[str]:
    """Yield a Markdown table; times are shares of *whole_s*."""
    yield "| ranks | stop storm | barrier | barrier / storm |"
    yield "|--:|--:|--:|--:|"
    for each in measured:
        yield (
            f"| {each.ranks:,} | {each.storm_s / whole_s:.4f} | {each.barrier_s / whole_s:.4f} "
            f"| {each.barrier_s / each.storm_s:.2f} |"
        )


class _Transport:
    """Answers of a job in which everything works."""

    def __init__(self) -> None:
        self.resumed: list[RankSet] = []
        self.has_resumed = asyncio.Event()
        self.run = 0

    async def ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str = "",
        *,
        of_ended: bool = False,
    ) -> Gathered:
        del timeout_s, command, of_ended
        record: Record = Done()
        if isinstance(operation, Resume):
            self.run = request_id
            self.resumed.append(ranks)
            self.has_resumed.set()
            record = Running(run=request_id)
        elif isinstance(operation, InsertBreakpoint):
            made = Breakpoint(number=operation.first_number, kind="breakpoint")
            record = BreakpointsMade(breakpoints=(made,))
        return Gathered(request_id=request_id, classes=(EquivalenceClass(ranks, record),))


async def _cost(ranks: int, *, has_barrier: bool) -> float:
    session, transport = _session(RankSet.range(0, ranks))
    if has_barrier:
        await session.barrier("exchange", then="release")
    else:
        await session.break_at("exchange")
    waiting = asyncio.create_task(session.continue_())
    await transport.has_resumed.wait()
    transport.has_resumed.clear()
    # The messages are made beforehand: only the receiver is measured.
    messages = list(_messages(ranks, transport.run))
    begun = time.process_time()
    for message in messages:
        events = decode(message)
        assert isinstance(events, Events)
        session.traffic.on_events(events.classes)
    if has_barrier:
        await transport.has_resumed.wait()
        cost_s = time.process_time() - begun
        assert transport.resumed == [session.set] * 2
        waiting.cancel()
    else:
        answer = await waiting
        cost_s = time.process_time() - begun
        assert not answer.missing
    await session.close()
    return cost_s


def _session(ranks: RankSet) -> tuple[Session, _Transport]:
    session = new_session("attach", SessionOptions(), SessionDirectory())[0]
    transport = _Transport()
    session.transport.ask = transport.ask  # type: ignore[method-assign]
    session.opening.begin(ranks)
    session.traffic.on_events((EquivalenceClass(ranks, Stop(reason="main", frame=PLACE)),))
    session._core.notifier.release()
    return session, transport


def _messages(ranks: int, run: int) -> Iterator[bytes]:
    chance = random.Random(1)
    members = list(range(ranks))
    chance.shuffle(members)
    stop: Event = Stop(reason="breakpoint-hit", breakpoint=1, frame=PLACE)
    for number in range(MESSAGES):
        part = RankSet(members[number::MESSAGES])
        yield encode(Events(classes=(EquivalenceClass(part, replace(stop, run=run)),)))
