"""The receives that the MPI library has open for itself in a collective call.

A call with a root, or one of neighbours, is made of messages. The ranks whose messages are still to
come have not made the call. While the library waits, the addresses of its requests are on its part
of the stack, and one of a request or of an array of requests is in a register of a function inside.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Sequence

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


def open_receives(
    library: MpiLibrary, frames: Sequence[MachineFrame], level: int, communicator: Communicator
) -> RankSet:
    """Return the ranks from which a collective call still receives, as far as they are known.

    :param level: the frame of the function of MPI.
    """
    reader = RequestReader(library)
    kept = [*dict.fromkeys(kept_addresses(frames, level))][:_MOST_ADDRESSES]
    found: set[int] = set()
    for address in dict.fromkeys([*kept, *_on_stack(library, frames, level)]):
        try:
            made = [*_at(reader, library, address, is_array=address in kept)]
        except EmulationError as error:
            LOG.info("open receives: %s", error)
            continue
        found |= {
            each.peer
            for each in made
            if each.kind == "recv"
            and each.complete is False
            and _is_inside(each.communicator, communicator)
            # The library's own tags are none of the user's.
            and each.tag is None
            and isinstance(each.peer, int)
        }
    return RankSet(found)


def _is_inside(part: Communicator | None, whole: Communicator) -> bool:
    """Return whether a communicator is that of the call, or one that the library has for a part of
    its members, such as those of one node."""
    if part is None or part == whole:
        return part is not None
    texts = (part.members, whole.members)
    return None not in texts and RankSet.parse(texts[0] or "") <= RankSet.parse(texts[1] or "")


def _on_stack(library: MpiLibrary, frames: Sequence[MachineFrame], level: int) -> Iterator[int]:
    """Yield the words in the frames of the library that may be addresses."""
    end = frames[level].cfa
    begin = next((each.registers["rsp"] for each in frames if "rsp" in each.registers), None)
    if begin is None or end is None or not 0 < end - begin <= _MOST_STACK_BYTES:
        return
    data = library.memory.some(begin, end - begin)
    for (word,) in struct.iter_unpack("<Q", data[: len(data) & ~7]):
        if word > _LEAST_ADDRESS and not word % 8 and not begin <= word < end:
            yield word


def _at(
    reader: RequestReader, library: MpiLibrary, address: int, *, is_array: bool
) -> Iterator[Request]:
    """Yield the request at an address, or those of the array there."""
    if (one := reader.at(address)) is not None:
        yield one
        return
    unknown = 0
    for number in range(_MOST_REQUESTS if is_array else 0):
        word = library.memory.word(address + 8 * number)
        made = reader.at(word) if word else None
        if made is not None:
            unknown = 0
            yield made
        elif word and unknown < _MOST_UNKNOWN:
            # Open MPI puts one empty request in the place of each message that it has sent at once.
            unknown += 1
        else:
            return
