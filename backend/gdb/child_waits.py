"""The child processes that a rank waits for: the work of each, with its Python frames."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb.python_stacks import FrameReader, python_frame
from pgdb.backend.mpi_calls.blocking import activity_in_call, awaits_child
from pgdb.backend.python.reader import PythonFrame, PythonThread
from pgdb.backend.python.waits import wait_of
from pgdb.jobs import procfs
from pgdb.mpi_calls import Activity, CallSite, ChildWork
from pgdb.source_paths import is_of_python_library

_WAITS = frozenset({"wait", "wait3", "wait4", "waitid", "waitpid", "system"})
"""Functions of C that wait for the end of a child process."""
_OTHER_WAITS = (
    "gfortran_execute_command_line",
    "multiprocessing.",
    "concurrent.futures.",
    "subprocess.",
    "torch.",
)
"""Beginnings of functions of Fortran and Python that wait for the work, or for the end, of a child
process."""
_BOOTSTRAP = ("multiprocessing/process.py", "_bootstrap")
"""The frame below which a child process of Python's ``multiprocessing`` does its work."""
_MOST_CHILDREN = 16
_MOST_KINDS = 3
_MOST_SHELLS = 4
_MOST_FRAMES = 8


class _Child(msgspec.Struct, frozen=True):
    """One child process; it has nothing to do if :attr:`is_idle`."""

    work: ChildWork
    is_idle: bool = False


def waits_for_child(function: str) -> bool:
    """Return whether a function of a library may wait for a child process.

    >>> waits_for_child("multiprocessing.queues.Queue.get"), waits_for_child("queue.Queue.get")
    (True, False)
    """
    return function in _WAITS or function.startswith(_OTHER_WAITS)


async def children_of(pid: int, reader: FrameReader) -> tuple[ChildWork, ...]:
    """Return the work of the child processes of a rank, those that are busy first.

    Nothing is read of children behind the first :data:`_MOST_CHILDREN`.
    """
    pids = (await asyncio.to_thread(procfs.children, pid))[:_MOST_CHILDREN]
    found = await asyncio.gather(*(_child(each, reader) for each in pids))
    counts = Counter(each for each in found if each is not None)
    kinds = sorted(counts, key=lambda each: (_place_of(each), -counts[each]))
    return tuple(replace(each.work, count=counts[each]) for each in kinds[:_MOST_KINDS])


def _place_of(child: _Child) -> int:
    """Return the place of a child among others: the one that works, or hangs, comes first."""
    if child.is_idle:
        return 3
    if child.work.activity == "exiting":
        return 2
    # It waits for another process, as for its next job.
    return int(child.work.inside.startswith("multiprocessing."))


async def _child(pid: int, reader: FrameReader, depth: int = 0) -> _Child | None:
    """Return one child process; None for one that only serves the interpreter."""
    name = procfs.program_name(pid)
    state = await asyncio.to_thread(procfs.read_stat, pid)
    if state is None:
        return None
    if state.has_ended:
        return _Child(ChildWork(program=name, activity="exiting"))
    if state.state == "T":
        return _Child(ChildWork(program=name, state="stopped"))
    activity: Activity = "computing" if state.state == "R" else activity_in_call(pid)
    reading = await reader.read(pid)
    thread = _main_thread(reading.threads, pid)
    if thread is None or not thread.frames:
        started = await asyncio.to_thread(_started, pid)
        if started and depth < _MOST_SHELLS:
            return await _child(started, reader, depth + 1)
        return _Child(ChildWork(program=name, activity=activity))
    frames, is_worker = _own_frames(thread.frames)
    users = [each for each in frames if _is_users(each)]
    if not users:
        work = ChildWork(program=name, state="idle")
        return _Child(work, is_idle=True) if is_worker and frames else None
    wait = wait_of(frames, activity)
    shown = python_frame(users[0], 0, "none")
    return _Child(
        ChildWork(
            program=name,
            activity=wait.activity or ("python" if activity == "computing" else activity),
            inside=wait.function,
            where=CallSite(shown.function, shown.file, shown.line, shown.fullname),
            frames=_names(frames),
        )
    )


def _started(pid: int) -> int:
    """Return the one process that a process has started and waits for, as a shell does; 0 if it
    does not."""
    started = procfs.children(pid)
    return started[0] if len(started) == 1 and awaits_child(pid) else 0


def _main_thread(threads: Sequence[PythonThread], pid: int) -> PythonThread | None:
    """Return the first thread of a process, None if it has no Python frames."""
    first = next((each for each in threads if each.os_thread_id == pid), None)
    named = (each for each in threads if each.thread_name == "MainThread")
    return first or next(named, threads[0] if len(threads) == 1 else None)


def _own_frames(frames: Sequence[PythonFrame]) -> tuple[Sequence[PythonFrame], bool]:
    """Return the frames of a child without those that it had when it was forked, and whether it is
    a worker of ``multiprocessing``."""
    file, name = _BOOTSTRAP
    for at, each in enumerate(frames):
        if each.filename.endswith(file) and each.name.rpartition(".")[2] == name:
            return frames[:at], True
    return frames, False


def _is_users(frame: PythonFrame) -> bool:
    # Code from a text is the interpreter's own beginning of a child: <string>, <frozen runpy>.
    return not frame.filename.startswith("<") and not is_of_python_library(frame.filename)


def _names(frames: Sequence[PythonFrame]) -> tuple[str, ...]:
    """Return the functions of a stack, outermost first, from the first one of the user's on."""
    last = max(at for at, each in enumerate(frames) if _is_users(each))
    inner = [python_frame(each, 0, "none").function for each in frames[: last + 1]]
    return tuple(reversed(inner[:_MOST_FRAMES]))
