"""Signals that a rank sends to itself and that end it: its death, as SIGABRT of ``abort`` is.

A launcher sends the same signals to the ranks that it ends, so that only the sender, which the
kernel names in siginfo_t, separates the two.
"""

from __future__ import annotations

import asyncio
import signal

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.jobs import procfs
from pgdb.patterns import pattern

ENDING = frozenset(
    {
        *("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGPIPE", "SIGUSR1", "SIGUSR2"),
        *("SIGXCPU", "SIGXFSZ", "SIGPWR"),
    }
)
"""Signals that end a process without a handler for them, and at which GDB stops; those after which
no rank continues are :data:`~pgdb.records.FATAL_SIGNALS`."""
_ASK = (
    'with language c -- printf "%ld %ld\\n", '
    "(long)$_siginfo.si_code, (long)$_siginfo._sifields._kill.si_pid"
)
_NUMBERS = pattern(r"(-?\d+) (-?\d+)\s*\Z")
# asm-generic/siginfo.h: by kill, sigqueue and tgkill, which raise calls; and write(2) for SIGPIPE.
_WITH_SENDER = (0, -1, -6)


async def ends_itself(gdb: GdbSession, name: str, pid: int) -> bool:
    """Return whether the process *pid* is about to die by a signal that it has sent to itself."""
    if name not in ENDING:
        return False
    found = _NUMBERS.search((await gdb.send(console(_ASK))).answer)
    if found is None:
        return False
    code, sender = map(int, found.groups())
    if code not in _WITH_SENDER:
        return False
    return await asyncio.to_thread(_is_deadly, signal.Signals[name], pid, sender)


def _is_deadly(number: int, pid: int, sender: int) -> bool:
    handled = procfs.handled_signals(pid)
    return sender == procfs.own_number(pid) and handled is not None and number not in handled
