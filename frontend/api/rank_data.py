"""A view on the data of some ranks of a session.

:class:`~pgdb.frontend.api.rank_view.RankView` adds the calls that do more than read data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Arrays, read_arrays
from pgdb.frontend.analysis.call_paths import TreeBy
from pgdb.frontend.analysis.histogram import bin_ends
from pgdb.frontend.analysis.trace_tables import TraceData, TraceTable, read_data, read_table
from pgdb.frontend.analysis.why.worlds import in_session
from pgdb.frontend.api import verdicts
from pgdb.frontend.api.argument_types import checks_arguments
from pgdb.frontend.store.array_files import FORMATS, write_arrays
from pgdb.frontend.system import deadline
from pgdb.frontend.system.user_files import check_place, check_suffix
from pgdb.frontend.system.workers import with_file
from pgdb.mpi_calls import MOST_RECENT
from pgdb.overlay.breakpoint_operations import StopTrace
from pgdb.overlay.messages import (
    Explore,
    ListMpiCalls,
    ListRecordedCalls,
    MachineQuery,
    Reduce,
)
from pgdb.overlay.query_options import QueryOptions
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.analysis.calltree import CallTree
    from pgdb.frontend.api.session import Session

STAT_LIMIT_BYTES = 1 << 30
"""Largest array of one rank that is summed up."""


@checks_arguments
class RankData:
    """The ranks of a view, and the calls that read their stacks, values, structures and arrays."""

    def __init__(self, session: Session, ranks: RankSet) -> None:
        self._session = session
        self._ranks = ranks

    @property
    def set(self) -> RankSet:
        """The ranks of this view."""
        return self._ranks

    async def evaluate(
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
        return await verdicts.evaluate_printed(
            self._session,
            expression,
            self.set,
            format=format,
            timeout_s=timeout_s,
            of_ended=of_ended,
        )

    async def mpi_calls(
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
        operation = ListMpiCalls(threads=threads, loops=loops, arrived=arrived)
        answer = await self._session.ask("mpi calls", operation, self.set, timeout_s=timeout_s)
        return replace(answer, classes=in_session(answer.classes, self._session.worlds))

    async def recent_mpi_calls(self, last: int = 10, *, timeout_s: float | None = None) -> Answer:
        """List the *last* MPI calls of each thread, from the recorder of each rank, which may run.

        The answers are :class:`~pgdb.mpi_calls.MpiCallStatus` with ``recent``; a rank without the
        recorder answers with an error.

        :raises UsageError: if the recorder keeps fewer calls.
        """
        if not 1 <= last <= MOST_RECENT:
            raise UsageError(
                f"{last} calls cannot be listed: the recorder keeps {MOST_RECENT} of each thread"
            )
        answer = await self._session.ask(
            "mpi calls", ListRecordedCalls(last=last), self.set, timeout_s=timeout_s
        )
        return replace(answer, classes=in_session(answer.classes, self._session.worlds))

    async def tree(
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
        # A method that few sessions call brings its modules: every start would pay for them.
        from pgdb.frontend.api.sampling import take

        found = await take(
            self._session,
            self.set,
            by=by,
            threads=threads,
            samples=samples,
            every_s=every_s,
            fold=fold,
            tasks=tasks,
        )
        return found.tree

    async def evaluate_in_full(
        self, expression: str, *, format: str = "", timeout_s: float | None = None
    ) -> Answer:
        """Print the value of *expression*, each one however many different ones there are.

        :meth:`evaluate` sums very many different values up, and has only the part of a long value
        that GDB prints. Here such a value has the whole beside that text. For a very long array of
        numbers in a structure the whole has a hash of the elements; :meth:`array` reads them.
        """
        with deadline.within(timeout_s):
            answer = await verdicts.evaluate(self._session, expression, self.set, format=format)
            return await verdicts.look(self._session, answer)

    async def locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected frame."""
        return await verdicts.variables(self._session, "locals", self.set, timeout_s)

    async def arguments(self, *, timeout_s: float | None = None) -> Answer:
        """List the arguments of the selected frame."""
        return await verdicts.variables(self._session, "arguments", self.set, timeout_s)

    async def python_locals(self, *, timeout_s: float | None = None) -> Answer:
        """List the local variables of the selected Python frame."""
        return await verdicts.variables(self._session, "python", self.set, timeout_s)

    async def stat(
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
        command = f"stat {expression}"
        reduce = Reduce(expression=expression, limit_bytes=limit_bytes)
        answer = await self._session.ask(command, reduce, self.set, timeout_s=timeout_s)
        column = next((each.columns[0] for each in answer.classes if each.columns), None)
        if not bins or column is None or column.low is None or column.high is None:
            return answer
        low, high, count = bin_ends(column, bins)
        reduce = Reduce(
            expression=expression,
            low=low,
            high=high,
            bins=count,
            limit_bytes=limit_bytes,
            of_look=answer.request_id if reduce.reads_kept_values else 0,
        )
        return await self._session.ask(command, reduce, self.set, timeout_s=timeout_s)

    async def machine_query(
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
        query = MachineQuery(
            command=command, arguments=tuple(arguments), options=options or QueryOptions()
        )
        line = " ".join((command, *query.options.words, *arguments))
        return await self._session.ask(line, query, self.set, timeout_s=timeout_s, of_ended=True)

    async def explore(
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
        options = self._session.options
        operation = Explore(
            expression=expression,
            path=tuple(path),
            depth=options.varprint_depth if depth is None else depth,
            most=options.varprint_children if children is None else children,
        )
        line = f"varprint {'/'.join((expression, *path))}"
        return await self._session.ask(
            line, operation, self.set, timeout_s=timeout_s, of_ended=True
        )

    async def children(
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
        operation = Explore(
            expression=expression, path=tuple(path), start=start, most=count, children_only=True
        )
        line = f"children {'/'.join((expression, *path))}"
        return await self._session.ask(
            line, operation, self.set, timeout_s=timeout_s, of_ended=True
        )

    async def array(self, expression: str, *, timeout_s: float | None = None) -> Arrays:
        """Read numbers, or arrays of numbers such as ``p[0]@1000``, from memory.

        The result names ranks that cannot read them. *timeout_s* is for all pieces together.

        :raises CommandError: if all together are more than the option ``array_limit_bytes``.
        """
        with deadline.within(timeout_s):
            return await read_arrays(
                self._session.ask,
                expression,
                self.set,
                limit_bytes=self._session.options.array_limit_bytes,
            )

    async def dump(
        self, expression: str, path: Path | str, *, timeout_s: float | None = None
    ) -> Arrays:
        """Read numbers as :meth:`array` does and write them to a file; return the numbers.

        The suffix selects the format, see :func:`~pgdb.frontend.store.array_files.write_arrays`.
        Without numbers from any rank, no file is written.

        :raises UsageError: if the suffix is unknown.
        :raises CommandError: if the file cannot be written, or the numbers are too many.
        """
        target = Path(path)
        check_suffix(target, FORMATS)
        with deadline.within(timeout_s):
            await with_file(target, lambda: check_place(target))
            arrays = await self.array(expression)
            if arrays.by_rank:
                size_bytes = arrays.size_bytes
                await with_file(target, lambda: write_arrays(arrays, target), size_bytes=size_bytes)
        return arrays

    # -- traces ------------------------------------------------------------------------------

    async def trace(
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
        traces = self._session.all_traces
        made = traces.new(place, expressions, condition, every, first, self.set)
        try:
            answer = await self._session.ask(
                made.line, made.operation, self.set, timeout_s=timeout_s
            )
        except PgdbError:
            traces.take_back(made)
            raise
        failed = RankSet.union(each.ranks for each in answer.errors)
        if placed := self.set - failed - answer.missing.lost:
            traces.keep(replace(made, ranks=placed))
        else:
            traces.take_back(made)
        return answer

    async def untrace(self, *numbers: int, timeout_s: float | None = None) -> Answer:
        """End traces and forget their values: those with *numbers*, or all.

        :raises UsageError: if there is no trace of a number, or none at all.
        """
        traces = self._session.all_traces
        if not numbers and not len(traces):
            raise UsageError("there is no trace; 'trace LOCATION EXPR' makes one")
        ended = [traces.find(each) for each in numbers] or list(traces)
        answer = None
        for each in ended:
            answer = await self._session.ask(
                f"untrace {each.number}",
                StopTrace(number=each.number),
                self.set & each.ranks,
                timeout_s=timeout_s,
                of_ended=True,
            )
            traces.keep(replace(each, ranks=each.ranks - self.set))
        assert answer is not None
        return answer

    async def trace_table(
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
        found = self._session.all_traces.find(number)
        if count < 0 or (begin is not None and begin < 0):
            raise UsageError(
                "rows of a trace are chosen by begin (0 for the first row) and count, both 0 or "
                "more; without begin they are the last ones"
            )
        with deadline.within(timeout_s):
            return await read_table(
                self._session.ask,
                number,
                found.expressions,
                self.set & found.ranks,
                begin=begin,
                count=count,
            )

    async def trace_data(self, number: int, *, timeout_s: float | None = None) -> TraceData:
        """Return all values of a trace, for each rank; see :meth:`TraceData.to_pandas`.

        :raises UsageError: if there is no such trace.
        """
        found = self._session.all_traces.find(number)
        with deadline.within(timeout_s):
            ranks = self.set & found.ranks
            return await read_data(self._session.ask, number, found.expressions, ranks)
