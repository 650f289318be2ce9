"""Processes that stand still until they are released, or until their tracer ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.backend.care.pausing import Pauser
from pgdb.jobs import procfs
from pgdb.jobs.tracing_rights import why_not_traceable
from tests.support.processes import wait_until

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

# Two threads that compute, and a count of the received signals.
_BUSY = """
import os, signal, sys, threading
count = 0
def counted(*_):
    global count
    count += 1
    os.write(1, b"%d\\n" % count)  # print() may be at work when the signal comes
signal.signal(signal.SIGUSR1, counted)
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
print("ready", flush=True)
spin()
"""
_TRACER = """
import sys
from pgdb.backend.care.pausing import Pauser
pauser = Pauser()
pauser.pause([int(sys.argv[1])])
print("paused", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _BUSY], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def states(pid: int) -> set[str]:
    """Return the states of a process's threads."""
    return {
        (each / "stat").read_text().rpartition(")")[2].split()[0]
        for each in Path(f"/proc/{pid}/task").iterdir()
    }


def tracer_of(pid: int) -> int:
    status = procfs.read_stat(pid)
    assert status is not None
    return status.tracer_pid


def wait_paused(pid: int) -> None:
    wait_until(lambda: states(pid) == {"t"}, "all threads stand still")


def release(pauser: Pauser, pid: int) -> None:
    asyncio.run(pauser.release(pid))


def test_all_threads_stand_still_until_they_are_released(busy: subprocess.Popen[str]) -> None:
    pauser = Pauser()
    pauser.pause([busy.pid])
    wait_paused(busy.pid)
    assert len(list(Path(f"/proc/{busy.pid}/task").iterdir())) == 2
    # The question whether tracing is allowed is about the asking process.
    assert why_not_traceable(busy.pid) is None
    before = procfs.work_done(busy.pid)[0]
    begun_s = time.process_time()
    while time.process_time() < begun_s + 0.1:
        pass  # who is not kept from it computes meanwhile, as we do
    assert procfs.work_done(busy.pid)[0] == before
    release(pauser, busy.pid)
    wait_until(lambda: procfs.work_done(busy.pid)[0] > before, "it computes")
    assert tracer_of(busy.pid) == 0


def test_signals_that_come_meanwhile_are_not_lost(busy: subprocess.Popen[str]) -> None:
    pauser = Pauser()
    assert busy.stdout is not None
    # With no wait between the two, some rounds find it stopped for the report of the signal.
    for count in range(1, 21):
        os.kill(busy.pid, signal.SIGUSR1)
        pauser.pause([busy.pid])
        release(pauser, busy.pid)
        assert busy.stdout.readline() == f"{count}\n"
    pauser.pause([busy.pid])
    wait_paused(busy.pid)
    os.kill(busy.pid, signal.SIGUSR1)
    release(pauser, busy.pid)
    assert busy.stdout.readline() == "21\n"


def test_a_process_that_is_killed_meanwhile(busy: subprocess.Popen[str]) -> None:
    pauser = Pauser()
    pauser.pause([busy.pid])
    wait_paused(busy.pid)
    # busy.kill() would wait for it first and take its stop for its end.
    os.kill(busy.pid, signal.SIGKILL)
    release(pauser, busy.pid)
    wait_until(lambda: not procfs.is_alive(busy.pid), "it has ended")


def test_one_that_a_signal_has_stopped_is_left_alone(busy: subprocess.Popen[str]) -> None:
    pauser = Pauser()
    os.kill(busy.pid, signal.SIGSTOP)
    wait_until(lambda: states(busy.pid) == {"T"}, "it is stopped")
    pauser.pause([busy.pid])
    assert tracer_of(busy.pid) == 0
    release(pauser, busy.pid)
    assert states(busy.pid) == {"T"}


def test_one_that_has_ended_is_no_error() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    pauser = Pauser()
    pauser.pause([process.pid])
    release(pauser, process.pid)


def test_when_the_tracer_is_killed_it_goes_on(busy: subprocess.Popen[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _TRACER, str(busy.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "paused\n"
        wait_paused(busy.pid)
        tracer.kill()
    wait_until(lambda: "t" not in states(busy.pid), "it goes on")
    before = procfs.work_done(busy.pid)[0]
    wait_until(lambda: procfs.work_done(busy.pid)[0] > before, "it computes")
