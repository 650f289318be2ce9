"""A job that is made up, whose ranks stop when they are interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from msgspec.structs import replace

from pgdb.frontend.api.notifications import Notification, RankEvents, SessionNotice
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, Interrupt, Resume
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import Event, Failure, Record, Stop
from tests.fakes.recorded import Job, begin
from tests.support.answers import ranks


class StoppingJob(Job):
    """Ranks that stop when they are interrupted, except some."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupted: list[str] = []
        self.resumed: list[str] = []
        self.deaf = RankSet()
        """Ranks that do not stop."""
        self.is_slow = False
        """Whether an interrupt overtakes the order to go on."""
        self.refuses = False
        """Whether ranks refuse to go on."""
        self.session: Session | None = None
        self.reported: list[Notification] = []

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
        while self.is_slow and isinstance(operation, Resume) and not self.interrupted:
            await asyncio.sleep(0)
        gathered = await super().ask(request_id, ranks, operation, timeout_s)
        if isinstance(operation, Interrupt):
            self.interrupted.append(str(ranks))
            # One by one, as they come from several hosts.
            assert self.session is not None
            for rank in ranks & self.session.state.running - self.deaf:
                self.notify(str(rank), Stop(reason="interrupted", frame=self.frame(0)))
        elif isinstance(operation, Resume):
            self.resumed.append(str(ranks))
        return gathered

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, Interrupt) and rank in self.deaf:
            return Failure(message="all threads block SIGURG")
        if isinstance(operation, Resume) and self.refuses:
            return Failure(message="no")
        return super().answer(operation, rank, request_id)

    def notify(self, text: str, event: Event) -> None:
        assert self.session is not None
        state = self.session.state
        if isinstance(event, Stop):
            run = next((each for each in sorted(state._runs) if state._runs[each] & ranks(text)), 0)
            event = replace(event, run=run)
        self.session.traffic.on_events((EquivalenceClass(ranks(text), event),))

    def hit(self, text: str, number: int = 1, **fields: Any) -> None:
        self.notify(text, Stop(reason="breakpoint-hit", breakpoint=number, **fields))

    @property
    def events(self) -> list[list[tuple[str, str, str]]]:
        """Ranks, reason and cause of the stops, a list for each notification of stops."""
        found = []
        for each in self.reported:
            if isinstance(each, RankEvents):
                stops = [one for one in each.classes if isinstance(one.record, Stop)]
                rows = [(str(x.ranks), x.record.reason, x.record.stopped_with) for x in stops]
                found += [rows] if rows else []
        return found

    @property
    def notes(self) -> list[str]:
        return [each.text for each in self.reported if isinstance(each, SessionNotice)]


Test = Callable[[StoppingJob, Session], Coroutine[Any, Any, None]]


def stops(job: StoppingJob) -> list[EquivalenceClass[Stop]]:
    """Return the stops that were reported."""
    classes = [one for each in job.reported if isinstance(each, RankEvents) for one in each.classes]
    return [cast("EquivalenceClass[Stop]", one) for one in classes if isinstance(one.record, Stop)]


def run(
    test: Test,
    mode: str = "rank",
    *,
    runs: bool = True,
    job_type: type[StoppingJob] = StoppingJob,
) -> None:
    async def work() -> None:
        job = job_type()
        job.session = session = begin(job, options=SessionOptions(stop_mode=mode))
        session.subscribe(job.reported.append)
        if runs:
            await session.run("continue", wait=False)
            job.resumed.clear()
        await test(job, session)
        await session.close()

    asyncio.run(work())


async def until(session: Session, holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)
