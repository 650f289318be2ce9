"""Commands that make, change and list breakpoints."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.api.options import STOP_MODES
from pgdb.frontend.commands import bodies
from pgdb.frontend.commands.breakpoint_words import (
    NoBreakpointError,
    as_range,
    last_made,
    not_there,
    ranks_with,
    read_numbers,
    with_values,
)
from pgdb.frontend.commands.options import Option, Rest, Syntax, is_number
from pgdb.frontend.commands.questions import ALL_DISPLAYS, NOT_DONE
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    need_argument,
)
from pgdb.overlay.messages import BreakpointKind
from pgdb.patterns import pattern

_PLACE = pattern(r"(?:\d+|\$\w+)\.\d+(?:-\d+)?\Z")
_NOT_BREAKPOINTS = (
    "display mem bookmark tvariable checkpoint skip probes pretty-printer frame-filter unwinder "
    "type-printer xmethod".split()
)


_OPTIONS = (
    Option(
        name="--ranks",
        value="SET",
        help="the ranks that it is for; a set that changes, such as @running, is read at each hit",
        completes=lambda workspace: workspace.set_names,
        default="",
    ),
    Option(
        name="--stop",
        value="MODE",
        help="the ranks that stop with one that hits it: rank, focus or all, in place of 'set "
        "stop-mode'",
        choices=STOP_MODES,
    ),
)
_SYNTAX = Syntax(_OPTIONS, Rest.LOCATION)
_NUMBERED_SET = pattern(r"@\d+")


async def insert(call: Call) -> Outcome:
    """Carry out a GDB command that makes breakpoints."""
    if call.word == "catch" and not call.argument:
        call.session.note(
            "'catch death' and 'catch py-exception' are of PGDB's own ('help catch'); GDB lists "
            "its events"
        )
    parsed = _SYNTAX.parse(call.word, call.argument)
    stop, text = parsed.values["stop"], parsed.values["ranks"]
    if not stop and not text:
        return await call.session.insert_breakpoint(call.line, call.ranks)
    line = f"{call.line.removesuffix(call.argument).rstrip()} {parsed.rest}".rstrip()
    if not text:
        answer = await call.session.insert_breakpoint(line, call.ranks, stop=stop)
        return replace(answer, command=call.line)
    workspace, session = call.workspace, call.session
    ranks = workspace.parse_ranks(text)
    if "@" not in _NUMBERED_SET.sub("", text):
        if not ranks:
            raise UsageError(f"{call.word}: --ranks {text} is an empty set")
        answer = await session.insert_breakpoint(line, ranks, stop=stop)
        return replace(answer, command=call.line)
    members = workspace.set_read_later(text)
    answer = await session.insert_breakpoint(
        line, session.set, stop=stop, members=members, members_text=text
    )
    if not answer.errors:
        now = f"[{ranks}]" if ranks else "empty"
        session.note(f"ranks outside {text} run on when they hit it; the set is {now} now")
    return replace(answer, command=call.line)


def _declare(word: str, usage: str, summary: str, aliases: tuple[str, ...], text: str) -> None:
    COMMANDS.command(
        word,
        group=Group.BREAKPOINTS,
        usage=usage,
        summary=summary,
        aliases=aliases,
        description=text,
        options=_OPTIONS,
        rest=_SYNTAX.rest,
        is_parsed=False,
    )(insert)


_NUMBERS = "The breakpoint has one number for the whole job, in each rank's GDB, too."
_declare(
    "break", "break [LOCATION] [if EXPR]", "stop the ranks at a place", ("b", "br", "brea"),
    f"LOCATION is FUNCTION, LINE, FILE:LINE or *ADDRESS, as in GDB; without it, the next\n"
    f"instruction of the selected frame. {_NUMBERS}\n\n"
    "In a rank with Python it is also FILE.py:LINE or MODULE.FUNCTION, with a Python expression\n"
    "as EXPR: 'break train.py:15 if step > 3'. The rank has to execute Python code before such\n"
    "a breakpoint is armed.\n\n"
    "EXPR can use $_rank, $_size, $_host and $_world, which every rank's GDB has: 'break f if\n"
    "$_rank == 3'.",
)  # fmt: skip
_declare(
    "tbreak", "tbreak [LOCATION] [if EXPR]", "stop the ranks at a place once", ("tb",),
    f"Like break, but deleted on each rank when it has been hit there. {_NUMBERS}",
)  # fmt: skip
_declare(
    "watch", "watch EXPR [if EXPR]", "stop when a value changes", ("wa",),
    f"Stop a rank when the value of EXPR changes on it. {_NUMBERS}",
)  # fmt: skip


_declare(
    "catch", "catch EVENT", "stop at an event: death, throw, fork, syscall …", (),
    "'catch death' stops a rank that is about to die, before its launcher learns of it: at\n"
    "MPI_Abort, at an MPI error that is fatal, and at exit, _exit and quick_exit with a status\n"
    "other than 0, or without MPI_Finalize. GDB stops at fatal signals anyway, so at abort, a\n"
    "failed assertion and an uncaught C++ exception. 'set stop-before-death on' is the same for\n"
    "all ranks.\n"
    "'catch py-exception' stops a Python rank at an exception that nothing has caught, before the\n"
    "program or its thread ends, and at one of an atexit handler; the stack is that of the\n"
    "traceback, with its variables. Any other\n"
    f"EVENT is one of GDB's: 'catch throw', 'catch fork', 'catch syscall open'. {_NUMBERS}",
)  # fmt: skip


@COMMANDS.command(
    "delete",
    group=Group.BREAKPOINTS,
    usage="delete [NUMBER…]",
    summary="delete breakpoints",
    aliases=("d", "del"),
    completes=Completes.BREAKPOINTS,
)
async def _delete(call: Call) -> Outcome:
    """Delete breakpoints by number (3, 2-4), or all, on the selected ranks.

    At a terminal PGDB asks before it deletes all.

    $bpnum is the number of the breakpoint that was made last, here and in all commands below. Any
    variable of GDB's with a number does as well: 'set $mine = $bpnum', 'delete $mine'.
    """
    if question := _question(call):
        if not await call.dispatcher.confirm_typed(question):
            return NOT_DONE
    for word in call.argument.replace(",", " ").split():
        if _PLACE.match(word):
            raise UsageError(f"{word} is one place of a breakpoint; 'disable {word}' disables it")
    return await _change(call, "delete")


@COMMANDS.command(
    "disable",
    group=Group.BREAKPOINTS,
    usage="disable [NUMBER…]",
    summary="disable breakpoints",
    aliases=("dis", "disa"),
    completes=Completes.BREAKPOINTS,
)
async def _disable(call: Call) -> Outcome:
    """Disable breakpoints by number, or all, on the selected ranks."""
    return await _change(call, "disable")


@COMMANDS.command(
    "enable",
    group=Group.BREAKPOINTS,
    usage="enable [once|delete|count N] [NUMBER…]",
    summary="enable breakpoints",
    aliases=("en",),
    completes=Completes.BREAKPOINTS,
)
async def _enable(call: Call) -> Outcome:
    """Enable breakpoints by number, or all; once, until hit (delete), or for N hits."""
    words = call.argument.split()
    # As in GDB: "enable breakpoints once 1" is "enable once 1".
    if len(words) > 1 and "breakpoints".startswith(words[0]) and not words[1][0].isdigit():
        words = words[1:]
    way = _WAYS.get(words[0]) if words else None
    if way is None:
        return await _change(call, "enable")
    if way == "count":
        count = await with_values(call, words[1]) if len(words) > 1 else ""
        if not is_number(count):
            raise UsageError(f"enable count: {count!r} is no number of hits")
        way, words = f"count {count}", words[1:]
    numbers = await read_numbers(call, " ".join(words[1:]))
    if not numbers:
        raise UsageError(f"'enable {way}' needs a breakpoint number")
    return await _apply(call, f"enable {way}", numbers)


_WAYS = {
    **dict.fromkeys(("o", "on", "onc", "once"), "once"),
    **dict.fromkeys(("del", "dele", "delet", "delete"), "delete"),
    **dict.fromkeys(("c", "co", "cou", "coun", "count"), "count"),
}
"""Ways to enable breakpoints, by GDB's abbreviations."""


