"""Commands that read and write files of commands: source, save breakpoints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import breakpoint_file, gdb_commands
from pgdb.frontend.commands import blocks, bodies, written
from pgdb.frontend.commands.blocks import MOST_NESTED
from pgdb.frontend.commands.breakpoint_words import NoBreakpointError
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.frontend.system import deadline
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.user_files import read_regular, reason, write_atomically
from pgdb.frontend.system.workers import with_file

MOST_BYTES = 16 << 20
"""Maximum size of a file of commands."""


@COMMANDS.command(
    "source",
    group=Group.SESSION,
    usage="source FILE",
    summary="carry out the commands in a file",
    needs="a file of commands",
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-v",
            help="show each line behind +, as 'set trace-commands on' does",
            argument="is_shown",
            is_gdbs=True,
        ),
        Option(
            name="-s",
            help="have the GDBs look in the directories of their sources as well",
            argument="is_searched",
            is_gdbs=True,
        ),
    ),
)
async def _source(call: Call, argument: str, *, is_shown: bool, is_searched: bool) -> Outcome:
    """Carry out the commands in FILE, as if they were typed, on the selected ranks.

    FILE can have commands of PGDB's and GDB's, and what 'save breakpoints' has written. As in GDB,
    a command that fails ends it; a breakpoint that cannot be set does not.

    The GDBs of the ranks read FILE.py, and a file that is not on this host. Breakpoints that such a
    file makes are listed and numbered as all others.
    """
    name = one_name("source", argument)
    if not name:
        raise UsageError("'source' needs a file of commands")
    path = typed_path(name)
    if not path.exists():
        # A file on the hosts of the ranks, or with -s one in the directories of their sources.
        return await call.view.execute_plain(call.line)
    text = await with_file(path, lambda: _text_of(path, name))
    if path.suffix in (".py", ".scm"):
        if path.suffix == ".py":
            bodies.check_python(call.workspace.user, name, text)
        # The GDBs can have another working directory.
        flags = "-v " * is_shown + "-s " * is_searched
        there = f"source {flags}{path.absolute()}"
        if path.suffix == ".py":
            call.session.settings.note_file(there, text)
        answer = await call.view.execute_plain(there)
        await blocks.learn(call, text)
        return answer
    lines = breakpoint_file.for_ranks(text.removesuffix("\n").split("\n"))
    await _carry_out(call, name, lines, is_shown=is_shown)
    return None


def _text_of(path: Path, name: str) -> str:
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8")
    except OSError as error:
        raise CommandError(f"source {name}: {reason(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(f"source {name}: it is no text file") from None
    # As GDB reads them, lines can end with a carriage return.
    return text.replace("\r\n", "\n")


async def _carry_out(call: Call, name: str, lines: Sequence[str], *, is_shown: bool) -> None:
    """Carry out the lines of a file, on the ranks of the call as long as the focus stays.

    :raises CommandError: for the first line that fails, if it is not about breakpoints.
    """
    dispatcher, workspace = call.dispatcher, call.workspace
    if dispatcher.files_open >= MOST_NESTED:
        raise CommandError(f"source {name}: {MOST_NESTED} files of commands are open already")
    numbered = iter(enumerate(lines, 1))

    async def read(prompt: str) -> str | None:
        del prompt
        return next((line for _, line in numbered), None)

    focus = workspace.focus
    with dispatcher.reading_from(read):
        for number, text in numbered:
            dispatcher.check_interrupt(name, number)
            line = (await dispatcher.read_whole(text) or "").strip()
            if not line or line.startswith("#"):
                continue
            ranks = call.ranks if workspace.focus == focus else workspace.focus
            if is_shown and not workspace.interface.trace_commands:
                dispatcher.say(f"{'+' * dispatcher.files_open}{line}")
            try:
                gdb_commands.check_text(line)
                with deadline.renewed():
                    outcome = await dispatcher.run_on(line, ranks)
            except NoBreakpointError as error:
                dispatcher.show_error(error, line)
            except PgdbError as error:
                raise CommandError(f"{name}:{number}: {error}") from None
            else:
                if _has_failed(outcome):
                    raise CommandError(
                        f"{name}:{number}: '{line}' has failed; the lines behind it are left out"
                    )


def _has_failed(outcome: Outcome) -> bool:
    """Return whether a line has failed on all ranks, and is not about breakpoints."""
    if not isinstance(outcome, Answer) or not outcome.errors:
        return False
    is_about_breakpoints = gdb_commands.is_about_breakpoints(outcome.command)
    return len(outcome.errors) == len(outcome.classes) and not is_about_breakpoints


@COMMANDS.command(
    "generate-core-file",
    group=Group.DATA,
    usage="generate-core-file [FILE]",
    summary="write the memory of each rank to a core file",
    aliases=("gcore",),
)
async def _generate_core_file(call: Call) -> Outcome:
    """Write a core file of each selected rank on its host, and show its path.

    Several ranks write FILE.RANK. In FILE, {rank} or %r is the rank, {host} or %h the host, {pid}
    or %p the process id. Without FILE it is core.RANK.HOST.PID, or core.PID for one rank. Other
    commands of GDB's that write files have such names as well: 'dump', 'append', 'record save',
    'tsave', 'save tracepoints', 'save gdb-index', 'maint print symbols' …

    At a terminal PGDB asks before a file is written over. In batch runs and in files of commands,
    and with 'set confirm off', it is written over, as GDB does. 'gather' copies the files to this
    host.
    """
    return await written.write(call)


async def save_breakpoints(call: Call, argument: str) -> Outcome:
    """Write the breakpoints of all ranks to a file that 'source' reads.

    :raises CommandError: if the file cannot be written.
    """
    name = one_name("save breakpoints", argument)
    if not name:
        raise UsageError("'save breakpoints' needs a FILE")
    path = typed_path(name)
    text = call.session.breakpoints_text
    if not text:
        return "Nothing to save."

    def write() -> None:
        try:
            write_atomically(path, text.encode("utf-8"))
        except OSError as error:
            raise CommandError(f"save breakpoints {name}: {reason(error)}") from None

    await with_file(path, write)
    return f"Saved to file '{name}'."


def one_name(word: str, text: str) -> str:
    """Return a file's name without its quotes.

    :raises UsageError: if a quote is not closed, or there is more than a name.
    """
    text = text.strip()
    if not set("\"'\\") & set(text):
        return text
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{word} {text}: {error}") from None
    if len(words) != 1 or not words[0]:
        raise UsageError(f"{word} {text}: one name of a file is needed")
    return words[0]
