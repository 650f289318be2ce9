"""Commands that make, change and list breakpoints."""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.commands.options import is_number
from pgdb.frontend.commands.questions import NOT_DONE
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    need_argument,
)
from pgdb.patterns import pattern

_NUMBER = pattern(r"\d+(?:\.\d+)?\Z")
_LAST = pattern(r"\$bpnum(\.\d+)?\Z")
_RANGE = pattern(r"(\d+)-(\d+)\Z")
_MOST_NUMBERS = 100_000
_NOT_BREAKPOINTS = (
    "display mem bookmark tvariable checkpoint skip probes pretty-printer frame-filter unwinder "
    "type-printer xmethod".split()
)


class NoBreakpointError(UsageError):
    """A command is about the last breakpoint, which could not be made."""


async def insert(call: Call) -> Outcome:
    """Carry out a GDB command that makes breakpoints."""
    return await call.session.insert_breakpoint(call.line, call.ranks)


def _declare(word: str, usage: str, summary: str, aliases: tuple[str, ...], text: str) -> None:
    COMMANDS.command(
        word,
        group=Group.BREAKPOINTS,
        usage=usage,
        summary=summary,
        aliases=aliases,
        description=text,
    )(insert)


_NUMBERS = "The breakpoint has one number for the whole job, whatever its number in each GDB."
_declare(
    "break", "break [LOCATION] [if EXPR]", "stop the ranks at a place", ("b", "br", "brea"),
    f"LOCATION is FUNCTION, LINE, FILE:LINE or *ADDRESS, as in GDB; without it, the next\n"
    f"instruction of the selected frame. {_NUMBERS}\n\n"
    "EXPR can use $_rank, $_size and $_host, which every rank's GDB has: 'break f if $_rank == 3'.",
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
    "other than 0. GDB stops at fatal signals anyway, so at abort, a failed assertion and an\n"
    "uncaught C++ exception. 'set stop-before-death on' is the same for all ranks. Any other\n"
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

    $bpnum is the number of the breakpoint that was made last, here and in all commands below.
    """
    if question := _question(call):
        if not await call.dispatcher.confirm_typed(question):
            return NOT_DONE
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
    first, _, rest = call.argument.partition(" ")
    if first in ("once", "delete"):
        return await _apply(call, f"enable {first}", _numbers(call, rest))
    if first == "count":
        count, _, rest = rest.strip().partition(" ")
        if not is_number(count):
            raise UsageError(f"enable count: {count!r} is no number of hits")
        return await _apply(call, f"enable count {count}", _numbers(call, rest))
    return await _change(call, "enable")


@COMMANDS.command(
    "condition",
    group=Group.BREAKPOINTS,
    usage="condition NUMBER [EXPR]",
    summary="stop only if EXPR is true",
    completes=Completes.BREAKPOINTS,
)
async def _condition(call: Call) -> Outcome:
    """Give a breakpoint a condition; without EXPR, remove its condition."""
    number, _, expression = need_argument(call, "a breakpoint number").partition(" ")
    return await _apply(call, "condition", _numbers(call, number), expression.strip())


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
    return await _apply(call, "ignore", _numbers(call, number), count.strip())


@COMMANDS.command(
    "commands",
    group=Group.BREAKPOINTS,
    usage="commands [NUMBER…]",
    summary="run GDB commands at a breakpoint",
    completes=Completes.BREAKPOINTS,
)
async def _commands(call: Call) -> Outcome:
    """Attach GDB commands to breakpoints. The commands are the lines that follow, up to 'end'.

    Without a number they go to the breakpoint that was made last.
    """
    # Without the numbers, too, the lines that follow belong to this command.
    body = await call.dispatcher.read_block(call.line)
    numbers = _numbers(call) or [_last(call)]
    ranks = call.view
    return await ranks.breakpoint_commands(numbers, body)


async def info_breakpoints(call: Call) -> Outcome:
    """List the breakpoints of the selected ranks, with their job-wide numbers."""
    return await call.view.breakpoints()


def _question(call: Call) -> str:
    """Return the question before 'delete'; empty where there is nothing to be asked about."""
    what = call.argument.strip()
    if not what or "breakpoints".startswith(what):
        has_some = call.session.has_breakpoints(call.ranks)
        return "Delete all breakpoints, watchpoints and catchpoints?" if has_some else ""
    return "Delete all auto-display expressions?" if _is_all_displays(what) else ""


def _is_all_displays(text: str) -> bool:
    return len(text) > 1 and "display".startswith(text)


async def _change(call: Call, command: str) -> Outcome:
    first, _, rest = call.argument.partition(" ")
    # One letter is more likely a slip than GDB's xmethod, for which GDB prints nothing.
    if len(first) > 1 and any(name.startswith(first) for name in _NOT_BREAKPOINTS):
        return await call.view.execute_plain(call.line)
    if first and "breakpoints".startswith(first):
        return await _apply(call, command, _numbers(call, rest))
    return await _apply(call, command, _numbers(call))


async def _apply(call: Call, command: str, numbers: list[str], argument: str = "") -> Outcome:
    return await call.view.change_breakpoints(command, numbers, argument)


def _last(call: Call) -> str:
    """Return the number of the breakpoint that was made last.

    :raises NoBreakpointError: if there is none, or the last command that was to make one failed.
    """
    numbers = call.session.breakpoint_numbers
    if numbers.has_failed:
        raise NoBreakpointError(
            f"'{call.line}' is not carried out: the last command has made no breakpoint; give the "
            "number of the breakpoint that is meant"
        )
    if not numbers.last:
        raise NoBreakpointError("there is no breakpoint yet")
    return str(numbers.last)


def _numbers(call: Call, text: str | None = None) -> list[str]:
    """Read breakpoint numbers: ``1 3.1 5-7 $bpnum``.

    :raises UsageError: for anything else.
    """
    found: list[str] = []
    for word in (call.argument if text is None else text).replace(",", " ").split():
        if match := _LAST.match(word):
            word = f"{_last(call)}{match[1] or ''}"
        if match := _RANGE.match(word):
            if not is_number(match[1]) or not is_number(match[2]):
                raise UsageError(f"{word!r} is no range of breakpoint numbers")
            numbers = range(int(match[1]), int(match[2]) + 1)
            if len(numbers) > _MOST_NUMBERS:
                raise UsageError(f"{word!r} are too many breakpoints; {_MOST_NUMBERS} is the limit")
            found += map(str, numbers)
        elif _NUMBER.match(word):
            found.append(word)
        else:
            raise UsageError(f"{word!r} is no breakpoint number; write for example 3 or 2-4")
    return found
