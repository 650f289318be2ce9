"""Supervision of a job without a debugger: wait for events, look at the ranks then, report."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb import core_limit
from pgdb.errors import PgdbError
from pgdb.frontend.report.model import Cause, Report
from pgdb.frontend.run import exit_status
from pgdb.frontend.run.causes import (
    RankEnd,
    cause_of,
    first_failure,
    last_words,
    left_before,
)
from pgdb.frontend.run.hang_watch import HangWatch
from pgdb.frontend.run.inspection import Looker
from pgdb.frontend.run.job_process import JobProcess
from pgdb.frontend.run.launching import prepare
from pgdb.frontend.run.left_cores import add_cores
from pgdb.frontend.run.occasions import Occasions
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.publishing import Publisher
from pgdb.frontend.run.rank_reports import RankReports
from pgdb.frontend.run.run_report import (
    RunRecord,
    cause_of_event,
    cause_of_found,
    cause_of_good_end,
    report_of,
    with_last_words,
    with_words_of_job,
)
from pgdb.jobs.launchers import Launcher
from pgdb.ranks import RankSet

SETTLE_S = 0.3
"""Time after a failure in which the other ranks' ends and the last output arrive."""
LEAVING_S = 10.0
"""Time between the end of the last rank and a word about a launcher that has not ended."""
START_S = 5.0
"""Longest wait for ranks that are starting, before a look at all ranks."""
_STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)
"""Signals by which batch systems announce the end."""
Kind = Literal["death", "hang", "time-limit", "request", "snapshot", "ended", "signal"]


class Trigger(msgspec.Struct, frozen=True):
    """An event to act on."""

    kind: Kind
    text: str = ""
    number: int = 0
    """Number of the signal."""


