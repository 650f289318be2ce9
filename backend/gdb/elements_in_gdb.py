"""Elements of containers as expressions; runs inside GDB, in its Python (3.7 or later).

GDB prints ``std::map`` and its like element by element, but evaluates ``map["key"]`` by a call of
the program's own function, if the program has it at all. The methods here find an element among
those that GDB prints, so that an expression can name each of them:

- ``m["key"]``, ``m[3]``, ``m[Side::left]``: the value of a key; ``s[2]``, ``t[1]``: the element
  that GDB prints with this index, or the one at this position, counted from 0;
- ``m._element(2)``: the element at a position, for keys that no expression can be;
- ``o.value()``, ``w.get()``: the value in an ``optional`` or ``any``, the pointer in a
  ``weak_ptr``.

The methods that libstdc++ (12.2) brings along for ``std::deque`` take its first element for the
first one of its first block. After ``pop_front`` or ``push_front``, ``d[0]`` and ``d.size()`` are
wrong. Methods of this module take their place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import gdb
import gdb.xmethod

# These have an operator[] of their own, or methods that the library's printers bring along.
_OTHERS = frozenset(
    "vector array deque basic_string basic_string_view unique_ptr shared_ptr".split()
)
_NAME = re.compile(r"(?:const )?std::(?:__\w+::)*(\w+)<")
_MAPS = frozenset("map multimap unordered_map unordered_multimap".split())
_OF_ONE_TYPE = frozenset(
    "set multiset unordered_set unordered_multiset list forward_list deque vector array stack queue"
    " priority_queue optional atomic span valarray".split()
)
_VALUES = frozenset(("optional", "any"))
_LABEL = re.compile(r"\[(\d+)\]\Z")
_IN_ATOMIC = ("_M_i", "_M_fp", "_M_b", "_M_base", "_M_p")
"""Members of an atomic: an integer or an object, a float, and what holds a pointer or a bool."""


def elements(value: gdb.Value) -> Iterator[tuple[Any, str, gdb.Value]]:
    """Yield key (of maps), label and value of each element that GDB prints."""
    # GDB passes the address of the object.
    if value.type.code == gdb.TYPE_CODE_PTR:
        value = value.dereference()
    printer = gdb.default_visualizer(value)
    # That of an optional, a variant or an any shows the elements of a container in it.
    content = getattr(printer, "contained_value", None)
    if isinstance(content, gdb.Value):
        yield None, "", content
        return
    if printer is None or not hasattr(printer, "children"):
        if (value.type.strip_typedefs().tag or "").startswith("std::atomic<"):
            yield None, "", _in_atomic(value)
        return
    is_map = getattr(printer, "display_hint", lambda: None)() == "map"
    key = None
    for number, (label, child) in enumerate(printer.children()):
        if is_map and number % 2 == 0:
            key = child
            continue
        yield key, label, child if isinstance(child, gdb.Value) else gdb.Value(child)


def _in_atomic(value: gdb.Value) -> gdb.Value:
    """Return the value in an atomic."""
    first = value.type.strip_typedefs().template_argument(0).strip_typedefs()
    while True:
        for name in _IN_ATOMIC:
            try:
                value = value[name]
            except gdb.error:
                continue
            break
        else:
            return value
        if value.type.strip_typedefs().code == first.code:
            return value


def _integer(value: gdb.Value) -> int:
    """Return an integer of any size; ``int`` refuses more than 64 bits (GDB 13.1)."""
    try:
        return int(value)
    except gdb.error:
        return int(value.format_string(format="d"))


def _text(value: gdb.Value) -> str | None:
    """Return the text of a string of C or C++; None if it is none."""
    kind = value.type.strip_typedefs().code
    if kind in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY):
        return str(value.string())
    printer = gdb.default_visualizer(value)
    if printer is None or getattr(printer, "display_hint", lambda: None)() != "string":
        return None
    text = printer.to_string()
    if hasattr(text, "value"):  # a lazy string
        lazy, text = text, text.value()
        return str(text.string(length=lazy.length) if lazy.length >= 0 else text.string())
    return str(text.string() if isinstance(text, gdb.Value) else text)


def _is_key(key: gdb.Value, wanted: gdb.Value) -> bool:
    kind = key.type.strip_typedefs().code
    if kind == gdb.TYPE_CODE_STRUCT:
        return _text(key) == _text(wanted)
    if kind == gdb.TYPE_CODE_FLT:
        # A key of type float is shown with fewer digits than a double needs.
        return float(key) == float(wanted.cast(key.type))
    return _integer(key) == _integer(wanted)


def _index(number: int, label: str) -> int:
    """Return the index with which GDB prints an element, or its position."""
    found = _LABEL.match(label)
    return int(found[1]) if found is not None else number


def element(container: gdb.Value, wanted: gdb.Value) -> gdb.Value:
    """Return the element of a container that GDB prints with an index or a key.

    :raises gdb.GdbError: if there is none.
    """
    try:
        for number, (key, label, child) in enumerate(elements(container)):
            if _is_key(key, wanted) if key is not None else _index(number, label) == int(wanted):
                return child
    except gdb.error:  # the key is of another type
        pass
    raise gdb.GdbError("The container has no such element.")


class _Worker(gdb.xmethod.XMethodWorker):  # type: ignore[misc]
    """One method of one class."""

    def __init__(self, arguments: list[gdb.Type], result: gdb.Type | None) -> None:
        self._arguments = arguments
        self._result = result

    def get_arg_types(self) -> list[gdb.Type]:
        """Return the types of the arguments."""
        return self._arguments

    def get_result_type(self, value: gdb.Value, *arguments: gdb.Value) -> gdb.Type:
        """Return the type of the element."""
        return self._result if self._result is not None else self(value, *arguments).type

    def __call__(self, value: gdb.Value, *arguments: gdb.Value) -> gdb.Value:
        """Return the element."""
        for number, (key, label, child) in enumerate(elements(value)):
            if self.is_wanted(number, key, label, *arguments):
                return child
        raise gdb.GdbError("The container has no such element.")

    def is_wanted(self, number: int, key: Any, label: str, *arguments: gdb.Value) -> bool:
        """Return whether an element is the one that the arguments name."""
        return True


class _AtKey(_Worker):
    def is_wanted(self, number: int, key: Any, label: str, *arguments: gdb.Value) -> bool:
        return _is_key(key, arguments[0])


class _AtPosition(_Worker):
    def is_wanted(self, number: int, key: Any, label: str, *arguments: gdb.Value) -> bool:
        return number == int(arguments[0])


class _AtIndex(_Worker):
    def is_wanted(self, number: int, key: Any, label: str, *arguments: gdb.Value) -> bool:
        return _index(number, label) == int(arguments[0])


class _AtPlace(_Worker):
    def __call__(self, value: gdb.Value, *arguments: gdb.Value) -> gdb.Value:
        """Return an element of a valarray, for which GDB has no printer."""
        if value.type.code == gdb.TYPE_CODE_PTR:
            value = value.dereference()
        index, count = int(arguments[0]), int(value["_M_size"])
        if index >= count:
            raise gdb.GdbError(f"The container has {count} elements.")
        return value["_M_data"][index]


class _AtBit(_AtIndex):
    def __call__(self, value: gdb.Value, *arguments: gdb.Value) -> gdb.Value:
        """Return a bit; those that GDB does not print are 0."""
        index = int(arguments[0])
        return gdb.Value(int(any(label == f"[{index}]" for _, label, _ in elements(value))))


def _deque_size(worker: Any, deque: gdb.Value) -> int:
    """Return the number of elements of a deque."""
    first, last = deque["_M_impl"]["_M_start"], deque["_M_impl"]["_M_finish"]
    in_blocks = (last["_M_node"] - first["_M_node"]) * worker._bufsize
    ahead = first["_M_cur"] - first["_M_first"]
    return int(in_blocks + (last["_M_cur"] - last["_M_first"]) - ahead)


def _deque_element(worker: Any, deque: gdb.Value, index: gdb.Value) -> gdb.Value:
    """Return the element of a deque at a position."""
    first = deque["_M_impl"]["_M_start"]
    block, place = divmod(int(index) + int(first["_M_cur"] - first["_M_first"]), worker._bufsize)
    return (first["_M_node"] + block)[0][place]


def _correct_deques() -> None:
    """Have the methods of libstdc++ find the elements of deques, if GDB has read those methods."""
    workers = getattr(sys.modules.get("libstdcxx.v6.xmethods"), "DequeWorkerBase", None)
    if workers is not None:
        workers.size, workers.index = _deque_size, _deque_element


class _Method(gdb.xmethod.XMethod):  # type: ignore[misc]
    """The entry of one method in ``info xmethod``."""


class ElementMatcher(gdb.xmethod.XMethodMatcher):  # type: ignore[misc]
    """Finder of the method for a class of the standard library."""

    def __init__(self) -> None:
        super().__init__("pgdb-elements")
        names = ("operator[]", "_element", "value", "get")
        self.methods = [_Method(name) for name in names]

    def match(self, class_type: gdb.Type, method_name: str) -> _Worker | None:
        """Return the method *method_name* of a class; None if it is none of these."""
        name = _NAME.match(class_type.tag or "")
        if name is not None and name[1] == "deque":
            # GDB has asked the library for its method before, and calls the method afterwards.
            _correct_deques()
        if not any(each.enabled and each.name == method_name for each in self.methods):
            return None
        if name is None and (class_type.tag or "") != "std::any":
            return None
        word = name[1] if name is not None else "any"
        first = class_type.template_argument(0) if word in _OF_ONE_TYPE else None
        if method_name == "value":
            return _Worker([], first) if word in _VALUES else None
        if method_name == "get":
            return _Worker([], None) if word == "weak_ptr" else None
        index = gdb.lookup_type("unsigned long")
        if method_name == "_element":
            return _AtPosition([index], first)
        if word in _OTHERS:
            return None
        if word == "valarray":
            return _AtPlace([index], first)
        if word == "bitset":
            return _AtBit([index], gdb.lookup_type("int"))
        if word not in _MAPS:
            return _AtIndex([index], first)
        key, value = class_type.template_argument(0), class_type.template_argument(1)
        if key.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            key = gdb.lookup_type("char").const().pointer()
        elif key.strip_typedefs().code == gdb.TYPE_CODE_PTR:
            key = index
        return _AtKey([key], value)


def main() -> None:
    """Register the methods; without them all works, only fewer expressions can be typed."""
    try:
        gdb.xmethod.register_xmethod_matcher(None, ElementMatcher(), replace=True)
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: elements of containers cannot be named: {error}\n")
