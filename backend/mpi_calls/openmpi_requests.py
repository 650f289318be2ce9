"""Requests of Open MPI, which are objects whose class has a name.

The fields of an object have no fixed place. Requests of the same class that the library makes in a
private copy of the memory show it. Where they cannot be made, a peer's number is found by what lies
behind it: the pointer to the peer's process object, which is the entry of that number in the
communicator's group.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.backend.mpi_calls.errors import EmulationError, HaltError
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.neighbours import known_neighbours
from pgdb.mpi_calls import Request, RequestKind

_OBJECT_BYTES = 0x400
_COMMUNICATOR_BYTES = 0x200
_GROUP_BYTES = 0x80
_OBJECT_HEAD_BYTES = 0x10
"""Bytes before the first field of an object: its class, and a count of references, which can be the
size of the group by chance."""
_LEAST_ADDRESS = 4096
_MOST_MEMBERS = 1 << 20
# struct mca_pml_base_request_t: address, count, peer, tag, process.
_PROCESS_BEHIND, _COUNT_BEFORE = 8, 8
_FIRST_PLACE = 0x80
_PEER_PLACES: dict[object, int] = {}
"""The place of the peer in an object, by library and class, once a request has shown it."""
_ANY = -1
_ALONE = ("generalized", "file")
"""Kinds of requests that have no communicator, though the library's object has one for errors."""
_PERSISTENT: dict[RequestKind, RequestKind] = {
    "send": "persistent send",
    "recv": "persistent recv",
}
_KINDS: tuple[tuple[str, RequestKind], ...] = (
    ("_recv_req", "recv"),
    ("_send_req", "send"),
    ("part_persist_psend", "partitioned send"),
    ("part_persist_precv", "partitioned recv"),
    ("libnbc", "collective"),
    ("coll", "collective"),
    ("ompi_comm_request", "collective"),
    ("osc", "rma"),
    ("grequest", "generalized"),
    ("io", "file"),
)