@COMMANDS.command(
    "condition",
    group=Group.BREAKPOINTS,
    usage="condition NUMBER [EXPR]",
    summary="stop only if EXPR is true",
    completes=Completes.BREAKPOINTS,
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-force",
            help="take an EXPR that has no meaning yet, as for a library that is loaded later",
            aliases=("-f", "-fo", "-for", "-forc"),
            is_gdbs=True,
        ),
    ),
)
async def _condition(call: Call, text: str, *, force: bool) -> Outcome:
    """Give a breakpoint a condition; without EXPR, remove its condition."""
    command = "condition -force" if force else "condition"
    if not text:
        needed = "a breakpoint number and a condition" if force else "a breakpoint number"
        raise UsageError(f"'{command}' needs {needed}")
    number, _, rest = text.partition(" ")
    return await _apply(call, command, await read_numbers(call, number), rest.strip())


@COMMANDS.command(
    "ignore",
    group=Group.BREAKPOINTS,
    usage="ignore NUMBER COUNT",
    summary="pass over a breakpoint COUNT times",
    completes=Completes.BREAKPOINTS,
)
async def _ignore(call: Call) -> Outcome:
    """Let each selected rank pass over the next COUNT hits of a breakpoint."""
    number, _, count = need_argument(call, "a breakpoint number and a count").partition(" ")
    if not count.strip():
        raise UsageError("'ignore' needs a count after the breakpoint number")
    return await _apply(call, "ignore", await read_numbers(call, number), count.strip())


