"""Commands about the session itself: help, settings, recordings."""

from __future__ import annotations

import re
import textwrap

from msgspec.structs import replace

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.api import gdb_commands, setting_changes
from pgdb.frontend.api.options import CHANGEABLE, INTERFACE_SETTINGS, SETTLE, find_changeable
from pgdb.frontend.api.session import Session
from pgdb.frontend.api.setting import Setting
from pgdb.frontend.commands.bodies import is_args
from pgdb.frontend.commands.command_files import one_name
from pgdb.frontend.commands.interface_settings import in_words_of_ours, without_effect
from pgdb.frontend.commands.options import WIDTH, Option, Rest
from pgdb.frontend.commands.restarting import set_args, show_args
from pgdb.frontend.commands.table import COMMANDS, Call, Command, Completes, Group, Outcome
from pgdb.frontend.commands.transcripts import (
    is_logging,
    set_logging,
    show_commands,
    show_logging,
)
from pgdb.frontend.commands.value_history import line_for_last_values
from pgdb.frontend.store.recorder import listing
from pgdb.frontend.store.settings import Settings, keep_settings, settings_path
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.workers import with_file
from pgdb.frontend.transport.recording import recording_of
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Text

_LIST = pattern(r"^List of [\w -]+ subcommands:\n[\s\S]*", re.M)
_PARTS = {
    "info": ("barriers", "sbd", "stack depth", "traces", "win", "worlds"),
    "catch": ("death", "py-exception"),
    "list": (
        *("features", "target features", "thread groups", "changed registers"),
        *("register names", "symbol lines", "locals", "stack arguments"),
    ),
}
"""The parts of commands of GDB's that are PGDB's, and that the help of the command describes."""


@COMMANDS.command(
    "help",
    group=Group.SESSION,
    usage="help [COMMAND]",
    summary="show this list, or the help of a command",
    aliases=("h",),
    completes=Completes.COMMAND,
)
async def _help(call: Call) -> Outcome:
    """Show the list of PGDB's commands, or the help of one; GDB's own help for GDB's commands."""
    if not call.argument:
        return (
            f"{COMMANDS.overview()}\n\n"
            "Every other command goes to the GDBs of the selected ranks, and PGDB merges their\n"
            "answers. An empty line repeats the last command."
        )
    user = call.workspace.user
    if (own := user.get(call.argument)) is not None and own.is_ours:
        return own.help
    if (meant := user.alias(call.argument)) is not None:
        call.dispatcher.say(f"alias {call.argument} = {meant}")
        word = gdb_commands.first_word(meant)
        return await _help(replace(call, argument=word, line=f"help {word}"))
    first = gdb_commands.first_word(call.argument)
    command = COMMANDS.find(first) or COMMANDS.find(gdb_commands.resolve(call.argument))
    rest = call.argument[len(first) :].strip()
    if command is not None and command.word in ("set", "show"):
        setting = find_changeable(rest)
        if setting is not None:
            return _setting_text(setting)
    # All GDBs have the same help, and those of live ranks certainly answer.
    ranks = (call.ranks & call.session.state.live) or call.ranks
    if command is not None and rest and _is_part(command, rest):
        return command.help
    if command is not None and not (rest and command.word in gdb_commands.KINDS):
        listed = await _subcommands(call.session, command.word, ranks)
        return "\n\n".join(filter(None, (command.help, listed)))
    if not ranks:
        raise UsageError(f"help: there is no command {call.argument!r}")
    if "user-defined".startswith(first) and len(first) > 2:
        if summaries := user.summaries:
            text = f"User-defined commands that PGDB carries out:\n\n{summaries}\n"
            call.dispatcher.say(text)
    elif "aliases".startswith(first) and len(first) > 1 and (summaries := user.alias_summaries):
        call.dispatcher.say(f"Aliases that PGDB carries out:\n\n{summaries}\n")
    return await call.session[ranks.first].execute_plain(call.line)


