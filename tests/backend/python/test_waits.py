"""The thread that another one needs, and the function in which it blocks, in each interpreter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.backend.python import reader
from pgdb.backend.python.reader import Local, PythonFrame, PythonThread, Reader
from pgdb.backend.python.waits import Wait, awaited_thread, held_locks, wait_of, wanted_locks
from pgdb.mpi_calls import Activity
from tests.support.processes import wait_until
from tests.support.programs import ROOT
from tests.support.python_processes import PythonProcess, running
from tests.support.pythons import interpreters

PROGRAM = ROOT / "tests" / "programs" / "python_locks.py"
LIBRARY = "/usr/lib/python3.12"


def source(path: str) -> str:
    return Path(path).read_text()


def threads_of(process: PythonProcess, line: str) -> list[PythonThread]:
    """Return the threads once the first one is at a line with this text."""
    lines = source(str(PROGRAM)).splitlines()
    found: list[PythonThread] = []

    def is_there() -> bool:
        reading = asyncio.run(Reader().read(process.pid))
        found[:] = sorted(reading.threads, key=lambda each: each.thread_name != "MainThread")
        frames = [each for each in found[0].frames if each.filename == str(PROGRAM)]
        return bool(frames) and lines[frames[0].line - 1].strip() == line

    wait_until(is_there, f"the first thread is at {line}")
    return found


@pytest.mark.slow
@pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
@pytest.mark.parametrize("python", interpreters())
@pytest.mark.parametrize(
    ("way", "line", "holder"),
    [
        ("with", "with STORE.guard:", "holder"),
        ("acquire", "STORE.guard.acquire()", "holder"),
        ("owned", "with INNER:", "holder"),
        ("join", "holder.join()", "holder"),
        ("itself", "OUTER.acquire()", "MainThread"),
        ("released", "STORE.guard.acquire()", None),
    ],
)
def test_the_thread_that_another_one_needs(
    python: str, way: str, line: str, holder: str | None
) -> None:
    with running(python, PROGRAM, way) as process:
        process.wait()
        threads = threads_of(process, line)
        found = awaited_thread(process.interpreter, threads, threads[0], source)
        assert (found and found.thread_name) == holder
        # A source that is gone or was changed says nothing about locks.
        unknown = awaited_thread(process.interpreter, threads, threads[0], lambda _: None)
        assert (unknown is not None) == (way == "join")


@pytest.mark.parametrize(
    ("frames", "activity", "expected"),
    [
        (("Condition.wait", "threading.py"), "lock", ("threading.Condition.wait", "thread")),
        (("wait", "threading.py"), "lock", ("threading.Event.wait", "thread")),
        (("Popen.wait", "subprocess.py"), "io", ("subprocess.Popen.wait", "io")),
        (("Pool.map", "multiprocessing/pool.py"), "lock", ("multiprocessing.pool.Pool.map", "io")),
        (("get", "site-packages/trio/_core/_run.py"), "io", ("trio._core.get", "")),
        (("Thread.run", "threading.py"), "lock", ("", "")),
        (("Event.wait", "threading.py"), "computing", ("", "")),
    ],
)
def test_the_function_in_which_a_thread_blocks(
    frames: tuple[str, str], activity: Activity, expected: tuple[str, Activity]
) -> None:
    name, file = frames
    variables = (Local("self", repr="<Event at 0x7f01>"),) if name == "wait" else ()
    called = PythonFrame(name, f"{LIBRARY}/{file}", 9, variables)
    stack = (called, PythonFrame("work", "/home/ann/job.py", 7))
    assert wait_of(stack, activity) == Wait(*expected)


def test_a_thread_that_blocks_in_the_users_own_line_is_in_no_function_of_a_library() -> None:
    assert wait_of((PythonFrame("work", "/home/ann/job.py", 7),), "lock") == Wait()
    assert wait_of((), "lock") == Wait()


TEXT = """\
with first:
    def inner():
        work()
    inner()
with second: work()
with third as it, self.fourth[0]:
    it.release()
    third.release()
"""


def test_locks_of_the_lines_of_a_source() -> None:
    assert held_locks(TEXT, 4) == ["first"]
    # The function is defined with the lock, and not executed with it.
    assert held_locks(TEXT, 3) == []
    # All of the statement is in the line: the lock is wanted there, or held.
    assert (wanted_locks(TEXT, 5), held_locks(TEXT, 5)) == (["second"], [])
    assert wanted_locks(TEXT, 6) == ["third", "self.fourth[0]"]
    assert held_locks(TEXT, 8) == ["self.fourth[0]"]
    assert held_locks("with broken(", 1) == wanted_locks("with broken(", 1) == []
