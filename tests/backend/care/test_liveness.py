"""The end of a process is noticed, and reported once to those who still want to know."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.care import liveness
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.records import Exit
from tests.support.processes import is_alive, wait_until

DEADLINE_S = 60.0
KERNEL = tuple(int(each) for each in os.uname().release.split(".")[:2])
SLEEPER = (sys.executable, "-c", "import time; time.sleep(1000)")

Watch = Callable[[int, Callable[[], None]], Callable[[], None]]


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    asyncio.run(bounded())


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("raise SystemExit(3)", Exit(code=3, run=7)),
        ("", Exit(code=0, run=7)),
        ("import os; os.kill(os.getpid(), 9)", Exit(signal="SIGKILL", run=7)),
    ],
)
def test_how_a_process_has_ended_is_known_before_it_is_waited_for(code: str, end: Exit) -> None:
    process = subprocess.Popen([sys.executable, "-c", f"input(); {code}"], stdin=subprocess.PIPE)
    with closing(liveness.ProcessEnd(process.pid)) as watched:
        assert watched.how(7) is None
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        wait_until(lambda: not is_alive(process.pid), "it has ended", DEADLINE_S)
        assert liveness.has_ended(process.pid)
        assert watched.how(7) == end
        process.wait()
        assert liveness.has_ended(process.pid)
        # The waiter has consumed the status, except on newer kernels.
        assert watched.how(7) == (end if KERNEL >= (6, 15) else None)
    assert watched.how(7) is None
    with closing(liveness.ProcessEnd(process.pid)) as too_late:
        assert too_late.how(7) is None


def test_one_that_lives_has_not_ended() -> None:
    assert not liveness.has_ended(os.getpid())
    with closing(liveness.ProcessEnd(os.getpid())) as watched:
        assert watched.how(0) is None


EXITING = 0x4
KILLED = f"{1 << (signal.SIGKILL - 1):016x}"


@pytest.mark.parametrize(
    ("threads", "dying"),
    [
        ([("t", 0, "0"), ("t", 0, "0")], False),
        ([("t", 0, KILLED), ("R", 0, KILLED)], True),
        ([("Z", EXITING, "0"), ("R", EXITING, "0"), ("t", 0, KILLED)], True),
        # A thread that exits alone.
        ([("t", 0, "0"), ("R", EXITING, "0")], False),
        ([("Z", 0, "0"), ("t", 0, f"{1 << (signal.SIGTERM - 1):016x}")], False),
        ([], True),
    ],
)
def test_a_process_is_dying_if_all_threads_are(
    tmp_path: Path, threads: list[tuple[str, int, str]], dying: bool
) -> None:
    for number, (state, flags, pending) in enumerate(threads, 7):
        folder = tmp_path / "7" / "task" / str(number)
        folder.mkdir(parents=True)
        fields = " ".join([state, "1", "0", "0", "0", "0", str(flags), *["0"] * 40])
        (folder / "stat").write_text(f"{number} (app) {fields}\n")
        (folder / "status").write_text(f"Uid:\t0 0 0 0\nTracerPid:\t0\nSigPnd:\t{pending}\n")
    assert liveness.is_dying(7, tmp_path) is dying


def test_one_that_runs_is_not_dying_and_one_that_is_gone_is() -> None:
    assert not liveness.is_dying(os.getpid())
    process = subprocess.Popen(SLEEPER)
    process.kill()
    wait_until(lambda: not is_alive(process.pid), "it has ended", DEADLINE_S)
    assert liveness.is_dying(process.pid)
    process.wait()
    assert liveness.is_dying(process.pid)


@pytest.mark.parametrize("watch", [liveness.watch_end, liveness.watch_end_of_traced])
def test_an_end_is_reported_once_to_those_who_want_to_know(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "POLL_S", 0.02)
    reported: list[str] = []

    async def test() -> None:
        process = subprocess.Popen(SLEEPER)
        other = subprocess.Popen(SLEEPER)
        ended = asyncio.Event()

        def heard() -> None:
            reported.append("wanted")
            ended.set()

        try:
            watch(process.pid, heard)
            call_off = watch(other.pid, lambda: reported.append("lives"))
            watch(process.pid, lambda: reported.append("called off"))()
            process.send_signal(signal.SIGKILL)
            await ended.wait()
            call_off()
        finally:
            for each in (process, other):
                each.kill()
                each.wait()

    run(test())
    assert reported == ["wanted"]


@pytest.mark.parametrize("watch", [liveness.watch_end, liveness.watch_end_of_traced])
def test_one_that_has_gone_before_is_reported(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "POLL_S", 0.02)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    async def test() -> None:
        ended = asyncio.Event()
        watch(process.pid, ended.set)
        await ended.wait()

    run(test())


@pytest.mark.parametrize(("is_alive", "answers"), [(True, False), (False, True)])
def test_a_gdb_that_nobody_waits_for_any_longer_has_not_answered(
    is_alive: bool, answers: bool
) -> None:
    class Ignoring(GdbSession):
        """A GDB for whose answers waiting is given up, because it computes or has ended."""

        lives = True

        @property
        def is_alive(self) -> bool:
            return self.lives

        def ping(self) -> asyncio.Future[Result]:
            asked: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
            asked.set_exception(GdbError("it ignores interrupts"))
            self.lives = is_alive
            return asked

    async def test() -> None:
        gdb = Ignoring(listener=None)  # type: ignore[arg-type]
        assert await liveness.answers(gdb, 1.0) is answers

    run(test())