def _is_part(command: Command, rest: str) -> bool:
    """Return whether *rest* names a part of a command that PGDB adds to one of GDB's."""
    parts = _PARTS.get(command.word, ())
    return any(each.startswith(rest) and len(rest) > 2 for each in parts)


async def _subcommands(session: Session, word: str, ranks: RankSet) -> str:
    """Return GDB's list of the subcommands of a command of ours that GDB has as well."""
    if word not in gdb_commands.KINDS or not ranks:
        return ""
    try:
        answer = await session[ranks.first].execute_plain(f"help {word}")
    except PgdbError:
        return ""  # a recording has no GDB
    for each in answer.classes:
        if isinstance(each.record, Text) and (match := _LIST.search(each.record.text)):
            return match[0].rstrip()
    return ""


# GDB's settings for a program that GDB starts, with the length of the shortest abbreviation.
_OF_STARTS = {
    "environment": 2,
    "cwd": 2,
    "exec-wrapper": 6,
    "startup-with-shell": 4,
    "disable-randomization": 9,
    "inferior-tty": 9,
}


def _is_of_starts(name: str) -> bool:
    return any(each.startswith(name) and len(name) >= least for each, least in _OF_STARTS.items())


def _is_of_overloads(name: str) -> bool:
    """Return whether a setting is ``multiple-symbols``, which GDB's MI takes for ``all``."""
    return "multiple-symbols".startswith(name) and len(name) > 1


def _settings_text() -> str:
    """Return the list of the settings for the help of ``set``."""
    lines = []
    for each in CHANGEABLE.values():
        lines.append(_setting_text(each))
    return "\n".join(lines)


def _setting_text(setting: Setting) -> str:
    value = setting.value or "|".join(setting.choices) or "on|off"
    text = f"{setting.name} {value}"
    return textwrap.fill(
        setting.help,
        WIDTH,
        initial_indent=f"{text:<30}",
        subsequent_indent=" " * 30,
    )


@COMMANDS.command(
    "set",
    group=Group.SESSION,
    usage="set NAME VALUE",
    summary="change a setting of PGDB or GDB",
    completes=Completes.SETTING,
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-keep",
            help="keep the value for later sessions at the prompt as well; their command lines "
            "precede it, and batch runs and scripts ignore it",
            argument="is_kept",
        ),
    ),
    description=f"""Change a setting of PGDB's. Anything else, 'set var' above all, goes to GDB.

'set logging enabled on' copies all that is typed and shown from now on to a file of this host;
'set logging file FILE' names it (gdb.txt), 'set logging overwrite on' empties it first, and 'set
logging redirect on' has PGDB's own output go there only.

{_settings_text()}""",
)
async def _set(call: Call, text: str, *, is_kept: bool) -> Outcome:
    if is_kept and not text:
        raise UsageError("set -keep needs a name and a value; 'help set' lists the names")
    if why := without_effect(text):
        call.session.note(why)
        return None
    text = in_words_of_ours(text)
    name, _, value = text.partition(" ")
    if is_logging(name) and not is_kept:
        return await set_logging(call, value.strip())
    if is_args(name) and not value.startswith("=") and not is_kept:
        await set_args(call, value.strip())
        return None
    setting = find_changeable(name)
    if setting is None:
        if is_kept:
            raise UsageError(
                f"set -keep: {name!r} is no setting of PGDB's; one of GDB's is given to every "
                "session by --gdb-command 'set …'"
            )
        if gdb_commands.changes_nothing(call.argument):
            return None
        if gdb_commands.kind_of("set", call.line) is gdb_commands.Kind.REFUSED:
            raise UsageError(gdb_commands.why_refused("set", call.line))
        said = await call.view.execute_plain(call.line)
        if _is_of_starts(name) and not value.strip().startswith("="):
            call.session.note(
                f"'set {name}' has no effect on the job: its launcher starts the program. "
                "Launchers have options for this, such as 'mpirun -x NAME=VALUE'"
            )
        if _is_of_overloads(name) and value.strip() in ("ask", "cancel"):
            call.session.note(
                f"'set {name}' has no effect on breakpoints: 'break NAME' stops in all functions "
                "of that name, 'break NAME(TYPES)' in one"
            )
        return said
    change = Settings(**{setting.key: setting.convert(f"set {name}", value.strip())})
    before = call.session.options.spawned
    call.dispatcher.apply(change)
    answer = await setting_changes.take_effect(call.session, setting.key)
    if call.session.options.spawned == "hold" != before:
        call.session.note(
            "'spawned hold' is for a launch, as after 'restart'; in this one PGDB attaches to "
            "spawned ranks when it sees them"
        )
    if not is_kept:
        return None if answer is None else replace(answer, command=call.line)
    # Another session can hold the lock for a moment, and the home directory can be remote.
    path = settings_path()
    return f"{name}: {await with_file(path, lambda: keep_settings(path, change))}"


