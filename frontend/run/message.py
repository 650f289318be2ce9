"""A message in a job's output by which a library reports the failure of a rank. No I/O."""

from __future__ import annotations

import os

import msgspec

PREFIX = r"(?:\[[^\[\]\n]*\]\s*)?(?:<std\w+>:?\s*)?"
"""Words that launchers put before a line: Open MPI's --tag-output, hydra's -l, srun's -l."""


class Message(msgspec.Struct, frozen=True):
    """A message by which a library reports the failure of a rank."""

    kind: str
    """``abort``, ``assertion``, ``exception``, ``runtime-error`` or ``sanitizer``."""
    text: str
    at: int
    """Offset in the output."""
    file: str = ""
    line: int = 0
    function: str = ""
    rank: int | None = None
    pid: int | None = None
    is_of_signal: bool = False
    """Whether a handler of a signal has written it: the rank can die of that signal afterwards."""

    @property
    def where(self) -> str:
        """The place in one line, empty if the message does not name one."""
        place = f"{os.path.basename(self.file)}:{self.line}" if self.file else ""
        if self.function and place:
            return f"{self.function} at {place}"
        return place or self.function
