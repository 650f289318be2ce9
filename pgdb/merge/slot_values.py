"""Slots that keep the texts of their ranks: what ``finish`` returned, what a watchpoint saw.

Most slots hold text without a meaning, and become ``…`` where ranks differ. The detail of a stop is
data, yet it must not split the class of a stop. Its slot is a list of ranks and texts, which grows
as classes are joined, up to a limit. A text that shows only a part of values has these behind it,
in full or as their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pgdb.errors import RankSetError
from pgdb.ranks import RankSet
from pgdb.records import Value

MOST_TEXTS = 1024
"""Most different texts in a slot; the ranks of more are only known to differ."""
MOST_CHARACTERS = 1 << 18
"""Most characters of the different texts in a slot."""
_MARK = "\0ranks\0"  # GDB prints no zero byte
_VALUES = "\1values\1"
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[tuple[Value, ...]] = msgspec.json.Decoder(tuple[Value, ...])


def with_values(text: str, values: Sequence[Value]) -> str:
    """Return a text of a slot with the values of which it shows a part.

    >>> shown, values = values_of(with_values("{1...}", [Value(text="{1...}", digest="0x1")]))
    >>> shown, [each.digest for each in values]
    ('{1...}', ['0x1'])
    """
    encoded = _ENCODER.encode([*values]).decode()
    return f"{text}{_VALUES}{encoded}" if values and "\0" not in encoded else text


def values_of(text: str) -> tuple[str, tuple[Value, ...]]:
    """Return a text of a slot, and the values of which it shows a part, if it has any."""
    shown, mark, encoded = text.partition(_VALUES)
    if not mark:
        return text, ()
    try:
        return shown, _DECODER.decode(encoded)
    except (msgspec.DecodeError, ValueError):  # a slot comes from the wire too
        return shown, ()


def _without_wholes(text: str) -> str:
    """Return a text of a slot with the hashes of its values alone."""
    shown, values = values_of(text)
    return with_values(shown, [replace(each, whole=None) for each in values])


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

    Where they are too long, values in full go first. The number and the length of different texts
    only grow, so the result does not depend on the order of the merges.
    """
    both = (texts_of_slot(one), texts_of_slot(other))
    if not all(both):
        return None
    members = _members(both)
    has_lost = any(_has_lost_wholes(text) for text in members)
    if has_lost or sum(map(len, members)) > MOST_CHARACTERS:
        short = [[(ranks, _without_wholes(text)) for ranks, text in texts] for texts in both]
        members = _members(short)
    if len(members) > MOST_TEXTS or sum(map(len, members)) > MOST_CHARACTERS:
        return None
    return _slot((RankSet.union(sets), text) for text, sets in sorted(members.items()))


def _has_lost_wholes(text: str) -> bool:
    return any(each.digest and each.whole is None for each in values_of(text)[1])


def _members(parts: Iterable[Iterable[tuple[RankSet, str]]]) -> dict[str, list[RankSet]]:
    members: dict[str, list[RankSet]] = {}
    for texts in parts:
        for ranks, text in texts:
            members.setdefault(text, []).append(ranks)
    return members


def _slot(texts: Iterable[tuple[RankSet, str]]) -> str:
    return _MARK + "\0".join(f"{ranks}\0{text}" for ranks, text in texts)
