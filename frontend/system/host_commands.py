"""Commands of the user's shell, on the host of the front end and at its terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.system.subprocesses import Program


class HostResult(msgspec.Struct, frozen=True):
    """The end of a command."""

    code: int | None
    """Exit status; None if a signal has ended the command."""
    signal: int | None
    """The signal that has ended it."""
    output: bytes = b""
    """Output, if that was captured."""


async def run_in_shell(
    command: str, directory: Path, *, given: bytes | None = None, is_captured: bool = False
) -> HostResult:
    """Run a command with the user's shell in *directory*, or the shell itself for an empty one.

    *given* is its input; without it, it has PGDB's own if that is a terminal, else none.
    With *is_captured*, its output is part of the result; its errors are too.

    :raises CommandError: if there is no such shell, or the directory is gone.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    argv = (shell, "-c", command) if command else (shell,)
    if given is not None:
        stdin: int | None = asyncio.subprocess.PIPE
    else:
        stdin = None if os.isatty(0) else asyncio.subprocess.DEVNULL
    captured = asyncio.subprocess.PIPE if is_captured else None
    with _terminal_restored():
        try:
            program = await Program.start(
                *argv,
                cwd=directory,
                stdin=stdin,
                stdout=captured,
                stderr=asyncio.subprocess.STDOUT if is_captured else None,
            )
        except OSError as error:
            where = f" in {directory}" if str(error.filename) == str(directory) else ""
            raise CommandError(f"{shell} cannot be started{where}: {error.strerror}") from None
        try:
            if given is None and not is_captured:
                output, _ = None, await program.wait()
            else:
                output, _ = await program.communicate(given)
                await program.wait()
        except asyncio.CancelledError:
            await program.end()
            raise
    code = program.returncode
    assert code is not None
    result = HostResult(
        code if code >= 0 else None, -code if code < 0 else None, output=output or b""
    )
    return result


@contextlib.contextmanager
def _terminal_restored() -> Iterator[None]:
    """Take the terminal back afterwards, with its modes, from a program that was killed."""
    try:
        modes = termios.tcgetattr(0)
        group = os.tcgetpgrp(0)
    except (OSError, termios.error):
        yield
        return
    try:
        yield
    finally:
        # A process of the background that changes the terminal gets SIGTTOU.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
        try:
            with contextlib.suppress(OSError, termios.error):
                if os.tcgetpgrp(0) != group:
                    os.tcsetpgrp(0, group)
                termios.tcsetattr(0, termios.TCSADRAIN, modes)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Leave Ctrl-C to the command that runs; a handler, unlike SIG_IGN, is not inherited."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
