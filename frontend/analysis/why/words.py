"""Calls, places and ranks in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdb.frontend.analysis.why.matching import group_of
from pgdb.frontend.analysis.why.parties import Party
from pgdb.mpi_calls import ANY_SOURCE, ANY_TAG, CallSite, Communicator, MpiCall, Peer, Request, Tag
from pgdb.ranks import RankSet

_ACTIVITIES = {
    "computing": "computes",
    "sleeping": "sleeps",
    "io": "does input or output",
    "lock": "waits for a lock",
    "python": "runs Python code",
    "dying": "is dying",
    "exiting": "is ending",
    "": "is outside MPI",
}
_PLURALS = {
    "computes": "compute",
    "sleeps": "sleep",
    "does": "do",
    "waits": "wait",
    "runs": "run",
    "is": "are",
    "has": "have",
    "ended": "ended",
}
_ABSENCES = {
    "ended": "has ended",
    "lost": "is lost",
    "detached": "is detached and runs on",
    "running": "runs",
    "silent": "has not answered",
    "failed": "could not be looked at",
}
_MOST_REQUESTS = 4


def named(ranks: RankSet) -> str:
    """Return ranks as the subject of a sentence: ``rank 3``, ``ranks 0-2,5``."""
    return f"rank {ranks}" if len(ranks) == 1 else f"ranks {ranks}"


def verb(ranks: RankSet, text: str) -> str:
    """Return a phrase whose first word is a verb of one rank, for *ranks*."""
    first, blank, rest = text.partition(" ")
    return text if len(ranks) == 1 else f"{_PLURALS.get(first, first)}{blank}{rest}"


def place(where: CallSite | None) -> str:
    """Return a place in the user's code: ``exchange at ring.c:57``; empty if it is unknown."""
    if where is None:
        return ""
    file = where.file.rpartition("/")[2]
    at = f"{file}:{where.line}" if where.line else where.library.rpartition("/")[2]
    if where.function and at:
        return f"{where.function} at {at}"
    return where.function or at


def communicator(comm: Communicator | None, *, brief: bool = False) -> str:
    """Return a communicator with its members; empty if nothing about it is known."""
    if comm is None:
        return ""
    name = comm.name or "a communicator"
    if brief and comm.name:
        return name
    if comm.remote:
        return f"{name} of [{comm.members}] with [{comm.remote}]"
    return f"{name} [{comm.members}]" if comm.members is not None else name


def call(made: MpiCall, *, brief: bool = False) -> str:
    """Return a call with its arguments: ``MPI_Recv from 1 with tag 7 in MPI_COMM_WORLD [0-3]``."""
    parts = [made.function]
    if made.dest is not None:
        parts.append(f"to {_peer(made.dest)}")
    if made.kind == "sendrecv" and made.tag is not None:
        parts.append(_tag(made.tag))
    if made.source is not None:
        parts.append(f"from {_peer(made.source)}")
    if made.kind == "sendrecv":
        if made.receive_tag is not None:
            parts.append(_tag(made.receive_tag))
    elif made.tag is not None:
        parts.append(_tag(made.tag))
    if made.root is not None:
        parts.append(f"with root {made.root}")
    if made.operation:
        parts.append(f"of {made.operation}")
    if made.count is not None and made.kind == "collective":
        parts.append(f"of {made.count} {made.datatype or 'elements'}")
    if made.requests:
        parts.append(_requests(made.requests, made.waits_for))
    if text := communicator(group_of(made), brief=brief):
        parts.append(f"in {text}")
    return " ".join(parts)


def _requests(requests: Sequence[Request], waits_for: str) -> str:
    open_ones = [each for each in requests if not each.complete and each.kind != "null"]
    texts = [request(each) for each in open_ones[:_MOST_REQUESTS]]
    if len(open_ones) > _MOST_REQUESTS:
        texts.append(f"{len(open_ones) - _MOST_REQUESTS} more")
    joined = (" or " if waits_for in ("any", "some") else " and ").join(texts)
    return f"for {joined}" if joined else "for completed requests"


def request(made: Request) -> str:
    """Return a request: ``a receive from 2 with tag 7``."""
    kind = (made.kind or "unknown request").replace("recv", "receive")
    parts = [f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"]
    if made.peer is not None:
        parts.append(f"{'to' if 'send' in kind else 'from'} {_peer(made.peer)}")
    if made.tag is not None:
        parts.append(_tag(made.tag))
    return " ".join(parts)


def _peer(peer: Peer) -> str:
    return "any rank" if peer == ANY_SOURCE else str(peer)


def _tag(tag: Tag) -> str:
    return "with any tag" if tag == ANY_TAG else f"with tag {tag}"


def state(party: Party) -> str:
    """Return the state of one rank of a party, as a predicate: ``waits in MPI_Recv from 1``."""
    if party.absence:
        reason = party.text
        if party.absence == "ended" and reason:
            return f"has {reason}"
        return _ABSENCES[party.absence] + (f" ({reason})" if reason else "")
    status = party.status
    at = place(status.where)
    suffix = f", in {at}" if at else ""
    if party.text:
        return f"is {party.text}{suffix if at and at not in party.text else ''}"
    match status.state:
        case "in_call" if party.call is not None:
            texts = " and ".join(call(each) for each in party.calls)
            return f"{'polls' if party.is_polling else 'is'} in {texts}{suffix}"
        case "outside":
            return f"{_ACTIVITIES[status.activity]}{suffix}"
        case "before_init":
            return f"has not called MPI_Init{suffix}"
        case "after_finalize":
            return f"has left MPI by MPI_Finalize{suffix}"
        case "no_mpi":
            return f"runs a program without MPI{suffix}"
    return f"is in an unknown state{suffix}"


def states(party: Party) -> str:
    """Return the state of all ranks of a party."""
    return verb(party.ranks, state(party))


def evidence(parties: Iterable[Party]) -> tuple[str, ...]:
    """Return a line for each party: ``[0] is in MPI_Recv from 1, in main at ring.c:57``."""
    return tuple(f"[{each.ranks}] {states(each)}" for each in parties)
