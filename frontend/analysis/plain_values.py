"""Values that are compared as numbers or strings: wrappers, containers and the texts of strings."""

from __future__ import annotations

import re

from msgspec.structs import replace

from pgdb.frontend.analysis.values import Group, Leaf, Node, unparse
from pgdb.patterns import pattern
from pgdb.records import SLOT

_WRAPPED = pattern(r"(?:_M_\w+|__r|\[contained value\]|<.*>) = \Z")
"""Label of the only member of a class of the library around a value, such as ``std::atomic``."""
_MAP = pattern(r"std::(?:\w+::)*(?:unordered_)?(?:multi)?map with \d+ elements? = \Z")
_EMPTY = pattern(r"std::[^={]* (?:with 0 elements|of length 0, capacity \d+)\Z")
_NULL = pattern(r"(?:\([^{}]*\) )?0x0\Z")
_NO_DATA = "{<No data fields>}"
_BITSET = "std::bitset"
_INDEX = pattern(r"\[(\d+)\] = \Z")

_POINTER = pattern(rf"(?:\([^()]*\) )?(?:{SLOT}|…|0x[0-9a-f]+)(?: <[^<>]*>)? (?=u8\"|[LuU]?[\"'])")
_PART_OF_C = pattern(
    r"(?:u8|[LuU])?\"(?P<text>(?:\\.|[^\"\\])*)\""
    r"|[LuU]?'(?P<letter>\\[0-7]{3}|\\.|[^'\\])',? <repeats (?P<count>\d{1,7}) times>"
)
_PART_OF_FORTRAN = pattern(
    r"'(?P<letter>''|[^'])' <repeats (?P<count>\d{1,7}) times>|'(?P<text>(?:''|[^'])*)'"
)
_ZEROS = pattern(r"(?:\\000)+\Z")
_BETWEEN = pattern(r",\s+")


def is_string(text: str) -> bool:
    """Return whether a text is a string of C, C++ or Fortran as GDB shows it.

    >>> [is_string(each) for each in ('0x5555 "two"', "'it'", "97 'a'", '{"a"}')]
    [True, True, False, False]
    """
    return are_equal_strings(text, text) is not None


def are_equal_strings(one: str, other: str) -> bool | None:
    """Return whether two strings have the same content; None if they are not both strings.

    An array of char has zeros behind its string. Fortran compares strings as if the shorter one had
    blanks behind it.

    >>> are_equal_strings('0x55555 "two"', '"two"'), are_equal_strings('"a\\\\000"', '"a"')
    (True, True)
    >>> are_equal_strings("'it  '", "'it'"), are_equal_strings("'a' <repeats 3 times>, 'b'", "'a'")
    (True, False)
    """
    of_c = [_joined(each, _PART_OF_C) for each in (one, other)]
    if of_c[0] is not None and of_c[1] is not None:
        one, other = (_ZEROS.sub("", each) for each in (of_c[0], of_c[1]))
        return one == other
    of_fortran = [_joined(each, _PART_OF_FORTRAN) for each in (one, other)]
    if of_fortran[0] is not None and of_fortran[1] is not None:
        return of_fortran[0].rstrip(" ") == of_fortran[1].rstrip(" ")
    return None


def _joined(text: str, part: re.Pattern[str]) -> str | None:
    """Return the content of all parts of a string; None if one is no part of a string."""
    found: list[str] = []
    pointer = _POINTER.match(text)
    at = pointer.end() if pointer is not None else 0
    while True:
        match = part.match(text, at)
        if match is None:
            return None
        piece = match["text"]
        found.append(match["letter"] * int(match["count"]) if piece is None else piece)
        if match.end() == len(text):
            return "".join(found)
        between = _BETWEEN.match(text, match.end())
        if between is None:
            return None
        at = between.end()


def is_empty_container(text: str) -> bool:
    """Return whether a value is a container of C++ without elements."""
    return _EMPTY.match(text) is not None


def is_null(text: str) -> bool:
    """Return whether a value is a null pointer.

    >>> [is_null(each) for each in ("0x0", "(void (*)(int)) 0x0", "{(int *) 0x0}", "0x5555")]
    [True, True, False, False]
    """
    return _NULL.match(text) is not None


def plain(node: Node) -> Node | None:
    """Return a value whose parts are numbers or strings, without static members; None for others.

    Such values are arrays, maps, and classes of the library around one value.
    """
    if isinstance(node, Leaf):
        return node
    items = [item for item in node.items if not _has_no_value(item.label.text, item.value)]
    is_wrapper = len(items) == 1 and _WRAPPED.match(items[0].label.text) is not None
    is_map = _MAP.search(node.head.text) is not None
    if not (node.is_array or is_wrapper or is_map or is_bitset(node)):
        return None
    found = []
    for item in items:
        inner = plain(item.value)
        if inner is None:
            return None
        found.append(replace(item, value=inner))
    return replace(node, items=tuple(found))


def _has_no_value(label: str, value: Node) -> bool:
    if label.startswith("static "):
        return True
    # GDB writes "<Base> = {<No data fields>}".
    text = unparse(value)
    return label.startswith("<") and text == _NO_DATA


def is_bitset(node: Node) -> bool:
    """Return whether a value is a ``std::bitset``, of which GDB shows the bits that are 1."""
    head = node.head.text if isinstance(node, Group) else node.text
    return head.startswith(_BITSET)


def bits_of(node: Node) -> list[int]:
    """Return the numbers of the bits of a ``std::bitset`` that are 1."""
    items = node.items if isinstance(node, Group) else ()
    indexes = (_INDEX.match(item.label.text) for item in items)
    return [int(found[1]) for found in indexes if found is not None]
