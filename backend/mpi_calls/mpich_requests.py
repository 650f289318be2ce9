"""Requests of MPICH and its descendants.

An object begins with its handle, a count of references and its kind, in all versions. The places of
peers and tags are known for some versions only; those of other versions stay unknown.
"""

from __future__ import annotations

import struct

import msgspec

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.mpi_calls import Request, RequestKind
from pgdb.patterns import pattern

_OBJECT_BYTES = 0x2C0
_KINDS: dict[int, RequestKind] = {
    1: "send",
    2: "recv",
    3: "persistent send",
    4: "persistent recv",
}
_COLLECTIVES = (10, 11)
_PERSISTENT = ("persistent send", "persistent recv")
_KIND_AT, _COUNTER_AT = 8, 16
_MOST_LEFT = 1 << 20
_VERSION_BYTES = 8192
_VERSION_SYMBOL = "MPII_Version_string"
_VERSION = pattern(r"MPICH Version:\s+([\w.]+)")
_COMMUNICATOR_KINDS = (0x44, 0x84, 0xC4)
"""First bytes of the handles of communicators: predefined, of the library's own table, and of
blocks of memory behind it."""


class _Layout(msgspec.Struct, frozen=True):
    """Places in the object of a request."""

    version: str
    """Name and version of the library; empty for one whose layout is unknown."""
    communicator: int | None = None
    source: int | None = None
    tag: int | None = None
    count: int | None = None
    matches: int | None = None
    """Place of the pointer to the request of UCX; the bits to match stand before that one."""


# Measured on requests with known peers and tags. The layouts are those of builds for x86-64.
_LAYOUTS = (
    _Layout("MPICH 5.0.2", communicator=0x20, source=0x30, tag=0x34, count=0x1E0),
    _Layout("MPICH 4.0.2", matches=0xB0),
    _Layout("Intel 2021.18.1", source=0x180, tag=0x184, count=0x178),
)


class MpichRequests:
    """Reads requests of MPICH."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory
        self._known_layout: _Layout | None = None
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
        data = self._memory.some(address, _OBJECT_BYTES)
        if len(data) < _OBJECT_BYTES:
            return Request()
        number = struct.unpack_from("<i", data, _KIND_AT)[0]
        layout = self._layout()
        kind = _KINDS.get(number)
        if kind is None:
            is_collective = number in _COLLECTIVES and layout.version
            return Request(kind="collective") if is_collective else Request()
        found = Request(kind=kind)
        if layout.communicator is not None:
            found = self._with_communicator(found, data, layout.communicator)
        if number != 2:
            return found
        if layout.source is not None and layout.tag is not None:
            return self._with_peer(found, data, layout)
        if layout.matches is not None:
            return self._with_matches(found, data, layout.matches)
        return found

    def is_complete(self, handle: int) -> bool | None:
        """Return whether a request needs nothing any more, None if that is unknown.

        Behind the kind stands the address of a counter of what is left to do. The counter is in the
        object of the request itself, or in that of the request that a persistent one has started.
        """
        if self._library.family == "abi":
            return None
        address = self._object(handle)
        if handle in self._complete:
            return True
        if address is None or (kind := self._memory.word(address + _KIND_AT, 4)) is None:
            return None
        counter = self._memory.word(address + _COUNTER_AT) or 0
        is_own = 0 < counter - address < _OBJECT_BYTES
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
        reads = self._library.emulator.reads = []
        try:
            self._library.query("Request_get_status", handle, place, place + 16)
            if self._library.emulator.number(place, 4):
                self._complete.add(handle)
        except EmulationError:
            # The reads so far may have been enough.
            pass
        finally:
            self._library.emulator.reads = None
        for read in dict.fromkeys(address for address, _ in reads):
            for at in range(0, 0x140, 8):
                start = (read - at) & ~7
                if self._memory.word(start, 4) == handle and self._has_object(start):
                    return start
        return None

    def _has_object(self, address: int) -> bool:
        """Return whether a count of references and a kind stand behind a handle."""
        data = self._memory.bytes_at(address, 12)
        if data is None or self._library.is_stack(address):
            return False
        references, kind = (int(each) for each in struct.unpack("<ii", data[4:]))
        return 0 < references < 16 and 0 < kind < 32

    def _layout(self) -> _Layout:
        if self._known_layout is None:
            version = self._version()
            known = (each for each in _LAYOUTS if each.version == version)
            self._known_layout = next(known, _Layout(""))
        return self._known_layout

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

    def _with_communicator(self, found: Request, data: bytes, at: int) -> Request:
        pointer = struct.unpack_from("<Q", data, at)[0]
        handle = self._memory.word(pointer, 4)
        if handle is None or handle >> 24 not in _COMMUNICATOR_KINDS:
            return found
        return Request(kind=found.kind, communicator=self._library.communicator(handle).record)

    def _with_peer(self, found: Request, data: bytes, layout: _Layout) -> Request:
        assert layout.source is not None and layout.tag is not None
        source, tag = (struct.unpack_from("<i", data, at)[0] for at in (layout.source, layout.tag))
        count = struct.unpack_from("<Q", data, layout.count)[0] if layout.count else None
        return self._translated(found, data, layout, source, tag, count)

    def _translated(
        self,
        found: Request,
        data: bytes,
        layout: _Layout,
        source: int,
        tag: int,
        count: int | None,
    ) -> Request:
        ranks = None
        if layout.communicator is not None:
            pointer = struct.unpack_from("<Q", data, layout.communicator)[0]
            handle = self._memory.word(pointer, 4)
            if handle is not None and handle >> 24 in _COMMUNICATOR_KINDS:
                ranks = self._library.communicator(handle).ranks
        peer = self._library.peer(source, ranks)
        return Request(
            kind=found.kind,
            communicator=found.communicator,
            peer=peer,
            tag=self._library.tag(tag),
            count=count,
        )

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
            if mask & 0xFFFFFFFF not in (0x9FFFFFFF, 0x80000000, 0xFFFFFFFF):
                continue
            tag = bits & 0x1FFFFFFF if mask & 0x1FFFFFFF else self._library.constants.any_tag
            source = bits >> 32 & 0xFFFF if has_source else self._library.constants.any_source
            # The source is a rank of the communicator with this context.
            handle = self._library.contexts.communicator(bits >> 48)
            communicator = self._library.communicator(handle) if handle is not None else None
            return Request(
                kind=found.kind,
                communicator=communicator.record if communicator is not None else None,
                peer=self._library.peer(source, communicator.ranks if communicator else None),
                tag=self._library.tag(tag),
            )
        return found
