"""The calls of the synchronous API.

Generated from the asynchronous API by ``scripts/generate_sync.py``: change that, or
``rank_data.py``, ``rank_groups.py``, ``rank_view.py``, ``session.py`` and ``options.py``, and
run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.call_paths import TreeBy
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.frontend.analysis.comparing import By, Comparison
from pgdb.frontend.analysis.progress import Progress
from pgdb.frontend.analysis.still_running import StillRunning
from pgdb.frontend.analysis.trace_tables import TraceData, TraceTable
from pgdb.frontend.analysis.why.explain import Explanation
from pgdb.frontend.api import session as aio
from pgdb.frontend.api.absentees import Barrier, BarrierThen
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.api.host_files import GatheredFile
from pgdb.frontend.api.lockstep import MOST_STEPS, Lockstep
from pgdb.frontend.api.loop_thread import LoopThread, OtherLoop
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.frontend.api.options import SessionOptions, StopMode
from pgdb.frontend.api.rank_data import STAT_LIMIT_BYTES
from pgdb.frontend.api.rank_view import HasValues, RankView
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.api.until_differ import MOST_HITS, Differ
from pgdb.frontend.api.watch_times import PROGRESS_EVERY_S, PROGRESS_SAMPLES, WHY_S
from pgdb.frontend.store.saving import Written
from pgdb.overlay.messages import BreakpointKind, Delivered, RunWord
from pgdb.overlay.query_options import QueryOptions
from pgdb.proctable import ProcTable, SessionMode, World
from pgdb.ranks import RankSet


class Options(TypedDict, total=False):
    """Keyword arguments that become fields of :class:`SessionOptions`, which describes them."""

    world: str
    spawned: str
    core_gdbs: int
    program: str
    launcher: str
    mpi_record: bool
    mpicc: str
    timeout_s: float
    start_timeout_s: float
    max_hold_s: float
    stop_on_error: bool
    look_at_running: bool
    stop_mode: str
    stop_on_report: bool
    stop_before_death: bool
    array_limit_bytes: int
    varprint_depth: int
    varprint_children: int
    compare_pointers: str
    gdb: str
    gdb_commands: tuple[str, ...]
    host: str
    ssh: tuple[str, ...]
    listen: str
    connect: bool
    overlay_launcher: tuple[str, ...]
    python_glue: tuple[str, ...]
    aggregators: int
    fan_out: int
    wire_up: str
    grace_s: float
    remote_python: str
    ship: bool
    nursery: bool
    guard: bool
    sbd: bool
    sbd_cache: str
    sbd_cache_bytes: int
    sbd_cache_age_s: float
    sbd_wait_s: float
    log: str
    log_values: bool
    record: str
    script_log: str
    verbose: bool


@checks_arguments
class Ranks:
    """Some ranks of a session, and the calls on them.

    Most calls return an :class:`Answer`; a command that fails on some ranks is an answer with
    errors in it, not an exception (see :meth:`Answer.check`). A ``KeyboardInterrupt`` ends the
    wait for an answer; the session goes on, and ranks that were set running still run.
    """

    def __init__(self, loop: LoopThread, view: RankView) -> None:
        self._loop = loop
        self._view = view

    @property
    def set(self) -> RankSet:
        """The ranks of this view."""
        return self._view.set

    def __repr__(self) -> str:
        return f"<pgdb.{type(self).__name__} of ranks [{self.set}]>"

    def _other(self, other: Ranks | Answer) -> HasValues | Answer:
        """Return the argument of a call in this session's loop for ranks of any session."""
        if isinstance(other, Answer):
            return other
        return other._view if other._loop is self._loop else _RanksElsewhere(other)

    def evaluate(
        self,
        expression: str,
        *,
        format: str = "",
        timeout_s: float | None = None,
        of_ended: bool = False,
    ) -> Answer:
        """Print the value of *expression*, with GDB's *format* letter if there is one.

        With *of_ended*, and if none of the ranks lives, ranks that have ended answer with what the
        program's file has.
        """
        return self._loop.call(
            lambda: self._view.evaluate(
                expression, format=format, timeout_s=timeout_s, of_ended=of_ended
            )
        )

    def mpi_calls(
        self,
        *,
        threads: bool = True,
        loops: bool = False,
        arrived: bool = False,
        timeout_s: float | None = None,
    ) -> Answer:
        """List the MPI calls that the ranks have not returned from, with their arguments.

        The answers are :class:`~pgdb.mpi_calls.MpiCallStatus`, with the ranks of the session. With
        *threads*, calls of all threads are listed. With *loops*, ranks outside MPI are searched for
        loops that they cannot leave. With *arrived*, the messages are listed that have come to a
        rank that waits for one, and that it does not take.
        """
        return self._loop.call(
            lambda: self._view.mpi_calls(
                threads=threads, loops=loops, arrived=arrived, timeout_s=timeout_s
            )
        )

    def recent_mpi_calls(self, last: int = 10, *, timeout_s: float | None = None) -> Answer:
        """List the *last* MPI calls of each thread, from the recorder of each rank, which may run.

        The answers are :class:`~pgdb.mpi_calls.MpiCallStatus` with ``recent``; a rank without the
        recorder answers with an error.

        :raises UsageError: if the recorder keeps fewer calls.
        """
        return self._loop.call(lambda: self._view.recent_mpi_calls(last, timeout_s=timeout_s))

    def tree(
        self,
        by: TreeBy = "function",
        threads: bool = False,
        samples: int = 1,
        every_s: float = 1.0,
        fold: bool = True,
        tasks: bool = False,
    ) -> CallTree:
        """Merge the call stacks into one tree; *by* names the property that distinguishes frames.

        With *threads*, the tree has the stacks of all threads. With several *samples*, running
        ranks are stopped for each, and run for *every_s* seconds between two and after the last.
        With *fold*, frames inside an MPI call are left out. With *tasks*, the tree has the stacks
        of asyncio's tasks.

        :raises UsageError: if a number is out of range, or no rank runs and several samples are
            wanted.
        """
        return self._loop.call(lambda: self._view.tree(by, threads, samples, every_s, fold, tasks))

    def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, each one however many different ones there are.

        :meth:`evaluate` sums very many different values up, and has only the part of a long value
        that GDB prints. Here such a value has the whole beside that text. For a very long array of
        numbers in a structure the whole has a hash of the elements; :meth:`array` reads them.
        """
        return self._loop.call(
            lambda: self._view.evaluate_in_full(expression, format=format, timeout_s=timeout_s)
        )

    def locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected frame."""
        return self._loop.call(lambda: self._view.locals(timeout_s=timeout_s))

    def arguments(self, *, timeout_s: float | None = None) -> Answer:
        """List the arguments of the selected frame."""
        return self._loop.call(lambda: self._view.arguments(timeout_s=timeout_s))

    def python_locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected Python frame."""
        return self._loop.call(lambda: self._view.python_locals(timeout_s=timeout_s))

    def stat(
        self,
        expression: str,
        *,
        bins: int = 0,
        limit_bytes: int = STAT_LIMIT_BYTES,
        timeout_s: float | None = None,
    ) -> Answer:
        """Sum up a number, or all elements of an array of numbers, over the ranks.

        The size of the messages does not depend on the number of ranks and elements. The answer has
        a class whose record is Various, with the :class:`~pgdb.merge.summary.Summary` as its one
        column. Ranks on which *expression* is no number, or an array of more than *limit_bytes*,
        are in classes of errors. With *bins*, the ranks are asked twice, because the histogram
        needs the range first; integers get bins that end halfway between two of them, at most one
        for each.
        """
        return self._loop.call(
            lambda: self._view.stat(
                expression, bins=bins, limit_bytes=limit_bytes, timeout_s=timeout_s
            )
        )

    def machine_query(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        options: QueryOptions | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Carry out a command that only GDB/MI has, by its words: ``var create``, ``list
        features``. *options* are those of PGDB's command of that name, such as ``var update``.
        """
        return self._loop.call(
            lambda: self._view.machine_query(
                command, arguments, options=options, timeout_s=timeout_s
            )
        )

    def explore(
        self,
        expression: str,
        *,
        path: Sequence[str] = (),
        depth: int | None = None,
        children: int | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Show a value with the targets of its pointers, *depth* levels with at most *children*
        each.

        *path* leads from *expression* to the value, by the names that :meth:`children` gives. The
        options ``varprint_depth`` and ``varprint_children`` are the limits by default.
        """
        return self._loop.call(
            lambda: self._view.explore(
                expression, path=path, depth=depth, children=children, timeout_s=timeout_s
            )
        )

    def children(
        self,
        expression: str,
        path: Sequence[str] = (),
        *,
        start: int = 0,
        count: int = 60,
        timeout_s: float | None = None,
    ) -> Answer:
        """List children of a value: fields, elements, or the target of a pointer.

        The record of each class is ``Variables``. The name of a child, behind *path*, is the path
        to its own children; a child has some if its value ends in ``{...}``.
        """
        return self._loop.call(
            lambda: self._view.children(
                expression, path, start=start, count=count, timeout_s=timeout_s
            )
        )

    def array(self, expression: str, *, timeout_s: float | None = None) -> Arrays:
        """Read numbers, or arrays of numbers such as ``p[0]@1000``, from memory.

        The result names ranks that cannot read them. *timeout_s* is for all pieces together.

        :raises CommandError: if all together are more than the option ``array_limit_bytes``.
        """
        return self._loop.call(lambda: self._view.array(expression, timeout_s=timeout_s))

    def dump(self, expression: str, path: Path | str, *, timeout_s: float | None = None) -> Arrays:
        """Read numbers as :meth:`array` does and write them to a file; return the numbers.

        The suffix selects the format, see :func:`~pgdb.frontend.store.array_files.write_arrays`.
        Without numbers from any rank, no file is written.

        :raises UsageError: if the suffix is unknown.
        :raises CommandError: if the file cannot be written, or the numbers are too many.
        """
        return self._loop.call(lambda: self._view.dump(expression, path, timeout_s=timeout_s))

    def trace(
        self,
        place: str,
        *expressions: str,
        condition: str = "",
        every: int = 1,
        first: int = 0,
        timeout_s: float | None = None,
    ) -> Answer:
        """Collect the values of *expressions* at each hit of *place*; the ranks run on.

        With *condition*, only hits count at which it is true. Values are collected at the first of
        them and at each *every*-th one from there on, *first* times at most (0: no limit). The
        answer of each rank is a Text of the place; :attr:`Session.traces` has the trace.
        :meth:`trace_table` and :meth:`trace_data` return the values, also of ranks that run or have
        ended. ``trace:1:residual`` stands for the numbers of an expression, in ``stat`` and
        ``array``.

        :raises UsageError: if there is nothing to collect, or a count is wrong.
        """
        return self._loop.call(
            lambda: self._view.trace(
                place,
                *expressions,
                condition=condition,
                every=every,
                first=first,
                timeout_s=timeout_s,
            )
        )

    def untrace(self, *numbers: int, timeout_s: float | None = None) -> Answer:
        """End traces and forget their values: those with *numbers*, or all.

        :raises UsageError: if there is no trace of a number, or none at all.
        """
        return self._loop.call(lambda: self._view.untrace(*numbers, timeout_s=timeout_s))

    def trace_table(
        self,
        number: int,
        *,
        begin: int | None = None,
        count: int = 20,
        timeout_s: float | None = None,
    ) -> TraceTable:
        """Return *count* rows of a trace over the ranks, from row *begin* on (from 0).

        By default they are the last rows that all ranks have. *begin* counts from 0, as an index:
        with ``begin=4`` the first row has the number 5.

        :raises UsageError: if there is no such trace, or *begin* or *count* is below 0.
        """
        return self._loop.call(
            lambda: self._view.trace_table(number, begin=begin, count=count, timeout_s=timeout_s)
        )

    def trace_data(self, number: int, *, timeout_s: float | None = None) -> TraceData:
        """Return all values of a trace, for each rank; see :meth:`TraceData.to_pandas`.

        :raises UsageError: if there is no such trace.
        """
        return self._loop.call(lambda: self._view.trace_data(number, timeout_s=timeout_s))

    def hold(self) -> RankSet:
        """Hold the ranks: run commands leave them where they are. Return those that are newly held.

        A rank that runs goes on to its next stop, and stays there. :meth:`release`, the end of the
        rank and :meth:`detach` end the hold.

        :raises UsageError: if there is no job, but a recording.
        :raises CommandError: if none of the ranks lives under a debugger.
        """
        return self._loop.do(lambda: self._view.hold())

    def release(self) -> RankSet:
        """End all holds on the ranks; return the ranks that were held.

        These ranks stay stopped until a run command.

        :raises CommandError: if none of the ranks is held.
        """
        return self._loop.do(lambda: self._view.release())

    def barrier(
        self, location: str, *, condition: str = "", then: BarrierThen = "stop", times: int = 0
    ) -> Barrier:
        """Set a barrier: each rank is held at *location* until all of these ranks are there.

        It is a breakpoint with a job-wide number, whose deletion ends it. Ranks that end, crash, or
        are detached are not waited for any longer. *then* says what the others do when all have
        come: they stay stopped, or run on (``release``), but for ranks that have come by a step,
        which ends there. After *times* it is deleted; 0 means that it stays.

        :raises UsageError: if it can never be met.
        :raises CommandError: if no rank has the location.
        """
        return self._loop.call(
            lambda: self._view.barrier(location, condition=condition, then=then, times=times)
        )

    def lockstep(
        self,
        word: RunWord = "step",
        count: int = 1,
        *,
        argument: str = "",
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Lockstep:
        """Step the ranks together *count* times, or until their ways part.

        *word* is step, next, stepi, nexti, finish or until; *argument* is the location of until. A
        step is complete when all ranks have stopped. The ranks also end to step when one of them
        ends, is lost, or stops for another reason. *timeout_s* is for all steps together. With
        *settle_s*, they end when a rank has completed the step and no other has for that long: the
        others may wait in MPI for the ranks that have stopped.

        :raises UsageError: if ranks run, or stand at several places; for a number of steps that
            finish does not take; for an *argument* of another word than until.
        """
        return self._loop.call(
            lambda: self._view.lockstep(
                word, count, argument=argument, timeout_s=timeout_s, settle_s=settle_s
            )
        )

    def until_diverge(
        self,
        limit: int = MOST_STEPS,
        *,
        by: RunWord = "step",
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Lockstep:
        """Step the ranks together until their control flow parts, *limit* times at most.

        *by* is step, next, stepi or nexti. See :meth:`lockstep`.

        :raises UsageError: if *by* is another word.
        """
        return self._loop.call(
            lambda: self._view.until_diverge(limit, by=by, timeout_s=timeout_s, settle_s=settle_s)
        )

    def until_differ(
        self,
        expression: str,
        *,
        at: str = "",
        limit: int = MOST_HITS,
        recording: Path | str | None = None,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Differ:
        """Run the ranks from hit to hit of *at* until the values of *expression* differ.

        Without *at*, it is the line at which they are, and the values are compared there first.
        With a *recording*, the values of each rank are compared with its values there, hit by hit,
        which an earlier ``until_differ`` or ``evaluate`` has recorded. *limit* is the most hits. No
        breakpoint is left behind.

        :raises UsageError: if ranks run, or if they are at several places and none is given.
        :raises CommandError: if a rank does not have the place, no rank knows the expression there,
            or the recording has no value.
        """
        return self._loop.call(
            lambda: self._view.until_differ(
                expression,
                at=at,
                limit=limit,
                recording=recording,
                timeout_s=timeout_s,
                settle_s=settle_s,
            )
        )

    def backtrace(
        self,
        limit: int = 0,
        *,
        fold: bool = True,
        split: bool = False,
        threads: bool = False,
        offsets: bool = False,
        only_python: bool = False,
        tasks: bool = False,
        glue: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Answer:
        """List the *limit* innermost frames (outermost if negative, all for 0).

        With *fold*, frames inside an MPI call are left out. Ranks at the same place are one class,
        whose arguments show as ``…`` where they differ; with *split*, ranks with other arguments
        are another class. With *threads*, the answer has the stacks of all threads, without those
        of the MPI library itself if *fold* is set;
        :func:`~pgdb.frontend.show.text.thread_stacks.stacks_of` groups them by stack. With
        *offsets*, frames have their offset in their function.

        Python frames stand in the place of the interpreter's own C frames. C functions that match
        a regular expression of *glue* are left out between them. With *only_python*, the answer
        has the Python frames alone; with *tasks*, the stacks of asyncio's tasks, as for threads.
        """
        return self._loop.call(
            lambda: self._view.backtrace(
                limit,
                fold=fold,
                split=split,
                threads=threads,
                offsets=offsets,
                only_python=only_python,
                tasks=tasks,
                glue=glue,
                timeout_s=timeout_s,
            )
        )

    def why(self, *, look_only: bool = False, watch_s: float = WHY_S) -> Explanation:
        """Explain why ranks wait: for whom, for what, and the reason, for all ranks of the session.

        Ranks that were stopped from outside, and wait, run for *watch_s* seconds: only that shows
        whether their calls return. With *look_only* they stay stopped. Ranks that run are stopped
        for a moment.

        :raises UsageError: if *watch_s* is no time.
        """
        return self._loop.call(lambda: self._view.why(look_only=look_only, watch_s=watch_s))

    def progress(
        self, *, samples: int = PROGRESS_SAMPLES, every_s: float = PROGRESS_EVERY_S
    ) -> Progress:
        """Look several times at the MPI calls of ranks that run, and list who falls behind.

        A look stops a rank for a moment; between two looks the ranks run for *every_s* seconds.

        :raises UsageError: if a number is out of range, or no rank runs.
        """
        return self._loop.call(lambda: self._view.progress(samples=samples, every_s=every_s))

    def select_frame(self, line: str, *, timeout_s: float | None = None) -> Answer:
        """Run ``frame …``, ``up …`` or ``down …``; the answer is the frame selected then."""
        return self._loop.call(lambda: self._view.select_frame(line, timeout_s=timeout_s))

    def execute(
        self,
        line: str,
        *,
        stop: StopMode | None = None,
        members: str = "",
        timeout_s: float | None = None,
    ) -> Answer:
        """Run one GDB command as it is; a run command waits as :meth:`continue_` does.

        *stop* and *members* are for commands that make breakpoints; see :meth:`break_at`.

        :raises UsageError: for a command that has a call of its own or is refused.
        """
        return self._loop.call(
            lambda: self._view.execute(line, stop=stop, members=members, timeout_s=timeout_s)
        )

    def gather(self, said: Answer, directory: Path | str) -> list[GatheredFile]:
        """Copy the files that a command has written on the hosts to a directory of this host.

        *said* is the answer to that command, such as ``execute("gcore")``.

        :raises CommandError: if the directory cannot be made.
        """
        return self._loop.call(lambda: self._view.gather(said, directory))

    def list_source(self, line: str = "list", *, timeout_s: float | None = None) -> Answer:
        """Run a ``list``; the answer's ``listing`` has the lines where ranks stand and breakpoints
        are."""
        return self._loop.call(lambda: self._view.list_source(line, timeout_s=timeout_s))

    def python_source(self, lines: str = "", *, timeout_s: float | None = None) -> Answer:
        """List the source around the selected Python frame, or *lines*, such as ``10,20``; the
        answer's ``listing`` has the lines of the selected frames."""
        return self._loop.call(lambda: self._view.python_source(lines, timeout_s=timeout_s))

    def script(self, lines: Sequence[str], *, timeout_s: float | None = None) -> Answer:
        """Run several lines as one GDB script: ``define`` … ``end``, ``python`` … ``end``.

        :raises UsageError: for a line that would take ranks away from PGDB.
        """
        return self._loop.call(lambda: self._view.script(lines, timeout_s=timeout_s))

    def where(self, condition: str, *, timeout_s: float | None = None) -> RankSet:
        """Return the ranks on which *condition* holds now, see :meth:`evaluate_condition`.

        :raises CommandError: if it could be evaluated on no rank.
        """
        return self._loop.call(lambda: self._view.where(condition, timeout_s=timeout_s))

    def evaluate_condition(self, condition: str, *, timeout_s: float | None = None) -> Answer:
        """Evaluate a condition: 1 or 0 on each rank.

        It has the forms of :meth:`check_that`. The comparison of an array is true if all of its
        elements meet it; an array anywhere else is an error on its ranks.
        """
        return self._loop.call(
            lambda: self._view.evaluate_condition(condition, timeout_s=timeout_s)
        )

    def check_that(
        self, condition: str, *, running_ok: bool = False, timeout_s: float | None = None
    ) -> Check:
        """Check a condition: ``x > 0``, ``x same``, ``x increasing``, ``x in 0..1``.

        See :func:`~pgdb.frontend.analysis.conditions.parse` for all forms. Ranks that run or have
        ended fail the check, unless *running_ok* is set. Ranks that cannot evaluate it fail too.
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

        An earlier answer is the first side, other ranks are the second. Ranks of this session
        are compared by value, all else by rank, unless *by* says otherwise; see
        :func:`pgdb.frontend.analysis.comparing.compare`. *timeout_s* is for both sides together.

        :raises UsageError: if a tolerance is negative, ranks cannot be paired, or *other* is text.
        """
        return self._loop.call(
            lambda: self._view.compare(
                expression,
                self._other(other),
                by=by,
                tolerance=tolerance,
                absolute_tolerance=absolute_tolerance,
                timeout_s=timeout_s,
            )
        )

    def break_at(
        self,
        location: str = "",
        *,
        condition: str = "",
        temporary: bool = False,
        stop: StopMode | None = None,
        members: str = "",
    ) -> Answer:
        """Set a breakpoint; all ranks get the same job-wide number for it.

        *stop* names the ranks that stop with one that hits it, None for the mode of the session.
        *members* is a rank set such as ``@running`` that is read at each hit: other ranks run on.

        :raises UsageError: if *stop* is no mode.
        :raises RankSetError: if *members* is malformed.
        """
        return self._loop.call(
            lambda: self._view.break_at(
                location, condition=condition, temporary=temporary, stop=stop, members=members
            )
        )

    def watch(self, expression: str, *, stop: StopMode | None = None, members: str = "") -> Answer:
        """Stop when the value of *expression* changes; see :meth:`break_at`."""
        return self._loop.call(lambda: self._view.watch(expression, stop=stop, members=members))

    def change_breakpoints(
        self, command: str, numbers: Sequence[str] = (), argument: str = ""
    ) -> Answer:
        """Run ``delete``, ``disable``, ``enable``, ``condition`` or ``ignore`` on breakpoints.

        Without *numbers*, on all breakpoints.
        """
        return self._loop.call(lambda: self._view.change_breakpoints(command, numbers, argument))

    def delete(self, *numbers: int) -> Answer:
        """Delete breakpoints by their job-wide numbers, or all."""
        return self._loop.call(lambda: self._view.delete(*numbers))

    def breakpoint_commands(self, numbers: Sequence[str], commands: Sequence[str]) -> Answer:
        """Attach GDB commands to breakpoints, which run at each hit.

        GDB carries them out. Where a breakpoint has a set of ranks that is read at each hit, PGDB
        gives the commands to the GDBs of the ranks that stop there.
        """
        return self._loop.call(lambda: self._view.breakpoint_commands(numbers, commands))

    def breakpoints(self, *numbers: str, kind: BreakpointKind = "") -> Answer:
        """List the breakpoints: all, or some numbers and ranges (``"3"``, ``"5-7"``), or one
        kind."""
        return self._loop.call(lambda: self._view.breakpoints(*numbers, kind=kind))

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

        With *wait*, return when all of them have stopped or ended, or after *timeout_s* (None: no
        limit); ``missing.running`` names the ranks that still run. With *settle_s*, the wait also
        ends when a rank has stopped and no other has for that long. A notice names ranks that ran
        already, which the command does not reach.
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
        """Step *count* source lines, into functions; see :meth:`run`.

        :raises UsageError: if *count* is below 1.
        """
        return self._loop.call(lambda: self._view.step(count, timeout_s=timeout_s))

    def next(self, count: int = 1, *, timeout_s: float | None = None) -> Answer:
        """Step *count* source lines, over functions; see :meth:`run`.

        :raises UsageError: if *count* is below 1.
        """
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

    def still_running(self) -> tuple[StillRunning, ...]:
        """Return where those of the ranks are that run.

        For that, up to 64 ranks that ``continue`` has set running are interrupted for a moment, and
        run on. The place of a rank in a step is that from which the step began.
        """
        return self._loop.call(lambda: self._view.still_running())

    def interrupt(self, *, timeout_s: float | None = None) -> Answer:
        """Stop running ranks, and wait until they have stopped (10 s by default).

        A function that GDB has called in a rank (``print f()``) is cancelled.
        """
        return self._loop.call(lambda: self._view.interrupt(timeout_s=timeout_s))

    def reattach(self, *, timeout_s: float | None = None) -> Answer:
        """Reattach to ranks whose debugger is gone or hangs, or that were detached.

        They are stopped then, under a GDB of their own, with the session's breakpoints. Ranks whose
        debugger answers are left as they are. *timeout_s* is that of a start by default; work that
        is not complete by then goes on, and a notification reports its end.
        """
        return self._loop.call(lambda: self._view.reattach(timeout_s=timeout_s))

    def detach(self, *, timeout_s: float | None = None) -> Answer:
        """Detach from the ranks: they run on, without any breakpoint in them.

        If ranks cannot be detached within *timeout_s* (30 s by default), they are detached later,
        and a notification reports it.
        """
        return self._loop.call(lambda: self._view.detach(timeout_s=timeout_s))

    def kill(self, *, timeout_s: float | None = None) -> Answer:
        """End the processes of the ranks.

        Their GDBs answer from the file of the program then.
        """
        return self._loop.call(lambda: self._view.kill(timeout_s=timeout_s))


class _RanksElsewhere:
    """Ranks of another session, which has a loop of its own."""

    def __init__(self, ranks: Ranks) -> None:
        self._view = ranks._view
        self._loop = OtherLoop(ranks._loop)

    async def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Evaluate in the other loop."""
        return await self._loop.call(
            lambda: self._view.evaluate_in_full(expression, format=format, timeout_s=timeout_s)
        )


@checks_arguments
class SessionCalls(Ranks):
    """The calls on a session as a whole."""

    def __init__(self, loop: LoopThread, session: aio.Session) -> None:
        super().__init__(loop, session)
        self._session = session

    @property
    def mode(self) -> SessionMode:
        """The way in which the session was started."""
        return self._session.mode

    @property
    def description(self) -> str:
        """The job in words: launcher, or the command it was started with."""
        return self._session.description

    @property
    def mpi_version(self) -> str:
        """Name and version of the job's MPI."""
        return self._session.mpi_version

    @property
    def gdb_version(self) -> str:
        """Version of the GDB on the ranks."""
        return self._session.gdb_version

    @property
    def argv(self) -> tuple[str, ...]:
        """The launcher's line, as PGDB was given it; empty for an attached job."""
        return self._session.argv

    @property
    def core_files(self) -> dict[int, str]:
        """The core file of each rank; empty for a job."""
        return self._session.core_files

    @property
    def sets(self) -> NamedSets:
        """Named sets that programs define, for ``@name``: a dictionary of RankSets. A text that is
        assigned is read at once."""
        return self._session.sets

    @property
    def earlier_requests(self) -> int:
        """Number of the last request to ranks of an earlier launch; 0 without one."""
        return self._session.earlier_requests

    @property
    def is_recorded(self) -> bool:
        """Whether a recording answers, and there is no job."""
        return self._session.is_recorded

    @property
    def options(self) -> SessionOptions:
        """The options of the session."""
        return self._session.options

    @property
    def table(self) -> ProcTable:
        """The process and the host of each rank."""
        return self._session.table

    @property
    def kills_at_close(self) -> bool:
        """Whether :meth:`close` kills the job by default."""
        return self._session.kills_at_close

    @property
    def job_has_ended(self) -> bool:
        """Whether the launcher that PGDB has started has ended."""
        return self._session.job_has_ended

    @property
    def all_have_ended(self) -> bool:
        """Whether all ranks have ended."""
        return self._session.all_have_ended

    @property
    def leftover_output(self) -> Path | None:
        """The file for the output of a launched job that outlives the session, else None."""
        return self._session.leftover_output

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces, which collect values and let ranks run on."""
        return self._session.traces

    @property
    def last_breakpoint(self) -> int:
        """Number of the breakpoint that was made last, 0 before the first."""
        return self._session.last_breakpoint

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        """Return whether ranks have breakpoints that the user has set, or the one of a *number*."""
        return self._loop.do(lambda: self._session.has_breakpoints(ranks, number))

    @property
    def breakpoints_text(self) -> str:
        """The breakpoints of all ranks in the format of GDB's ``save breakpoints``; empty without
        any."""
        return self._session.breakpoints_text

    @property
    def hosts(self) -> dict[str, RankSet]:
        """The ranks of each host."""
        return self._session.hosts

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files, the front end first; empty without
        ``sbd``."""
        return self._session.deliveries

    @property
    def aggregators(self) -> int:
        """Number of aggregators that are in the tree."""
        return self._session.aggregators

    def parse_ranks(self, text: str) -> RankSet:
        """Read a rank set: ``0-3,8``, ``all``, ``@name``, with the algebra of :class:`RankSet`.

        :raises RankSetError: if it is malformed, empty, or names ranks the job does not have.
        """
        return self._loop.do(lambda: self._session.parse_ranks(text))

    def numbered_on(self, text: str) -> str:
        """Return a rank set with the session's numbers for ``1.0-3``, ranks 0 to 3 of world 1.

        :raises RankSetError: if a world of the session does not have these ranks.
        """
        return self._loop.do(lambda: self._session.numbered_on(text))

    @property
    def worlds(self) -> dict[int, RankSet]:
        """The ranks of each world by its number, in a session of several worlds; else empty."""
        return self._session.worlds

    def further_worlds(self) -> tuple[World, ...]:
        """Return the worlds of MPI_Comm_spawn that are not in the session.

        :raises UsageError: if PGDB does not know the job's launcher.
        """
        return self._loop.call(lambda: self._session.further_worlds())

    def add_worlds(self, which: int | Literal["all"] = "all", *, job: int | str = "") -> Answer:
        """Attach to the ranks of a further world, or of all; return where they have stopped.

        They are numbered on behind the ranks of the session, and get its breakpoints, settings and
        displays. *job* is another job instead, named as for :func:`attach`, such as one that has
        connected by MPI_Comm_connect. The session never kills its ranks at the end.

        :raises UsageError: if there is no such world, or it is in the session.
        :raises CommandError: if PGDB can attach to none of its ranks.
        """
        return self._loop.call(lambda: self._session.add_worlds(which, job=job))

    @property
    def held_for(self) -> Mapping[str, RankSet]:
        """The held ranks by the reason: ``hold`` for those of :meth:`hold`."""
        return self._session.held_for

    def named_set(self, name: str) -> RankSet | None:
        """Return a named set: one of :attr:`sets`, or an automatic one.

        Automatic are ``running``, ``stopped``, ``exited``, ``lost``, ``held``, ``error``, ``bp1`` …

        :raises RankSetError: for ``world1``, if the session does not have world 1.
        """
        return self._loop.do(lambda: self._session.named_set(name))

    def recall(self, answer: Answer, ranks: RankSet, *, timeout_s: float | None = None) -> Answer:
        """Ask *ranks* for their part of an earlier *answer* in full, with all addresses.

        Ranks whose answer is not kept any longer (each aggregator keeps the last ones) are in
        ``missing.lost``.

        :raises UsageError: for more ranks than can be shown one by one.
        """
        return self._loop.call(lambda: self._session.recall(answer, ranks, timeout_s=timeout_s))

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        """The barriers by number, without those that are deleted."""
        return self._session.barriers

    def wait_barrier(self, number: int, *, met: int = 1, timeout_s: float | None = None) -> Barrier:
        """Wait until a barrier was met *met* times in all, and return it.

        It also returns after *timeout_s*, when the barrier is deleted, and when no rank that could
        come runs, or all that run seem to wait for held ranks, be they held at the barrier or by
        :meth:`RankView.hold`; its ``absent`` says so.

        :raises UsageError: if there was no such barrier.
        """
        return self._loop.call(
            lambda: self._session.wait_barrier(number, met=met, timeout_s=timeout_s)
        )

    def set_stop_on_report(self, is_on: bool) -> Answer:
        """Make the reports of sanitizers stop ranks, or not."""
        return self._loop.call(lambda: self._session.set_stop_on_report(is_on))

    def set_stop_before_death(self, is_on: bool) -> Answer | None:
        """Make or delete the breakpoint of ``catch death`` on all ranks; None if that is done."""
        return self._loop.call(lambda: self._session.set_stop_before_death(is_on))

    def save(self, path: Path | str) -> Written:
        """Write a recording to a file, which :func:`pgdb.replay` and ``pgdb replay`` open without
        the job.

        It has the requests and answers of the session, as far as there was room (64 MiB), and in
        full what answers have kept back.

        :raises CommandError: if it cannot be written, or something else has that name.
        """
        return self._loop.call(lambda: self._session.save(path))
