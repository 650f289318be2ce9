"""Commands that keep or bring ranks together: lockstep, until-diverge, until-differ, barrier."""

from __future__ import annotations

import functools
from typing import get_args

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.api import barriers, lockstep
from pgdb.frontend.api import until_differ as differing
from pgdb.frontend.api.absentees import BarrierThen
from pgdb.frontend.commands import waiting
from pgdb.frontend.commands.options import Option, Rest, count, is_number, split_words
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, Shown
from pgdb.frontend.show.json import json_meeting
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text import meeting_text, render
from pgdb.frontend.system.typed_names import typed_path
from pgdb.overlay.messages import RunWord
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

LOCKSTEP = Option(
    name="--lockstep",
    help="keep the ranks together: step all at once, until their lines part",
)
"""The option of the commands that step."""
_LOOKS_LIKE_RANKS = pattern(r"@\S+|all!\S+|\d+(?:[-,./!]+\d*)+")
"""A set of ranks that is no location: a single number is a line."""
_CONDITION = pattern(r"(?:\A|\s)if(?=[\s(]|\Z)")
RUN_WORDS: dict[str, RunWord] = {word: word for word in get_args(RunWord)}
"""The run commands by their names."""


async def step_together(call: Call, text: str) -> Outcome:
    """Carry out ``step --lockstep`` and its like.

    :raises UsageError: for & at the end, and for a text that is no number of steps.
    """
    word = RUN_WORDS[call.word]
    if call.background:
        raise UsageError(
            f"'{call.word} --lockstep' cannot run in the background: it compares the ranks"
        )
    if word == "until":
        return await _together(call, word, argument=text)
    if word == "finish" and text:
        raise UsageError(f"'finish --lockstep' takes no argument, not {text!r}")
    steps = count(lockstep.MOST_STEPS)(f"{call.word} --lockstep", text) if text else 1
    return await _together(call, word, steps=steps)


@COMMANDS.command(
    "until-diverge",
    group=Group.RUNNING,
    usage="until-diverge [N]",
    summary="step the ranks until their control flow parts",
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--by",
            value="STEP",
            help="the step: step, next, stepi or nexti",
            choices=lockstep.DIVERGE_WORDS,
            default="step",
        ),
    ),
)
async def _until_diverge(call: Call, text: str, *, by: str) -> Outcome:
    """Step the selected ranks together until their lines part, or N times at most.

    It is 'step --lockstep' again and again. The ranks that took another line are named with it:
    '[0-6] took line 57, [7] line 61'. With --by next, calls of functions are one step. It ends when
    a rank ends, stops for another reason, or waits for ranks that have completed their step. Ctrl-C
    ends it too.
    """
    if call.background:
        raise UsageError("'until-diverge' cannot run in the background: it compares the ranks")
    steps = count(lockstep.MOST_STEPS)("until-diverge", text) if text else lockstep.MOST_STEPS
    return await _together(call, RUN_WORDS[by], steps=steps)


@COMMANDS.command(
    "until-differ",
    group=Group.RUNNING,
    usage="until-differ EXPR",
    summary="run from hit to hit until values differ across ranks",
    needs="an expression",
    options=(
        Option(
            name="--at",
            value="LOCATION",
            help="the place to compare at; without it, the line at which the ranks are",
            default="",
        ),
        Option(
            name="--hits",
            value="N",
            help="end after N hits",
            read=count(differing.MOST_HITS),
            default=differing.MOST_HITS,
            argument="limit",
        ),
        Option(
            name="--from",
            value="RECORDING",
            help="compare each rank with its values in a recording, hit by hit",
            argument="recording",
        ),
    ),
)
async def _until_differ(
    call: Call, expression: str, *, at: str, limit: int, recording: str | None
) -> Outcome:
    """Continue the ranks from hit to hit of LOCATION until the values of EXPR differ.

    The hit has a number, which is shown with the ranks whose value is not that of most. All stop
    at each hit, and EXPR is compared as 'assert EXPR same' does. Without --at the values are
    compared where the ranks are, before the first hit. With --from, values are compared with those
    that an earlier 'until-differ EXPR', or 'print EXPR' at each hit, has left in a recording. The
    breakpoint for the hits is deleted at the end. Ctrl-C ends it. A run that ends otherwise, as
    with the job, says at how many hits the values were the same.
    """
    if call.background:
        raise UsageError("'until-differ' cannot run in the background: it compares the ranks")
    dispatcher, workspace = call.dispatcher, call.workspace
    with waiting.foreground(call):
        found = await differing.until_differ(
            call.session,
            call.ranks,
            expression,
            at=at,
            limit=limit,
            recording=typed_path(recording) if recording is not None else None,
            command=call.line,
            timeout_s=workspace.run_timeout_s,
            settle_s=workspace.settle_s,
            is_given_up=lambda: dispatcher.was_interrupted,
        )
        found = replace(found, answer=await waiting.with_places(call, found.answer))
    failing = found.check.failing if found.check is not None else ()
    return Shown(
        meeting_text.differ(found, dispatcher.width),
        answer=dispatcher.without_stops(found.answer),
        sets=tuple(each.ranks for each in failing),
        line=json_meeting.differ(found, functools.partial(render.record, command=call.line)),
        failed=found.end == "failed",
        is_late=found.end == "timeout",
    )


