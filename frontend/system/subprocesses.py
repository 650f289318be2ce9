"""Programs that the front end runs and talks with over pipes."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

LAST_WORDS_S = 2.0
"""How long output is read once its program has ended, if others hold on to the pipe."""
KILL_S = 3.0
"""How long a killed program is waited for: one that hangs in a file system does not end."""


class Program(asyncio.subprocess.Process):
    """A program; in its pipes it may have left somebody who never lets go of them.

    ssh leaves one that shares its connection, a launcher the ssh to a host that is down. asyncio's
    own would take it that such a program runs on, as would whoever waits for it, and keep our ends
    of the pipes open until the loop, long closed by then, is collected. Of this one they are closed
    once it has ended.
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
        """Start a program: *options* are those of :func:`asyncio.create_subprocess_exec`.

        A line that is read from it has at most *limit* bytes.

        :raises OSError: if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(limit, loop), *argv, **options
        )
        return cls(transport, protocol, loop)

    async def wait(self) -> int:
        """Return its exit status when it has ended, whoever holds its pipes."""
        await self._exited.wait()
        assert self.returncode is not None
        return self.returncode

    async def end(self) -> None:
        """Kill it if it still runs, and close our ends of its pipes."""
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
