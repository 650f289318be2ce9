"""The calls that a rank waits for if its first thread is outside MPI, and other threads are inside.

A program may have a thread that serves other ranks: it waits for messages of any rank for ever. The
rank waits for none of them while its first thread works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdb.backend.gdb.activities import activity_of
from pgdb.backend.gdb.mpi_frames import Place, is_of_runtime
from pgdb.mpi_calls import ANY_SOURCE, MpiCall

_WAITS = ("lock", "thread", "sleeping", "io")


def awaited_calls(
    calls: Mapping[int, MpiCall], stacks: Sequence[Sequence[Place]], last: int
) -> tuple[MpiCall, ...]:
    """Return the calls that the first thread waits for; none if it goes on without them.

    *calls* has the call of each thread that is in one, by its number in *stacks*. *last* is the
    thread at which the waits of the first one end, 0 for itself.
    """
    if last in calls:
        return (calls[last],)
    if activity_of(stacks[last]) not in _WAITS:
        return ()
    others = (
        places
        for number, places in enumerate(stacks)
        if number not in calls and number != last and not is_of_runtime(places)
    )
    if any(activity_of(each) not in _WAITS for each in others):
        return ()
    return tuple(each for each in calls.values() if not _serves(each))


def _serves(call: MpiCall) -> bool:
    """Return whether a call waits for a message of any rank."""
    return call.kind in ("recv", "probe") and call.source == ANY_SOURCE
