"""Operations of mpi4py that are made of several calls of MPI.

The reductions of Python objects (``Comm.reduce``, ``Comm.allreduce``, ``Comm.scan``,
``Comm.exscan``) send and receive messages in a communicator of mpi4py's own. A rank that leaves one
out is missing from an operation, and not from a receive.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.backend.gdb.mpi_frames import Place, mpi_name
from pgdb.patterns import pattern

_METHOD = pattern(
    r"__pyx_pw_6mpi4py_3MPI_\d+(?:Comm|Intracomm|Intercomm)_\d+(?P<name>reduce|allreduce|scan|exscan)\Z"
)
"""The methods of objects, as Cython names them; those of buffers begin with a capital letter."""
_INNER = pattern(r"(?:__pyx_|__Pyx_|_*PyMPI_)\w+(?:\.\w+)*\Z")
"""Functions of mpi4py between a method and its call of MPI."""


def operation_around(places: Sequence[Place], at: int) -> str:
    """Return the operation of mpi4py whose part the call of MPI at *at* is, empty if it is none.

    A function of the user's that an operation has called makes calls of its own.
    """
    for place in places[at + 1 :]:
        function = place.frame.function
        if match := _METHOD.match(function):
            return f"Comm.{match['name']}"
        # The recorder of MPI calls has a function of the same name around each call.
        if not _INNER.match(function) and not mpi_name(function):
            break
    return ""
