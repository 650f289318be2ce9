"""Commands and scripts of the user's, which GDB carries out in words that it understands."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pgdb.backend.gdb import fortran_arguments, fortran_elements
from pgdb.backend.gdb.breakpoints import Breakpoints
from pgdb.backend.gdb.command_kinds import computes, has_several_threads, records
from pgdb.backend.gdb.gpu_words import lists_kernels, with_invocations
from pgdb.backend.gdb.libraries import lists_libraries, with_marks
from pgdb.backend.gdb.mi import Result, console, without_records
from pgdb.backend.gdb.own_names import without_own_names
from pgdb.backend.gdb.python_commands import SELECTS
from pgdb.backend.gdb.python_console import PythonConsole
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.run_output import own_text
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.stacks import Stacks
from pgdb.backend.gdb.written_files import FileNames
from pgdb.gdb_carriers import levels
from pgdb.overlay.messages import Console
from pgdb.patterns import pattern
from pgdb.records import BreakpointsMade, Done, Failure, Record, Running, Text

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


class UserCommands:
    """Executor of the user's commands with one GDB."""

    def __init__(
        self,
        gdb: GdbSession,
        breakpoints: Breakpoints,
        stacks: Stacks,
        python: PythonConsole,
        files: FileNames,
        *,
        adopt_run: Callable[[int], None],
        show: Callable[[str], None],
    ) -> None:
        """Make it for one GDB; *adopt_run* and *show* are as in :class:`.operations.Operations`."""
        self._gdb = gdb
        self._breakpoints = breakpoints
        self._stacks = stacks
        self._python = python
        self._files = files
        self._adopt_run = adopt_run
        self._show = show

    async def perform(self, operation: Console, request_id: int, pid: int) -> Record:
        """Carry out a command of the user's, in the words that GDB needs for it."""
        command, display = operation.command, operation.display
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
            sent = plain
            if self._stacks.arguments.has_fortran:
                sent = await fortran_elements.with_elements(self._gdb, plain, is_command=True)
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

    async def script(self, lines: Sequence[str], request_id: int, pid: int) -> Record:
        """Carry out several lines as one script."""
        lines = self._files.filled_lines(lines, pid)
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

    async def _pass_numbers(self, display: int) -> None:
        """Make GDB pass over the numbers of the displays that only other ranks have."""
        displays = self._gdb.displays
        while displays.last < display - 1:
            displays.made((await self._gdb.console("display 0")).text)
            await self._gdb.console(f"undisplay {displays.last}")

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
        shown = await self._python.display_text(result.printed, pid)
        text = without_own_names(shown).rstrip("\n")
        if made := await self._breakpoints.take_made():
            return BreakpointsMade(breakpoints=made, text=text)
        return Text(text=text) if text else Done()
