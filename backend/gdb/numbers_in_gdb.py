"""Places of the numbers in a container or an object that wraps one; runs inside GDB, in its Python.

GDB knows the containers of the standard library by their printers, and has no expression for all
numbers of a ``std::deque`` or a ``std::map``. The function here gives their addresses, so that the
numbers are read from memory. Containers whose numbers are neighbours in memory are one piece.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import gdb
from elements_in_gdb import elements  # type: ignore[import-not-found]

_NAME = re.compile(r"(?:const )?std::(?:\w+::)*(\w+)\b")
_POSITIONAL = frozenset(
    "array vector deque list forward_list valarray span queue stack priority_queue".split()
)
"""Containers whose elements have a position, which is the same on all ranks."""
_BY_ELEMENT = frozenset(
    "list forward_list set multiset map multimap unordered_set unordered_multiset unordered_map"
    " unordered_multimap optional variant any atomic".split()
)
_ADAPTERS = frozenset("queue stack priority_queue".split())
_POINTERS = frozenset("unique_ptr shared_ptr".split())
_STRINGS = frozenset("basic_string basic_string_view".split())
_REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)
_WITHOUT_POSITION = "has elements without a position; 'stat' and 'print' show it"
_LETTERS = {gdb.TYPE_CODE_BOOL: "b", gdb.TYPE_CODE_FLT: "f", gdb.TYPE_CODE_COMPLEX: "c"}
_INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_ENUM)
_MOST_PIECES = 200_000
"""Most pieces of memory in one answer; GDB's Python finds some 100,000 in a second."""


class NotNumbersError(Exception):
    """Value without numbers, or not only with numbers of one type."""


class _Found:
    """The pieces of memory found so far."""

    def __init__(self) -> None:
        self.kind = ""
        self.size_bytes = 0
        self.pieces: list[list[int]] = []
        self.bits: list[int] | None = None

    def add(self, kind: gdb.Type, address: int, count: int) -> None:
        """Add numbers of a type that are neighbours in memory.

        :raises NotNumbersError: if they have another type than those before.
        """
        if (letter := _letter(kind)) != self.kind or kind.sizeof != self.size_bytes:
            if self.kind:
                raise NotNumbersError("has numbers of several types")
            self.kind, self.size_bytes = letter, kind.sizeof
        if not count:
            return
        if self.pieces and address == self.pieces[-1][0] + self.pieces[-1][1] * self.size_bytes:
            self.pieces[-1][1] += count
        elif len(self.pieces) < _MOST_PIECES:
            self.pieces.append([address, count])
        else:
            raise NotNumbersError(f"has its numbers at more than {_MOST_PIECES} places")

    def add_bits(self, bits: list[int]) -> None:
        """Add truth values that have no byte each.

        :raises NotNumbersError: if there are other numbers before.
        """
        if self.kind and self.bits is None:
            raise NotNumbersError("has numbers of several types")
        self.kind, self.size_bytes, self.bits = "b", 1, [*(self.bits or ()), *bits]


def locate(expression: str, is_positional: bool) -> None:
    """Write where the numbers of a value are, as JSON.

    :param is_positional: whether to refuse values whose numbers have no position, such as a set.
    """
    found = _Found()
    try:
        shape = _add(found, gdb.parse_and_eval(expression), expression, is_positional)
        count = sum(number for _, number in found.pieces)
        if found.bits is None and math.prod(shape) != count:
            shape = (count,)  # rows of different lengths within rows
        answer: dict[str, object] = {
            "kind": found.kind,
            "size_bytes": found.size_bytes,
            "shape": shape,
            "pieces": found.pieces,
            "bits": found.bits,
        }
    except NotNumbersError as error:
        answer = {"error": f"{expression} {error}"}
    except (gdb.error, gdb.GdbError) as error:
        answer = {"error": str(error)}
    except Exception as error:  # noqa: BLE001  # the printers are the library's, and memory is any
        why = f"GDB's printer fails ({type(error).__name__}: {error})"
        answer = {"error": f"{expression} is damaged, or lacks debug information: {why}"}
    gdb.write(json.dumps(answer) + "\n")
    gdb.flush()


def _letter(kind: gdb.Type) -> str:
    """Return the letter for a type of numbers: that of NumPy, or one of :mod:`.quadruple`."""
    code = kind.code
    if code in _INTEGERS:
        if kind.sizeof > 8:  # GDB computes with no number of this size
            return "U" if "unsigned" in (kind.name or "") else "I"
        return "i" if gdb.Value(-1).cast(kind) < gdb.Value(0).cast(kind) else "u"
    if code == gdb.TYPE_CODE_FLT and "loat128" in (kind.name or ""):
        return "q"
    if code in _LETTERS:
        return _LETTERS[code]
    what = "a pointer" if code == gdb.TYPE_CODE_PTR else f"of type {_cut(str(kind))}"
    raise NotNumbersError(f"has elements that are no numbers: each is {what}")


