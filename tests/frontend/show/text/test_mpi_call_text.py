"""MPI calls as text: the current ones, and those before."""

from __future__ import annotations

import time

from pgdb.frontend.show.text import mpi_call_text
from pgdb.mpi_calls import Communicator, MpiCall, MpiCallStatus, RecordedCall


def began(number: int, function: str, *, returned: bool = True, thread: int = 1) -> RecordedCall:
    world = Communicator(name="MPI_COMM_WORLD", members="0-3")
    call = MpiCall(function=function, communicator=world)
    return RecordedCall(call=call, began_s=1.7e9 + number, returned=returned, thread=thread)


def test_calls_before_have_a_line_each_with_their_second() -> None:
    calls = (began(0, "MPI_Barrier"), began(1, "MPI_Bcast", returned=False))
    first, second = mpi_call_text.status(MpiCallStatus("in_call", recent=calls)).splitlines()
    second_of = time.strftime("%H:%M:%S", time.localtime(1.7e9))
    assert first == f"{second_of}  MPI_Barrier, MPI_COMM_WORLD"
    assert second.endswith("  MPI_Bcast, MPI_COMM_WORLD (has not returned)")


def test_threads_are_named_where_there_are_several() -> None:
    calls = (began(0, "MPI_Barrier"), began(1, "MPI_Bcast", thread=2))
    text = mpi_call_text.status(MpiCallStatus("in_call", recent=calls))
    assert " thread 1  MPI_Barrier" in text and " thread 2  MPI_Bcast" in text