@COMMANDS.command(
    "show",
    group=Group.SESSION,
    usage="show NAME",
    summary="show a setting of PGDB or GDB",
    completes=Completes.SETTING,
)
async def _show(call: Call) -> Outcome:
    """Show a setting of PGDB's (see set), or GDB's.

    'show commands' shows the last ten lines that were typed, 'show commands N' those around the
    Nth, and 'show commands +' the ten behind them.
    """
    if why := without_effect(call.argument):
        return why
    argument = in_words_of_ours(call.argument)
    name, _, rest = argument.partition(" ")
    if name == "user" and (ours := call.workspace.user.text_of(rest.strip())):
        if rest.strip():
            return ours
        call.dispatcher.say(ours)
    if is_args(name):
        return await show_args(call)
    if is_logging(name):
        return show_logging(call, rest.strip())
    if len(name) > 3 and "commands".startswith(name):
        return show_commands(call, rest.strip())
    if len(name) > 2 and "values".startswith(name) and not rest.strip():
        return await call.view.execute_plain(await line_for_last_values(call))
    setting = find_changeable(argument)
    if setting is None:
        return await call.view.execute_plain(call.line)
    return f"{setting.name}: {setting.show(getattr(_place(call, setting), setting.key))}"


def _place(call: Call, setting: Setting) -> object:
    """Return the object that has the value of a setting."""
    if setting is SETTLE:
        return call.workspace
    is_of_interface = setting in INTERFACE_SETTINGS
    return call.workspace.interface if is_of_interface else call.session.options


@COMMANDS.command(
    "session",
    group=Group.SESSION,
    usage="session [save FILE]",
    summary="write a recording, which needs no job to be read",
)
async def _session(call: Call) -> Outcome:
    """Show the contents that a recording of this session would have, or write one.

    'session save FILE' writes the questions and answers so far, the places of the ranks, the sets
    and the answers that 'expand' and 'compare' use. 'pgdb replay FILE' opens it later, without the
    job and on another machine: bt, tree, print and all commands that inspect work there for the
    questions asked here. The file holds values of the program. It replaces a recording of that
    name, but no other file.

    A recording is opened by a pgdb of its own; 'session replay' only says so.
    """
    session = call.session
    word, _, name = call.argument.partition(" ")
    name = one_name("session save", name)
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
    return (await session.save(typed_path(name))).text


def _would_have(session: Session) -> str:
    lines = listing(session.recorder.exchanges, session.set)
    if lines:
        lines.insert(0, "a recording would have the answers to:")
    else:
        lines.append("no question was asked yet that a recording could answer")
    if session.options.log:
        lines.append(f"log: {session.options.log}")
    if session.options.record:
        lines.append(
            f"PGDB writes it to {session.options.record}, complete at the end of the session"
        )
    return "\n".join(lines)
