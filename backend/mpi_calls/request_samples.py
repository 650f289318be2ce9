"""Requests that the library's own functions make in a private copy of the memory.

The places of peers and tags in the object of a request differ between libraries, versions and
functions. So functions such as ``PMPI_Recv_init`` run in an emulator with known arguments, and the
objects that they make show the places. Nothing in the process changes.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pgdb.backend.mpi_calls.emulator import Emulator
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.handle_objects import HEAD_BYTES, KIND_AT, candidates, is_request

if TYPE_CHECKING:
    from pgdb.backend.mpi_calls.library import MpiLibrary

OBJECT_BYTES = 0x2C0
"""Bytes of an object that are looked at."""
_LEAST_BYTES = 0x40
_MOST_STEPS = 30_000
_MOST_TRIES = 4
"""Most looks at ranks in which one thing is tried of a library; a rank can be stopped at a moment
that does not allow it."""
_BUFFER_BYTES = 1 << 16
_FIRST_TAG, _FIRST_COUNT = 0x5A1, 0x71
_COMPARED_BYTES = 0x80
_INT_OF_MPICH, _NO_INFO_OF_MPICH = 0x4C000405, 0x1C000000
_PARTITIONED = ("Psend_init", "Precv_init")
_INT_OF_OPENMPI = "ompi_mpi_int"


class Places(msgspec.Struct, frozen=True):
    """Places in an object of a request."""

    tag: int
    peer: int
    count: int | None = None
    """Place of the count, of 8 bytes."""
    communicator: int | None = None
    """Place of the pointer to the communicator's object."""
    context: int | None = None
    """Place of the context of the communicator, of 2 bytes."""
    type_name: str = ""
    """Name of the class of the object, in Open MPI."""


class Sample(msgspec.Struct, frozen=True):
    """One request with known arguments."""

    handle: int
    data: bytes
    peer: int
    tag: int
    count: int
    read: Emulator
    """The private copy of the memory in which it is."""


_LEARNED: dict[tuple[object, str], Any] = {}
"""The findings, by the library and their names: ranks of one library have the same."""
_TRIES: dict[tuple[object, str], int] = {}
_Finding = TypeVar("_Finding")