@COMMANDS.command(
    "passcount",
    group=Group.BREAKPOINTS,
    usage="passcount N [NUMBER…]",
    summary="end the trace when a tracepoint was hit N times",
    completes=Completes.BREAKPOINTS,
)
async def _passcount(call: Call) -> Outcome:
    """Give tracepoints a number of hits, after which the trace ends.

    Without a number of a tracepoint, the one that was made last gets it.
    """
    count, _, rest = need_argument(call, "a number of hits").partition(" ")
    count = await with_values(call, count)
    if not is_number(count):
        raise UsageError(f"passcount: {count!r} is no number of hits")
    if rest.strip() == "all":
        return await call.view.execute_plain(call.line)
    numbers = await read_numbers(call, rest)
    if not numbers:
        last_made(call)  # raises an error where the last command has made none
        if not (last := call.session.breakpoint_numbers.last_traced):
            raise NoBreakpointError("there is no tracepoint yet; 'trace LOCATION' makes one")
        numbers = [str(last)]
    return await _apply(call, f"passcount {count}", numbers)


@COMMANDS.command(
    "commands",
    group=Group.BREAKPOINTS,
    usage="commands [NUMBER…]",
    summary="run GDB commands at a breakpoint",
    completes=Completes.BREAKPOINTS,
)
async def _commands(call: Call) -> Outcome:
    """Attach GDB commands to breakpoints. The commands are the lines that follow, up to 'end'.

    The ranks carry them out at their hits. A breakpoint of a set such as @suspects has them for the
    ranks that are in the set then.

    Without a number they go to the breakpoint that was made last. Where no rank has a breakpoint of
    that number, the error comes at once, and the lines that follow are commands of their own, as in
    GDB. After a 'break' that has failed, 'commands' without a number takes its lines and refuses.
    """
    session = call.session
    try:
        numbers = await read_numbers(call, call.argument)
    except UsageError as error:
        raise UsageError(f"{error}; the commands are the lines that follow, up to 'end'") from None
    has_failed = not numbers and session.breakpoint_numbers.has_failed
    if not has_failed:
        numbers = numbers or [last_made(call)]
        _check_whole(numbers)
        # As in GDB, the lines that follow are commands of their own then.
        if not await ranks_with(call, numbers):
            return not_there(call, numbers)
    # The lines that follow belong to a breakpoint that could not be made, too.
    body = await call.dispatcher.read_block(call.line)
    bodies.check_for_gdb(call.workspace.user, "commands", body)
    if has_failed:
        last_made(call)  # raises an error
    return await call.view.breakpoint_commands(numbers, body)


def _check_whole(numbers: list[str]) -> None:
    for each in numbers:
        if whole := each.partition(".")[0] * ("." in each):
            raise UsageError(
                f"{each} is one place of a breakpoint; commands are carried out at all of its "
                f"places: 'commands {whole}'"
            )


# The shortest abbreviation of each topic of "info" in GDB 13, and its other names.
_TOPICS: tuple[tuple[BreakpointKind, str, int, tuple[str, ...]], ...] = (
    ("", "breakpoints", 2, ("b",)),
    ("watchpoint", "watchpoints", 3, ()),
    ("tracepoint", "tracepoints", 2, ("tp",)),
)


def breakpoint_kind(topic: str) -> BreakpointKind | None:
    """Return the kind that a topic of ``info`` lists, empty for all; None for another topic."""
    for kind, name, shortest, aliases in _TOPICS:
        if topic in aliases or (name.startswith(topic) and len(topic) >= shortest):
            return kind
    return None


async def info_breakpoints(call: Call, kind: BreakpointKind, text: str) -> Outcome:
    """List breakpoints of the selected ranks: all of a kind, or those with some numbers."""
    numbers: list[str] = []
    for word in (await with_values(call, text, only_looks=True)).replace(",", " ").split():
        if as_range(word) is not None:
            numbers.append(word)
        else:
            found = await read_numbers(call, word)
            numbers += dict.fromkeys(each.partition(".")[0] for each in found)
    return await call.view.breakpoints(*numbers, kind=kind)


def _question(call: Call) -> str:
    """Return the question before 'delete'; empty where there is nothing to be asked about."""
    what = call.argument.strip()
    if not what or "breakpoints".startswith(what):
        has_some = call.session.has_breakpoints(call.ranks)
        return "Delete all breakpoints, watchpoints and catchpoints?" if has_some else ""
    return ALL_DISPLAYS if _is_all_displays(what) else ""


def _is_all_displays(text: str) -> bool:
    return len(text) > 1 and "display".startswith(text)


async def _change(call: Call, command: str) -> Outcome:
    first, _, rest = call.argument.partition(" ")
    if len(first) > 1 and "tracepoints".startswith(first):
        return await _apply(call, f"{command} tracepoints", await read_numbers(call, rest))
    # One letter is more likely a slip than GDB's xmethod, for which GDB prints nothing.
    if len(first) > 1 and any(name.startswith(first) for name in _NOT_BREAKPOINTS):
        return await call.view.execute_plain(call.line)
    if first and "breakpoints".startswith(first):
        return await _apply(call, command, await read_numbers(call, rest))
    return await _apply(call, command, await read_numbers(call, call.argument))


async def _apply(call: Call, command: str, numbers: list[str], argument: str = "") -> Outcome:
    return await call.view.change_breakpoints(command, numbers, argument)
