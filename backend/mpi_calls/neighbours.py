"""The neighbours of a rank in a communicator with a topology, from the library's own queries."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Literal

from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.backend.mpi_calls.library import MpiLibrary

LOG = logging.getLogger(__name__)

_Topology = Literal["grid", "graph", "distributed graph"]
_TOPOLOGIES: dict[str, dict[int, _Topology]] = {
    "openmpi": {1: "grid", 2: "graph", 3: "distributed graph"},
    "mpich": {1: "graph", 2: "grid", 3: "distributed graph"},
}
"""The values of ``MPI_CART``, ``MPI_GRAPH`` and ``MPI_DIST_GRAPH`` by the kind of handles."""
_MOST_DIMENSIONS = 64
_MOST_NEIGHBOURS = 4096


def neighbours_of(library: MpiLibrary, handle: int) -> str | None:
    """Return the world ranks whose part a neighbourhood call of this rank waits for.

    The result is None for a communicator without a topology, and where one of them is unknown.

    :raises EmulationError: if a query fails.
    """
    topology = _TOPOLOGIES.get(library.family, {}).get(_numbers(library, "Topo_test", handle)[0])
    match topology:
        case "grid":
            (dimensions,) = _numbers(library, "Cartdim_get", handle)
            if not 0 <= dimensions <= _MOST_DIMENSIONS:
                return None
            found = [
                each
                for dimension in range(dimensions)
                for each in _numbers(library, "Cart_shift", handle, dimension, 1, results=2)
            ]
        case "graph":
            own = _numbers(library, "Comm_rank", handle)[0]
            (count,) = _numbers(library, "Graph_neighbors_count", handle, own)
            found = list(_array(library, "Graph_neighbors", count, handle, own, count))
        case "distributed graph":
            before, behind, _ = _numbers(library, "Dist_graph_neighbors_count", handle, results=3)
            found = list(_sources(library, handle, before, behind))
        case _:
            return None
    peers = [library.peer(each, library.communicator(handle).ranks) for each in found]
    if any(each is None for each in peers):
        return None
    return str(RankSet(each for each in peers if isinstance(each, int)))


def known_neighbours(library: MpiLibrary, handle: int) -> str | None:
    """Return the neighbours as :func:`neighbours_of` does, None also where a query fails."""
    try:
        return neighbours_of(library, handle)
    except EmulationError as error:
        LOG.info("neighbours: %s", error)
        return None


def _numbers(
    library: MpiLibrary, name: str, handle: int, *given: int, results: int = 1
) -> tuple[int, ...]:
    """Return the numbers that a query stores behind its other arguments."""
    places = [library.emulator.allocate(16) for _ in range(results)]
    library.query(name, handle, *given, *places)
    return tuple(_signed(library, each) for each in places)


def _signed(library: MpiLibrary, place: int) -> int:
    return int(struct.unpack("<i", library.emulator.read(place, 4))[0])


def _array(library: MpiLibrary, name: str, count: int, *given: int) -> tuple[int, ...]:
    """Return the *count* numbers that a query stores in the array behind its other arguments."""
    place = _allocated(library, count)
    library.query(name, *given, place)
    return struct.unpack(f"<{count}i", library.emulator.read(place, 4 * count))


def _sources(library: MpiLibrary, handle: int, before: int, behind: int) -> tuple[int, ...]:
    sources, sources_weights = (_allocated(library, before) for _ in range(2))
    others, others_weights = (_allocated(library, behind) for _ in range(2))
    library.query(
        "Dist_graph_neighbors",
        handle,
        before,
        sources,
        sources_weights,
        behind,
        others,
        others_weights,
    )
    return struct.unpack(f"<{before}i", library.emulator.read(sources, 4 * before))


def _allocated(library: MpiLibrary, count: int) -> int:
    if not 0 <= count <= _MOST_NEIGHBOURS:
        raise EmulationError(f"{count} neighbours")
    return library.emulator.allocate(max(16, 4 * count))