def _cut(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def _plain(value: gdb.Value) -> gdb.Value:
    while value.type.strip_typedefs().code in _REFERENCES:
        value = value.referenced_value()
    return value


def _address(value: gdb.Value) -> int:
    if value.is_optimized_out:
        raise NotNumbersError("is optimized out")
    if value.address is None:
        raise NotNumbersError("is not in memory")
    return int(value.address)


def word_of(kind: gdb.Type) -> str:
    """Return the name of a class of the standard library without its parameters; empty for others.

    >>> word_of(gdb.lookup_type("std::vector<int>"))  # doctest: +SKIP  # inside GDB only
    'vector'
    """
    name = _NAME.match(kind.strip_typedefs().tag or "")
    return name[1] if name is not None else ""


def _add(found: _Found, value: gdb.Value, name: str, is_positional: bool) -> tuple[int, ...]:
    """Add the numbers of a value, and return their shape."""
    value = _plain(value)
    kind = value.type.strip_typedefs().unqualified()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return _add_row(found, kind.target(), _address(value), high - low + 1, name, is_positional)
    if kind.code != gdb.TYPE_CODE_STRUCT:
        if kind.code != gdb.TYPE_CODE_PTR and value.address is None:
            raise NotNumbersError("is not in memory")
        found.add(kind, int(value.address or 0), 1)
        return ()
    word = word_of(kind)
    if word == "complex":
        return _add(found, value["_M_value"], name, is_positional)
    if is_positional and word not in _POSITIONAL:
        raise NotNumbersError(_about(word, kind, name) or _WITHOUT_POSITION)
    if word in ("bitset", "vector") and (bits := _bits(value, kind, word)) is not None:
        found.add_bits(bits)
        return (len(bits),)
    if (row := _row(value, kind, word)) is not None:
        return _add_row(found, *row, name, is_positional)
    if word == "deque":
        return _add_deque(found, value, kind, name, is_positional)
    if word in _ADAPTERS:
        return _add(found, value["c"], name, is_positional)
    if word == "duration":
        return _add(found, value["__r"], name, is_positional)
    if word in _BY_ELEMENT:
        return _add_elements(found, value, kind, word, name, is_positional)
    raise NotNumbersError(_about(word, kind, name) or f"is of type {_cut(str(kind))}")


def _about(word: str, kind: gdb.Type, name: str) -> str:
    """Return why an object has no numbers, with the expression to write instead.

    The text is empty for a container.
    """
    if word in _STRINGS:
        return "is text, not numbers; 'print' shows it"
    if word in _POINTERS:
        return f"is a pointer; write *{name}, or {name}.get()[0]@COUNT for an array"
    if word.endswith("iterator"):
        return f"is an iterator; write *{name} if the program has the operator"
    if word in ("tuple", "pair"):
        return f"has elements of several types; write one of them, such as {_member(word, name)}"
    if word in _BY_ELEMENT or word == "bitset":
        return ""
    return f"is of type {_cut(str(kind.tag or kind))}; read a member, such as {name}.NAME"


def _member(word: str, name: str) -> str:
    return f"{name}.first" if word == "pair" else f"{name}[1]"


def _row(value: gdb.Value, kind: gdb.Type, word: str) -> tuple[gdb.Type, int, int] | None:
    """Return type, address and number of elements that are neighbours in memory."""
    if word == "vector":
        inner = value["_M_impl"]
        first, count = inner["_M_start"], int(inner["_M_finish"] - inner["_M_start"])
    elif word == "array":
        count = int(kind.template_argument(1))
        if not count:
            return kind.template_argument(0), 0, 0
        return kind.template_argument(0), _address(value["_M_elems"]), count
    elif word == "span":
        first = value["_M_ptr"]
        extent = int(kind.template_argument(1)) & (1 << 64) - 1
        is_fixed = extent != (1 << 64) - 1
        count = extent if is_fixed else int(value["_M_extent"]["_M_extent_value"])
    elif word == "valarray":
        first, count = value["_M_data"], int(value["_M_size"])
    else:
        return None
    if count < 0:
        raise NotNumbersError(f"has {count} elements: it is not constructed, or is damaged")
    return first.type.strip_typedefs().target(), int(first), count


def _bits(value: gdb.Value, kind: gdb.Type, word: str) -> list[int] | None:
    """Return the bits of a ``bitset`` or a ``vector<bool>``; None of any other vector."""
    if word == "bitset":
        words, count = value["_M_w"], int(kind.template_argument(0))
        is_array = words.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY
        first = words[0].address if is_array else words.address
    elif kind.template_argument(0).strip_typedefs().code != gdb.TYPE_CODE_BOOL:
        return None
    else:
        inner = value["_M_impl"]
        first, last = inner["_M_start"]["_M_p"], inner["_M_finish"]
        width = first.type.strip_typedefs().target().sizeof * 8
        count = int(last["_M_p"] - first) * width + int(last["_M_offset"])
    if first is None:
        raise NotNumbersError("is not in memory")
    width_bytes = first.type.strip_typedefs().target().sizeof
    size_bytes = -(-count // (8 * width_bytes)) * width_bytes
    if not 0 <= size_bytes <= 1 << 24:
        raise NotNumbersError(f"has {count} bits: it is not constructed, or is damaged")
    if not count:
        return []
    data = gdb.selected_inferior().read_memory(int(first), size_bytes).tobytes()
    return [data[at // 8] >> at % 8 & 1 for at in range(count)]


def _is_number(kind: gdb.Type) -> bool:
    return kind.strip_typedefs().code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_ARRAY)


def _add_row(
    found: _Found, kind: gdb.Type, address: int, count: int, name: str, is_positional: bool
) -> tuple[int, ...]:
    """Add elements that are neighbours in memory."""
    kind = kind.strip_typedefs().unqualified()
    if word_of(kind) == "complex":
        inner = next(each.type for each in kind.fields() if each.name == "_M_value")
        if inner.strip_typedefs().sizeof == kind.sizeof:
            kind = inner.strip_typedefs()
    if _is_number(kind):
        found.add(kind, address, count)
        return (count,)
    if not count:
        found.add(_number_in(kind), address, 0)
        return (0,)
    pointer = kind.pointer()
    shapes = set()
    for at in range(count):
        element = gdb.Value(address + at * kind.sizeof).cast(pointer).dereference()
        shapes.add(_add(found, element, f"{name}[{at}]", is_positional))
    return _shape(found, count, shapes)


def _shape(found: _Found, count: int, shapes: set[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of all elements: rows of different lengths are one dimension."""
    if len(shapes) == 1:
        return (count, *shapes.pop())
    if found.bits is not None:
        return (len(found.bits),)
    return (sum(number for _, number in found.pieces),)


def _number_in(kind: gdb.Type) -> gdb.Type:
    """Return the type of the numbers in an element of an empty container."""
    while not _is_number(kind):
        is_array = kind.code == gdb.TYPE_CODE_ARRAY
        if word_of(kind) == "complex":
            kind = next(each.type for each in kind.fields() if each.name == "_M_value")
            return kind.strip_typedefs().unqualified()
        if not is_array and word_of(kind) not in _POSITIONAL | _BY_ELEMENT:
            raise NotNumbersError(f"has no elements, and they would be of type {_cut(str(kind))}")
        kind = kind.target() if is_array else kind.template_argument(0)
        kind = kind.strip_typedefs().unqualified()
    return kind


def _add_deque(
    found: _Found, value: gdb.Value, kind: gdb.Type, name: str, is_positional: bool
) -> tuple[int, ...]:
    first, last = value["_M_impl"]["_M_start"], value["_M_impl"]["_M_finish"]
    element = kind.template_argument(0).strip_typedefs().unqualified()
    if not int(first["_M_cur"]):
        return _add_row(found, element, 0, 0, name, is_positional)
    node, end_node = first["_M_node"], last["_M_node"]
    in_node = max(1, 512 // element.sizeof)
    shapes: set[tuple[int, ...]] = set()
    total = 0
    is_whole = 0 <= int(end_node - node) <= _MOST_PIECES
    for end in (first, last):
        is_whole &= int(end["_M_first"]) <= int(end["_M_cur"]) <= int(end["_M_last"])
        is_whole &= int(end["_M_last"]) - int(end["_M_first"]) == in_node * element.sizeof
    if not is_whole:
        raise NotNumbersError("is not constructed, or is damaged")
    start = int(first["_M_cur"])
    while True:
        is_last = node == end_node
        end = int(last["_M_cur"]) if is_last else int(node.dereference()) + in_node * element.sizeof
        count = (end - start) // element.sizeof
        if count < 0:
            raise NotNumbersError("is not constructed, or is damaged")
        if count or (is_last and not total):
            shapes.add(_add_row(found, element, start, count, name, is_positional)[1:])
        total += count
        if is_last:
            return _shape(found, total, shapes)
        node += 1
        start = int(node.dereference())


def _add_elements(
    found: _Found, value: gdb.Value, kind: gdb.Type, word: str, name: str, is_positional: bool
) -> tuple[int, ...]:
    shapes = set()
    count = 0
    for child in _children(value):
        is_map = word.endswith("map")
        element = f"{name}._element({count})" if is_map else f"{name}[{count}]"
        shapes.add(_add(found, child, element, is_positional))
        count += 1
        if count > _MOST_PIECES:
            raise NotNumbersError(f"has more than {_MOST_PIECES} elements")
    if word in ("atomic", "any", "variant") and count:
        return next(iter(shapes))
    if not count:
        if word in ("any", "variant"):
            raise NotNumbersError("has no value")
        argument = kind.template_argument(1 if word.endswith("map") else 0)
        found.add(_number_in(argument.strip_typedefs().unqualified()), 0, 0)
        return (0,)
    return _shape(found, count, shapes)


def _children(value: gdb.Value) -> Iterator[Any]:
    for _, _, child in elements(value):
        yield child
