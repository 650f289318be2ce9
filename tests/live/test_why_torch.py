"""The reason why ranks of PyTorch wait: the process group, the missing rank and its Python line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from pgdb.backend.python import reader
from tests.support.programs import ROOT
from tests.support.terminal import ex, run_json

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]
PROGRAM = ROOT / "tests" / "programs" / "torch_calls.py"


def line_of(text: str) -> int:
    lines = PROGRAM.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip() == text)


@contextmanager
def workers(calls: Sequence[str]) -> Iterator[int]:
    """Run a worker in each call, until all wait; yield the pid of the first one."""
    port = str(int.from_bytes(os.urandom(6), "little"))
    with ExitStack() as stack:
        started = []
        for rank, call in enumerate(calls):
            names = {"RANK": str(rank), "WORLD_SIZE": str(len(calls)), "MASTER_ADDR": "n1"}
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), call],
                env={**os.environ, **names, "MASTER_PORT": port},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            started.append(process)
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == b"ready\n"
        yield started[0].pid


def test_a_rank_that_is_missing_from_a_collective_call_is_named() -> None:
    with workers(["all_reduce", "all_reduce", "sleep", "all_reduce"]) as pid:
        done = run_json("attach", str(pid), *ex("why"))
    (verdict, *_) = done.of_type("why")[0]["verdicts"]
    found = (verdict["kind"], verdict["ranks"], verdict["victims"])
    assert found == ("missing-from-collective", "2", "0-1,3"), done.out
    assert "in all_reduce in process group 0" in verdict["text"]
    assert f"{PROGRAM.name}:{line_of('time.sleep(3600)')}" in verdict["text"]


def test_a_call_of_a_group_does_not_wait_for_ranks_outside_of_it() -> None:
    with workers(["sleep", "barrier of group", "sleep", "barrier of group"]) as pid:
        done = run_json("attach", str(pid), *ex("why"))
    (why,) = done.of_type("why")
    assert not any(each["ranks"] != "" for each in why["verdicts"]), done.out
    # The call was recognized.
    calls = {each["ranks"]: each.get("communicator") for each in why["waits"]}
    assert calls["1,3"] == "process group 1", done.out


def test_ranks_in_different_calls_of_one_group_differ() -> None:
    with workers(["all_reduce", "barrier", "all_reduce", "all_reduce"]) as pid:
        done = run_json("attach", str(pid), *ex("why", "mpi-calls"))
    (verdict, *_) = done.of_type("why")[0]["verdicts"]
    assert (verdict["kind"], verdict["ranks"]) == ("different-collectives", "1"), done.out
