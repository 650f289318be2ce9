"""The log of ``--script-log``: the calls of a session as a program that runs.

The program is complete after each call, so that it is there however the session ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from pgdb.errors import CommandError
from pgdb.frontend.store.script_calls import call_of, view_text
from pgdb.frontend.system.user_files import check_place, reason, user_path
from pgdb.overlay.operation import Operation
from pgdb.overlay.operations import ReadBlock, Reduce, Resume
from pgdb.ranks import RankSet

_IS_INNER: ContextVar[bool] = ContextVar("pgdb_script_is_inner", default=False)
"""Whether requests belong to a call that is in the program already."""


@contextlib.contextmanager
def inner() -> Iterator[None]:
    """Keep requests within the context, and those of tasks that begin there, out of programs.

    PGDB makes them by itself, and makes them again when the program runs.
    """
    token = _IS_INNER.set(True)
    try:
        yield
    finally:
        _IS_INNER.reset(token)


class ScriptLog:
    """Writer of the calls of one session, each when it is made."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self.path = path
        self._last = ""
        self._last_at = 0
        """Offset of the last call."""
        self._run: tuple[int, str, RankSet, float] | None = None
        """Offset, call, ranks and time of a run that was not followed by another call yet."""
        self.failure = ""
        """The reason why nothing is written any longer."""

    def begin(self, text: str) -> None:
        """Write the first lines."""
        self._write(text)

    def asked(
        self, operation: Operation, ranks: RankSet, everyone: RankSet, running: RankSet
    ) -> None:
        """Note a request to ranks; *running* are the ranks that run before it."""
        if _IS_INNER.get() or self.failure:
            return
        call = call_of(operation)
        if not call:
            return
        self._end_run(running)
        line = f"{view_text(ranks, everyone)}.{call}"
        # A long value is read in pieces, and looked at behind the part that GDB prints.
        if isinstance(operation, ReadBlock) and self._last.partition(".")[2].startswith(
            ("array", "evaluate", "stat")
        ):
            return
        if isinstance(operation, Reduce) and line.startswith(self._last.removesuffix(")") or "\n"):
            self._take_back(self._last_at)  # a histogram needs the range first
        if isinstance(operation, Resume):
            offset = self._file.tell()
            self._run = (offset, line, ranks, time.monotonic())
        self._last = line
        self._print(line)

    @contextlib.contextmanager
    def call(self, line: str, running: RankSet) -> Iterator[None]:
        """Note a call; the requests within the context belong to it."""
        if not _IS_INNER.get() and not self.failure:
            self._end_run(running)
            self._last = line
            self._print(line)
        with inner():
            yield

    def close(self, running: RankSet) -> None:
        """End the program."""
        self._end_run(running)
        with contextlib.suppress(OSError):
            self._file.close()

    def _end_run(self, running: RankSet) -> None:
        """Limit the wait of a run that the user has not waited for, so that the program goes on."""
        if self._run is None:
            return
        (offset, line, ranks, begun_s), self._run = self._run, None
        if running.isdisjoint(ranks) or self.failure:
            return
        waited_s = max(1, math.ceil(time.monotonic() - begun_s))
        self._take_back(offset)
        self._print(f"{line.removesuffix(')')}, timeout_s={waited_s})")

    def _take_back(self, offset: int) -> None:
        """Remove the last call."""
        with contextlib.suppress(OSError):
            self._file.truncate(offset)
            self._file.seek(offset)

    def _print(self, call: str) -> None:
        self._last_at = self._file.tell()
        self._write(f"    print({call})\n")

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode("utf-8", "backslashreplace"))
            self._file.flush()
        except (OSError, ValueError) as error:
            self.failure = reason(error) if isinstance(error, OSError) else str(error)


def open_script(name: str) -> ScriptLog:
    """Create the file of a program, which only its user can read.

    :raises CommandError: if it cannot be written.
    """
    path = user_path(name)
    check_place(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {reason(error)}") from None
    return ScriptLog(os.fdopen(descriptor, "w+b"), path)
