"""Programs that the front end runs, with pipes to them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

LAST_WORDS_S = 2.0
"""Maximum time for reading output after the program's end, in seconds, while others hold the pipe.
"""
KILL_S = 3.0
"""Maximum wait for a killed program, in seconds; one that hangs in a file system does not end."""


class Program(asyncio.subprocess.Process):
    """A program; a process that outlives it may have inherited its pipes.

    ssh leaves a process that shares its connection; a launcher leaves the ssh to a host that is
    down. asyncio's own class would treat such a program as running, and would keep PGDB's ends of
    the pipes open until the event loop, closed long before, is collected. This class closes the
    pipes after the program's end.
    """

    def __init__(
        self,
        transport: asyncio.SubprocessTransport,
        protocol: _Protocol,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(transport, protocol, loop)
        self._pipes = transport
        self._exited = protocol.exited

    @classmethod
    async def start(cls, *argv: str, limit: int = 65536, **options: Any) -> Program:
        """Start a program; *options* are those of :func:`asyncio.create_subprocess_exec`.

        *limit* is the maximum length of a line read from it, in bytes.

        :raises OSError: if the program cannot be started.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(limit, loop), *argv, **options
        )
        return cls(transport, protocol, loop)

    async def wait(self) -> int:
        """Return the exit status after the end, even if another process holds the pipes."""
        await self._exited.wait()
        assert self.returncode is not None
        return self.returncode

    async def end(self) -> None:
        """Kill the program if it still runs, and close PGDB's ends of its pipes."""
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_S):
                    await self.wait()
        finally:
            self._pipes.close()


class _Protocol(asyncio.subprocess.SubprocessStreamProtocol):
    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=limit, loop=loop)
        self.exited = asyncio.Event()
        self._loop = loop
        self._pipes: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pipes = transport

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        if self._pipes is not None:
            self._loop.call_later(LAST_WORDS_S, self._pipes.close)
