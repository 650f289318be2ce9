"""Rules for classes of ranks that differ from most.

A list of values marks every small class beside a majority. Stacks mark only the one smallest class.
"""

from __future__ import annotations

from collections.abc import Sequence


def is_outlier(size: int, sizes: Sequence[int]) -> bool:
    """Return whether a class of *size* ranks is small beside a class with the majority of ranks.

    >>> [is_outlier(size, [30, 1, 1]) for size in (30, 1)], is_outlier(12, [20, 12])
    ([False, True], False)
    """
    most = max(sizes)
    return 2 * most > sum(sizes) and size < most and (size == 1 or 4 * size <= most)


def is_smallest(size: int, sizes: Sequence[int]) -> bool:
    """Return whether a class of *size* ranks is the only smallest of several classes.

    >>> is_smallest(1, [3, 1]), is_smallest(1, [3, 1, 1]), is_smallest(1, [1])
    (True, False, False)
    """
    return size == min(sizes) < max(sizes) and sizes.count(size) == 1
