"""Values as GDB prints them: a text becomes a tree of fields and elements.

A text is read by GDB's own grammar (13 to 16; C, C++ and Fortran). What does not follow it is one
leaf, so that no text is ever lost: ``unparse(parse(text)) == text``. A tree is compared on what
the merging compares, its texts with the addresses taken out; these stand beside each leaf.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

import msgspec

from pgdb.merge.normalize import DIFFERENT, SlotFiller
from pgdb.patterns import pattern
from pgdb.records import SLOT, parse_number

_MOST_NESTED = 100  # GDB's own limit is 20 (print max-depth)

_QUOTED = r'(?:u8|[LuU])?"(?:\\.|[^"\\])*"'
_REPEATED = r"[LuU]?'(?:\\.|[^'\\])*',? <repeats \d+ times>"
_CUT = r"<incomplete sequence [^>]*>"
# After a quoted part only a repeated character goes on with the same string: '"a", "b"' are two.
_STRING = pattern(
    rf"(?:{_QUOTED}|[LuU]?'(?:\\.|[^'\\])*'(?! <repeats)|{_REPEATED}|{_CUT})"
    rf"(?:(?:,\s+(?:{_REPEATED}|{_CUT}))+(?:,\s+{_QUOTED})?)*"
    r"(?:\.\.\.)?"
)
_RUN = pattern(rf"{_REPEATED}(?:,\s+{_QUOTED})?(?:\.\.\.)?")
_JOINED = pattern(rf"{_REPEATED}|{_CUT}")
_REPEATS = pattern(r",?\s<repeats (\d{1,18}) times>")
_NAME = pattern(r"(?:static )?[A-Za-z_$][\w$.:]*(?:\(\))? = ")
_CLOSES = pattern(r"\s*[})\]]")
_BLANK = pattern(r"\s*")
_BEFORE = pattern(r"(?:,\s+)?(?:members of [^\n]*:\s+)?")
_END = pattern(r"(?:,?\s*\.\.\.)?\s*(?=[})])")
_GOES_ON = pattern(r",?\s<repeats \d|,\s|\.\.\.\s*[})]|\s*[})]|,\s*\.\.\.\s*\)|\Z")
_OPERATOR = pattern(r"operator(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>)|->")
_PLAIN = pattern(r"[^\"'<>(){}\[\],.\s:=o-]+")
# Nearly all elements of large arrays.
_PLAIN_VALUE = pattern(r"[-\w]+(?:\.\w+(?:[-+]\d+)?)?(?=, [-\w{(]|})")
_ERROR = pattern(r"<error[^>]*>")
_SIZED = pattern(r"std::[\w:<>, ]+? of length \d+, capacity \d+ = (?=\{)")
_INDEX = pattern(r"\[(\d{1,18})\] = ")
# The payload of a NaN looks like an address.
_NAN = pattern(rf"-?nan\((?:{SLOT}|{DIFFERENT})\)\Z")
_CLOSING = {"{": "}", "(": ")", "[": "]"}


class Leaf(msgspec.Struct, frozen=True):
    """A text without parts."""

    text: str
    """With a mark for each address, as the record has it."""
    slots: tuple[str, ...] = ()
    """What stood at the marks."""

    @property
    def filled(self) -> str:
        """The text with its addresses."""
        return SlotFiller(self.slots).fill(self.text)


class Item(msgspec.Struct, frozen=True):
    """A field or element of a group, or a run of equal elements."""

    before: str
    """Separator between it and the one before."""
    label: Leaf
    """``x = ``, ``<Base> = ``, ``["key"] = ``; empty for an element of an array."""
    value: Node
    after: str = ""
    """`` <repeats 20 times>``."""
    count: int = 1
    """Number of elements that it stands for."""


class Group(msgspec.Struct, frozen=True):
    """Fields of a structure, or elements of an array."""

    head: Leaf
    """What stands before: ``@0x7ffe10: ``, ``std::vector of length 3, capacity 4 = ``."""
    opening: str
    items: tuple[Item, ...]
    end: str
    """What follows the last item, with the closing bracket."""

    @property
    def is_cut(self) -> bool:
        """Whether GDB has printed a part of the elements only."""
        return "..." in self.end

    @property
    def is_array(self) -> bool:
        """Whether its items are elements, known by their position."""
        at = 0
        for item in self.items:
            index = _INDEX.match(item.label.text)
            if item.label.text and (index is None or int(index[1]) != at):
                return False
            at += item.count
        return bool(self.items)


Node = Leaf | Group
_NOTHING = Leaf("")


class _MalformedError(Exception):
    """The text does not follow the grammar."""


def parse(text: str, slots: Sequence[str] = ()) -> Node:
    """Return the tree of a value text; *slots* are what stood at its marks."""
    if text[:1].isdigit() and text.isalnum():
        return Leaf(text)
    reader = _Reader(text, slots)
    try:
        node, end = reader.value(0, "", 0)
    except (_MalformedError, RecursionError):
        return Leaf(text, tuple(slots))
    return node if end == len(text) else Leaf(text, tuple(slots))


def unparse(node: Node, text_of: Callable[[Leaf], str] = lambda leaf: leaf.text) -> str:
    """Return the text of a tree."""
    if isinstance(node, Leaf):
        return text_of(node)
    parts = [text_of(node.head), node.opening]
    for item in node.items:
        parts += (item.before, text_of(item.label), unparse(item.value, text_of), item.after)
    return "".join((*parts, node.end))


def filled(node: Node) -> str:
    """Return the text of a tree with its addresses."""
    return unparse(node, lambda leaf: leaf.filled)


def number_of(text: str) -> int | float | None:
    """Return the number that a value text is, None for any other text.

    >>> number_of("nan(\ufffc)"), number_of("2.5"), number_of("97 'a'")
    (nan, 2.5, None)
    """
    return float("nan") if _NAN.match(text) else parse_number(text)


def scalar_of(text: str) -> int | float | None:
    """Return the number that a value text is, also of a character; None for any other text.

    >>> scalar_of("-1.5"), scalar_of("97 'a'"), scalar_of("red")
    (-1.5, 97, None)
    """
    number = number_of(text)
    if number is None and text.endswith("'"):
        return parse_number(text.partition(" ")[0])
    return number


class _Reader:
    """Reads one text; a position is an index into it."""

    def __init__(self, text: str, slots: Sequence[str]) -> None:
        self._text = text
        self._slots = tuple(slots)
        self._marks = [at for at, each in enumerate(text) if each == SLOT] if slots else []

    def value(self, at: int, inside: str, depth: int) -> tuple[Node, int]:
        """Read a value in brackets of the kind *inside*; return it and where it ends."""
        if depth > _MOST_NESTED:
            raise _MalformedError
        text, begin = self._text, at
        sized = _SIZED.match(text, at)
        if sized is not None:
            at = sized.end()
        while at < len(text):
            each = text[at]
            if each == "{" or (each == "(" and at == begin):
                before = text[begin:at]
                if not before or before.endswith((": ", " = ")):
                    group = self._group(begin, at, depth)
                    if group is not None and self._may_end(group[1], inside):
                        return group
            if inside and (_CLOSES.match(text, at) or _REPEATS.match(text, at)):
                break
            if inside and (each == "," and text[at + 1 : at + 2].isspace()):
                break
            if inside and text.startswith("...", at) and _END.match(text, at):
                break
            at = self._skip(at)
        return self._leaf(begin, at), at

    def _may_end(self, at: int, inside: str) -> bool:
        if not inside:
            return at == len(self._text)
        # The rows of a Fortran array are parted by a space.
        return bool(_GOES_ON.match(self._text, at)) or (
            inside == "(" and self._text.startswith(" (", at)
        )

    def _group(self, begin: int, at: int, depth: int) -> tuple[Group, int] | None:
        text = self._text
        opening = text[at]
        head = self._leaf(begin, at)
        at += 1
        blank = _BLANK.match(text, at)
        assert blank is not None
        start = opening + blank[0]
        at = blank.end()
        items: list[Item] = []
        while True:
            end = _END.match(text, at)
            if end is not None and text[end.end()] == _CLOSING[opening]:
                group = Group(head, start, tuple(items), end[0] + text[end.end()])
                return (group, end.end() + 1) if _is_credible(group) else None
            try:
                item, at = self._item(at, opening, depth, is_first=not items)
            except _MalformedError:
                return None
            items.append(item)

    def _item(self, at: int, opening: str, depth: int, *, is_first: bool) -> tuple[Item, int]:
        text = self._text
        before = _BEFORE.match(text, at)
        assert before is not None
        separator = before[0]
        if opening == "(" and not is_first and text.startswith(" (", at):
            separator = " "
        if (not is_first and not separator) or at >= len(text):
            raise _MalformedError
        at += len(separator)
        label_end = self._label(at)
        label = self._leaf(at, label_end) if label_end > at else _NOTHING
        value: Node
        plain = _PLAIN_VALUE.match(text, label_end)
        if plain is not None:
            value, end = self._leaf(label_end, plain.end()), plain.end()
        else:
            value, end = self.value(label_end, opening, depth + 1)
        repeats = _REPEATS.match(text, end)
        after = repeats[0] if repeats is not None else ""
        count = int(repeats[1]) if repeats is not None else 1
        return Item(separator, label, value, after, count), end + len(after)

    def _label(self, at: int) -> int:
        """Return where the label at *at* ends; *at* itself if there is none."""
        name = _NAME.match(self._text, at)
        if name is not None:
            return name.end()
        if self._text[at : at + 1] in ("<", "["):
            end = self._skip(at)
            if self._text.startswith(" = ", end):
                return end + 3
        return at

    def _skip(self, at: int) -> int:
        """Return where the string, the brackets or the character at *at* end."""
        text = self._text
        each = text[at]
        string = _STRING.match(text, at) if each in "\"'LuU<" else None
        if string is not None and self._begins_string(at):
            return string.end()
        if each == "<":
            error = _ERROR.match(text, at)
            return error.end() if error is not None else self._balanced(at, ">")
        if each in _CLOSING:
            return self._balanced(at, _CLOSING[each])
        if each in "})]":
            raise _MalformedError
        sign = _OPERATOR.match(text, at)
        plain = sign or _PLAIN.match(text, at)
        return plain.end() if plain is not None else at + 1

    def _begins_string(self, at: int) -> bool:
        return not (at and (self._text[at - 1].isalnum() or self._text[at - 1] == "_"))

    def _balanced(self, at: int, closing: str) -> int:
        waiting = [closing]
        at += 1
        while waiting:
            if at >= len(self._text):
                raise _MalformedError
            each = self._text[at]
            if each == waiting[-1]:
                waiting.pop()
                at += 1
            elif each in _CLOSING or each == "<":
                waiting.append(_CLOSING.get(each, ">"))
                at += 1
            elif each in "})]>":
                raise _MalformedError
            else:
                at = self._skip(at)
        return at

    def _leaf(self, begin: int, end: int) -> Leaf:
        first, last = bisect_left(self._marks, begin), bisect_left(self._marks, end)
        return Leaf(self._text[begin:end], self._slots[first:last])


def _is_credible(group: Group) -> bool:
    """Return whether what looks like a group can be one."""
    for item in group.items:
        if isinstance(item.value, Leaf):
            text = item.value.text
            # Where one string of an array ends and the next begins cannot be told.
            if not item.label.text and _JOINED.search(text):
                return False
            if not text and group.opening.startswith("("):
                return False
    if group.opening == "(" and len(group.items) == 1 and isinstance(group.items[0].value, Leaf):
        # C's flags of an enumeration and Fortran's complex numbers are in parentheses too.
        text = group.items[0].value.text
        return not re.search(r" \| |unknown: |,", text)
    return True
