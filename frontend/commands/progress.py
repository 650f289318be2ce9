"""The command that shows which ranks of a running job progress."""

from __future__ import annotations

from pgdb.frontend.api.progressing import observe
from pgdb.frontend.api.sampling import MOST_SAMPLES
from pgdb.frontend.api.watch_times import PROGRESS_EVERY_S, PROGRESS_SAMPLES
from pgdb.frontend.commands.options import Option, Rest, count
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome, Shown
from pgdb.frontend.show.json import json_progress
from pgdb.frontend.show.text import progress_text
from pgdb.frontend.system.durations import seconds


@COMMANDS.command(
    "progress",
    group=Group.STACK,
    usage="progress [SET]",
    summary="sample a running job: which ranks wait in MPI, and which fall behind",
    completes=Completes.RANKS,
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--samples",
            value="N",
            help="number of samples, one letter each",
            read=count(MOST_SAMPLES),
            argument="samples",
            default=PROGRESS_SAMPLES,
        ),
        Option(
            name="--every",
            value="S",
            help="time between two samples, in seconds",
            read=seconds,
            argument="every_s",
            default=PROGRESS_EVERY_S,
        ),
        Option(name="--all", help="show all rows", argument="full"),
    ),
)
async def _progress(call: Call, which: str, *, samples: int, every_s: float, full: bool) -> Outcome:
    """Look several times at the ranks of a running job: one line for each class of ranks, with one
    letter for each sample and the place where the ranks were at last.

    For a sample a rank stops as long as one look takes, and runs on. Where all ranks have the
    recorder of MPI calls (--mpi-record), it is read while they run, and nothing stops.

    Ranks that are outside MPI in nearly all samples, while all others wait in MPI, may be behind:
    the others wait for them, or will. Ctrl-C ends the samples.
    """
    ranks = call.workspace.parse_ranks(which) if which else call.ranks
    found = await observe(call.session, ranks, samples=samples, every_s=every_s)
    title = f"progress {call.argument}".rstrip()
    behind = found.progress.behind
    return Shown(
        progress_text.text(found.progress, width=call.dispatcher.width, full=full),
        answer=found.answer,
        sets=(behind,) if behind else tuple(each.ranks for each in found.progress.rows),
        line=json_progress.progress(found.progress, title),
    )
