"""Commands that launch the job again: restart, start, run."""

from __future__ import annotations

import shlex

from pgdb.errors import StartError, UsageError
from pgdb.frontend.api.exit_status import EXIT_START
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.run_control import run_ranks
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome
from pgdb.patterns import pattern

_IS_SURE = (
    Option(
        name="-y",
        help="do not ask before a job that has not ended is killed; batch runs never ask",
        argument="is_sure",
    ),
)
_KEPT = """The job is launched with the line of 'pgdb launch', or with ARGS as the arguments of its
program ('set args ARGS' gives them before, 'show args' shows them); the job before is killed if it
has not ended. The session keeps its breakpoints with their numbers, conditions, commands and ignore
counts, displays, settings of GDB, values of convenience variables, named sets and answers, and what
Python code has defined if the code does no more. A notice names those that cannot be set again: a
watchpoint on a local variable, a convenience variable that holds an address."""
_REDIRECTION = pattern(r"[<>|&;]+")
_QUOTED = pattern(r"""\"(?:\\.|[^"\\])*\"|'[^']*'|\\.""")


@COMMANDS.command(
    "restart",
    group=Group.RUNNING,
    usage="restart [ARGS]",
    summary="launch the job again, up to main",
    aliases=("start", "starti"),
    options=_IS_SURE,
    rest=Rest.BEHIND,
    description=f"""End the job, launch it again, and stop all ranks in main. 'starti' stops them
there as well: the launcher carries out their first instructions.

{_KEPT}""",
)
async def _restart(call: Call, text: str, *, is_sure: bool) -> Outcome:
    return None if await _relaunch(call, text, is_sure=is_sure) else _LEFT


@COMMANDS.command(
    "run",
    group=Group.RUNNING,
    usage="run [ARGS] [&]",
    summary="launch the job again, up to the first stop",
    aliases=("r",),
    options=_IS_SURE,
    rest=Rest.BEHIND,
    description=f"""Launch the job again as 'restart' does, and continue it as 'continue' does.

A job that has not run since its launch is not launched again without ARGS, only continued: then
'break solve' and 'run' at the first prompt do what they do in GDB.

{_KEPT}""",
)
async def _run(call: Call, text: str, *, is_sure: bool) -> Outcome:
    if text or call.workspace.next_arguments is not None or not _is_fresh(call):
        if not await _relaunch(call, text, is_sure=is_sure):
            return _LEFT
    runs, ranks = call.session.runs, call.session.set
    return await run_ranks(call, lambda: runs.start("continue", "", ranks), ranks)


_LEFT = "the job is left as it is"


async def _relaunch(call: Call, text: str, *, is_sure: bool) -> bool:
    """Launch the job again; return False if the user does not want that.

    :raises UsageError: if it cannot be launched again, or the arguments cannot be read.
    :raises StartError: if the launch fails.
    """
    dispatcher, session = call.dispatcher, call.session
    session.check_restart()
    arguments = _arguments(call.word, text)
    if arguments is not None:
        await _arguments_now(call)  # a line of several programs is refused before a question
    else:
        arguments = call.workspace.next_arguments
    if dispatcher.relaunch is None:
        raise UsageError(f"'{call.word}' needs the user interface that has launched the job")
    lives = bool(session.state.live) and not session.has_ended
    if lives and not is_sure and not await dispatcher.confirm("Kill the job and launch it again?"):
        return False
    try:
        await dispatcher.relaunch(arguments)
    except StartError as error:
        dispatcher.worsen(EXIT_START)
        raise StartError(f"{error}; the job before has ended, 'restart' tries again") from None
    call.workspace.next_arguments = None
    return True


async def set_args(call: Call, text: str) -> None:
    """Keep the arguments of the program for the next launch of the job.

    :raises UsageError: if PGDB cannot launch it again with other arguments.
    """
    await _arguments_now(call)
    call.workspace.next_arguments = _arguments("set args", text) or ()


async def show_args(call: Call) -> str:
    """Return the arguments that the program has, or gets at the next launch."""
    now, after = await _arguments_now(call), call.workspace.next_arguments
    text = 'Argument list to give the program when it is launched again is "{}".'
    if after is None or after == now:
        return text.format(shlex.join(now))
    return f'{text.format(shlex.join(after))} Now it has "{shlex.join(now)}".'


async def _arguments_now(call: Call) -> tuple[str, ...]:
    call.session.check_restart()
    read = call.dispatcher.program_arguments
    if read is None:
        raise UsageError(f"'{call.line}' needs the user interface that has launched the job")
    return await read()


def _arguments(word: str, text: str) -> tuple[str, ...] | None:
    """Return the new arguments of the program, None to keep those that it had.

    :raises UsageError: for an open quote, or for a redirection.
    """
    if not text:
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{word} {text}: {error}") from None
    if found := _REDIRECTION.search(_QUOTED.sub("", text)):
        raise UsageError(
            f"{word}: {found[0]!r} is not understood: no shell reads the arguments. "
            "'pgdb launch --stdin FILE' gives the job an input; a word in quotes is an argument"
        )
    return tuple(words[1:] if words[:1] == ["--"] else words)


def _is_fresh(call: Call) -> bool:
    """Return whether no rank of a launched job has run since the launch."""
    session = call.session
    return (
        session.mode == "launch"
        and not session.has_ended
        and session.state.stopped == session.set
        and not session.runs.has_run
    )
