"""Requests of MPICH and its descendants.

An object begins with its handle, a count of references and its kind, in all versions. Requests that
the library makes in a private copy of the memory show the places of peers and tags; where it cannot
be made to, they stay unknown.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from pgdb.backend.mpi_calls.contexts import OF_COLLECTIVES
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.handle_objects import HEAD_BYTES, KIND_AT, candidates, is_request
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.neighbours import known_neighbours
from pgdb.backend.mpi_calls.request_samples import OBJECT_BYTES, Places
from pgdb.mpi_calls import Request, RequestKind
from pgdb.patterns import pattern

_KINDS: dict[int, RequestKind] = {
    1: "send",
    2: "recv",
    3: "persistent send",
    4: "persistent recv",
}
_BEHIND_PERSISTENT: dict[int, RequestKind] = {
    5: "persistent collective",
    6: "partitioned send",
    7: "partitioned recv",
}
"""Kinds of the versions from 4.0 on; before, generalized requests have the number 5."""
_FIRST_GENERALIZED = 9
_BEHIND_GENERALIZED: dict[int, RequestKind] = {0: "generalized", 1: "collective", 3: "rma"}
"""Kinds by their distance from that of generalized requests, in all versions."""
_PERSISTENT = ("persistent send", "persistent recv")
_COUNTER_AT = 16
_MOST_LEFT = 1 << 20
_VERSION_BYTES = 8192
_VERSION_SYMBOL = "MPII_Version_string"
_VERSION = pattern(r"MPICH Version:\s+([\w.]+)")
_REQUEST_KINDS = (0xAC, 0xEC)
"""First bytes of the handles of requests: of the library's own table, and of blocks behind it."""
_COMMUNICATOR_KINDS = (0x44, 0x84, 0xC4)
"""First bytes of the handles of communicators: predefined, of the library's own table, and of
blocks of memory behind it."""


_FUNCTIONS: dict[RequestKind, str] = {
    "recv": "Irecv",
    "persistent recv": "Recv_init",
    "persistent send": "Send_init",
    "partitioned recv": "Precv_init",
}
"""The functions that make requests which show the places of peers and tags."""
_UCX_POINTER = 0xB0
"""Place of the pointer to the request of UCX in MPICH 4.0.2; the bits to match stand before that
one."""
_UCX_TAG = 0x0FFFFFFF
_UCX_MASKS = (0x9FFFFFFF, 0x90000000, 0xFFFFFFFF, 0xF0000000)
"""Bits that are compared, of a receive with a tag and of one with any; the others are flags."""
_WITH_UCX = "MPICH 4.0.2"


