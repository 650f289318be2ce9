"""Refusal of run commands that GDB carries out at a barrier; runs inside GDB, in its Python (3.7 or
later).

The commands of a breakpoint, and ``hook-stop``, run in GDB before PGDB has the stop. A ``continue``
among them would take the rank past a barrier at the same place.
"""

from __future__ import annotations

import sys
from typing import Any

import gdb

_RUNS = (
    *("advance", "continue", "finish", "jump", "next", "nexti", "signal", "step", "stepi", "until"),
    *("reverse-continue", "reverse-finish", "reverse-next", "reverse-nexti"),
    *("reverse-step", "reverse-stepi"),
)

_hits: dict[int, int] = {}
"""The hits of each barrier as last seen, by its number."""
_at = 0
"""The barrier at which the process stands, 0 if it is at none, or PGDB carries out a command."""
_is_new = False
"""Whether the hit belongs to a stop that GDB has not announced yet."""


class _Stay(gdb.Command):  # type: ignore[misc]
    """Command that raises an error at a barrier."""

    def __init__(self) -> None:
        """Register the command as ``_pgdb_stay``."""
        super().__init__("_pgdb_stay", gdb.COMMAND_NONE)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """Raise the error, which ends the command that is *argument*.

        :raises gdb.GdbError: with the barrier.
        """
        del from_tty
        if _at:
            raise gdb.GdbError(f"'{argument}' has no effect: barrier {_at} holds the rank")


def hold_at(number: int) -> None:
    """Let no commands of breakpoints set the process running that has stopped at this breakpoint.

    GDB resolves aliases and abbreviations before it looks for a hook. A hook's ``if`` would read
    its text in the language of the program, in which a text may have other quotes (Fortran).
    """
    is_first = not _hits
    made = [each.hit_count for each in gdb.breakpoints() if each.number == number]
    _hits[number] = made[0] if made else 0
    if not is_first:
        return
    try:
        _Stay()
        for word in filter(_is_free, _RUNS):
            gdb.execute(f"define hook-{word}\n_pgdb_stay {word}\nend", False, True)
            gdb.execute(f"document hook-{word}\n_pgdb_guard\nend", False, True)
        gdb.events.breakpoint_modified.connect(_on_modified)
        gdb.events.stop.connect(_on_stop)
    except Exception as error:  # noqa: BLE001  # without hooks all else works
        sys.stderr.write(f"pgdb: commands can take the rank past a barrier: {error}\n")


def pass_on() -> None:
    """Let a command run the process: PGDB has judged whether it may."""
    global _at
    _at = 0


def _is_free(word: str) -> bool:
    """Return whether the user has no hook of a command."""
    try:
        gdb.execute(f"show user hook-{word}", False, True)
    except gdb.error:
        return True
    return False


def _on_modified(breakpoint: Any) -> None:
    """Note a hit. GDB counts it before it carries out anything for the stop."""
    global _at, _is_new
    if (before := _hits.get(breakpoint.number)) is not None:
        count = _hits[breakpoint.number] = breakpoint.hit_count
        if count > before:
            _at, _is_new = breakpoint.number, True


def _on_stop(event: Any) -> None:
    """Forget the barrier of an earlier stop."""
    global _at, _is_new
    del event
    if not _is_new:
        _at = 0
    _is_new = False
