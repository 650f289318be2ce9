"""Commands that the front end carries out on the user's host: shell, make, pipe, edit, cd."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pgdb.errors import CommandError, PgdbError, SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import LateAnswer, Notification, RankEvents
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, no_argument
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.system.host_commands import HostResult, run_in_shell
from pgdb.frontend.system.typed_names import change_directory, directory, typed_path
from pgdb.frontend.system.workers import with_file
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stack, Text

if TYPE_CHECKING:
    from pgdb.frontend.api.rank_view import RankView

_DEFAULT_EDITOR = "vi"
_CODE_S = 5.0
"""Timeout for the GDBs that get the exit status, in seconds."""
_DIVERTED = (RankEvents, LateAnswer)
"""The notifications that belong to the output of a command."""
_ABSOLUTE = "with filename-display absolute"
_PLACE = pattern(r'Line (\d+) of "(.+)"(?: |\n|$)')


@COMMANDS.command(
    "shell",
    group=Group.SESSION,
    usage="shell [COMMAND]",
    summary="run a command of the shell on this host",
    aliases=("!",),
    completes=Completes.FILES,
    is_raw=True,
)
async def _shell(call: Call) -> Outcome:
    """Run COMMAND with your shell ($SHELL), here and not on the hosts of the job.

    Without COMMAND it is an interactive shell. The command has the terminal until it ends, and
    Ctrl-C is for it alone. Its exit status is then $_shell_exitcode in the GDBs of all ranks that
    are stopped or have ended, or the signal that has ended it is $_shell_exitsignal; the other of
    the two is void.
    """
    return await _run(call, call.argument)


@COMMANDS.command(
    "make",
    group=Group.SESSION,
    usage="make [ARGUMENT…]",
    summary="run make on this host",
    completes=Completes.FILES,
    is_raw=True,
)
async def _make(call: Call) -> Outcome:
    """Run 'make' in the current directory of this host, as 'shell make' does."""
    return await _run(call, f"make {call.argument}".rstrip())


@COMMANDS.command(
    "cd",
    group=Group.SESSION,
    usage="cd [DIR]",
    summary="change the working directory, on this host and of the GDBs",
    completes=Completes.FILES,
)
async def _cd(call: Call) -> Outcome:
    """Go to another directory: names of files that are typed count from there, and 'shell', 'make',
    'pipe' and 'edit' run there. The GDBs of the ranks go there as well.

    Without DIR it is the home directory. The directory of the job stays: 'restart' launches it
    where 'pgdb' was started. 'proc SET cd DIR' is for the GDBs of SET alone. Where only the hosts
    of the ranks have DIR, their GDBs go there, and a note says so.
    """
    path = typed_path(call.argument or "~").absolute()
    if call.ranks != call.workspace.focus:
        return await call.view.execute_plain(call.line)
    is_here = await with_file(path, path.is_dir)
    if is_here:
        if not os.access(path, os.X_OK):
            raise CommandError(f"cd: {path}: permission denied")
        change_directory(Path(os.path.normpath(path)))
    try:
        answer = await call.view.execute_plain(f"cd {directory()}" if is_here else call.line)
    except SessionEndedError:
        if is_here:
            return f"Working directory {directory()}."
        raise CommandError(f"cd: there is no directory {path}") from None
    if is_here and not any(isinstance(each.record, Text) for each in answer.classes):
        call.dispatcher.say(f"Working directory {directory()} on this host.")
    if not is_here and len(answer.errors) < len(answer.classes):
        call.session.note(
            f"there is no directory {path} on this host: names of files that are typed still count "
            f"from {directory()}"
        )
    return answer


@COMMANDS.command(
    "pwd",
    group=Group.SESSION,
    summary="show the working directory, of the GDBs and of this host",
)
async def _pwd(call: Call) -> Outcome:
    """Show the working directory of the GDBs, and that of this host where it is another one."""
    no_argument(call)
    text = f"Working directory {directory()}."
    try:
        answer = await call.view.execute_plain(call.line)
    except SessionEndedError:
        return text
    texts = {each.record.text.strip() for each in answer.classes if isinstance(each.record, Text)}
    if texts != {text}:
        call.dispatcher.say(f"{text.removesuffix('.')} on this host.")
    return answer


@COMMANDS.command(
    "pipe",
    group=Group.SESSION,
    usage="pipe COMMAND | SHELL-COMMAND",
    summary="send the output of a command to one of the shell",
    aliases=("|",),
    completes=Completes.COMMAND,
    is_raw=True,
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-d",
            value="DELIMITER",
            help="another word between the two, for a COMMAND with a '|'",
            needs="a delimiter",
            argument="delimiter",
            default="|",
            is_gdbs=True,
        ),
    ),
)
async def _pipe(call: Call, text: str, *, delimiter: str) -> Outcome:
    """Carry out COMMAND, and give its output to a command of the shell on this host.

    The output is whole: it is not cut to the width of the terminal. The stops of 'pipe continue |'
    and the like belong to it, the output of the job does not. Without COMMAND it is the last
    one again. The exit status of the SHELL-COMMAND is kept as 'shell' keeps it.
    """
    line, command = _parts(call, text, delimiter)
    dispatcher = call.dispatcher
    out = io.StringIO()
    try:
        with _captured(call, out):
            await dispatcher.run_on(line, call.ranks)
    except PgdbError:
        if out.getvalue():
            dispatcher.display.text(out.getvalue().removesuffix("\n"))
        raise
    return await _run(call, command, out.getvalue().encode("utf-8", "backslashreplace"))


@COMMANDS.command(
    "edit",
    group=Group.SESSION,
    usage="edit [LOCATION]",
    summary="open the source of the selected frame in an editor",
)
async def _edit(call: Call) -> Outcome:
    """Open the source file of the selected frame at its line, or that of LOCATION.

    LOCATION is FILE:LINE, FUNCTION or any other location of GDB's. The editor is $VISUAL, else
    $EDITOR, else vi; it gets '+LINE FILE'. Where the selected ranks differ, it is the place of the
    lowest one.
    """
    file, line = await (_place_of(call, call.argument) if call.argument else _selected(call))
    path = await _existing(file)
    words = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not words:
        if not os.isatty(0):
            raise UsageError(
                f"edit: {_DEFAULT_EDITOR} needs a terminal, and there is none; set EDITOR to a "
                "program that needs none, or use 'list'"
            )
        words = _DEFAULT_EDITOR
    return await _run(call, f"{words} +{line} {shlex.quote(str(path))}")


# -- places --------------------------------------------------------------------------------------


async def _selected(call: Call) -> tuple[str, int]:
    """Return file and line of the selected frame.

    :raises CommandError: if no rank shows one that has a source.
    """
    answer = await _one(call).select_frame("frame")
    record = _record(answer)
    if not isinstance(record, Stack):
        raise CommandError(f"edit: {_why(call, answer, 'there is no selected frame')}")
    frame = record.frames[0]
    file = frame.fullname or frame.file
    if not file:
        raise CommandError(
            f"edit: the selected frame, in {frame.function}, has no source; 'up' selects its "
            "caller, and 'edit FILE:LINE' opens any file"
        )
    return file, frame.line


async def _place_of(call: Call, location: str) -> tuple[str, int]:
    """Return file and line of a location, or of a file of this host.

    :raises CommandError: if GDB knows no line of it.
    """
    name, colon, number = location.rpartition(":")
    if colon and number.isdecimal() and os.path.isfile(typed_path(name)):
        return str(typed_path(name)), int(number)
    answer = await _one(call).execute_plain(f"{_ABSOLUTE} -- info line {location}")
    record = _record(answer)
    if isinstance(record, Text) and (match := _PLACE.search(record.text)):
        return match[2], int(match[1])
    if os.path.isfile(typed_path(location)):
        return str(typed_path(location)), 1
    raise CommandError(f"edit: {_why(call, answer, f'no line is known of {location!r}')}")


def _one(call: Call) -> RankView:
    """Return the view on the lowest selected rank that can answer."""
    ranks = call.ranks & call.session.state.stopped or call.ranks
    return call.session.ranks(RankSet([ranks.first]))


def _record(answer: Answer) -> object:
    """Return the record of an answer of one rank; None without one."""
    return next((each.filled for each in answer.classes if not each.is_error), None)


def _why(call: Call, answer: Answer, otherwise: str) -> str:
    """Return the reason why an answer has no place."""
    for each in answer.errors:
        if isinstance(each.filled, Failure):
            return each.filled.message
    if isinstance(record := _record(answer), Text) and record.text.strip():
        return record.text.strip()
    if answer.missing.running:
        return f"ranks [{call.ranks}] are running; 'interrupt' stops them"
    return "; ".join(call.session.state.absent(call.ranks)) or otherwise


async def _existing(file: str) -> Path:
    """Return the path of a source file on this host.

    :raises CommandError: if there is none.
    """
    path = typed_path(file).absolute()
    if not await with_file(path, path.is_file):
        raise CommandError(
            f"edit: there is no file {path} on this host; 'edit FILE:LINE' opens another"
        )
    return path


# -- running -------------------------------------------------------------------------------------


async def _run(call: Call, command: str, given: bytes | None = None) -> Outcome:
    """Run a command of the shell with the terminal, and keep its status."""
    dispatcher = call.dispatcher
    if call.background:
        command = f"{command} &"
    if "\0" in command:
        raise UsageError(f"{call.word}: a command cannot contain a NUL character")
    dispatcher.display.flush()
    is_captured = dispatcher.display.owns_output
    with dispatcher.terminal_lent():
        result = await run_in_shell(command, directory(), given=given, is_captured=is_captured)
    await _keep_status(call, result)
    if result.output:
        return result.output.decode("utf-8", "backslashreplace").removesuffix("\n")
    return None


async def _keep_status(call: Call, result: HostResult) -> None:
    """Set GDB's convenience variables of the status, in the GDBs that can be asked now."""
    session, workspace = call.session, call.workspace
    # A GDB stays when its rank has exited.
    ranks = (session.state.stopped | session.state.exited) - session.asked
    if session.is_recorded or session.has_ended or not ranks:
        return
    name, value = ("exitcode", result.code)
    if result.signal is not None:
        name, value = "exitsignal", result.signal
    before, workspace.shell_status = workspace.shell_status, name
    lines = [f"set $_shell_{name} = {value}"]
    if before not in ("", name):
        lines.append(f"set $_shell_{before} = (void) 0")
    with contextlib.suppress(PgdbError):
        for line in lines:
            await session.ranks(ranks).execute_plain(line, timeout_s=_CODE_S)


