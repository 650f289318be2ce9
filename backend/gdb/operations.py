"""The operations on one rank that neither set it running nor detach it, as GDB commands."""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pgdb.backend.gdb import (
    absent_arguments,
    blocks,
    cpp_parts,
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
from pgdb.backend.gdb.gpu_words import lists_kernels, with_invocations
from pgdb.backend.gdb.libraries import lists_libraries, with_marks
from pgdb.backend.gdb.mi import Result, console, without_records
from pgdb.backend.gdb.own_names import without_own_names
from pgdb.backend.gdb.python_breakpoints import CATCH as CATCH_PYTHON
from pgdb.backend.gdb.python_commands import SELECTS, with_file
from pgdb.backend.gdb.python_console import PythonConsole
from pgdb.backend.gdb.python_parts import is_python
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.run_output import own_text
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.written_files import FileNames
from pgdb.gdb_carriers import levels
from pgdb.overlay.breakpoint_operations import ListTrace, StartTrace, StopTrace
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
    Resume,
    Script,
    SelectFrame,
)
from pgdb.overlay.operations import ReadFile, SelectMpiCaller, TakeSample, trace_of
from pgdb.patterns import pattern
from pgdb.records import (
    BreakpointsMade,
    Done,
    Failure,
    Frame,
    Record,
    Running,
    Stack,
    Text,
    Variables,
)

if TYPE_CHECKING:
    from pgdb.backend.gdb.call_status import CallStatus

_RESUME = {
    "continue": "-exec-continue",
    "step": "-exec-step",
    "next": "-exec-next",
    "stepi": "-exec-step-instruction",
    "nexti": "-exec-next-instruction",
    "finish": "-exec-finish",
    "until": "-exec-until",
}


