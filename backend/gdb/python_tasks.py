"""The asyncio tasks of one rank, each with the stack of its coroutines."""

from __future__ import annotations

import asyncio
from collections import Counter

from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.gdb.python_stacks import NO_PYTHON, PythonStacks, on_one_line, python_frame
from pgdb.backend.python import values
from pgdb.backend.python.reader import PythonFrame
from pgdb.backend.python.tasks import Task
from pgdb.errors import CommandError
from pgdb.process_maps import read_mappings
from pgdb.records import Failure, Frame, Record, Stack, Threads, ThreadStack

NO_TASKS = "The rank has no asyncio tasks."
NOTE = "'py-tasks' shows the asyncio tasks"
_LOOPS = ("asyncio/base_events.py", "asyncio/runners.py")


def runs_a_loop(frames: tuple[Frame, ...]) -> bool:
    """Return whether a thread executes an event loop of asyncio."""
    return any(each.fullname.endswith(_LOOPS) for each in frames)


async def stacks(python: PythonStacks, pid: int, limit: int) -> Record:
    """List the stacks of all tasks: *limit* innermost frames, outermost if negative, all for 0."""
    try:
        found = await asyncio.to_thread(_tasks, python, pid)
    except CommandError as error:
        return Failure(message=f"The asyncio tasks are not known: {error}")
    if not found:
        return Failure(message=NO_TASKS)
    counts = Counter(_stack(each, limit) for each in found)
    return Threads(
        stacks=tuple(ThreadStack(stack, count) for stack, count in counts.items()), are_tasks=True
    )


def _tasks(python: PythonStacks, pid: int) -> list[Task]:
    def memory(address: int, size_bytes: int) -> bytes:
        return read_some(pid, address, size_bytes)

    at = python.runtime_of(pid)
    try:
        paths = [each.path for each in read_mappings(pid)]
    except OSError as error:
        raise CommandError(f"its memory cannot be read: {error.strerror}") from None
    if not at:
        raise CommandError(NO_PYTHON)
    interpreter = values.Interpreter(memory, at, values.minor_of(memory, at, paths))
    return interpreter.tasks(python.tasks_table_of(pid))


def _stack(task: Task, limit: int) -> Stack:
    frames: tuple[PythonFrame, ...] = task.frames
    frames = frames[:limit] if limit > 0 else frames[limit:]
    shown = (python_frame(each, level) for level, each in enumerate(frames))
    return Stack(
        frames=tuple(shown), more=0 < limit < len(task.frames), thread=on_one_line(task.words)
    )
