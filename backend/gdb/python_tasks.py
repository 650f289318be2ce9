"""The asyncio tasks of one rank, each with the stack of its coroutines."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.backend.gdb.python_stacks import NO_PYTHON, PythonStacks, on_one_line, python_frame
from pgdb.backend.python.reader import PythonFrame
from pgdb.errors import CommandError
from pgdb.records import Failure, Record, Stack, Threads, ThreadStack

if TYPE_CHECKING:
    from pgdb.backend.python.tasks import Task

NO_TASKS = "The rank has no asyncio tasks."
NOT_IN_CORES = "The asyncio tasks are not read from core files."
_NOTE = "'py-tasks' shows the asyncio tasks"
_LOOPS = ("asyncio/base_events.py", "asyncio/runners.py")


def with_note(stack: Stack, python: PythonStacks) -> Stack:
    """Return a stack with a note on the tasks if its thread executes an event loop of asyncio."""
    runs_a_loop = any(each.fullname.endswith(_LOOPS) for each in stack.frames)
    return replace(stack, note=_NOTE) if runs_a_loop and python.is_of_process else stack


async def stacks(python: PythonStacks, pid: int, limit: int) -> Record:
    """List the stacks of all tasks: *limit* innermost frames, outermost if negative, all for 0."""
    if not python.is_of_process:
        return Failure(message=NOT_IN_CORES)
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
    if not python.runtime_of(pid):
        raise CommandError(NO_PYTHON)
    return python.interpreter_of(pid).tasks(python.tasks_table_of(pid))


def _stack(task: Task, limit: int) -> Stack:
    frames: tuple[PythonFrame, ...] = task.frames
    frames = frames[:limit] if limit > 0 else frames[limit:]
    shown = (python_frame(each, level) for level, each in enumerate(frames))
    return Stack(
        frames=tuple(shown), more=0 < limit < len(task.frames), thread=on_one_line(task.words)
    )
