"""The job's standard input: a file, PGDB's own standard input, or a pipe that the prompt feeds.

A standard input that is no terminal belongs to the job, as under the launcher without PGDB. The
prompt then reads the terminal of the session (``/dev/tty``).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from pgdb.errors import StartError, UsageError
from pgdb.frontend.api.options import SETTLE
from pgdb.frontend.system.workers import beside
from pgdb.frontend.ui.arguments import Arguments

NOTE_S = 1.0
"""Delay of the note that the start waits for ``--stdin``, in seconds."""
_OWN = 0
_TERMINAL = "/dev/tty"


class JobInput:
    """The input of the job that a command line launches."""

    def __init__(self, arguments: Arguments) -> None:
        """Find out who reads the standard input: the prompt or the job.

        :raises UsageError: if there is nothing that commands could come from.
        """
        self.arguments = arguments
        """The arguments; batch mode is implied where there is no terminal for a prompt."""
        self.note = ""
        """A fact about the input, for the user."""
        self._descriptor = _OWN
        self._begin: int | None = None
        if arguments.mode != "launch" or arguments.stdin not in ("", "-"):
            return
        if os.isatty(_OWN):
            return
        self.arguments = arguments = replace(arguments, stdin="-")
        if arguments.batch:
            return
        terminal = _open_terminal()
        if terminal is not None:
            self._descriptor = os.dup(_OWN)
            os.dup2(terminal, _OWN)
            os.close(terminal)
            return
        if not arguments.script.has_commands:
            raise UsageError(
                "standard input is not a terminal and there is no other one for the prompt; give "
                "the commands with -x FILE or -ex COMMAND, and the job's input as now or with "
                "--stdin FILE"
            )
        self.note = (
            "standard input is not a terminal: the job reads it, and the session ends after the "
            "commands of -x and -ex, as with --batch"
        )
        self.arguments = replace(
            arguments,
            batch=True,
            settle_s=arguments.given.values.get(SETTLE.key),
            run_timeout_s=arguments.options.timeout_s,
        )

    async def open(self, on_step: Callable[[str], None]) -> int | None:
        """Return the descriptor for the job's input, None for a pipe that the prompt feeds.

        :raises UsageError: if a file cannot be opened.
        :raises StartError: if a named pipe is not open by the deadline of the start.
        """
        wanted = self.arguments.stdin
        if wanted == "-":
            self._go_to_begin(on_step)
            # The caller closes any other, and a restart of the job needs it again.
            return _OWN if self._descriptor == _OWN else os.dup(self._descriptor)
        if wanted:
            return await _open(wanted, self.arguments.options.start_timeout_s, on_step)
        if self.arguments.batch:
            return os.open(os.devnull, os.O_RDONLY)
        return None

    def _go_to_begin(self, on_step: Callable[[str], None]) -> None:
        """Make a job that is launched again read the same input again, if that is a file."""
        is_first, begin = self._begin is None, self._begin
        with contextlib.suppress(OSError):
            if begin is not None and begin >= 0:
                os.lseek(self._descriptor, begin, os.SEEK_SET)
            self._begin = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            return
        self._begin = -1
        if not is_first:
            on_step("note: the job's input is no file; the job gets the part that is left of it")


def _open_terminal() -> int | None:
    """Return a descriptor of the session's terminal, None if there is none or nobody sees it."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.open(_TERMINAL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


async def _open(name: str, limit_s: float, on_step: Callable[[str], None]) -> int:
    """Open a file for the job's input; a named pipe waits for its writer, as in a shell.

    A pipe opened without waiting, before it has a writer, would be at its end for the job.

    :raises UsageError: if it cannot be opened.
    :raises StartError: if it is not open by the deadline of the start.
    """
    why = ""

    def open_it() -> int:
        nonlocal why
        if Path(name).is_fifo():
            why = ": no program has opened the named pipe for writing"
        return os.open(name, os.O_RDONLY)

    def note_wait() -> None:
        on_step(f"note: --stdin {name} is not open yet{why}")

    note = asyncio.get_running_loop().call_later(NOTE_S, note_wait)
    try:
        async with asyncio.timeout(limit_s) as limit:
            descriptor = await beside(open_it, name="stdin")
    except OSError as error:
        if limit.expired():
            raise StartError(
                f"--stdin {name} could not be opened within {limit_s:g} s{why}; "
                "--start-timeout gives it longer"
            ) from None
        raise UsageError(f"--stdin {name}: {error.strerror}") from None
    finally:
        note.cancel()
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"--stdin {name}: it is a directory")
    return descriptor
