"""Lines of source files, as far as this host has them.

The line behind a stop is worth no more than a moment: where a file system hangs, the event loop
would stand still with it, and the ranks would count as lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from pgdb.regular_files import open_regular

PATIENCE_S = 0.2
"""How long a file is waited for; what comes later is there the next time."""
_MOST_BYTES = 16 << 20
_MOST_FILES = 16
_MOST_READ = 4  # at a time; with so many that hang nothing more is begun


class Sources:
    """Reads files beside the event loop and keeps the last ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, list[str]] = OrderedDict()
        self._under_way: dict[str, threading.Event] = {}

    def line(self, path: str, number: int) -> str | None:
        """Return a line of a file, without its end; None if it is empty or cannot be had now."""
        # A program or a recording names it, and what it names need be no file of source here; what
        # has no absolute name is in a directory of the program's.
        is_strange = path.startswith(("/proc/", "/sys/", "/dev/"))
        if not path.startswith("/") or (is_strange and not path.startswith("/dev/shm/")):
            return None
        lines = self._lines(path)
        return (lines[number - 1] or None) if 0 < number <= len(lines) else None

    def _lines(self, path: str) -> list[str]:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
            # It has been waited for, or others hang as well.
            if path in self._under_way or len(self._under_way) >= _MOST_READ:
                return []
            done = self._under_way[path] = threading.Event()
        threading.Thread(target=self._read, args=(path,), name="pgdb source", daemon=True).start()
        done.wait(PATIENCE_S)
        with self._lock:
            return self._kept.get(path, [])

    def _read(self, path: str) -> None:
        lines: list[str] = []
        try:
            with open_regular(path) as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) <= _MOST_BYTES:
                # Not splitlines(), for which a form feed ends a line, too.
                text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
                lines = text.split("\n")
        except (OSError, ValueError):
            pass  # it has no lines for us
        with self._lock:
            self._kept[path] = lines
            while len(self._kept) > _MOST_FILES:
                self._kept.popitem(last=False)
            self._under_way.pop(path).set()


source_line = Sources().line
"""What all displays of a process read lines with."""