def _parts(call: Call, text: str, delimiter: str) -> tuple[str, str]:
    """Return the command of PGDB's and that of the shell, of ``pipe``.

    :raises UsageError: if one is missing.
    """
    usage = f"write '{call.word} COMMAND | SHELL-COMMAND'"
    line, found, command = text.partition(delimiter)
    if not found:
        raise UsageError(
            f"{call.word}: there is no {delimiter!r} before a command of the shell; {usage}"
        )
    if not command.strip():
        raise UsageError(f"{call.word}: the command of the shell is missing; {usage}")
    line = line.strip() or call.dispatcher.last_line
    if not line:
        raise UsageError(f"{call.word}: there is no last command to be carried out again; {usage}")
    return line, command.strip()


class _Captured(TextDisplay):
    """Text for another program; commands of the shell inside write to it too."""

    @property
    def owns_output(self) -> bool:
        return True


@contextlib.contextmanager
def _captured(call: Call, out: io.StringIO) -> Iterator[None]:
    """Have what commands show written to a string, whole, and the stops of ranks with it.

    The output of the job and notices go to the terminal, as in GDB.
    """
    dispatcher = call.dispatcher
    display, captured = dispatcher.display, _Captured(out)

    def take(notification: Notification) -> None:
        if isinstance(notification, _DIVERTED):
            captured.notify(notification)

    display.flush()
    before, display.diverted = display.diverted, _DIVERTED
    stop_listening = call.session.subscribe(take)
    dispatcher.display = captured
    try:
        yield
    finally:
        captured.flush()
        stop_listening()
        dispatcher.display, display.diverted = display, before
