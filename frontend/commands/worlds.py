"""The command about worlds: ranks that MPI_Comm_spawn has started, and those of other jobs."""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.frontend.commands.options import Option, Rest
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, Shown
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.text import places_text


@COMMANDS.command(
    "worlds",
    group=Group.RANKS,
    usage="worlds [add N|all]",
    summary="list the worlds of MPI_Comm_spawn, or attach to one",
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--job",
            value="JOB",
            help="add the ranks of another job, named as for attach: a pid, or JOB[.STEP] of Slurm",
            default="",
        ),
    ),
)
async def _worlds(call: Call, text: str, *, job: str) -> Outcome:
    """List the worlds of the job, or take ranks into the session that MPI_Comm_spawn has started.

    World 0 has the ranks that the launcher has started. Each MPI_Comm_spawn makes a further one.
    'worlds add 1' attaches to the ranks of world 1, 'worlds add all' to those of all worlds that
    are not in the session. They are numbered on behind its ranks: 'proc 1.0-3' and 'proc @world1'
    name them by their world. Breakpoints, settings and displays that all ranks have hold on them
    too. 'set spawned attach' does that for all worlds that come.

    'worlds add --job JOB' attaches to a job with a launcher of its own, such as one that has
    connected by MPI_Comm_connect. Its ranks are a further world. PGDB never kills them at the end
    of the session: it detaches.
    """
    worlds = call.session.all_worlds
    word, _, which = text.partition(" ")
    which = which.strip()
    if job:
        if word != "add" or which:
            raise UsageError(f"worlds: another job is added by 'worlds add --job {job}'")
        await worlds.add_job(job)
        return None
    if word == "add":
        if not which:
            raise UsageError("worlds add: give the number of a world, all, or --job JOB")
        await worlds.add(which)
        return None
    if word:
        raise UsageError(
            f"worlds: no action {word!r}; write 'worlds', or 'worlds add' with a number or all"
        )
    return await list_worlds(call)


async def list_worlds(call: Call) -> Outcome:
    """Return the worlds of the job, those outside the session too."""
    worlds = call.session.all_worlds
    found = sorted((*worlds.in_session, *await worlds.look()), key=lambda each: each.number)
    return Shown(places_text.world_lines(found), line=json_lines.worlds(found))
