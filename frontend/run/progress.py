"""Progress of ranks: samples of their stacks and of data that a program changes. No I/O.

A rank in a loop that calls MPI_Test for ever returns from MPI again and again, and still makes no
progress. A rank that computes may be at the same line in each sample. So a sample has the places of
the user's code on the stack, and a checksum of the stack's memory and of the registers that the
user's innermost function keeps across calls. A counter of a loop is in one of them.

A loop may keep what it changes elsewhere: in other registers, or in the frames of a library or of
an interpreter. So a sample also has a checksum of these of each thread that is not waiting, that
is: in no system call, MPI call or the like. It counts for ranks that wait in none of many samples;
a loop of Python that polls MPI is seen inside MPI after a few of them. A loop of Python that only
another thread can end looks as if it computes; its source shows that it does not.

A rank can also wait for a process that it has started. CPU time of that process is progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from pgdb.patterns import pattern
from pgdb.rank_sample import RankSample
from pgdb.ranks import RankSet
from pgdb.records import Stack


class Sample(msgspec.Struct, frozen=True):
    """The activity of the ranks at one moment."""

    of: Mapping[int, RankSample]
    """By rank, without ranks of which GDB finds no stack."""
    ranks: RankSet
    """The ranks of which a sample was taken."""


_BUSY = 0.02
"""Share of a core from which on the processes that a rank has started compute, or a thread."""
_POLLING = pattern(r"P?MPI_(?:Test|Iprobe|Improbe|Request_get_status)|.*(?:_test|_iprobe)_")
"""Calls that come back at once, with or without progress."""
_CALL = pattern(r"P?MPI_[A-Z]|p?mpi_\w+_\Z")


def in_blocking_calls(stacks: Iterable[tuple[RankSet, Stack]]) -> RankSet:
    """Return the ranks whose innermost frame of interest is an MPI call that waits."""
    return RankSet.union(
        ranks
        for ranks, stack in stacks
        if stack.frames
        and _CALL.match(name := stack.frames[0].function.partition("(")[0])
        and not _POLLING.match(name)
    )


def moving(before: Sample, after: Sample) -> RankSet:
    """Return the ranks that have made progress between two samples, or of which that is unknown.

    Threads that compute are not looked at; see :func:`computing`.
    """
    return RankSet(
        rank
        for rank in before.ranks | after.ranks
        if (first := before.of.get(rank)) is None
        or (second := after.of.get(rank)) is None
        or _has_moved(first, second)
    )


def _has_moved(first: RankSample, second: RankSample) -> bool:
    elapsed_s = max(second.time_s - first.time_s, 1.0)
    return first.stacks != second.stacks or (
        second.children_s - first.children_s > _BUSY * elapsed_s
    )


def may_compute(samples: Sequence[Sample]) -> bool:
    """Return whether a rank has, at each sample, a thread that does not wait."""
    return any(
        all(rank in each.of for each in samples)
        and _is_most(bool(_own(each.of[rank])) for each in samples)
        and all(_at_work([each.of[rank] for each in samples]))
        for rank in samples[0].of
    )


def _is_most(found: Iterable[bool]) -> bool:
    all_found = list(found)
    return 2 * sum(all_found) > len(all_found)


def _at_work(samples: Sequence[RankSample]) -> list[frozenset[str]]:
    """Return the threads of a rank that do not wait, at each sample.

    A thread that waits in the moment of a sample, as the threads of Python do where one hands their
    lock to another, is at work if it has used CPU time outside MPI just before or after.
    """
    between = [_threads_at_work(*both) for both in pairwise(samples)]
    none = frozenset[str]()
    return [
        frozenset(_own(each)) | before | after
        for each, before, after in zip(samples, (none, *between), (*between, none), strict=True)
    ]


def _threads_at_work(first: RankSample, second: RankSample) -> frozenset[str]:
    """Return the threads outside MPI that have used CPU time between two samples."""
    least_s = _BUSY * (second.time_s - first.time_s)
    before_s = {each.thread: each.cpu_s for each in first.threads}
    return frozenset(
        each.thread
        for each in second.threads
        if each.cpu_s - before_s.get(each.thread, each.cpu_s) > least_s
    )


def _own(sample: RankSample) -> dict[str, str]:
    """Return the checksum of each thread that does not wait."""
    return {each.thread: each.own for each in sample.threads if each.own}


def computing(samples: Sequence[Sample]) -> dict[int, frozenset[str]]:
    """Return the ranks that compute, with the threads that do: their data changes, and in each
    sample one of them does not wait.

    Threads of Python take turns, since an interpreter has one lock: one computes, others wait. A
    thread that was seen once can be one of them.
    """
    found = {}
    for rank in samples[0].of:
        if any(rank not in each.of for each in samples):
            continue
        seen = [_own(each.of[rank]) for each in samples]
        words: dict[str, list[str]] = {}
        for each in seen:
            for thread, word in each.items():
                words.setdefault(thread, []).append(word)
        changing = frozenset(thread for thread, some in words.items() if len({*some}) > 1)
        once = {thread for thread, some in words.items() if len(some) == 1}
        present = _at_work([each.of[rank] for each in samples])
        working = changing | once
        if (
            changing
            and _is_most(not working.isdisjoint(each) for each in seen)
            and all(not working.isdisjoint(each) for each in present)
        ):
            found[rank] = changing
    return found
