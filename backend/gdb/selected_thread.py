"""The thread that GDB has selected: a live one as long as a stopped rank has any.

A thread that ends in the moment of a stop, as all others do when one executes a program, stays
selected. GDB 13.1 then refuses to set the rank running ("Cannot execute this command without a live
selected thread") and shows no stack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pgdb.backend.gdb.session import GdbSession

_REFUSED = "without a live selected thread"


class SelectedThread:
    """Chooser of a live thread where GDB's selected one has ended."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self.may_have_ended = False
        """Whether a thread has ended since :meth:`ensure`, or a stop was no thread's."""

    def on_notice(self, name: str) -> None:
        """Take a change that GDB reports."""
        self.may_have_ended |= name == "thread-exited"

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Take a stop: GDB names no thread if that of the stop has ended."""
        self.may_have_ended |= "thread-id" not in payload

    async def ensure(self) -> None:
        """Select a live thread of the stopped rank if the selected one may have ended.

        :raises GdbError: if GDB ends.
        """
        if self.may_have_ended:
            self.may_have_ended = False
            await self.select()

    async def select(self) -> bool:
        """Select a live thread unless one is selected; return whether that was necessary.

        :raises GdbError: if GDB ends.
        """
        listed = (await self._gdb.ask_together("-thread-list-ids")[0]).payload
        # A thread that has ended is not listed, and GDB names no current one then. A single
        # thread is a field of its own, several are a list.
        found = (listed.get("thread-ids") or {}).get("thread-id", ())
        live = [found] if isinstance(found, str) else [str(each) for each in found]
        if not live:
            return False
        if self._gdb.first_thread not in live:
            self._gdb.first_thread = min(live, key=int)
        if listed.get("current-thread-id") in live:
            return False
        await self._gdb.send(f"-thread-select {self._gdb.first_thread}")
        return True


async def restore(gdb: GdbSession, thread: str, frame: Mapping[str, Any]) -> None:
    """Select a thread and its frame again after questions about other threads.

    GDB 13.1 does so by itself, but does not guarantee it. While GDB looks at a GPU it names a
    thread of the host all the same, and to select that one would leave the GPU (cuda-gdb 13.0); so
    nothing is selected without need.

    :raises GdbError: if GDB ends.
    """
    now = await gdb.ask_together("-stack-info-frame")[0]
    if now.payload.get("frame") != frame:
        level = frame.get("level", 0)
        await asyncio.gather(
            gdb.send(f"-thread-select {thread}"), gdb.send(f"-stack-select-frame {level}")
        )


def is_refused(message: str) -> bool:
    """Return whether GDB has not begun a command because its selected thread has ended."""
    return _REFUSED in message
