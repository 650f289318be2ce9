"""Words of messages that depend on the number of ranks."""

from __future__ import annotations

from pgdb.ranks import RankSet


def by_number(ranks: RankSet, one: str, several: str) -> str:
    """Return the word for one rank, or that for several.

    >>> by_number(RankSet([3]), "is", "are"), by_number(RankSet([3, 4]), "is", "are")
    ('is', 'are')
    """
    return one if len(ranks) == 1 else several
