"""Breakpoints that one run of a rank passes over: those of sets that the rank is not in.

A stop would end a ``step``, ``next``, ``finish``, ``until`` or ``advance``, and GDB does not go on
with what was left of it. So GDB has the breakpoints disabled during such a run. They count as
enabled for everybody else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.death_breakpoints import DeathBreakpoints
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.records import Breakpoint


class PassedBreakpoints:
    """Breakpoints of one GDB that are disabled for a run, and enabled at the stop."""

    def __init__(self, gdb: GdbSession, deaths: DeathBreakpoints) -> None:
        self._gdb = gdb
        self._deaths = deaths
        self._numbers: tuple[int, ...] = ()  # of the next run
        self._disabled: dict[int, int] = {}  # the hits until GDB disables them itself, or 0

    def take(self, numbers: Sequence[int]) -> None:
        """Note the breakpoints that the next run passes over."""
        self._numbers = tuple(numbers)

    def disable(self, there: Mapping[int, Breakpoint]) -> None:
        """Disable the breakpoints of the next run, as far as they are enabled."""
        numbers, self._numbers = self._numbers, ()
        for number in numbers:
            made = there.get(number)
            if made is not None and made.enabled and number not in self._disabled:
                self._disabled[number] = made.disable_after
                # GDB reports no change that its machine interface has made.
                self._gdb.send(f"-break-disable {number}")
                self._deaths.enabled(number, is_enabled=False)

    def enable(self) -> None:
        """Enable the breakpoints again: the rank has stopped, or has not run."""
        disabled, self._disabled = self._disabled, {}
        for number, count in disabled.items():
            with contextlib.suppress(GdbError):
                self._deaths.enabled(number, is_enabled=True)
                enabling = f"-break-enable {number}"
                self._gdb.send(console(f"enable count {count} {number}") if count else enabling)

    def leave(self, command: str, numbers: Iterable[str]) -> None:
        """Leave breakpoints as a command of the user's makes them: *numbers*, or all for none."""
        if command.startswith(("enable", "disable", "delete")):
            meant = {decode.whole_number(each) for each in numbers if "." not in each}
            for number in [each for each in self._disabled if not meant or each in meant]:
                del self._disabled[number]

    def forget(self, number: int | None = None) -> None:
        """Forget a breakpoint that is deleted, or all of them, which are gone with the process."""
        if number is None:
            self._disabled.clear()
        else:
            self._disabled.pop(number, None)

    def as_set(self, bkpt: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return GDB's description of a breakpoint as the user has set it."""
        if not self._disabled or decode.whole_number(bkpt.get("number", "0")) not in self._disabled:
            return bkpt
        return {**bkpt, "enabled": "y"}
