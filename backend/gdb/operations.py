"""The operations on one rank that neither set it running nor detach it, as GDB commands."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdb.backend.gdb import (
    absent_arguments,
    blocks,
    cpp_parts,
    expression_check,
    fortran_arguments,
    fortran_elements,
    full_values,
    machine_queries,
    queries,
    reduction,
    samples,
    scopes,
    stack_ends,
    traces,
    unset_bounds,
    viewed_frames,
)
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.death_points import CATCH
from pgdb.backend.gdb.python_breakpoints import CATCH as CATCH_PYTHON
from pgdb.backend.gdb.python_commands import with_file
from pgdb.backend.gdb.python_console import PythonConsole
from pgdb.backend.gdb.python_parts import is_python
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.user_commands import UserCommands
from pgdb.backend.gdb.written_files import FileNames
from pgdb.overlay.breakpoint_operations import CheckExpression, ListTrace, StartTrace, StopTrace
from pgdb.overlay.messages import (
    AdvanceBreakpoints,
    AnyOperation,
    Backtrace,
    BreakpointCommands,
    ChangeBreakpoints,
    Console,
    Evaluate,
    Explore,
    InsertBreakpoint,
    ListBreakpoints,
    ListMpiCalls,
    ListRecordedCalls,
    ListVariables,
    MachineQuery,
    ReadBlock,
    Reduce,
    Script,
    SelectFrame,
)
from pgdb.overlay.operations import ReadFile, SelectMpiCaller, TakeSample, trace_of
from pgdb.records import (
    BreakpointsMade,
    Done,
    Failure,
    Frame,
    Record,
    Stack,
    Variables,
)

if TYPE_CHECKING:
    from pgdb.backend.gdb.call_status import CallStatus


class Operations:
    """Executor of operations with one GDB."""

    def __init__(
        self,
        gdb: GdbSession,
        breakpoints: Breakpoints,
        stacks: Stacks,
        *,
        adopt_run: Callable[[int], None],
        show: Callable[[str], None],
        rank: int,
    ) -> None:
        """Make them for one GDB.

        :param adopt_run: takes the number of a request that has set the rank running unasked.
        :param show: takes text that belongs to no answer.
        """
        self._files = FileNames(rank)
        self._gdb = gdb
        self._breakpoints = breakpoints
        self._stacks = stacks
        self._trace_looks = traces.TraceLooks(gdb)
        self._python = PythonConsole(gdb, stacks, breakpoints)
        self._commands = UserCommands(
            gdb, breakpoints, stacks, self._python, self._files, adopt_run=adopt_run, show=show
        )

    @functools.cached_property
    def _calls(self) -> CallStatus:
        # A fifth of the modules of this package serve it, and most sessions never ask.
        from pgdb.backend.gdb.call_status import CallStatus

        stacks = self._stacks
        return CallStatus(self._gdb, stacks.python, stacks.called_names, stacks.image_of)

    async def display_text(self, text: str, pid: int) -> str:
        """Return what GDB has printed of displays as the user knows them."""
        return await self._python.display_text(text, pid)

    async def perform(self, operation: AnyOperation, request_id: int, pid: int) -> Record:
        """Carry out an operation on the rank with process *pid*; return its answer.

        :raises NeedsStopError: if GDB refuses because the rank runs.
        :raises GdbError: if GDB ends.
        """
        if (why := await viewed_frames.why_not(self._gdb, operation)) is not None:
            return why
        record = await self._answer_to(operation, request_id, pid)
        if not isinstance(record, Failure):
            return await self._python.unless_of_python(pid, operation) or record
        if isinstance(operation, Console | InsertBreakpoint):
            line = operation.command
            record = await fortran_elements.with_parser_words(self._gdb, line, record)
            if self._stacks.arguments.has_fortran:
                record = await fortran_elements.with_way_to_watch(self._gdb, line, record)
        elif isinstance(operation, ChangeBreakpoints) and operation.command == "condition":
            line = f"break LOCATION if {operation.argument}"
            record = await fortran_elements.with_parser_words(self._gdb, line, record)
        if self._stacks.arguments.has_fortran:
            record = await absent_arguments.with_cause(self._gdb, operation, record)
        if (reworded := await self._python.with_way(pid, operation, record)) is not None:
            return reworded
        return await scopes.with_scopes(self._gdb, operation, record)

    async def _answer_to(self, operation: AnyOperation, request_id: int, pid: int) -> Record:
        match operation:
            case Evaluate(expression=expression) if trace_of(expression) is not None:
                return Failure(message=traces.NO_VALUE)
            case Evaluate(expression=expression) if is_python(expression):
                return await self._python.values.evaluate(pid, operation)
            case Evaluate():
                return await self._evaluate(operation, pid)
            case Backtrace():
                stack = await self._stacks.backtrace(pid, operation)
                return await stack_ends.with_reason(self._gdb, stack)
            case ListMpiCalls():
                return await self._calls.look(pid, operation)
            case ListRecordedCalls(last=last):
                return await self._calls.recorded(pid, last)
            case TakeSample():
                return await samples.sample(self._gdb)
            case SelectMpiCaller():
                return await samples.select_caller(self._gdb)
            case SelectFrame(command=command):
                if (selected := await self._python.commands.select(pid, command)) is not None:
                    return selected
                shown, named = self._stacks.arguments, self._named(pid)
                record = await queries.select_frame(self._gdb, shown, command, named)
                if shown.lists_safely and isinstance(record, Stack):
                    return await fortran_arguments.with_whole_arguments(self._gdb, record)
                return record
            case ListVariables(which="python"):
                return await self._python.values.variables(pid, operation)
            case ListVariables() if self._stacks.python.is_python_selected:
                return await self._python.values.variables(pid, operation)
            case Reduce(expression=expression) if is_python(expression):
                return await self._python.values.numbers(pid, operation)
            case ReadBlock(expression=expression) if is_python(expression):
                return await self._python.values.block(pid, operation)
            case ListVariables():
                return await self._variables(operation, pid)
            case Reduce() if operation.reads_kept_values:
                return await self._trace_looks.numbers(operation, request_id)
            case ReadBlock() if operation.reads_kept_values:
                return await traces.block(self._gdb, operation)
            case CheckExpression(expression=expression):
                has_own = await self._with_elements(expression) != expression
                return await expression_check.check(self._gdb, operation, has_own_syntax=has_own)
            case StartTrace():
                return await traces.start(self._gdb, operation)
            case StopTrace():
                return await traces.stop(self._gdb, operation)
            case ListTrace():
                return await traces.rows(self._gdb, operation)
            case Reduce():
                return await self._numbers(operation, pid)
            case ReadBlock():
                return await self._block(operation, pid)
            case Console():
                return await self._commands.perform(operation, request_id, pid)
            case ReadFile():
                read = functools.partial(self._files.read, operation, pid, self._gdb.pid)
                return await asyncio.to_thread(read)
            case MachineQuery(command="python source", arguments=arguments):
                return await self._python.commands.source(pid, " ".join(arguments))
            case MachineQuery(command="python frame"):
                return await self._python.commands.frame(pid)
            case MachineQuery():
                return await machine_queries.ask(self._gdb, operation)
            case Explore():
                return await machine_queries.explore(self._gdb, operation)
            case Script(lines=lines):
                return await self._commands.script(lines, request_id, pid)
            case _:
                return await self._about_breakpoints(operation, pid)

    async def _evaluate(self, operation: Evaluate, pid: int) -> Record:
        """Return the value of an expression of the program's language."""
        expression = operation.expression
        if (why := await self._unset(expression)) is not None:
            return why
        operation = replace(operation, expression=await self._with_elements(expression))
        value = await full_values.evaluate(self._gdb, operation, pid)
        if (other := await self._with_parts(expression, value)) is not None:
            operation = replace(operation, expression=other)
            value = await full_values.evaluate(self._gdb, operation, pid)
        return unset_bounds.reworded(value, expression)

    async def _numbers(self, operation: Reduce, pid: int) -> Record:
        expression, limit_bytes = operation.expression, operation.limit_bytes
        if (why := await self._unset(expression)) is not None:
            return why
        found = await self._with_address(expression)
        if isinstance(found, Failure):
            return found
        numbers = await reduction.read_numbers(self._gdb, found, limit_bytes, pid)
        if (other := await self._with_parts(found, numbers)) is not None:
            numbers = await reduction.read_numbers(self._gdb, other, limit_bytes, pid)
        return unset_bounds.reworded(numbers, expression)

    async def _block(self, operation: ReadBlock, pid: int) -> Record:
        expression = operation.expression
        # The first part of an array is read first.
        if not operation.start and (why := await self._unset(expression)) is not None:
            return why
        found = await self._with_address(expression)
        if isinstance(found, Failure):
            return found
        operation = replace(operation, expression=found)
        block = await blocks.read_block(self._gdb, operation, pid)
        if (other := await self._with_parts(found, block)) is not None:
            operation = replace(operation, expression=other)
            block = await blocks.read_block(self._gdb, operation, pid)
        return unset_bounds.reworded(block, expression)

    async def _about_breakpoints(self, operation: AnyOperation, pid: int) -> Record:
        match operation:
            case InsertBreakpoint(command=command, first_number=first, holds=holds):
                if (match := CATCH.match(command)) is not None:
                    return await self._breakpoints.catch_death(match[1], match[2], first, pid)
                if (match := CATCH_PYTHON.match(command)) is not None:
                    return await self._breakpoints.catch_python(match[1], match[2], first, pid)
                command = await with_file(command, self._stacks, pid) if pid else command
                record = await self._breakpoints.insert(command, first, pid)
                if holds and isinstance(record, BreakpointsMade):
                    self._breakpoints.barriers.add(each.number for each in record.breakpoints)
                return record
            case ChangeBreakpoints(command=command, numbers=numbers, argument=argument):
                return await self._breakpoints.change(command, numbers, argument)
            case BreakpointCommands(numbers=numbers, commands=commands, judged=judged):
                commands = self._files.filled_lines(commands, pid)
                return await self._breakpoints.attach_commands(numbers, commands, judged)
            case AdvanceBreakpoints(last=last):
                await self._breakpoints.advance(last)
                return Done()
            case ListBreakpoints(numbers=numbers, kind=kind):
                return await self._breakpoints.list(numbers, kind)
            case _:
                raise AssertionError(f"{operation} is not carried out here")

    async def _with_elements(self, expression: str) -> str:
        """Return an expression in which GDB finds all parts of Fortran variables."""
        if not self._stacks.arguments.has_fortran:
            return expression
        return await fortran_elements.with_elements(self._gdb, expression)

    async def _with_parts(self, expression: str, record: Record) -> str | None:
        """Return an expression to evaluate again, in which GDB finds the parts of C++."""
        if not isinstance(record, Failure):
            return None
        return await cpp_parts.with_parts(self._gdb, expression, record)

    async def _with_address(self, expression: str) -> str | Failure:
        """Return an expression whose address GDB knows, for all parts of Fortran variables."""
        if not self._stacks.arguments.has_fortran:
            return expression
        return await fortran_elements.with_address(self._gdb, expression)

    async def _unset(self, expression: str) -> Failure | None:
        """Return why GDB must not look at an array of Fortran, None for anything else."""
        if not self._stacks.arguments.has_fortran:
            return None
        unset = await unset_bounds.unset_arrays(self._gdb, [expression])
        if expression not in unset:
            return None
        return Failure(message=unset_bounds.about(expression, unset[expression]))

    def _named(self, pid: int) -> queries.Named:
        def named(frame: Frame, payload: Mapping[str, Any]) -> Frame:
            return self._stacks.named(pid, frame, payload) or frame

        return named

    async def _variables(self, operation: ListVariables, pid: int) -> Record:
        listed: Record | None = None
        if self._stacks.arguments.has_fortran:
            listed = await unset_bounds.variables(self._gdb, operation.which)
        if listed is None:
            listed = await queries.variables(self._gdb, operation.which)
        listed = unset_bounds.reworded(listed)
        if isinstance(listed, Variables) and self._stacks.arguments.has_fortran:
            listed = await unset_bounds.with_strings(self._gdb, listed)
            if operation.which == "arguments":
                listed = await absent_arguments.with_marks(self._gdb, listed)
        if operation.most_elements and isinstance(listed, Variables):
            return await full_values.look_at_variables(self._gdb, operation, listed, pid)
        return listed
