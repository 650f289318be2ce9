"""A process whose first thread has ended, and limits of threads."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.jobs.thread_states import has_lost_first_thread, is_confined
from tests.support.headless import headless
from tests.support.processes import wait_until


@pytest.mark.skipif(platform.machine() != "x86_64", reason="exit has another number")
def test_a_process_whose_first_thread_has_ended_is_no_zombie() -> None:
    with headless() as process:
        assert has_lost_first_thread(process.pid)
        assert process.poll() is None
        process.kill()
        wait_until(lambda: not has_lost_first_thread(process.pid), "the end of the others")


def test_a_process_that_lives_has_its_first_thread() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert not has_lost_first_thread(process.pid)
    process.communicate(b"\n")
    assert not has_lost_first_thread(process.pid)


def test_the_mode_of_seccomp(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    for number, expected in (("1", True), ("0", False), ("2", False)):
        folder.joinpath("status").write_text(f"Name:\tapp\nSeccomp:\t{number}\n")
        assert is_confined(7, tmp_path) == expected
    assert not is_confined(8, tmp_path)
