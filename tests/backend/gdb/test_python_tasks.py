"""The tasks of a core file's process are never those of a process that has its number now."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from pgdb.backend.gdb import python_tasks
from pgdb.backend.gdb.python_stacks import FrameReader, PythonStacks
from pgdb.backend.python.core_reader import CoreReader
from pgdb.backend.python.reader import Reader
from pgdb.records import Failure, Frame, Stack, Threads

LOOP = Stack(frames=(Frame(level=0, function="run", fullname="/lib/asyncio/base_events.py"),))


def stacks_of(reader: FrameReader) -> PythonStacks:
    gdb: Any = None  # reading tasks sends nothing to it
    return PythonStacks(gdb, reader)


def test_tasks_are_not_read_from_core_files() -> None:
    found = asyncio.run(python_tasks.stacks(stacks_of(CoreReader("core.1")), os.getpid(), 0))
    assert found == Failure(message=python_tasks.NOT_IN_CORES)
    found = asyncio.run(python_tasks.stacks(stacks_of(Reader()), os.getpid(), 0))
    # This process itself, whose loop executes this test.
    assert isinstance(found, Threads)


@pytest.mark.parametrize(("reader", "has_note"), [(Reader(), True), (CoreReader("core.1"), False)])
def test_the_note_names_a_command_that_has_an_answer(reader: FrameReader, has_note: bool) -> None:
    noted = python_tasks.with_note(LOOP, stacks_of(reader))
    assert ("py-tasks" in noted.note) is has_note
    assert python_tasks.with_note(Stack(frames=()), stacks_of(reader)).note == ""
