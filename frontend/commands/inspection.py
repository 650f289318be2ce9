"""Commands that inspect: stacks, variables, values, source."""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import gdb_commands, verdicts
from pgdb.frontend.commands import bodies, run_control, variable_objects
from pgdb.frontend.commands.breakpoints import breakpoint_kind, info_breakpoints
from pgdb.frontend.commands.layouts import info_win
from pgdb.frontend.commands.meeting import info_barriers
from pgdb.frontend.commands.options import FULL, Option, Rest
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
)
from pgdb.frontend.commands.traces import list_traces
from pgdb.frontend.commands.value_history import note_on_lengths
from pgdb.frontend.commands.worlds import list_worlds
from pgdb.frontend.transport import deliveries
from pgdb.gdb_carriers import abbreviations
from pgdb.patterns import pattern
from pgdb.print_options import split_print

_REGISTERS = pattern(rf"(?:r|{abbreviations('registers', 3)})\Z")
# The letters of MI, which no register has as its name.
_FORMAT_OF_REGISTERS = pattern(r"[xotdrN](?:\s+\$?\w+)*\Z")
_COUNT = pattern(r"-?[0-9]{1,9}\Z")
# GDB's flags (-q, -c, -s) are about thread headings and errors, -ascending is about the order.
_APPLY_ALL = pattern(r"a(?:p(?:ply?)?|ppl)?\s+a(?:ll?)?\s+(?:-[qcs]+\s+|-ascending\s+)*(\S.*)")
# Options of GDB 12 and later; -past-entry and the like have on or off as their value.
_GDB_OPTIONS = tuple(
    "-entry-values -frame-arguments -raw-frame-arguments -frame-info -past-main -past-entry -full "
    "-no-filters -hide".split()
)
_TREE = pattern(r"(?:^|(?<=\s))--?tree(?!\S)")


@COMMANDS.command(
    "backtrace",
    group=Group.STACK,
    usage="backtrace [N]",
    summary="show the call stacks, one for each class of ranks",
    aliases=("bt", "where"),
    rest=Rest.GDB,
    passes=_GDB_OPTIONS,
    is_parsed=False,
    options=(
        Option(
            name="-args",
            help="make ranks with other arguments a class of their own",
            argument="split",
            aliases=("--args",),
        ),
        Option(
            name="-threads",
            help="show the stacks of all threads, each with the ranks that have so many threads "
            "there, which are @1, @2 …; those of the MPI library itself only with --full",
            aliases=("--threads",),
        ),
        Option(
            name="-tree",
            help="show the merged call tree instead, with the options of 'tree' behind it",
            aliases=("--tree",),
        ),
        FULL,
    ),
)
async def _backtrace(call: Call) -> Outcome:
    """Show the stack of the selected thread, innermost frame first; with N, the N innermost
    (-N: outermost) frames. Ranks with the same stack are shown once.

    The frames inside an MPI call are folded, since they change from moment to moment. The calls of
    a recursion are folded as well ('expand' shows these). Arguments that differ inside a class are
    shown as ….

    Any other option goes to GDB as it is, and its text is merged: 'bt full' and 'bt -full' show the
    local variables, as in GDB.
    """
    if _TREE.search(call.argument):
        tree = COMMANDS.find("tree")
        assert tree is not None
        argument = _TREE.sub("", call.argument, count=1).strip()
        return await tree.handler(replace(call, argument=argument))
    if not _has_frame_info(call):
        merged = _merged_backtrace(call, call.argument, threads=False)
        if merged is not None:
            return await merged
    return await call.view.execute_plain(call.line)


def _has_frame_info(call: Call) -> bool:
    """Return whether GDB's text says what is wanted of frames: ``set print frame-info``."""
    return call.session.settings.shows_frames_otherwise(call.ranks)


def _merged_backtrace(call: Call, argument: str, *, threads: bool) -> Awaitable[Answer] | None:
    """Ask for stacks by the *argument* of a backtrace; return None if GDB has to read it."""
    command = COMMANDS.find("backtrace")
    assert command is not None
    parsed = command.parse(argument)
    if parsed.rest and not (_COUNT.match(parsed.rest) and int(parsed.rest)):
        return None
    values = parsed.values
    return call.view.backtrace(
        int(parsed.rest or 0),
        fold=not values["full"],
        split=values["split"],
        threads=threads or values["threads"],
    )


@COMMANDS.command(
    "thread",
    group=Group.STACK,
    usage="thread [N | apply N… COMMAND | apply all COMMAND]",
    summary="select a thread; 'thread apply all bt' merges the stacks of all",
    aliases=("t",),
)
async def _thread(call: Call) -> Outcome:
    """Select thread N on each rank, or carry out COMMAND on several threads, as in GDB.

    'thread apply all bt' is merged over threads and ranks, as 'bt -threads' is: each stack once,
    with the ranks that have so many threads there. A number and the options of 'bt' may follow.
    The text of all other forms is merged line by line.
    """
    match = _APPLY_ALL.match(call.argument)
    if match is not None and gdb_commands.resolve(match[1]) == "backtrace":
        merged = _merged_backtrace(call, match[1].partition(" ")[2], threads=True)
        if merged is not None:
            return await merged
    return await _as_gdb(call)


