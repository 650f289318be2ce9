"""MPI calls that ranks are in, for tests of explanations."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.mpi_calls import (
    Activity,
    CallKind,
    CallSite,
    Communicator,
    Group,
    Loop,
    MpiCall,
    MpiCallStatus,
    Request,
)

WORLD = Communicator(name="MPI_COMM_WORLD", members="0-3")


def status(*calls: MpiCall) -> MpiCallStatus:
    where = CallSite(function="main", file="/src/ring.c", line=12)
    return MpiCallStatus(state="in_call", where=where, calls=calls)


def in_call(function: str, kind: CallKind = "collective", **fields: object) -> MpiCallStatus:
    return status(call(function, kind, **fields))


def call(function: str, kind: CallKind = "collective", **fields: object) -> MpiCall:
    known: dict[str, object] = {"blocking": True, "communicator": WORLD, **fields}
    return MpiCall(function=function, kind=kind, **known)  # type: ignore[arg-type]


def recv(source: object = None, tag: object = 1, comm: Communicator = WORLD) -> MpiCallStatus:
    return in_call("MPI_Recv", "recv", source=source, tag=tag, communicator=comm)


def send(dest: int, tag: int = 1, comm: Communicator = WORLD) -> MpiCallStatus:
    return in_call("MPI_Ssend", "send", dest=dest, tag=tag, communicator=comm)


def waits(function: str, waits_for: str, *requests: Request) -> MpiCallStatus:
    kind: CallKind = "test" if "Test" in function else "wait"
    return in_call(
        function,
        kind,
        blocking=kind == "wait",
        communicator=None,
        waits_for=waits_for,
        requests=requests,
    )


def polls(function: str, kind: CallKind, **fields: object) -> MpiCallStatus:
    return in_call(function, kind, blocking=False, **fields)


def request(kind: object, peer: object, tag: int = 1, complete: bool | None = None) -> Request:
    known: dict[str, object] = {"kind": kind, "peer": peer, "complete": complete}
    return Request(communicator=WORLD, tag=tag, **known)  # type: ignore[arg-type]


def outside(
    activity: Activity = "computing",
    *,
    loop: Loop = "",
    worked: bool | None = False,
    sleeps_s: int | None = None,
) -> MpiCallStatus:
    where = CallSite(function="work", file="/src/ring.c", line=99)
    return MpiCallStatus(
        state="outside",
        where=where,
        activity=activity,
        loop=loop,
        worked=worked,
        sleeps_s=sleeps_s,
    )


def exchange(peer: int) -> MpiCallStatus:
    return in_call(
        "MPI_Sendrecv", "sendrecv", dest=peer, source=peer, tag=1, receive_tag=1, count=1
    )


def passes_on(rank: int) -> MpiCallStatus:
    """Return the call of a rank that passes a value to its right neighbour in a ring of four."""
    right, left = (rank + 1) % 4, (rank - 1) % 4
    return in_call(
        "MPI_Sendrecv", "sendrecv", dest=right, source=left, tag=1, receive_tag=1, count=1
    )


def passing(function: str, kind: CallKind) -> MpiCallStatus:
    made = call(function, kind, blocking=False, window=Group(members="0-3"), communicator=None)
    return replace(status(made), loop="spins")


def win_call(function: str, **fields: object) -> MpiCallStatus:
    return in_call(function, "rma", window=Group(members="0-3"), communicator=None, **fields)
