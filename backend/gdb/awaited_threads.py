"""The thread that keeps the first thread of a rank from going on, as kernel and C library say it.

A thread that waits for another one sleeps in a futex call. The word of pthread_join's futex is the
kernel's number of the awaited thread. A mutex has the number of the thread that holds it behind its
lock and its count. A thread that waits for its team of OpenMP waits for those of the team that are
in the program's code.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pgdb.backend.gdb.activities import is_of_openmp
from pgdb.backend.gdb.mpi_frames import Owner, Place
from pgdb.backend.gdb.rank_image import ProcessImage, RankImage
from pgdb.backend.mpi_calls.blocking import system_call
from pgdb.elf import Read
from pgdb.jobs import procfs
from pgdb.patterns import pattern

_JOINS = pattern(r"_*(?:GI_+)?pthread_(?:timed|clock)?join(?:_np|_ex)?\Z|_*thrd_join\Z")
# A lock with a time limit is no deadlock.
_LOCKS = pattern(r"_*(?:GI_+)?pthread_mutex_lock\w*\Z")
_OWNER_AT = 8
"""Offset of a mutex's holder: behind the lock and the count, of 4 bytes each."""
FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "ppc64": 221, "s390x": 238}
"""Number of the system call, by the machine."""


def end_of_rank(
    image: RankImage,
    stacks: Sequence[tuple[str, Sequence[Place]]],
    numbers: Mapping[str, int],
    known: Mapping[int, int],
) -> tuple[int, bool]:
    """Return the index of the thread that keeps the first one from going on, mostly 0 for itself,
    and whether it is in a deadlock.

    :param stacks: GDB's number of each thread, and its frames.
    :param numbers: the kernel's numbers of the threads by GDB's.
    :param known: threads whose awaited thread is known already, by the kernel's numbers.
    """
    if not isinstance(image, ProcessImage):
        return 0, False
    try:
        with image.opened() as read:
            by_number = {numbers[thread]: places for thread, places in stacks}
            first, *_ = order = list(by_number)
            last, is_deadlock = end_of_waits(first, by_number, read, known=known)
            return order.index(last), is_deadlock
    except OSError:
        return 0, False


def end_of_waits(
    first: int,
    stacks: Mapping[int, Sequence[Place]],
    read: Read,
    proc: Path = procfs.PROC,
    *,
    known: Mapping[int, int] = MappingProxyType({}),
) -> tuple[int, bool]:
    """Return the thread at which the waits of thread *first* end, and whether that is a deadlock.

    *stacks* has the frames of each thread, innermost first, by the kernel's numbers of the threads.
    Threads that hold what they wait for, together or alone, are in a deadlock.
    """
    seen = [first]
    while (
        awaited := known.get(seen[-1])
        or _awaited(seen[-1], stacks[seen[-1]], read, proc)
        or _late_in_team(seen[-1], stacks)
    ) in stacks:
        assert awaited is not None
        if awaited in seen:
            return seen[-1], True
        seen.append(awaited)
    return seen[-1], False


def _awaited(thread: int, places: Sequence[Place], read: Read, proc: Path) -> int | None:
    """Return the number of the thread that a thread waits for, None if it is unknown."""
    for place in places:
        if place.owner is Owner.USER:
            break
        name = place.frame.function
        offset = 0 if _JOINS.match(name) else _OWNER_AT if _LOCKS.match(name) else None
        if offset is not None and (word := _futex(thread, proc)):
            data = read(word + offset, 4)
            return int.from_bytes(data, "little") if len(data) == 4 else None
    return None


def _late_in_team(thread: int, stacks: Mapping[int, Sequence[Place]]) -> int | None:
    """Return a thread of the team of OpenMP for which a thread waits, None if there is none.

    Threads of the team that have come wait inside OpenMP. It has called the code that the others
    are in; of those that wait there for something else, none is named while another one works.
    """
    if not _waits_in_openmp(stacks[thread]):
        return None
    late = [
        other
        for other, places in stacks.items()
        if not _waits_in_openmp(places) and _is_in_region(places)
    ]
    at_work = (each for each in late if stacks[each][0].owner is Owner.USER)
    return next(at_work, next(iter(late), None))


def _waits_in_openmp(places: Sequence[Place]) -> bool:
    # A library of OpenMP that the user has brought along is the user's code, too.
    first = next((each for each in places if is_of_openmp(each) or each.owner is Owner.USER), None)
    return first is not None and is_of_openmp(first)


def _is_in_region(places: Sequence[Place]) -> bool:
    """Return whether OpenMP has called code of the user's."""
    return any(
        inner.owner is Owner.USER and not is_of_openmp(inner) and is_of_openmp(outer)
        for inner, outer in itertools.pairwise(places)
    )


def _futex(thread: int, proc: Path) -> int:
    """Return the address of the futex in which a stopped thread sleeps, 0 if it sleeps in none."""
    number, arguments = system_call(thread, proc)
    is_futex = number == FUTEX.get(os.uname().machine)
    return arguments[0] if is_futex and arguments else 0
