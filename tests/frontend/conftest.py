"""Fixtures of the front end's tests."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from pgdb.errors import SessionEndedError
from pgdb.frontend.api.loop_thread import LoopThread

DEADLINE_S = 10.0


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    with contextlib.suppress(SessionEndedError):
        made.end(lambda: asyncio.sleep(0))


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
