"""The worlds of one launcher by the selectors of their ranks: pure functions on text.

MPI_Comm_spawn makes a further MPI_COMM_WORLD below the same launcher. The selector of a rank
(:mod:`pgdb.jobs.environment_scan`) has a part that all worlds of the launcher have in common, their
*family*, and a part that distinguishes the worlds:

=============  =================================  ============================================
Open MPI 4     ``key:URI NUMBER``                 the launcher numbers its jobs
Open MPI 5     ``key:prterun-HOST-PID@NUMBER``    the launcher numbers its jobs
Intel MPI      ``key:UUID[ spawned N]``           N is the order on one host
MPICH          ``proxy:HOST:PORT PGID[ spawned N]``  N is the order on one host
=============  =================================  ============================================
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from pgdb.patterns import pattern

ALL, SPAWNED = "worlds:", "spawned:"
"""Beginnings of selectors for all worlds of a family, and for those of MPI_Comm_spawn alone."""

_SPAWNED = pattern(r" spawned (\d+)\Z")
_OPEN_MPI_4 = pattern(r"(key:\d+\.0;\S*) (\d+)\Z")
_OPEN_MPI_5 = pattern(r"(key:prterun-\S+@)(\d+)\Z")
_OPEN_MPI_NAME = pattern(r"(?:\d+|prterun-\S+@\d+)\Z")
_PROXY = pattern(r"(proxy:\S+)(?: \S*)?\Z")
_LOCAL_JOB = 0xFFFF  # ORTE: the lower half of a job's number counts the jobs of one launcher


def family_of(selector: str) -> str:
    """Return the part of a selector that all worlds of its launcher share; empty for Slurm's.

    >>> family_of("proxy:n1:4242 0 spawned 2"), family_of("key:prterun-n1-77@3")
    ('proxy:n1:4242', 'key:prterun-n1-77@')
    """
    text = _SPAWNED.sub("", selector)
    for each in (_OPEN_MPI_4, _OPEN_MPI_5, _PROXY):
        if match := each.match(text):
            return match[1]
    return text if text.startswith("key:") else ""


def number_of(selector: str) -> int | None:
    """Return the number of a world: 0 for the launcher's own ranks; None if only an order is known.

    >>> [number_of(f"key:prterun-n1-77@{each}") for each in (1, 3)]
    [0, 2]
    """
    if match := _OPEN_MPI_4.match(selector):
        return (int(match[2]) & _LOCAL_JOB) - 1
    if match := _OPEN_MPI_5.match(selector):
        return int(match[2]) - 1
    return None if _SPAWNED.search(selector) else 0


def is_open_mpi(name: str) -> bool:
    """Return whether a text is Open MPI's name of a world."""
    return bool(_OPEN_MPI_NAME.match(name))


def matches(selector: str, wanted: str) -> bool:
    """Return whether a selector is meant by *wanted*, which begins with ALL or SPAWNED."""
    kind = ALL if wanted.startswith(ALL) else SPAWNED
    family = wanted.removeprefix(kind)
    if not family or family_of(selector) != family:
        return False
    return kind == ALL or number_of(selector) != 0


def is_of_worlds(selector: str) -> bool:
    """Return whether a selector means all worlds of a family, or the spawned ones."""
    return selector.startswith((ALL, SPAWNED))


def in_order(starts: Iterable[tuple[int, Hashable, tuple[int, ...]]]) -> dict[int, int]:
    """Return the number of the world of each process that hydra has started on one host, from 1 on.

    *starts* has, in the order of their start, each process, what is equal for a world on the host
    (proxy and size), and its numbers among the ranks. Hydra starts the ranks of a world in
    ascending order, so that a number that is not greater begins another world.

    >>> in_order([(70, 2, (0,)), (71, 2, (1,)), (72, 2, (0,)), (73, 3, (1,))])
    {70: 1, 71: 1, 72: 2, 73: 3}
    """
    found: dict[int, int] = {}
    number = 0
    last_common: Hashable = None
    last_numbers: tuple[int, ...] = ()
    for pid, common, numbers in starts:
        is_same = number and common == last_common
        if not is_same or any(
            now <= before for now, before in zip(numbers, last_numbers, strict=True)
        ):
            number += 1
        found[pid], last_common, last_numbers = number, common, numbers
    return found
