"""Launch a job again: the same line, with the breakpoints and settings of its session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace

from pgdb.errors import UsageError
from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.api.closing import Job
from pgdb.frontend.api.notifications import Listener, Notification
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.logged_start import OnStep, logged
from pgdb.frontend.startup.start import launch_job
from pgdb.frontend.store.script_calls import JOB, call_text
from pgdb.frontend.system import deadline
from pgdb.frontend.system.shielding import to_its_end
from pgdb.frontend.transport.overlay_transport import OverlayTransport
from pgdb.jobs.launch_lines import LaunchLine, check_program, given_words
from pgdb.jobs.launcher_kinds import read_launch_line
from pgdb.ranks import RankSet


@checks_call
async def restart(
    session: Session,
    arguments: Sequence[str | os.PathLike[str]] | None = None,
    *,
    stdin: int | None = None,
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """End the job of a session that was launched, and launch its line again; return the session.

    All ranks are stopped in ``main``. The new session has the breakpoints of *session* with their
    numbers, its named sets, its options, and the settings and displays of its GDBs; notices name
    those that cannot be set. *arguments* replace the arguments of the program. *stdin* is as for
    :func:`launch`; without it, a file that was the job's input is read from its start again. The
    listeners of *session* get the notifications, and *listener* as well.

    *session* is over then. If the launch fails, it can be restarted again.

    :raises UsageError: if PGDB did not launch the job, or the line cannot be read; the job goes on.
    :raises CommandError: if ranks were detached and run on.
    :raises StartError: if the job cannot be started; the earlier one has ended.
    """
    session.check_restart()
    job = session.job
    new_words = None if arguments is None else given_words(arguments, "list of arguments")
    line = await asyncio.to_thread(read_launch_line, session.argv, session.options.launcher)
    argv = session.argv if new_words is None else with_arguments(line, new_words)
    for program in line.programs:
        check_program(program, os.environ.get("PATH", os.defpath))
    if stdin is None and job is not None and not job.takes_input:
        reopened = await asyncio.to_thread(_reopened, job)
        try:
            return await restart(
                session, new_words, stdin=reopened, on_step=on_step, listener=listener
            )
        finally:
            os.close(reopened)
    heard = session.notify_listeners
    script, session.script_log = session.script_log, None
    if not session.has_ended:
        await session.recovery.keep_variables()
        await to_its_end(session.close(kill=True))
    assert isinstance(session.transport, OverlayTransport)
    last_request = session.transport.overlay.root.last_id

    def notify(notification: Notification) -> None:
        heard(notification)
        if listener is not None:
            listener(notification)

    # Its breakpoint is among those that are set again, with its number.
    options = replace(session.options, stop_before_death=False, script_log="")

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await launch_job(argv, options, stdin, on_step, listener, last_request=last_request)

    with deadline.unlimited():
        new = await logged(begin, "launch", options, on_step=on_step, listener=notify, argv=argv)
        try:
            await new.take_over(session)
            new.earlier_requests = last_request
            new.options = session.options
            if new.options.stop_before_death:
                await new.set_stop_before_death(True)
            if script is not None:
                words = [] if new_words is None else [list(new_words)]
                with script.call(f"{JOB}.{call_text('restart', *words)}", RankSet()):
                    new.script_log = script
        except BaseException:
            await to_its_end(new.close())
            raise
    return new


def with_arguments(line: LaunchLine, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a launcher's line with other *arguments* of its program.

    :raises UsageError: if the line has several programs.
    """
    return (*line.argv[: _last(line) + 1], *arguments)


async def arguments_of(session: Session) -> tuple[str, ...]:
    """Return the arguments that the program of a launched job has.

    :raises UsageError: if PGDB did not launch the job, or the line has several programs.
    """
    session.check_restart()
    line = await asyncio.to_thread(read_launch_line, session.argv, session.options.launcher)
    return tuple(line.argv[_last(line) + 1 :])


def _last(line: LaunchLine) -> int:
    """Return the index of the program in a line that has one."""
    if len(line.programs) > 1:
        raise UsageError(
            f"the line has {len(line.programs)} programs; new arguments need a new launch: leave "
            "and use 'pgdb launch', with 'save breakpoints FILE' before and 'source FILE' after"
        )
    return line.programs[0].index


def _reopened(job: Job) -> int:
    """Open the file that was the input of *job* again.

    :raises UsageError: if it is no file, or cannot be opened.
    """
    try:
        descriptor = job.reopen_input()
    except OSError as error:
        raise UsageError(f"the job's input {error.filename}: {error.strerror}") from None
    if descriptor is None:
        raise UsageError("the job's input is no file that can be read again; restart with stdin=")
    return descriptor
