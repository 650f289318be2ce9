"""PGDB's own breakpoints in one GDB, which use up no number of the user's.

They are made in GDB's Python (:mod:`.breakpoints_in_gdb`). In a GDB without it they are made by
commands and use up numbers; the numbers of the job's breakpoints then begin behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import IGNORE_INTERRUPT, INTERRUPT
from pgdb.errors import GdbError

_STOPS_AT_EXEC = (INTERRUPT.name, "SIGSTOP")


class OwnBreakpoints:
    """Maker of the breakpoints that lead one rank to its main."""

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._has_hidden = self._has_catchpoint = False

    async def stop_at_exec(self) -> None:
        """Stop each process of the GDB when it executes a program next.

        :raises GdbError: if GDB cannot do that, or ends.
        """
        if self._has_catchpoint:
            return
        result = await self._gdb.send(python("stop_at_exec"))
        if result.kind != "error":
            self._has_hidden = True
            return
        result = await self._gdb.send(console("catch exec"))
        if result.kind == "error":
            raise GdbError(result.message)
        self._has_catchpoint = True
        if self._has_hidden:
            # Both would stop at the same program.
            self._has_hidden = False
            await self._gdb.send(python("pass_exec"))

    async def still_stop_at_exec(self) -> None:
        """Handle the interrupt signal as :meth:`stop_at_exec` needs it, after another use of it."""
        command = IGNORE_INTERRUPT
        if self._has_hidden:
            command = f"handle {INTERRUPT.name} stop print nopass"
        await self._gdb.send(console(command))

    async def pass_exec(self) -> None:
        """End :meth:`stop_at_exec`, and delete all breakpoints of :meth:`stop_once` before."""
        if self._has_catchpoint:
            await self._gdb.send(console("delete"))
        await self._gdb.send(python("pass_exec"))

    def as_exec(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the payload of a stop; one at a program that was just executed says so."""
        if self._has_hidden and payload.get("signal-name") in _STOPS_AT_EXEC:
            names = ("reason", "signal-name", "signal-meaning")
            others = {name: value for name, value in payload.items() if name not in names}
            return {**others, "reason": "exec"}
        return {**payload}

    async def stop_once(self, place: str) -> bool:
        """Stop at a place once; return whether there is such a place.

        :raises GdbError: if GDB ends.
        """
        result = await self._gdb.send(python("stop_once", place))
        if result.kind == "error":
            # MI would report no number.
            command = f"with breakpoint pending off -- tbreak {place}"
            result = await self._gdb.send(console(command))
            return result.kind != "error"
        return bool(number_in(result))


def python(function: str, *arguments: str | bool) -> str:
    """Return the MI command that calls a function of :mod:`.breakpoints_in_gdb`."""
    return call(f"breakpoints_in_gdb.{function}", *arguments)


def number_in(result: Result) -> int:
    """Return the number that a function of :mod:`.breakpoints_in_gdb` has printed, else 0."""
    # GDB itself may have printed before that a breakpoint is pending.
    lines = [line for line in result.text.splitlines() if line.lstrip("-").isdecimal()]
    return int(lines[-1]) if lines else 0
