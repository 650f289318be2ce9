"""The program ``pgdb``: a session and one of its user interfaces. The only ``sys.exit``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdb import core_limit
from pgdb.controls import HarmlessFormatter, harmless
from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.api.exit_status import EXIT_FAILED, EXIT_OK, EXIT_START, EXIT_USAGE, Quit
from pgdb.frontend.api.notifications import Notification, RankEvents
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.display import StartProgress
from pgdb.frontend.show.text import render
from pgdb.frontend.startup.replay import replay
from pgdb.frontend.startup.restart import arguments_of, restart
from pgdb.frontend.startup.start import attach, launch
from pgdb.frontend.startup.stdio_relay import relay_pipes
from pgdb.frontend.store.settings import read_settings, settings_path
from pgdb.frontend.system import deadline
from pgdb.frontend.system.shielding import to_its_end
from pgdb.frontend.system.workers import beside, with_file
from pgdb.frontend.transport.recording import recording_of
from pgdb.frontend.ui.arguments import DEFAULT_SETTLE_S, parse
from pgdb.frontend.ui.batch import BatchText, JsonDisplay
from pgdb.frontend.ui.cli_jobs import choose_job, look
from pgdb.frontend.ui.job_input import JobInput
from pgdb.overlay.own_process import mark_own

if TYPE_CHECKING:
    from pgdb.frontend.commands.dispatch import Dispatcher
    from pgdb.frontend.commands.workspace import Workspace
    from pgdb.frontend.ui.repl import Repl

LOG = logging.getLogger(__name__)

_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing to a file; all files but the output have handlers of their own."""
SETTINGS_S = 5.0
"""Timeout for the settings file, in seconds; a hanging file system does not hold the prompt up."""


def run() -> None:
    """Run the program ``pgdb`` and exit."""
    mark_own()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # In a locale that is not UTF-8, an unknown character must not end the program.
            stream.reconfigure(errors="backslashreplace")
    # The output of pgdb run is the job's, which has a relay of its own.
    relays = () if sys.argv[1:2] == ["run"] else relay_pipes()
    try:
        status = main(sys.argv[1:])
    except SystemExit as leaving:  # --help, for one
        status = leaving.code if isinstance(leaving.code, int) else EXIT_OK
    except Exception:
        LOG.exception("a bug of PGDB's has ended it")
        status = 1
    try:
        sys.stdout.flush()
    except OSError as error:
        status = status or _say_lost(error)
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
        for each in relays:
            each.close()
    # Everything is closed; the shutdown of the interpreter would only cost time.
    os._exit(status)


def main(argv: Sequence[str]) -> int:
    """Run PGDB with a command line; return the exit status."""
    try:
        arguments = parse(argv)
    except UsageError as error:
        _complain(str(error))
        return EXIT_USAGE
    except OSError as error:  # of --help, for one
        if error.errno not in _OF_OUTPUT and not isinstance(error, BrokenPipeError):
            raise
        return _say_lost(error)
    _begin_logging(arguments.options)
    try:
        if arguments.mode == "report-bug":
            from pgdb.frontend.ui.bug_report import report_bug

            return asyncio.run(report_bug(arguments.target, arguments.output))
        if arguments.report is not None:
            from pgdb.frontend.ui import report_mode

            return asyncio.run(report_mode.run(arguments.report))
        if arguments.mode == "mpi-record":
            from pgdb.frontend.mpi_recorder.library import environment

            sys.stdout.write(f"{asyncio.run(environment(arguments.output, _complain))}\n")
            return EXIT_OK
        if arguments.run is not None:
            if arguments.run.needs_gdb:
                from pgdb.frontend.run.with_gdb import GdbRun

                return asyncio.run(GdbRun(arguments.run).run())
            from pgdb.frontend.run.supervisor import Supervisor

            return asyncio.run(Supervisor(arguments.run).run())
        if arguments.mode in ("jobs", "doctor"):
            return asyncio.run(look(arguments.mode, arguments.options, as_json=arguments.json))
        if arguments.mode != "replay":
            core_limit.leave_none()
        return asyncio.run(_Program(JobInput(arguments)).run())
    except PgdbError as error:
        _complain(str(error))
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
    except (KeyboardInterrupt, asyncio.CancelledError):
        _complain("interrupted")
        return EXIT_START
    except BrokenPipeError:
        # The reader of our output has left; the session was closed before this point.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        if error.errno not in _OF_OUTPUT:
            raise
        return _say_lost(error)


