"""The request that a blocking call of one message makes for itself.

Functions such as ``MPI_Recv`` hand their arguments on, and some keep none of them. Their request
has peer and tag, and a function inside keeps its address in a register while it waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.instructions import SAVED
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.requests import RequestReader
from pgdb.mpi_calls import Communicator, Request, RequestKind
from pgdb.mpi_functions import PROTOTYPES

_DEEPEST = 6
"""Frames of the MPI library that are looked at; a call of Fortran has up to two more than that of
C."""


def own_kind(function: str) -> RequestKind | None:
    """Return the kind of the request that a function makes for itself, None if it makes none of
    one message."""
    prototype = PROTOTYPES.get(function)
    if prototype is None or not prototype.blocking:
        return None
    # A matched receive has no tag.
    if all(each.name != "tag" for each in prototype.arguments):
        return None
    match prototype.kind:
        case "send" | "recv" as kind:
            return kind
    return None


def own_request(
    library: MpiLibrary,
    frames: Sequence[MachineFrame],
    level: int,
    kind: RequestKind,
    communicator: Communicator,
    count: int | None,
) -> Request | None:
    """Return the request of a call whose function of MPI has the frame *level*.

    None if there is none that agrees with what is known of the call, or if several differ.
    """
    reader = RequestReader(library)
    found: set[tuple[object, object]] = set()
    request = None
    for address in dict.fromkeys(kept_addresses(frames, level)):
        try:
            made = reader.at(address)
        except EmulationError:
            continue
        if made is None or made.kind != kind or made.communicator != communicator:
            continue
        if made.complete or (None not in (count, made.count) and made.count != count):
            continue
        request = made
        found.add((made.peer, made.tag))
    return request if len(found) == 1 else None


def kept_addresses(frames: Sequence[MachineFrame], level: int) -> Iterator[int]:
    """Yield the contents of registers that functions of MPI have changed since the call began."""
    for at in range(level, max(level - _DEEPEST, -1), -1):
        if at + 1 >= len(frames):
            continue
        own, outer = frames[at].registers, frames[at + 1].registers
        for name in SAVED:
            if name in own and own[name] != outer.get(name) and not own[name] % 8:
                yield own[name]
