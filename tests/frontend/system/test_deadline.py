"""The time limit of a command: it covers all its requests and no others."""

from __future__ import annotations

import asyncio
import io
import math
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis import arrays
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.system import deadline, workers
from pgdb.frontend.ui import repl
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import (
    AnyOperation,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Kill,
    ReadBlock,
    Reattach,
)
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Block, Breakpoint, BreakpointsMade, Done, Event, Exit, Record, Stop

ALL = RankSet.parse("0-3")
SLOW = RankSet([3])


class Job:
    """A session with ranks 0-3, of which rank 3 never answers."""

    def __init__(self, *, running: bool = False, limit_s: float | None = None) -> None:
        self.asked: list[tuple[AnyOperation, float]] = []
        self.reported: list[Notification] = []
        self.number = 0
        self.records: dict[type[object], Record] = {}
        self.on_ask: Callable[[], None] = lambda: None
        session = self.session = new_session("launch", SessionOptions(), SessionDirectory())[0]
        session.transport.ask = self.ask  # type: ignore[method-assign]
        processes = [RankProcess(rank, "node", 100 + rank, "/ring") for rank in ALL]
        session.table = ProcTable(processes=tuple(processes), source="made up")
        session.opening.begin(ALL)
        session.opening.complete(session_start())
        if running:
            session.state.start_run(0, ALL)
        session.subscribe(self.reported.append)
        self.out = io.StringIO()

        async def never(_: str) -> str | None:
            raise AssertionError("nothing is to be read")

        self.dispatcher = Dispatcher(Workspace(session), TextDisplay(self.out), read_line=never)
        self.dispatcher.apply(Settings(timeout_s=limit_s))

    async def ask(
        self,
        number: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str = "",
        of_ended: bool = False,
    ) -> Gathered:
        self.asked.append((operation, timeout_s))
        self.number = number
        self.on_ask()
        record = self.records.get(type(operation), Done())
        classes = (EquivalenceClass[Record](ranks - SLOW, record),)
        return Gathered(number, classes, Missing(late=ranks & SLOW))

    def late(self, record: Record) -> None:
        self.session.traffic.on_late(
            Gathered(self.number, (EquivalenceClass(SLOW, record),), Missing(), is_late=True)
        )

    async def type(self, line: str) -> str:
        await self.dispatcher.run_line(line)
        return self.out.getvalue()

    def limit_of(self, kind: type[object]) -> float:
        (limit_s,) = [limit_s for each, limit_s in self.asked if isinstance(each, kind)]
        return limit_s

    @property
    def notes(self) -> list[str]:
        return [reported.text for reported in self.reported if reported.kind == "notice"]


def session_start() -> Answer:
    stop: Record = Stop(reason="interrupted")
    return Answer("attach", ALL, (EquivalenceClass(ALL, stop),))


@pytest.mark.parametrize(
    ("line", "kind", "default_s"),
    [
        ("detach", Detach, 30.0),
        ("kill", Kill, 60.0),
        ("interrupt", Interrupt, 10.0),
        ("reattach", Reattach, 120.0),
        ("p x", Evaluate, 60.0),
    ],
)
def test_every_command_has_the_time_that_was_given(
    line: str, kind: type[object], default_s: float
) -> None:
    async def limit_of(line: str, limit_s: float | None = None) -> float:
        job = Job(running=kind is Interrupt, limit_s=limit_s)

        def stop() -> None:
            if kind is Interrupt:
                stopped = EquivalenceClass[Event](ALL, Stop(reason="interrupted"))
                job.session.state.apply([stopped])

        job.on_ask = stop
        said = await job.type(line)
        if kind is not Interrupt:
            assert "[3] no answer yet" in said
        return job.limit_of(kind)

    async def check() -> None:
        assert math.isclose(await limit_of(line), default_s, rel_tol=0.3)
        assert 0.5 < await limit_of(f"timeout 3 {line}") <= 3
        assert 100 < await limit_of(f"timeout 200 {line}") <= 200
        assert 0.5 < await limit_of(line, 4.0) <= 4
        assert 100 < await limit_of(f"timeout 200 {line}", 4.0) <= 200
        assert 0.5 < await limit_of(f"timeout 200 timeout 5 {line}") <= 5

    asyncio.run(check())