async def _as_gdb(call: Call) -> Outcome:
    """Carry out a command that can have another one inside, by what that does."""
    kind = gdb_commands.kind_of(call.word, call.line)
    if kind is gdb_commands.Kind.REFUSED:
        raise UsageError(gdb_commands.why_refused(call.word, call.line))
    if kind is gdb_commands.Kind.RUN:
        return await run_control.console_run(call)
    ranks = call.view
    if kind is gdb_commands.Kind.MULTI_LINE:
        block = await call.dispatcher.read_block(call.line)
        word = gdb_commands.resolve(gdb_commands.innermost(call.line))
        if word in ("python", "guile"):
            bodies.check_code(call.workspace.user, word, block)
        return await ranks.script([call.line, *block, "end"])
    return await ranks.execute_plain(call.line)


@COMMANDS.command(
    "print",
    group=Group.DATA,
    usage="print[/FORMAT] EXPR",
    summary="show the value of an expression on each rank",
    aliases=("p", "inspect"),
)
async def _print(call: Call) -> Outcome:
    """Show the value of EXPR, equal values once with their ranks.

    Many different numbers are summed up; 'expand' shows them all. GDB prints a part of a
    long value; ranks that differ behind it are named, with the place. FORMAT is one of GDB's
    letters: x, d, u, o, t, a, c, f, s, z. GDB's options stand before EXPR: 'print -pretty -- EXPR'.
    """
    printed = split_print(call.argument)
    expression, letters = printed.expression or "$", call.letters or printed.letters
    if printed.options:
        expression = f"{printed.options} -- {expression}"
    await note_on_lengths(call, expression)
    answer = await call.view.evaluate(expression, format=letters, of_ended=True)
    return await verdicts.look_to_print(call.session, answer)


@COMMANDS.command(
    "info",
    group=Group.STACK,
    usage="info [TOPIC]",
    summary="show locals, args, breakpoints, threads …",
    aliases=("i", "inf"),
    completes=Completes.INFO,
)
async def _info(call: Call) -> Outcome:
    """Show the information that GDB has on a topic; without TOPIC, list the topics of GDB's.

    'info locals' and 'info args' are merged variable by variable, 'info breakpoints' shows the
    job-wide numbers, 'info sbd' the cost of bringing the ranks' files to the hosts (--sbd),
    'info worlds' the worlds of MPI_Comm_spawn, 'info barriers' the barriers, 'info traces' the
    traces. The text of all others is merged line by line: equal lines once, then the parts that
    differ.
    """
    topic, _, rest = call.argument.partition(" ")
    if gdb_commands.kind_of("info", call.line) is gdb_commands.Kind.REFUSED:
        raise UsageError(gdb_commands.why_refused("info", call.line))
    if call.argument == "win":
        return info_win(call)
    ranks = call.view
    if topic and (kind := breakpoint_kind(topic)) is not None:
        return await info_breakpoints(call, kind, rest)
    if len(topic) > 2 and "barriers".startswith(topic):
        return info_barriers(call, rest)
    if topic == "s" or (len(topic) > 2 and "stack".startswith(topic)):
        words = rest.split()
        if words[:1] == ["depth"] and len(words) < 3:
            return await ranks.machine_query("info stack depth", words[1:])
        merged = _merged_backtrace(call, rest, threads=False)
        return await (merged if merged is not None else ranks.execute_plain(call.line))
    if _REGISTERS.match(topic) and _FORMAT_OF_REGISTERS.match(rest.strip()):
        return await ranks.machine_query("info registers", rest.split())
    if topic == "locals" and rest.strip() in ("0", "1", "2"):
        words, options = variable_objects.print_values(rest.split())
        return await ranks.machine_query("list locals", words, options=options)
    if topic == "traces":
        return list_traces(call, rest)
    if topic in ("worlds", "sbd") and rest.strip():
        raise UsageError(f"'info {topic}' takes no argument, not {rest.strip()!r}")
    if topic and not rest.strip():
        if "locals".startswith(topic) and len(topic) > 1:
            return await ranks.locals()
        if "args".startswith(topic) and len(topic) > 1:
            return await ranks.arguments()
        if topic == "worlds":
            return await list_worlds(call)
        if topic == "sbd":
            return deliveries.report(call.session.deliveries)
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
    if call.argument.partition(" ")[0] in ("apply", "view"):
        return await _as_gdb(call)
    if _has_frame_info(call):
        return await call.view.execute_plain(call.line)
    return await call.view.select_frame(call.line)


@COMMANDS.command(
    "list",
    group=Group.STACK,
    usage="list [LOCATION]",
    summary="show source lines",
    aliases=("l",),
)
async def _list(call: Call) -> Outcome:
    """Show source lines around LOCATION; repeated without one, the lines that follow.

    A margin has a mark where ranks stand (▶ [0,2-31]), and one for each breakpoint: ● with its
    number, ○ if it is disabled. A terminal without these characters shows >, * and o.

    'list features', 'target features', 'thread groups', 'changed registers', 'register names',
    'symbol lines FILE', 'locals PRINT-VALUES' and 'stack arguments PRINT-VALUES [LOW HIGH]' list
    these; PRINT-VALUES is 0 for names, 1 for values, 2 for simple values.
    """
    if (query := variable_objects.list_query(call)) is not None:
        what, words, options = query
        return await call.view.machine_query(what, words, options=options)
    answer = await call.view.list_source(call.line)
    call.dispatcher.next_is_source()
    return answer
