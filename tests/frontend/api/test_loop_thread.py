"""The thread in which the coroutines of the synchronous API run."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from pgdb.errors import CommandError, PgdbError, SessionEndedError, UsageError
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import sync
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session

DEADLINE_S = 10.0


async def nothing() -> None:
    pass


async def seven() -> int:
    return 7


def test_result_and_error_come_through(loop_thread: LoopThread) -> None:
    wrong = CommandError("'print x' failed on [0]: no x")

    async def fail() -> None:
        raise wrong

    assert loop_thread.call(seven) == 7
    with pytest.raises(CommandError) as caught:
        loop_thread.call(fail)
    assert caught.value is wrong
    assert loop_thread.do(threading.current_thread) is not threading.current_thread()


def test_end_runs_its_work_and_then_nothing_can_be_called(loop_thread: LoopThread) -> None:
    ran = []

    async def work() -> None:
        ran.append(threading.current_thread())

    loop_thread.end(work)
    loop_thread.end(work)
    assert len(ran) == 1
    assert loop_thread.is_over
    assert not ran[0].is_alive()
    with pytest.raises(SessionEndedError, match="has ended"):
        loop_thread.call(seven)


def test_end_ends_the_thread_though_its_work_fails(loop_thread: LoopThread) -> None:
    thread = loop_thread.do(threading.current_thread)

    async def fail() -> None:
        raise CommandError("half closed")

    with pytest.raises(CommandError, match="half closed"):
        loop_thread.end(fail)
    assert not thread.is_alive()


def test_end_cancels_what_other_threads_wait_for(loop_thread: LoopThread) -> None:
    begun = threading.Event()
    errors: list[BaseException] = []

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            loop_thread.call(work)
        except PgdbError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(DEADLINE_S)
    loop_thread.end(nothing)
    waiting.join(DEADLINE_S)
    assert [type(error) for error in errors] == [SessionEndedError]


def test_a_callback_cannot_wait_for_its_own_thread(loop_thread: LoopThread) -> None:
    with pytest.raises(UsageError, match="callback"):
        loop_thread.do(lambda: loop_thread.call(seven))
    with pytest.raises(UsageError, match="callback"):
        loop_thread.do(lambda: loop_thread.end(nothing))
    assert loop_thread.call(seven) == 7


async def _async_session() -> aio.Session:
    return new_session("attach", SessionOptions(), SessionDirectory())[0]


def test_a_forked_child_has_no_session(
    loop_thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sync.Session(loop_thread, asyncio.run(_async_session()))
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 1)
        with pytest.raises(SessionEndedError, match="forked child"):
            loop_thread.call(seven)
        session.close()
    assert not session.has_ended
    assert loop_thread.call(seven) == 7
    session.close()
    assert session.has_ended


def test_interrupt_cancels_the_call_and_waits_for_its_end(
    loop_thread: LoopThread, interrupt_when: Callable[[threading.Event], None]
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
        loop_thread.call(work)
    assert steps == ["cleaned up"]
    assert loop_thread.call(seven) == 7


def test_interrupt_does_not_cut_the_closing_short(
    loop_thread: LoopThread, interrupt_when: Callable[[threading.Event], None]
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
            loop_thread.end(work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["closed"]
    assert loop_thread.is_over


def test_calls_of_several_threads_go_on_at_once(loop_thread: LoopThread) -> None:
    begun = [threading.Event() for _ in range(4)]
    release = asyncio.Event()

    def work(number: int) -> None:
        async def wait() -> None:
            begun[number].set()
            await release.wait()

        loop_thread.call(wait)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + DEADLINE_S
    assert all(event.wait(max(deadline - time.monotonic(), 0)) for event in begun)
    loop_thread.do(release.set)
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