def test_rank_that_is_detached_late_is_reported_and_is_not_killed_at_the_end() -> None:
    async def check() -> None:
        job = Job()
        await job.type("proc 3 timeout 1 detach")
        assert job.session.state.stopped == ALL and job.session.kills_at_close
        job.late(Done())
        assert job.session.state.detached == SLOW and not job.session.kills_at_close
        assert job.notes == ["[3] detached; they run on"]
        assert not [reported for reported in job.reported if reported.kind == "late"]

    asyncio.run(check())


def test_rank_that_is_killed_late_has_ended() -> None:
    async def check() -> None:
        job = Job()
        await job.type("proc 3 timeout 1 kill")
        job.late(Done())
        assert job.session.state.exited == SLOW and job.session.killed == SLOW
        (ended,) = [each.record for reported in job.reported for each in reported.classes]
        assert ended == Exit(signal="SIGKILL")

    asyncio.run(check())


def test_array_is_read_in_one_time_and_not_in_one_for_each_piece(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(arrays, "PIECE_BYTES", 8)
    now_s = [0.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now_s[0])

    async def check() -> None:
        job = Job()
        job.records[ReadBlock] = Block(dtype="<f8", shape=(100,), data=b"")

        def takes_a_while() -> None:
            now_s[0] += 1.0

        job.on_ask = takes_a_while
        said = await job.type(f"timeout 5 dump u {tmp_path}/u.npy")
        assert [round(limit_s) for _, limit_s in job.asked] == [5, 4, 3, 2, 1]
        assert "[0,3] no answer yet" in said or "[0-3] no answer yet" in said

    asyncio.run(check())


class HangingDisk:
    """File system on which files are written but never renamed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached = threading.Event()
        self._may_go_on = threading.Event()
        self._put = os.replace
        monkeypatch.setattr(os, "replace", self._replace)

    def _replace(self, source: str | Path, target: str | Path) -> None:
        self.is_reached.set()
        self._may_go_on.wait()
        self._put(source, target)

    def go_on(self) -> None:
        self._may_go_on.set()
        for thread in threading.enumerate():
            if thread.name == "pgdb file":
                thread.join()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk(monkeypatch)
    yield disk
    disk.go_on()


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_file_system_that_hangs_costs_a_command_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, disk: HangingDisk
) -> None:
    monkeypatch.setattr(workers, "LEAST_S", 2.0)

    async def check() -> None:
        job = Job()
        job.records[ReadBlock] = Block(dtype="<f8", shape=(), data=bytes(8))
        said = await job.type(f"timeout 1 dump u {tmp_path}/u.npy")
        assert f"{tmp_path}/u.npy: not done within 2 s; does its file system hang?" in said
        assert disk.is_reached.is_set()

    asyncio.run(check())  # the session's end does not wait for it either
    assert not (tmp_path / "u.npy").exists()
    disk.go_on()
    assert (tmp_path / "u.npy").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "line",
    [
        "dump u u.csv",
        "decompose u --dims 3 --grid 3 -o u.npz",
        "save a u -o a.json",
        "session save a.pgdb",
        "set -keep settle 2",
    ],
)
def test_command_whose_file_system_hangs_can_be_given_up(
    line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, disk: HangingDisk
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    async def check() -> None:
        job = Job()
        job.records[ReadBlock] = Block(dtype="<f8", shape=(1,), data=bytes(8))
        typing = asyncio.create_task(job.type(line))
        assert await asyncio.to_thread(disk.is_reached.wait, 30), job.out.getvalue()
        typing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await typing

    asyncio.run(check())


@pytest.mark.timeout(60)
def test_history_that_cannot_be_written_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    disk: HangingDisk,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(workers, "LEAST_S", 0.1)
    monkeypatch.setattr(repl, "HISTORY_S", 0.1)

    async def check() -> None:
        prompt = repl.Repl(Job().session, settle_s=1.0)
        prompt._history.store_string("bt")
        assert await asyncio.to_thread(disk.is_reached.wait, 30)
        await prompt.close()

    asyncio.run(check())
    assert f"history: {tmp_path}/pgdb/history: not done within 0.1 s" in capsys.readouterr().out


def test_what_is_not_done_of_a_reattach_goes_on() -> None:
    async def check() -> None:
        job = Job()
        may_come = asyncio.Event()

        async def restore(ranks: RankSet, table: ProcTable) -> tuple[()]:
            await may_come.wait()
            return ()

        job.session.transport.restore = restore  # type: ignore[method-assign]
        said = await job.type("timeout 0.05 reattach")
        assert "[0-3] no answer yet" in said and not job.asked
        may_come.set()
        await asyncio.wait(job.session._core._background, timeout=10)
        while job.session._core._background:
            await asyncio.sleep(0)
        # Its own limit has passed; the rest of the start's limit applies.
        assert job.limit_of(Reattach) > 60

    asyncio.run(check())


def test_breakpoints_are_set_again_although_the_time_is_over() -> None:
    async def check() -> None:
        job = Job()
        made = BreakpointsMade(breakpoints=(Breakpoint(number=1, kind="breakpoint"),))
        job.records[InsertBreakpoint] = made
        await job.type("break f")
        job.asked.clear()
        job.records[Reattach] = Stop(reason="interrupted")
        may_be_set = asyncio.Event()
        ask = job.ask

        async def slow(
            number: int,
            ranks: RankSet,
            operation: AnyOperation,
            timeout_s: float,
            command: str,
            of_ended: bool = False,
        ) -> Gathered:
            if isinstance(operation, InsertBreakpoint):
                await may_be_set.wait()
            return await ask(number, ranks, operation, timeout_s)

        job.session.transport.ask = slow  # type: ignore[method-assign]
        await job.type("timeout 0.05 reattach")
        assert job.notes == ["[0-2] the session's breakpoints are still being set again"]
        may_be_set.set()
        await asyncio.wait(job.session._core._background, timeout=10)
        assert job.limit_of(InsertBreakpoint) == 60

    asyncio.run(check())


def test_wait_ends_when_the_time_is_over() -> None:
    async def check() -> None:
        assert "4 of 4 still running: [0-3]" in await Job(running=True).type("timeout 0.05 wait")

    async def in_time() -> None:
        await asyncio.wait_for(check(), 20)

    asyncio.run(in_time())


def test_time_for_answers_does_not_limit_the_wait_for_stops() -> None:
    with deadline.within(0.0, for_stops=False):
        assert deadline.stops_s(None) is None and deadline.left_s() == 0
        with deadline.renewed():
            assert not deadline.is_over()
        with deadline.within(60.0):
            assert deadline.left_s() > 30 and deadline.stops_s(None) == pytest.approx(60, rel=0.5)
    assert not deadline.is_given()


def test_what_the_user_is_asked_takes_none_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now_s[0])

    async def thinks(_: str) -> bool:
        now_s[0] += 100
        return True

    async def check() -> None:
        job = Job()
        job.dispatcher._ask = thinks
        await job.type("timeout 5 kill")
        assert job.limit_of(Kill) == 5

    asyncio.run(check())


@pytest.mark.parametrize("limit", ["soon", [], float("nan"), object(), b"x"])
def test_a_limit_that_is_no_number_is_refused(limit: Any) -> None:
    for refused in (lambda: deadline.answers_s(1.0, limit), lambda: deadline.stops_s(limit)):
        with pytest.raises(UsageError, match="is no number of seconds"):
            refused()
    with pytest.raises(UsageError, match="is no number of seconds"), deadline.within(limit):
        pass
    assert deadline.answers_s(1.0, 0.5) == 0.5
