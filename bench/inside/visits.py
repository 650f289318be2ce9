"""Visits of files: the moments at which a process goes from one of our files to another.

A file hands a command on if it is on the stack when the command or its answer goes to another
process, another task or the screen. The other files are called by those, and return.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = os.path.realpath(Path(__file__).resolve().parent.parent.parent)
PARTS = ("pgdb", "frontend", "backend")
HANDS_ON = "> "
"""Prefix of the name of a file that hands the command on."""
_TRANSFERS = ("write", "writelines", "send", "sendmsg", "set_result")


class Visits:
    """The visits of our files by all threads of this process, in order."""

    def __init__(self, on_visit: Callable[[float, str], None]) -> None:
        self._on_visit = on_visit
        self._names: dict[str, str] = {}
        self._last = ""

    def start(self) -> None:
        """Start recording visits."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Stop recording visits."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # None ends it

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call" and getattr(argument, "__name__", "") in _TRANSFERS:
            self._note_stack(frame)
        if event != "call":
            return
        code = frame.f_code
        name = self._name(code.co_filename)
        # The body of a module or a class runs once, when it is loaded.
        if name and name != self._last and not code.co_name.startswith("<module"):
            self._last = name
            self._on_visit(time.monotonic(), name)

    def _note_stack(self, frame: FrameType | None) -> None:
        found: dict[str, None] = {}
        while frame is not None:
            # The body of a module is the start of a process.
            if frame.f_code.co_name != "<module>":
                found[self._name(frame.f_code.co_filename)] = None
            frame = frame.f_back
        for name in filter(None, found):
            self._on_visit(time.monotonic(), HANDS_ON + name)

    def _name(self, path: str) -> str:
        if (name := self._names.get(path)) is None:
            name = self._names[path] = _own_name(path)
        return name


def _own_name(path: str) -> str:
    """Return the name of one of our files below the root, empty for any other file."""
    real = os.path.realpath(path)
    name = os.path.relpath(real, ROOT)
    return name if name.split(os.sep)[0] in PARTS else ""


def write_visits(folder: Path) -> None:
    """Write all visits of this process, and of those forked from it, to files in *folder*."""

    def write(now_s: float, name: str) -> None:
        # Opened for each visit: a forked process closes the descriptors that it has inherited.
        with contextlib.suppress(OSError):
            file = os.open(folder / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, f"{now_s} {name}\n".encode())
            os.close(file)

    Visits(write).start()
