"""Lines of source files, if this host can read them.

Reading happens in a thread, with a short wait: on a hanging file system the event loop would stop,
and the ranks would count as lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from pgdb.regular_files import open_regular

PATIENCE_S = 0.2
"""Maximum wait for a file, in seconds; a later line is available at the next request."""
_MOST_BYTES = 16 << 20
_MOST_FILES = 16
_MOST_READ = 4  # at a time; with so many that hang nothing more is begun


class Sources:
    """Cache of source files, read beside the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, list[str]] = OrderedDict()
        self._missing: set[str] = set()
        self._under_way: dict[str, threading.Event] = {}

    def line(self, path: str, number: int) -> str | None:
        """Return a line of a file, without its end; None if it is empty or not available now."""
        # A program or a recording gives the name, which need not name a source file here. A
        # relative name belongs to a directory of the program.
        is_strange = path.startswith(("/proc/", "/sys/", "/dev/"))
        if not path.startswith("/") or (is_strange and not path.startswith("/dev/shm/")):
            return None
        lines = self._lines(path)
        return (lines[number - 1] or None) if 0 < number <= len(lines) else None

    def is_missing(self, path: str) -> bool:
        """Return whether a file that a line was asked of does not exist here.

        A name that the compiler has left relative leads nowhere.
        """
        return bool(path) and (not path.startswith("/") or path in self._missing)

    def _lines(self, path: str) -> list[str]:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
            # The file was waited for before, or other files hang as well.
            if path in self._under_way or len(self._under_way) >= _MOST_READ:
                return []
            done = self._under_way[path] = threading.Event()
        threading.Thread(target=self._read, args=(path,), name="pgdb source", daemon=True).start()
        done.wait(PATIENCE_S)
        with self._lock:
            return self._kept.get(path, [])

    def _read(self, path: str) -> None:
        lines: list[str] = []
        is_missing = False
        try:
            with open_regular(path) as file:
                data = file.read(_MOST_BYTES + 1)
            if len(data) <= _MOST_BYTES:
                # Not splitlines(), which also splits at a form feed.
                text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
                lines = text.split("\n")
        except (OSError, ValueError) as error:
            is_missing = isinstance(error, FileNotFoundError)
        with self._lock:
            self._kept[path] = lines
            if is_missing:
                self._missing.add(path)
            while len(self._kept) > _MOST_FILES:
                self._missing.discard(self._kept.popitem(last=False)[0])
            self._under_way.pop(path).set()


_SOURCES = Sources()
source_line = _SOURCES.line
"""The source lines that all displays of a process share."""
is_missing = _SOURCES.is_missing
