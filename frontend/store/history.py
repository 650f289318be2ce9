"""The history: lines typed at earlier prompts.

The file has prompt_toolkit's format. For each new line a thread reads the file, adds the line and
replaces the file: two sessions at once keep each other's lines, and a killed session leaves the
file whole. It is a thread because the home directory can be remote.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prompt_toolkit.history import History

from pgdb.frontend.system.user_files import locked, reason, write_atomically
from pgdb.frontend.system.workers import beside
from pgdb.regular_files import open_regular

MOST_ENTRIES = 2000
"""Limit for the number of entries; the oldest are dropped."""
MAX_BYTES = 4 << 20
"""Limit for the size, in bytes; only the last part of a larger file is read."""
LOCK_TIMEOUT_S = 5.0


class CommandHistory(History):
    """Entries in a file, the newest first."""

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        """Use the file *path*; *report* is called once, in any thread, if that fails."""
        super().__init__()
        self._path = path
        self._report = report
        self._has_reported = False
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pgdb history")
        self._unwritten: deque[str] = deque()
        self._given_up_s = math.inf
        self._reading: asyncio.Future[list[str]] | None = None

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries of the file; none if it cannot be read."""
        try:
            entries, is_damaged = _read(self._path)
        except OSError as error:
            self._complain(f"{self._path} cannot be read: {reason(error)}")
            return []
        if is_damaged:
            self._complain(f"{self._path} is damaged; the lines that can be read are kept")
        return reversed(entries)

    async def read(self, timeout_s: float = math.inf) -> None:
        """Wait until the file is read, at most for the given time: the file system can hang."""
        if self._reading is None:
            reading = beside(lambda: list(self.load_history_strings()), name="history")
            self._reading = asyncio.ensure_future(reading)
        limit_s = None if timeout_s == math.inf else timeout_s
        # The caller can be cancelled: each typed line starts this again.
        await asyncio.wait((self._reading,), timeout=limit_s)
        if self._reading.done() and not self._loaded:
            self._loaded = True
            self._loaded_strings += self._reading.result()

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the lines, the newest first."""
        if not self._loaded:
            await self.read()
        for string in self._loaded_strings:
            yield string

    def store_string(self, string: str) -> None:
        """Add an entry to the file, soon."""
        self._unwritten.append(string)
        self._writer.submit(self._store)

    def close(self) -> None:
        """Return when all is written, or after one attempt to get the lock."""
        self._given_up_s = time.monotonic() + LOCK_TIMEOUT_S
        self._writer.shutdown()

    def _store(self) -> None:
        """Write all new lines at once."""
        new = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
        if not new:
            return
        timeout_s = min(LOCK_TIMEOUT_S, self._given_up_s - time.monotonic())
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self._path.with_name(f"{self._path.name}.lock")
            with locked(lock, timeout_s=timeout_s):
                entries, _ = _read(self._path)
                write_atomically(self._path, _format([*entries, *new][-MOST_ENTRIES:]))
        except OSError as error:
            self._complain(f"{self._path} cannot be written: {reason(error)}")

    def _complain(self, text: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._report(f"history: {text}; the session goes on")


def _read(path: Path) -> tuple[list[str], bool]:
    """Return the entries of a file, the oldest first, and whether the file has anything else.

    :raises OSError: if it cannot be read.
    """
    try:
        with open_regular(path) as file:
            size_bytes = file.seek(0, 2)
            file.seek(max(0, size_bytes - MAX_BYTES))
            data = file.read(MAX_BYTES)
    except FileNotFoundError:
        return [], False
    text = data.decode("utf-8", "replace")
    if size_bytes > MAX_BYTES:
        text = text.partition("\n")[2]  # the line that the part begins amid
    is_damaged = "\ufffd" in text
    entries: list[str] = []
    open_entry: list[str] = []
    for line in text.split("\n"):
        if line.startswith("+"):
            open_entry.append(line[1:])
            continue
        if open_entry:
            entries.append("\n".join(open_entry))
            open_entry = []
        is_damaged |= bool(line) and not line.startswith("#")
    if open_entry:  # it was cut off, or another program has written it
        entries.append("\n".join(open_entry))
    kept = [entry for entry in entries if "\ufffd" not in entry and "\0" not in entry]
    return kept, is_damaged or len(kept) < len(entries)


def _format(entries: list[str]) -> bytes:
    lines = [f"# {time.strftime('%Y-%m-%d %H:%M:%S')}"]
    for entry in entries:
        lines += ["", *(f"+{line}" for line in entry.split("\n"))]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")
