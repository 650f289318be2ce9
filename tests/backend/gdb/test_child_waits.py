"""The child processes of a rank that waits for one: their work, and their frames of Python."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pgdb.backend.gdb import child_waits
from pgdb.backend.gdb.child_waits import children_of, waits_for_child
from pgdb.backend.python import reader
from pgdb.backend.python.reader import PythonFrame, PythonThread, Reader, Reading
from pgdb.jobs import procfs
from pgdb.mpi_calls import ChildWork
from tests.support.processes import wait_until
from tests.support.programs import ROOT

POOL = ROOT / "tests" / "programs" / "python_pool.py"
LIBRARY = "/usr/lib/python3.12/multiprocessing"
BEGIN = PythonFrame("BaseProcess._bootstrap", f"{LIBRARY}/process.py", 314)
GET = PythonFrame("SimpleQueue.get", f"{LIBRARY}/queues.py", 364)
WORKER = PythonFrame("worker", f"{LIBRARY}/pool.py", 114)
FORKED = PythonFrame("main", "/job/train.py", 3)
"""A frame that the child has had since it was forked."""


class _Frames:
    """The frames of every process."""

    is_of_process = True

    def __init__(self, frames: Sequence[PythonFrame]) -> None:
        self._frames = tuple(frames)

    async def read(self, pid: int, /) -> Reading:
        return Reading((PythonThread(1, self._frames, "MainThread", pid),))


@pytest.mark.parametrize("function", ["waitpid", "multiprocessing.pool.Pool.map", "torch.utils.x"])
def test_functions_that_wait_for_a_child_are_known(function: str) -> None:
    assert waits_for_child(function)
    assert not waits_for_child("queue.Queue.get") and not waits_for_child("")


def children(frames: Sequence[PythonFrame]) -> tuple[ChildWork, ...]:
    """Return the work of the two children of a process, which have these frames."""
    line = "sleep 1000 & sleep 1000 & exec sleep 1000"
    family = subprocess.Popen(["sh", "-c", line], start_new_session=True)

    def names() -> list[str]:
        return [procfs.program_name(each) for each in (family.pid, *procfs.children(family.pid))]

    try:
        wait_until(lambda: names() == ["sleep"] * 3, "all sleep")
        return asyncio.run(children_of(family.pid, _Frames(frames)))
    finally:
        os.killpg(family.pid, signal.SIGKILL)
        family.wait()


def test_a_worker_without_frames_of_the_users_waits_for_a_job() -> None:
    """The frames that a child has had since it was forked are its parent's place."""
    (found,) = children([GET, WORKER, BEGIN, FORKED])
    assert (found.state, found.count) == ("idle", 2)


def test_a_process_that_serves_the_interpreter_is_none_of_the_programs() -> None:
    tracker = PythonFrame("main", f"{LIBRARY}/resource_tracker.py", 1)
    assert children([tracker, PythonFrame("<module>", "<string>", 1)]) == ()


def test_frames_begin_at_the_users_own_function() -> None:
    own = PythonFrame("load", "/job/data.py", 9)
    (found,) = children([GET, own, WORKER, BEGIN, FORKED])
    assert found.where is not None and (found.where.function, found.where.line) == ("load", 9)
    assert found.frames == ("load", "SimpleQueue.get")


def test_a_child_without_python_has_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_waits, "activity_in_call", lambda pid: "sleeping")
    (found,) = children([])
    assert found == ChildWork("sleep", 2, activity="sleeping")


def test_a_shell_that_waits_stands_for_the_program_that_it_has_started() -> None:
    rank = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000; :'; :"], start_new_session=True)

    class Nobody:
        is_of_process = True

        async def read(self, pid: int, /) -> Reading:
            return Reading()

    def works() -> list[str]:
        return [each.program for each in asyncio.run(children_of(rank.pid, Nobody()))]

    try:
        wait_until(lambda: works() == ["sleep"], "the inner shell waits")
    finally:
        os.killpg(rank.pid, signal.SIGKILL)
        rank.wait()


@pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
def test_the_busy_child_of_a_pool_is_first_with_its_place() -> None:
    job = subprocess.Popen([sys.executable, POOL], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"

        def found() -> tuple[ChildWork, ...]:
            return asyncio.run(children_of(job.pid, Reader()))

        wait_until(lambda: "idle" in [each.state for each in found()], "the other waits for a job")
        works = {each.where.function if each.where else each.state: each for each in found()}
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
    busy = works["convert"]
    assert next(iter(works)) == "convert" and busy.frames[:2] == ("convert", "Event.wait")
    assert (busy.inside, busy.activity) == ("threading.Event.wait", "thread")
    assert works[""].activity == "exiting"
