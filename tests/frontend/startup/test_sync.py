"""The API without an event loop: the same calls as the coroutines, and the thread they run in."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import ForwardRef, cast

import pytest

import pgdb
from pgdb import records
from pgdb.errors import CommandError, PgdbError, SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import rank_data, rank_groups, rank_view, sync_generated
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.notifications import JobEnded, JobOutput, Listener, Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import start, sync
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.starting import new_session
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Value

DEADLINE_S = 10.0

_GENERATOR = Path(__file__).resolve().parents[3] / "scripts" / "generate_sync.py"
INNER: dict[str, set[str]] = runpy.run_path(str(_GENERATOR))["INNER"]


def public(cls: type[object]) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def shape(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    found = inspect.signature(function)
    each = [(name, part.kind, part.default) for name, part in found.parameters.items()]
    returned = "Ranks" if found.return_annotation == "RankView" else found.return_annotation
    return [*each, ("return", returned, None)]


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    with contextlib.suppress(SessionEndedError):
        made.end(nothing)


async def nothing() -> None:
    pass


async def seven() -> int:
    return 7


# -- the same calls ----------------------------------------------------------------------------


def test_generated_calls_are_fresh() -> None:
    generated = runpy.run_path(str(_GENERATOR))["generate"]()
    target = _GENERATOR.parents[1] / "frontend" / "api" / "sync_generated.py"
    assert generated == target.read_text("utf-8"), "run: python scripts/generate_sync.py"


def test_every_call_on_ranks_is_there_with_the_same_arguments() -> None:
    classes = (rank_data.RankData, rank_groups.RankGroups, rank_view.RankView)
    calls = set().union(*map(public, classes))
    wanted = calls - INNER["RankData"] - INNER["RankView"] | {"set"}
    assert wanted - public(sync.Ranks) == set()
    for name in sorted(wanted - {"set"}):
        assert shape(getattr(sync.Ranks, name)) == shape(getattr(rank_view.RankView, name)), name


def test_every_call_on_a_session_is_there() -> None:
    calls = public(sync.Session) | public(sync_generated.SessionCalls)
    written = {"close", "subscribe", "ranks", "has_ended", "start_answer", "set"}
    assert public(aio.Session) - INNER["Session"] | written == calls & public(aio.Session) | {"set"}
    for name in ("close", "parse_ranks", "named_set", "__getitem__"):
        assert shape(getattr(sync.Session, name)) == shape(getattr(aio.Session, name)), name


def test_every_option_is_a_keyword_argument() -> None:
    wanted = {field.name: field.type for field in fields(SessionOptions)}
    # attach() has `ranks` by itself, since it takes text; a launched job is taken whole.
    del wanted["ranks"]
    found: dict[str, ForwardRef] = sync.Options.__annotations__
    assert {name: each.__forward_arg__ for name, each in found.items()} == wanted


def test_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="agregators"):
        pgdb.attach(1, agregators=2)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="--fan-out 0"):
        pgdb.launch(["mpirun", "x"], fan_out=0)
    with pytest.raises(pgdb.RankSetError, match="7-5"):
        pgdb.attach(1, ranks="7-5")


class _Side:
    """A session of one side of a comparison, whose ranks all have the same value."""

    def __init__(self, value: str, *, takes_s: float = 0.0) -> None:
        self.options = SessionOptions()
        self.left_s: list[float] = []
        self._value = value
        self._takes_s = takes_s

    async def ask(
        self,
        command: str,
        operation: object,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        of_ended: bool = False,
    ) -> Answer:
        assert not of_ended
        self.left_s.append(deadline.answers_s(60.0, timeout_s))
        await asyncio.sleep(self._takes_s)
        return Answer(command, ranks, (EquivalenceClass(ranks, Value(text=self._value)),))

    async def recall(self, answer: Answer, ranks: RankSet) -> Answer:
        raise AssertionError("there is nothing to recall")

    def on(self, loop: LoopThread) -> sync.Ranks:
        return sync.Ranks(loop, rank_view.RankView(cast("aio.Session", self), RankSet.range(0, 2)))


@pytest.mark.parametrize("same_loop", [True, False])
def test_both_sides_of_a_comparison_share_the_time(loop: LoopThread, same_loop: bool) -> None:
    one, other = _Side("1", takes_s=0.3), _Side("2")
    other_loop = loop if same_loop else LoopThread()
    found = one.on(loop).compare("x", other.on(other_loop), timeout_s=20.0)
    assert found.differing
    assert 19.0 < one.left_s[0] <= 20.0
    assert other.left_s[0] <= one.left_s[0] - 0.3
    assert one.on(loop).compare("x", other.on(other_loop)).differing
    assert (one.left_s[1], other.left_s[1]) == (60.0, 60.0)
    if not same_loop:
        other_loop.end(nothing)
        with pytest.raises(SessionEndedError, match="the session has ended"):
            one.on(loop).compare("x", other.on(other_loop))


# -- what `import pgdb` gives ------------------------------------------------------------------


def test_every_name_of_the_package_can_be_had() -> None:
    for name in pgdb.__all__:
        assert getattr(pgdb, name) is not None
    assert set(pgdb._HOMES) | set(pgdb._MODULES) | {"__version__"} == set(pgdb.__all__)
    assert dir(pgdb) == sorted(pgdb.__all__)
    assert pgdb.attach is sync.attach
    assert pgdb.aio.attach is start.attach
    assert pgdb.records is records
    with pytest.raises(AttributeError, match="no attribute 'atach'"):
        pgdb.atach  # noqa: B018


def test_every_error_is_exported() -> None:
    errors = {
        name
        for name, each in vars(pgdb.errors).items()
        if isinstance(each, type) and issubclass(each, PgdbError)
    }
    assert errors <= set(pgdb.__all__)


def test_import_alone_loads_nothing() -> None:
    code = "import pgdb, sys; print(*sorted(m for m in sys.modules if m.startswith('pgdb')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pgdb", "pgdb.version"]


# -- the thread --------------------------------------------------------------------------------


def test_result_and_error_come_through(loop: LoopThread) -> None:
    wrong = CommandError("'print x' failed on [0]: no x")

    async def fail() -> None:
        raise wrong

    assert loop.call(seven) == 7
    with pytest.raises(CommandError) as caught:
        loop.call(fail)
    assert caught.value is wrong
    assert loop.do(threading.current_thread) is not threading.current_thread()


def test_end_runs_its_work_and_then_nothing_can_be_called(loop: LoopThread) -> None:
    ran = []

    async def work() -> None:
        ran.append(threading.current_thread())

    loop.end(work)
    loop.end(work)
    assert len(ran) == 1
    assert loop.is_over
    assert not ran[0].is_alive()
    with pytest.raises(SessionEndedError, match="has ended"):
        loop.call(seven)


def test_end_ends_the_thread_though_its_work_fails(loop: LoopThread) -> None:
    thread = loop.do(threading.current_thread)

    async def fail() -> None:
        raise CommandError("half closed")

    with pytest.raises(CommandError, match="half closed"):
        loop.end(fail)
    assert not thread.is_alive()


def test_end_cancels_what_other_threads_wait_for(loop: LoopThread) -> None:
    begun = threading.Event()
    errors: list[BaseException] = []

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            loop.call(work)
        except PgdbError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(DEADLINE_S)
    loop.end(nothing)
    waiting.join(DEADLINE_S)
    assert [type(error) for error in errors] == [SessionEndedError]


def test_a_callback_cannot_wait_for_its_own_thread(loop: LoopThread) -> None:
    with pytest.raises(UsageError, match="callback"):
        loop.do(lambda: loop.call(seven))
    with pytest.raises(UsageError, match="callback"):
        loop.do(lambda: loop.end(nothing))
    assert loop.call(seven) == 7


def test_a_forked_child_has_no_session(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    session = sync.Session(loop, asyncio.run(_async_session()))
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 1)
        with pytest.raises(SessionEndedError, match="forked child"):
            loop.call(seven)
        session.close()
    assert not session.has_ended
    assert loop.call(seven) == 7
    session.close()
    assert session.has_ended


async def _async_session() -> aio.Session:
    return new_session("attach", SessionOptions(), SessionDirectory())[0]


@pytest.fixture
def interrupt_when() -> Iterator[Callable[[threading.Event], None]]:
    """Have the main thread interrupted, as by Ctrl-C, once something has happened."""
    threads = []

    def arrange(event: threading.Event) -> None:
        def send() -> None:
            assert event.wait(DEADLINE_S)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threads.append(threading.Thread(target=send))
        threads[-1].start()

    yield arrange
    for thread in threads:
        thread.join(DEADLINE_S)


def test_interrupt_cancels_the_call_and_waits_for_its_end(
    loop: LoopThread, interrupt_when: Callable[[threading.Event], None]
) -> None:
    waits = threading.Event()
    steps = []

    async def work() -> None:
        try:
            asyncio.get_running_loop().call_soon(waits.set)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    interrupt_when(waits)
    with pytest.raises(KeyboardInterrupt):
        loop.call(work)
    assert steps == ["cleaned up"]
    assert loop.call(seven) == 7


def test_interrupt_does_not_cut_the_closing_short(
    loop: LoopThread, interrupt_when: Callable[[threading.Event], None]
) -> None:
    waits = threading.Event()
    taken = threading.Event()
    steps = []

    async def work() -> None:
        waits.set()
        # As long as the interrupt takes; the handler of SIGINT runs in the main thread.
        await asyncio.to_thread(taken.wait, DEADLINE_S)
        steps.append("closed")

    before = signal.getsignal(signal.SIGINT)

    def take(number: int, frame: object) -> None:
        taken.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, take)
    try:
        interrupt_when(waits)
        with pytest.raises(KeyboardInterrupt):
            loop.end(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["closed"]
    assert loop.is_over


# -- starting, with a session that is none -----------------------------------------------------


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


@pytest.fixture
def opened() -> Iterator[tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]]]:
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


def test_with_closes_also_when_the_body_raises(
    opened: tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]],
) -> None:
    session, inner, *_ = opened
    with pytest.raises(ZeroDivisionError), session as entered:
        assert entered is session
        raise ZeroDivisionError
    session.close()
    assert inner.closed == [None]
    assert session.has_ended


def test_views(
    opened: tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]],
) -> None:
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


def test_what_is_told_reaches_the_callbacks(
    opened: tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]],
) -> None:
    session, _, listener, notifications, output = opened
    ended, printed = JobEnded(code=3), JobOutput(data=b"\xff", text="?")
    session._loop.do(lambda: listener(ended))
    session._loop.do(lambda: listener(printed))
    session.close()
    assert notifications == [ended]
    assert output == [b"\xff"]


def test_a_listener_that_raises_is_logged_and_harms_nobody(
    opened: tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]],
    caplog: pytest.LogCaptureFixture,
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


def test_input_without_a_job_of_ours(
    opened: tuple[sync.Session, _Closing, Listener, list[Notification], list[bytes]],
) -> None:
    session, *_ = opened
    with pytest.raises(UsageError, match="attached"):
        session.write_input(b"x")
    session.close_input()


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
from pgdb.frontend.startup.starting import new_session

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


def test_calls_of_several_threads_go_on_at_once(loop: LoopThread) -> None:
    begun = [threading.Event() for _ in range(4)]
    release = asyncio.Event()

    def work(number: int) -> None:
        async def wait() -> None:
            begun[number].set()
            await release.wait()

        loop.call(wait)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + DEADLINE_S
    assert all(event.wait(max(deadline - time.monotonic(), 0)) for event in begun)
    loop.do(release.set)
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_compare_refuses_what_has_no_values(loop: LoopThread) -> None:
    with pytest.raises(UsageError, match="'2-3' is neither an answer nor a view on ranks"):
        _Side("1").on(loop).compare("x", cast("Answer", "2-3"))
