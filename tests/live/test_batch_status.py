"""The exit status of batch runs: which situation is a failure, and which note names the way out."""

from __future__ import annotations

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

ONE = ("proc 0 break work", "continue", "bt 1")
"""Rank 0 stops, and the others wait for it in a barrier."""


@pytest.mark.parametrize(
    ("options", "commands", "status", "said"),
    [
        (("--timeout", "3"), ONE, 4, "still running 3 s after 'continue', and [0] has stopped"),
        (("--settle", "0.5"), ONE, 0, "1 of 2 still running: [1] in PMPI_Barrier"),
        (("--timeout", "3", "--settle", "1"), ("proc 0 continue",), 4, "none of them has stopped"),
        (("--settle", "1"), (*ONE, "step"), 0, "[1] ran already, so 'step' did nothing there"),
        ((), ("continue", "tree", "continue"), 0, "[0-1] ended"),
        ((), ("assert argc > 5", "nosuch", "continue", "tree"), 1, "FAILED"),
        ((), ("print nosuch", "kill", "print 1"), 1, 'No symbol "nosuch"'),
        ((), ("continue", "print sizeof(int)", "info line main"), 0, "sizeof(int) = 4"),
        ((), ("continue", "bt"), 1, "No stack."),
    ],
)
def test_status_of_each_situation(
    mpi: Mpi,
    build: Build,
    options: tuple[str, ...],
    commands: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    program = build("again.c")
    finished = run_pgdb("launch", "--batch", *options, *ex(*commands), *mpi.line(2, program))
    assert said in finished.out, finished.out + finished.err
    assert ("--settle 2 ends the wait" in finished.out) == ("and [0] has stopped" in said)
    assert finished.status == status, finished.out + finished.err
