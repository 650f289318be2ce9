"""Messages that have come to a rank, and that none of its receives has taken.

A small message is sent before its receiver wants it, and the send leaves no trace at the sender.
The receiver keeps the message until a receive fits. The library's own ``MPI_Improbe`` finds such a
message and takes it out of the queue; here it does that in the copy of the memory alone.

Open MPI sends the parts of collective calls as messages with tags of its own. A rank that has left
a broadcast has such a message if another rank takes it for one that passes the data on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from pgdb.backend.mpi_calls.errors import EmulationError, HaltError
from pgdb.backend.mpi_calls.library import CommunicatorParts, MpiLibrary
from pgdb.mpi_calls import MOST_ARRIVED, ArrivedMessage, Communicator, MpiCall, Request
from pgdb.ranks import RankSet

LOG = logging.getLogger(__name__)

_MOST_COMMUNICATORS = 4
_STATUS_BYTES = 64
_MESSAGES = frozenset({"recv", "persistent recv", "send", "persistent send"})
_SOURCE_AT = {"mpich": 8}
"""Place of ``MPI_SOURCE`` in a status of MPICH, behind two words of a count; 0 elsewhere."""
_COLLECTIVE_TAGS = {"MPI_Bcast": -17, "MPI_Scatter": -24}
"""The tags of calls whose data come from a root, the same in Open MPI 4 and 5."""
_GATHERING_TAGS = {
    "MPI_Exscan": -18,
    "MPI_Gather": -19,
    "MPI_Gatherv": -20,
    "MPI_Reduce": -21,
    "MPI_Scan": -23,
}
"""The tags of calls whose data go to a root, or to the ranks behind."""
_TAGS_OF_MPICH = {"MPI_Gather": 3, "MPI_Gatherv": 4, "MPI_Reduce": 11}
"""The same of MPICH, in all versions."""
_CHECKS = "ompi_mpi_param_check"
"""Data symbol: whether Open MPI refuses tags that no user may have."""


def arrived_messages(library: MpiLibrary, calls: Sequence[MpiCall]) -> tuple[ArrivedMessage, ...]:
    """Return the oldest messages that no receive has taken, if one of *calls* sends or receives.

    They are those of the communicators that the calls use, and of ``MPI_COMM_WORLD``. Where the
    library cannot be asked, the result is empty.
    """
    if not any(map(_receives, calls)):
        return _of_collectives(library, calls)
    found: list[ArrivedMessage] = []
    try:
        library.communicator(library.world)
        for handle, parts in list(library.communicators.items())[:_MOST_COMMUNICATORS]:
            found += _of_communicator(library, handle, parts)
    except EmulationError as error:
        LOG.info("messages that have come: %s", error)
    return tuple(found)


def _of_collectives(library: MpiLibrary, calls: Sequence[MpiCall]) -> tuple[ArrivedMessage, ...]:
    """Return the messages of collective calls, if one of *calls* is collective."""
    wanted = [each.communicator for each in calls if each.kind == "collective"]
    checks = library.data_symbol(_CHECKS)
    found = []
    try:
        for handle, parts in list(library.communicators.items())[:_MOST_COMMUNICATORS]:
            if checks is None or parts.record not in wanted:
                continue
            library.emulator.write(checks, bytes(1))
            own = {each.function for each in calls if each.communicator == parts.record}
            # A root takes the parts of others in its own time.
            gathering = {name: tag for name, tag in _GATHERING_TAGS.items() if name not in own}
            for function, tag in (_COLLECTIVE_TAGS | gathering).items():
                found += [
                    replace(each, tag=None, function=function)
                    for each in _of_communicator(library, handle, parts, tag)
                ]
    except EmulationError as error:
        LOG.info("messages of collective calls: %s", error)
    return tuple(found)


def part_that_came(
    library: MpiLibrary, groups: Collection[Communicator], function: str
) -> RankSet | None:
    """Return a rank whose part of a call that gathers has come, and that no receive has taken.

    Return an empty set if there is no such part, and None where the library cannot be asked. The
    part stays in the copy of the memory. *groups* are the communicators of the call's receives.

    :raises EmulationError: if the question fails.
    """
    found: RankSet | None = None
    for handle, parts in library.communicators.items():
        if parts.record not in groups:
            continue
        with _for_collectives(library, handle) as tags:
            if function not in tags:
                return None
            source = _first(library, handle, parts, tags[function])
            if source is not None:
                return RankSet([source])
            found = RankSet()
    return found


def _first(library: MpiLibrary, handle: int, parts: CommunicatorParts, tag: int) -> int | None:
    """Return the source of the first message with a tag, None if there is no message."""
    constants, emulator = library.constants, library.emulator
    flag, status = emulator.allocate(16), emulator.allocate(_STATUS_BYTES)
    emulator.write(flag, bytes(4))
    with emulator.halted_at(library.progress), suppress(HaltError):
        library.query("Iprobe", constants.any_source, tag, handle, flag, status)
    if not emulator.number(flag, 4):
        return None
    source_at = _SOURCE_AT.get(library.family, 0)
    source = library.peer(emulator.number(status + source_at, 4), parts.ranks)
    if not isinstance(source, int):
        raise EmulationError("a part of an unknown rank")
    return source


@contextmanager
def _for_collectives(library: MpiLibrary, handle: int) -> Iterator[dict[str, int]]:
    """Let the library find messages of collective calls as if they were the user's; the value has
    their tags, and is empty where this is impossible.

    Open MPI has tags that it refuses from users. MPICH has a context of its own for them.
    """
    if (checks := library.data_symbol(_CHECKS)) is not None:
        library.emulator.write(checks, bytes(1))
        yield _COLLECTIVE_TAGS | _GATHERING_TAGS
        return
    place = library.contexts.place(handle)
    if place is None:
        yield {}
        return
    address, data, shifted = place
    library.emulator.write(address, shifted)
    try:
        yield _TAGS_OF_MPICH
    finally:
        library.emulator.write(address, data)


def _receives(call: MpiCall) -> bool:
    """Return whether a call waits for a message, looks for one, or waits until one is taken."""
    if call.blocking is False and call.kind not in ("test", "probe"):
        return False
    return call.kind in ("recv", "send", "sendrecv", "probe") or any(map(_is_open, call.requests))


def _is_open(request: Request) -> bool:
    return request.kind in _MESSAGES and not request.complete


def _of_communicator(
    library: MpiLibrary, handle: int, parts: CommunicatorParts, wanted_tag: int | None = None
) -> Iterator[ArrivedMessage]:
    """Yield the messages in a communicator, of any tag that users may have by default."""
    constants, emulator = library.constants, library.emulator
    flag, message = emulator.allocate(16), emulator.allocate(16)
    status = emulator.allocate(_STATUS_BYTES)
    source_at = _SOURCE_AT.get(library.family, 0)
    # Nothing brings further messages here: a search for them means that none is left.
    with emulator.halted_at(library.progress), suppress(HaltError):
        for _ in range(MOST_ARRIVED):
            emulator.write(flag, bytes(4))
            tag_word = constants.any_tag if wanted_tag is None else wanted_tag
            library.query("Improbe", constants.any_source, tag_word, handle, flag, message, status)
            if not emulator.number(flag, 4):
                return
            source = library.peer(emulator.number(status + source_at, 4), parts.ranks)
            tag = library.tag(emulator.number(status + source_at + 4, 4))
            if not isinstance(source, int) or (wanted_tag is None and not isinstance(tag, int)):
                return
            yield ArrivedMessage(source, tag, parts.record)