_PRINTS = pattern(
    r"(?:p|print|inspect|output|call|display|bt|backtrace|where|info (?:args|locals|display))\b"
)
_ASKS_ONCE = pattern(
    r"(?:p|print|inspect|output|x|bt|backtrace|where|info|show|ptype|whatis|list|l|disassemble|set"
    r"|frame|up|down)\b|thread(?: \d+)?\Z"
)
_SCRIPTED = pattern(r"(?:python|py|python-interactive|pi|guile|gu|source|define|commands)\b")
_RECORDS = pattern(r"rec(?:o(?:rd?)?)?(?:\s+(?:full|b\w*|pt)\b.*)?\s*\Z")
_RECORDS_ONE_THREAD = (
    "'record' is refused: the rank has several threads, and GDB can hang or end the rank when it "
    "records them"
)
_FULL_STACK = pattern(r"(?:bt|backtrace|where|info (?:s|stack))\b.*[ -]full\b")
_FRAME_ARGUMENTS_ARE = "print frame-arguments"
_FRAME_ARGUMENTS = pattern(r"(?:set|show) p(?:r|rint)? frame-ar")
_SHOWS_ARGUMENTS = (_FULL_STACK, _FRAME_ARGUMENTS)
# GDB says nothing to it at its own prompt, but shows the frame to a program that uses MI.
_SELECTS = pattern(r"sel[a-z-]*(?:\s|\Z)")
_ONLY_STOPS = pattern(r"(?:b|br|break|tb|tbreak|hbreak|thbreak)\b")


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
        self._adopt_run = adopt_run
        self._show = show
        self._python = PythonConsole(gdb, stacks, breakpoints)

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
            return record
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
            case Evaluate(expression=expression):
                if (why := await self._unset(expression)) is not None:
                    return why
                operation = replace(operation, expression=await self._with_elements(expression))
                value = await full_values.evaluate(self._gdb, operation, pid)
                if (other := await self._with_parts(expression, value)) is not None:
                    operation = replace(operation, expression=other)
                    value = await full_values.evaluate(self._gdb, operation, pid)
                return unset_bounds.reworded(value, expression)
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
            case Reduce(expression=expression, limit_bytes=limit) if operation.reads_kept_values:
                wanted = ReadBlock(expression=expression, limit_bytes=limit)
                return await traces.block(self._gdb, wanted)
            case ReadBlock() if operation.reads_kept_values:
                return await traces.block(self._gdb, operation)
            case StartTrace():
                return await traces.start(self._gdb, operation)
            case StopTrace():
                return await traces.stop(self._gdb, operation)
            case ListTrace():
                return await traces.rows(self._gdb, operation)
            case Reduce(expression=expression, limit_bytes=limit_bytes):
                if (why := await self._unset(expression)) is not None:
                    return why
                found = await self._with_address(expression)
                if isinstance(found, Failure):
                    return found
                numbers = await reduction.read_numbers(self._gdb, found, limit_bytes, pid)
                if (other := await self._with_parts(found, numbers)) is not None:
                    numbers = await reduction.read_numbers(self._gdb, other, limit_bytes, pid)
                return unset_bounds.reworded(numbers, expression)
            case ReadBlock(expression=expression, start=start):
                # The first part of an array is read first.
                if not start and (why := await self._unset(expression)) is not None:
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
            case Console(command=command, display=display):
                if records(command) and has_several_threads(pid):
                    return Failure(message=_RECORDS_ONE_THREAD)
                if (ours := await self._python.answer(command, pid)) is not None:
                    return ours
                watch = self._files.watch(command, pid, self._gdb.pid)
                command = self._files.filled(command, pid)
                if not computes(operation):
                    plain = await self._python.display(command, pid) if display else command
                    if isinstance(plain, Failure):
                        return plain
                    sent = await self._with_elements(plain, is_command=True)
                    self._gdb.displays.take(command, sent)
                    command = sent
                if self._stacks.arguments.has_fortran and _FULL_STACK.match(command):
                    if names := await fortran_arguments.unset_variables(self._gdb):
                        return Failure(message=fortran_arguments.about(command, names))
                is_about_arguments = any(each.match(command) for each in _SHOWS_ARGUMENTS)
                if is_about_arguments and self._stacks.arguments.lists_safely:
                    self._gdb.send(f"-gdb-set {_FRAME_ARGUMENTS_ARE} all")
                if display:
                    await self._pass_numbers(display)
                result = await self._carry_out(command, request_id)
                if display and result.kind == "done":
                    self._gdb.displays.made(result.text)
                if is_about_arguments and self._stacks.arguments.lists_safely:
                    # GDB itself would print the arguments at each stop.
                    self._gdb.send(f"-gdb-set {_FRAME_ARGUMENTS_ARE} scalars")
                if SELECTS.match(command):
                    self._stacks.python.forget_selection()
                if result.kind == "done" and _SELECTS.match(command):
                    result.text, result.complaints = "", []
                if '~"' in result.text or '&"' in result.text:
                    # As of "thread apply 1 info locals" (GDB 18.1).
                    text = without_records(result.text, levels(command))
                    result.change_text(self._gdb.take_notices(text))
                if result.text and lists_libraries(command):
                    result.change_text(await with_marks(self._gdb, result.text))
                if watch is not None and result.kind == "done":
                    if (written := watch.written(result.text + result.log)) is not None:
                        return written
                if result.text and lists_kernels(command):
                    result.change_text(with_invocations(result.text))
                answer = await self._text(result, request_id, pid)
                if isinstance(answer, Failure):
                    answer = self._files.with_own_file(command, answer, self._gdb.pid)
                return answer
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
                return await self._script(self._files.filled_lines(lines, pid), request_id, pid)
            case InsertBreakpoint(command=command, first_number=first):
                if (match := CATCH.match(command)) is not None:
                    return await self._breakpoints.catch_death(match[1], match[2], first, pid)
                if (match := CATCH_PYTHON.match(command)) is not None:
                    return await self._breakpoints.catch_python(match[1], match[2], first, pid)
                command = await with_file(command, self._stacks, pid) if pid else command
                return await self._breakpoints.insert(command, first, pid)
            case ChangeBreakpoints(command=command, numbers=numbers, argument=argument):
                return await self._breakpoints.change(command, numbers, argument)
            case BreakpointCommands(numbers=numbers, commands=commands):
                commands = self._files.filled_lines(commands, pid)
                return await self._breakpoints.attach_commands(numbers, commands)
            case AdvanceBreakpoints(last=last):
                await self._breakpoints.advance(last)
                return Done()
            case ListBreakpoints(numbers=numbers, kind=kind):
                return await self._breakpoints.list(numbers, kind)
            case _:
                raise AssertionError(f"{operation} is not carried out here")

    async def _pass_numbers(self, display: int) -> None:
        """Make GDB pass over the numbers of the displays that only other ranks have."""
        displays = self._gdb.displays
        while displays.last < display - 1:
            displays.made((await self._gdb.console("display 0")).text)
            await self._gdb.console(f"undisplay {displays.last}")

    async def _with_elements(self, text: str, *, is_command: bool = False) -> str:
        """Return an expression or a command in which GDB finds all parts of Fortran variables."""
        if not self._stacks.arguments.has_fortran:
            return text
        return await fortran_elements.with_elements(self._gdb, text, is_command=is_command)

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

    async def _script(self, lines: Sequence[str], request_id: int, pid: int) -> Record:
        # Sent line by line, a "commands" or "define" would swallow the MI commands behind it.
        # No other file can come in the place of a file without a name.
        descriptor = os.memfd_create("pgdb-script", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "w") as file:
            name = f"/proc/{os.getpid()}/fd/{descriptor}"
            file.write("\n".join(lines) + "\n")
            file.flush()
            result = await self._carry_out(f"source {name}", request_id)
            if result.kind == "error":
                # GDB names the end of a block in which a line fails, and no line of the block.
                first_or_last = rf"{re.escape(name)}:(?:1|{len(lines)}): "
                is_block = lines[-1].strip() == "end"
                message = re.sub(first_or_last if is_block else r"(?!)", "", result.message)
                message = re.sub(rf"{re.escape(name)}:(\d+): ", r"line \1: ", message)
                message = message.replace("Error in sourced command file:\n", "")
                return replace(failure(result), message=message)
        return await self._text(result, request_id, pid)

    async def _carry_out(self, command: str, request_id: int) -> Result:
        """Send a command in which code of the user's can set the rank running."""
        # The stop can come together with the result, and belongs to this run.
        self._gdb.when_running = lambda: self._adopt_run(request_id)
        try:
            result = await self._gdb.send(console(command))
        finally:
            self._gdb.when_running = lambda: None
        if result.kind == "running":
            # The code goes on when the rank stops, and its text belongs to no command.
            rest = self._gdb.rest_of_code = self._gdb.send(console("echo"))
            rest.add_done_callback(self._show_rest)
        return result

    def _show_rest(self, done: asyncio.Future[Result]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._show(own_text(done.result().text))

    async def _text(self, result: Result, request_id: int, pid: int) -> Record:
        if result.kind == "running":
            self._show(result.printed)
            return Running(run=request_id)
        if result.kind == "error":
            return failure(result)
        shown = await self.display_text(result.printed, pid)
        text = without_own_names(shown).rstrip("\n")
        if made := await self._breakpoints.take_made():
            return BreakpointsMade(breakpoints=made, text=text)
        return Text(text=text) if text else Done()


def prints_values(operation: AnyOperation) -> bool:
    """Return whether an operation makes GDB print values of variables, which can be of any size.

    The values in stacks have a limit of their own.
    """
    if isinstance(operation, Console):
        return not operation.run and _PRINTS.match(operation.command) is not None
    return isinstance(operation, Evaluate | SelectFrame | ListVariables)


def records(command: str) -> bool:
    """Return whether a command begins to record the execution of the rank."""
    return _RECORDS.match(command) is not None


def has_several_threads(pid: int) -> bool:
    """Return whether a process has more than one thread; False if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def computes(operation: AnyOperation) -> bool:
    """Return whether an operation makes GDB carry out code of the user's, which can have no end."""
    if isinstance(operation, Console):
        is_code = operation.is_user_defined or _SCRIPTED.match(operation.command) is not None
        return is_code and not operation.run
    return isinstance(operation, Script)


def prints_unasked(operation: AnyOperation) -> bool:
    """Return whether GDB may print values by itself after an operation, such as at a later stop."""
    match operation:
        case Console(command=command):
            return _ASKS_ONCE.match(command) is None
        case InsertBreakpoint(command=command):
            return _ONLY_STOPS.match(command) is None
        case _:
            return isinstance(operation, Script | BreakpointCommands)


def prints_at_stops(operation: AnyOperation) -> bool:
    """Return whether an operation can make GDB's own scripts print values at a later stop."""
    if isinstance(operation, Console):
        return _SCRIPTED.match(operation.command) is not None
    return isinstance(operation, Script | BreakpointCommands)


def run_command(operation: Resume | Console) -> str:
    """Return the MI command that sets the rank running."""
    if isinstance(operation, Console):
        mi, word, argument = "", operation.command, ""
    else:
        word, argument = operation.command, operation.argument
        mi = _RESUME.get(word, "")
    if mi and not argument:
        return mi
    # In the foreground GDB would read nothing until the rank has stopped: neither an interrupt nor
    # the end of its input.
    line = f"{word} {argument}".strip().removesuffix("&").rstrip()
    return console(f"{line} &")
