"""Commands about what the user interface shows, and GDB's interpreters."""

from __future__ import annotations

import shlex

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, need_argument
from pgdb.frontend.commands.visibility import TYPES, read_types
from pgdb.frontend.show.text import layout
from pgdb.patterns import pattern

_KINDS = ", ".join(TYPES)
# These commands of MI only look.
_LOOKS = pattern(
    r"-(?:data-(?:evaluate|list|read|disassemble)|stack-(?:list|info)|var-|thread-(?:info|list)|"
    r"symbol-|list-|info-|environment-pwd|gdb-(?:show|version)|file-list|complete|break-info|"
    r"environment-path -r|trace-(?:status|list))"
)
_INSTEAD = {
    "break-list": "info breakpoints",
    "break-insert": "break",
    "break-watch": "watch",
    "break-condition": "condition",
    "break-after": "ignore",
    "break-commands": "commands",
    "break-passcount": "passcount",
    "catch": "catch",
    "dprintf-insert": "dprintf",
    "exec-run": "restart",
    "gdb-exit": "quit",
    "target-detach": "detach",
}
"""Commands of PGDB in place of MI's, where the last word of MI's is another one or none."""
_MI_WORD = pattern(r"-(?P<name>(?:break|exec|target|catch|dprintf|gdb)-?(?P<last>[a-z]+)?[\w-]*)")


def _way_out(line: str) -> str:
    """Return the command of PGDB that does what a command of MI does.

    >>> _way_out("-break-list"), _way_out("-exec-next --reverse"), _way_out("-enable-timings")
    ("'info breakpoints'", "'next'", 'a command of PGDB')
    """
    match = _MI_WORD.match(line)
    if match is None:
        return "a command of PGDB"
    word = _INSTEAD.get(match["name"]) or _INSTEAD.get(match["name"].split("-")[0]) or match["last"]
    is_known = word and COMMANDS.find(word.partition(" ")[0]) is not None
    return f"'{word}'" if is_known else "a command of PGDB"


@COMMANDS.command(
    "block",
    group=Group.RANKS,
    usage="block [SET]",
    summary="do not show these ranks",
    completes=Completes.RANKS,
)
async def _block(call: Call) -> Outcome:
    """Do not show answers and stops of the ranks in SET; without SET, list the blocked ranks.

    They take part in run commands all the same, and count for the exit status. 'focus' leaves ranks
    out of commands as well.
    """
    view = call.workspace.visibility
    if call.argument:
        view.blocked |= call.workspace.parse_ranks(call.argument)
    return _blocked(call)


@COMMANDS.command(
    "unblock",
    group=Group.RANKS,
    usage="unblock [SET]",
    summary="show these ranks again",
    completes=Completes.RANKS,
)
async def _unblock(call: Call) -> Outcome:
    """Show the ranks in SET again; without SET, all of them."""
    view = call.workspace.visibility
    view.blocked -= call.workspace.parse_ranks(call.argument or "all")
    return _blocked(call)


def _blocked(call: Call) -> str:
    blocked = call.workspace.visibility.blocked
    return f"{layout.brackets(blocked)} not shown" if blocked else "all ranks are shown"


@COMMANDS.command(
    "filter",
    group=Group.SESSION,
    usage="filter [KIND…]",
    summary="do not show these kinds of notifications",
    description=f"""Leave out notifications of these kinds: {_KINDS}.

The kinds of MI's records are understood as well: exec, target, notify, status, log. Without KIND,
list the kinds that are left out. Answers to commands are always shown.""",
)
async def _filter(call: Call) -> Outcome:
    view = call.workspace.visibility
    view.filtered |= read_types(call.word, call.argument)
    return _filtered(call)


@COMMANDS.command(
    "unfilter",
    group=Group.SESSION,
    usage="unfilter [KIND…]",
    summary="show these kinds of notifications again",
)
async def _unfilter(call: Call) -> Outcome:
    """Show notifications of these kinds again; without KIND, all of them."""
    view = call.workspace.visibility
    view.filtered -= read_types(call.word, call.argument or " ".join(TYPES))
    return _filtered(call)


def _filtered(call: Call) -> str:
    kinds = sorted(call.workspace.visibility.filtered)
    return f"left out: {', '.join(kinds)}" if kinds else "all notifications are shown"


@COMMANDS.command(
    "interpreter-exec",
    group=Group.SESSION,
    usage="interpreter-exec console|mi COMMAND",
    summary="carry out a command of the console, or one of MI that only looks",
)
async def _interpreter_exec(call: Call) -> Outcome:
    """Carry out a command of the console as a typed one, or show the answer of MI to a command.

    A command of MI can show data, stacks, symbols, settings and variable objects. One that resumes
    ranks or changes breakpoints is refused: PGDB has a command for it.
    """
    try:
        words = shlex.split(need_argument(call, "an interpreter and a command"))
    except ValueError as error:
        raise UsageError(f"{call.word}: {error}") from None
    interpreter, line = words[0], " ".join(words[1:])
    if not line:
        raise UsageError(f"'{call.word} {interpreter}' needs a command")
    if interpreter == "console":
        return await call.dispatcher.dispatch(line, call.ranks)
    if interpreter not in ("mi", "mi2", "mi3", "mi4"):
        raise CommandError(f"{call.word}: no interpreter {interpreter!r}; there are console and mi")
    if not _LOOKS.match(line):
        raise UsageError(f"'{line}' is refused: {_way_out(line)} does this for the whole job")
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return await call.view.execute_plain(f'interpreter-exec {interpreter} "{escaped}"')
