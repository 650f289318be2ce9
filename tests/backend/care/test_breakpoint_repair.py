"""Processes that stay stopped after the death of their debugger run on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from pgdb.backend.care import breakpoint_repair
from pgdb.backend.care.breakpoint_repair import wake
from tests.support.processes import status, wait_until

SLEEP = shutil.which("sleep") or ""


@pytest.mark.parametrize("is_late", [False, True])
def test_a_process_that_stands_still_goes_on(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a process that stops only after the first check, as with a late SIGSTOP."""
    with subprocess.Popen([SLEEP, "300"]) as process:
        stops = 0

        def pauses() -> Iterator[float]:
            """Yield the pause before each check; stop the process before one of them."""
            nonlocal stops
            for number in range(3):
                if number == is_late:
                    os.kill(process.pid, signal.SIGSTOP)
                    wait_until(lambda: status(process.pid, "State")[0] == "T", "it stands still")
                    stops += 1
                yield 0.0

        monkeypatch.setattr(breakpoint_repair, "PAUSES_S", pauses())
        try:
            asyncio.run(wake(process.pid))
            assert stops == 1, "no check came after the stop"
            wait_until(lambda: status(process.pid, "State")[0] == "S", "it goes on")
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
