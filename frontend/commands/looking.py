"""Commands that look: stacks, variables, values, source."""

from __future__ import annotations

import re

from pgdb.frontend.commands.breakpoints import info_breakpoints
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    need_argument,
)

_COUNT = re.compile(r"-?\d+\Z")


@COMMANDS.command(
    "backtrace",
    group=Group.STACK,
    usage="backtrace [-args] [-full-mpi] [N]",
    summary="show the call stacks, one for each class of ranks",
    aliases=("bt", "where"),
)
async def _backtrace(call: Call) -> Outcome:
    """Show the stack of the selected thread, innermost frame first; with N, the N innermost
    (-N: outermost) frames. Ranks with the same stack are shown once.

    What goes on inside an MPI call is folded away, since it changes from moment to moment;
    -full-mpi shows it. Arguments that differ inside a class are shown as …; -args makes ranks
    with other arguments a class of their own. Any other option goes to GDB as it is, and its
    text is merged.
    """
    fold, split, rest = True, False, []
    for word in call.argument.split():
        if word == "-full-mpi":
            fold = False
        elif word == "-args":
            split = True
        else:
            rest.append(word)
    session = call.shell.session
    ranks = session.ranks(call.ranks)
    if not rest:
        return await ranks.backtrace(fold=fold, split=split)
    if len(rest) == 1 and _COUNT.match(rest[0]):
        return await ranks.backtrace(int(rest[0]), fold=fold, split=split)
    return await ranks.execute_plain(f"backtrace {' '.join(rest)}")


@COMMANDS.command(
    "print",
    group=Group.DATA,
    usage="print[/FORMAT] EXPR",
    summary="show the value of an expression on each rank",
    aliases=("p", "inspect"),
    completes=Completes.EXPRESSION,
)
async def _print(call: Call) -> Outcome:
    """Show the value of EXPR, equal values once with their ranks.

    Many different numbers are summed up; 'expand' shows them all. FORMAT is one of GDB's
    letters: x, d, u, o, t, a, c, f, s, z.
    """
    expression = call.argument or "$"
    if expression.startswith("-"):
        return await call.shell.session.ranks(call.ranks).execute_plain(call.line)
    return await call.shell.session.ranks(call.ranks).evaluate(expression, format=call.letters)


@COMMANDS.command(
    "info",
    group=Group.STACK,
    usage="info TOPIC",
    summary="locals, args, breakpoints, threads, source, sharedlibrary …",
    aliases=("i", "inf"),
    completes=Completes.INFO,
)
async def _info(call: Call) -> Outcome:
    """Show what GDB knows of a topic. All of GDB's topics work.

    'info locals' and 'info args' are merged variable by variable, 'info breakpoints' shows the
    job-wide numbers; the text of all others is merged as it is.
    """
    topic, _, rest = need_argument(call, "a topic, for example 'info locals'").partition(" ")
    ranks = call.shell.session.ranks(call.ranks)
    if not rest.strip():
        if "locals".startswith(topic) and len(topic) > 1:
            return await ranks.locals()
        if "args".startswith(topic) and len(topic) > 1:
            return await ranks.arguments()
        if topic in ("b", "watchpoints") or ("breakpoints".startswith(topic) and topic):
            return await info_breakpoints(call)
    return await ranks.execute_plain(call.line)


@COMMANDS.command(
    "frame",
    group=Group.STACK,
    usage="frame [N | function NAME]",
    summary="select and show a frame",
    aliases=("f",),
)
async def _frame(call: Call) -> Outcome:
    """Select a frame by its number, or by 'function NAME', and show it with its line.

    The number of a frame can differ between ranks that wait inside MPI: there 'frame function
    NAME' selects the same frame everywhere.
    """
    return await _select(call)


@COMMANDS.command(
    "up", group=Group.STACK, usage="up [N]", summary="select the frame that called this one"
)
async def _up(call: Call) -> Outcome:
    """Select the frame N levels further out, and show it."""
    return await _select(call)


@COMMANDS.command(
    "down", group=Group.STACK, usage="down [N]", summary="select the frame called by this one"
)
async def _down(call: Call) -> Outcome:
    """Select the frame N levels further in, and show it."""
    return await _select(call)


async def _select(call: Call) -> Outcome:
    ranks = call.shell.session.ranks(call.ranks)
    if call.argument.partition(" ")[0] in ("apply", "view"):
        return await ranks.execute_plain(call.line)
    return await ranks.select_frame(call.line)


@COMMANDS.command(
    "list",
    group=Group.STACK,
    usage="list [LOCATION]",
    summary="show source lines",
    aliases=("l",),
    completes=Completes.LOCATION,
)
async def _list(call: Call) -> Outcome:
    """Show source lines around LOCATION, or more of them when it is repeated."""
    answer = await call.shell.session.ranks(call.ranks).execute_plain(call.line)
    call.shell.next_is_source()
    return answer
