"""Reductions of Python objects are named by the methods of mpi4py around a call of MPI."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.backend.gdb.python_operations import operation_around
from pgdb.records import Frame

_F, _PW = "__pyx_f_6mpi4py_3MPI_", "__pyx_pw_6mpi4py_3MPI_"


def around(*functions: str) -> str:
    """Return the operation around a receive that these functions have called, innermost first."""
    names = ("opal_progress", "PMPI_Mrecv", *functions)
    places = tuple(
        Place(Frame(level=level, function=name), level + 1, Owner.SYSTEM)
        for level, name in enumerate(names)
    )
    return operation_around(places, 1)


@pytest.mark.parametrize(
    ("functions", "operation"),
    [
        ((f"{_F}PyMPI_recv_p2p", f"{_F}PyMPI_reduce_p2p", f"{_PW}4Comm_293allreduce"), "allreduce"),
        ((f"{_F}PyMPI_bcast_p2p.constprop.0", f"{_PW}4Comm_293allreduce"), "allreduce"),
        (("PyMPI_Mrecv.part.0", f"{_F}PyMPI_recv_p2p", f"{_PW}4Comm_291reduce"), "reduce"),
        (("MPI_Mrecv", f"{_F}PyMPI_recv_p2p", f"{_PW}4Comm_291reduce"), "reduce"),  # recorder
        ((f"{_PW}9Intracomm_33scan",), "scan"),
        ((f"{_PW}9Intracomm_35exscan",), "exscan"),
    ],
)
def test_a_reduction_of_objects_is_an_operation(functions: tuple[str, ...], operation: str) -> None:
    assert around(*functions, "PyObject_Vectorcall", "main") == f"Comm.{operation}"


@pytest.mark.parametrize(
    "functions",
    [
        (f"{_PW}4Comm_83recv",),
        (f"{_PW}4Comm_143Allreduce",),  # one call of MPI
        ("exchange", "main"),
        # A function of the user's, which the reduction has called, receives a message of its own.
        (f"{_PW}4Comm_83recv", "_PyEval_EvalFrameDefault", f"{_PW}4Comm_291reduce"),
    ],
)
def test_other_calls_are_part_of_no_operation(functions: tuple[str, ...]) -> None:
    assert around(*functions) == ""