class OpenMpiRequests:
    """Reader of requests of Open MPI."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory
        self._layout: tuple[int, int, int] | None = None
        self._has_layout = False

    def request(self, address: int) -> Request:
        """Return the request at an address.

        :raises EmulationError: if a query for its communicator fails.
        """
        if address == self._library.symbol("ompi_request_null"):
            return Request(kind="null")
        data = self._memory.some(address, _OBJECT_BYTES)
        if len(data) < _GROUP_BYTES:
            return Request()
        kind = kind_of_class(self._library.type_name(data))
        if kind is None or kind in _ALONE:
            return Request(kind=kind)
        handle = self._communicator_in(data)
        if handle is None:
            return Request(kind=kind)
        communicator = self._library.communicator(handle)
        request = Request(kind=kind, communicator=communicator.record)
        if kind == "collective":
            return replace(request, neighbours=known_neighbours(self._library, handle))
        if kind not in ("send", "recv"):
            return request
        found = self._with_peer(request, data, handle, communicator.ranks)
        return replace(found, kind=_PERSISTENT[kind]) if self._is_persistent(data) else found

    def _is_persistent(self, data: bytes) -> bool:
        place = self._library.samples.persistence()
        return place is not None and data[place] == 1

    def handle_at(self, address: int) -> int | None:
        """Return the handle of the request whose object is at an address, None if it is none."""
        data = self._memory.some(address, 8)
        if len(data) < 8 or kind_of_class(self._library.type_name(data)) is None:
            return None
        return address

    def is_complete(self, address: int) -> bool | None:
        """Return whether a request needs nothing any more, None if that is unknown.

        The query looks at the request first, and only then for messages. While a call waits for the
        request, the word that becomes 1 holds the address of the waiter.
        """
        emulator = self._library.emulator
        flag = emulator.allocate(16)
        try:
            with emulator.halted_at(self._library.progress), emulator.recorded_reads() as reads:
                self._library.query("Request_get_status", address, flag, 0)
        except HaltError:
            return False
        except EmulationError:
            return None
        words = [at for at, size in reads if size == 8 and 0 <= at - address < _OBJECT_BYTES]
        if not emulator.number(flag, 4):
            return None
        return emulator.number(words[-1], 8) == 1 if words else True

    def _communicator_in(self, data: bytes) -> int | None:
        """Return the communicator that an object points to, None if there is none or several."""
        kind = self._memory.word(self._library.world)
        found = set()
        for at in range(0x30, min(len(data), 0x300) - 7, 8):
            word = struct.unpack_from("<Q", data, at)[0]
            if word >= _LEAST_ADDRESS and kind and self._memory.word(word) == kind:
                found.add(word)
        return found.pop() if len(found) == 1 else None

    def _with_peer(
        self,
        request: Request,
        data: bytes,
        handle: int,
        ranks: Sequence[int | None] | None,
    ) -> Request:
        type_name = self._library.type_name(data)
        place = self._sampled_place(type_name) or self._found_place(data, handle, type_name)
        if place is None:
            return request
        peer, tag = struct.unpack_from("<ii", data, place)
        (count,) = struct.unpack_from("<Q", data, place - _COUNT_BEFORE)
        return replace(
            request,
            peer=self._library.peer(peer, ranks),
            tag=self._library.tag(tag),
            count=count if count < 1 << 62 else None,
        )

    def _sampled_place(self, type_name: str) -> int | None:
        """Return the place of the peer, as requests of the same class show it."""
        for function in ("Recv_init", "Irecv", "Send_init", "Isend"):
            places = self._library.samples.places(function)
            if places is not None and places.type_name == type_name:
                return places.peer
        return None

    def _found_place(self, data: bytes, handle: int, type_name: str) -> int | None:
        """Return the place of the peer, as what stands behind it shows."""
        processes = self._processes(handle)
        if processes is None:
            return None
        key = (self._library.image.key, type_name)
        places = range(_FIRST_PLACE, len(data) - _PROCESS_BEHIND - 7, 8)
        found = [at for at in places if self._names_member(data, at, processes)]
        if len(found) == 1:
            _PEER_PLACES[key] = found[0]
            return found[0]
        # A receive from anybody has its own process, or none, as one that is not started.
        place = _PEER_PLACES.get(key)
        if found or place is None or not _names_anybody(data, place, len(processes)):
            return None
        return place

    def _names_member(self, data: bytes, at: int, processes: Sequence[int]) -> bool:
        """Return whether the number of a member and its process object stand at a place."""
        peer = int(struct.unpack_from("<i", data, at)[0])
        process = int(struct.unpack_from("<Q", data, at + _PROCESS_BEHIND)[0])
        return 0 <= peer < len(processes) and process == processes[peer]

    # -- the group of a communicator -----------------------------------------------------------

    def _processes(self, handle: int) -> tuple[int, ...] | None:
        """Return the process objects of the members that a communicator's peers are numbered by."""
        if not self._has_layout:
            self._layout, self._has_layout = self._find_layout(), True
        if self._layout is None:
            return None
        group_at, size_at, array_at = self._layout
        group = self._memory.word(handle + group_at)
        if group is None:
            return None
        size = self._memory.word(group + size_at, 4)
        array = self._memory.word(group + array_at)
        if size is None or array is None or size > _MOST_MEMBERS:
            return None
        data = self._memory.bytes_at(array, 8 * size)
        return struct.unpack(f"<{size}Q", data) if data is not None else None

    def _find_layout(self) -> tuple[int, int, int] | None:
        """Return the place of the remote group in a communicator, and of the size and the array in
        a group: ``MPI_COMM_WORLD`` and ``MPI_COMM_SELF`` show them, whose members are known."""
        library, memory = self._library, self._memory
        myself = library.symbol("ompi_mpi_comm_self")
        if myself is None:
            return None
        try:
            size, rank = library.size, library.rank
        except EmulationError:
            return None
        world = memory.some(library.world, _COMMUNICATOR_BYTES)
        own = memory.some(myself, _COMMUNICATOR_BYTES)
        found = []
        for at in range(0x10, min(len(world), len(own)) - 7, 8):
            one, other = (struct.unpack_from("<Q", data, at)[0] for data in (world, own))
            if one < _LEAST_ADDRESS or other < _LEAST_ADDRESS or one == other:
                continue
            found += [
                (at, size_at, array_at)
                for size_at, array_at in self._in_group(one, other, size, rank)
            ]
        # Two pointers lead to one group: the local and the remote one, which stands behind it.
        places = {(size_at, array_at) for _, size_at, array_at in found}
        return max(found) if len(places) == 1 else None

    def _in_group(self, one: int, other: int, size: int, rank: int) -> list[tuple[int, int]]:
        a, b = (self._memory.some(group, _GROUP_BYTES) for group in (one, other))
        found = []
        for size_at in range(_OBJECT_HEAD_BYTES, min(len(a), len(b)) - 0x20, 4):
            sizes = (struct.unpack_from("<i", data, size_at)[0] for data in (a, b))
            if tuple(sizes) != (size, 1):
                continue
            for array_at in range(8, len(a) - 7, 8):
                arrays = [struct.unpack_from("<Q", data, array_at)[0] for data in (a, b)]
                entries = self._memory.bytes_at(arrays[0], 8 * size)
                mine = self._memory.word(arrays[1])
                if entries is None or not mine:
                    continue
                processes = struct.unpack(f"<{size}Q", entries)
                if processes[rank] == mine and len(set(processes)) == size:
                    found.append((size_at, array_at))
        return found


def _names_anybody(data: bytes, at: int, members: int) -> bool:
    """Return whether ``MPI_ANY_SOURCE``, or a member without a process, and a tag stand at a
    place."""
    if at + _PROCESS_BEHIND + 8 > len(data):
        return False
    peer, tag, process = struct.unpack_from("<iiQ", data, at)
    return bool(tag >= _ANY and (peer == _ANY or (0 <= peer < members and not process)))


def kind_of_class(name: str) -> RequestKind | None:
    """Return the kind of requests of a class of Open MPI, None if it is unknown."""
    return next((kind for part, kind in _KINDS if part in name), None)
