"""Words of messages that depend on a number."""

from __future__ import annotations

from pgdb.ranks import RankSet


def by_number(ranks: RankSet, one: str, several: str) -> str:
    """Return the word for one rank, or that for several.

    >>> by_number(RankSet([3]), "is", "are"), by_number(RankSet([3, 4]), "is", "are")
    ('is', 'are')
    """
    return one if len(ranks) == 1 else several


def counted(number: int, what: str) -> str:
    """Return a number with what it counts.

    >>> counted(1, "rank"), counted(2, "rank")
    ('1 rank', '2 ranks')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
