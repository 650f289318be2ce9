"""The innermost frames of libraries say for what a thread outside MPI waits."""

from __future__ import annotations

import pytest

from pgdb.backend.gdb.activities import activity_of, blocking_function
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.mpi_calls import Activity
from pgdb.records import Frame

C, USER, SYSTEM = Owner.C_RUNTIME, Owner.USER, Owner.SYSTEM


def places(*frames: tuple[str, Owner]) -> tuple[Place, ...]:
    return tuple(
        Place(Frame(level=level, function=function), level, owner)
        for level, (function, owner) in enumerate(frames)
    )


def in_the_c_library(*names: str) -> tuple[Place, ...]:
    """Return a stack, innermost first: functions of the C library, and below them ``main``."""
    return places(*((each, C) for each in names), ("main", USER))


@pytest.mark.parametrize("name", ["libgomp.so.1.0.0", "libomp.so.5", "libiomp5.so"])
def test_a_library_of_openmp_without_symbols_waits_for_a_thread(name: str) -> None:
    inner = Frame(level=0, function="??", library=f"/usr/lib/{name}")
    stack = (Place(inner, 0, SYSTEM), *places(("work._omp_fn.0", USER)))
    assert activity_of(stack) == "thread"
    # It calls functions of the user, which compute.
    assert activity_of((*places(("work._omp_fn.0", USER)), *stack)) == "computing"


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
        (("syscall", "std::__atomic_futex_unsigned_base::_M_futex_wait_until"), "thread"),
        (("futex_wait_simple", "___pthread_barrier_wait"), "thread"),
        (("??", "??", "thrd_join"), "thread"),
        (("??", "cnd_wait"), "thread"),
        (("??", "mtx_lock"), "lock"),
        (("semop",), "lock"),
    ],
)
def test_waits_for_locks_and_threads(functions: tuple[str, ...], activity: str) -> None:
    frames = [(each, C) for each in functions]
    assert activity_of(places(*frames, ("work", USER), ("main", USER))) == activity


@pytest.mark.parametrize(
    ("function", "activity"),
    [
        ("std::future<std::vector<int> >::get", "thread"),
        ("std::latch::wait", "thread"),
        ("std::barrier<std::__empty_completion>::arrive_and_wait", "thread"),
        ("std::__atomic_base<int>::wait", "thread"),
        ("std::counting_semaphore<4l>::acquire", "lock"),
        ("std::vector<int>::push_back", "computing"),
    ],
)
def test_templates_of_the_cpp_library_in_the_program_are_the_librarys(
    function: str, activity: str
) -> None:
    inner = (("syscall", C), ("std::__detail::__platform_wait<int>", USER))
    assert activity_of(places(*inner, (function, USER), ("main", USER))) == activity


def test_a_barrier_of_openmp_is_a_wait_for_threads() -> None:
    frames = (("gomp_team_barrier_wait_end", SYSTEM), ("work._omp_fn.0", USER))
    assert activity_of(places(*frames)) == "thread"


def test_functions_of_the_users_own_with_such_names_wait_for_nobody() -> None:
    assert activity_of(places(("pthread_join", USER), ("main", USER))) == "computing"


@pytest.mark.parametrize(
    ("names", "activity", "function"),
    [
        (("accept",), "io", "accept"),
        (("__libc_accept",), "io", "accept"),
        (("__GI___wait4",), "io", "wait4"),
        (("__GI___wait4", "__GI___waitpid", "do_system", "__libc_system"), "io", "system"),
        (("__open64_nocancel",), "io", "open"),
        (("msgrcv",), "io", "msgrcv"),
        (("__mq_timedreceive",), "io", "mq_timedreceive"),
        (("__GI___libc_read", "_IO_new_file_underflow", "fgets"), "io", "fgets"),
        (("__futex_abstimed_wait_common64", "__new_sem_wait"), "lock", "sem_wait"),
        (("futex_wait", "sem_wait@@GLIBC_2.34"), "lock", "sem_wait"),
        (("futex_wait", "___pthread_mutex_lock"), "lock", "pthread_mutex_lock"),
        (("futex_wait", "__new_sem_wait_slow64"), "lock", "sem_wait"),
        (("futex_wait", "___pthread_cond_wait"), "thread", "pthread_cond_wait"),
        (("GOMP_critical_name_start",), "lock", "GOMP_critical_name_start"),
        (("clock_nanosleep", "usleep"), "sleeping", ""),
        (("__sched_yield",), "sleeping", ""),
        (("memcpy",), "computing", ""),
        ((), "computing", ""),
    ],
)
def test_activity_and_the_function_that_blocks(
    names: tuple[str, ...], activity: Activity, function: str
) -> None:
    stack = in_the_c_library(*names)
    assert activity_of(stack) == activity
    assert blocking_function(stack) == function


def test_a_stack_without_a_function_of_the_user_names_none() -> None:
    assert blocking_function(in_the_c_library("accept")[:1]) == "accept"
    assert blocking_function(()) == ""
