"""A job whose ranks run along paths: the stops and ends that a test gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.frontend.api.session import Session
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.mpi_calls import MpiCallStatus
from pgdb.overlay.messages import (
    AnyOperation,
    Backtrace,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    ListMpiCalls,
    Resume,
    SelectFrame,
)
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Event,
    Exit,
    Frame,
    Record,
    Stack,
    Stop,
    Value,
)
from tests.fakes.recorded import Job, begin

DEADLINE_S = 20.0
LIMIT_S = 0.3
"""A time limit of a command that an answer exceeds, in seconds."""
Step = Stop | Exit | None
"""The end of a run; None for a rank that runs until it is interrupted."""


def at(
    line: int,
    function: str = "f",
    *,
    breakpoint: int = 0,
    breakpoints: tuple[int, ...] = (),
    reason: Any = "",
) -> Stop:
    """Return a stop after a step, at a breakpoint, or at several *breakpoints*."""
    breakpoint = breakpoint or next(iter(breakpoints), 0)
    why = reason or ("breakpoint-hit" if breakpoint else "end-stepping-range")
    where = frame(line, function)
    return Stop(reason=why, breakpoint=breakpoint, breakpoints=breakpoints, frame=where)


def frame(line: int, function: str = "f") -> Frame:
    if not line:
        return Frame(level=0, function=function, library="/lib/libc.so.6", offset="+3")
    return Frame(level=0, function=function, file="a.c", line=line)


class MovingJob(Job):
    """Ranks that run along their paths."""

    def __init__(self, paths: Mapping[int, Sequence[Step]], *, start: int = 1) -> None:
        super().__init__()
        self.session: Session
        self.ranks = RankSet(paths)
        self._paths = {rank: iter(path) for rank, path in paths.items()}
        self.frames = {rank: frame(start) for rank in paths}
        """The frame in which each rank is."""
        self._runs: dict[int, int] = {}
        self.values: dict[int, list[str]] = {}
        """The values of any expression at its evaluations; the last one stays."""
        self.calls: dict[int, MpiCallStatus] = {}
        """The calls of MPI in which ranks are."""
        self.resumed: list[tuple[str, str]] = []
        """The run commands, each with the ranks that it reached."""
        self.interrupted: list[str] = []

    async def on_request(
        self, request_id: int, ranks: RankSet, operation: AnyOperation
    ) -> Gathered | None:
        loop = asyncio.get_running_loop()
        if isinstance(operation, Resume) and ranks:
            self.resumed.append((operation.command, str(ranks)))
            self._runs |= dict.fromkeys(ranks, request_id)
            ends = {rank: next(self._paths[rank], None) for rank in ranks}
            loop.call_soon(self._deliver, {rank: end for rank, end in ends.items() if end})
        elif isinstance(operation, Interrupt):
            running = ranks & self.session.state.running
            self.interrupted.append(str(running))
            stops: dict[int, Step] = {
                rank: Stop(reason="interrupted", frame=self.frames[rank]) for rank in running
            }
            loop.call_soon(self._deliver, stops)
        return None

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        match operation:
            case Backtrace() | SelectFrame():
                return Stack(frames=(self.frames[rank],))
            case InsertBreakpoint(first_number=number):
                made = Breakpoint(number=number, kind="breakpoint")
                return BreakpointsMade(breakpoints=(made,))
            case ListMpiCalls() if rank in self.calls:
                return self.calls[rank]
            case Evaluate() if rank in self.values:
                values = self.values[rank]
                return Value(text=values.pop(0) if len(values) > 1 else values[0])
            case _:
                return super().answer(operation, rank, request_id)

    def happen(self, ends: Mapping[int, Step]) -> None:
        """Let ranks that run stop or end."""
        self._deliver(ends)

    def _deliver(self, ends: Mapping[int, Step]) -> None:
        merger: Merger[Event] = Merger()
        for rank, end in ends.items():
            assert end is not None
            if isinstance(end, Stop) and end.frame is not None and end.reason != "main":
                self.frames[rank] = end.frame
            merger.add(RankSet([rank]), replace(end, run=self._runs.get(rank, 0)))
        if merger.classes:
            self.session.traffic.on_events(
                tuple(EquivalenceClass(each.ranks, each.record) for each in merger.classes)
            )


async def until_over() -> None:
    """Wait until the time limit of the command is over."""
    while not deadline.is_over():
        await asyncio.sleep(deadline.left_s())


def run(job: MovingJob, test: Callable[[Session], Coroutine[Any, Any, None]]) -> None:
    """Carry out a test with a session on a job."""

    async def work() -> None:
        async with asyncio.timeout(DEADLINE_S):
            job.session = session = begin(job, ranks=job.ranks)
            job.happen(dict.fromkeys(job.ranks, Stop(reason="main", frame=job.frames[0])))
            await test(session)
            await session.close()

    asyncio.run(work())