class Supervisor:
    """One run of a job."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._triggers: asyncio.Queue[Trigger] = asyncio.Queue()
        self._record = RunRecord(options.line)
        self._reports = RankReports("")
        self._job: JobProcess | None = None
        self._hang: asyncio.Task[None] | None = None
        self._cause: Cause | None = None
        """The first event that was acted on and is no failure of a rank: a hang, a limit."""
        self._has_died = False
        self._leaving: asyncio.Task[None] | None = None
        self._occasions = Occasions(
            options, self, lambda kind, text: self._put(Trigger(kind, text))
        )
        self._requests = 0
        """Number of reports on request, and of snapshots."""
        self._interrupted = False
        self._publisher = Publisher(options)
        self._launcher: Launcher | None = None
        self._launcher_ended_s = 0.0
        """Unix time of the end of the launcher."""

    async def run(self) -> int:
        """Run the job; return the exit status of ``pgdb run``.

        :raises PgdbError: if the job cannot be started.
        """
        await self._publisher.check()
        prepared = await prepare(self._options)
        self._record.mpi = prepared.mpi
        self._launcher = prepared.launcher
        self._record.notes += prepared.notes
        self._reports = prepared.reports
        self._reports.on_end = self._on_end
        try:
            # Their handlers run in the event loop: none is called before the job is known.
            self._handle_signals()
            self._job = JobProcess.start(prepared.argv)
            # Processes of ours hold a session's key; the job keeps the user's limit.
            core_limit.leave_none()
            return await self._supervise(self._job)
        finally:
            await prepared.close()

    async def _supervise(self, job: JobProcess) -> int:
        reports = self._reports
        looker = Looker(
            self._options,
            job.pid,
            lambda: reports.living,
            lambda: [each for each in reports.ends.values() if not each.world],
        )
        watch = HangWatch(
            self._options.hang_after_s,
            looker,
            self._record,
            lambda: max(job.last_output_s, reports.active_s),
            self._on_hang,
        )
        self._occasions.begin(self._wait_end(job))
        self._occasions.begin_timers()
        try:
            while True:
                if self._options.hang_after_s and (self._hang is None or self._hang.done()):
                    self._hang = asyncio.create_task(watch.run())
                trigger = await self._triggers.get()
                if trigger.kind == "ended":
                    break
                await self._act(trigger, job, looker)
        finally:
            if self._hang is not None:
                self._hang.cancel()
            await self._occasions.close()
            if self._hang is not None:
                await asyncio.gather(self._hang, return_exceptions=True)
        return await self._finish(job)

    # -- facts about the run, for the occasions ----------------------------------------------------

    def add_notice(self, text: str) -> None:
        """Add a notice to the time line."""
        self._record.add("notice", text)

    def add_note(self, text: str) -> None:
        """Add a fact that could not be found out."""
        self._record.note(text)

    def say(self, text: str) -> None:
        """Print a line for the user."""
        self._publisher.say(text)

    # -- events ------------------------------------------------------------------------------------

    def _handle_signals(self) -> None:
        def pass_on(act: Callable[[JobProcess], None]) -> None:
            if self._job is not None:
                act(self._job)

        loop = asyncio.get_running_loop()
        for number in _STOPPING:
            loop.add_signal_handler(number, pass_on, partial(self._on_stopping, number))
        self._occasions.watch_requests()
        loop.add_signal_handler(signal.SIGUSR2, pass_on, _send_usr2)
        loop.add_signal_handler(signal.SIGWINCH, pass_on, JobProcess.resize_terminals)
        loop.add_signal_handler(signal.SIGINT, pass_on, self._on_interrupt)

    def _on_interrupt(self, job: JobProcess) -> None:
        """Note a Ctrl-C; the terminal has sent it to the job's launcher, too."""
        self._interrupted = True
        self._record.add("signal", "SIGINT")
        self._reports.release()
        if not _is_foreground():
            job.send_signal(signal.SIGINT)

    def _on_stopping(self, number: signal.Signals, job: JobProcess) -> None:
        self._occasions.begin(self._announce(number, job))

    def _put(self, trigger: Trigger) -> None:
        self._triggers.put_nowait(trigger)

    def _on_end(self, end: RankEnd) -> None:
        # Behind a failure, such a signal is how the launcher ends the others.
        is_error = end.is_bad and not (self._has_died and end.is_from_outside)
        words = end.in_words
        if end.is_from_outside and self._record.ended_by:
            is_error = False
            words += f": {self._record.ended_by}"
            if not end.world:
                self._record.killed.add(end.rank)
        self._record.add("exit", words, str(end.rank), is_error=is_error)
        if end.is_bad and not self._has_died:
            self._has_died = True
            self._put(Trigger("death"))
        if self._reports.have_ended and self._leaving is None:
            self._leaving = asyncio.create_task(self._watch_leaving())
            self._occasions.begin(self._leaving)

    async def _watch_leaving(self) -> None:
        """End a launcher that outlives the ranks of a job that is to end; say so of others.

        Launchers wait until the output of all ranks is closed, MPICH's also until their connections
        to it are. A process that a rank has left behind inherits both. Open MPI's launcher can also
        stand still for ever behind a second SIGTERM.
        """
        await asyncio.sleep(LEAVING_S)
        job = self._job
        if job is None or job.status is not None:
            return
        text = f"all ranks have ended, but their launcher (process {job.pid}) has not"
        if self._record.ended_by:
            text += f" within {LEAVING_S:g} s: pgdb run ends it by SIGKILL"
            job.send_signal(signal.SIGKILL)
        else:
            text += (
                ": it waits for a process that a rank has left behind, such as a daemon, with the "
                "rank's output or connection, or it stands still"
            )
        self._record.note(text)
        self._publisher.say(text if self._record.ended_by else f"{text}; 'kill {job.pid}' ends it")

    async def _wait_end(self, job: JobProcess) -> None:
        status = await job.wait()
        self._launcher_ended_s = time.time()
        self._record.add("exit", f"the launcher ended with {exit_status.of_job(status)}")
        self._put(Trigger("ended"))

    def _on_hang(self, text: str, seen: Report) -> None:
        self._record.look = seen
        self._put(Trigger("hang", text))

    # -- reactions ---------------------------------------------------------------------------------

    async def _act(self, trigger: Trigger, job: JobProcess, looker: Looker) -> None:
        """Look at the ranks, write the reports, and go on as the options say."""
        if trigger.kind != "hang" and self._hang is not None:
            # One GDB at a time can be attached to a rank.
            self._hang.cancel()
            await asyncio.gather(self._hang, return_exceptions=True)
        if trigger.kind == "death":
            await self._on_death(job, looker)
            return
        if trigger.kind == "signal":
            await self._look(looker)
            await self._publisher.write(self._report(self._cause, job))
            self._record.ended_by = f"pgdb run has passed {trigger.text} on to the job"
            job.send_signal(trigger.number)
            return
        if trigger.kind in ("request", "snapshot"):
            await self._on_request(trigger, job, looker)
            return
        self._add_cause(trigger.kind, trigger.text)
        # Should this process be killed meanwhile, there is a report at least.
        await self._publisher.write(self._report(self._cause, job))
        if trigger.kind != "hang":
            await self._look(looker)
            await self._publisher.write(self._report(self._cause, job))
        await self._then(job)

    async def _on_request(self, trigger: Trigger, job: JobProcess, looker: Looker) -> None:
        self._record.add(trigger.kind, trigger.text)
        await self._look(looker)
        self._requests += 1
        ranks = str(self._all_ranks())
        cause = Cause(kind="request", what=trigger.text, who=ranks, severity="note")
        await self._publisher.write(self._report(cause, job), self._requests)
        self._occasions.written()

    async def _announce(self, number: signal.Signals, job: JobProcess) -> None:
        """Write what is known before a batch system's grace time is over, and let a look follow."""
        self._add_cause(
            "ended", f"{number.name} came to pgdb run: the batch system or the user ends the job"
        )
        await self._publisher.write(self._report(self._cause, job))
        self._put(Trigger("signal", number.name, number))

    def _add_cause(self, kind: str, what: str) -> None:
        """Add an event that is the cause, unless there is an earlier one."""
        cause = cause_of_event(kind, what, self._all_ranks(), self._reports.gone)
        self._record.add(kind, cause.what, is_error=True)
        if self._cause is None and not self._has_failed:
            self._cause = cause

    async def _on_death(self, job: JobProcess, looker: Looker) -> None:
        first = first_failure(list(self._reports.ends.values()))
        assert first is not None
        await asyncio.sleep(SETTLE_S)
        # The launcher knows of no death yet, and has said nothing.
        self._record.last_words = last_words(*self._reports.output_of(first, job.ends))
        await self._publisher.write(self._report(self._cause, job))
        bad = [each for each in self._reports.ends.values() if each.is_bad]
        # A launcher kills all ranks at once; the kernel that is out of memory kills one.
        is_alone = len(bad) == 1 and first.signal == signal.SIGKILL
        if self._reports.living and (is_alone or not first.is_from_outside):
            await self._look(looker)
        elif self._reports.living and self._cause is None:
            self._record.note("the stacks of the others: their launcher was ending them already")
        await self._publisher.write(self._report(self._cause, job))
        if self._options.then == "hold" and self._reports.living and job.status is None:
            self._say_held(job)
            return
        # A rank that the job's end kills is no further reason to end it.
        if self._options.then == "kill" and not self._record.ended_by:
            await self._kill(job)
        self._reports.release()

    async def _kill(self, job: JobProcess) -> None:
        self._record.ended_by = "pgdb run has ended the job (--then kill)"
        self._record.add("action", "the job is ended (--then kill)")
        self._reports.release()
        await job.end()

    async def _then(self, job: JobProcess) -> None:
        if self._options.then == "kill":
            await self._kill(job)
        elif self._options.then == "hold":
            self._say_held(job)

    def _say_held(self, job: JobProcess) -> None:
        host = os.uname().nodename
        text = (
            f"the job waits: 'pgdb attach {job.pid}' on {host} debugs it; 'kill -INT {job.pid}' "
            "ends it"
        )
        self._record.add("action", text)
        self._publisher.say(text)

    async def _look(self, looker: Looker) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._reports.started.wait()
        try:
            self._record.look = await looker.report()
        except PgdbError as error:
            self._record.note(f"the stacks of running ranks: {error}")

    @property
    def _has_failed(self) -> bool:
        """Whether a rank has failed, by itself or because it was killed."""
        first = first_failure(list(self._reports.ends.values()))
        return first is not None and not first.is_by_request

    # -- reports -----------------------------------------------------------------------------------

    def _all_ranks(self) -> RankSet:
        return RankSet(each.rank for each in self._reports.starts.values() if not each.world)

    def _report(self, cause: Cause | None, job: JobProcess) -> Report:
        """Return the report as it is now; the cause is a failure of a rank if none is given."""
        if cause is None:
            killed = self._record.killed
            # PGDB has ended these: that is no part of the failure.
            ends = [e for e in self._reports.ends.values() if e.world or e.rank not in killed]
            pids = {each.pid: each.rank for each in self._reports.starts.values()}
            found = cause_of(
                ends,
                job.text,
                pids,
                has_failed=bool(job.status),
                outputs=self._reports.outputs,
            )
            cause = cause_of_found(found) if found is not None else self._cause_without_failure(job)
            cause = with_last_words(cause, self._record.last_words, job.ends)
        else:
            cause = with_words_of_job(cause, job.text)
        return report_of(
            self._record,
            cause,
            starts=self._reports.starts.values(),
            ends=self._reports.ends.values(),
            rings=job.named_rings,
            status=job.status,
            tails=self._reports.tails,
        )

    def _cause_without_failure(self, job: JobProcess) -> Cause:
        ranks = str(self._all_ranks())
        if job.status is None:
            return Cause(kind="none", what="the job is running", who=ranks, severity="note")
        if job.status == 0:
            return cause_of_good_end(ranks, job.text)
        status = exit_status.of_job(job.status)
        what = f"the launcher ended with status {status}"
        gone = self._reports.gone
        if gone and self._all_ranks() - gone:
            if left := left_before(
                list(self._reports.ends.values()), self._launcher_ended_s, job.text
            ):
                return cause_of_found(left)
            what += f"; [{gone}] had ended with status 0 before the others"
        return Cause(kind="lost", what=what, who=ranks)

    async def _finish(self, job: JobProcess) -> int:
        """Write the last report; return the exit status."""
        self._reports.release()
        assert job.status is not None
        if await job.wait_output_passed_on():
            self._record.note(
                "a process that has left the job keeps its output open; it is passed on further"
            )
        cause = self._final_cause(job)
        ends = [each for each in self._reports.ends.values() if each.has_core]
        await add_cores(self._record, ends, self._options, self._launcher)
        self._note_lost_output(job)
        report = self._report(cause, job)
        is_event = report.cause.kind != "none"
        await self._publisher.write(report)
        self._publisher.conclude(report, is_event=is_event)
        if self._options.exit_code == "job":
            return exit_status.of_job(job.status)
        return exit_status.of_report(report.cause.kind, ended_well=self._has_ended_well(job))

    def _final_cause(self, job: JobProcess) -> Cause | None:
        """Return the cause that precedes the ends of ranks, if there is one."""
        cause = self._cause
        if cause is None and self._interrupted:
            return Cause(kind="ended", what="SIGINT ended the job", who=str(self._all_ranks()))
        left = next((stream for stream, ring in job.named_rings if ring.has_lost_reader), "")
        first = first_failure(list(self._reports.ends.values()))
        is_of_output = first is None or first.is_by_request or first.signal == signal.SIGPIPE
        if cause is None and left and job.status and is_of_output:
            what = f"the reader of the job's {left} has left (SIGPIPE)"
            return Cause(kind="ended", what=what, who=str(self._all_ranks()))
        if cause is not None and cause.kind != "ended" and self._has_ended_well(job):
            return replace(cause, what=f"{cause.what}; the job ended well later")
        return cause

    def _has_ended_well(self, job: JobProcess) -> bool:
        # hydra's launcher can leave with 0 when a signal has ended it.
        is_ended = self._record.ended_by or any(each.is_bad for each in self._reports.ends.values())
        return job.status == 0 and not is_ended

    def _note_lost_output(self, job: JobProcess) -> None:
        for stream, ring in job.named_rings:
            if ring.lost:
                text = f"{ring.lost} bytes of {stream} are lost: {os.strerror(ring.error)}"
                self._record.note(text)
                self._publisher.say(text)


def _send_usr2(job: JobProcess) -> None:
    job.send_signal(signal.SIGUSR2)


def _is_foreground() -> bool:
    """Return whether a terminal sends its Ctrl-C to our process group."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        finally:
            os.close(terminal)
    return False
