"""Ranks by an index or a slice, as ``session[0]`` and ``session[0:4]`` name them. No I/O."""

from __future__ import annotations

import operator

from pgdb.errors import RankSetError, UsageError
from pgdb.ranks import RankSet


def ranks_at(which: int | slice, everything: RankSet) -> RankSet:
    """Return the rank of an index, or those of a slice that there are.

    :raises UsageError: if *which* is neither a whole number nor a slice of whole numbers.
    :raises RankSetError: if there is no rank of a negative number.
    """
    try:
        if isinstance(which, slice):
            end = max(everything, default=-1) + 1
            return RankSet(range(*which.indices(end))) & everything
        if isinstance(which, bool):
            raise TypeError
        number = operator.index(which)  # NumPy has numbers of its own
    except (TypeError, ValueError):  # a step of 0 is a ValueError
        raise UsageError(
            f"[{_text(which)}] is neither a rank nor a slice of ranks; [0] and [0:4] are, and "
            "ranks('0-3,8') takes a set as text"
        ) from None
    if number < 0:
        raise RankSetError(f"no rank {number}; the job has {everything}")
    return RankSet([number])


def _text(which: object) -> str:
    """Return an index as it was written."""
    if not isinstance(which, slice):
        return repr(which)
    parts = (which.start, which.stop, *([which.step] if which.step is not None else []))
    return ":".join("" if each is None else repr(each) for each in parts)
