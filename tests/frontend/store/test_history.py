"""The history of the prompt: atomic, and shared by concurrent sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory

from pgdb.frontend.store import history as history_module
from pgdb.frontend.store.history import MOST_ENTRIES, CommandHistory
from pgdb.frontend.system.user_files import locked, write_atomically


class Session:
    """The history of one session."""

    def __init__(self, path: Path) -> None:
        self.reported: list[str] = []
        self.history = CommandHistory(path, self.reported.append)

    def type(self, *entries: str) -> Session:
        for entry in entries:
            self.history.store_string(entry)
        self.history.close()
        return self


def entries(path: Path) -> list[str]:
    """Return the history as another program with prompt_toolkit reads it, oldest first."""
    return list(FileHistory(path).load_history_strings())[::-1]


def test_what_is_typed_is_there_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "state" / "pgdb" / "history"
    assert not Session(path).type("bt", "p x", "define f\nprint 1\nend", "+1", "größe").reported
    again = Session(path)
    assert list(again.history.load_history_strings()) == [
        "größe", "+1", "define f\nprint 1\nend", "p x", "bt",
    ]  # fmt: skip
    again.type("c")
    assert entries(path)[-2:] == ["größe", "c"] and not again.reported
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sessions_at_once_keep_each_others_lines(tmp_path: Path) -> None:
    path = tmp_path / "history"
    sessions = [Session(path) for _ in range(4)]
    threads = [
        threading.Thread(target=each.type, args=[f"{number}-{n}" for n in range(20)])
        for number, each in enumerate(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(each.reported for each in sessions)
    found = entries(path)
    assert len(found) == 80
    for number in range(4):  # in the order of each
        mine = [entry for entry in found if entry.startswith(f"{number}-")]
        assert mine == [f"{number}-{n}" for n in range(20)]


def test_damaged_file_is_reported_and_what_can_be_read_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"\n# now\n+bt\n\n+p \xff\xfe\nrubbish\n\n+c\n+cut o")
    session = Session(path)
    assert list(session.history.load_history_strings()) == ["c\ncut o", "bt"]
    (reported,) = session.reported
    assert "is damaged" in reported and reported.endswith("the session goes on")
    session.type("next")
    assert entries(path) == ["bt", "c\ncut o", "next"]
    assert not Session(path).type().reported


def test_unusable_place_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session = Session(tmp_path / "file" / "history").type("bt", "p x")
    (reported,) = session.reported
    reason = f"history: {tmp_path}/file/history cannot be written: Not a directory"
    assert reported == f"{reason}; the session goes on" or "File exists" in reported
    assert list(session.history.load_history_strings()) == []
    directory = tmp_path / "directory"
    directory.mkdir()
    session = Session(directory)
    assert list(session.history.load_history_strings()) == []
    assert "cannot be read" in session.reported[0]


def test_full_disk_leaves_the_history_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    Session(path).type("bt")

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(history_module, "write_atomically", full)
    session = Session(path).type("p x", "p y")
    assert session.reported == [
        f"history: {path} cannot be written: No space left on device; the session goes on"
    ]
    assert entries(path) == ["bt"]


def test_session_that_holds_the_lock_for_ever_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "LOCK_TIMEOUT_S", 0.1)
    path = tmp_path / "history"
    with locked(tmp_path / "history.lock", timeout_s=1):
        session = Session(path).type("bt")
    assert "another session holds its lock" in session.reported[0]


def test_the_end_waits_for_the_lock_once_whatever_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "LOCK_TIMEOUT_S", 0.25)
    limits_s: list[float] = []

    def counted(path: Path, *, timeout_s: float) -> AbstractContextManager[None]:
        limits_s.append(timeout_s)
        return locked(path, timeout_s=timeout_s)

    monkeypatch.setattr(history_module, "locked", counted)
    with locked(tmp_path / "history.lock", timeout_s=1):
        Session(tmp_path / "history").type(*(f"p {n}" for n in range(60)))
    # Up to the end each attempt has the limit, from then on all have it together.
    assert sum(max(0.0, each) for each in limits_s) < 60 * 0.25 / 2


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    write_atomically(path, "".join(f"\n+{n}\n" for n in range(MOST_ENTRIES + 50)).encode())
    assert not Session(path).type("new").reported
    found = entries(path)
    assert len(found) == MOST_ENTRIES and found[-2:] == [str(MOST_ENTRIES + 49), "new"]
    # The last part of a file that is too large is read without an error.
    monkeypatch.setattr(history_module, "MAX_BYTES", 1000)
    session = Session(path)
    last = list(session.history.load_history_strings())
    assert last[0] == "new" and 50 < len(last) < 300 and not session.reported
    session.history.close()


def test_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"\n+bt\n")
    path = tmp_path / "history"
    path.symlink_to(target)
    Session(path).type("c")
    assert path.is_symlink() and entries(target) == ["bt", "c"]


def test_a_file_system_that_hangs_does_not_hold_up_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    goes_on = threading.Event()

    def hang(_: Path) -> tuple[list[str], bool]:
        goes_on.wait(60)
        return ["kept"], False

    monkeypatch.setattr(history_module, "_read", hang)

    async def strings(history: CommandHistory) -> list[str]:
        return [each async for each in history.load()]

    async def test() -> None:
        history = CommandHistory(path, lambda text: None)
        loading = asyncio.create_task(strings(history))
        # The event loop continues, and the wait can be cancelled, as at each typed line.
        await asyncio.sleep(0)
        loading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loading
        again = asyncio.create_task(strings(history))
        await asyncio.sleep(0)
        assert not again.done()
        goes_on.set()
        async with asyncio.timeout(20):
            assert await again == ["kept"]
            assert await strings(history) == ["kept"]
        history.close()

    asyncio.run(test())
