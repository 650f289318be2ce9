"""Values as GDB prints them, parsed into trees of fields and elements.

The parser follows GDB's own grammar (13 to 16; C, C++ and Fortran). Text outside of the grammar
becomes one leaf, so that no text is lost: ``unparse(parse(text)) == text``. Trees are compared by
their normalized texts, as in merging; each leaf keeps its addresses beside the text.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.text_rows import TextRow, rows_of_text
from pgdb.merge.normalize import DIFFERENT, SlotFiller
from pgdb.patterns import pattern
from pgdb.records import PYTHON, SLOT, parse_number

_MOST_NESTED = 100  # GDB's own limit is 20 (print max-depth)

_DIGITS_OF_DOUBLE = 17
_EXACT = pattern(r"-?\d[\d.]*(?:[eE][-+]?\d{1,5})?\Z")
_COMPLEX = pattern(r"(\S+) \+ (\S+)i\Z|\(([^\s,]+),([^\s,]+)\)\Z")

Exact = int | float | Fraction
"""A number without rounding; a number that is no double is a fraction."""

_QUOTED = r'(?:u8|[LuU])?"(?:\\.|[^"\\])*"'
_REPEATED = r"[LuU]?'(?:\\.|[^'\\])*',? <repeats \d+ times>"
_CUT = r"<incomplete sequence [^>]*>"
# Behind a quoted part, only a repeated character continues the same string: '"a", "b"' are two.
_STRING = pattern(
    rf"(?:{_QUOTED}|[LuU]?'(?:\\.|[^'\\])*'(?! <repeats)|{_REPEATED}|{_CUT})"
    rf"(?:(?:,\s+(?:{_REPEATED}|{_CUT}))+(?:,\s+{_QUOTED})?)*"
    r"(?:\.\.\.)?"
)
# Behind a pointer or the name of a field, no other string can follow.
_LONE_STRING = pattern(
    rf"(?:{_QUOTED},\s+)?(?:{_REPEATED}|{_CUT})"
    rf"(?:,\s+(?:{_QUOTED},\s+)?(?:{_REPEATED}|{_CUT}))*(?:,\s+{_QUOTED})?(?:\.\.\.)?"
)
_AT_POINTER = pattern(rf"(?:\([^()]*\) )?(?:{SLOT}|0x[0-9a-f]+)")
_POINTER = pattern(rf"(?:{SLOT}|0x[0-9a-f]+)(?: <[^<>]*>)? \Z")
# Before a structure of Fortran to which a pointer points, as "varprint" shows it.
_TARGET = pattern(rf"(?:{SLOT}|0x[0-9a-f]+): \Z")
# The class of an object, other than that of the expression ("set print object on").
_CLASS = pattern(r"\([A-Za-z_][^{}=]*\) \Z")
_JOINED = pattern(rf"{_REPEATED}|{_CUT}")
_REPEATS = pattern(r",?\s<repeats (\d{1,18}) times>")
# "std::list = {" begins an element, not a member.
_NAME = pattern(r"(?:static )?(?!std::)[A-Za-z_$][\w$.:]*(?:\(\))? = ")
_CLOSES = pattern(r"\s*[})\]]")
_BLANK = pattern(r"\s*")
_BEFORE = pattern(r"(?:,\s+)?(?:members of [^\n]*:\s+)?")
_END = pattern(r"(?:,?\s*\.\.\.)?\s*(?=[})])")
_GOES_ON = pattern(r",?\s<repeats \d|,\s|\.\.\.\s*[})]|\s*[})]|,\s*\.\.\.\s*\)|\Z")
_OPERATOR = pattern(r"operator(?:<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>)|->")
_PLAIN = pattern(r"[^\"'<>(){}\[\],.\s:=o-]+")
# Fast path for nearly all elements of large arrays.
_PLAIN_VALUE = pattern(r"[-\w]+(?:\.\w+(?:[-+]\d+)?)?(?=, [-\w{(]|})")
_ERROR = pattern(r"<error[^>]*>")
# The comma in it separates no items. An empty vector has no braces behind it.
_SIZED = pattern(r"std::[\w:<>, ]+? of length [^\s,={}]+, capacity [^\s,={}]+(?: = (?=\{))?")
_MAP = pattern(r"std::(?:\w+::)*(?:unordered_)?(?:multi)?map with ")
_INDEX = pattern(r"\[(\d{1,18})\] = ")
# The payload of a NaN is normalized like an address.
_NAN = pattern(rf"-?nan\((?:{SLOT}|{DIFFERENT})\)\Z")
# Behind a pointer to a member function.
_ADJUSTMENT = pattern(r",\s+this adjustment -?\d+")
_BOUNDS = pattern(r"-?\d+(?:,-?\d+)*\Z")
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_BEGINS_PYTHON = frozenset("[{<_")


class Leaf(msgspec.Struct, frozen=True):
    """A text without parts."""

    text: str
    """Text with a mark for each address, as in the record."""
    slots: tuple[str, ...] = ()
    """Addresses at the marks."""

    @property
    def filled(self) -> str:
        """The text with its addresses."""
        return SlotFiller(self.slots).fill(self.text)


class Item(msgspec.Struct, frozen=True):
    """A field or element of a group, or a run of equal elements."""

    before: str
    """Separator from the previous item."""
    label: Leaf
    """``x = ``, ``<Base> = ``, ``["key"] = ``; empty for an element of an array."""
    value: Node
    after: str = ""
    """Text behind the value, such as `` <repeats 20 times>``."""
    count: int = 1
    """Number of elements."""


class Group(msgspec.Struct, frozen=True):
    """Fields of a structure, or elements of an array."""

    head: Leaf
    """Text before the bracket: ``@0x7ffe10: ``, ``std::vector of length 3, capacity 4 = ``."""
    opening: str
    items: tuple[Item, ...]
    end: str
    """Text behind the last item, with the closing bracket."""
    lower: int | None = 1
    """Lower bound of an array of Fortran; None if it is unknown or differs between the ranks."""

    @property
    def is_cut(self) -> bool:
        """Whether GDB printed only a part of the elements."""
        return "..." in self.end

    @property
    def is_array(self) -> bool:
        """Whether its items are elements, identified by position."""
        if _MAP.search(self.head.text):
            return False
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
    """A text that does not follow the grammar."""


def parse(text: str, slots: Sequence[str] = ()) -> Node:
    """Return the tree of a value text; *slots* are the addresses at its marks.

    One more slot than marks has the lower bounds of the arrays of Fortran in the text, or says that
    it is one of Python.
    """
    if text[:1].isdigit() and text.isalnum():
        return Leaf(text)
    bounds = ""
    if slots and len(slots) > (marks := text.count(SLOT)):
        slots, bounds = slots[:marks], slots[marks]
    reader = _Reader(text, slots)
    if bounds == PYTHON:
        return _of_python(text, reader.leaf, is_python=True) or reader.leaf(0, len(text))
    if (of_python := _of_python(text, reader.leaf)) is not None:
        return of_python
    try:
        node, end = reader.value(0, "", 0)
    except (_MalformedError, RecursionError):
        return Leaf(text, tuple(slots))
    if end != len(text):
        return Leaf(text, tuple(slots))
    return _with_bounds(node, bounds) if bounds else node


def _of_python(
    text: str, leaf: Callable[[int, int], Leaf], *, is_python: bool = False
) -> Node | None:
    """Return the tree of a value of Python, None for another text."""
    if not is_python and text[:1] not in _BEGINS_PYTHON and not text[:1].isalpha():
        return None
    # Imported here: that module makes the trees of this one.
    from pgdb.frontend.analysis.python_text import parse_python

    return parse_python(text, leaf, is_python=is_python)


def _with_bounds(tree: Node, bounds: str) -> Node:
    """Return a tree with the lower bounds of its arrays, in the order of the text."""
    known = bounds.split(",") if _BOUNDS.match(bounds) else []
    if len(known) != _count_fortran_arrays(tree):
        known = []
    left = iter(known)

    def visit(node: Node) -> Node:
        if isinstance(node, Leaf):
            return node
        lower = node.lower
        if _is_fortran_array(node):
            lower = int(next(left)) if known else None
        items = tuple(
            replace(item, value=visit(item.value)) if isinstance(item.value, Group) else item
            for item in node.items
        )
        return replace(node, items=items, lower=lower)

    return visit(tree)


def bounds_text(node: Node) -> str:
    """Return the lower bounds of the arrays of Fortran in a tree, as :func:`parse` reads them."""
    found: list[int | None] = []

    def visit(node: Node) -> None:
        if isinstance(node, Group):
            if _is_fortran_array(node):
                found.append(node.lower)
            for item in node.items:
                visit(item.value)

    visit(node)
    if None in found:
        return "?"
    return "" if set(found) <= {1} else ",".join(map(str, found))


def _is_fortran_array(group: Group) -> bool:
    return group.opening.startswith("(") and group.is_array


def _count_fortran_arrays(node: Node) -> int:
    if isinstance(node, Leaf):
        return 0
    return _is_fortran_array(node) + sum(_count_fortran_arrays(each.value) for each in node.items)


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


def number_of(text: str, base: int = 0) -> int | float | None:
    """Return the number that a text is; None for any other text.

    *base* is that of :attr:`pgdb.records.Value.base`.

    >>> number_of("nan(\ufffc)"), number_of("2.5"), number_of("97 'a'")
    (nan, 2.5, None)
    """
    return float("nan") if _NAN.match(text) else parse_number(text, base)


def scalar_of(text: str) -> int | float | None:
    """Return the number that a text is, or the code of a character; None for any other text.

    >>> scalar_of("-1.5"), scalar_of("97 'a'"), scalar_of("red")
    (-1.5, 97, None)
    """
    number = number_of(text)
    if number is None and text.endswith("'"):
        return parse_number(text.partition(" ")[0])
    return number


def exact_of(text: str) -> Exact | None:
    """Return what :func:`scalar_of` returns, without rounding a number with more digits, or another
    range, than a double.

    >>> exact_of("0.5"), exact_of("1.00000000000000000011") == 1, exact_of("1e-400") == 0
    (0.5, False, False)
    """
    number = scalar_of(text)
    if not isinstance(number, float):
        return number
    is_doubtful = len(text) > _DIGITS_OF_DOUBLE or number == 0 or math.isinf(number)
    if is_doubtful and _EXACT.match(text):
        return Fraction(text)
    return number


def complex_of(text: str) -> tuple[Exact, Exact] | None:
    """Return the two parts of a complex number as GDB shows it; None for any other text.

    >>> complex_of("1 + -2i"), complex_of("(0.5,2)"), complex_of("1 + 2")
    ((1, -2), (0.5, 2), None)
    """
    match = _COMPLEX.match(text)
    if match is None:
        return None
    parts = [exact_of(each) for each in match.groups() if each is not None]
    return None if None in parts else (parts[0], parts[1])  # type: ignore[return-value]


class _Reader:
    """Parser of one text; positions are indexes into the text."""

    def __init__(self, text: str, slots: Sequence[str]) -> None:
        self._text = text
        self._slots = tuple(slots)
        self._marks = [at for at, each in enumerate(text) if each == SLOT] if slots else []

    def value(
        self, at: int, inside: str, depth: int, *, has_label: bool = False
    ) -> tuple[Node, int]:
        """Read a value inside of a bracket *inside*; return the value and its end."""
        if depth > _MOST_NESTED:
            raise _MalformedError
        text, begin = self._text, at
        while at < len(text):
            each = text[at]
            # Behind "containing" and "wrapping:", too.
            sized = _SIZED.match(text, at) if each == "s" else None
            if sized is not None:
                at = sized.end()
                continue
            if each == "{" or (each == "(" and (at == begin or _TARGET.match(text[begin:at]))):
                before = text[begin:at]
                if not before or before.endswith((": ", " = ")) or _CLASS.match(before):
                    group = self._group(begin, at, depth)
                    if group is not None and self._may_end(group[1], inside):
                        return group
            if inside and (_CLOSES.match(text, at) or _REPEATS.match(text, at)):
                break
            if inside and (each == "," and text[at + 1 : at + 2].isspace()):
                adjustment = _ADJUSTMENT.match(text, at)
                if adjustment is None:
                    break
                at = adjustment.end()
                continue
            if inside and text.startswith("...", at) and _END.match(text, at):
                break
            lone = None
            if each in "\"'LuU<" and (has_label or _POINTER.search(text, begin, at)):
                lone = _LONE_STRING.match(text, at) if self._begins_string(at) else None
            at = lone.end() if lone is not None else self._skip(at)
        return self.leaf(begin, at), at

    def _may_end(self, at: int, inside: str) -> bool:
        if not inside:
            return at == len(self._text)
        # A space separates the rows of a Fortran array.
        return bool(_GOES_ON.match(self._text, at)) or (
            inside == "(" and self._text.startswith(" (", at)
        )

    def _group(self, begin: int, at: int, depth: int) -> tuple[Group, int] | None:
        text = self._text
        opening = text[at]
        head = self.leaf(begin, at)
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
                if _is_credible(group):
                    return group, end.end() + 1
                rows = rows_of_text(text[blank.end() : end.start()], is_fortran=opening == "(")
                # The strings in a container of the library have no common width.
                if rows is None or head.text.endswith(" = ") or end[0].strip():
                    return None
                known = tuple(self._text_items(blank.end(), rows))
                return replace(group, items=known), end.end() + 1
            try:
                item, at = self._item(at, opening, depth, is_first=not items)
            except _MalformedError:
                return None
            items.append(item)

    def _text_items(self, at: int, rows: Sequence[TextRow]) -> Iterator[Item]:
        for row in rows:
            end = at + len(row.before) + len(row.text)
            leaf = self.leaf(end - len(row.text), end)
            yield Item(row.before, _NOTHING, leaf, row.after, row.count)
            at = end + len(row.after)

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
        label = self.leaf(at, label_end) if label_end > at else _NOTHING
        value: Node
        plain = _PLAIN_VALUE.match(text, label_end)
        if plain is not None:
            value, end = self.leaf(label_end, plain.end()), plain.end()
        else:
            has_label = label_end > at
            value, end = self.value(label_end, opening, depth + 1, has_label=has_label)
        repeats = _REPEATS.match(text, end)
        after = repeats[0] if repeats is not None else ""
        count = int(repeats[1]) if repeats is not None else 1
        return Item(separator, label, value, after, count), end + len(after)

    def _label(self, at: int) -> int:
        """Return the end of the label at *at*; *at* itself if there is none."""
        name = _NAME.match(self._text, at)
        if name is not None:
            return name.end()
        if self._text[at : at + 1] in ("<", "["):
            end = self._skip(at)
            if self._text.startswith(" = ", end):
                return end + 3
        return at

    def _skip(self, at: int) -> int:
        """Return the end of the string, bracket or character at *at*."""
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

    def leaf(self, begin: int, end: int) -> Leaf:
        """Return a range of the text as a leaf."""
        first, last = bisect_left(self._marks, begin), bisect_left(self._marks, end)
        return Leaf(self._text[begin:end], self._slots[first:last])


def _is_credible(group: Group) -> bool:
    """Return whether a parsed group can be a group."""
    for item in group.items:
        if isinstance(item.value, Leaf):
            text = item.value.text
            # The end of one string of an array and the start of the next cannot be distinguished.
            if not item.label.text and _JOINED.search(text) and not _AT_POINTER.match(text):
                return False
            if not text and group.opening.startswith("("):
                return False
    if group.opening == "(" and len(group.items) == 1 and isinstance(group.items[0].value, Leaf):
        # Flags of a C enumeration and complex numbers of Fortran have parentheses, too.
        text = group.items[0].value.text
        return not re.search(r" \| |unknown: |,", text)
    return True
