"""Commands that set ranks running, stop them, and end them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.element_checks import text_of
from pgdb.frontend.analysis.values import number_of
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.lockstep import LOCKSTEP_WORDS
from pgdb.frontend.api.settings_journal import displays_made
from pgdb.frontend.api.traffic import lines_of_detached
from pgdb.frontend.commands import traces, waiting
from pgdb.frontend.commands.inside_calls import note_steps
from pgdb.frontend.commands.meeting import LOCKSTEP, RUN_WORDS, step_together
from pgdb.frontend.commands.options import Rest, is_number
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    need_argument,
    no_argument,
)
from pgdb.frontend.system import durations
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import RunWord
from pgdb.ranks import RankSet
from pgdb.records import Exit, Record, Running, Stop, Value

if TYPE_CHECKING:
    from pgdb.frontend.commands.dispatch import Dispatcher


async def _step(call: Call, text: str, *, lockstep: bool) -> Outcome:
    if call.word in ("step", "next") or (call.word == "until" and not text):
        note_steps(call)
    if not lockstep:
        return await _run(call, text)
    outcome = await step_together(call, text)
    await traces.report(call.dispatcher, call.ranks)
    return outcome


async def _run(call: Call, text: str) -> Outcome:
    return await run_ranks(
        call,
        lambda: call.session.runs.start(RUN_WORDS[call.word], text, call.ranks),
    )


_REST = {"until": Rest.LOCATION}


def _declare(word: RunWord, usage: str, summary: str, aliases: tuple[str, ...], text: str) -> None:
    is_step = word in LOCKSTEP_WORDS
    COMMANDS.command(
        word,
        group=Group.RUNNING,
        usage=usage,
        summary=summary,
        aliases=aliases,
        description=text,
        options=(LOCKSTEP,) if is_step else (),
        # GDB ignores the argument of 'continue' where a rank is at no breakpoint, so PGDB reads it.
        rest=_REST.get(word, Rest.EXPRESSION if is_step else Rest.OPERAND),
        advice={"--lockstep": f"; it is one of {', '.join(LOCKSTEP_WORDS)}"},
    )(_step if is_step else _run)


_RULES = """The prompt returns when all ranks have stopped or ended, or when, after the first
stop, no further rank has stopped for the settle time; 'wait' waits longer. With & at the end it
returns at once. Ctrl-C interrupts the ranks."""
_declare(
    "continue", "continue [N] [&]", "continue the ranks", ("c", "fg"),
    f"Continue the selected ranks. With N, pass over the breakpoint N - 1 times.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "step", "step [N] [&]", "step to the next source line, into functions", ("s",),
    f"Step N source lines, into functions that have line information.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "next", "next [N] [&]", "step to the next source line, over functions", ("n",),
    f"Step N source lines, over function calls.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "stepi", "stepi [N] [&]", "execute one instruction, into calls", ("si",),
    f"Execute N instructions.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "nexti", "nexti [N] [&]", "execute one instruction, over calls", ("ni",),
    f"Execute N instructions, over calls.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "finish", "finish [&]", "run until the selected frame returns", ("fin",),
    f"Run until the selected frame returns, and show what it returned.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "until", "until [LOCATION] [&]", "run to a later line", ("u",),
    f"Run until a later source line than the current one, or LOCATION.\n\n{_RULES}",
)  # fmt: skip
_declare(
    "advance", "advance LOCATION [&]", "run to a location", (),
    f"Run until LOCATION.\n\n{_RULES}",
)  # fmt: skip


@COMMANDS.command(
    "interrupt", group=Group.RUNNING, aliases=("halt",), summary="stop the ranks that run"
)
async def _interrupt(call: Call) -> Outcome:
    """Stop the selected ranks that run, and wait until they have stopped.

    GDB gives up work without an end: a function that it has called ('print f()', a condition), a
    loop of its own. Ctrl-C does the same while a command waits.

    PGDB sends SIGURG to a rank, which the program does not notice, even with a handler for it. A
    rank whose threads all block SIGURG cannot be stopped so, and says so; a breakpoint stops it.
    """
    no_argument(call, has_ranks=True)
    answer = await call.view.interrupt()
    return call.dispatcher.without_stops(answer)


@COMMANDS.command(
    "wait", group=Group.RUNNING, usage="wait [SECONDS]", summary="wait until the ranks have stopped"
)
async def _wait(call: Call) -> Outcome:
    """Wait until the selected ranks have stopped or ended, for at most SECONDS.

    Without SECONDS, only a time that you have given limits it: '--timeout' or 'set timeout'.

    Lines that are typed meanwhile are carried out afterwards; 'continue' gives them to the job.
    """
    timeout_s = None
    if call.argument:
        timeout_s = durations.seconds("wait", call.argument, least=True)
    session = call.session
    ranks = call.ranks & (session.state.running | session.state.stopped)
    limit_s = timeout_s
    if timeout_s is None and call.workspace.limit_s is not None:
        limit_s = call.workspace.run_timeout_s
    with waiting.foreground(call, ranks, takes_input=False):
        answer = await session.runs.wait_stopped("wait", ranks, timeout_s=limit_s)
        answer = await waiting.with_places(call, answer)
    # A wait with a time limit does not fail when the time is over.
    answer = replace(call.dispatcher.without_stops(answer), may_run=timeout_s is not None)
    if not call.background:
        await traces.report(call.dispatcher, call.ranks)
    return answer


@COMMANDS.command(
    "timeout",
    group=Group.SESSION,
    usage="timeout SECONDS COMMAND",
    summary="run a command with a deadline",
    completes=Completes.COMMAND,
)
async def _timeout(call: Call) -> Outcome:
    """Carry out COMMAND with a deadline of its own: 'timeout 5 bt', 'timeout 60 continue'.

    The deadline covers all requests of COMMAND together. PGDB names the ranks that have not
    answered by then, and shows their answers when they come. Ranks that have not stopped run on,
    and an unfinished 'detach' or 'reattach' goes on. 'set timeout' is for all commands from now on.
    """
    seconds, _, command = need_argument(call, "seconds and a command").partition(" ")
    timeout_s = durations.seconds("timeout", seconds)
    if not command.strip():
        raise UsageError("'timeout' needs a command after the seconds; 'set timeout' limits all")
    with call.dispatcher.limited(timeout_s):
        return await call.dispatcher.dispatch(command, call.ranks)


@COMMANDS.command(
    "reattach",
    group=Group.SESSION,
    usage="reattach [SET]",
    summary="attach to ranks that have no debugger",
    completes=Completes.RANKS,
)
async def _reattach(call: Call) -> Outcome:
    """Attach a new GDB to the ranks of SET, or of the focus, whose GDB does not answer.

    These are ranks whose GDB has died or hangs (PGDB ends it then), and detached ranks. They are
    stopped, with the session's breakpoints. Changed settings of GDB, values in its history and
    displays are not restored.
    """
    session = call.session
    ranks = call.workspace.parse_ranks(call.argument) if call.argument else call.ranks
    answer = await session.ranks(ranks).reattach()
    # Only a new GDB answers with a stop, and it has no rows of its traces.
    new = (each.ranks for each in answer.classes if isinstance(each.record, Stop))
    call.workspace.traced_rows.forget(RankSet.union(new))
    return call.dispatcher.without_stops(answer)


@COMMANDS.command("detach", group=Group.SESSION, summary="detach from the ranks; they run on")
async def _detach(call: Call) -> Outcome:
    """Remove all that PGDB has put into the selected ranks, and let them run on.

    The session ends when the last rank is detached.
    """
    no_argument(call, has_ranks=True)
    session = call.session
    if not session.state.live:
        call.dispatcher.say("\n".join(session.state.absent(call.ranks)))
        call.dispatcher.quit(kill=False, why="no rank is left")
    out_of_reach = _out_of_reach(call)
    answer = await session.ranks(call.ranks).detach()
    if answer.errors or answer.missing.late:
        return answer
    call.dispatcher.say("\n".join([*lines_of_detached(answer.classes), *out_of_reach]))
    if not session.state.live:
        call.dispatcher.quit(kill=False, why="the last rank was detached")
    return None


@COMMANDS.command("kill", group=Group.SESSION, aliases=("k",), summary="kill the ranks' processes")
async def _kill(call: Call) -> Outcome:
    """End the processes of the selected ranks. Most launchers then end the whole job."""
    no_argument(call, has_ranks=True)
    out_of_reach = _out_of_reach(call)
    if not await call.dispatcher.confirm(f"Kill ranks [{call.ranks & call.session.state.live}]?"):
        return "not killed"
    answer = await call.view.kill()
    if answer.errors or answer.missing:
        return answer
    # A line about their ends is on the screen already.
    silent = answer.ranks - call.session.state.exited
    return "\n".join([*([f"[{silent}] killed"] if silent else []), *out_of_reach]) or None


def _out_of_reach(call: Call) -> list[str]:
    """Return a text about the selected ranks that live but have no debugger.

    :raises CommandError: if no selected rank has a debugger.
    """
    state = call.session.state
    if not call.ranks & state.live:
        why = "The program is not being run" if call.ranks <= state.exited else call.word
        raise CommandError(f"{why}: {'; '.join(state.absent(call.ranks))}")
    return state.absent(call.ranks & (state.lost | state.detached))


@COMMANDS.command(
    "quit",
    group=Group.SESSION,
    usage="quit [EXPR]",
    aliases=("q", "exit"),
    summary="leave PGDB",
)
async def _quit(call: Call) -> Outcome:
    """Leave PGDB: an attached job is detached and runs on, a launched job is killed.

    EXPR is the exit status of PGDB, as in GDB: 'quit 3', 'quit $_exitcode'. Without it the status
    says how the session went (see 'pgdb --help'). All selected ranks must have the same value.

    At a terminal PGDB asks before it kills. To leave a launched job running, detach first.
    """
    status = await _status(call)
    dispatcher, session = call.dispatcher, call.session
    kill = session.kills_at_close
    has_ranks = bool(session.state.live)  # else its launcher is about to end by itself
    if kill and has_ranks and not await dispatcher.confirm("Quit and kill the job?"):
        return "still here; 'detach' lets the job run on"
    dispatcher.chosen_status = status
    dispatcher.quit(kill=kill)
    return None


async def _status(call: Call) -> int | None:
    """Return the exit status that the argument of ``quit`` stands for, None without one.

    :raises CommandError: if the ranks have none, or different ones.
    """
    text = call.argument
    if not text:
        return None
    if is_number(text):
        return int(text) & 0xFF
    ends = call.session.state.latest(call.ranks) if text == "$_exitcode" else []
    codes = {each.record.code if isinstance(each.record, Exit) else None for each in ends}
    if len(codes) == 1 and RankSet.union(each.ranks for each in ends) == call.ranks:
        if (code := codes.pop()) is not None:
            return code & 0xFF  # where the job was killed, there is no GDB to ask
    answer = await call.view.evaluate(text, of_ended=True)
    values = {each.record.text for each in answer.classes if isinstance(each.record, Value)}
    if answer.errors or not values:
        why = text_of(answer.errors[0].filled) if answer.errors else "no rank has answered"
        raise CommandError(f"{call.word} {text}: {why}")
    numbers = {number_of(each) for each in values}
    status = numbers.pop() if len(numbers) == 1 and len(answer.classes) == 1 else None
    if not isinstance(status, int):
        raise CommandError(
            f"{call.word} {text}: the ranks have no whole number in common; "
            f"'proc {call.ranks.first} {call.word} {text}' takes that of one rank"
        )
    return status & 0xFF


@COMMANDS.command(
    "jump",
    group=Group.RUNNING,
    usage="jump LOCATION [&]",
    summary="continue at another place",
    aliases=("j",),
)
async def _jump(call: Call) -> Outcome:
    """Resume the selected ranks at LOCATION instead of where they stopped."""
    need_argument(call, "a location")
    return await console_run(call)


async def console_run(call: Call) -> Answer | None:
    """Carry out a GDB command that sets ranks running."""
    return await run_ranks(
        call,
        lambda: call.session.runs.start_console(call.line, call.ranks),
    )


async def run_ranks(
    call: Call, start: Callable[[], Awaitable[Answer]], ranks: RankSet | None = None
) -> Answer:
    """Set *ranks* running by *start*, and wait for them by the rules of the workspace.

    Without *ranks*, it is those of the call.
    """
    ranks = call.ranks if ranks is None else ranks
    dispatcher, workspace = call.dispatcher, call.workspace
    if call.background:
        started = await start()
        call.session.runs.note_unmoved(started)
        return dispatcher.without_stops(started)
    # Set before the start: an interrupt can come at any moment from here on.
    limit_s, settle_s = workspace.run_timeout_s, workspace.settle_s
    with waiting.foreground(call, ranks):
        started = await start()
        answer = await call.session.runs.finish(started, timeout_s=limit_s, settle_s=settle_s)
        # A barrier that is met meanwhile releases the ranks that were held at the start.
        held = answer.missing.held & call.session.state.held
        answer = replace(answer, missing=replace(answer.missing, held=held))
        answer = await waiting.with_places(call, answer)
    call.session.runs.note_unmoved(started)
    return await _conclude(dispatcher, answer, ranks - started.missing.running, limit_s)


async def _conclude(
    dispatcher: Dispatcher, answer: Answer, ranks: RankSet, limit_s: float | None
) -> Answer:
    """Say why the wait for *ranks* has ended before them, and what their traces have collected."""
    if limit_s is not None and (running := answer.missing.running & ranks):
        explain_running(dispatcher, answer, running, limit_s)
    await traces.report(dispatcher, ranks)
    await _begin_displays(dispatcher, ranks)
    return dispatcher.without_stops(answer)


async def _begin_displays(dispatcher: Dispatcher, ranks: RankSet) -> None:
    """Begin displays of an earlier launch on ranks that have stopped where their variables are."""
    session = dispatcher.session
    for each in session.settings.put_off:
        if there := each.ranks & ranks & session.state.stopped:
            answer = await session.ranks(there).execute_plain(each.line)
            well = tuple(one for one in answer.classes if not one.is_error)
            if well:
                came = RankSet.union(one.ranks for one in well)
                session.settings.display_came(each, came)
                if each.is_disabled:
                    for number, its_ranks in displays_made(well).items():
                        await session.ranks(its_ranks).execute_plain(f"disable display {number}")
                    continue
                dispatcher.display.flush()  # the stops come first
                await dispatcher.show(replace(answer, ranks=came, classes=well))


async def finish_unasked(call: Call, answer: Answer) -> Answer:
    """Wait for ranks that code of the user's has set running, as ``gdb.execute("continue")`` does.

    GDB carries the code out up to its end, and no command in between.
    """
    ranks = RankSet.union(each.ranks for each in answer.classes if isinstance(each.record, Running))
    session, workspace = call.session, call.workspace
    limit_s, settle_s = workspace.run_timeout_s, workspace.settle_s
    with waiting.foreground(call, ranks):
        while not answer.missing.running:
            answer = await session.runs.finish(answer, timeout_s=limit_s, settle_s=settle_s)
            if ended := ranks - answer.missing.ranks:
                await session.ranks(ended).execute_plain("echo")
            if not (again := ended & session.state.running):
                break
            going = EquivalenceClass[Record](again, Running())
            others = [part for each in answer.classes if (part := each.part(ended - again)).ranks]
            answer = replace(answer, classes=(going, *others))
        answer = await waiting.with_places(call, answer)
    return await _conclude(call.dispatcher, answer, ranks, limit_s)


def explain_running(
    dispatcher: Dispatcher, answer: Answer, running: RankSet, limit_s: float
) -> None:
    """Say to a user without a prompt how a run command ends before ranks that run on."""
    came = RankSet.union(each.ranks for each in answer.classes)
    text = f"[{running}] still running {limit_s:g} s after '{answer.command}'"
    session = dispatcher.session
    if not came:
        session.note(
            f"{text}, and none of them has stopped, so the exit status is 4; 'interrupt' stops "
            "them, and --timeout gives them longer"
        )
    elif dispatcher.workspace.settle_s is None:
        session.note(
            f"{text}, and [{came}] {by_number(came, 'has', 'have')} stopped or ended, so the "
            "exit status is 4. Where ranks may run on, --settle 2 ends the wait 2 s after the last "
            "stop, with status 0; --timeout gives them longer"
        )
