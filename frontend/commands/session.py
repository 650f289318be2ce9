"""Commands about the session itself: help, settings, recordings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.options import POINTERS
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome
from pgdb.frontend.store.recorder import listing
from pgdb.frontend.store.settings import Settings, keep_settings, settings_path
from pgdb.frontend.system.durations import seconds
from pgdb.frontend.system.workers import with_file
from pgdb.frontend.transport.recording import recording_of


@COMMANDS.command(
    "help",
    group=Group.SESSION,
    usage="help [COMMAND]",
    summary="this list, or a command's help",
    aliases=("h",),
    completes=Completes.COMMAND,
)
async def _help(call: Call) -> Outcome:
    """Show the list of PGDB's commands, or the help of one; GDB's own help for GDB's commands."""
    if not call.argument:
        return (
            f"{COMMANDS.overview()}\n\n"
            "Every other command goes to the GDBs of the selected ranks, and what they say is\n"
            "merged. An empty line repeats the last command."
        )
    command = COMMANDS.find(gdb_commands.first_word(call.argument)) or COMMANDS.find(
        gdb_commands.resolve(call.argument)
    )
    if command is not None:
        return command.help
    # One GDB's help is as good as all.
    one = call.session[call.ranks.first] if call.ranks else None
    if one is None:
        raise UsageError(f"help: there is no command {call.argument!r}")
    return await one.execute_plain(call.line)


@COMMANDS.command(
    "set",
    group=Group.SESSION,
    usage="set [-keep] NAME VALUE",
    summary="settle, timeout, array-limit …; else GDB's",
)
async def _set(call: Call) -> Outcome:
    """Change a setting: settle SECONDS (how long a run command waits for further ranks once one
    has stopped), timeout SECONDS (for answers), stop-on-error on|off (interrupt the rest of a
    run when a rank gets a fatal signal), array-limit BYTES (what dump, plot and decompose read
    at most, on all ranks together; 4G is a size too), compare-pointers symbol|raw (raw: ranks
    whose pointers have other addresses are of other classes). Anything else, 'set var' above
    all, goes to GDB.

    With -keep it holds for later sessions at the prompt, too, unless their command line says
    otherwise; batch runs and scripts have what they are told alone.
    """
    is_kept = call.argument.split(" ")[0] == "-keep"
    if call.argument == "-keep":
        raise UsageError("set -keep needs a name and a value; 'help set' lists the names")
    name, _, value = call.argument.removeprefix("-keep" * is_kept).strip().partition(" ")
    change = _read_setting(name, value.strip())
    if change is None:
        if is_kept:
            raise UsageError(
                f"set -keep: {name!r} is no setting of PGDB's; one of GDB's is given to every "
                "session by --gdb-command 'set …'"
            )
        if gdb_commands.kind_of("set", call.line) is gdb_commands.Kind.REFUSED:
            raise UsageError(f"'{call.line}' is refused: PGDB needs that setting as it is")
        return await call.view.execute_plain(call.line)
    call.dispatcher.apply(change)
    if not is_kept:
        return None
    # Another session may hold the lock for a moment, and the home directory may be far away.
    path = settings_path()
    return f"{name}: {await with_file(path, lambda: keep_settings(path, change))}"


def _read_setting(name: str, value: str) -> Settings | None:
    """Return what is to be set, None for what is GDB's.

    :raises UsageError: if the value cannot be.
    """
    match name:
        case "settle":
            return Settings(settle_s=seconds(value, f"set {name}"))
        case "timeout":
            return Settings(timeout_s=seconds(value, f"set {name}"))
        case "stop-on-error":
            if value not in ("on", "off"):
                raise UsageError(f"set stop-on-error: {value!r} is neither on nor off")
            return Settings(stop_on_error=value == "on")
        case "compare-pointers":
            if value not in POINTERS:
                raise UsageError(f"compare-pointers {value!r} is none of {', '.join(POINTERS)}")
            return Settings(compare_pointers="raw" if value == "raw" else "symbol")
        case "array-limit":
            return Settings(array_limit_bytes=_bytes(name, value))
        case _:
            return None


@COMMANDS.command(
    "show", group=Group.SESSION, usage="show NAME", summary="settle, timeout …; else GDB's"
)
async def _show(call: Call) -> Outcome:
    """Show a setting of PGDB's (see set), or GDB's."""
    options = call.session.options
    match call.argument:
        case "settle":
            settle_s = call.workspace.settle_s
            return "settle: off" if settle_s is None else f"settle: {settle_s:g} s"
        case "timeout":
            return f"timeout: {options.timeout_s:g} s"
        case "stop-on-error":
            return f"stop-on-error: {'on' if options.stop_on_error else 'off'}"
        case "compare-pointers":
            return f"compare-pointers: {options.compare_pointers}"
        case "array-limit":
            return f"array-limit: {options.array_limit_bytes} bytes"
        case _:
            return await call.view.execute_plain(call.line)


@COMMANDS.command(
    "session",
    group=Group.SESSION,
    usage="session [save FILE]",
    summary="write a recording, to be looked at without the job",
)
async def _session(call: Call) -> Outcome:
    """Show what a recording of this session would have, or write one.

    'session save FILE' writes what was asked up to now and what was answered, where the ranks
    are, the sets and the answers that 'expand' and 'compare' know. 'pgdb replay FILE' opens it
    later, without the job and on another machine: bt, tree, print and all that looks at answers
    works there for what was asked here. It holds values of the program. A recording that has the
    name already is replaced, any other file is not.

    There is no 'session replay': a recording is opened by a pgdb of its own, since this one has a
    job or a recording already. Asked for it, it says how.
    """
    session = call.session
    word, _, name = call.argument.partition(" ")
    name = _file_name(name)
    if word == "replay":
        raise UsageError("a recording is opened by a pgdb of its own: pgdb replay FILE")
    if word not in ("", "save") or (word == "save") != bool(name):
        raise UsageError(f"session: {call.argument!r} is not understood; write 'session save FILE'")
    if (recording := recording_of(session.transport)) is not None:
        if word:
            raise CommandError("session save: this is a recording already; copy its file")
        return recording.describe(whole=True)
    if not word:
        return _would_have(session)
    return (await session.save(Path(name))).text


def _file_name(text: str) -> str:
    """Return a file's name without the quotes that it may have been typed with.

    :raises UsageError: if a quote is not closed, or there is more than a name.
    """
    text = text.strip()
    if not set("\"'\\") & set(text):
        return text
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"session save {text}: {error}") from None
    if len(words) != 1 or not words[0]:
        raise UsageError(f"session save {text}: one name of a file is needed")
    return words[0]


def _would_have(session: Session) -> str:
    lines = listing(session.recorder.exchanges, session.set)
    if lines:
        lines.insert(0, "a recording would have the answers to:")
    else:
        lines.append("nothing was asked yet that a recording could answer")
    if session.options.log:
        lines.append(f"log: {session.options.log}")
    if session.options.record:
        lines.append(f"it is written to {session.options.record}, the whole at the end")
    return "\n".join(lines)


def _bytes(name: str, value: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGT]?)", value, re.IGNORECASE)
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ") if match else 0
    if size_bytes < 1:
        raise UsageError(f"set {name}: {value!r} is no number of bytes, such as 500000 or 4G")
    return size_bytes
