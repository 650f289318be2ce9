"""Values of Python, as PGDB writes them, parsed into trees of attributes and elements.

A value of Python has brackets that no language of GDB's begins a value with, or names its parts in
Python's way: ``[1, 2]``, ``{'lr': 0.1}``, ``Point(x=1)``, ``deque([1])``, ``<Solver step=3>``. The
brackets are in the head of a group, whose opening is empty: that of GDB's groups is a bracket.
"""

from __future__ import annotations

from collections.abc import Callable

from pgdb.frontend.analysis.values import Group, Item, Leaf, Node
from pgdb.patterns import pattern

_MOST_NESTED = 100
_QUOTED = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LITERAL = rf"(?:b?{_QUOTED}|-?\d+(?:\.\d+)?(?:e[-+]\d+)?|None|True|False)"
"""A key that an expression names."""
_BEGINS = pattern(
    rf"\[(?! )|\{{(?:{_LITERAL}|[-+.\deji]+|\([^{{}}]*?\)): "
    r"|[A-Za-z_]\w*\((?:\[|\{|[A-Za-z_]\w*=(?!=))|<[A-Za-z_]\w* [A-Za-z_]\w*="
)
_STRING = pattern(rf"[bB]?{_QUOTED}(?:\.\.\.)?")
_HEAD = pattern(r"[A-Za-z_]\w*\((?=[\[{])|[A-Za-z_]\w*\((?=[A-Za-z_]\w*=)|<[A-Za-z_]\w* (?=\w+=)")
_NAME = pattern(r"[A-Za-z_]\w*=(?!=)")
_KEY = pattern(rf"(?:{_LITERAL}|\({_LITERAL}(?:, {_LITERAL})*,?\)): ")
_ARRAY = pattern(r"[A-Za-z_][\w.]* of [^{}\[\]]*?, shape \([\d, ]*\)(?: = (?=\{))?")
"""The begin of an array in a container; its commas separate no elements."""
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CUT = "..."
# Objects of these have no parts with such names, or none that are found by position.
_NO_PARTS = frozenset(("timedelta", "partial", "ChainMap", "mappingproxy", "frozenset", "set"))
_ITERATOR = pattern(
    r"<(?:\w+iterator|zip|map|filter|enumerate|reversed|chain|count|repeat|islice|cycle) "
    r"(?:next|left|now|over|function|value|saved)=|o?dict_(?:keys|values|items)\("
)
"""The begin of an iterator or a view, whose parts no expression names."""


class _MalformedError(Exception):
    """Text that is no value of Python with parts."""


def parse_python(
    text: str, leaf: Callable[[int, int], Leaf], *, is_python: bool = False
) -> Node | None:
    """Return the tree of a value of Python; None for a text that may be of another language.

    A dictionary has parts where all keys that are shown are literals, or tuples of them: no
    expression names the others. A set has none.

    :param leaf: makes a leaf of a range of the text.
    :param is_python: whether the text is known to be of Python.
    """
    if not is_python and _BEGINS.match(text) is None:
        return None
    reader = _Reader(text, leaf)
    try:
        node, end = reader.value(0, "", 0)
    except (_MalformedError, RecursionError):
        return None
    return node if end == len(text) else None


class _Reader:
    """Parser of one text; positions are indexes into the text."""

    def __init__(self, text: str, leaf: Callable[[int, int], Leaf]) -> None:
        self._text = text
        self._leaf = leaf

    def value(self, at: int, closing: str, depth: int) -> tuple[Node, int]:
        """Read a value inside of a bracket that *closing* closes; return it and its end."""
        if depth > _MOST_NESTED:
            raise _MalformedError
        text = self._text
        group = None
        if text[at : at + 1] in ("[", "(", "{"):
            group = self._group(at, at + 1, _CLOSING[text[at]], depth)
        elif (head := _HEAD.match(text, at)) is not None:
            group = self._named(at, head.end(), depth)
        if group is not None and self._may_end(group[1], closing):
            return group
        end = self._end(at, closing)
        return self._leaf(at, end), end

    def _named(self, begin: int, at: int, depth: int) -> tuple[Group, int] | None:
        """Read an object, or a container in the name of its class: ``deque([1])``."""
        text = self._text
        if text[begin:at].rstrip("( ") in _NO_PARTS or _ITERATOR.match(text, begin):
            return None
        if text[at] in "[{":
            return self._group(begin, at + 1, _CLOSING[text[at]] + ")", depth)
        return self._group(begin, at, _CLOSING[text[begin] if text[begin] == "<" else "("], depth)

    def _may_end(self, at: int, closing: str) -> bool:
        text = self._text
        if not closing:
            return at == len(text)
        return text.startswith((", ", closing, f",{closing}", _CUT), at)

    def _group(self, begin: int, at: int, closing: str, depth: int) -> tuple[Group, int] | None:
        """Read the items behind a head; None for a group whose parts no expression names."""
        text = self._text
        head = self._leaf(begin, at)
        opening = text[at - 1]
        takes = _KEY if opening == "{" else None if opening in "[(" else _NAME
        if opening in "( " and _NAME.match(text, at):
            takes = _NAME
        items: list[Item] = []
        while True:
            for end in (closing, f",{closing}", f"{_CUT}{closing}", f", {_CUT}{closing}"):
                if text.startswith(end, at):
                    return Group(head, "", tuple(items), end), at + len(end)
            before = ", " if items else ""
            if not text.startswith(before, at):
                return None
            label_end = at + len(before)
            if takes is not None:
                label = takes.match(text, label_end)
                if label is None:
                    return None
                label_end = label.end()
            value, end_of_value = self.value(label_end, closing, depth + 1)
            if end_of_value == label_end:
                return None
            items.append(Item(before, self._leaf(at + len(before), label_end), value))
            at = end_of_value

    def _end(self, at: int, closing: str) -> int:
        """Return the end of a value without parts."""
        text = self._text
        if (array := _ARRAY.match(text, at)) is not None:
            at = array.end()
        waiting: list[str] = []
        while at < len(text):
            string = _STRING.match(text, at) if text[at] in "bB'\"" else None
            if string is not None:
                at = string.end()
                continue
            each = text[at]
            if waiting and each == waiting[-1]:
                waiting.pop()
            elif each in _CLOSING:
                waiting.append(_CLOSING[each])
            elif not waiting and closing and self._may_end(at, closing):
                break
            elif each in ")]}":
                raise _MalformedError
            at += 1
        if waiting:
            raise _MalformedError
        return at
