"""Jobs with one fault each, as the calls of their ranks, and the verdicts that are expected."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.analysis.why.explain import Explanation, explain
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ANY_TAG,
    Communicator,
    Group,
    Request,
)
from pgdb.ranks import RankSet
from pgdb.records import Record
from tests.support.why_calls import (
    call,
    exchange,
    in_call,
    outside,
    passes_on,
    passing,
    recv,
    request,
    send,
    status,
    waits,
    win_call,
)

Job = dict[str, Record]
"""Ranks in the same state, and that state."""

LEFT = Communicator(name="left", members="0-3", identity="left")
RIGHT = Communicator(name="right", members="0-3", identity="right")
SELF = Communicator(name="MPI_COMM_SELF", members="0")
PAIR = Communicator(members="0-1")
LEADERS = Communicator(members="0,2")
ALL = RankSet.parse("0-3")
WATCHED = Watch(still=ALL, seconds=1.0)


FREE = win_call("MPI_Win_free")
READ = win_call("MPI_Fetch_and_op", dest=1, displacement=0, operation="MPI_NO_OP", blocking=False)
BARRIER = in_call("MPI_Barrier")
FINALIZE = in_call("MPI_Finalize", "finalize", communicator=None)
INIT = in_call("MPI_Init", "init", communicator=None)


def unfinished(kind: str, peer: int | None) -> Request:
    return request(kind, peer, complete=False)


def explained(job: Job, watch: Watch = WATCHED, *elsewhere: Elsewhere) -> Explanation:
    return explain(classes(job), elsewhere, watch)


def classes(job: Job) -> list[EquivalenceClass[Record]]:
    return [EquivalenceClass(RankSet.parse(ranks), record) for ranks, record in job.items()]


FAULTS: dict[str, tuple[Job, str, str, str]] = {
    "receives that wait for each other": (
        {"0": recv(1), "1": recv(0), "2-3": BARRIER},
        "cycle",
        "0-1",
        "2-3",
    ),
    "a ring of receives": (
        {"0": recv(3), "1": recv(0), "2": recv(1), "3": recv(2)},
        "cycle",
        "0-3",
        "",
    ),
    "a chain into a cycle": (
        {"0": recv(1), "1": recv(0), "2": recv(1), "3": recv(2)},
        "cycle",
        "0-1",
        "2-3",
    ),
    "a cycle through one of two ranks in equal calls": (
        {"0,2": recv(1), "1": recv(0), "3": recv(2)},
        "cycle",
        "0-1",
        "2-3",
    ),
    "sends head to head": (
        {"0": send(1), "1": send(0), "2-3": BARRIER},
        "head-to-head-sends",
        "0-1",
        "2-3",
    ),
    "another tag": (
        {"0": send(1, 1), "1": recv(0, 2), "2-3": BARRIER},
        "unmatched-receive",
        "0-1",
        "2-3",
    ),
    "another tag, sent early": (
        {"0": FINALIZE, "1": recv(0, 2), "2-3": FINALIZE},
        "unmatched-receive",
        "1",
        "0,2-3",
    ),
    "another source": (
        {"0": recv(2), "1": send(0), "2-3": BARRIER},
        "unmatched-receive",
        "0-1",
        "2-3",
    ),
    "another destination": (
        {"0": send(2), "1": recv(0), "2-3": BARRIER},
        "unmatched-receive",
        "0-1",
        "2-3",
    ),
    "another communicator": (
        {"0": send(1, comm=LEFT), "1": recv(0, comm=RIGHT), "2-3": BARRIER},
        "communicator-mixup",
        "0-1",
        "2-3",
    ),
    "a wildcard that nobody sends to": (
        {"0": recv(ANY_SOURCE, ANY_TAG), "1-3": BARRIER},
        "unmatched-receive",
        "0",
        "1-3",
    ),
    "a send that nobody receives": (
        {"0": send(1), "1-3": BARRIER},
        "unmatched-send",
        "0",
        "1-3",
    ),
    "a request that never completes": (
        {
            "0": waits(
                "MPI_Waitall", "all", request("recv", 1), request("send", 1, 2, complete=True)
            ),
            "1-3": BARRIER,
        },
        "unmatched-receive",
        "0",
        "1-3",
    ),
    "no request of several completes": (
        {
            "0": waits("MPI_Waitany", "any", request("recv", 1), request("recv", 2)),
            "1-3": FINALIZE,
        },
        "unmatched-receive",
        "0",
        "1-3",
    ),
    "a loop of tests": (
        {"0": waits("MPI_Test", "any", request("recv", 1)), "1-3": BARRIER},
        "unmatched-receive",
        "0",
        "1-3",
    ),
    "different roots": (
        {"0-2": in_call("MPI_Bcast", root=0), "3": in_call("MPI_Bcast", root=1)},
        "different-roots",
        "3",
        "0-2",
    ),
    "different collective calls": (
        {"0-2": in_call("MPI_Bcast", root=0), "3": in_call("MPI_Allreduce")},
        "different-collectives",
        "3",
        "0-2",
    ),
    "different operations": (
        {
            "0-1": in_call("MPI_Allreduce", operation="MPI_SUM"),
            "2-3": in_call("MPI_Allreduce", operation="MPI_MAX"),
        },
        "different-operations",
        "0-3",
        "",
    ),
    "different counts": (
        {
            "0-2": in_call("MPI_Allreduce", count=4, datatype="MPI_INT"),
            "3": in_call("MPI_Allreduce", count=5, datatype="MPI_INT"),
        },
        "different-counts",
        "3",
        "0-2",
    ),
    "different datatypes": (
        {
            "0-2": in_call("MPI_Allreduce", count=4, datatype="MPI_INT"),
            "3": in_call("MPI_Allreduce", count=4, datatype="MPI_DOUBLE"),
        },
        "different-datatypes",
        "3",
        "0-2",
    ),
    "another order of communicators": (
        {
            "0-1": in_call("MPI_Barrier", communicator=LEFT),
            "2-3": in_call("MPI_Allreduce", communicator=RIGHT),
        },
        "collective-order",
        "0-3",
        "",
    ),
    "one communicator in place of another": (
        {
            "0-2": in_call("MPI_Barrier", communicator=LEFT),
            "3": in_call("MPI_Barrier", communicator=RIGHT),
        },
        "communicator-mixup",
        "3",
        "0-2",
    ),
    "a rank that left": ({"0-2": BARRIER, "3": FINALIZE}, "rank-left", "3", "0-2"),
    "a rank that computes for ever": (
        {"0-2": BARRIER, "3": outside(loop="no way out")},
        "missing-from-collective",
        "3",
        "0-2",
    ),
    "a rank in a lock": (
        {"0-2": BARRIER, "3": outside("lock")},
        "missing-from-collective",
        "3",
        "0-2",
    ),
    "a sender that sleeps": (
        {"0": recv(3), "1-3": outside("sleeping")},
        "waits-for-busy-rank",
        "3",
        "0",
    ),
    "exchanges that all go one way": (
        {
            str(rank): in_call(
                "MPI_Sendrecv",
                "sendrecv",
                dest=(rank + 1) % 4,
                source=(rank + 1) % 4,
                tag=1,
                receive_tag=1,
            )
            for rank in range(4)
        },
        "cycle",
        "0-3",
        "",
    ),
    "a cycle, and a message for one of its ranks": (
        {"0": recv(2), "1": send(0), "2": recv(0), "3": BARRIER},
        "cycle",
        "0,2",
        "1,3",
    ),
    "a message to itself": ({"0": send(0), "1-3": BARRIER}, "self-deadlock", "0", "1-3"),
    "threads of one rank": (
        {
            "0": status(
                call("MPI_Recv", "recv", source=0, tag=1), call("MPI_Ssend", "send", dest=0, tag=2)
            ),
            "1-3": BARRIER,
        },
        "self-deadlock",
        "0",
        "1-3",
    ),
    "a lock of a window": (
        {
            "0": in_call("MPI_Win_lock", "rma", window=Group(members="0-3"), communicator=None),
            "1-3": BARRIER,
        },
        "unmatched-rma",
        "0",
        "1-3",
    ),
    "a lock that a rank holds which waits for the waiter": (
        {
            "0": in_call("MPI_Win_lock", "rma", window=Group(members="0-3"), communicator=None),
            "1": recv(0),
            "2-3": BARRIER,
        },
        "cycle",
        "0-1",
        "2-3",
    ),
    "a chain of receives, of which the last has no sender": (
        {"0": recv(1), "1": recv(2), "2-3": BARRIER},
        "unmatched-receive",
        "1",
        "0,2-3",
    ),
    "exchanges, of which one has another partner": (
        {
            "0": exchange(1),
            "1": exchange(2),
            "2-3": BARRIER,
        },
        "unmatched-receive",
        "1",
        "0,2-3",
    ),
    "exchanges around a ring, of which one rank left": (
        {
            "0": passes_on(0),
            "1": outside(loop="spins"),
            "2": passes_on(2),
            "3": passes_on(3),
        },
        "waits-for-busy-rank",
        "1",
        "0,2-3",
    ),
    "a chain behind a cycle, of which one has its message": (
        {
            "0": recv(1),
            "1": in_call(
                "MPI_Sendrecv", "sendrecv", dest=0, source=2, tag=1, receive_tag=1, count=1
            ),
            "2": recv(1),
            "3": recv(0),
        },
        "cycle",
        "1-2",
        "0,3",
    ),
    "a server without a client": (
        {"0": in_call("MPI_Comm_accept", "comm", communicator=SELF), "1-3": BARRIER},
        "no-connection",
        "0",
        "1-3",
    ),
    "one group of two": (
        {"0-1": in_call("MPI_Intercomm_create", "comm", communicator=PAIR), "2-3": BARRIER},
        "missing-from-collective",
        "2-3",
        "0-1",
    ),
    "a neighbour elsewhere": (
        {"0,2": in_call("MPI_Neighbor_allgather", communicator=LEFT), "1,3": BARRIER},
        "missing-from-collective",
        "1,3",
        "0,2",
    ),
    "another root, of a call that a rank has left": (
        {
            "0,2": in_call("MPI_Gather", root=0),
            "1": in_call("MPI_Gather", root=1),
            "3": FINALIZE,
        },
        "different-roots",
        "1",
        "0,2-3",
    ),
    "other operations that nobody waited for at first": (
        {"0-3": waits("MPI_Wait", "all", request("collective", None))},
        "different-collectives",
        "0-3",
        "",
    ),
    "an operation that a rank has not begun": (
        {"0-2": waits("MPI_Wait", "all", request("collective", None)), "3": BARRIER},
        "missing-from-collective",
        "3",
        "0-2",
    ),
    "a rank that looks at its window for ever": (
        {"0-2": BARRIER, "3": passing("MPI_Win_sync", "rma")},
        "missing-from-collective",
        "3",
        "0-2",
    ),
    "a member of a group that does not make the communicator": (
        {
            "0-1": in_call("MPI_Comm_create_group", "comm", group=Group(members="0-2")),
            "2-3": BARRIER,
        },
        "collective-order",
        "2",
        "0-1,3",
    ),
    "one that waits for an operation that all others have not begun": (
        {"0,2-3": BARRIER, "1": waits("MPI_Wait", "all", request("collective", None))},
        "missing-from-collective",
        "1",
        "0,2-3",
    ),
    "one whose neighbours have gone on": (
        {"0-2": BARRIER, "3": in_call("MPI_Neighbor_allgather", communicator=LEFT)},
        "missing-from-collective",
        "3",
        "0-2",
    ),
    "locks in different orders": (
        {"0": win_call("MPI_Win_lock", dest=3), "1": win_call("MPI_Win_lock", dest=2), "2-3": FREE},
        "cycle",
        "0-1",
        "2-3",
    ),
    "locks that another rank may hold": (
        {
            "0": win_call("MPI_Win_lock", dest=3),
            "1": win_call("MPI_Win_lock", dest=2),
            "2-3": BARRIER,
        },
        "unmatched-rma",
        "0-1",
        "2-3",
    ),
    "a lock of an unknown target": (
        {"0": win_call("MPI_Win_lock", dest=3), "1": win_call("MPI_Win_lock"), "2-3": FREE},
        "unmatched-rma",
        "0-1",
        "2-3",
    ),
    "a window that is not exposed": (
        {
            "0": win_call("MPI_Win_wait"),
            "1-2": BARRIER,
            "3": win_call("MPI_Win_start", group=Group(members="0-1")),
        },
        "unmatched-rma",
        "3",
        "0-2",
    ),
    "a partition that is not ready": (
        {
            "0": waits("MPI_Wait", "all", request("partitioned send", None)),
            "1": waits("MPI_Wait", "all", request("partitioned recv", 0)),
            "2-3": BARRIER,
        },
        "unmatched-send",
        "0",
        "1-3",
    ),
    "one message more than the first of several receivers takes": (
        {"0": send(1), "1": BARRIER, "2-3": recv(0)},
        "unmatched-send",
        "0",
        "1-3",
    ),
    "two roots, and ranks that have left the call": (
        {
            "0,3": BARRIER,
            "1": in_call("MPI_Bcast", root=1),
            "2": in_call("MPI_Bcast", root=2),
        },
        "different-roots",
        "1-2",
        "0,3",
    ),
    "a level of leaders that one of them has left out": (
        {
            "0": in_call("MPI_Allreduce", communicator=LEADERS),
            "1": in_call("MPI_Bcast", root=0, communicator=PAIR),
            "2-3": BARRIER,
        },
        "collective-order",
        "0,2",
        "1,3",
    ),
    "a receive without a sender, beside sends to unknown ranks": (
        {
            "0-1": BARRIER,
            "2": waits("MPI_Waitall", "all", unfinished("recv", 0), unfinished("send", None)),
            "3": waits("MPI_Waitall", "all", unfinished("recv", 2), unfinished("send", None)),
        },
        "unmatched-receive",
        "2",
        "0-1,3",
    ),
    "a flag in a window that nobody sets": (
        {"0": replace(READ, loop="spins"), "1-3": FREE},
        "missing-from-collective",
        "0",
        "1-3",
    ),
    "a buffered message that nobody receives": (
        {"0": in_call("MPI_Buffer_detach", "other", communicator=None), "1-3": BARRIER},
        "unmatched-send",
        "0",
        "1-3",
    ),
    "buffered messages that nobody receives, as all ranks wait for theirs": (
        {"0-3": in_call("MPI_Buffer_detach", "other", communicator=None)},
        "head-to-head-sends",
        "0-3",
        "",
    ),
    "all in MPI_Init": ({"0-3": INIT}, "network-or-launcher", "0-3", ""),
}
