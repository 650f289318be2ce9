"""The Python frames of a core file, as pystack reads them from it."""

from __future__ import annotations

import asyncio
import sys
from typing import ClassVar

from pgdb.backend.python import pystack_dump
from pgdb.backend.python.reader import GET, MOST_AT_ONCE, NOT_SHOWN, Reading, answer_of, decoded

DEADLINE_S = 60.0
"""Time that pystack has for one core; it reads the symbols of the interpreter each time."""
MISSING = f"{NOT_SHOWN}reading them from a core file needs pystack; {GET}"


class CoreReader:
    """Reader of one core file by pystack, which runs once: the core does not change."""

    is_of_process = False
    """Whether a process with the number in the core file is the one that left it."""
    _turns: ClassVar[dict[asyncio.AbstractEventLoop, asyncio.Semaphore]] = {}

    def __init__(self, core: str, *, deadline_s: float = DEADLINE_S) -> None:
        self._core = core
        self.program = ""
        """The file of the interpreter, empty if it is not here."""
        self._deadline_s = deadline_s
        self._reading: asyncio.Task[Reading] | None = None

    async def read(self, pid: int) -> Reading:
        """Return the threads of the core."""
        del pid
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        return await asyncio.shield(self._reading)

    async def _read(self) -> Reading:
        if not self.program:
            return Reading(why=f"{NOT_SHOWN}the interpreter's file is not here; --exe names it")
        words = (sys.executable, "-P", pystack_dump.__file__, self._core, self.program)
        turns = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MOST_AT_ONCE))
        try:
            async with turns:
                status, output, errors = await answer_of(words, self._deadline_s)
        except TimeoutError:
            return Reading(why=f"{NOT_SHOWN}pystack has not answered in {self._deadline_s:g} s")
        except OSError as error:
            return Reading(why=f"{NOT_SHOWN}{words[0]}: {error.strerror}")
        if status == pystack_dump.NO_PYSTACK:
            return Reading(why=MISSING)
        if status < 0:
            return Reading(why=f"{NOT_SHOWN}pystack died of signal {-status} on this core file")
        if status:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            return Reading(why=f"{NOT_SHOWN}pystack: {lines[-1][:300] if lines else status}")
        return decoded(output)
