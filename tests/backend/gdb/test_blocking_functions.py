"""The work of a rank outside MPI, by the frames of its stack."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.activities import activity_of, blocking_function
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.mpi_calls import Activity
from pgdb.records import Frame


def places(*names: str) -> list[Place]:
    """Return a stack, innermost first: functions of the C library, and below them ``main``."""
    found = [Place(Frame(level=0, function=name), 0x1000, Owner.C_RUNTIME) for name in names]
    return [*found, Place(Frame(level=0, function="main", line=7), 0x2000, Owner.USER)]


@pytest.mark.parametrize(
    ("names", "activity", "function"),
    [
        (("accept",), "io", "accept"),
        (("__libc_accept",), "io", "accept"),
        (("__GI___wait4",), "io", "wait4"),
        (("__open64_nocancel",), "io", "open"),
        (("__GI___libc_read", "_IO_new_file_underflow", "fgets"), "io", "fgets"),
        (("__futex_abstimed_wait_common64", "__new_sem_wait"), "lock", "sem_wait"),
        (("futex_wait", "sem_wait@@GLIBC_2.34"), "lock", "sem_wait"),
        (("futex_wait", "___pthread_mutex_lock"), "lock", "pthread_mutex_lock"),
        (("futex_wait", "__new_sem_wait_slow64"), "lock", "sem_wait"),
        (("futex_wait", "___pthread_cond_wait"), "thread", "pthread_cond_wait"),
        (("GOMP_critical_name_start",), "lock", "GOMP_critical_name_start"),
        (("clock_nanosleep", "usleep"), "sleeping", ""),
        (("memcpy",), "computing", ""),
        ((), "computing", ""),
    ],
)
def test_activity_and_the_function_that_blocks(
    names: tuple[str, ...], activity: Activity, function: str
) -> None:
    stack = places(*names)
    assert activity_of(stack) == activity
    assert blocking_function(stack) == function


def test_a_stack_without_a_function_of_the_user_names_none() -> None:
    assert blocking_function(places("accept")[:1]) == "accept"
    assert blocking_function(()) == ""
