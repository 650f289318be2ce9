"""The state that the parts of a session share."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import Notifier, SessionNotice
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.passing import PassingRanks
from pgdb.frontend.api.settings_journal import SettingsJournal
from pgdb.frontend.api.traces import Traces
from pgdb.frontend.store.recorder import Recorder
from pgdb.frontend.store.saving import Autosave
from pgdb.frontend.system import deadline
from pgdb.frontend.transport.transport import Transport
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session
    from pgdb.frontend.store.log import SessionLog
    from pgdb.frontend.store.script_log import ScriptLog

T = TypeVar("T")


class Core:
    """The state of a session; its parts change it, and wake each other by :meth:`wake`."""

    def __init__(self, session: Session, options: SessionOptions, transport: Transport) -> None:
        self.options = options
        self.transport = transport
        self.table = ProcTable(processes=(), source="")
        self.state = JobState(RankSet())
        self.guests = RankSet()
        """Ranks of other jobs, which outlive a session that kills its own job."""
        self.notifier = Notifier()
        self.passing = PassingRanks(self)
        self.journal = BreakpointJournal()
        self.settings = SettingsJournal()
        self.traces = Traces()
        self.recorder = Recorder()
        self.autosave = Autosave(session, Path(options.record)) if options.record else None
        self.log: SessionLog | None = None
        self.script: ScriptLog | None = None
        self.can_restart = False
        """Whether PGDB can launch the job again."""
        self.is_over = False
        """Whether the session has ended."""
        self.before_wake: Callable[[], None] = lambda: None
        """Called before each :meth:`wake`."""
        self._changed = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()

    @property
    def is_started(self) -> bool:
        """Whether the ranks have been stopped at the start."""
        return self.notifier.is_released

    # -- changes -----------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake all that :meth:`wait_change`."""
        self.before_wake()
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_change(self, timeout_s: float | None = None) -> None:
        """Wait for the next :meth:`wake`, but not longer than *timeout_s*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    def note(self, text: str) -> None:
        """Send the user a notice about the session itself."""
        with contextlib.suppress(OSError):  # a terminal that is gone is no reason to fail
            self.notifier.notify(SessionNotice(text=text))

    def record_soon(self) -> None:
        """Update the file of ``--record`` soon."""
        if self.autosave is not None and self.is_started and not self.is_over:
            self.autosave.due()

    # -- background work ---------------------------------------------------------------------

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start *work*, which outlives the command that is in flight."""
        with deadline.unlimited():
            task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def ends_in_time(self, task: asyncio.Task[None]) -> bool:
        """Wait for *task* until the command's deadline; return whether it is complete.

        If the user gives the command up, the task goes on: half done, ranks would be out of reach
        of the next attempt.
        """
        left_s = deadline.left_s()
        await asyncio.wait([task], timeout=left_s if left_s < math.inf else None)
        if task.done():
            task.result()
        return task.done()

    async def cancel_background(self, timeout_s: float) -> None:
        """Cancel all background work, and wait *timeout_s* for its end."""
        others = [each for each in self._background if each is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=timeout_s)
