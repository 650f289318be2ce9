"""The session for programs without an event loop: each call returns when it is complete.

A session has a thread of its own, in which its event loop runs from :func:`attach` or
:func:`launch` to :meth:`Session.close`. The thread runs every call, and the caller waits for it.
Any thread may call; an error in the session's thread is raised in the caller.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack, runtime_checkable

from pgdb.controls import OutputFilter
from pgdb.errors import SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import session as aio
from pgdb.frontend.api import setting_changes
from pgdb.frontend.api.argument_types import checks_arguments, checks_call
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.notifications import Listener, Notification
from pgdb.frontend.api.option_names import options_for
from pgdb.frontend.api.sync_generated import Options, SessionCalls
from pgdb.frontend.api.sync_generated import Ranks as Ranks
from pgdb.frontend.startup import replay as recording
from pgdb.frontend.startup import start
from pgdb.frontend.startup.job import StreamName
from pgdb.frontend.startup.restart import restart
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.report.model import Report

OnOutput = Callable[[StreamName, bytes], None]
OnEvent = Callable[[Notification], None]
OnStep = Callable[[str], None]


@runtime_checkable
class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...


@checks_call
def attach(
    target: int | str,
    *,
    pids: Sequence[str] = (),
    ranks: str | RankSet | None = None,
    on_event: OnEvent | None = None,
    on_step: OnStep | None = None,
    **options: Unpack[Options],
) -> Session:
    """Attach to a running job; all its ranks, or *ranks*, are stopped.

    *target* is the process id of its launcher or of a rank, or ``JOB[.STEP]`` of Slurm. If *pids*
    names the ranks, as ``PID`` or ``HOST:PID``, *target* is ignored. *on_event* gets each
    notification, *on_step* each step of the start; the session's thread calls both (see
    :meth:`Session.subscribe`).

    :raises UsageError: if an argument is of another type, an option is unknown, or it has no such
        value.
    :raises StartError: if its ranks are not found, or none of them can be attached to; the job
        continues.
    """
    if isinstance(ranks, str):
        ranks = None if ranks.strip() == "all" else RankSet.parse(ranks)
    chosen = options_for(attach, options, ranks)

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return start.attach(
            target, chosen, pids=pids, on_step=on_step or _ignore, listener=listener
        )

    return _open(begin, on_output=_PassOn(), on_event=on_event)


@checks_call
def launch(
    argv: Sequence[str | os.PathLike[str]],
    *,
    stdin: int | HasDescriptor | None = None,
    on_output: OnOutput | None = None,
    on_event: OnEvent | None = None,
    on_step: OnStep | None = None,
    **options: Unpack[Options],
) -> Session:
    """Launch a job under the debugger and stop all its ranks in ``main``.

    *argv* is the launcher's whole line, such as ``["mpirun", "-n", "4", "./ring"]``. The job's
    input is the file or descriptor *stdin*, or the data of :meth:`Session.write_input`. Its output
    goes to ``sys.stdout`` and ``sys.stderr``, or to *on_output*, called with ``"stdout"`` or
    ``"stderr"`` and the bytes; *on_event* and *on_step* are as for :func:`attach`.

    :raises UsageError: if the line cannot be read, or an argument is of another type.
    :raises StartError: if the job or the session cannot be started; the job is ended.
    """
    chosen = options_for(launch, options)
    descriptor = stdin if stdin is None or isinstance(stdin, int) else stdin.fileno()

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return start.launch(
            argv, chosen, stdin=descriptor, on_step=on_step or _ignore, listener=listener
        )

    return _open(begin, on_output=on_output or _PassOn(), on_event=on_event)


@checks_call
def open_cores(
    cores: str | Path | Sequence[str | Path],
    *,
    executable: str | Path = "",
    from_systemd: bool = False,
    hosts: Sequence[str] = (),
    ranks: str | RankSet | None = None,
    on_event: OnEvent | None = None,
    on_step: OnStep | None = None,
    **options: Unpack[Options],
) -> Session:
    """Open the core files of one job; they answer questions as stopped ranks do, and never run.

    *cores* are files, directories with core files, and patterns, or with *from_systemd* matches of
    coredumpctl (an empty sequence for all). *executable* is the program of the cores, where the one
    that they name is elsewhere. *hosts* are those that hold the files, empty for this one.
    *on_event* and *on_step* are as for :func:`attach`.

    :raises UsageError: if a name leads to no file, or an argument is of another type.
    :raises StartError: if there is no core file that can be used, or GDB cannot read any.
    """
    if isinstance(ranks, str):
        ranks = None if ranks.strip() == "all" else RankSet.parse(ranks)
    chosen = options_for(open_cores, options, ranks)
    named = [cores] if isinstance(cores, str | Path) else cores

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        # Other sessions need not load what finds core files.
        from pgdb.frontend.startup import open_cores as cores_module

        return cores_module.open_cores(
            [str(each) for each in named],
            chosen,
            executable=str(executable),
            from_systemd=from_systemd,
            hosts=hosts,
            on_step=on_step or _ignore,
            listener=listener,
        )

    return _open(begin, on_output=_PassOn(), on_event=on_event)


@checks_call
def replay(path: Path | str, *, on_event: OnEvent | None = None) -> Session:
    """Open a recording that :meth:`Session.save` or ``session save`` has written.

    The session answers the questions of the recorded session, for the same ranks. Any other raises
    :class:`~pgdb.errors.CommandError`, which lists the known ones. If an answer is older than the
    last run of its ranks, *on_event* gets a notice.

    :raises CommandError: if the file cannot be read, or is no recording.
    """

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return recording.replay(path, listener=listener)

    return _open(begin, on_output=_PassOn(), on_event=on_event)


@checks_arguments
class Session(SessionCalls):
    """A running session; made by :func:`attach` and :func:`launch`.

    As a context manager it is closed at the end of the body, whether or not that raises. A session
    that is still open when Python ends is closed then.
    """

    def __init__(self, loop: LoopThread, session: aio.Session) -> None:
        super().__init__(loop, session)
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, *, kill: bool | None = None) -> None:
        """End the session: by default kill a job that PGDB launched, and let any other run on.

        Returns when no process of PGDB is left. A second call does nothing, like one in
        a forked child: the session belongs to its parent. A ``KeyboardInterrupt`` is raised when
        the session has ended, a second one at once.
        """
        if self._loop.is_over or not self._loop.is_ours:
            return
        atexit.unregister(self.close)
        self._loop.end(lambda: self._session.close(kill=kill))

    def restart(
        self,
        arguments: Sequence[str | os.PathLike[str]] | None = None,
        *,
        stdin: int | HasDescriptor | None = None,
    ) -> Answer:
        """End the job, launch its line again and stop all ranks in ``main``; return where they are.

        *arguments* replace the arguments of the program. Breakpoints keep their numbers,
        conditions, commands and ignore counts; settings and displays of GDB, :attr:`sets` and
        listeners stay as well. Views on ranks that were made before are over. *stdin* is needed
        where :func:`launch` was given one.

        :raises UsageError: if PGDB attached to the job; it goes on.
        :raises StartError: if the job cannot be started; a further call tries again.
        """
        descriptor = stdin if stdin is None or isinstance(stdin, int) else stdin.fileno()
        if self._loop.is_over:
            raise SessionEndedError("the session is closed")

        async def again() -> Answer:
            self._session = await restart(self._session, arguments, stdin=descriptor)
            self._view = self._session
            return self.start_answer

        return self._loop.call(again)

    def change_settings(self, **settings: Any) -> None:
        """Change settings as ``set`` does, by their names in :class:`SessionOptions`:
        ``session.change_settings(stop_mode="all", timeout_s=30.0)``.

        :raises UsageError: if one of them cannot be changed in a session, or a value is none of
            its setting; nothing is changed then.
        """
        self._loop.call(lambda: setting_changes.change(self._session, **settings))

    def report(
        self,
        *paths: Path | str,
        ranks: RankSet | None = None,
        title: str = "",
        watches: bool = False,
        timeout_s: float | None = None,
    ) -> Report:
        """Return a report of the job, and write it to *paths* in the forms of their suffixes.

        It has the stacks of *ranks*, or of all. Ranks that run are not stopped; the report has
        nothing of their stacks. With *watches*, ranks that wait run for a moment; only that shows
        whether they hang.

        :raises UsageError: if a suffix names no form; no rank is asked then.
        :raises CommandError: if a file cannot be written.
        """
        # Most sessions make no report.
        from pgdb.frontend.report.reporting import report

        return self._loop.call(
            lambda: report(
                self._session,
                *paths,
                ranks=ranks,
                title=title,
                watches=watches,
                timeout_s=timeout_s,
            )
        )

    @property
    def start_answer(self) -> Answer:
        """The places where the ranks were stopped when the session started."""
        assert self._session.start_answer is not None, "a session that came up has one"
        return self._session.start_answer

    @property
    def has_ended(self) -> bool:
        """Whether the session has ended."""
        return self._loop.is_over or self._session.has_ended

    def ranks(self, which: str | RankSet) -> Ranks:
        """Return the view on some ranks, given as a set or as text.

        :raises RankSetError: if the text is malformed, or names ranks the job does not have.
        """
        return Ranks(self._loop, self._loop.do(lambda: self._session.ranks(which)))

    def __getitem__(self, which: int | slice) -> Ranks:
        """Return the view on one rank, or on those of a slice: ``session[0:4]``.

        :raises UsageError: if it is neither a whole number nor a slice.
        :raises RankSetError: if the job does not have the rank.
        """
        return Ranks(self._loop, self._loop.do(lambda: self._session[which]))

    def subscribe(self, listener: OnEvent) -> Callable[[], None]:
        """Call *listener* with each notification; return the function that ends this.

        The session's thread calls it, and does nothing else meanwhile: it must be quick and cannot
        call the session. asyncio logs what it raises.
        """
        stop = self._loop.do(lambda: self._session.subscribe(_later(listener)))
        return lambda: self._loop.do(stop)

    def write_input(self, data: bytes) -> bool:
        """Send input to a launched job; return whether the job accepts more.

        :raises UsageError: if PGDB does not feed the job's input.
        """
        job = self._session.job
        if job is None or not job.takes_input:
            why = "was attached to" if job is None else "was launched with stdin="
            raise UsageError(f"the job {why}; its input cannot be written here")
        return self._loop.do(lambda: job.write(data))

    def close_input(self) -> None:
        """End the input of a launched job."""
        job = self._session.job
        if job is not None:
            self._loop.do(job.close_input)


# -- starting ----------------------------------------------------------------------------------


def _open(
    begin: Callable[[Listener], Coroutine[None, None, aio.Session]],
    *,
    on_output: OnOutput,
    on_event: OnEvent | None,
) -> Session:
    opening: list[asyncio.Task[None] | None] = []
    started: list[aio.Session] = []

    def hear(notification: Notification) -> None:
        if notification.kind == "output":
            on_output(notification.stream, notification.data)
        elif on_event is not None:
            on_event(notification)

    async def open_session() -> None:
        opening.append(asyncio.current_task())
        started.append(await begin(_later(hear)))

    async def close_session() -> None:
        # A cancelled start releases all that it has, which takes its time.
        if tasks := [task for task in opening if task is not None]:
            await asyncio.wait(tasks)
        # The session may have started all the same.
        for session in started:
            await session.close()

    loop = LoopThread()
    try:
        loop.call(open_session)
        return Session(loop, started[0])
    except BaseException:
        loop.end(close_session)
        raise


def _later(listener: OnEvent) -> Listener:
    """Return a listener that the event loop calls, so that the loop logs what it raises.

    The session calls its listeners within its own work, which must not fail with them.
    """

    def notify(notification: Notification) -> None:
        asyncio.get_running_loop().call_soon(listener, notification)

    return notify


class _PassOn:
    """Writer of the job's output to our own output.

    The bytes stay as they are; a terminal gets them without control sequences that drive it.
    """

    def __init__(self) -> None:
        self._filters: dict[StreamName, OutputFilter] = {}

    def __call__(self, stream: StreamName, data: bytes) -> None:
        target = sys.stdout if stream == "stdout" else sys.stderr
        try:
            binary = target.buffer
        except AttributeError:  # a notebook's, or a StringIO
            target.write(data.decode("utf-8", "replace"))
        else:
            target.flush()
            if target.isatty():
                text = self._filters.setdefault(stream, OutputFilter()).feed(data)
                data = text.encode(target.encoding or "utf-8", "backslashreplace")
            binary.write(data)
        target.flush()


def _ignore(step: str) -> None:
    del step