class RequestSamples:
    """Maker of requests that show their layout, at one look at a stopped process."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._tried: set[str] = set()

    def _learned(self, name: str, learn: Callable[[], _Finding | None]) -> _Finding | None:
        """Return a finding; *learn* makes it, once at each look until it is there."""
        key = (self._library.image.key, name)
        found: _Finding | None = _LEARNED.get(key)
        if found is not None or name in self._tried or _TRIES.get(key, 0) >= _MOST_TRIES:
            return found
        self._tried.add(name)
        _TRIES[key] = _TRIES.get(key, 0) + 1
        found = learn()
        if found is not None:
            _LEARNED[key] = found
        return found

    def places(self, function: str) -> Places | None:
        """Return the places in the requests that a function such as ``Irecv`` makes; None if they
        are unknown."""
        return self._learned(function, lambda: self._places(list(self.samples(function))))

    def samples(self, function: str) -> Iterator[Sample]:
        """Yield requests to or from several ranks; none if the function cannot be emulated."""
        try:
            size, rank = self._library.size, self._library.rank
        except EmulationError:
            return
        others = [(rank + 1) % size, (rank - 1) % size, 0, size - 1, size // 2]
        peers = [each for each in dict.fromkeys(others) if each != rank] or [rank]
        # Two ranks: a second sample with the same peer.
        for number, peer in enumerate(peers if len(peers) > 1 else peers * 2):
            made = self._made(function, peer, _FIRST_TAG + 102 * number, _FIRST_COUNT + 34 * number)
            if made is None:
                return
            yield made

    def generalized_kind(self) -> int | None:
        """Return the number of the kind of generalized requests in MPICH, which begins those that
        differ between its versions."""
        return self._learned("generalized kind", self._generalized_kind)

    def _generalized_kind(self) -> int | None:
        library, place = self._copy()
        unused = library.emulator.allocate(64)
        try:
            library.query("Grequest_start", *[unused] * 4, place, most_steps=_MOST_STEPS)
            found = self._object(library, library.emulator.number(place, 4))
        except EmulationError:
            return None
        return None if found is None else library.emulator.number(found + KIND_AT, 4)

    def _copy(self) -> tuple[MpiLibrary, int]:
        """Return the library with a private copy of the memory, and a place there for a result."""
        old = self._library
        library = copy.copy(old)
        library.emulator = Emulator(old.memory, old.images, old.emulator.thread_pointer)
        return library, library.emulator.allocate(16)

    def _made(self, function: str, peer: int, tag: int, count: int) -> Sample | None:
        library, place = self._copy()
        is_openmpi = library.family == "openmpi"
        datatype = library.symbol(_INT_OF_OPENMPI) if is_openmpi else _INT_OF_MPICH
        if datatype is None or library.family == "abi":
            return None
        emulator = library.emulator
        buffer = emulator.allocate(_BUFFER_BYTES)
        arguments: tuple[int, ...] = (buffer, count, datatype, peer, tag, library.world, place)
        if function in _PARTITIONED:
            no_info = library.symbol("ompi_mpi_info_null") if is_openmpi else _NO_INFO_OF_MPICH
            arguments = (buffer, 1, *arguments[1:6], no_info or 0, place)
        try:
            library.query(function, *arguments, most_steps=_MOST_STEPS)
            handle = emulator.number(place, library.handle_bytes)
            address = handle if is_openmpi else self._object(library, handle)
            if not address:
                return None
            data = emulator.read(address, self._size(emulator, address, handle))
        except EmulationError:
            return None
        return Sample(handle, data, peer, tag, count, emulator)

    def _size(self, emulator: Emulator, address: int, handle: int) -> int:
        """Return the number of bytes of an object: those of MPICH stand in an array, and each
        begins with its handle."""
        if self._library.family == "openmpi":
            return OBJECT_BYTES
        data = emulator.read(address, OBJECT_BYTES)
        for at in range(_LEAST_BYTES, OBJECT_BYTES, 8):
            if struct.unpack_from("<I", data, at)[0] == handle + 1:
                return at
        return OBJECT_BYTES

    def _object(self, library: MpiLibrary, handle: int) -> int | None:
        """Return the address of the object of a request of MPICH in a private copy."""
        emulator = library.emulator
        place = emulator.allocate(64)
        # The reads before an error may be enough.
        with emulator.recorded_reads() as reads, suppress(EmulationError):
            library.query("Request_get_status", handle, place, place + 16, most_steps=_MOST_STEPS)
        for start in candidates(reads):
            try:
                head = emulator.read(start, HEAD_BYTES)
            except EmulationError:
                continue
            # Where the process has used up a block of requests, the library allocates another one.
            is_in_heap = emulator.is_allocated(start) or not library.is_stack(start)
            if is_request(head, handle) and is_in_heap:
                return start
        return None

    def _places(self, samples: Sequence[Sample]) -> Places | None:
        if len(samples) < 2:
            return None
        tags = _equal(samples, "<i", [each.tag for each in samples])
        if len(tags) != 1:
            return None
        tag = tags[0]
        peers = _equal(samples, "<i", [each.peer for each in samples])
        if tag - 4 not in peers and len(peers) != 1:
            return None
        counts = _equal(samples, "<Q", [each.count for each in samples])
        library = self._library
        pointers: list[int] = []
        context = None
        if library.family != "openmpi":
            world = library.contexts.object(library.world)
            pointers = _equal(samples, "<Q", [world or 0] * len(samples)) if world else []
            # The contexts of MPI_COMM_WORLD are 0.
            if not pointers and tag + 4 in _equal(samples, "<H", [0] * len(samples)):
                context = tag + 4
        return Places(
            tag=tag,
            peer=tag - 4 if tag - 4 in peers else peers[0],
            count=counts[0] if len(counts) == 1 else None,
            communicator=pointers[0] if len(pointers) == 1 else None,
            context=context,
            type_name=library.type_name(samples[0].data) if library.family == "openmpi" else "",
        )

    # -- Open MPI ------------------------------------------------------------------------------

    def persistence(self) -> int | None:
        """Return the place of the byte of Open MPI's requests that is 1 for persistent ones, None
        if it is unknown."""
        return self._learned("persistence", self._persistence)

    def _persistence(self) -> int | None:
        kept = [next(self.samples(each), None) for each in ("Recv_init", "Send_init")]
        other = next(self.samples("Irecv"), None)
        null = self._library.symbol("ompi_request_null") or 0
        ended = self._library.memory.bytes_at(null, _COMPARED_BYTES)
        if other is None or ended is None or None in kept:
            return None
        # The state and the flag of completion are those of a null request, too.
        found = [
            at
            for at in range(_LEAST_BYTES, _COMPARED_BYTES)
            if other.data[at] == ended[at] == 0
            and all(each and each.data[at] == 1 for each in kept)
        ]
        return found[0] if len(found) == 1 else None


def _equal(samples: Sequence[Sample], form: str, values: Sequence[int]) -> list[int]:
    """Return the places at which each sample has its value."""
    size = struct.calcsize(form)
    least = min(len(each.data) for each in samples)
    return [
        at
        for at in range(_LEAST_BYTES // 2, least - size + 1, size)
        if all(
            struct.unpack_from(form, each.data, at)[0] == value
            for each, value in zip(samples, values, strict=True)
        )
    ]
