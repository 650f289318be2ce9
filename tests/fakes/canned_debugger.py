"""A debugger made of a table of canned answers: no GDB, no process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pgdb.backend.rank.protocol import (
    EVERYTHING,
    FactoryContext,
    HasEndedError,
    NeedsStopError,
    State,
)
from pgdb.errors import DebuggerError
from pgdb.overlay.messages import (
    AnyOperation,
    Backtrace,
    Console,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Kill,
    Resume,
)
from pgdb.overlay.operation import Capability
from pgdb.records import (
    Breakpoint,
    BreakpointsMade,
    Done,
    Event,
    Exit,
    Failure,
    Frame,
    Gone,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
    Value,
)

HERE = Frame(level=0, function="exchange", file="ring.c", fullname="/src/ring.c", line=17)
ATTACHED = Stop(reason="attached", frame=HERE)


@dataclass
class Canned:
    """The answers of one rank, and the events of its life."""

    answers: Mapping[str, Record] = field(default_factory=dict)
    """By command: ``print x``, ``bt``, ``break main``."""
    events: Iterable[Stop | Exit] = ()
    """Ends of the runs, in their order; after the last one the rank runs until it is interrupted.
    The number of the run is filled in."""
    attaching: tuple[Record | DebuggerError, ...] = (ATTACHED,)
    """Outcomes of the attempts to attach; the last one repeats."""
    capabilities: Capability = EVERYTHING


def command_of(operation: AnyOperation) -> str:
    """Return the key of an operation in the table of answers."""
    match operation:
        case Evaluate(expression=expression):
            return f"print {expression}"
        case Backtrace():
            return "bt"
        case Console(command=command) | InsertBreakpoint(command=command):
            return command
        case _:
            return type(operation).__name__


class CannedDebugger:
    """One rank that answers from a table."""

    def __init__(self, rank: int, factory: CannedDebuggers) -> None:
        self.rank = rank
        self.state: State = "new"
        self.pid: int | None = 0
        self.run = 0
        self.asked: list[AnyOperation] = []
        self.detached = False
        self.abandoned = False
        self.outlives_rank = True
        self._factory = factory
        self._canned = factory.canned(rank)
        self._last: Event | None = None

    @property
    def capabilities(self) -> Capability:
        return self._canned.capabilities

    @property
    def current_event(self) -> Event | None:
        if self.state == "running":
            return Running(run=self.run)
        return self._last if self.state != "detached" else None

    @property
    def program_pid(self) -> int | None:
        return self.pid

    async def attach(
        self, pid: int, request_id: int, *, is_retried: bool = False, is_held_back: bool = False
    ) -> Record:
        self.pid = pid
        self._notify(Progress(stage="attached"))
        outcome = self._factory.next_attachment(self.rank)
        if isinstance(outcome, DebuggerError):
            self.state = "gone"
            raise outcome
        if isinstance(outcome, Failure):
            return outcome
        return self._take(outcome, request_id)

    async def acquire_held(self, pid: int, request_id: int, *, runs_on: bool = True) -> Record:
        return await self.attach(pid, request_id)

    async def perform(
        self,
        operation: AnyOperation,
        request_id: int,
        timeout_s: float | None = None,
        *,
        of_ended: bool = False,
    ) -> Record:
        self.asked.append(operation)
        if isinstance(operation, Interrupt):
            if self.state == "running":
                self._end_run(Stop(reason="interrupted", frame=HERE))
            return Done()
        if isinstance(operation, Kill):
            self._end_run(Exit(signal="SIGKILL"))
            return Done()
        if self.state == "exited" and of_ended:
            if not self.outlives_rank:
                raise HasEndedError
            return self._canned.answers[command_of(operation)]
        if self.state in ("exited", "detached", "gone"):
            return Failure(message=f"the rank is {self.state}")
        if isinstance(operation, Detach):
            self.state = "detached"
            return Done()
        if isinstance(operation, InsertBreakpoint):
            made = Breakpoint(number=operation.first_number, kind="breakpoint")
            return BreakpointsMade(breakpoints=(made,))
        if self.state != "stopped":
            raise NeedsStopError
        if isinstance(operation, Resume):
            self.state, self.run = "running", request_id
            event = next(self._factory.lives[self.rank], None)
            if event is not None:
                asyncio.get_running_loop().call_soon(self._end_run, event)
            return Running(run=request_id)
        return self._canned.answers.get(
            command_of(operation), Failure(message=f"no answer to {command_of(operation)!r}")
        )

    async def is_silent(self) -> bool:
        return False

    async def has_debugger(self, timeout_s: float) -> bool:
        return self.state in ("stopped", "running")

    def note_end(self) -> Exit:
        self.state, self._last = "exited", Exit(run=self.run)
        return Exit(run=self.run)

    async def detach(self, timeout_s: float) -> None:
        self.detached = True
        if self.state in ("stopped", "running"):
            self.state = "detached"

    async def abandon(self, *, holds_back: bool = False) -> bool:
        self.abandoned = True
        self.state = "gone"
        return False

    def die(self) -> None:
        """Die as a GDB that is killed: the rank runs on."""
        self.state = "gone"
        self._notify(Gone(why="it was killed"))

    def _take(self, record: Record, run: int) -> Record:
        if isinstance(record, Stop):
            record = Stop(reason=record.reason, frame=record.frame, run=run)
            self.state, self._last = "stopped", record
        elif isinstance(record, Exit):
            self.state, self._last = "exited", record
        return record

    def _end_run(self, event: Stop | Exit) -> None:
        if self.state not in ("running", "stopped"):
            return
        if isinstance(event, Exit):
            event = Exit(code=event.code, signal=event.signal, run=self.run)
        else:
            event = Stop(
                reason=event.reason, breakpoint=event.breakpoint, frame=event.frame, run=self.run
            )
        self.state = "exited" if isinstance(event, Exit) else "stopped"
        self._notify(event)

    def _notify(self, event: Event) -> None:
        if isinstance(event, Stop | Exit):
            self._last = event
        self._factory.context.notify(self.rank, event)


class CannedDebuggers:
    """The factory of canned debuggers; records the debuggers and the calls."""

    debuggers = "tables of answers"

    def __init__(self, context: FactoryContext, ranks: Mapping[int, Canned]) -> None:
        self.context = context
        self.made: dict[int, list[CannedDebugger]] = {}
        self.paused: list[int] = []
        self.released: list[int] = []
        self.is_closed = False
        self._ranks = ranks
        self.lives: dict[int, Iterator[Stop | Exit]] = {}

    def canned(self, rank: int) -> Canned:
        """Return the answers of a rank."""
        return self._ranks.get(rank, Canned(answers={"print rank": Value(text=str(rank))}))

    def next_attachment(self, rank: int) -> Record | DebuggerError:
        """Return the outcome of the attempt to attach that comes now."""
        outcomes = self.canned(rank).attaching
        return outcomes[min(len(self.made[rank]), len(outcomes)) - 1]

    def make(self, rank: int) -> CannedDebugger:
        self.lives.setdefault(rank, iter(self.canned(rank).events))
        made = CannedDebugger(rank, self)
        self.made.setdefault(rank, []).append(made)
        return made

    def pause(self, pids: Iterable[int]) -> None:
        self.paused += pids

    async def release(self, pid: int) -> None:
        self.released.append(pid)

    async def close(self) -> None:
        self.is_closed = True


class CannedOpener:
    """Opener of the factory of one aggregator, which the test can look at."""

    def __init__(self, ranks: Mapping[int, Canned] | None = None) -> None:
        self._ranks = ranks or {}
        self.factories: list[CannedDebuggers] = []

    def __call__(self, context: FactoryContext) -> CannedDebuggers:
        self.factories.append(CannedDebuggers(context, self._ranks))
        return self.factories[-1]

    def debugger(self, rank: int) -> CannedDebugger:
        """Return the newest debugger of a rank."""
        return next(
            factory.made[rank][-1] for factory in reversed(self.factories) if rank in factory.made
        )


def stack_of(*functions: str) -> Stack:
    """Return a stack, innermost function first."""
    frames = (
        Frame(level=level, function=name, file="ring.c", line=10 + level)
        for level, name in enumerate(functions)
    )
    return Stack(frames=tuple(frames))
