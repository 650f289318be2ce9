"""The generated source of the recorder."""

from __future__ import annotations

import re

from pgdb.frontend.mpi_recorder.source import generate, prototypes
from pgdb.mpi_functions import NUMBERED, Role

HEADER = """
int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
    __attribute__((nonnull(1))) ;
int MPI_Send_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
               MPI_Comm comm);
int MPI_Waitall(int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses);
int MPI_Finalize(void);
int MPI_Barrier(MPI_Comm comm, int of_another_standard);
int (*MPI_Pointer)(int);
"""


def test_prototypes_of_a_header() -> None:
    found = prototypes(HEADER)
    assert set(found) == {"MPI_Send", "MPI_Send_c", "MPI_Waitall", "MPI_Finalize", "MPI_Barrier"}
    assert found["MPI_Waitall"].names == ("count", "array_of_requests", "array_of_statuses")
    assert found["MPI_Finalize"].parameters == "void"


def test_functions_of_another_standard_are_left_alone() -> None:
    source = generate(prototypes(HEADER))
    wrapped = set(re.findall(r"^int (MPI_\w+)\(", source, re.M))
    assert wrapped == {"MPI_Send", "MPI_Send_c", "MPI_Waitall", "MPI_Finalize"}
    assert "void mpi_send_f08_(" in source and "void mpi_waitall_(" in source


def test_a_function_with_a_request_makes_it_or_uses_it() -> None:
    for each in NUMBERED:
        names = [argument.standard_name for argument in each.arguments]
        assert len(names) == len(set(names)), each.name
        if each.role & Role.OPENS:
            assert names[-1] == "request" and each.arguments[-1].name == "_", each.name
