"""Sets of C++ compared by membership: one element less moves the positions of all others."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Sequence

import msgspec

from pgdb.frontend.analysis.values import Group, Item, filled, unparse
from pgdb.patterns import pattern

# Behind "containing" and "wrapping:" the same text can stand.
_SET = pattern(r"std::(?:\w+::)*(?:unordered_)?(?:multi)?set with [^={]* = \Z")
_MOST_NAMED = 8
"""Most elements that the text of one set names."""


class Membership(msgspec.Struct, frozen=True):
    """The elements that all of some sets have, and each set in words beside them."""

    common: tuple[Item, ...]
    texts: tuple[str, ...]
    """Text for each set: its size, the elements that not all have, and those that it lacks."""


def is_set(group: Group) -> bool:
    """Return whether a group is a set of C++ with elements."""
    return _SET.search(group.head.text) is not None and bool(group.items)


def membership(groups: Sequence[Group]) -> Membership | None:
    """Compare sets by membership; return None if a set is cut, or if little is common.

    None is returned too for sets with equal elements, which differ in their order only.
    """
    if any(group.is_cut for group in groups):
        return None
    shown: dict[str, str] = {}
    owned = [_elements(group, shown) for group in groups]
    common = functools.reduce(operator.and_, owned)
    union = functools.reduce(operator.or_, owned)
    most = max(each.total() for each in owned)
    if union == common or 2 * (most - common.total()) >= most:
        return None
    texts = []
    for group, own in zip(groups, owned, strict=True):
        head = _SET.search(group.head.text)
        assert head is not None
        parts = [head[0].removesuffix(" = ")]
        if more := own - common:
            parts.append(f"has {_named(more, shown)}")
        if less := union - own:
            parts.append(f"lacks {_named(less, shown)}")
        texts.append(", ".join(parts))
    left = Counter(common)
    items = []
    for item in groups[0].items:
        key = unparse(item.value)
        if left[key] >= item.count:
            left[key] -= item.count
            items.append(item)
    return Membership(tuple(items), tuple(texts))


def _elements(group: Group, shown: dict[str, str]) -> Counter[str]:
    """Count the elements of a set by their normalized texts; *shown* gets the texts to show."""
    found: Counter[str] = Counter()
    for item in group.items:
        key = unparse(item.value)
        shown.setdefault(key, filled(item.value))
        found[key] += item.count
    return found


def _named(elements: Counter[str], shown: dict[str, str]) -> str:
    texts = [shown[key] for key in elements.elements()]
    more = len(texts) - _MOST_NAMED
    word = "element" if len(texts) == 1 else "elements"
    return f"{word} {', '.join(texts[:_MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")
