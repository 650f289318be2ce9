"""The session for programs without an event loop: the same calls, each returning when it is done.

A session has a thread of its own, in which its event loop runs from :func:`attach` or
:func:`launch` to :meth:`Session.close`. Every call is carried out there and waited for here, so
any thread may call; what a call raises there is raised here as it is.
"""

from __future__ import annotations

import asyncio
import atexit
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypedDict, Unpack

from pgdb.controls import OutputFilter
from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.notifications import Listener, Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.sync_generated import Ranks as Ranks
from pgdb.frontend.api.sync_generated import SessionCalls
from pgdb.frontend.startup import replay as recording
from pgdb.frontend.startup import start
from pgdb.frontend.startup.job import StreamName
from pgdb.ranks import RankSet

OnOutput = Callable[[StreamName, bytes], None]
OnEvent = Callable[[Notification], None]
OnStep = Callable[[str], None]


class Options(TypedDict, total=False):
    """Keyword arguments that become :class:`SessionOptions`, which says what they mean."""

    aggregators: int
    fan_out: int
    gdb: str
    gdb_commands: tuple[str, ...]
    program: str
    start_timeout_s: float
    timeout_s: float
    grace_s: float
    listen: str
    connect: bool
    host: str
    ssh: tuple[str, ...]
    overlay_launcher: tuple[str, ...]
    remote_python: str
    ship: bool
    wire_up: str
    nursery: bool
    guard: bool
    sbd: bool
    sbd_cache: str
    sbd_cache_bytes: int
    sbd_cache_age_s: float
    sbd_wait_s: float
    array_limit_bytes: int
    compare_pointers: str
    stop_on_error: bool
    log: str
    log_values: bool
    record: str
    verbose: bool


class HasDescriptor(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Return its descriptor."""
        ...


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

    *target* is the process id of its launcher or of a rank, or ``JOB[.STEP]`` of Slurm's; where
    *pids* gives the ranks, as ``PID`` or ``HOST:PID``, it is not looked at.
    *on_event* is told what the session tells unasked, *on_step* how the start gets on; both are
    called in the session's thread (see :meth:`Session.subscribe`).

    :raises StartError: if its ranks are not found, or none of them can be attached to; the job
        goes on.
    """
    if isinstance(ranks, str):
        ranks = None if ranks.strip() == "all" else RankSet.parse(ranks)
    chosen = SessionOptions(ranks=ranks, **options)

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return start.attach(
            target, chosen, pids=pids, on_step=on_step or _ignore, listener=listener
        )

    return _open(begin, on_output=_PassOn(), on_event=on_event)


def launch(
    argv: Sequence[str],
    *,
    stdin: int | HasDescriptor | None = None,
    on_output: OnOutput | None = None,
    on_event: OnEvent | None = None,
    on_step: OnStep | None = None,
    **options: Unpack[Options],
) -> Session:
    """Launch a job under the debugger and stop all its ranks in ``main``.

    *argv* is the launcher's whole line, such as ``["mpirun", "-n", "4", "./ring"]``. The job's
    input is the file or descriptor *stdin*, or what :meth:`Session.write_input` sends. Its output
    goes to ``sys.stdout`` and ``sys.stderr``, or to *on_output*, called with ``"stdout"`` or
    ``"stderr"`` and the bytes; *on_event* and *on_step* are as for :func:`attach`.

    :raises UsageError: if the line cannot be read.
    :raises StartError: if the job or the session cannot be started; the job is ended.
    """
    chosen = SessionOptions(**options)
    descriptor = stdin if stdin is None or isinstance(stdin, int) else stdin.fileno()

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return start.launch(
            argv, chosen, stdin=descriptor, on_step=on_step or _ignore, listener=listener
        )

    return _open(begin, on_output=on_output or _PassOn(), on_event=on_event)


def replay(path: Path | str, *, on_event: OnEvent | None = None) -> Session:
    """Open a recording that :meth:`Session.save` or ``session save`` has written.

    The session answers what was asked when it was written, for those ranks; anything else raises
    :class:`~pgdb.errors.CommandError`, which says what there is. *on_event* is told, as a notice,
    where an answer is older than the last run of its ranks.

    :raises CommandError: if the file cannot be read, or is no recording.
    """

    def begin(listener: Listener) -> Coroutine[None, None, aio.Session]:
        return recording.replay(path, listener=listener)

    return _open(begin, on_output=_PassOn(), on_event=on_event)


class Session(SessionCalls):
    """A running session; made by :func:`attach` and :func:`launch`.

    As a context manager it is closed at the end of the body, however that ends; one that is
    still open when Python ends is closed then.
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
        """End the session: by default kill a job that we launched, and let any other go on.

        Returns when no process of ours is left. A second call does nothing, and neither does one
        in a forked child: the session is its parent's. A ``KeyboardInterrupt`` is raised when the
        session has ended, a second one at once.
        """
        if self._loop.is_over or not self._loop.is_ours:
            return
        atexit.unregister(self.close)
        self._loop.end(lambda: self._session.close(kill=kill))

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
        """Return the view on one rank, or on those of a slice: ``session[0:4]``."""
        return Ranks(self._loop, self._loop.do(lambda: self._session[which]))

    def subscribe(self, listener: OnEvent) -> Callable[[], None]:
        """Have *listener* called with what the session tells unasked; return how to stop that.

        It is called in the session's thread, which carries nothing else out meanwhile: it must
        be quick and cannot call the session. What it raises is logged by asyncio.
        """
        stop = self._loop.do(lambda: self._session.subscribe(_later(listener)))
        return lambda: self._loop.do(stop)

    def write_input(self, data: bytes) -> bool:
        """Send input to a launched job; return whether it still takes any.

        :raises UsageError: if its input is not ours to write.
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
        # A start that was cancelled lets go of what it has, which takes its time.
        if tasks := [task for task in opening if task is not None]:
            await asyncio.wait(tasks)
        # It may have come up all the same.
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
    """Return a listener that is called by the event loop, which logs what it raises.

    The session calls its listeners amid its own work, which must not fail of theirs.
    """

    def notify(notification: Notification) -> None:
        asyncio.get_running_loop().call_soon(listener, notification)

    return notify


class _PassOn:
    """Writes what the job has printed to our own output.

    Byte for byte if that takes bytes; a terminal gets it without what would drive it.
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
