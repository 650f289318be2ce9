"""Requests: their kinds, peers and tags, from the objects of the MPI library."""

from __future__ import annotations

import struct

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.library import CommunicatorParts, MpiLibrary
from pgdb.mpi_calls import Request, RequestKind

_OBJECT_BYTES = 0x400


class RequestReader:
    """Reads the requests that an array of handles names."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory

    def read(self, address: int, count: int, *, is_fortran: bool) -> tuple[Request, ...]:
        """Return *count* requests of an array at *address*; an unknown one is an empty record."""
        size = 4 if is_fortran else self._library.handle_bytes
        found = []
        for number in range(count):
            handle = self._memory.word(address + size * number, size)
            found.append(self._request(handle, is_fortran) if handle is not None else Request())
        return tuple(found)

    def _request(self, handle: int, is_fortran: bool) -> Request:
        try:
            if is_fortran:
                handle = self._library.of_fortran("Request", handle)
            if self._library.family == "openmpi":
                return self._of_openmpi(handle)
            if handle == self._library.constants.no_request:
                return Request(kind="null")
        except EmulationError:
            pass
        return Request()

    # -- Open MPI ------------------------------------------------------------------------------

    def _of_openmpi(self, address: int) -> Request:
        """Read an object of Open MPI; its class has a name: ``mca_pml_ob1_recv_request_t``."""
        if address == self._library.symbol("ompi_request_null"):
            return Request(kind="null")
        memory = self._memory
        data = memory.some(address, _OBJECT_BYTES)
        if len(data) < 0x100:
            return Request()
        class_at = struct.unpack_from("<Q", data)[0]
        name = memory.text(memory.word(class_at) or 0)
        kind = _kind_of_class(name)
        if kind is None:
            return Request()
        parts = self._communicator_in(data)
        if parts is None or kind not in ("send", "recv"):
            return Request(kind=kind, communicator=parts.record if parts else None)
        return Request(kind=kind, communicator=parts.record)

    def _communicator_in(self, data: bytes) -> CommunicatorParts | None:
        """Return the communicator that an object points to, None if there is none or several."""
        kind = self._memory.word(self._library.world)
        found = {}
        for at in range(0x30, min(len(data), 0x300) - 7, 8):
            word = struct.unpack_from("<Q", data, at)[0]
            if word == self._library.world or (kind and self._memory.word(word) == kind):
                found[word] = at
        if len(found) != 1:
            return None
        return self._library.communicator(next(iter(found)))


def _kind_of_class(name: str) -> RequestKind | None:
    if "_recv_req" in name:
        return "recv"
    if "_send_req" in name:
        return "send"
    if "libnbc" in name or "coll" in name:
        return "collective"
    if "osc" in name:
        return "rma"
    if "grequest" in name:
        return "generalized"
    return None
