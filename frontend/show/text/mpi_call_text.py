"""MPI calls and their arguments as text. No I/O."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pgdb.mpi_calls import (
    ELSEWHERE,
    CallSite,
    Communicator,
    MpiCall,
    MpiCallStatus,
    Peer,
    RecordedCall,
    Request,
)

_STATES = {
    "outside": "outside MPI",
    "before_init": "before MPI_Init",
    "after_finalize": "after MPI_Finalize",
    "no_mpi": "no MPI program",
    "unknown": "unknown: in MPI or not",
}
_ACTIVITIES = {
    "io": "in I/O",
    "lock": "waiting for a lock",
    "deadlock": "waiting for a lock that it holds itself",
    "thread": "waiting for another thread",
    "python": "in Python",
}
_WAITS = {"all": "for all of", "any": "for one of", "some": "for some of"}
_MOST_REQUESTS = 8


def status(said: MpiCallStatus) -> str:
    """Return the calls of a rank, one a line; a rank outside MPI has one line."""
    if said.recent:
        return recent(said.recent)
    if not said.calls:
        text = _STATES.get(said.state, said.state)
        if said.state == "no_mpi" and said.note:
            text = "no call of MPI recognized"
        if said.activity:
            is_of_threads = said.activity == "deadlock" and bool(said.thread)
            activity = _ACTIVITIES.get(said.activity, said.activity)
            text += f", {'in a deadlock of threads' if is_of_threads else activity}"
            text += f" ({said.inside})" * bool(said.inside)
            text += f" on {said.waits_on}" * bool(said.waits_on)
            text += f" in thread {said.thread}" * bool(said.thread)
        return text + place(said.where) + _note(said)
    lines = [
        call(each)
        + place(each.where or said.where)
        + f" (thread {each.thread})" * bool(each.thread)
        for each in said.calls
    ]
    return "\n".join(lines) + _note(said)


def recent(said: Sequence[RecordedCall]) -> str:
    """Return the last calls of a rank, one a line, with the second in which each began."""
    has_threads = any(each.thread != 1 for each in said)
    lines = []
    for each in said:
        began = time.strftime("%H:%M:%S", time.localtime(each.began_s))
        thread = f" thread {each.thread}" * has_threads
        open_ = "" if each.returned else " (has not returned)"
        lines.append(f"{began}{thread}  {call(each.call)}{open_}")
    return "\n".join(lines)


def call(said: MpiCall) -> str:
    """Return a call with its known arguments, such as ``MPI_Recv from 3, tag 7``."""
    parts = [said.function]
    if said.dest is not None:
        parts.append(f"to {peer(said.dest)}")
    if said.source is not None:
        parts.append(f"from {peer(said.source)}")
    if said.root is not None:
        parts.append(f"root {peer(said.root)}")
    details = []
    if said.tag is not None:
        details.append(f"tag {said.tag}")
    if said.receive_tag is not None:
        details.append(f"receive tag {said.receive_tag}")
    if said.count is not None:
        unit = said.datatype or "elements"
        details.append(f"{said.count} x {unit}")
    elif said.datatype is not None:
        details.append(said.datatype)
    if said.operation is not None:
        details.append(said.operation)
    if said.communicator is not None:
        details.append(communicator(said.communicator))
    for name, group in (("window", said.window), ("file", said.file_handle)):
        if group is not None:
            members = f" of {group.members}" if group.members is not None else ""
            details.append(" ".join(filter(None, (name, group.name))) + members)
    if said.displacement is not None:
        details.append(f"displacement {said.displacement}")
    if said.requests:
        shown = [request(each) for each in said.requests[:_MOST_REQUESTS]]
        if (more := len(said.requests) - len(shown)) > 0:
            shown.append(f"{more} more")
        details.append(f"{_WAITS.get(said.waits_for, '')} {', '.join(shown)}".strip())
    return ", ".join([" ".join(parts), *details])


def communicator(said: Communicator) -> str:
    """Return a communicator by its name and members."""
    words = said.name or "a communicator"
    if said.members is not None and said.name != "MPI_COMM_WORLD":
        words += f" of {said.members}"
    if said.remote == ELSEWHERE:
        return f"{words} and processes of another world"
    return words + (f" and {said.remote}" if said.remote else "")


def request(said: Request) -> str:
    """Return a request in brackets, with its peer and tag."""
    words: list[str] = [said.kind or "request"]
    if said.peer is not None:
        words.append(("from " if "recv" in words[0] else "to ") + peer(said.peer))
    if said.tag is not None:
        words.append(f"tag {said.tag}")
    if said.complete:
        words.append("complete")
    return f"({' '.join(words)})"


def peer(said: Peer) -> str:
    """Return a peer as a number, or as MPI's name for it."""
    return str(said)


def place(site: CallSite | None) -> str:
    """Return a place in the source with a word before it, empty if nothing is known."""
    if site is None:
        return ""
    where = f"{site.file}:{site.line}" if site.line else site.library
    words = [f" in {site.function}" if site.function else "", f" at {where}" if where else ""]
    return "".join(words)


def _note(said: MpiCallStatus) -> str:
    return f" ({said.note})" if said.note else ""
