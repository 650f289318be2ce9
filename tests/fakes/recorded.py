"""A job that is made up, whose sessions are recorded."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.startup.replay import replay
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.frontend.transport.recording import recording_of
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.overlay.messages import (
    AnyOperation,
    Backtrace,
    Console,
    Evaluate,
    InsertBreakpoint,
    ListVariables,
    Recall,
    Resume,
)
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Done,
    Failure,
    Frame,
    Record,
    Running,
    Stack,
    Stop,
    Text,
    Value,
    Variable,
    Variables,
)

COUNT = 4
ALL = RankSet.range(0, COUNT)


class Job:
    """Four ranks whose debuggers answer at once; ``next`` takes all to line 28."""

    def __init__(self) -> None:
        self.line = 26
        self.said: dict[int, dict[int, Record]] = {}
        self.asked: list[AnyOperation] = []
        self.reached: list[RankSet] = []
        """The ranks that each request has reached."""
        self.is_of_ended = False
        """Whether the last request was about ranks that have ended."""

    async def on_request(
        self, request_id: int, ranks: RankSet, operation: AnyOperation
    ) -> Gathered | None:
        """Do what comes before the answer to a request; return an answer in its place, or None."""
        return None

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
        self.asked.append(operation)
        self.reached.append(ranks)
        self.is_of_ended = of_ended
        if (instead := await self.on_request(request_id, ranks, operation)) is not None:
            return instead
        merger: Merger[Record] = Merger()
        missing = Missing()
        for rank in ranks:
            if isinstance(operation, Recall):
                record = self.said.get(operation.request_id, {}).get(rank)
                if record is None:
                    missing |= Missing(lost=RankSet([rank]))
                    continue
                merger.add(RankSet([rank]), record)
                continue
            record = self.answer(operation, rank, request_id)
            self.said.setdefault(request_id, {})[rank] = record
            normalized = normalize_record(record)
            merger.add(RankSet([rank]), normalized.record, normalized.slots)
        return Gathered(request_id=request_id, classes=merger.classes, missing=missing)

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        match operation:
            case Backtrace():
                return Stack(frames=(self.frame(rank), Frame(level=1, function="main")))
            case Evaluate(expression="x"):
                return Value(text=str(rank * self.line))
            case Evaluate(expression="p"):
                return Value(text=f"(int *) {0x7FFF0000 + rank:#x}")
            case Evaluate():
                return Failure(message=f'No symbol "{operation.expression}" in current context.')
            case ListVariables():
                return Variables(items=(Variable(name="x", value=str(rank)),))
            case InsertBreakpoint():
                made = Breakpoint(number=operation.first_number, kind="breakpoint")
                return BreakpointsMade(breakpoints=(made,))
            case Console():
                return Text(text=f"said to {operation.command}")
            case Resume():
                return Running(run=request_id)
            case _:
                return Done()

    def frame(self, rank: int) -> Frame:
        argument = Variable(name="rank", value=str(rank), is_argument=True)
        return Frame(level=0, function="f", arguments=(argument,), file="a.c", line=self.line)


class User:
    """User at a prompt without a terminal."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.out = io.StringIO()
        self.display = TextDisplay(self.out)
        self.dispatcher = Dispatcher(Workspace(session), self.display, read_line=self._read)
        session.recorder.describe_workspace = lambda: self.dispatcher.workspace.state
        session.subscribe(self.display.notify)
        if (recording := recording_of(session.transport)) is not None:
            self.dispatcher.workspace.restore(recording.stored_workspace)

    async def _read(self, prompt: str) -> str | None:
        return None

    async def type(self, line: str) -> str:
        """Carry out a line; return what it shows."""
        self.out.seek(0)
        self.out.truncate()
        await self.dispatcher.run_line(line)
        self.display.flush()
        return self.out.getvalue()


def begin(job: Job, *, options: SessionOptions | None = None, ranks: RankSet = ALL) -> Session:
    session = new_session("attach", options or SessionOptions(), SessionDirectory())[0]
    session.transport.ask = job.ask  # type: ignore[method-assign]
    session.description = "mpirun -n 4 ./ring"
    session.gdb_version, session.mpi_version = "13.1", "Open MPI 4.1.4"
    processes = [RankProcess(rank, f"node{rank // 2}", 100 + rank, "/ring") for rank in ranks]
    session.table = ProcTable(processes=tuple(processes), source="made up")
    session.opening.begin(ranks)
    stop = Stop(reason="breakpoint-hit", breakpoint=1, frame=job.frame(0))
    normalized = normalize_record(stop)
    stopped = EquivalenceClass(ranks, normalized.record, normalized.slots)
    session.opening.complete(Answer("attach", ranks, (stopped,)))
    return session


async def go_next(job: Job, session: Session) -> None:
    """Let all ranks run to line 28."""
    run = await session.runs.start("next", "", ALL)
    job.line = 28
    stop = normalize_record(
        Stop(reason="end-stepping-range", run=run.request_id, frame=job.frame(0))
    )
    session.traffic.on_events((EquivalenceClass(ALL, stop.record, stop.slots),))


ASKED = ("bt", "p x", "p p", "info locals", "tree", "info threads", "p nosuch", "proc 1-2 p $pc")


def recorded(
    path: Path, lines: Sequence[str] = ASKED, *, then: Callable[[Job], None] | None = None
) -> list[str]:
    """Write a recording of a session in which *lines* were typed; return what they have shown."""

    async def work() -> list[str]:
        job = Job()
        session = begin(job)
        user = User(session)
        shown = []
        for line in lines:
            if line == "next":
                await go_next(job, session)
                user.display.flush()
            else:
                shown.append(await user.type(line))
        if then is not None:
            then(job)
        text = await user.type(f"session save {path}")
        assert f"pgdb replay {path}" in text
        await session.close()
        return shown

    return asyncio.run(work())


def asked_of(path: Path, *lines: str) -> list[str]:
    """Return what lines show that are typed at a recording."""

    async def work() -> list[str]:
        session = await replay(path)
        user = User(session)
        shown = [await user.type(line) for line in lines]
        await session.close()
        return shown

    return asyncio.run(work())
