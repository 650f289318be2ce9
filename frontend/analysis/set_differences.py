"""Containers of C++ without an order of their own, compared by their content.

One element less moves the positions of all others in a set, and an unordered container has the
order in which its elements came.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Container, Mapping, Sequence

import msgspec

from pgdb.frontend.analysis.values import Group, Item, Leaf, Node, filled
from pgdb.patterns import pattern

# Behind "containing" and "wrapping:" the same text can stand.
_SET = pattern(r"std::(?:\w+::)*(?:unordered_)?(?:multi)?set with [^={]* = \Z")
_MOST_NAMED = 8
"""Most elements that the text of one set names."""


# A library that was compiled for debugging or with a version has its name in between.
_NO_ORDER = pattern(r"std::(?:\w+::)*(?:unordered_\w+|(?:multi)?set) with [^={]* = \Z")
_NO_NAMESPACE = pattern(r"std::(?:\w+::)*unordered_")


class Membership(msgspec.Struct, frozen=True):
    """The elements that all of some sets have, and each set in words beside them."""

    common: tuple[Item, ...]
    texts: tuple[str, ...]
    """Text for each set: its size, the elements that not all have, and those that it lacks."""


def is_set(group: Group) -> bool:
    """Return whether a group is a set of C++ with elements."""
    return _SET.search(group.head.text) is not None and bool(group.items)


def may_be_unordered(text: str) -> bool:
    """Return whether equal values may have another text, since they hold an unordered container."""
    return _NO_NAMESPACE.search(text) is not None


def has_no_order(group: Group) -> bool:
    """Return whether a group is a set, or an unordered container of C++, with elements."""
    return _NO_ORDER.search(group.head.text) is not None and bool(group.items)


def content(node: Node) -> str:
    """Return a text that is the same for values with equal content.

    >>> from pgdb.frontend.analysis.values import parse
    >>> one, other = "{[0] = 1, [1] = 2}", "{[0] = 2, [1] = 1}"
    >>> head = "std::unordered_set with 2 elements = "
    >>> content(parse(head + one)) == content(parse(head + other)), content(parse(one)) == one
    (True, True)
    """
    if isinstance(node, Leaf):
        return node.text
    if not has_no_order(node) or node.is_cut:
        parts = [node.head.text, node.opening]
        for each in node.items:
            parts += (each.before, each.label.text, content(each.value), each.after)
        return "".join((*parts, node.end))
    elements = []
    for each in node.items:
        label = "" if is_set(node) else each.label.text
        elements += [f"{label}{content(each.value)}"] * each.count
    return f"{node.head.text}{node.opening}{', '.join(sorted(elements))}{node.end}"


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
        # Elements that each set has, but not each as often, are counted.
        counted = {key: own[key] for key in union if union[key] > common[key] > 0}
        if more := _without(own - common, counted):
            parts.append(f"has {_named(more, shown)}")
        if counted:
            parts.append(f"has {_times(counted, shown)}")
        if less := _without(union - own, counted):
            parts.append(f"lacks {_named(less, shown)}")
        texts.append(", ".join(parts))
    left = Counter(common)
    items = []
    for item in groups[0].items:
        key = content(item.value)
        if left[key] >= item.count:
            left[key] -= item.count
            items.append(item)
    return Membership(tuple(items), tuple(texts))


def _elements(group: Group, shown: dict[str, str]) -> Counter[str]:
    """Count the elements of a set by their normalized texts; *shown* gets the texts to show."""
    found: Counter[str] = Counter()
    for item in group.items:
        key = content(item.value)
        shown.setdefault(key, filled(item.value))
        found[key] += item.count
    return found


def _without(elements: Counter[str], left_out: Container[str]) -> Counter[str]:
    return Counter({key: count for key, count in elements.items() if key not in left_out})


def _times(counts: Mapping[str, int], shown: dict[str, str]) -> str:
    return _listed([f"{shown[key]} ({count} times)" for key, count in counts.items()])


def _named(elements: Counter[str], shown: dict[str, str]) -> str:
    return _listed([shown[key] for key in elements.elements()])


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST_NAMED
    word = "element" if len(texts) == 1 else "elements"
    return f"{word} {', '.join(texts[:_MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")
