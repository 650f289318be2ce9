"""Stacks that end before the first function of their thread, with the reason of GDB."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.backend.gdb.python_calls import ask
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern
from pgdb.records import Record, Stack

_FIRST = frozenset(
    ("main", "_start", "clone", "clone3", "__clone", "__clone3", "start_thread", "thread_start")
)
"""Functions at the outer end of a stack that GDB has found whole."""
_ADDRESS = pattern(r" at address 0x[0-9a-f]+")
"""Part of a reason that differs from rank to rank."""


async def with_reason(gdb: GdbSession, record: Record) -> Record:
    """Return a stack with the reason why GDB finds no more frames, if something is wrong there.

    :raises GdbError: if GDB ends.
    """
    if not isinstance(record, Stack) or record.more or record.note or not record.frames:
        return record
    outermost = record.frames[-1]
    if outermost.function in _FIRST or outermost.language:
        return record
    reason = await ask(gdb, "stack_ends_in_gdb.reason", needed_for="knows it")
    if not isinstance(reason, str) or not reason:
        return record
    return replace(record, note=f"Backtrace stopped: {_ADDRESS.sub('', reason).rstrip('.')}")
