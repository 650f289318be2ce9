"""Jobs at a prompt of PGDB in a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.processes import programs_with, status, wait_until
from tests.support.programs import Mpi, Program
from tests.support.terminal import (
    MARK,
    PGDB,
    Terminal,
)

PROMPT = r"\(pgdb 0-1\)"


def ranks_of(terminal: Terminal, program: Program) -> list[int]:
    """Return the processes of the program that were started from a terminal."""
    return list(programs_with(f"{MARK}={terminal.mark}", program))


def wait_running(pids: list[int]) -> None:
    """Wait until two ranks run."""
    assert len(pids) == 2
    wait_until(lambda: all(status(pid, "State")[0] in "RSD" for pid in pids), "the ranks run")


@contextlib.contextmanager
def launched(mpi: Mpi, program: Program, *args: str, home: Path) -> Iterator[Terminal]:
    """Launch two ranks at a terminal, up to the first prompt."""
    changes = {"XDG_STATE_HOME": str(home)}
    with Terminal(*PGDB, "launch", *mpi.line(2, program, *args), changes=changes) as terminal:
        terminal.expect(r"2 ranks on 1 host")
        terminal.expect(r"\[0-1\] stopped in main")
        terminal.expect(PROMPT)
        yield terminal
