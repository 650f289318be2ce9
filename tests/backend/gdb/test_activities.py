"""The innermost frames of libraries say for what a thread outside MPI waits."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.activities import activity_of
from pgdb.backend.gdb.awaited_threads import end_of_waits
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.records import Frame

C, USER, SYSTEM = Owner.C_RUNTIME, Owner.USER, Owner.SYSTEM


def places(*frames: tuple[str, Owner]) -> tuple[Place, ...]:
    return tuple(
        Place(Frame(level=level, function=function), level, owner)
        for level, (function, owner) in enumerate(frames)
    )


@pytest.mark.parametrize(
    ("functions", "activity"),
    [
        (("futex_wait", "__GI___lll_lock_wait", "___pthread_mutex_lock"), "lock"),
        (("__futex_abstimed_wait_common64", "__GI___pthread_rwlock_wrlock"), "lock"),
        (("__futex_abstimed_wait_common64", "__new_sem_wait_slow64", "sem_wait"), "lock"),
        (("__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "___pthread_join"), "thread"),
        (("pthread_join",), "thread"),
        (("__futex_abstimed_wait_common64", "___pthread_cond_wait"), "thread"),
        (("pthread_cond_timedwait",), "thread"),
        (("futex_wait_simple", "___pthread_barrier_wait"), "thread"),
    ],
)
def test_waits_for_locks_and_threads(functions: tuple[str, ...], activity: str) -> None:
    frames = [(each, C) for each in functions]
    assert activity_of(places(*frames, ("work", USER), ("main", USER))) == activity


def test_a_barrier_of_openmp_is_a_wait_for_threads() -> None:
    frames = (("gomp_team_barrier_wait_end", SYSTEM), ("work._omp_fn.0", USER))
    assert activity_of(places(*frames)) == "thread"


def test_functions_of_the_users_own_with_such_names_wait_for_nobody() -> None:
    assert activity_of(places(("pthread_join", USER), ("main", USER))) == "computing"


def test_threads_without_a_known_wait_keep_nobody() -> None:
    waits = places(("___pthread_join", C), ("main", USER))

    def read(address: int, size_bytes: int) -> bytes:
        raise AssertionError("there is no futex to read")

    # No thread has the number 0: its call is not known.
    assert end_of_waits(0, {0: waits}, read) == (0, False)