def _begin_logging(options: SessionOptions) -> None:
    level = logging.INFO if options.verbose else logging.ERROR
    _log_to_stderr(level)
    if options.log:
        # The log gets more than the terminal.
        for handler in logging.getLogger().handlers:
            handler.setLevel(level)
        logging.getLogger("pgdb").setLevel(logging.INFO)


class _Program:
    """One run of the program."""

    def __init__(self, job_input: JobInput) -> None:
        self._job_input = job_input
        self._arguments = arguments = job_input.arguments
        self._display: BatchText | JsonDisplay = (
            JsonDisplay(sys.stdout) if arguments.json else BatchText()
        )
        self._progress = StartProgress(sys.stderr, verbose=arguments.options.verbose)
        self._session: Session | None = None
        self._dispatcher: Dispatcher | None = None
        self._repl: Repl | None = None
        self._show_notification = self._display.notify
        self._early: list[Notification] = []
        self._job_code: int | None = None
        self._is_starting = True
        self._loading: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Start the session, serve the user, end the session; return the exit status."""
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Cancel only this task: the session needs its links while it closes.
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        time_keeper = asyncio.create_task(self._progress.keep_time())
        try:
            session = await self._start()
        except PgdbError as error:
            self._progress.end()
            if self._arguments.json:
                for notification in self._early:
                    self._display.notify(notification)
                self._display.error(error, "")
                status = EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
                assert isinstance(self._display, JsonDisplay)
                self._display.end(status)
            _complain(str(error))
            return EXIT_USAGE if isinstance(error, UsageError) else EXIT_START
        finally:
            time_keeper.cancel()
        self._session = session
        self._is_starting = False
        kill: bool | None = None
        try:
            kill = await self._serve(session)
        except Exception as error:
            if session.log is not None:
                session.log.failed(error)
            raise
        finally:
            try:
                session = self._session  # a restart has replaced it
                with contextlib.suppress(asyncio.CancelledError):
                    await to_its_end(session.close(kill=kill))
            finally:
                # After the session: ranks are not held while the history is written.
                if self._repl is not None:
                    await self._repl.close()
                if self._dispatcher is not None:
                    await self._dispatcher.close()
        if (leftover := session.leftover_output) is not None:
            sys.stderr.write(f"the job runs on; what it prints from now on goes to {leftover}\n")
        status = self._dispatcher.status if self._dispatcher is not None else EXIT_OK
        if self._arguments.exit_code == "job" and session.job is not None:
            # A launcher that PGDB has killed has a status too, which is never success.
            code = session.job.process.returncode if self._job_code is None else self._job_code
            if code is not None:
                status = code if code >= 0 else 128 - code
        if self._dispatcher is not None and self._dispatcher.chosen_status is not None:
            status = self._dispatcher.chosen_status
        if isinstance(self._display, JsonDisplay):
            self._display.end(status)
        return status

    async def _start(self) -> Session:
        arguments = self._arguments
        step = self._step
        if arguments.mode == "replay":
            return await replay(arguments.target, listener=self._notify)
        if arguments.mode == "core":
            # Other sessions need not load what finds core files.
            from pgdb.frontend.startup.open_cores import open_cores

            session = await open_cores(
                arguments.cores,
                arguments.options,
                executable=arguments.executable,
                from_systemd=arguments.from_systemd,
                hosts=arguments.core_hosts,
                on_step=step,
                listener=self._notify,
            )
        elif arguments.mode == "attach":
            target = arguments.target
            if not target and not arguments.pids:
                target = await choose_job(arguments.options, asks=not arguments.batch)
            session = await attach(
                target,
                arguments.options,
                pids=arguments.pids,
                on_step=step,
                listener=self._notify,
            )
        else:
            if self._job_input.note:
                step(f"note: {self._job_input.note}")
            stdin = await self._job_input.open(step)
            try:
                session = await launch(
                    arguments.line,
                    arguments.options,
                    stdin=stdin,
                    on_step=step,
                    listener=self._notify,
                )
            finally:
                if stdin is not None and stdin > 2:
                    os.close(stdin)
        self._progress.end()
        return session

    def _step(self, text: str) -> None:
        """Show a step of the start; the first one begins to load what serves the user.

        The launcher of the aggregators starts behind it, which takes longer.
        """
        self._progress.step(text)
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        """Import the commands, and the prompt where there is one."""
        interface = "script_run" if self._arguments.batch else "repl"
        names = ("analysis.why.hint", "commands.dispatch", f"ui.{interface}")

        def work() -> None:
            for name in names:
                importlib.import_module(f"pgdb.frontend.{name}")

        await beside(work, name="imports")

    async def _serve(self, session: Session) -> bool | None:
        arguments = self._arguments
        await (self._loading or self._load())
        from pgdb.frontend.commands.dispatch import Dispatcher
        from pgdb.frontend.commands.workspace import Workspace
        from pgdb.frontend.ui.script_run import complain_of_rest, run_script

        if arguments.batch:
            dispatcher = self._dispatcher = Dispatcher(
                Workspace(
                    session,
                    settle_s=arguments.settle_s,
                    run_timeout_s=arguments.run_timeout_s,
                ),
                self._display,
                read_line=arguments.script.read,
            )
            if isinstance(self._display, BatchText):
                self._display.interface = lambda: dispatcher.workspace.interface
            self._connect_recordings(session, dispatcher.workspace)
            dispatcher.apply(arguments.given)
            dispatcher.relaunch = self._restart
            dispatcher.program_arguments = self._program_arguments
            await self._introduce(session)
            self._display.flush()
            kill = await run_script(dispatcher, arguments.script)
            self._display.close()
            return kill
        # Batch mode does not need prompt_toolkit.
        from pgdb.frontend.ui.repl import Repl

        repl = self._repl = Repl(session, settle_s=arguments.settle_s or DEFAULT_SETTLE_S)
        self._dispatcher = repl.dispatcher
        repl.dispatcher.relaunch = self._restart
        repl.dispatcher.program_arguments = self._program_arguments
        self._show_notification = repl.notify
        self._connect_recordings(session, repl.dispatcher.workspace)
        await self._introduce(session)
        if not session.is_recorded:
            await self._use_kept_settings(session, repl.dispatcher)
        repl.display.flush()
        try:
            while (line := await arguments.script.read("")) is not None:
                try:
                    await repl.carry_out(line)
                except Quit as leaving:
                    await complain_of_rest(repl.dispatcher, arguments.script, leaving)
                    return leaving.kill
            kill = await repl.run()
        finally:
            repl.leave()
        session = repl.workspace.session
        kills = session.kills_at_close if kill is None else kill
        is_over = session.has_ended or session.job_has_ended or session.all_have_ended
        has_job = not session.is_recorded and session.mode != "core"
        if not is_over and has_job:
            repl.display.text("killing the job" if kills else "leaving the job running")
        return kill

    async def _program_arguments(self) -> tuple[str, ...]:
        """Return the arguments that the program has."""
        assert self._session is not None
        return await arguments_of(self._session)

    async def _restart(self, arguments: tuple[str, ...] | None) -> None:
        """End the job and launch it again, with new *arguments* of its program unless None.

        :raises PgdbError: if it cannot be launched; the session is over if it was ended before.
        """
        dispatcher = self._dispatcher
        assert self._session is not None and dispatcher is not None
        self._session.check_restart()
        dispatcher.display.flush()
        self._progress = StartProgress(sys.stderr, verbose=self._arguments.options.verbose)
        time_keeper = asyncio.create_task(self._progress.keep_time())
        session: Session | None = None
        self._is_starting = True
        stdin: int | None = None
        try:
            stdin = await self._job_input.open(self._progress.step)
            session = await restart(
                self._session, arguments, stdin=stdin, on_step=self._progress.step
            )
        finally:
            if stdin is not None and stdin > 2:
                os.close(stdin)
            self._is_starting = False
            time_keeper.cancel()
            self._progress.end()
            early, self._early = self._early, []
            if self._session.has_ended and session is None:
                for each in early:
                    self._show_notification(each)
        self._job_code = None
        self._session = session
        dispatcher.workspace.move_to(session)
        self._connect_recordings(session, dispatcher.workspace)
        self._early = early
        await self._introduce(session)

    def _connect_recordings(self, session: Session, workspace: Workspace) -> None:
        """Save the workspace in recordings; restore it from the recording that is open."""
        session.recorder.describe_workspace = lambda: workspace.state
        if (recording := recording_of(session.transport)) is not None:
            workspace.restore(recording.stored_workspace)

    async def _use_kept_settings(self, session: Session, dispatcher: Dispatcher) -> None:
        """Apply the settings file; settings of the command line precede it."""
        given = self._arguments.given
        dispatcher.apply(given)
        path = settings_path()
        try:
            with deadline.within(SETTINGS_S):
                dispatcher.apply(await with_file(path, lambda: read_settings(path)) | given)
            if not dispatcher.session.options.stop_on_report:
                await session.set_stop_on_report(False)
            if dispatcher.session.options.stop_before_death:
                await session.set_stop_before_death(True)
        except CommandError as error:
            session.note(str(error))

    async def _introduce(self, session: Session) -> None:
        if isinstance(self._display, JsonDisplay) and self._arguments.json:
            self._display.hello(session)
        else:
            line = render.job_line(
                session.set,
                session.hosts,
                aggregators=session.aggregators,
                fan_out=session.options.fan_out,
                gdb=session.gdb_version,
                mpi=session.mpi_version,
            )
            assert self._dispatcher is not None
            self._dispatcher.display.text(line)
        if (recording := recording_of(session.transport)) is not None:
            assert self._dispatcher is not None
            self._dispatcher.display.text(recording.describe())
        for notification in (*self._early, *session.opening.notifications()):
            self._show(notification)
        self._early.clear()
        answer = session.start_answer
        if answer is not None and (answer.errors or answer.missing):
            assert self._dispatcher is not None
            await self._dispatcher.show_start(answer)
        from pgdb.frontend.analysis.why.hint import hint

        is_attached = self._arguments.mode == "attach" and not self._arguments.json
        if is_attached and answer is not None and (text := hint(answer.classes)):
            assert self._dispatcher is not None
            self._dispatcher.display.flush()
            self._dispatcher.display.text(text)

    def _notify(self, notification: Notification) -> None:
        if notification.kind == "ended":
            self._job_code = notification.code
        if self._dispatcher is None or self._is_starting:
            if notification.kind == "output" and not self._arguments.json:
                self._progress.end()
                self._show_notification(notification)
            elif notification.kind in ("output", "notice", "lost", "joined", "late"):
                self._early.append(notification)
            else:
                self._progress.notify(notification)
            return
        self._show(notification)

    def _show(self, notification: Notification) -> None:
        # Core files show ranks that have died before the session: their death is no news.
        is_news = self._session is None or self._session.mode != "core"
        if is_news and self._dispatcher is not None and isinstance(notification, RankEvents):
            self._dispatcher.judge_events(notification.classes)
        if self._session is not None and self._session.has_ended and notification.kind != "output":
            return
        visible: Notification | None = notification
        if self._dispatcher is not None:
            visible = self._dispatcher.workspace.visibility.notification(notification)
        if visible is not None:
            self._show_notification(visible)


def _say_lost(error: OSError) -> int:
    """Say that the output is lost, unless its reader has left; return the exit status."""
    if isinstance(error, BrokenPipeError):
        return EXIT_OK
    _complain(f"the output cannot be written: {error.strerror}")
    return EXIT_FAILED


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # the exit status says it, too
        sys.stderr.write(f"pgdb: {harmless(text)}\n")
        sys.stderr.flush()


def _log_to_stderr(level: int) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(HarmlessFormatter("pgdb: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
