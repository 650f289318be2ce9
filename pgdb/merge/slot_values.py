"""Slots that keep the texts of their ranks: what ``finish`` returned, what a watchpoint saw.

Most slots hold text without a meaning, and become ``…`` where ranks differ. The detail of a stop is
data, yet it must not split the class of a stop. Its slot is a list of ranks and texts, which grows
as classes are joined, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from pgdb.errors import RankSetError
from pgdb.ranks import RankSet

MOST_TEXTS = 1024
"""Most different texts in a slot; the ranks of more are only known to differ."""
MOST_CHARACTERS = 1 << 16
"""Most characters of the different texts in a slot."""
_MARK = "\0ranks\0"  # GDB prints no zero byte


def slot_of_rank(rank: int, text: str) -> str:
    """Return a slot with the text of one rank."""
    return f"{_MARK}{rank}\0{text}"


def is_listed(slot: str) -> bool:
    """Return whether a slot keeps the texts of its ranks."""
    return slot.startswith(_MARK)


def texts_of_slot(slot: str) -> tuple[tuple[RankSet, str], ...]:
    """Return the texts in a slot with their ranks, the most common first; nothing for a slot of
    another kind.

    >>> [(str(ranks), text) for ranks, text in texts_of_slot(slot_of_rank(3, "1.5"))]
    [('3', '1.5')]
    """
    if not is_listed(slot):
        return ()
    parts = slot.removeprefix(_MARK).split("\0")
    try:
        found = [
            (RankSet.parse(ranks), text)
            for ranks, text in zip(parts[::2], parts[1::2], strict=True)
        ]
    except (RankSetError, ValueError):  # a slot comes from the wire too
        return ()
    return tuple(sorted(found, key=lambda pair: (-len(pair[0]), pair[0].first)))


def join_listed(one: str, other: str) -> str | None:
    """Return the slot with the texts of two slots; None if there are too many, or other slots.

    The number and the length of different texts only grow, so the result does not depend on the
    order of the merges.
    """
    members: dict[str, list[RankSet]] = {}
    for slot in (one, other):
        texts = texts_of_slot(slot)
        if not texts:
            return None
        for ranks, text in texts:
            members.setdefault(text, []).append(ranks)
    if len(members) > MOST_TEXTS or sum(map(len, members)) > MOST_CHARACTERS:
        return None
    return _slot((RankSet.union(sets), text) for text, sets in sorted(members.items()))


def _slot(texts: Iterable[tuple[RankSet, str]]) -> str:
    return _MARK + "\0".join(f"{ranks}\0{text}" for ranks, text in texts)
