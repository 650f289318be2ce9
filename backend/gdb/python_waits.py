"""The waits of the Python threads of one rank: for whom, and in which function of a library."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from pgdb.backend.gdb.activities import activity_of, blocking_function
from pgdb.backend.gdb.mpi_frames import Objects, Place
from pgdb.backend.gdb.python_source import unchanged_source
from pgdb.backend.gdb.python_stacks import PythonStacks
from pgdb.backend.gdb.rank_image import ProcessImage, RankImage
from pgdb.backend.python import glue, loops, values
from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.reader import PythonThread
from pgdb.backend.python.waits import awaited_thread, wait_of
from pgdb.errors import CommandError, PgdbError
from pgdb.mpi_calls import Activity, Loop

_WAITS = ("lock", "thread")
_MOST_THREADS = 64


class Waits(msgspec.Struct, frozen=True):
    """The Python threads of a rank, and the threads for which they wait."""

    threads: Mapping[int, PythonThread] = {}
    """Threads by the kernel's number."""
    awaited: Mapping[int, int] = {}
    """The kernel's number of the thread for which a thread waits, by the number of that."""

    def described(
        self, number: int, places: Sequence[Place], objects: Objects
    ) -> tuple[Activity, str]:
        """Return the work of a thread, and the function of a library in which it blocks."""
        activity = activity_of(places)
        thread = self.threads.get(number)
        if thread is None:
            return activity, blocking_function(places)
        found = wait_of(thread.frames, activity)
        begin = next((at for at, each in enumerate(places) if is_of_interpreter(each, objects)), 0)
        # The lock of the interpreter's own is below that of the program.
        inside = "" if activity in _WAITS else blocking_function(places[:begin])
        return found.activity or activity, found.function or inside


def is_of_interpreter(place: Place, objects: Objects) -> bool:
    """Return whether a frame lies in the object file of a Python interpreter."""
    return glue.is_interpreter(objects.path(place.address))


def evaluates(place: Place) -> bool:
    """Return whether a frame is the loop of a Python interpreter."""
    return glue.evaluates(place.frame.function)


class PythonWaits:
    """Finder of the waits of the Python threads of the rank of one GDB."""

    def __init__(self, python: PythonStacks) -> None:
        self._python = python

    async def look(
        self,
        image: RankImage,
        stacks: Sequence[tuple[str, Sequence[Place]]],
        numbers: Mapping[str, int],
    ) -> Waits:
        """Return the waits of a stopped rank; nothing if its first thread executes no Python.

        :raises GdbError: if GDB ends.
        """
        first = stacks[0][1]
        if not isinstance(image, ProcessImage) or not any(map(evaluates, first)):
            return Waits()
        is_waiting = activity_of(first) in _WAITS
        threads: dict[int, PythonThread] = {}
        for number, places in stacks[: _MOST_THREADS if is_waiting else 1]:
            if any(map(evaluates, places)):
                thread = await self._python.thread(image.pid, number)
                if thread is not None and thread.frames:
                    threads[numbers[number]] = thread
        if not is_waiting:
            return Waits(threads)
        blocked = [numbers[number] for number, places in stacks if activity_of(places) in _WAITS]
        awaited = await asyncio.to_thread(self._awaited, image.pid, threads, blocked)
        return Waits(threads, awaited)

    async def loop(self, pid: int, thread: PythonThread | None) -> Loop:
        """Return the kind of loop of Python in which a thread is; empty if unknown."""
        if thread is None or not thread.frames:
            return ""
        return await asyncio.to_thread(self._loop, pid, thread)

    def _loop(self, pid: int, thread: PythonThread) -> Loop:
        frame = thread.frames[0]
        source = unchanged_source(pid, frame.filename)
        if source is None:
            return ""
        try:
            interpreter = self._python.interpreter_of(pid)
            scope = interpreter.scope(thread, frame)
        except PgdbError:
            # Without its values, a loop that reads none can be judged.
            scope = None

        def type_of(text: str) -> str:
            if scope is None:
                return ""
            try:
                found = interpreter.resolve(values.parse(text), frame, scope)
            except PgdbError:
                return ""
            if not isinstance(found, int):
                return "array" if isinstance(found, ArrayPlace) else ""
            return interpreter.objects.type_name(found)

        return loops.loop_of(source, frame.line, type_of)

    def _awaited(
        self, pid: int, threads: Mapping[int, PythonThread], blocked: Sequence[int]
    ) -> dict[int, int]:
        try:
            interpreter = self._python.interpreter_of(pid)
        except CommandError:
            return {}
        kernels = {each.thread_id: number for number, each in threads.items()}
        found = {}
        for number in blocked:
            if number not in threads:
                continue
            other = awaited_thread(
                interpreter,
                list(threads.values()),
                threads[number],
                lambda path: unchanged_source(pid, path),
            )
            if other is not None:
                found[number] = kernels[other.thread_id]
        return found
