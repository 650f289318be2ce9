"""The transcript of ``set logging``: a file with what the user has typed and seen.

A thread writes it, in order: its file system can hang, and the event loop must not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from pgdb.frontend.system.user_files import reason

DEFAULT_NAME = "gdb.txt"
"""Name of the file, as in GDB."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Transcript:
    """A copy of the output, while it is on."""

    def __init__(self) -> None:
        self.name = DEFAULT_NAME
        """The file that the next start writes, as it was typed."""
        self.overwrites = False
        """Whether the next start empties the file, and does not append to it."""
        self.redirects = False
        """Whether PGDB's own output is to go to the file only, from the next start on."""
        self.on_failure: Callable[[str], None] = lambda text: None
        """Called in any thread, with the reason why the file cannot be written any longer."""
        self._path: Path | None = None
        self._file: FileIO | None = None
        self._has_failed = False
        self._writer: ThreadPoolExecutor | None = None
        self.is_redirected = False
        """Whether PGDB's own output is not for the screen."""

    @property
    def path(self) -> Path | None:
        """The file that is written now; None if there is none."""
        return self._path

    def start(self, path: Path) -> None:
        """Begin to write *path*, in the mode that is set.

        :raises OSError: if it cannot be opened.
        """
        # Without a buffer: another program can follow it, and closing it writes nothing.
        self._file = path.open("wb" if self.overwrites else "ab", buffering=0)
        self._has_failed = False
        self._path = path
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pgdb transcript")

    def write(self, text: str) -> None:
        """Add text, without its colours, if a file is open."""
        if self._writer is not None and self._file is not None and text:
            data = _COLOURS.sub("", text).encode("utf-8", "backslashreplace")
            self._writer.submit(self._write, self._file, data)

    def stop(self) -> None:
        """Write everything and close the file; the next start opens another."""
        writer, file = self._writer, self._file
        self._writer = self._file = self._path = None
        self.is_redirected = False
        if writer is not None and file is not None:
            writer.submit(file.close)
            writer.shutdown()

    def _write(self, file: FileIO, data: bytes) -> None:
        if self._has_failed:
            return
        try:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
        except OSError as error:
            self._has_failed = True
            self.on_failure(f"{file.name!s} cannot be written: {reason(error)}; it ends here")
