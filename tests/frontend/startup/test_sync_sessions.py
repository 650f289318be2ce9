"""Sessions of the synchronous API without a job: starting, callbacks, output, ends."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pgdb
from pgdb.errors import UsageError
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.notifications import JobEnded, JobOutput, Listener, Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import sync
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.ranks import RankSet

# Each test starts processes of its own.
pytestmark = pytest.mark.slow


class _Closing(aio.Session):
    """A session without a job that notes how it is closed."""

    closed: list[bool | None]

    async def close(self, *, kill: bool | None = None) -> None:
        self.closed.append(kill)
        assert self.ending.files is not None
        self.ending.files.remove()


def _made() -> _Closing:
    options, directory = SessionOptions(), SessionDirectory()
    inner, _ = new_session("launch", options, directory)
    session = _Closing("launch", options, inner.transport, directory)
    session.closed = []
    session.opening.begin(RankSet(range(4)))
    return session


_Opened = tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]]


@pytest.fixture
def opened() -> Iterator[_Opened]:
    kept: list[tuple[_Closing, Listener]] = []
    notifications: list[Notification] = []
    output: list[bytes] = []

    async def begin(listener: Listener) -> aio.Session:
        kept.append((_made(), listener))
        return kept[0][0]

    session = sync._open(
        begin, on_output=lambda stream, data: output.append(data), on_event=notifications.append
    )
    yield session, *kept[0], notifications, output
    session.close()


def test_a_start_that_fails_leaves_no_thread() -> None:
    before = set(threading.enumerate())

    async def begin(listener: Listener) -> aio.Session:
        raise pgdb.StartError("no job")

    with pytest.raises(pgdb.StartError, match="no job"):
        sync._open(begin, on_output=sync._PassOn(), on_event=None)
    assert set(threading.enumerate()) <= before


def test_a_session_that_came_up_as_the_interrupt_came_is_closed(
    interrupt_when: Callable[[threading.Event], None],
) -> None:
    waits = threading.Event()
    made: list[_Closing] = []

    async def begin(listener: Listener) -> aio.Session:
        asyncio.get_running_loop().call_soon(waits.set)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        made.append(_made())
        return made[0]

    interrupt_when(waits)
    with pytest.raises(KeyboardInterrupt):
        sync._open(begin, on_output=sync._PassOn(), on_event=None)
    assert made[0].closed == [None]


def test_with_closes_also_when_the_body_raises(opened: _Opened) -> None:
    session, inner, *_ = opened
    with pytest.raises(ZeroDivisionError), session as entered:
        assert entered is session
        raise ZeroDivisionError
    session.close()
    assert inner.closed == [None]
    assert session.has_ended


def test_views(opened: _Opened) -> None:
    session, *_ = opened
    session.sets["odd"] = RankSet([1, 3])
    assert str(session.set) == "0-3"
    assert str(session[1:3].set) == "1-2"
    assert str(session[::2].set) == "0,2"
    assert str(session[-1:].set) == "3"
    assert str(session[2].set) == "2"
    assert str(session.ranks("@odd").set) == "1,3"
    assert str(session.ranks("@running!0").set) == "1-3"
    assert str(session.ranks(RankSet([0])).set) == "0"
    assert session.named_set("none") is None
    assert repr(session[0:2]) == "<pgdb.Ranks of ranks [0-1]>"
    with pytest.raises(pgdb.RankSetError, match="no rank 4"):
        session[4]
    for text in ("0-7", "@x", "3-1"):
        with pytest.raises(pgdb.RankSetError):
            session.ranks(text)


def test_what_is_reported_reaches_the_callbacks(opened: _Opened) -> None:
    session, _, listener, notifications, output = opened
    ended, printed = JobEnded(code=3), JobOutput(data=b"\xff", text="?")
    session._loop.do(lambda: listener(ended))
    session._loop.do(lambda: listener(printed))
    session.close()
    assert notifications == [ended]
    assert output == [b"\xff"]


def test_a_listener_that_raises_is_logged_and_harms_nobody(
    opened: _Opened, caplog: pytest.LogCaptureFixture
) -> None:
    session, inner, *_ = opened
    heard: list[str] = []

    def wrong(notification: Notification) -> None:
        heard.append(notification.text)
        raise ZeroDivisionError

    stop = session.subscribe(wrong)
    inner._core.notifier.release()
    session._loop.do(lambda: inner.ending.on_output("stdout", b"one"))
    session._loop.do(lambda: None)
    stop()
    session._loop.do(lambda: inner.ending.on_output("stdout", b"two"))
    session.close()
    assert heard == ["one"]
    assert "ZeroDivisionError" in caplog.text


def test_input_without_a_job_of_ours(opened: _Opened) -> None:
    session, *_ = opened
    with pytest.raises(UsageError, match="attached"):
        session.write_input(b"x")
    session.close_input()


@pytest.mark.parametrize("wrong", [3, "abc", None])
def test_input_that_is_no_bytes_is_refused(opened: _Opened, wrong: Any) -> None:
    session, *_ = opened
    with pytest.raises(UsageError, match=rf"^write_input: data is {wrong!r}, and not bytes$"):
        session.write_input(wrong)


def test_output_goes_to_our_own(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, open(os.dup(1), "w") as stdout:
        patched.setattr(sys, "stdout", stdout)
        stdout.write("before ")
        sync._PassOn()("stdout", b"\xff\n")
    assert capfdbinary.readouterr().out == b"before \xff\n"
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    sync._PassOn()("stderr", b"\xc3\xa4")
    assert text.getvalue() == "ä"


def test_output_cannot_drive_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    with monkeypatch.context() as patched, open(theirs, "w") as stdout:
        patched.setattr(sys, "stdout", stdout)
        pass_on = sync._PassOn()
        for piece in (b"a\x1b]0;ti", b"tle\x07 \x1b[3", b"1mred\x1b[0m\n"):
            pass_on("stdout", piece)
        seen = b""
        while not seen.endswith(b"\n"):  # a terminal gives what is there by now
            seen += os.read(ours, 4096)
    os.close(ours)
    assert seen == b"a\\033]0;title\\007 \x1b[31mred\x1b[0m\x1b[0m\n"


OPEN_AT_THE_END = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from pgdb.frontend.api import rank_view as view, session as aio
from pgdb.frontend.startup import sync
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session

class Session(aio.Session):
    async def close(self, *, kill=None):
        self.ending.files.remove()
        print("closed", kill, flush=True)

async def begin(listener):
    options, directory = SessionOptions(), SessionDirectory()
    inner, _ = new_session("attach", options, directory)
    return Session("attach", options, inner.transport, directory)

session = sync._open(begin, on_output=sync._PassOn(), on_event=None)
print(session._session.ending.files.path)
if sys.argv[2] == "raise":
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize("how", ["leave", "raise"])
def test_a_session_left_open_is_closed_when_python_ends(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AT_THE_END, str(Path(__file__).parents[3]), how],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    path, *rest = done.stdout.splitlines()
    assert rest == ["closed None"], done.stderr
    assert not Path(path).exists()
    assert "atexit" not in done.stderr
