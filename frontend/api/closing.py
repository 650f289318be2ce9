"""The end of a session: the recording, the job, the transport, the files, in this order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Literal, Protocol

from pgdb.errors import CommandError, LinkError, PgdbError, SessionEndedError
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.notifications import JobEnded, JobOutput
from pgdb.frontend.api.run_control import RunControl
from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.store.saving import Written
from pgdb.frontend.system import deadline
from pgdb.overlay.messages import Kill

_LAST_WORDS_S = 2.0
"""Time for the ranks to report their ends after the launcher's own end."""
LAUNCHER_END_S = 5.0
_RECORD_S = 30.0
"""Longest time that the end of a session waits for its recording."""
_KILL_S = 5.0
_OUTPUT_S = 2.0

LOG = logging.getLogger(__name__)


class Process(Protocol):
    """A process that was started."""

    @property
    def returncode(self) -> int | None:
        """Exit status, None while the process runs."""
        ...

    async def wait(self) -> int:
        """Wait for its end; return the exit status."""
        ...


class Job(Protocol):
    """The launcher of a job that PGDB has started."""

    @property
    def process(self) -> Process:
        """The process of the launcher."""
        ...

    @property
    def pid(self) -> int:
        """The process id of the launcher."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        ...

    @property
    def takes_input(self) -> bool:
        """Whether :meth:`write` reaches the job."""
        ...

    def ancestors_of(self, pid: int) -> tuple[int, ...]:
        """Return the ancestors of a process up to the launcher; nothing if it is none of them."""
        ...

    def pause(self, pids: Sequence[int]) -> None:
        """Stop processes of the launcher."""
        ...

    def resume(self, pids: Sequence[int]) -> None:
        """Let them go on."""
        ...

    def reopen_input(self) -> int | None:
        """Open the file that is the job's input again; return None if it is no file."""
        ...

    def write(self, data: bytes) -> bool:
        """Send input; return whether the job accepts more."""
        ...

    def close_input(self) -> None:
        """End the input."""
        ...

    async def wait(self) -> int:
        """Wait for its end; return the exit status."""
        ...

    async def wait_output_read(self) -> None:
        """Wait until all output is read."""
        ...

    async def end(self) -> None:
        """End the job."""
        ...

    async def end_killed(self) -> None:
        """End the launcher, whose ranks are killed."""
        ...

    async def release_keeper(self) -> None:
        """End the keeper of the output."""
        ...

    def abandon(self) -> None:
        """Leave the job to its keeper."""
        ...


class Files(Protocol):
    """The files of a session."""

    @property
    def leftover_output(self) -> Path:
        """The file for the output of a job that outlives the session."""
        ...

    def remove(self) -> None:
        """Remove all files."""
        ...


class Ending:
    """End of a session, step by step."""

    def __init__(
        self,
        core: Core,
        traffic: Traffic,
        runs: RunControl,
        *,
        save: Callable[[str], Coroutine[None, None, Written]],
    ) -> None:
        self._core = core
        self._traffic = traffic
        self._runs = runs
        self._save = save
        self.job: Job | None = None
        self.files: Files | None = None
        self._job_watch: asyncio.Task[None] | None = None
        self._last: list[Coroutine[None, None, None]] = []

    @property
    def job_has_ended(self) -> bool:
        """Whether the launcher that PGDB has started has ended."""
        return self.job is not None and self.job.has_ended

    def add(self, work: Coroutine[None, None, None]) -> None:
        """Do *work* when the session closes."""
        self._last.append(work)

    # -- the job -----------------------------------------------------------------------------

    def watch_job(self, job: Job) -> None:
        """Report the end of the job's launcher."""
        self.job = job
        self._job_watch = asyncio.create_task(self._watch_job(job))

    def on_output(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Report output of the job."""
        text = data.decode("utf-8", "replace")
        self._core.notifier.notify(JobOutput(text=text, stream=stream, data=data))

    async def _watch_job(self, job: Job) -> None:
        core = self._core
        code = await job.process.wait()
        await job.wait_output_read()
        # The launcher has seen the ends of its ranks; the events of the ranks come first.
        with contextlib.suppress(SessionEndedError):
            await self._runs.wait_stopped("", core.state.running, timeout_s=_LAST_WORDS_S)
        core.notifier.notify(JobEnded(code=code))
        core.wake()

    # -- the end -----------------------------------------------------------------------------

    async def close(self, *, kill: bool) -> None:
        """End the session, and with *kill* the job; return when no process of ours is left."""
        core = self._core
        self._traffic.late_answers.flush()
        if core.autosave is not None and core.is_started:
            await self._record()
        # A rank that is still held must not run its program for a moment when it is released.
        if kill and self.job is not None and not core.is_started:
            await self.job.end()
        if self._job_watch is not None and core.is_started and not core.state.live:
            # All ranks have ended by themselves, and the launcher will, with a status of its own.
            await _within(LAUNCHER_END_S, asyncio.shield(self._job_watch))
            kill = kill and not self.job_has_ended
        # The launcher's report of killed ranks is no news.
        core.notifier.is_quiet = kill
        if kill and (own := core.state.live - core.guests):
            with contextlib.suppress(LinkError, CommandError):
                await self._traffic.ask("kill", Kill(), own, timeout_s=_KILL_S)
        core.is_over = True
        core.wake()
        # Nobody would end an aggregator that comes back now.
        await core.cancel_background(LAUNCHER_END_S)
        await core.transport.close()
        for work in self._last:
            await work
        if self._job_watch is not None:
            self._job_watch.cancel()
        if self.job is not None and not await self._end_job(self.job, kill=kill):
            return
        if self.files is not None:
            self.files.remove()

    async def _end_job(self, job: Job, *, kill: bool) -> bool:
        """End the launcher, or leave it to its keeper; return whether it has ended."""
        if kill:
            await job.end_killed()
        if not job.has_ended:
            # The job goes on without us; its keeper reads its output from now on.
            job.abandon()
            return False
        await _within(_OUTPUT_S, job.wait_output_read())
        await job.release_keeper()
        return True

    async def _record(self) -> None:
        """Write the whole recording of ``--record``."""
        core = self._core
        assert core.autosave is not None
        try:
            # Ranks are still held: a file system that hangs must not hold the end up.
            with deadline.within(_RECORD_S):
                async with asyncio.timeout(_RECORD_S):
                    await core.autosave.close()
                written = await self._save(core.options.record)
                core.note(f"recorded: {written.text}")
        except TimeoutError:
            core.note(f"--record: {core.options.record} is not done within {_RECORD_S:g} s")
        except PgdbError as error:
            if core.autosave.failure != (why := f"--record: {error}"):
                core.note(why)
        except Exception:
            # After any error, the ranks must be released.
            LOG.exception("the recording could not be written")


async def _within(
    timeout_s: float, work: asyncio.Future[None] | Coroutine[None, None, None]
) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await work
