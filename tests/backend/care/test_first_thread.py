"""Signals for the first thread of a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.backend.care import first_thread
from pgdb.jobs import procfs
from tests.support.processes import wait_until

CODE = """\
import signal, sys, threading
threading.Thread(target=sys.stdin.read, daemon=True).start()
if "blocks" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def stopped(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process of two threads that stands still."""
    words = [sys.executable, "-c", CODE, *getattr(request, "param", ())]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: procfs.is_at_rest(process.pid), "it stands still")
            yield process.pid
        finally:
            process.kill()


def pending(path: Path, field: str) -> bool:
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return bool(int(lines[field], 16) >> (signal.SIGUSR1 - 1) & 1)


def test_the_signal_is_for_the_first_thread(stopped: int) -> None:
    status = first_thread.StatusFile(stopped)
    assert not status.has_pending(signal.SIGUSR1)
    first_thread.send(stopped, signal.SIGUSR1)
    path = Path(f"/proc/{stopped}/task/{stopped}/status")
    assert pending(path, "SigPnd") and not pending(path, "ShdPnd")
    assert status.has_pending(signal.SIGUSR1), "the open file says what holds now"
    status.close()
    assert not status.has_pending(signal.SIGUSR1)


@pytest.mark.parametrize("stopped", [("blocks",)], indirect=True)
def test_another_thread_gets_what_the_first_one_blocks(stopped: int) -> None:
    first_thread.send(stopped, signal.SIGUSR1)
    path = Path(f"/proc/{stopped}/task/{stopped}/status")
    assert pending(path, "ShdPnd") and not pending(path, "SigPnd")
    status = first_thread.StatusFile(stopped)
    assert not status.has_pending(signal.SIGUSR1)
    status.close()


def test_a_process_that_is_gone_is_an_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        opened = first_thread.StatusFile(process.pid)
        process.wait()
    for status in (opened, first_thread.StatusFile(process.pid)):
        assert not status.has_pending(signal.SIGUSR1)
        status.close()
    with pytest.raises(ProcessLookupError):
        first_thread.send(process.pid, signal.SIGUSR1)
