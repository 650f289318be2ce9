"""One conversation with one GDB: commands matched with results by token, the rest as events.

Driven by tokens alone: no prompt is waited for, nothing is polled. GDB carries commands out in
the order in which they come, so what it prints belongs to the oldest one without a result, and
to none when there is no such command.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pgdb.backend.gdb.mi import Result, cut
from pgdb.backend.gdb.process import GdbProcess
from pgdb.errors import GdbError

LOG = logging.getLogger(__name__)


class Listener(Protocol):
    """What a GDB tells unasked."""

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """The inferior has stopped or ended."""

    def on_running(self) -> None:
        """The inferior runs."""

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Something has changed: breakpoints, threads, libraries."""

    def on_output(self, text: str) -> None:
        """GDB printed something that belongs to no command."""

    def on_end(self, why: str) -> None:
        """GDB has ended; there are no further calls."""


@dataclass(frozen=True, slots=True)
class _Pending:
    future: asyncio.Future[Result]
    result: Result
    prints: bool


class GdbSession:
    """A running GDB and the commands that it has not answered yet."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._process: GdbProcess | None = None
        self._token = 0
        # In the order in which they were sent, which is the order of dicts.
        self._pending: dict[int, _Pending] = {}
        self._closing = False

    async def start(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the GDB.

        :raises GdbError: if it cannot be started.
        """
        self._process = await GdbProcess.start(
            argv, environment=environment, on_line=self._line, on_end=self._ended
        )

    @property
    def pid(self) -> int:
        """Process id of the GDB, 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_alive(self) -> bool:
        """Whether the GDB has been started and has not ended."""
        return self._process is not None and self._process.is_alive

    def send(self, command: str) -> asyncio.Future[Result]:
        """Send one MI command; its result comes through the future.

        The future raises :class:`~pgdb.errors.GdbError` if GDB ends first.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if self._process is None or not self._process.is_alive or self._closing:
            future.set_exception(GdbError("its GDB has ended"))
            future.exception()  # nobody may be waiting, which asyncio must not complain of
            return future
        self._token += 1
        # Only console commands print; what comes while an MI command is under way is unasked.
        prints = command.startswith("-interpreter-exec")
        self._pending[self._token] = _Pending(future, Result(kind="", payload={}), prints)
        self._process.write(f"{self._token}{command}")
        return future

    def close_input(self) -> None:
        """Let GDB detach and end in its own time."""
        self._closing = True
        if self._process is not None:
            self._process.close_input()

    def kill(self) -> None:
        """End GDB at once; only where there is no rank any longer, see :mod:`.process`."""
        self._closing = True
        if self._process is not None:
            self._process.kill()

    async def close(self, timeout_s: float) -> bool:
        """Close GDB's input, at which it detaches and ends; return whether it ended in time."""
        if self._process is None:
            return True
        self.close_input()
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait_ended()
        except TimeoutError:
            return False
        return True

    def _line(self, line: str) -> None:
        part = cut(line)
        if part.kind == "^":
            self._result(part.token, part.name, part.payload)
        elif part.kind == "*":
            if part.name == "stopped":
                self._listener.on_stopped(part.payload)
            elif part.name == "running":
                self._listener.on_running()
        elif part.kind == "=":
            if self._pending:
                self._oldest().notices.append((part.name, part.payload))
            self._listener.on_notice(part.name, part.payload)
        elif part.kind in ("~", "@"):
            oldest = next(iter(self._pending.values()), None)
            if oldest is not None and oldest.prints:
                oldest.result.text += part.text
            else:
                self._listener.on_output(part.text)
        elif part.kind == "&" and self._pending:
            self._oldest().log += part.text

    def _oldest(self) -> Result:
        return next(iter(self._pending.values())).result

    def _result(self, token: int | None, kind: str, payload: dict[str, Any]) -> None:
        entry = self._pending.pop(token, None) if token is not None else None
        if entry is None:
            LOG.warning("GDB %d answered a command that nobody sent: token %s", self.pid, token)
            return
        future, result = entry.future, entry.result
        result.kind, result.payload = kind, payload
        if not future.done():
            future.set_result(result)

    def _ended(self, why: str) -> None:
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            if not entry.future.done():
                entry.future.set_exception(GdbError(why))
                # Somebody who gave up waiting must not make asyncio complain of it.
                entry.future.exception()
        self._listener.on_end(why)
