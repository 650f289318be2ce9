"""Discovery of a GDB that reads the commands sent to it as the input of another command.

``python input()``, ``shell cat``, or ``commands`` without an ``end`` read GDB's standard input,
which has PGDB's next commands. GDB carries out no command before the one before it, so a GDB that
sleeps, has read a question behind an unanswered command, and does not answer either, reads its
input. A SIGINT ends that mostly, as Ctrl-C does. Otherwise the GDB is given up.
"""

from __future__ import annotations

import asyncio
import fcntl
import termios
from typing import Protocol, cast

from pgdb.backend.gdb.mi import Result
from pgdb.jobs import procfs
from pgdb.records import READS_ITS_INPUT

LOOK_S = 1.0
"""Time between two looks at a command without an answer, in seconds."""
RECOVER_S = 3.0
"""Time that GDB has to answer after a SIGINT, in seconds."""
LOST = f"{READS_ITS_INPUT}; another GDB is needed, as 'reattach' gives the rank at the same place"
READS_INPUT = "it waits for input, which a command cannot have here; GDB was interrupted"
HAS_READ = "it reads input, which a command cannot have here: it has read a command of PGDB's"
EATEN = "GDB has read this command as the input of another one"


class Watched(Protocol):
    """The session with a GDB, as far as a watch needs it."""

    @property
    def pid(self) -> int:
        """Process id of the GDB."""

    @property
    def oldest_token(self) -> int | None:
        """Token of the oldest command without an answer; None if there is none, or if answers are
        there that were not taken yet."""

    @property
    def has_read_all(self) -> bool:
        """Whether GDB has read all that was sent to it."""

    def ask_in_between(self) -> asyncio.Future[Result]:
        """Ask GDB a question that changes nothing, not even the settings that PGDB has changed."""

    def interrupt_reader(self) -> None:
        """Interrupt GDB, whose oldest command reads input."""

    def stop_waiting(self, why: str) -> None:
        """Let all commands without a result fail."""


class InputWatch:
    """Watch over one GDB as long as a command has no answer."""

    def __init__(self, gdb: Watched) -> None:
        self._gdb = gdb
        self.is_lost = False
        """Whether GDB reads its input for good."""
        self._seen: int | None = None
        self._question: asyncio.Future[Result] | None = None
        self._work: tuple[int, bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._recovery: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch, for a command that was sent."""
        if self._timer is None and self._recovery is None and not self.is_lost:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        oldest = self._gdb.oldest_token
        if oldest is None:
            self._seen = self._question = self._work = None
            return
        if oldest != self._seen:
            self._seen, self._question, self._work = oldest, None, None
        elif self._question is None:
            self._question = self._gdb.ask_in_between()
        elif not self._question.done():
            work, status = procfs.work_done(self._gdb.pid), procfs.read_stat(self._gdb.pid)
            sleeps = status is not None and status.state == "S" and work == self._work
            if sleeps and self._gdb.has_read_all:
                self._recovery = asyncio.get_running_loop().create_task(self._recover())
                return
            self._work = work
        self.start()

    async def _recover(self) -> None:
        reader = self._seen
        self._gdb.interrupt_reader()
        answer = self._gdb.ask_in_between()
        await asyncio.wait((answer,), timeout=RECOVER_S)
        self._seen = self._question = self._work = self._recovery = None
        # The question can have been the input for which it waited.
        if self._gdb.oldest_token == reader:
            self.is_lost = True
            self._gdb.stop_waiting(LOST)
        else:
            self.start()


def has_read_all(transport: asyncio.BaseTransport | None, kind: str) -> bool:
    """Return whether the other end of a ``pipe`` or ``socket`` has read all that was written."""
    writer = cast("asyncio.WriteTransport | None", transport)
    if writer is None or writer.is_closing() or writer.get_write_buffer_size():
        return False
    descriptor = writer.get_extra_info(kind).fileno()
    for request in (termios.TIOCOUTQ, termios.FIONREAD):
        try:
            unread = fcntl.ioctl(descriptor, request, bytes(4))
        except OSError:  # a pipe knows the second one only
            continue
        return not any(unread)
    return False
