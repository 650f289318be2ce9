"""The calls for which a rank waits whose first thread is outside MPI."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.backend.gdb.thread_calls import awaited_calls
from pgdb.mpi_calls import ANY_SOURCE, MpiCall
from pgdb.records import Frame

SERVER = MpiCall("MPI_Recv", "recv", source=ANY_SOURCE, tag=1, thread="2")
PEER = MpiCall("MPI_Recv", "recv", source=0, tag=1, thread="2")


def stack(*names: tuple[str, Owner]) -> tuple[Place, ...]:
    return tuple(
        Place(Frame(level=level, function=name), level, owner)
        for level, (name, owner) in enumerate(names)
    )


COMPUTES = stack(("work", Owner.USER), ("main", Owner.USER))
LOCKED = stack(("___pthread_mutex_lock", Owner.C_RUNTIME), ("main", Owner.USER))
WAITS = stack(("pthread_cond_wait", Owner.C_RUNTIME), ("main", Owner.USER))
SLEEPS = stack(("clock_nanosleep", Owner.C_RUNTIME), ("main", Owner.USER))
IN_CALL = stack(("PMPI_Recv", Owner.MPI), ("serve", Owner.USER))


@pytest.mark.parametrize("call", [SERVER, PEER])
def test_a_thread_that_the_first_one_waits_for_counts(call: MpiCall) -> None:
    assert awaited_calls({1: call}, [LOCKED, IN_CALL], 1) == (call,)


@pytest.mark.parametrize("call", [SERVER, PEER])
def test_a_first_thread_that_works_waits_for_no_call(call: MpiCall) -> None:
    assert awaited_calls({1: call}, [COMPUTES, IN_CALL], 0) == ()


@pytest.mark.parametrize("first", [WAITS, SLEEPS, LOCKED])
def test_a_server_counts_for_no_first_thread_that_blocks(first: tuple[Place, ...]) -> None:
    assert awaited_calls({1: SERVER}, [first, IN_CALL], 0) == ()
    assert awaited_calls({1: PEER}, [first, IN_CALL], 0) == (PEER,)


def test_a_third_thread_that_works_may_let_the_first_one_go_on() -> None:
    assert awaited_calls({1: PEER}, [WAITS, IN_CALL, COMPUTES], 0) == ()
    assert awaited_calls({1: PEER}, [WAITS, IN_CALL, WAITS], 0) == (PEER,)
    # Thread 1 computes with the lock that the first one wants.
    assert awaited_calls({2: PEER}, [LOCKED, COMPUTES, IN_CALL], 1) == ()
