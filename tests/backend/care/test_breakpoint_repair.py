"""Processes that stay stopped after the death of their debugger run on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from pgdb.backend.care import breakpoint_repair
from pgdb.backend.care.breakpoint_repair import wake
from tests.support.programs import status, wait_until

SLEEP = shutil.which("sleep") or ""


@pytest.mark.parametrize("late_s", [None, 0.0, 0.03])
def test_a_process_that_stands_still_goes_on(
    late_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a process that stops only after the first check, as with a late SIGSTOP."""
    # Longer than a busy machine may keep us from running.
    monkeypatch.setattr(breakpoint_repair, "PAUSES_S", (0.0, *(0.05,) * 60))
    with subprocess.Popen([SLEEP, "300"]) as process:
        try:
            if late_s is None:
                os.kill(process.pid, signal.SIGSTOP)
                wait_until(lambda: status(process.pid, "State")[0] == "T", "it stands still")
                asyncio.run(wake(process.pid))
            else:
                waking = threading.Thread(target=lambda: asyncio.run(wake(process.pid)))
                waking.start()
                time.sleep(late_s)  # it is between two looks
                os.kill(process.pid, signal.SIGSTOP)
                waking.join()
            assert status(process.pid, "State")[0] == "S"
        finally:
            process.kill()


@pytest.mark.parametrize("has_handler", [False, True])
def test_a_stop_that_is_yet_to_be_heeded_is_forgotten_where_no_handler_hears_of_it(
    has_handler: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither state nor pending signals show the SIGSTOP (tried with a tracer that dies)."""
    sent: list[tuple[int, int]] = []
    code = f"{'trap : CONT; ' * has_handler}echo; read line"
    with subprocess.Popen(
        ["sh", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline()
        monkeypatch.setattr(breakpoint_repair.os, "kill", lambda *each: sent.append(each))
        asyncio.run(wake(process.pid))
        monkeypatch.undo()
        process.communicate(b"\n")
    assert sent == [] if has_handler else sent == [(process.pid, signal.SIGCONT)]


def test_one_that_has_ended_is_left_alone() -> None:
    with subprocess.Popen([SLEEP, "0"]) as process:
        process.wait()
    asyncio.run(wake(process.pid))
