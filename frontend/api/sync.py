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
from typing import Literal, Protocol, Self, TypedDict, Unpack

from pgdb.controls import OutputFilter
from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.calltree import CallTree, TreeBy
from pgdb.frontend.analysis.comparing import By, Comparison, compare
from pgdb.frontend.api import rank_view as aio_view
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.loop_thread import LoopThread
from pgdb.frontend.api.notifications import Listener, Notification
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.rank_view import STAT_LIMIT_BYTES
from pgdb.frontend.startup import replay as recording
from pgdb.frontend.startup import start
from pgdb.frontend.startup.job import StreamName
from pgdb.frontend.store.saving import Written
from pgdb.overlay.messages import Delivered, RunWord
from pgdb.proctable import ProcTable
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


class Ranks:
    """Some ranks of a session, and what can be done with them.

    Every call returns an :class:`Answer`; a command that fails on some ranks is an answer with
    errors in it, not an exception (see :meth:`Answer.check`). A ``KeyboardInterrupt`` ends the
    waiting for an answer; the session goes on, and ranks that were set running still run.
    """

    def __init__(self, loop: LoopThread, view: aio_view.RankView) -> None:
        self._loop = loop
        self._view = view

    @property
    def set(self) -> RankSet:
        """The ranks of this view."""
        return self._view.set

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} of ranks [{self.set}]>"

    def evaluate(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, with GDB's *format* letter if there is one."""
        return self._loop.call(
            lambda: self._view.evaluate(expression, format=format, timeout_s=timeout_s)
        )

    def backtrace(
        self,
        limit: int = 0,
        *,
        fold: bool = True,
        split: bool = False,
        threads: bool = False,
        offsets: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """List the *limit* innermost frames (outermost if negative, all for 0).

        With *fold* what goes on inside an MPI call is left out. Ranks at the same place are of
        one class, whose arguments show as ``…`` where they differ; with *split* they are not.
        With *threads* the answer has the stacks of all threads: with *fold* without those of the
        MPI library itself; :func:`~pgdb.frontend.show.text.thread_stacks.stacks_of` puts them in
        order by stack.
        With *offsets* frames say how far into their function they are.
        """
        return self._loop.call(
            lambda: self._view.backtrace(
                limit,
                fold=fold,
                split=split,
                threads=threads,
                offsets=offsets,
                timeout_s=timeout_s,
            )
        )

    def tree(
        self,
        by: TreeBy = "function",
        threads: bool = False,
        samples: int = 1,
        every_s: float = 1.0,
        fold: bool = True,
    ) -> CallTree:
        """Merge the call stacks into one tree; what tells two frames apart is said with *by*.

        With *threads* it is of all threads. With several *samples* the ranks that run are
        stopped for each, and run for *every_s* seconds between two; they run on after the last.
        With *fold* what goes on inside an MPI call is left out.

        :raises UsageError: if a number is out of range, or no rank runs and several samples are
            wanted.
        """
        return self._loop.call(
            lambda: self._view.tree(
                by=by, threads=threads, samples=samples, every_s=every_s, fold=fold
            )
        )

    def stat(
        self,
        expression: str,
        *,
        bins: int = 0,
        limit_bytes: int = STAT_LIMIT_BYTES,
        timeout_s: float | None = None,
    ) -> Answer:
        """Sum up a number, or all elements of an array of numbers, over the ranks.

        What travels is of one size, however many ranks and elements there are. The answer has a
        class whose record is Various, with the :class:`~pgdb.merge.summary.Summary` as its one
        column; ranks on which *expression* is no number are in classes of errors. With *bins* the
        ranks are asked twice, for the histogram needs the range first; integers get bins that end
        halfway between two of them, at most one for each. Arrays of more than
        *limit_bytes* on one rank are an error there.
        """
        return self._loop.call(
            lambda: self._view.stat(
                expression, bins=bins, limit_bytes=limit_bytes, timeout_s=timeout_s
            )
        )

    def select_frame(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run ``frame …``, ``up …`` or ``down …``; the answer is the frame selected then."""
        return self._loop.call(lambda: self._view.select_frame(line, timeout_s=timeout_s))

    def locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected frame."""
        return self._loop.call(lambda: self._view.locals(timeout_s=timeout_s))

    def arguments(self, *, timeout_s: float | None = None) -> Answer:
        """List the arguments of the selected frame."""
        return self._loop.call(lambda: self._view.arguments(timeout_s=timeout_s))

    def execute(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run one GDB command as it is; a run command waits as :meth:`continue_` does.

        :raises UsageError: for a command that PGDB has to carry out itself or refuses.
        """
        return self._loop.call(lambda: self._view.execute(line, timeout_s=timeout_s))

    def script(self, lines: Sequence[str], *, timeout_s: float | None = None) -> Answer:
        """Run several lines as one GDB script: ``define`` … ``end``, ``python`` … ``end``."""
        return self._loop.call(lambda: self._view.script(lines, timeout_s=timeout_s))

    # -- arrays ------------------------------------------------------------------------------

    def array(self, expression: str, *, timeout_s: float | None = None) -> Arrays:
        """Read numbers, or arrays of numbers such as ``p[0]@1000``, as they stand in memory.

        Ranks that cannot give them are named in the result. *timeout_s* is for all pieces.

        :raises CommandError: if all together are more than the option ``array_limit_bytes``.
        """
        return self._loop.call(lambda: self._view.array(expression, timeout_s=timeout_s))

    def dump(self, expression: str, path: Path | str, *, timeout_s: float | None = None) -> Arrays:
        """Read numbers as :meth:`array` does and write them to a file; return what was written.

        The file's suffix says how, see :func:`~pgdb.frontend.show.export.array_files.write_arrays`.
        Where no rank gives any numbers nothing is written.

        :raises UsageError: if the suffix is no known one.
        :raises CommandError: if the file cannot be written, or the numbers are too many.
        """
        return self._loop.call(lambda: self._view.dump(expression, path, timeout_s=timeout_s))

    # -- checking ----------------------------------------------------------------------------

    def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, each single one however many different ones there are.

        :meth:`evaluate` only sums them up where there are very many.
        """
        return self._loop.call(
            lambda: self._view.evaluate_in_full(expression, format=format, timeout_s=timeout_s)
        )

    def where(self, condition: str, *, timeout_s: float | None = None) -> RankSet:
        """Return the ranks on which *condition* holds now; GDB evaluates it.

        :raises CommandError: if it could be evaluated on no rank.
        """
        return self._loop.call(lambda: self._view.where(condition, timeout_s=timeout_s))

    def evaluate_condition(self, condition: str, *, timeout_s: float | None = None) -> Answer:
        """Evaluate a condition; one that compares an array as a whole is an error on its ranks."""
        return self._loop.call(
            lambda: self._view.evaluate_condition(condition, timeout_s=timeout_s)
        )

    def check_that(
        self, condition: str, *, running_ok: bool = False, timeout_s: float | None = None
    ) -> Check:
        """Check what must hold: ``x > 0``, ``x same``, ``x increasing``, ``x in 0..1``.

        See :func:`~pgdb.frontend.analysis.conditions.parse` for all forms. Ranks that run or
        have ended fail the check, unless *running_ok*; so do those that cannot evaluate it.
        """
        return self._loop.call(
            lambda: self._view.check_that(condition, running_ok=running_ok, timeout_s=timeout_s)
        )

    def compare(
        self,
        expression: str,
        other: Ranks | Answer,
        *,
        by: By | None = None,
        tolerance: float = 0.0,
        absolute_tolerance: float = 0.0,
        timeout_s: float | None = None,
    ) -> Comparison:
        """Compare the values of *expression* with an earlier answer or with those of *other* ranks.

        An earlier answer is the first side, other ranks are the second. Ranks of this session are
        compared by value, all else by rank, unless *by* says otherwise; see
        :func:`pgdb.frontend.analysis.comparing.compare`.

        :raises UsageError: if a tolerance is negative, or ranks cannot be paired.
        """
        mine = self.evaluate_in_full(expression, timeout_s=timeout_s)
        if isinstance(other, Answer):
            sides = (other, mine)
        else:
            # Another session has a thread of its own.
            sides = (mine, other.evaluate_in_full(expression, timeout_s=timeout_s))
            if by is None and other._loop is self._loop:
                by = "value"
        return compare(
            *sides,
            by=by or "rank",
            tolerance=tolerance,
            absolute_tolerance=absolute_tolerance,
        )

    # -- breakpoints -------------------------------------------------------------------------

    def break_at(
        self, location: str = "", *, condition: str = "", temporary: bool = False
    ) -> Answer:
        """Set a breakpoint; all ranks get the same job-wide number for it."""
        return self._loop.call(
            lambda: self._view.break_at(location, condition=condition, temporary=temporary)
        )

    def watch(self, expression: str) -> Answer:
        """Stop when the value of *expression* changes."""
        return self._loop.call(lambda: self._view.watch(expression))

    def change_breakpoints(
        self, command: str, numbers: Sequence[str] = (), argument: str = ""
    ) -> Answer:
        """Run ``delete``, ``disable``, ``enable``, ``condition`` or ``ignore`` on breakpoints.

        No *numbers* means all.
        """
        return self._loop.call(lambda: self._view.change_breakpoints(command, numbers, argument))

    def delete(self, *numbers: int) -> Answer:
        """Delete breakpoints by their job-wide numbers, or all."""
        return self._loop.call(lambda: self._view.delete(*numbers))

    def breakpoint_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Answer:
        """Have GDB commands carried out whenever one of the breakpoints is hit."""
        return self._loop.call(lambda: self._view.breakpoint_commands(numbers, commands))

    def breakpoints(self) -> Answer:
        """List the breakpoints."""
        return self._loop.call(lambda: self._view.breakpoints())

    # -- running -----------------------------------------------------------------------------

    def run(
        self,
        word: RunWord,
        argument: str = "",
        *,
        wait: bool = True,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Set the ranks running by a GDB command.

        With *wait*, return when all of them have stopped or ended, or after *timeout_s* (None:
        no limit): then ``missing.running`` says who still runs. With *settle_s*, once a rank
        has stopped and no further one has for that long, that is waited for no longer.
        """
        return self._loop.call(
            lambda: self._view.run(
                word, argument, wait=wait, timeout_s=timeout_s, settle_s=settle_s
            )
        )

    def continue_(self, *, wait: bool = True, timeout_s: float | None = None) -> Answer:
        """Continue; see :meth:`run`."""
        return self._loop.call(lambda: self._view.continue_(wait=wait, timeout_s=timeout_s))

    def step(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step by source lines into functions; see :meth:`run`."""
        return self._loop.call(lambda: self._view.step(count, timeout_s=timeout_s))

    def next(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step by source lines over functions; see :meth:`run`."""
        return self._loop.call(lambda: self._view.next(count, timeout_s=timeout_s))

    def finish(self, *, timeout_s: float | None = None) -> Answer:
        """Run until the selected frame returns; see :meth:`run`."""
        return self._loop.call(lambda: self._view.finish(timeout_s=timeout_s))

    def until(self, location: str = "", *, timeout_s: float | None = None) -> Answer:
        """Run until a line behind the current one, or *location*; see :meth:`run`."""
        return self._loop.call(lambda: self._view.until(location, timeout_s=timeout_s))

    def advance(self, location: str, *, timeout_s: float | None = None) -> Answer:
        """Run until *location*; see :meth:`run`."""
        return self._loop.call(lambda: self._view.advance(location, timeout_s=timeout_s))

    def wait(self, *, timeout_s: float | None = None, settle_s: float | None = None) -> Answer:
        """Wait until these ranks have stopped or ended; see :meth:`run`."""
        return self._loop.call(lambda: self._view.wait(timeout_s=timeout_s, settle_s=settle_s))

    def interrupt(self, *, timeout_s: float | None = None) -> Answer:
        """Stop the ranks that run, and wait until they have stopped (10 s by default)."""
        return self._loop.call(lambda: self._view.interrupt(timeout_s=timeout_s))

    def reattach(self, *, timeout_s: float | None = None) -> Answer:
        """Get hold again of ranks whose debugger is gone or hangs, or that were let go.

        They are stopped then, under a GDB of their own, with the session's breakpoints. Ranks whose
        debugger answers are left as they are. *timeout_s* is that of a start by default; what is
        not done by then goes on, and is told when it is done.
        """
        return self._loop.call(lambda: self._view.reattach(timeout_s=timeout_s))

    # -- leaving -----------------------------------------------------------------------------

    def detach(self, *, timeout_s: float | None = None) -> Answer:
        """Let the ranks go: they run on free, with no breakpoint left in them.

        Those that are not free within *timeout_s* (30 s by default) are let go later, and told
        then.
        """
        return self._loop.call(lambda: self._view.detach(timeout_s=timeout_s))

    def kill(self, *, timeout_s: float | None = None) -> Answer:
        """End the processes of the ranks."""
        return self._loop.call(lambda: self._view.kill(timeout_s=timeout_s))


class Session(Ranks):
    """A running session; made by :func:`attach` and :func:`launch`.

    As a context manager it is closed at the end of the body, however that ends; one that is
    still open when Python ends is closed then.
    """

    def __init__(self, loop: LoopThread, session: aio.Session) -> None:
        super().__init__(loop, session)
        self._session = session
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

    # -- what there is -----------------------------------------------------------------------

    @property
    def mode(self) -> Literal["attach", "launch"]:
        """How the session was started."""
        return self._session.mode

    @property
    def is_recorded(self) -> bool:
        """Whether a recording answers, and there is no job."""
        return self._session.is_recorded

    @property
    def aggregators(self) -> int:
        """Number of aggregators that are in the tree."""
        return self._session.aggregators

    @property
    def options(self) -> SessionOptions:
        """What was chosen for it."""
        return self._session.options

    @property
    def table(self) -> ProcTable:
        """Where the ranks are."""
        return self._session.table

    @property
    def description(self) -> str:
        """The job in words: launcher, or the command it was started with."""
        return self._session.description

    @property
    def mpi_version(self) -> str:
        """Name and version of the job's MPI."""
        return self._session.mpi_version

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """What bringing the ranks' files to the hosts has cost each node, the front end first;
        empty without ``sbd``."""
        return self._session.deliveries

    @property
    def gdb_version(self) -> str:
        """Version of the GDB on the ranks."""
        return self._session.gdb_version

    @property
    def start_answer(self) -> Answer:
        """Where the ranks were stopped when the session started."""
        assert self._session.start_answer is not None, "a session that came up has one"
        return self._session.start_answer

    @property
    def hosts(self) -> dict[str, RankSet]:
        """The ranks of each host."""
        return self._session.hosts

    @property
    def last_breakpoint(self) -> int:
        """Number of the breakpoint that was made last, 0 before the first."""
        return self._session.last_breakpoint

    @property
    def kills_at_close(self) -> bool:
        """Whether :meth:`close` kills the job unless told otherwise."""
        return self._session.kills_at_close

    @property
    def job_has_ended(self) -> bool:
        """Whether the launcher that we have started has ended."""
        return self._session.job_has_ended

    @property
    def all_have_ended(self) -> bool:
        """Whether no rank is left that could run on."""
        return self._session.all_have_ended

    @property
    def leftover_output(self) -> Path | None:
        """Where the output of a launched job goes that runs on after the session, else None."""
        return self._session.leftover_output

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be asked any longer."""
        return self._loop.is_over or self._session.has_ended

    # -- ranks -------------------------------------------------------------------------------

    @property
    def sets(self) -> dict[str, RankSet]:
        """Named sets of the user's, for ``@name``; put in and delete as in any dictionary."""
        return self._session.sets

    def ranks(self, which: str | RankSet) -> Ranks:
        """Return the view on some ranks, given as a set or as users write it.

        :raises RankSetError: if the text is malformed, or names ranks the job does not have.
        """
        return Ranks(self._loop, self._loop.do(lambda: self._session.ranks(which)))

    def __getitem__(self, which: int | slice) -> Ranks:
        """Return the view on one rank, or on those of a slice: ``session[0:4]``."""
        return Ranks(self._loop, self._loop.do(lambda: self._session[which]))

    def parse_ranks(self, text: str) -> RankSet:
        """Read a rank set: ``0-3,8``, ``all``, ``@name``, with the algebra of :class:`RankSet`.

        :raises RankSetError: if it is malformed, empty, or names ranks the job does not have.
        """
        return self._loop.do(lambda: self._session.parse_ranks(text))

    def named_set(self, name: str) -> RankSet | None:
        """Return a named set: the user's own, or an automatic one.

        Automatic are ``running``, ``stopped``, ``exited``, ``lost``, ``error``, ``bp1`` …
        """
        return self._loop.do(lambda: self._session.named_set(name))

    def recall(self, answer: Answer, ranks: RankSet, *, timeout_s: float | None = None) -> Answer:
        """Ask *ranks* for what they said in an earlier *answer*, in full, with all addresses.

        Ranks whose answer is not kept any longer (each aggregator keeps the last ones) are in
        ``missing.lost``.

        :raises UsageError: for more ranks than can be told one by one.
        """
        return self._loop.call(lambda: self._session.recall(answer, ranks, timeout_s=timeout_s))

    def save(self, path: Path | str) -> Written:
        """Write a recording to a file, which :func:`replay` and ``pgdb replay`` open without the
        job.

        It has what was asked up to now, as far as it has found room (64 MiB), and in full what
        answers have kept back.

        :raises CommandError: if it cannot be written, or something else has that name.
        """
        return self._loop.call(lambda: self._session.save(path))

    # -- what comes unasked, and the job's input ------------------------------------------------

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
