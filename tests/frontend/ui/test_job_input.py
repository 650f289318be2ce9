"""The reader of the standard input: the prompt or the job."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.ui import job_input
from pgdb.frontend.ui.arguments import parse
from pgdb.frontend.ui.job_input import JobInput

LINE = ("mpirun", "-n", "2", "./app")


def no_step(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture
def pipe() -> Iterator[int]:
    """A pipe as standard input, in place of that of the tests; yields its writing end."""
    kept = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    yield writing
    os.dup2(kept, 0)
    os.close(kept)
    os.close(writing)


@pytest.fixture
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_input, "_open_terminal", lambda: None)


def test_in_batch_the_job_reads_it(pipe: int) -> None:
    of_job = JobInput(parse(["launch", "--batch", *LINE]))
    assert asyncio.run(of_job.open(no_step)) == 0 and not of_job.note


def test_the_prompt_gets_the_terminal_and_the_job_the_pipe(
    pipe: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, terminal = os.openpty()
    monkeypatch.setattr(job_input, "_open_terminal", lambda: terminal)
    try:
        of_job = JobInput(parse(["launch", "--stdin", "-", *LINE]))
        assert not of_job.arguments.batch and os.isatty(0)
        descriptor = asyncio.run(of_job.open(no_step))
        assert descriptor is not None and descriptor > 2
        os.write(pipe, b"input")
        assert os.read(descriptor, 99) == b"input"
        os.close(descriptor)
    finally:
        os.close(master)


def test_without_a_terminal_batch_is_implied(pipe: int, no_terminal: None) -> None:
    of_job = JobInput(parse(["launch", "-ex", "continue", *LINE]))
    assert of_job.arguments.batch and of_job.arguments.settle_s is None
    assert of_job.arguments.run_timeout_s == of_job.arguments.options.timeout_s
    assert "the job reads it" in of_job.note
    assert asyncio.run(of_job.open(no_step)) == 0


def test_without_a_terminal_and_commands_nothing_is_started(pipe: int, no_terminal: None) -> None:
    with pytest.raises(UsageError, match="-ex COMMAND"):
        JobInput(parse(["launch", *LINE]))


@pytest.mark.parametrize(
    "words", [["attach", "--batch", "42"], ["launch", "--stdin", "in", *LINE], ["jobs"]]
)
def test_other_lines_are_left_alone(words: list[str], pipe: int) -> None:
    arguments = parse(words)
    assert JobInput(arguments).arguments is arguments


FULL = "pgdb: the output cannot be written: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        # The status says what has happened, where nobody can read it.
        ("run -- sh -c 'exit 3' >&- 2>&-", 8, ""),
        ("run -- sh -c 'exit 3' 2>/dev/full", 8, ""),
        ("run -- sh -c 'echo much' >&-", 0, ""),
        ("jobs >&-", 0, ""),
        ("jobs >/dev/full", 1, FULL),
        ("--version >/dev/full", 1, FULL),
        ("run --help >/dev/full", 1, FULL),
        ("--print-man >/dev/full", 1, FULL),
        ("--version >&-", 0, ""),
        ("jobs --nonsense 2>/dev/full", 2, ""),
    ],
)
def test_output_that_goes_nowhere(words: str, status: int, said: str, unbuffered: str) -> None:
    line = ["sh", "-c", f'exec "$0" -m pgdb {words}', sys.executable]
    finished = subprocess.run(
        line,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    assert (finished.returncode, finished.stderr) == (status, said)
