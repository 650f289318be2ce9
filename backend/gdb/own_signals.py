"""Signals that a rank sends to itself and that end it: its death, as SIGABRT of ``abort`` is.

A launcher sends the same signals to the ranks that it ends, so that only the sender, which the
kernel names in siginfo_t, separates the two.

A launcher sends them to the process. The kernel gives such a signal to any thread, such as one of
MPI's own, while ``raise`` names a thread.
"""

from __future__ import annotations

import asyncio
import re
import signal
from typing import NamedTuple

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
_HANDLING = pattern(r"^SIG\w+\s+(?:Yes|No)\s+(?:Yes|No)\s+(Yes|No)\b", re.M)
# asm-generic/siginfo.h: kill and sigqueue, which write(2) does as well for SIGPIPE; then tgkill,
# which raise calls.
_TO_PROCESS = (0, -1)
_WITH_SENDER = (*_TO_PROCESS, -6)


class Sent(NamedTuple):
    """The sender of a signal, as the kernel names it to the thread that got the signal."""

    code: int
    """``si_code``."""
    sender: int
    """The sender's process."""

    @property
    def is_to_process(self) -> bool:
        """Whether any thread of the process could have got the signal."""
        return self.code in _TO_PROCESS

    async def ends_itself(self, name: str, pid: int) -> bool:
        """Return whether process *pid*, which has sent the signal to itself, dies of it."""
        if self.code not in _WITH_SENDER:
            return False
        return await asyncio.to_thread(_is_deadly, signal.Signals[name], pid, self.sender)


async def sent(gdb: GdbSession) -> Sent | None:
    """Return the sender of the signal at which the selected thread has stopped, None if unknown."""
    found = _NUMBERS.search((await gdb.send(console(_ASK))).answer)
    return Sent(*map(int, found.groups())) if found is not None else None


async def is_passed(gdb: GdbSession, name: str) -> bool:
    """Return whether GDB passes a signal to the rank when that runs on.

    Without ``handle``, it keeps SIGINT and SIGTRAP to itself.
    """
    found = _HANDLING.search((await gdb.send(console(f"info signals {name}"))).answer)
    return found is None or found[1] == "Yes"


def _is_deadly(number: int, pid: int, sender: int) -> bool:
    handled = procfs.handled_signals(pid)
    return sender == procfs.own_number(pid) and handled is not None and number not in handled
