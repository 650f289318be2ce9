"""Commands about ranks and sets: who a command is for, who is where, what was folded."""

from __future__ import annotations

import re

from pgdb.errors import UsageError
from pgdb.frontend import render
from pgdb.frontend.commands.table import (
    COMMANDS,
    Call,
    Completes,
    Group,
    Outcome,
    need_argument,
)

_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_AUTOMATIC = re.compile(r"(running|stopped|exited|lost|error|bp\d+|all)\Z")
_SETS = """A rank set is 0-3,8 or 0..3, with a step 0-31/2, all, or a name @running, @stopped,
@exited, @lost, @error, @bp2 (stopped at breakpoint 2) or one of your own (see defset);
operators from left to right: , union, ! without, & both, ^ either."""


async def _proc(call: Call) -> Outcome:
    text, command = split_set(need_argument(call, "a rank set and a command"))
    if not command:
        raise UsageError("'proc' needs a command after the rank set; 'focus' selects ranks")
    ranks = call.shell.session.parse_ranks(text)
    return await call.shell.dispatch(command, ranks)


_proc.__doc__ = f"Carry out one command on some ranks, whatever the focus is.\n\n{_SETS}"
COMMANDS.command(
    "proc",
    group=Group.RANKS,
    usage="proc SET COMMAND",
    summary="carry out a command on some ranks",
    completes=Completes.RANKS_THEN_COMMAND,
)(_proc)


async def _focus(call: Call) -> Outcome:
    if call.argument:
        call.shell.set_focus(call.shell.session.parse_ranks(call.argument))
        return None
    return f"focus [{call.shell.focus}]"


_focus.__doc__ = f"Select the ranks that commands are for from now on.\n\n{_SETS}"
COMMANDS.command(
    "focus",
    group=Group.RANKS,
    usage="focus [SET]",
    summary="select the ranks that commands are for",
    completes=Completes.RANKS,
)(_focus)


@COMMANDS.command(
    "defset", group=Group.RANKS, usage="defset NAME SET", summary="give a rank set a name"
)
async def _defset(call: Call) -> Outcome:
    """Define @NAME as a set of ranks."""
    name, _, text = need_argument(call, "a name and a rank set").partition(" ")
    name = name.removeprefix("@")
    if not _NAME.match(name) or _AUTOMATIC.match(name):
        raise UsageError(f"defset: {name!r} cannot be the name of a set; use letters and digits")
    if not text.strip():
        raise UsageError(f"defset: which ranks are to be @{name}?")
    ranks = call.shell.session.parse_ranks(text)
    call.shell.session.sets[name] = ranks
    return f"@{name} is [{ranks}]"


@COMMANDS.command("undefset", group=Group.RANKS, usage="undefset NAME", summary="forget a name")
async def _undefset(call: Call) -> Outcome:
    """Forget the name of a set of ranks."""
    name = need_argument(call, "the name of a set").removeprefix("@")
    if call.shell.session.sets.pop(name, None) is None:
        raise UsageError(f"undefset: there is no set @{name}")
    return None


@COMMANDS.command("ranks", group=Group.RANKS, usage="ranks", summary="who is where and doing what")
async def _ranks(call: Call) -> Outcome:
    """Show the selected ranks by state and host, and the named sets."""
    session = call.shell.session
    state = session.state
    lines = []
    for host, members in session.hosts.items():
        for name in ("stopped", "running", "exited", "detached", "lost"):
            part = getattr(state, name) & members & call.ranks
            if part:
                lines.append(f"{render.brackets(part)} {name} on {host}")
    for each in state.latest(state.stopped & call.ranks):
        lines.append(f"{render.brackets(each.ranks)} {render.event(each.filled)}")
    lines += [f"@{name} = [{ranks}]" for name, ranks in session.sets.items()]
    return "\n".join(lines) or "no ranks"


@COMMANDS.command(
    "expand",
    group=Group.RANKS,
    usage="expand [N] [SET]",
    summary="show an earlier answer unfolded",
)
async def _expand(call: Call) -> Outcome:
    """Show every class of answer N, or of the last one, for the ranks of SET."""
    number, _, text = call.argument.partition(" ")
    if number and not number.isdigit():
        number, text = "", call.argument
    answer = call.shell.recall(int(number) if number else 0)
    ranks = call.shell.session.parse_ranks(text) if text.strip() else None
    return call.shell.expand(answer, ranks)


def split_set(text: str) -> tuple[str, str]:
    """Cut a rank set, which may have blanks around its operators, from what follows it."""
    match = re.match(r"\s*(\[[^\]]*\]|[^\s,!&^]+(?:\s*[,!&^]\s*[^\s,!&^]+)*)\s*(.*)", text, re.S)
    return (match[1], match[2]) if match else ("", text)
