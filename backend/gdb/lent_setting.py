"""A setting of the user's that GDB has with another value, for questions of PGDB's.

Each ``-gdb-set`` costs GDB and its reader about as much as a short question. So the value stays
until a command follows that may show it: steps and stacks in turn change it once.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Protocol

from pgdb.backend.gdb.mi import Result
from pgdb.patterns import pattern

# They print no values, or only those of a frame, in the same way at any "print max-depth". A
# "finish" prints the value that the function returns.
_SHOWS_NOTHING = pattern(
    r"-stack-(?:list-frames|info-frame|select-frame)\b|-thread-select \d+\Z|-gdb-show confirm\Z"
    r"|-exec-(?:continue|(?:step|next)(?:-instruction)?)\Z"
    r'|-interpreter-exec console "(?:frame \d+|handle SIG[A-Z]+ [a-z ]+)"\Z'
    r'|-interpreter-exec console "python ending_in_gdb\.[a-z_]+\(\)"\Z'
    r"|-target-(?:detach|attach \d+)\Z"
)


class Send(Protocol):
    """A way to send commands to a GDB in one write."""

    def __call__(self, *commands: str) -> list[asyncio.Future[Result]]:
        """Send commands; return their results."""


class LentSetting:
    """A changed setting, and the command that restores it."""

    def __init__(self, *, is_shown_unasked: bool = False) -> None:
        self.is_shown_unasked = is_shown_unasked
        """Whether GDB may show the setting by itself, as by commands of breakpoints: then it is
        restored at once."""
        self._restore = ""
        self._is_changed = False

    def begin_changed(self, restore: str) -> None:
        """Take the setting of a GDB that has been started with the changed value."""
        self._restore = restore
        self._is_changed = True

    def ask(
        self, send: Send, *commands: str, change: str, restore: str
    ) -> list[asyncio.Future[Result]]:
        """Send commands, the last one with a changed setting; return their results."""
        is_changed = self._is_changed and self._restore == restore
        *before, last = commands
        self._restore = ""  # *send* is not to restore it
        if self.is_shown_unasked:
            *results, _, asked, restored = send(*before, change, last, restore)
            restored.add_done_callback(functools.partial(repeat_if_interrupted, send, restore))
            return [*results, asked]
        if is_changed:
            results = send(*commands)
        else:
            *results, changed, asked = send(*before, change, last)
            changed.add_done_callback(self._note_failure)
            results.append(asked)
        self._restore = restore
        self._is_changed = True
        return results

    def take_back(self, commands: Sequence[str]) -> str:
        """Return the command to send before others, empty if the setting can stay changed."""
        if not self._restore:
            return ""
        if not self.is_shown_unasked and all(map(_SHOWS_NOTHING.match, commands)):
            return ""
        restore, self._restore = self._restore, ""
        return restore

    def _note_failure(self, done: asyncio.Future[Result]) -> None:
        # An interrupt of GDB's work has hit the command.
        if not done.cancelled() and done.exception() is None and done.result().kind == "error":
            self._is_changed = False


def repeat_if_interrupted(send: Send, command: str, done: asyncio.Future[Result]) -> None:
    """Send a command once more that an interrupt of GDB's work has hit."""
    if done.cancelled() or done.exception() is not None or done.result().kind != "error":
        return
    if done.result().message.startswith("Quit"):
        send(command)
