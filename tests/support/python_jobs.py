"""Ranks of Python that call functions in a loop, and say what they have of PGDB in them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from tests.support.processes import why_no_calls
from tests.support.programs import ROOT
from tests.support.terminal import Finished, ex, run_json

PROGRAM = ROOT / "tests" / "programs" / "python_steps.py"
LINES = PROGRAM.read_text().splitlines()
RANKS = 2
FILE = PROGRAM.name


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if line.strip() == text)


FIRST, SECOND, DOUBLED = map(
    line_of, ("first = count + 1", "second = grid.inner(first)", "doubled = value * 2")
)


class Job:
    """Ranks that run, and their pids for ``--pids``."""

    def __init__(self, python: str) -> None:
        self.processes = [
            subprocess.Popen(
                [python, "-u", str(PROGRAM), str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for rank in range(RANKS)
        ]

    def line(self, rank: int) -> str:
        stream = self.processes[rank].stdout
        assert stream is not None
        return stream.readline().decode().rstrip()

    def say(self, text: str) -> None:
        for each in self.processes:
            assert each.stdin is not None
            each.stdin.write(f"{text}\n".encode())
            each.stdin.flush()

    def left(self) -> list[str]:
        """Return what each rank has of PGDB in it, as it says itself."""
        self.say("state")
        return [self.line(rank).partition(" ")[2] for rank in range(RANKS)]

    def attach(self, *commands: str) -> Finished:
        pids = ",".join(str(each.pid) for each in self.processes)
        return run_json("attach", "--pids", pids, *ex(*commands))


@contextmanager
def job(python: str = sys.executable) -> Iterator[Job]:
    ranks = Job(python)
    try:
        for rank in range(RANKS):
            assert ranks.line(rank) == "ready"
        yield ranks
    finally:
        for each in ranks.processes:
            each.kill()
            each.communicate()


@cache
def version(python: str) -> tuple[int, int]:
    line = [python, "-c", "import sys; print(list(sys.version_info[:2]))"]
    major, minor = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout)
    return major, minor


def can_arm(python: str) -> bool:
    return version(python) >= (3, 14) or not why_no_calls()


def require_arming(python: str) -> None:
    if not can_arm(python):
        pytest.skip(f"Python before 3.14 and a GDB that cannot call functions: {why_no_calls()}")
