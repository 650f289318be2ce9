"""The keeper reads a job's output only when the front end has died, and then all of it."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.jobs import keeper, procfs
from tests.support.processes import wait_until

DEADLINE_S = 20.0


def state_of(pid: int) -> str:
    """Return the letter of a process's state."""
    status = procfs.read_stat(pid)
    return status.state if status is not None else ""


class Job:
    """Output pipes of a job with a keeper beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out, self.err = os.pipe(), os.pipe()
        reading = [self.out[0], self.err[0]]
        self.keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(path), *map(str, reading)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=reading,
        )

    def front_end_is_done(self) -> None:
        assert self.keeper.stdin is not None
        self.keeper.stdin.write(b"q")
        self.keeper.stdin.close()
        self.keeper.stdin = None

    def front_end_dies(self) -> None:
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()
        self.keeper.stdin = None
        self._close(self.out[0], self.err[0])

    def job_ends(self) -> None:
        self._close(self.out[1], self.err[1])

    def wait_ended(self) -> None:
        _, errors = self.keeper.communicate(timeout=DEADLINE_S)
        assert (self.keeper.returncode, errors) == (0, b"")

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            os.close(descriptor)
        self.open = [each for each in self.open if each not in descriptors]

    @property
    def open(self) -> list[int]:
        return self._open if hasattr(self, "_open") else [*self.out, *self.err]

    @open.setter
    def open(self, left: list[int]) -> None:
        self._open = left

    def close(self) -> None:
        self.keeper.kill()
        self.keeper.communicate()
        self._close(*self.open)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path / "left.log")
    yield job
    job.close()


def test_when_the_front_end_is_done_nothing_is_read_or_written(job: Job) -> None:
    os.write(job.out[1], b"for the front end\n")
    job.front_end_is_done()
    job.wait_ended()
    assert not job.path.exists()
    assert os.read(job.out[0], 100) == b"for the front end\n"


def test_while_the_front_end_lives_its_output_is_its_own(job: Job) -> None:
    for number in range(20):
        text = b"line %d\n" % number
        os.write(job.out[1], text)
        assert os.read(job.out[0], 100) == text
    assert job.keeper.poll() is None and not job.path.exists()


def test_when_the_front_end_dies_the_output_goes_to_the_file(job: Job) -> None:
    os.write(job.out[1], b"before ")
    job.front_end_dies()
    os.write(job.out[1], b"after ")
    os.write(job.err[1], b"errors too ")
    job.job_ends()
    job.wait_ended()
    text = job.path.read_bytes()
    assert b"before after " in text.replace(b"errors too ", b"") and b"errors too " in text
    assert stat.S_IMODE(job.path.stat().st_mode) == 0o600


def test_a_job_that_prints_nothing_more_leaves_no_file(job: Job) -> None:
    job.front_end_dies()
    wait_until(job.path.exists, "the file is there")
    job.job_ends()
    job.wait_ended()
    assert not job.path.exists()


def test_the_job_is_never_stopped_by_a_full_pipe_or_killed_by_a_closed_one(job: Job) -> None:
    job.front_end_dies()
    text = b"x" * (1 << 20)  # sixteen times what a pipe holds
    written = 0
    while written < len(text):
        _, ready, _ = select.select([], [job.out[1]], [], DEADLINE_S)
        assert ready, "the job is stuck"
        written += os.write(job.out[1], text[written : written + 4096])
    job.job_ends()
    job.wait_ended()
    assert job.path.read_bytes() == text


def test_it_lives_until_both_streams_have_ended(job: Job) -> None:
    job.front_end_dies()
    os.close(job.err[1])
    job.open = [each for each in job.open if each != job.err[1]]
    os.write(job.out[1], b"still here")
    assert job.keeper.poll() is None
    os.close(job.out[1])
    job.open = [each for each in job.open if each != job.out[1]]
    job.wait_ended()
    assert job.path.read_bytes() == b"still here"


def test_a_file_that_is_there_is_appended_to(job: Job) -> None:
    job.path.write_bytes(b"old\n")
    job.front_end_dies()
    os.write(job.out[1], b"new\n")
    job.job_ends()
    job.wait_ended()
    assert job.path.read_bytes() == b"old\nnew\n"


@pytest.mark.parametrize("path", ["/dev/full", "/nowhere/at/all"])
def test_a_file_that_cannot_be_written_does_not_kill_the_job(path: str) -> None:
    job = Job(Path(path))
    try:
        job.front_end_dies()
        for _ in range(40):
            _, ready, _ = select.select([], [job.out[1]], [], DEADLINE_S)
            assert ready
            os.write(job.out[1], b"x" * 65536)  # BrokenPipeError where the job dies of SIGPIPE
    finally:
        job.close()


def test_nothing_is_put_where_another_user_may_have_led_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, directory = tmp_path / "mine", tmp_path / "directory"
    mine.write_text("mine")
    directory.mkdir()
    (directory / "output").symlink_to(mine)
    os.close(keeper._open(str(directory / "output")))
    descriptor = keeper._open(str(directory / "output"))
    os.write(descriptor, b"the job's")
    os.close(descriptor)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    descriptor = keeper._open(str(directory / "other"))
    os.write(descriptor, b"the job's")
    os.close(descriptor)
    assert mine.read_text() == "mine" and not (directory / "other").exists()


@pytest.mark.parametrize("is_normal", [True, False])
def test_processes_that_the_front_end_has_stopped_go_on_at_its_end(
    job: Job, is_normal: bool
) -> None:
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert job.keeper.stdin is not None
        job.keeper.stdin.write(b"999999999\n%d\n" % program.pid)
        job.keeper.stdin.flush()
        program.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(program.pid) == "T", "it is stopped")
        if is_normal:
            job.front_end_is_done()
        else:
            job.front_end_dies()
        wait_until(lambda: state_of(program.pid) != "T", "it goes on")
    finally:
        program.kill()
        program.communicate()


def test_processes_that_the_front_end_lets_go_on_are_left_alone(job: Job) -> None:
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert job.keeper.stdin is not None
        job.keeper.stdin.write(b"%d\n\n" % program.pid)
        program.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(program.pid) == "T", "it is stopped")
        job.front_end_is_done()
        job.wait_ended()
        assert state_of(program.pid) == "T"
    finally:
        program.kill()
        program.communicate()
