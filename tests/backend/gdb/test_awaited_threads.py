"""The waits of threads for each other, by the futexes in which they sleep."""

from __future__ import annotations

import platform
import struct
from pathlib import Path

import pytest

from pgdb.backend.gdb.awaited_threads import FUTEX, end_of_waits
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.records import Frame

pytestmark = pytest.mark.skipif(
    platform.machine() not in FUTEX, reason="the number of the system call is not known"
)
FIRST, SECOND, THIRD = 71, 72, 73
WORD = 0x1000
"""Address of the futex in which thread 0 would sleep; each thread has one of its own."""


def stack(function: str, owner: Owner = Owner.C_RUNTIME) -> tuple[Place, ...]:
    frames = ((function, owner), ("main", Owner.USER))
    return tuple(
        Place(Frame(level=level, function=name), level, each)
        for level, (name, each) in enumerate(frames)
    )


def waits(proc: Path, awaited: dict[int, tuple[str, int]], call: int = 0) -> tuple[int, bool]:
    """Return the end of the waits of FIRST.

    :param awaited: the function in which each thread waits, and the thread in the futex there.
    """
    memory = {}
    for thread, (function, other) in awaited.items():
        folder = proc / str(thread)
        folder.mkdir()
        number = call or FUTEX[platform.machine()]
        (folder / "syscall").write_text(f"{number} {WORD + thread:#x} 0x80 0x2 0x0 0x0 0x0 0x1 0x2")
        offset = 0 if "join" in function else 8
        memory[WORD + thread + offset] = struct.pack("<i", other)
    stacks = {thread: stack(function) for thread, (function, _) in awaited.items()}
    return end_of_waits(
        FIRST, stacks, lambda at, size_bytes: memory.get(at, b"")[:size_bytes], proc
    )


@pytest.mark.parametrize(
    "join", ["___pthread_join", "__pthread_clockjoin_ex", "pthread_join", "thrd_join"]
)
def test_a_join_and_a_mutex_lead_to_the_thread_that_works(tmp_path: Path, join: str) -> None:
    awaited = {FIRST: (join, SECOND), SECOND: ("___pthread_mutex_lock", THIRD), THIRD: ("read", 0)}
    assert waits(tmp_path, awaited) == (THIRD, False)


def test_threads_that_hold_each_others_mutexes_are_in_a_deadlock(tmp_path: Path) -> None:
    lock = "__GI___pthread_mutex_lock"
    awaited = {FIRST: (lock, SECOND), SECOND: (lock, FIRST)}
    assert waits(tmp_path, awaited) == (SECOND, True)


def test_a_thread_that_holds_its_own_mutex_is_in_a_deadlock(tmp_path: Path) -> None:
    assert waits(tmp_path, {FIRST: ("pthread_mutex_lock", FIRST)}) == (FIRST, True)


@pytest.mark.parametrize("function", ["pthread_mutex_timedlock", "pthread_cond_wait", "sem_wait"])
def test_a_lock_with_a_time_limit_and_other_waits_keep_nobody(
    tmp_path: Path, function: str
) -> None:
    assert waits(tmp_path, {FIRST: (function, FIRST)}) == (FIRST, False)


def test_a_thread_of_which_nothing_is_known_is_the_end(tmp_path: Path) -> None:
    assert waits(tmp_path, {FIRST: ("pthread_join", THIRD)}) == (FIRST, False)


def test_a_thread_in_another_system_call_waits_for_nobody(tmp_path: Path) -> None:
    assert waits(tmp_path, {FIRST: ("pthread_mutex_lock", FIRST)}, call=1) == (FIRST, False)


def test_a_function_of_the_users_own_with_such_a_name_waits_for_nobody(tmp_path: Path) -> None:
    own = {FIRST: stack("pthread_join", Owner.USER)}

    def read(address: int, size_bytes: int) -> bytes:
        raise AssertionError("there is no futex to read")

    assert end_of_waits(FIRST, own, read, tmp_path) == (FIRST, False)
    # A thread that has ended meanwhile.
    assert end_of_waits(FIRST, {FIRST: stack("pthread_join")}, read, tmp_path) == (FIRST, False)


def in_team(*functions: str, library: str = "/lib/libgomp.so.1") -> tuple[Place, ...]:
    """Return frames, of which those without a name are OpenMP's and ``read`` is the C library's."""
    owners = {"": Owner.SYSTEM, "read": Owner.C_RUNTIME}
    return tuple(
        Place(
            Frame(level, name, library="" if name else library), level, owners.get(name, Owner.USER)
        )
        for level, name in enumerate(functions)
    )


COME = in_team("", "solve.omp_fn", "", "main")
IDLE = in_team("", "")


@pytest.mark.parametrize(
    ("others", "end"),
    [
        ([IDLE, in_team("solve.omp_fn", "")], THIRD),
        ([in_team("read", "solve.omp_fn", ""), in_team("relax", "solve.omp_fn", "")], THIRD),
        ([in_team("read", "solve.omp_fn", ""), COME], SECOND),
        ([in_team("poll", "progress"), IDLE], FIRST),
        ([COME, IDLE], FIRST),
    ],
)
def test_a_team_waits_for_its_thread_that_works(
    tmp_path: Path, others: list[tuple[Place, ...]], end: int
) -> None:
    stacks = dict(zip((FIRST, SECOND, THIRD), (COME, *others), strict=True))
    assert end_of_waits(FIRST, stacks, lambda at, size_bytes: b"", tmp_path) == (end, False)


def test_a_thread_that_works_itself_waits_for_no_team(tmp_path: Path) -> None:
    stacks = {FIRST: in_team("solve.omp_fn", "", "main"), SECOND: in_team("solve.omp_fn", "")}
    assert end_of_waits(FIRST, stacks, lambda at, size_bytes: b"", tmp_path) == (FIRST, False)
