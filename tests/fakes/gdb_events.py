"""A receiver of the events of one GDB."""

from __future__ import annotations

import asyncio
from typing import Any

from pgdb.backend.gdb.breakpoints import Breakpoints


class GdbEvents:
    """Keeper of the events that a GDB reports, which hands changes of breakpoints on."""

    def __init__(self) -> None:
        self.breakpoints: Breakpoints | None = None
        """Receiver of the notices, if there are breakpoints."""
        self.reported: list[tuple[Any, ...]] = []
        """Each event: its name, then the arguments with which it came."""
        self.stops: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        """Payloads of the stops, in the order in which they came."""
        self.ended = asyncio.Event()

    def on_stopped(self, payload: dict[str, Any]) -> None:
        self.reported.append(("stopped", payload))
        self.stops.put_nowait(payload)

    def on_running(self) -> None:
        self.reported.append(("running",))

    def on_run_failed(self, message: str) -> None:
        self.reported.append(("run failed", message))

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        self.reported.append(("notice", name, payload))
        if self.breakpoints is not None:
            self.breakpoints.on_notice(name, payload)

    def on_unreported_stop(self) -> None: ...

    def on_partly_stopped(self, thread: str) -> None: ...

    def on_output(self, text: str) -> None:
        self.reported.append(("output", text))

    def on_end(self, why: str) -> None:
        self.reported.append(("end", why))
        self.ended.set()