@COMMANDS.command(
    "barrier",
    group=Group.BREAKPOINTS,
    usage="barrier LOCATION [SET] [if EXPR]",
    summary="hold ranks at a place until all are there",
    needs="a location",
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--then",
            value="WHAT",
            help="what the ranks do when all are there: stop (they stay stopped) or release (they "
            "run on; a step ends there)",
            choices=get_args(BarrierThen),
            default="stop",
        ),
        Option(
            name="--times",
            value="N",
            help="delete the barrier when it was met N times",
            read=count(barriers.MOST_TIMES),
            default=0,
        ),
        Option(
            name="--ranks",
            value="SET",
            help="the ranks that are to meet, where LOCATION is several words",
        ),
    ),
)
async def _barrier(call: Call, text: str, *, then: BarrierThen, times: int, ranks: str) -> Outcome:
    """Set a barrier: each rank is held at LOCATION until all ranks of SET are there.

    SET is the selected ranks if it is not given. A barrier is a breakpoint with a number: 'delete
    3' ends it, 'info barriers' lists all. Held ranks ignore run commands; 'release SET' lets them
    go. 'continue' sets the others running.

    A rank that ends, crashes, is lost or detached is not waited for any longer, and named. When no
    rank has come for a while, PGDB looks where the others are, and says so: a rank in MPI_Recv may
    wait for a rank that is held, which is named.
    """
    location, which, condition = _split(call, text)
    if ranks:
        if which is not None:
            raise UsageError(f"barrier: the ranks are given twice: [{which}] and --ranks {ranks}")
        which = _ranks_of(call, ranks)
    wanted = call.ranks if which is None else which
    made, answer = await call.session.all_barriers.make(
        location,
        wanted,
        condition=condition,
        then=then,
        times=times,
    )
    await call.dispatcher.show(replace(answer, command=call.line))
    without = RankSet.union(each.ranks for each in answer.errors) & wanted
    return Shown(meeting_text.barrier_made(made, without), line=json_meeting.barrier(made, "set"))


def _split(call: Call, text: str) -> tuple[str, RankSet | None, str]:
    """Return the location, the ranks if there are any, and the condition of a barrier."""
    match = _CONDITION.search(text)
    condition = text[match.end() :].strip() if match else ""
    words = split_words(text[: match.start()] if match else text)
    if match and not condition:
        raise UsageError("barrier: 'if' needs a condition")
    # The words of '-function f -line 3' are no set.
    if len(words) < 2 or words[0].startswith("-"):
        if len(words) == 1 and _LOOKS_LIKE_RANKS.fullmatch(words[0]):
            raise UsageError(
                f"barrier: {words[0]!r} is a set of ranks, and the location is missing: "
                f"'barrier LOCATION {words[0]}'"
            )
        return " ".join(words), None, condition
    *location, last = words
    # '*main + 4' is a location.
    if len(location) == 2 and not location[0].startswith("*") and _is_set(location[1]):
        raise UsageError(f"barrier: two sets of ranks are given: {location[1]} and {last}")
    return " ".join(location), _ranks_of(call, last), condition


def _is_set(text: str) -> bool:
    return text.isdecimal() or _LOOKS_LIKE_RANKS.fullmatch(text) is not None


def _ranks_of(call: Call, text: str) -> RankSet:
    """Return the ranks of a set.

    :raises UsageError: if it has none.
    """
    if not (ranks := call.workspace.parse_ranks(text)):
        raise UsageError(f"barrier: {text} is an empty set of ranks")
    return ranks


def info_barriers(call: Call, text: str) -> Outcome:
    """List barriers: all, or those with some numbers."""
    session = call.session
    numbers = text.replace(",", " ").split()
    for each in numbers:
        if not is_number(each):
            raise UsageError(f"{each!r} is no number of a barrier")
    found = (
        [session.all_barriers.get(int(each)) for each in numbers] if numbers else session.barriers
    )
    lines = map(meeting_text.barrier_line, found)
    text = "\n".join(lines) or "No barriers; 'barrier LOCATION' sets one."
    return Shown(text, line=json_meeting.barriers(found))


async def _together(call: Call, word: RunWord, *, argument: str = "", steps: int = 1) -> Outcome:
    """Step the ranks of a call together, and show what came of it."""
    dispatcher, workspace = call.dispatcher, call.workspace
    with waiting.foreground(call):
        found = await lockstep.step_together(
            call.session,
            call.ranks,
            word,
            argument,
            count=steps,
            command=call.line,
            timeout_s=workspace.run_timeout_s,
            settle_s=workspace.settle_s,
            is_given_up=lambda: dispatcher.was_interrupted,
        )
    dispatcher.display.flush()
    return Shown(
        meeting_text.lockstep(found, source_line, dispatcher.width),
        answer=dispatcher.without_stops(found.answer),
        sets=tuple(way.ranks for way in found.ways),
        line=json_meeting.lockstep(found, functools.partial(render.record, command=call.line)),
        failed=found.end == "failed",
        is_late=found.end == "timeout",
    )
