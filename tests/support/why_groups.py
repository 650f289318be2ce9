"""Jobs with one fault each in calls that some members of a communicator wait for alone."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.mpi_calls import ArrivedMessage, Communicator, Request
from tests.support.why_calls import in_call, request, waits
from tests.support.why_jobs import BARRIER, FINALIZE, LEFT, Job

ACROSS = Communicator(members="2-3", remote="0-1", identity="across")
FROM_THE_FIRST = in_call("MPI_Bcast", root=1, communicator=ACROSS)


def of_neighbours(ranks: str) -> Request:
    return replace(request("collective", None, complete=False), neighbours=ranks)


GROUP_FAULTS: dict[str, tuple[Job, str, str, str]] = {
    "a neighbour that has left a call out, and others that have made it": (
        {
            "0-1": BARRIER,
            "2": in_call("MPI_Neighbor_allgather", communicator=LEFT, neighbours="1,3"),
            "3": in_call("MPI_Neighbor_allgather", communicator=LEFT, neighbours="0-2"),
        },
        "missing-from-collective",
        "1",
        "0,2-3",
    ),
    "a neighbour of two that wait for their requests": (
        {
            "0,3": BARRIER,
            "1": waits("MPI_Wait", "all", of_neighbours("0")),
            "2": waits("MPI_Wait", "all", of_neighbours("1,3"), of_neighbours("1")),
        },
        "missing-from-collective",
        "0,3",
        "1-2",
    ),
    "the root of another group that is not in the call": (
        {
            "0-1": BARRIER,
            "2": replace(FROM_THE_FIRST, arrived=(ArrivedMessage(0, None, ACROSS, "MPI_Bcast"),)),
            "3": FROM_THE_FIRST,
        },
        "different-roots",
        "2-3",
        "0-1",
    ),
    "requests in another communicator": (
        {
            "0,2-3": waits("MPI_Wait", "all", request("collective", None)),
            "1": waits("MPI_Wait", "all", replace(request("collective", None), communicator=LEFT)),
        },
        "communicator-mixup",
        "1",
        "0,2-3",
    ),
    "one that has left, and two calls with a root behind it": (
        {
            "0,2": in_call("MPI_Gather", root=0),
            "1": in_call("MPI_Bcast", root=0),
            "3": FINALIZE,
        },
        "rank-left",
        "3",
        "0-2",
    ),
}
