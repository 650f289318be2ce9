"""``--record``: data written before the end of a session, and at its end."""

from __future__ import annotations

import asyncio
import stat
import threading
from pathlib import Path

import pytest

from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.replay import replay
from pgdb.frontend.store import recording_file, saving
from pgdb.frontend.transport.recording import recording_of
from pgdb.overlay.messages import (
    AnyOperation,
    Recall,
)
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from tests.fakes.recorded import ALL, Job, asked_of, begin


@pytest.fixture(autouse=True)
def _runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_recording_at_the_end_is_written_and_its_failure_reported(tmp_path: Path) -> None:
    good, bad = tmp_path / "job.pgdb", tmp_path / "main.c"
    bad.write_text("int main;")

    async def work(path: Path) -> list[str]:
        session = begin(Job(), options=SessionOptions(record=str(path)))
        notifications: list[Notification] = []
        session.subscribe(notifications.append)
        await session.ranks(ALL).backtrace()
        await session.close()
        return [each.text for each in notifications if each.kind == "notice"]

    (text,) = asyncio.run(work(good))
    assert text.startswith(f"recorded: {good}: ")
    assert "backtrace" in asked_of(good, "session")[0]
    (text,) = asyncio.run(work(bad))
    assert text == f"--record: {bad} is there already, and is no recording; choose another name"


def note_of(path: Path) -> str:
    """Return the message about an opened recording."""

    async def work() -> str:
        session = await replay(path)
        await session.close()
        recording = recording_of(session.transport)
        assert recording is not None
        return recording.describe()

    return asyncio.run(work())


def test_a_recording_is_there_before_the_session_ends(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"

    async def work() -> bytes:
        session = begin(Job(), options=SessionOptions(record=str(path)))
        await session.ranks(ALL).backtrace()
        await session.ranks(ALL).evaluate("x")
        async with asyncio.timeout(60):
            while not path.exists():
                await asyncio.sleep(0)
        so_far = path.read_bytes()
        await session.close()
        return so_far

    so_far = asyncio.run(work())
    assert path.read_bytes() != so_far
    assert "suddenly" not in note_of(path)
    # The file of a killed session.
    path.write_bytes(so_far)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "has ended suddenly, or still goes on" in note_of(path)
    assert "x = " in asked_of(path, "p x")[0] and "f (rank=" in asked_of(path, "bt")[0]
    assert [*tmp_path.glob(".job*")] == []


class StepClock:
    """A clock that advances only while a file is written."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return 1.6e9


def test_writing_takes_a_twentieth_of_a_session_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StepClock()
    monkeypatch.setattr(saving, "time", clock)
    took_s = [3.0, 0.001]
    written = []

    def write(recording: recording_file.Recording, path: Path) -> int:
        clock.now_s += took_s[len(written)]
        written.append(recording.is_unfinished)
        return 1

    monkeypatch.setattr(recording_file, "write", write)

    async def work() -> None:
        session = begin(Job(), options=SessionOptions(record=str(tmp_path / "job.pgdb")))
        autosave = session._core.autosave
        assert autosave is not None

        async def ask_until(count: int) -> None:
            async with asyncio.timeout(60):
                while len(written) < count or not autosave._next_s:
                    await session.ranks(ALL).evaluate("x")
                    await asyncio.sleep(0)

        await ask_until(1)
        # 3 s of 60; nothing is written for that time, whatever is requested.
        assert autosave._next_s == clock.now_s + 57
        for _ in range(50):
            await session.ranks(ALL).evaluate("x")
            await asyncio.sleep(0)
        assert written == [True]
        await autosave.close()
        assert written == [True]

        autosave = session._core.autosave = saving.Autosave(session, tmp_path / "job.pgdb")
        await ask_until(2)
        assert autosave._next_s == clock.now_s + saving.STEP_LEAST_S
        await autosave.close()

    asyncio.run(work())


def test_a_session_goes_on_while_its_recording_is_written_and_ends_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, order = threading.Event(), threading.Event(), []
    real = recording_file.write

    def write(recording: recording_file.Recording, path: Path) -> int:
        if recording.is_unfinished:
            begun.set()
            assert may_end.wait(60)
        order.append(recording.is_unfinished)
        return real(recording, path)

    monkeypatch.setattr(recording_file, "write", write)

    async def work() -> None:
        session = begin(Job(), options=SessionOptions(record=str(tmp_path / "job.pgdb")))
        await session.ranks(ALL).evaluate("x")
        assert await asyncio.to_thread(begun.wait, 60)
        answer = await session.ranks(ALL).backtrace()
        assert RankSet.union(each.ranks for each in answer.classes) == ALL
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        assert not closing.done() and not order
        may_end.set()
        await closing

    asyncio.run(work())
    assert order == [True, False]
    assert "suddenly" not in note_of(tmp_path / "job.pgdb")


def test_a_recording_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "main.c"
    path.write_text("int main;")

    async def work() -> list[str]:
        session = begin(Job(), options=SessionOptions(record=str(path)))
        notifications: list[Notification] = []
        session.subscribe(notifications.append)
        async with asyncio.timeout(60):
            while not notifications:
                await session.ranks(ALL).backtrace()
                await asyncio.sleep(0)
        await session.ranks(ALL).backtrace()
        await session.close()
        return [each.text for each in notifications if each.kind == "notice"]

    (text,) = asyncio.run(work())
    assert text == f"--record: {path} is there already, and is no recording; choose another name"
    assert path.read_text() == "int main;"


def test_end_of_the_session_does_not_hang_on_its_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(notification: Notification) -> None:
        raise OSError(5, "Input/output error")

    async def work(path: Path) -> None:
        session = begin(Job(), options=SessionOptions(record=str(path)))
        session.subscribe(fail)
        await session.close()
        assert session.has_ended

    # The terminal is closed, or PGDB has a bug.
    asyncio.run(work(tmp_path / "job.pgdb"))
    assert recording_file.read(tmp_path / "job.pgdb").ranks == ALL
    monkeypatch.setattr(recording_file, "encode", lambda recording: 1 // 0)
    asyncio.run(work(tmp_path / "other.pgdb"))


def test_it_is_not_fetched_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "FETCH_TIMEOUT_S", 0.05)

    class Slow(Job):
        async def on_request(
            self, request_id: int, ranks: RankSet, operation: AnyOperation
        ) -> Gathered | None:
            if isinstance(operation, Recall):
                await asyncio.Event().wait()
            return None

    async def work() -> None:
        session = begin(Slow())
        await session.ranks(ALL).evaluate("p")
        written = await session.save(tmp_path / "job.pgdb")
        assert written.commands == ("print p",)
        await session.close()

    asyncio.run(work())
