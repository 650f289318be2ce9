"""A whole session over debuggers of canned answers: front end, overlay, aggregators; no GDB."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pgdb.backend.node.aggregator import Aggregator, Place
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.discovery.discover import FoundJob
from pgdb.frontend.startup import start as startup
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.site import AggregatorStart, Located
from pgdb.frontend.transport.overlay_transport import OverlayTransport
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay.channel import Listener, listen_on
from pgdb.overlay.messages import AnyOperation, Request, Resume
from pgdb.overlay.rendezvous import Rendezvous
from pgdb.overlay.topology import Topology
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Record, Stack, Stop, Value
from tests.fakes.canned_debugger import HERE, Canned, CannedDebugger, CannedOpener, stack_of

LAUNCHER = Launcher(path=Path("/none/mpirun"), family=Family.OPEN_MPI_4, version="none")
DEADLINE_S = 30.0


class InProcess:
    """A starter of aggregators in this very process."""

    pid = 0

    def __init__(self) -> None:
        self.aggregators: list[Aggregator] = []
        self.running: list[asyncio.Task[None]] = []
        self.listeners: list[Listener] = []

    async def start(self, text: str, opener: CannedOpener) -> None:
        rendezvous = Rendezvous.parse(text)
        credentials = rendezvous.credentials.encode("ascii")
        for node in range(rendezvous.count):
            listening = socket.create_server(("127.0.0.1", 0))
            place = Place(
                node=node,
                topology=Topology(count=rendezvous.count, fan_out=rendezvous.fan_out),
                credentials=credentials,
                front_end=rendezvous.front_end,
                grace_s=rendezvous.grace_s,
                own_address=f"127.0.0.1:{listening.getsockname()[1]}",
            )
            aggregator = Aggregator(place, opener)
            self.aggregators.append(aggregator)
            self.listeners.append(await listen_on(listening, credentials, aggregator.serve_link))
            self.running.append(asyncio.create_task(aggregator.run()))

    async def wait(self) -> int:
        await asyncio.wait(self.running)
        for each in self.listeners:
            await each.close()
        return 0

    async def end(self) -> None:
        for each in self.running:
            each.cancel()
        await self.wait()

    def last_words(self) -> str:
        return ""

    async def crash(self, node: int) -> None:
        """End the links of an aggregator without a message, as the death of its process does."""
        one = self.aggregators[node]

        async def never(limit_s: float) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError

        one._find_parent = never  # type: ignore[method-assign]
        await self.listeners[node].close()
        for channel in (one._parent, *one._channels.values()):
            if channel is not None:
                channel._writer.transport.abort()
        # Debuggers notice the end of their input, and detach.
        one.leave()


class CannedSite(LocalSite):
    """The site of a job that is made up: this host."""

    def __init__(self, directory: Path, size: int, opener: CannedOpener) -> None:
        super().__init__(directory)
        self._size = size
        self._opener = opener

    async def find(self, target: str) -> Located:
        host = socket.gethostname()
        table = ProcTable(
            processes=tuple(
                RankProcess(rank=rank, host=host, pid=os.getpid(), executable="")
                for rank in range(self._size)
            ),
            source="a table",
        )
        job = FoundJob(
            launcher_pid=0,
            command=("mpirun", "ring"),
            table=table,
            hosts=(host,),
            selector="",
            slurm_job="",
            steps=(),
            job_size=self._size,
            local_ranks=table.ranks,
            ended=RankSet(),
        )
        return Located(job=job, launcher=LAUNCHER)

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        return LAUNCHER

    async def start(  # type: ignore[override]
        self, start: AggregatorStart, on_line: object, rendezvous: Callable[[], Any]
    ) -> InProcess:
        made = InProcess()
        await made.start(await rendezvous(), self._opener)
        return made


def run(
    monkeypatch: pytest.MonkeyPatch,
    ranks: Mapping[int, Canned],
    test: Callable[[Session, CannedOpener], Coroutine[Any, Any, None]],
) -> CannedOpener:
    """Attach to a job of canned ranks under three aggregators, and close the session."""
    opener = CannedOpener(ranks)

    async def open_site(options: SessionOptions, directory: SessionDirectory) -> CannedSite:
        return CannedSite(directory.path, len(ranks), opener)

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            options = SessionOptions(aggregators=3, fan_out=2, wire_up="direct")
            session = await startup.attach("1", options)
            try:
                await test(session, opener)
            finally:
                await session.close()

    monkeypatch.setattr(startup, "open_site", open_site)
    monkeypatch.setattr(startup, "check_gdb", lambda gdb: "13.1")
    asyncio.run(bounded())
    assert len(opener.factories) == 3
    assert all(each.is_closed for each in opener.factories)
    assert all(opener.debugger(rank).detached for rank in ranks)
    return opener


def test_a_session_asks_runs_stops_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of("exchange", "main")
    ranks = {
        rank: Canned(
            answers={"print x": Value(text=str(rank % 2)), "bt": stack},
            events=(Stop(reason="breakpoint-hit", breakpoint=1, frame=HERE), Exit(code=0)),
        )
        for rank in range(6)
    }
    everyone = RankSet(ranks)

    async def test(session: Session, opener: CannedOpener) -> None:
        assert session.set == everyone == session.state.stopped
        values = await session.evaluate("x")
        said = {str(each.ranks): each.record for each in values.classes}
        assert said == {"0,2,4": Value(text="0"), "1,3,5": Value(text="1")}
        trace = await session.backtrace()
        (only,) = trace.classes
        assert only.ranks == everyone and isinstance(only.record, Stack)
        assert [each.function for each in only.record.frames] == ["exchange", "main"]
        (refused,) = (await session.evaluate("nosuch")).classes
        assert isinstance(refused.record, Failure)
        await session.break_at("exchange")
        hit = await session.continue_()
        (stop,) = hit.classes
        assert stop.ranks == everyone and isinstance(stop.record, Stop)
        assert (stop.record.reason, stop.record.breakpoint) == ("breakpoint-hit", 1)
        ended = await session.ranks("0-2").continue_()
        assert all(isinstance(each.record, Exit) for each in ended.classes)
        assert session.state.exited == RankSet.parse("0-2")
        assert session.state.stopped == RankSet.parse("3-5")

    run(monkeypatch, ranks, test)


def test_a_running_rank_is_interrupted_and_a_lost_one_reattached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = {rank: Canned(answers={"print x": Value(text="7")}) for rank in range(4)}

    async def test(session: Session, opener: CannedOpener) -> None:
        await session.continue_(wait=False)
        assert session.state.running == RankSet(ranks)
        await session.interrupt()
        await session.wait()
        assert session.state.stopped == RankSet(ranks)
        lost = opener.debugger(2)
        lost.die()
        while not session.state.lost:
            await asyncio.sleep(0.01)
        assert session.state.lost == RankSet([2])
        await session.reattach()
        assert session.state.stopped == RankSet(ranks)
        assert opener.debugger(2) is not lost

    run(monkeypatch, ranks, test)


async def lose_first(session: Session) -> RankSet:
    """Have the first aggregator die; return the ranks of the others, once they are back."""
    transport = session.transport
    assert isinstance(transport, OverlayTransport)
    overlay = transport.overlay
    assert isinstance(overlay, Overlay)
    own = overlay.root.shares[0].ranks
    (starter,) = overlay.starters
    assert isinstance(starter, InProcess)
    await starter.crash(0)
    while session.state.lost != own:
        await asyncio.sleep(0.01)
    return session.set - own


def test_ranks_come_back_although_a_run_was_in_flight_as_the_first_aggregator_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The aggregator dies before it passes the request on: the other ranks are still stopped."""
    ranks = {rank: Canned(answers={"print x": Value(text="7")}) for rank in range(6)}
    is_asked = asyncio.Event()
    begin = Aggregator.start_request

    def start_request(aggregator: Aggregator, request: Request) -> None:
        if isinstance(request.operation, Resume) and aggregator.number == 0:
            is_asked.set()
        else:
            begin(aggregator, request)

    async def test(session: Session, opener: CannedOpener) -> None:
        monkeypatch.setattr(Aggregator, "start_request", start_request)
        going = asyncio.create_task(session.continue_(wait=False))
        await is_asked.wait()
        others = await lose_first(session)
        answer = await going
        assert answer.missing.lost == session.set and not answer.classes
        assert session.state.stopped == others
        assert (await session.evaluate("x")).values == dict.fromkeys(others, 7)
        # They go on, and their stops count.
        await session.continue_(wait=False)
        assert session.state.running == others
        await session.interrupt()
        assert session.state.stopped == others

    run(monkeypatch, ranks, test)


def test_ranks_run_that_a_run_reaches_after_they_came_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The debuggers have the request, and are slow to resume their ranks."""
    ranks = {rank: Canned() for rank in range(6)}
    is_asked, goes_on = asyncio.Event(), asyncio.Event()
    perform = CannedDebugger.perform

    async def late(
        debugger: CannedDebugger,
        operation: AnyOperation,
        request_id: int,
        timeout_s: float | None = None,
        *,
        of_ended: bool = False,
    ) -> Record:
        if isinstance(operation, Resume):
            if debugger.rank == len(ranks) - 1:
                is_asked.set()
            await goes_on.wait()
        return await perform(debugger, operation, request_id, timeout_s, of_ended=of_ended)

    async def test(session: Session, opener: CannedOpener) -> None:
        monkeypatch.setattr(CannedDebugger, "perform", late)
        going = asyncio.create_task(session.continue_(wait=False))
        await is_asked.wait()
        others = await lose_first(session)
        assert (await going).missing.lost == session.set
        assert session.state.stopped == others
        goes_on.set()
        while session.state.running != others:
            await asyncio.sleep(0.01)
        await session.interrupt()
        assert session.state.stopped == others

    run(monkeypatch, ranks, test)
