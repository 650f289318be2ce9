"""The command that explains why ranks wait."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from pgdb.frontend.api.explaining import explain_waits
from pgdb.frontend.api.watch_times import WHY_S
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, Shown
from pgdb.frontend.show.export import why_files
from pgdb.frontend.show.json import json_why
from pgdb.frontend.show.text import why_text
from pgdb.frontend.system.durations import seconds
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.user_files import check_place
from pgdb.frontend.system.workers import with_file


def _read_file(kind: why_files.Format) -> Callable[[str, str], tuple[why_files.Format, Path]]:
    return lambda title, text: (kind, typed_path(text))


@COMMANDS.command(
    "why",
    group=Group.STACK,
    usage="why [SET]",
    summary="explain why ranks wait: for whom, for what, and the reason",
    completes=Completes.RANKS,
    rest=Rest.OPERAND,
    options=(
        Option(name="--all", help="show all calls, the rules and the whole graph", argument="full"),
        Option(
            name="--look",
            help="let no stopped rank run; then nothing can be said for sure",
            argument="look_only",
        ),
        Option(
            name="--for",
            value="S",
            help="let the ranks run for S seconds between two looks",
            read=seconds,
            argument="watch_s",
            default=WHY_S,
        ),
        *(
            Option(
                name=f"--{each}",
                value="FILE",
                help=f"write the graph to FILE as well, as {each.upper()}",
                read=_read_file(each),
                argument="files",
                is_repeated=True,
            )
            for each in why_files.FORMATS
        ),
    ),
)
async def _why(
    call: Call,
    which: str,
    *,
    full: bool,
    look_only: bool,
    watch_s: float,
    files: tuple[tuple[why_files.Format, Path], ...],
) -> Outcome:
    """Explain why ranks wait, with the evidence; SET selects the ranks whose reasons are shown.

    PGDB lists the call of MPI that each rank is in, with its arguments, and makes the graph of who
    waits for whom. The first line is the verdict: a cycle, a receive that nobody sends, different
    collective calls, a rank that is missing from one and where it is instead. Causes are separated
    from victims. A verdict is certain, likely, or says what would decide.

    A message in flight looks like a deadlock. So ranks that were stopped from outside, and wait,
    run for a moment (--for), and stop when their call returns. Ranks at a breakpoint stay where
    they are. Ranks that run are stopped for the look, and run on.
    """
    ranks = call.workspace.parse_ranks(which) if which else call.ranks
    for _, path in files:
        await with_file(path, functools.partial(check_place, path))
    found = await explain_waits(call.session, look_only=look_only, watch_s=watch_s)
    explanation = found.explanation
    title = f"why {call.argument}".rstrip()
    for kind, path in files:
        await why_files.write(explanation, kind, path, title=title)
    written = [str(path) for _, path in files]
    text = why_text.text(explanation, ranks, width=call.dispatcher.width, full=full)
    if written:
        text += f"\nwritten: {', '.join(written)}"
    return Shown(
        text,
        answer=found.answer,
        sets=tuple(each.ranks for each in explanation.verdicts),
        line=json_why.why(explanation, title, written),
    )
