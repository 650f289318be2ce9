"""Messages that have come: the library is asked only of ranks that wait for a message."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.backend.mpi_calls.arrived import arrived_messages
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.mpi_calls import MpiCall, Request
from pgdb.mpi_functions import properties_of


class Asked:
    """A library that counts the questions, and answers none."""

    world = 1

    def __init__(self) -> None:
        self.count = 0

    def communicator(self, handle: int) -> None:
        self.count += 1
        raise EmulationError("no answer")


def is_asked(*calls: MpiCall) -> bool:
    library: Any = Asked()
    assert arrived_messages(library, calls) == ()
    return library.count == 1


def call(function: str, *requests: Request) -> MpiCall:
    kind, blocking = properties_of(function)
    return MpiCall(function=function, kind=kind, blocking=blocking, requests=requests)


OPEN, COMPLETE = Request(kind="recv", complete=False), Request(kind="recv", complete=True)


@pytest.mark.parametrize("function", ["MPI_Recv", "MPI_Sendrecv", "MPI_Probe", "MPI_Iprobe"])
def test_a_rank_that_waits_for_a_message_is_asked(function: str) -> None:
    assert is_asked(call(function))
    assert is_asked(call("MPI_Barrier"), call(function))


@pytest.mark.parametrize("function", ["MPI_Waitall", "MPI_Test"])
def test_a_rank_that_waits_for_a_request_is_asked_while_it_is_open(function: str) -> None:
    assert is_asked(call(function, COMPLETE, OPEN))
    assert not is_asked(call(function, COMPLETE))
    assert not is_asked(call(function, Request(kind="send", complete=False)))


@pytest.mark.parametrize("function", ["MPI_Barrier", "MPI_Ssend", "MPI_Irecv", "MPI_Recv_init"])
def test_a_rank_that_waits_for_no_message_is_not_asked(function: str) -> None:
    assert not is_asked(call(function))
    assert not is_asked()
