"""Waiting for stops: progress meanwhile, and the places of ranks that have not stopped."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import held_waits
from pgdb.frontend.api.absentees import Absent, listed
from pgdb.frontend.commands.table import Call
from pgdb.frontend.show.shown import Waiting
from pgdb.ranks import RankSet

PROGRESS_S = 1.0
"""Time between two reports of progress, and before the first one, in seconds."""
LOOK_S = 3.0
"""Time after which PGDB looks whether ranks wait for held ones, in seconds."""
_MOST_LOOK_S = 64.0
_WAY_OUT = "'release' lets held ranks run, after Ctrl-C or a time limit has ended this wait"
"""The way out for the user. No command is read while one waits: typed lines go to the job."""


async def with_places(call: Call, answer: Answer) -> Answer:
    """Return the answer to a command that has waited, with the places of ranks that still run.

    Barriers say why ranks do not come, where others have come meanwhile.
    """
    await call.session.all_barriers.report_now()
    places = await call.session.ranks(answer.missing.running).still_running()
    if text := held_waits.beside_stopped(call.session, answer.ranks, places):
        call.session.note(text)
    return replace(call.session.runs.with_news(answer), still_running=places)


@contextlib.contextmanager
def foreground(
    call: Call, ranks: RankSet | None = None, *, takes_input: bool = True
) -> Iterator[None]:
    """Direct Ctrl-C, and typed lines if the job *takes_input*, to *ranks*; show progress.

    Without *ranks*, the ranks of the call are meant. A command that only waits leaves the lines
    to the prompt.
    """
    dispatcher = call.dispatcher
    ranks = call.ranks if ranks is None else ranks
    dispatcher.in_foreground, dispatcher.takes_input = ranks, takes_input
    progress = asyncio.create_task(_show_progress(call, ranks))
    try:
        yield
    finally:
        progress.cancel()
        dispatcher.display.waiting(None)
        dispatcher.in_foreground, dispatcher.takes_input = RankSet(), False


async def _show_progress(call: Call, ranks: RankSet) -> None:
    """Show how many ranks still run, once a second."""
    begun_s = time.monotonic()
    session, display = call.session, call.dispatcher.display
    state, look_s = session.state, LOOK_S
    # A barrier can hold others meanwhile: the command has waited for these.
    held = state.held
    reported: tuple[Absent, ...] = ()
    is_step_shown = False
    while True:
        await asyncio.sleep(PROGRESS_S)
        elapsed_s = time.monotonic() - begun_s
        if running := ranks & (state.running | state.passing):
            asked = (ranks - state.exited - (held & state.held)) | running
            stopped = state.stopped - state.passing
            display.waiting(
                Waiting(
                    call.line,
                    asked,
                    running,
                    elapsed_s,
                    held=stopped & state.held,
                    stopped=stopped - state.held - asked,
                )
            )
        else:
            display.waiting(None)
        if running and elapsed_s >= look_s:
            found = await held_waits.waits_for_held(session, running)
            look_s = min(2 * elapsed_s, elapsed_s + _MOST_LOOK_S)
            if found and found != reported:
                reported = found
                session.note(f"{listed(found)}; {_WAY_OUT}")
            if not is_step_shown and (text := held_waits.steps_beside_held(session, running)):
                is_step_shown = True
                session.note(f"{text}; {_WAY_OUT}")
