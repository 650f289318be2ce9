"""The table of MPI's functions, against the header of an MPI that is installed."""

from __future__ import annotations

import re
import subprocess

import pytest

from pgdb.mpi_functions import PROTOTYPES, called_name
from tests.support.programs import find_mpi

_DECLARATION = re.compile(r"\bint\s+(MPI_\w+)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.S)
_NAMES = {
    "count": {"count", "sendcount", "incount", "recvcount", "origin_count"},
    "count2": {"recvcount"},
    "dest": {"dest"},
    # MPICH names that of MPI_Precv_init so.
    "source": {"source", "dest"},
    "tag": {"tag", "sendtag"},
    "tag2": {"recvtag"},
    "root": {"root"},
    "comm": {"comm", "comm_old", "oldcomm", "intercomm", "local_comm", "peer_comm", "old_comm"},
    "win": {"win"},
    "op": {"op"},
    "file": {"fh"},
    "datatype": {"datatype", "sendtype", "type", "origin_datatype"},
    "target": {"target_rank", "rank"},
    "partitions": {"partitions"},
    "message": {"message"},
    "request": {"request"},
    "request_handle": {"request"},
    "requests": {"array_of_requests"},
    "number": {"count", "incount"},
    "displacement": {"target_disp"},
}


def declarations() -> dict[str, list[str]]:
    """Return the names of the arguments of each function in mpi.h."""
    mpi = find_mpi("mpich")
    compiler = mpi.compilers[".c"]
    done = subprocess.run(
        [compiler, "-E", "-x", "c", "-"],
        input="#include <mpi.h>\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for name, arguments in _DECLARATION.findall(done.stdout):
        words = [re.sub(r"\[.*", "", each).strip() for each in arguments.split(",")]
        found[name] = [re.split(r"[\s*]+", each)[-1] for each in words if each != "void"]
    return found


def test_arguments_are_those_of_the_header() -> None:
    declared = declarations()
    compared = 0
    for name, prototype in PROTOTYPES.items():
        if name not in declared:
            continue
        compared += 1
        names = declared[name]
        assert len(names) == len(prototype.arguments), (name, names)
        for argument, word in zip(prototype.arguments, names, strict=True):
            if argument.name in _NAMES:
                assert word in _NAMES[argument.name], (name, argument.name, word)
    assert compared > 200


@pytest.mark.parametrize(
    ("symbol", "function", "is_fortran", "is_large"),
    [
        ("PMPI_Recv", "MPI_Recv", False, False),
        ("MPI_Send_c", "MPI_Send", False, True),
        ("mpi_recv_", "MPI_Recv", True, False),
        ("mpi_allreduce_f08_", "MPI_Allreduce", True, False),
        ("PMPI_WAITALL", "MPI_Waitall", True, False),
        ("MPI_Allgather_f", "MPI_Allgather", True, False),
        ("PMPI_Barrier_f08", "MPI_Barrier", True, False),
        ("MPI_Comm_f2c", "MPI_Comm_f2c", False, False),
        ("MPI_Barrier@@LIBMPI", "MPI_Barrier", False, False),
        ("MPI_Comm_rank", "MPI_Comm_rank", False, False),
    ],
)
def test_names_of_symbols(symbol: str, function: str, is_fortran: bool, is_large: bool) -> None:
    found = called_name(symbol)
    assert found is not None
    assert (found.function, found.is_fortran, found.is_large) == (function, is_fortran, is_large)


@pytest.mark.parametrize("symbol", ["MPIR_Wait", "mpi", "ompi_mpi_init", "exchange_mpi_data"])
def test_names_of_no_call(symbol: str) -> None:
    assert called_name(symbol) is None