class MpichRequests:
    """Reader of requests of MPICH."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory
        self._objects: dict[int, int | None] = {}
        self._complete: set[int] = set()

    def request(self, handle: int) -> Request:
        """Return the request with a handle.

        :raises EmulationError: if the queries for it fail.
        """
        if handle == self._library.constants.no_request:
            return Request(kind="null")
        if self._library.family == "abi":
            return Request()
        address = self._object(handle)
        if address is None:
            return Request()
        data = self._memory.some(address, OBJECT_BYTES)
        if len(data) < OBJECT_BYTES:
            return Request()
        kind = self._kind(struct.unpack_from("<i", data, KIND_AT)[0])
        if kind is None:
            return Request()
        function = _FUNCTIONS.get(kind)
        samples = self._library.samples
        places = samples.places(function) if function is not None else None
        found = Request(kind=kind)
        if places is not None:
            return self._with_peer(found, data, places)
        # The pointer to the communicator has one place in all requests, and is null in some.
        persistent = samples.places("Recv_init")
        named = self._communicator(data, persistent) if persistent is not None else None
        if named is not None:
            found = replace(found, communicator=self._library.communicator(named).record)
            if kind == "collective":
                found = replace(found, neighbours=known_neighbours(self._library, named))
        if kind == "recv" and self._version == _WITH_UCX:
            return self._with_matches(found, data, _UCX_POINTER)
        return found

    def _kind(self, number: int) -> RequestKind | None:
        if number in _KINDS:
            return _KINDS[number]
        first = self._library.samples.generalized_kind()
        if first is None:
            return None
        if number in _BEHIND_PERSISTENT and first >= _FIRST_GENERALIZED:
            return _BEHIND_PERSISTENT[number]
        return _BEHIND_GENERALIZED.get(number - first)

    def handle_at(self, address: int) -> int | None:
        """Return the handle of the request whose object is at an address, None if it is none."""
        handle = self._memory.word(address, 4)
        if handle is None or handle >> 24 not in _REQUEST_KINDS:
            return None
        if not self._has_object(address, handle):
            return None
        return handle if self._object(handle) == address else None

    def is_complete(self, handle: int) -> bool | None:
        """Return whether a request needs nothing any more, None if that is unknown.

        The address of a counter of what is left to do follows the kind. The counter is in the
        object of the request itself, or in that of the request that a persistent one has started.
        """
        if self._library.family == "abi":
            return None
        address = self._object(handle)
        if handle in self._complete:
            return True
        if address is None or (kind := self._memory.word(address + KIND_AT, 4)) is None:
            return None
        if self._kind(kind) == "persistent collective":
            # Its own counter is above 0 before it is started.
            return None
        counter = self._memory.word(address + _COUNTER_AT) or 0
        is_own = 0 < counter - address < OBJECT_BYTES
        if not is_own and _KINDS.get(kind) not in _PERSISTENT:
            return None
        left = self._memory.word(counter, 4)
        return None if left is None or left > _MOST_LEFT else left == 0

    def _object(self, handle: int) -> int | None:
        """Return the address of the object of a request: a query reads it."""
        if handle not in self._objects:
            self._objects[handle] = self._find_object(handle)
        return self._objects[handle]

    def _find_object(self, handle: int) -> int | None:
        place = self._library.emulator.allocate(64)
        # The reads before an error may be enough.
        with self._library.emulator.recorded_reads() as reads, suppress(EmulationError):
            self._library.query("Request_get_status", handle, place, place + 16)
            if self._library.emulator.number(place, 4):
                self._complete.add(handle)
        return next((at for at in candidates(reads) if self._has_object(at, handle)), None)

    def _has_object(self, address: int, handle: int) -> bool:
        head = self._memory.bytes_at(address, HEAD_BYTES)
        return head is not None and is_request(head, handle) and not self._library.is_stack(address)

    @cached_property
    def _version(self) -> str:
        library = self._library
        if (symbol := library.symbol(_VERSION_SYMBOL)) is not None:
            name = "Intel" if library.is_of_intel else "MPICH"
            return f"{name} {library.memory.text(symbol)}"
        place = library.emulator.allocate(_VERSION_BYTES)
        length = library.emulator.allocate(16)
        try:
            library.query("Get_library_version", place, length)
        except EmulationError:
            return ""
        match = _VERSION.match(library.emulator.text(place))
        return f"MPICH {match[1]}" if match is not None else ""

    def _with_peer(self, found: Request, data: bytes, places: Places) -> Request:
        """Return the request with its communicator, and with its peer and tag if these agree."""
        handle = self._communicator(data, places)
        if handle is None:
            return found
        communicator = self._library.communicator(handle)
        known = replace(found, communicator=communicator.record)
        source, tag = (struct.unpack_from("<i", data, at)[0] for at in (places.peer, places.tag))
        peer = self._library.peer(source, communicator.ranks)
        its_tag = self._library.tag(tag)
        if peer is None or its_tag is None:
            return known
        at = places.count
        count = struct.unpack_from("<Q", data, at)[0] if at is not None else None
        return replace(known, peer=peer, tag=its_tag, count=count)

    def _communicator(self, data: bytes, places: Places) -> int | None:
        """Return the handle of the communicator, by the address of its object or by its context."""
        if places.communicator is not None:
            pointer = struct.unpack_from("<Q", data, places.communicator)[0]
            handle = self._memory.word(pointer, 4)
            if handle is None or handle >> 24 not in _COMMUNICATOR_KINDS:
                return None
            return handle if self._library.contexts.object(handle) == pointer else None
        if places.context is None:
            return None
        context = struct.unpack_from("<H", data, places.context)[0]
        return self._library.contexts.communicator(context)

    def _with_matches(self, found: Request, data: bytes, at: int) -> Request:
        """Return the request with its tag, from the bits that UCX matches: context, source, tag."""
        pointer = struct.unpack_from("<Q", data, at)[0]
        before = self._memory.bytes_at(pointer - 0x80, 0x80)
        if before is None:
            return found
        for place in range(0, 0x78, 8):
            bits, mask = struct.unpack_from("<QQ", before, place)
            has_source = mask >> 32 & 0xFFFF
            if mask >> 48 != 0xFFFF or has_source not in (0, 0xFFFF):
                continue
            if mask & 0xFFFFFFFF not in _UCX_MASKS:
                continue
            has_tag = mask & _UCX_TAG
            tag = bits & _UCX_TAG if has_tag else self._library.constants.any_tag
            source = bits >> 32 & 0xFFFF if has_source else self._library.constants.any_source
            # The source is a rank of the communicator with this context.
            handle = self._library.contexts.communicator(bits >> 48)
            # Collective calls have the next context, and tags of the library's own.
            is_own = handle is None
            if is_own and bits >> 48 & OF_COLLECTIVES:
                handle = self._library.contexts.communicator((bits >> 48) - OF_COLLECTIVES)
            communicator = self._library.communicator(handle) if handle is not None else None
            return Request(
                kind=found.kind,
                communicator=communicator.record if communicator is not None else None,
                peer=self._library.peer(source, communicator.ranks if communicator else None),
                tag=None if is_own and handle is not None else self._library.tag(tag),
            )
        return found
