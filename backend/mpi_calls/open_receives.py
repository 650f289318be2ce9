"""The receives that the MPI library has open for itself in a collective call.

A call with a root, or one of neighbours, is made of messages. The ranks whose messages are still to
come have not made the call. While the library waits, the addresses of its requests are on its part
of the stack, and one of a request or of an array of requests is in a register of a function inside.
"""

from __future__ import annotations

import itertools
import logging
import struct
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress

import msgspec

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.own_request import kept_addresses
from pgdb.backend.mpi_calls.requests import RequestReader
from pgdb.mpi_calls import Communicator, Request
from pgdb.ranks import RankSet

LOG = logging.getLogger(__name__)

_LEAST_ADDRESS = 4096
_MOST_ADDRESSES = 64
_MOST_STACK_BYTES = 1 << 14
_MOST_REQUESTS = 256
_MOST_UNKNOWN = 3
"""Most words one after the other in an array of requests that may be something else."""


class OwnReceives(msgspec.Struct, frozen=True):
    """The receives of a collective call."""

    awaited: RankSet
    """The ranks from which the call still receives, as far as they are known."""
    came: RankSet
    """Ranks whose part has come to a receive that stands with one that is open."""
    groups: tuple[Communicator, ...] = ()
    """The communicators of the open receives."""


def open_receives(
    library: MpiLibrary, frames: Sequence[MachineFrame], level: int, communicator: Communicator
) -> OwnReceives:
    """Return the ranks from which a collective call receives.

    :param level: the frame of the function of MPI.
    """
    reader = RequestReader(library)
    kept = [*dict.fromkeys(kept_addresses(frames, level))][:_MOST_ADDRESSES]
    found: dict[int, int] = {}
    """The peers of open receives, by the addresses of these."""
    groups: dict[Communicator, None] = {}
    came: set[int] = set()
    for address in dict.fromkeys([*kept, *_on_stack(library, frames, level)]):
        complete, is_open = set(), False
        try:
            for at, made in _at(reader, library, address, is_array=address in kept):
                peer = _peer(made, communicator)
                if peer is None or made.communicator is None:
                    continue
                if made.complete is False:
                    found[at] = peer
                    groups[made.communicator] = None
                    is_open = True
                elif made.complete:
                    complete.add(peer)
        except EmulationError as error:
            LOG.info("open receives: %s", error)
        came |= complete if is_open else set()
    for address in _beside(library, frames, level, found):
        # A request that is complete elsewhere on the stack may be one of an earlier call.
        with suppress(EmulationError):
            beside = reader.at(address)
            if beside is not None and beside.complete:
                peer = _peer(beside, communicator)
                came |= set() if peer is None else {peer}
    awaited = RankSet(found.values())
    return OwnReceives(awaited, RankSet(came) - awaited, tuple(groups))


def _peer(made: Request, communicator: Communicator) -> int | None:
    """Return the rank from which a request receives a part of a call, None for any other one."""
    # The library's own tags are none of the user's.
    is_own = made.kind == "recv" and made.tag is None
    if not is_own or not isinstance(made.peer, int):
        return None
    return made.peer if _is_inside(made.communicator, communicator) else None


def _is_inside(part: Communicator | None, whole: Communicator) -> bool:
    """Return whether a communicator is that of the call, or one that the library has for a part of
    its members, such as those of one node."""
    if part is None or part == whole:
        return part is not None
    texts = (part.members, whole.members)
    return None not in texts and RankSet.parse(texts[0] or "") <= RankSet.parse(texts[1] or "")


def _words(library: MpiLibrary, frames: Sequence[MachineFrame], level: int) -> tuple[int, ...]:
    """Return the words in the frames of the library, with its own addresses as zeros."""
    end = frames[level].cfa
    begin = next((each.registers["rsp"] for each in frames if "rsp" in each.registers), None)
    if begin is None or end is None or not 0 < end - begin <= _MOST_STACK_BYTES:
        return ()
    data = library.memory.some(begin, end - begin)
    words = (word for (word,) in struct.iter_unpack("<Q", data[: len(data) & ~7]))
    return tuple(0 if begin <= each < end else each for each in words)


def _is_address(word: int) -> bool:
    return word > _LEAST_ADDRESS and not word % 8


def _on_stack(library: MpiLibrary, frames: Sequence[MachineFrame], level: int) -> Iterator[int]:
    """Yield the words in the frames of the library that may be addresses."""
    return filter(_is_address, _words(library, frames, level))


def _beside(
    library: MpiLibrary, frames: Sequence[MachineFrame], level: int, requests: Container[int]
) -> Iterator[int]:
    """Yield the addresses that stand on the stack next to that of one of *requests*."""
    words = _words(library, frames, level)
    for one, other in itertools.pairwise(words):
        for word, beside in ((one, other), (other, one)):
            if word in requests and beside not in requests and _is_address(beside):
                yield beside


def _at(
    reader: RequestReader, library: MpiLibrary, address: int, *, is_array: bool
) -> Iterator[tuple[int, Request]]:
    """Yield the request at an address, or those of the array there, each with its address."""
    if (one := reader.at(address)) is not None:
        yield address, one
        return
    unknown = 0
    for number in range(_MOST_REQUESTS if is_array else 0):
        word = library.memory.word(address + 8 * number)
        made = reader.at(word) if word else None
        if word and made is not None:
            unknown = 0
            yield word, made
        elif word and unknown < _MOST_UNKNOWN:
            # Open MPI puts one empty request in the place of each message that it has sent at once.
            unknown += 1
        else:
            return
