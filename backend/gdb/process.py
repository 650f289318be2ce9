"""One GDB process: lines in, lines out, and how it ended.

GDB is ended by closing its input, never by a signal: at the end of its input it takes its
breakpoints out and detaches, while SIGTERM and SIGKILL leave breakpoint instructions in a rank
that runs (measured with GDB 13.1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from pgdb.errors import GdbError

LOG = logging.getLogger(__name__)

_LAST_WORDS_S = 0.5
"""How long to read on after the end of the process."""


class GdbProcess(asyncio.SubprocessProtocol):
    """A GDB that speaks MI on its standard input and output."""

    def __init__(self, on_line: Callable[[str], None], on_end: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._rest = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._ended = asyncio.Event()
        self._how = ""
        self._late: asyncio.TimerHandle | None = None
        self._is_finished = False

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        on_line: Callable[[str], None],
        on_end: Callable[[str], None],
    ) -> GdbProcess:
        """Start a GDB; *on_end* is told once, in words, how it ended.

        :raises GdbError: if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        try:
            _, process = await loop.subprocess_exec(
                lambda: cls(on_line, on_end),
                *argv,
                env=dict(environment),
                # Keys typed at a terminal of the aggregator's launcher are not for GDB.
                start_new_session=True,
                stderr=None,
            )
        except OSError as error:
            raise GdbError(f"cannot start {argv[0]}: {error.strerror or error}") from None
        return process

    @property
    def pid(self) -> int:
        """Process id of the GDB."""
        return self._transport.get_pid() if self._transport is not None else 0

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return not self._ended.is_set()

    def write(self, line: str) -> None:
        """Queue one line for GDB; one that has ended says so through *on_end*."""
        assert self._transport is not None
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if stdin is not None and not stdin.is_closing():
            stdin.write(line.encode() + b"\n")

    def close_input(self) -> None:
        """Let GDB take its breakpoints out, detach and end."""
        if self._transport is not None:
            stdin = self._transport.get_pipe_transport(0)
            if stdin is not None:
                stdin.close()

    def kill(self) -> None:
        """End GDB by SIGKILL; for one whose rank has ended."""
        if self._transport is not None and self.is_alive:
            self._transport.kill()

    async def wait_ended(self) -> None:
        """Wait until the process has ended."""
        await self._ended.wait()

    # asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the process runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio with what GDB wrote; hands whole lines on."""
        if self._rest:
            data = self._rest + data
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            self._on_line(line.decode("utf-8", "replace"))

    def process_exited(self) -> None:
        """Called by asyncio when the process has ended."""
        assert self._transport is not None
        code = self._transport.get_returncode() or 0
        self._how = f"was ended by signal {-code}" if code < 0 else f"ended ({code})"
        self._ended.set()
        # What it has written is still on its way; a child of GDB's can keep the pipe open.
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(_LAST_WORDS_S, self._finish)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Called by asyncio when a pipe has been read to its end, or is closed."""
        if fd == 1 and self._ended.is_set():
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the process has ended and all pipes are closed."""
        self._finish()

    def _finish(self) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._is_finished or not self._ended.is_set():
            return
        self._is_finished = True
        self._on_end(f"GDB {self._how}")
        if self._transport is not None:
            self._transport.close()
