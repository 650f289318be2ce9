"""Real interpreters that run a program and wait, and the values in their frames, without a GDB."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.python import array_text, runtime, values
from pgdb.backend.python.ctypes_values import Field
from pgdb.backend.python.reader import PythonFrame, Reader
from pgdb.backend.python.values import Interpreter
from pgdb.process_maps import read_mappings


class PythonProcess:
    """A program that prints ``ready`` when it waits for input, and the frames of its one thread."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.interpreter: Interpreter
        self.frames: tuple[PythonFrame, ...] = ()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> None:
        """Wait until the program waits, and find its interpreter."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        memory = partial(read_some, self.pid)
        mappings = read_mappings(self.pid)
        at = runtime.runtime_address(mappings, lambda path: path)
        minor = values.minor_of(memory, at, [each.path for each in mappings])
        self.interpreter = Interpreter(memory, at, minor)

    def look(self) -> None:
        """Wait until the program waits, and read its frames, for which py-spy is needed."""
        self.wait()
        found = asyncio.run(Reader().read(self.pid))
        assert not found.why, found.why
        (self.frames,) = (each.frames for each in found.threads if each.frames)

    def go_on(self) -> None:
        """End the wait of the program."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"x")
        self._process.stdin.flush()


@contextmanager
def running(python: str, program: Path, *words: str) -> Iterator[PythonProcess]:
    """Run a program, and kill it at the end."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([python, str(program), *words], stdin=pipe, stdout=pipe)
    try:
        yield PythonProcess(process)
    finally:
        process.kill()
        process.communicate()


def value(process: PythonProcess, text: str, level: int = 1) -> str:
    """Return the value of an expression in a frame, 1 for the caller of the innermost function."""
    found = process.interpreter
    place = found.resolve(values.parse(text), process.frames[level])
    if isinstance(place, int):
        return found.shown(place)
    if isinstance(place, Field):
        return found.shown_of_c(place, array_text.MOST_SHOWN).text
    if place.structure:
        return found.of_structures(place, array_text.MOST_SHOWN).text
    low, high = place.extent
    data = found.objects.read(place.address + low, high - low)
    return array_text.text_of_numbers(place, *values.elements(place, data, low))
