"""Commands about groups of ranks in motion: held ranks."""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, Shown
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import places_text
from pgdb.frontend.show.text.layout import Layout, brackets, table
from pgdb.ranks import RankSet


@COMMANDS.command(
    "hold",
    group=Group.RUNNING,
    usage="hold [SET]",
    summary="keep ranks where they are when others go on",
    completes=Completes.RANKS,
)
async def _hold(call: Call) -> Outcome:
    """Hold the ranks of SET, or the selected ones: run commands leave them where they are.

    'hold all!3-4' and 'step' steps ranks 3 and 4 alone, whatever the focus is. A rank that runs
    goes on to its next stop, and is held there. 'release', 'detach' and the end of the rank end
    the hold; 'restart' ends that of all. @held is the set of the held ranks; 'ranks' lists them
    with the reason.
    """
    ranks = _ranks(call)
    session = call.session
    held = session.ranks(ranks).hold()
    state = session.state
    going = held & state.running
    rows = [(brackets(part), text) for part, text in (
        (held & state.stopped, "held"),
        (going, _runs_on(going)),
        (held & state.lost, "lost; held when 'reattach' has attached to it"),
        (ranks & state.held - held, "held already"),
    ) if part]  # fmt: skip
    rows += [(line, "") for line in state.absent(ranks & (state.exited | state.detached))]
    text = "\n".join(line.rstrip() for line in table(rows, Layout()))
    return Shown(text, sets=(held,), line=json_lines.held(held, state.held_for, released=False))


@COMMANDS.command(
    "release",
    group=Group.RUNNING,
    usage="release [SET]",
    summary="let held ranks go on with the others",
    completes=Completes.RANKS,
)
async def _release(call: Call) -> Outcome:
    """Hold the ranks of SET, or the selected ones, no longer, whatever they were held for.

    They stay stopped; the next run command sets them running. 'release @held' releases all.
    """
    ranks = _ranks(call)
    session = call.session
    free = session.ranks(ranks).release()
    held_for = session.held_for
    rows = [(brackets(free), "released"), *(
        (brackets(left), f"{places_text.held_text(why)} still") for why, left in held_for.items()
    )]  # fmt: skip
    text = "\n".join(line.rstrip() for line in table(rows, Layout()))
    return Shown(text, sets=(free,), line=json_lines.held(free, held_for, released=True))


def _runs_on(ranks: RankSet) -> str:
    """Return the words about ranks that run when they are held."""
    runs = by_number(ranks, "runs", "run")
    its, it = by_number(ranks, "its", "their"), by_number(ranks, "it", "them")
    return f"{runs} on; held from {its} next stop on ('interrupt' stops {it})"


def _ranks(call: Call) -> RankSet:
    """Return the ranks of the argument, or the selected ones.

    :raises UsageError: if the argument is an empty set.
    """
    if not call.argument:
        return call.ranks
    ranks = call.workspace.parse_ranks(call.argument)
    if not ranks:
        raise UsageError(f"{call.word}: {call.argument} is an empty set")
    return ranks
