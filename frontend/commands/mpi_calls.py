"""The command that lists the MPI calls of ranks, now and before."""

from __future__ import annotations

from pgdb.frontend.commands.options import Option, Rest, count
from pgdb.frontend.commands.table import COMMANDS, Call, Completes, Group, Outcome
from pgdb.mpi_calls import MOST_RECENT


@COMMANDS.command(
    "mpi-calls",
    group=Group.STACK,
    usage="mpi-calls [SET]",
    summary="show the MPI calls that ranks are in, or their last calls",
    completes=Completes.RANKS,
    rest=Rest.OPERAND,
    options=(
        Option(
            name="--last",
            value="N",
            help=f"show the last N calls of each thread instead, from the recorder ({MOST_RECENT} "
            "at most); the ranks may run",
            read=count(MOST_RECENT),
            argument="last",
            default=0,
        ),
    ),
)
async def _mpi_calls(call: Call, which: str, *, last: int) -> Outcome:
    """Show the MPI calls that the ranks have not returned from, with communicator, peers, tag,
    counts and requests. An argument that no source gives is left out. Calls of torch.distributed
    are shown with their process groups.

    The recorder of MPI calls (--mpi-record) keeps the calls before, too: --last shows them, oldest
    first, with the second in which each began. It keeps no requests of earlier calls, and no
    communicator, window or file that one of the calls behind has freed.
    """
    view = call.session.ranks(call.workspace.parse_ranks(which)) if which else call.view
    return await (view.recent_mpi_calls(last) if last else view.mpi_calls())
