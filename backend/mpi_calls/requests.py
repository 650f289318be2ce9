"""Requests: their kinds, peers and tags, from the objects of the MPI library."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.library import MpiLibrary
from pgdb.backend.mpi_calls.mpich_requests import MpichRequests
from pgdb.backend.mpi_calls.openmpi_requests import OpenMpiRequests
from pgdb.mpi_calls import Request


class RequestReader:
    """Reader of the requests that an array of handles names."""

    def __init__(self, library: MpiLibrary) -> None:
        self._library = library
        self._memory = library.memory
        self._family: OpenMpiRequests | MpichRequests = (
            OpenMpiRequests(library) if library.family == "openmpi" else MpichRequests(library)
        )

    def read(self, address: int, count: int, *, is_fortran: bool) -> tuple[Request, ...]:
        """Return *count* requests of an array at *address*; an unknown one is an empty record."""
        size = 4 if is_fortran else self._library.handle_bytes
        found = []
        for number in range(count):
            handle = self._memory.word(address + size * number, size)
            found.append(self._request(handle, is_fortran) if handle is not None else Request())
        return tuple(found)

    def of(self, handle: int) -> Request:
        """Return the request of a handle in C; an unknown one is an empty record."""
        return self._request(handle, is_fortran=False)

    def at(self, address: int) -> Request | None:
        """Return the request whose object is at an address, None if there is none.

        :raises EmulationError: if the queries for it fail.
        """
        handle = self._family.handle_at(address)
        return None if handle is None else self._request(handle, is_fortran=False)

    def _request(self, handle: int, is_fortran: bool) -> Request:
        try:
            if is_fortran:
                handle = self._library.of_fortran("Request", handle)
            found = self._family.request(handle)
        except EmulationError:
            return Request()
        if found.kind == "null" or found.complete is not None:
            return found
        return replace(found, complete=self._family.is_complete(handle))
