"""One component of all elements of a Fortran array, as in ``rows%id``; runs in GDB's Python.

GDB has no expression for it. The convenience function ``$_pgdb_parts(rows, 0)`` returns the first
component of all elements as an array, with the bounds of ``rows``: place (2) of ``rows%id`` is
``rows(2)%id``. It is a copy; :func:`locate` reports where its elements are in memory.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence

import gdb

_CALL = "$_pgdb_parts("
_MOST_SPAN_BYTES = 1 << 28
"""Largest distance of the first and the last element that is read at once."""


class Steps:
    """Bounds of an array, and the distances of neighbours, of the first dimension first."""

    def __init__(self, array: gdb.Value) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.steps: list[int] = []
        self.address = int(array.address or 0)
        kind = array.type.strip_typedefs()
        try:
            while kind.code == gdb.TYPE_CODE_ARRAY:
                self.ranges.insert(0, kind.range())
                kind = kind.target().strip_typedefs()
        except gdb.error:  # the last dimension of a(5, *)
            self.ranges = []
        self.element = kind
        lows = [low for low, _ in self.ranges]
        for number, (low, high) in enumerate(self.ranges):
            index = [*lows]
            index[number] += 1
            is_long = high > low and self.address
            self.steps.append(_at(array, index) - _at(array, lows) if is_long else 0)

    @property
    def run_backwards(self) -> bool:
        """Whether a dimension runs backwards."""
        return any(step < 0 for step in self.steps)

    def place_of(self, indices: list[int]) -> int:
        """Return the address of an element.

        :raises gdb.GdbError: if there is none.
        """
        if len(indices) != len(self.ranges):
            raise gdb.GdbError("Wrong number of subscripts")
        address = self.address  # the lowest one of the array
        for index, (low, high), step in zip(indices, self.ranges, self.steps):  # noqa: B905
            if not low <= index <= high:
                raise gdb.GdbError(f"no such vector element: {index} is not in {low}:{high}")
            address += (index - low) * step if step >= 0 else (index - high) * step
        return address


def _at(array: gdb.Value, indices: list[int]) -> int:
    value = array
    for index in reversed(indices):
        value = value[index]
    return int(value.address)


def with_component(chain: str, kind: gdb.Type, name: str) -> str:
    """Return the expression for a component of all elements of an array; empty without one.

    :param kind: type of the array.
    """
    element = _element(kind)
    if element.code != gdb.TYPE_CODE_STRUCT:
        return ""
    found = _path(element, name.lower())
    if not found:
        # GDB's error is about the element then.
        return f"{chain}({','.join(map(str, _lows(kind)))})%{name}"
    numbers = "".join(f", {each}" for each in found)
    is_longer = chain.startswith(_CALL) and chain.endswith(")")
    return f"{chain[:-1]}{numbers})" if is_longer else f"{_CALL}{chain}{numbers})"


def with_indices(chain: str, indices: str) -> str:
    """Return the expression for one element of what :func:`with_component` has returned.

    It is a place in memory: ``rows%id(2)`` is ``rows(2)%id``. The result is empty for another
    expression.
    """
    if not (chain.startswith(_CALL) and chain.endswith(")")) or ":" in indices:
        return ""
    array, numbers = _arguments(chain)
    kind, names = _element(gdb.parse_and_eval(array).type.strip_typedefs()), ""
    for number in numbers:
        field = kind.fields()[number]
        kind, names = field.type.strip_typedefs(), f"{names}%{field.name}"
    return f"{array}({indices}){names}"


def _arguments(call: str) -> tuple[str, list[int]]:
    """Return the array and the numbers of a call of the convenience function."""
    array = call[len(_CALL) : -1]
    numbers: list[int] = []
    while (head := array.rpartition(", "))[2].isdigit():
        array = head[0]
        numbers.insert(0, int(head[2]))
    return array, numbers


def _lows(kind: gdb.Type) -> list[int]:
    """Return the lower bounds of an array, of the first dimension first."""
    lows: list[int] = []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        lows.insert(0, kind.range()[0])
        kind = kind.target().strip_typedefs()
    return lows


def _element(kind: gdb.Type) -> gdb.Type:
    while kind.code == gdb.TYPE_CODE_ARRAY:
        kind = kind.target().strip_typedefs()
    return kind


def _path(kind: gdb.Type, name: str) -> list[int]:
    """Return the numbers of the components that lead to a name: parents of a type, then itself."""
    fields = kind.fields()
    names = [field.name for field in fields]
    if name in names:
        return [names.index(name)]
    parent = fields[0].type.strip_typedefs() if fields else None
    # gfortran names the component of an extended type after its parent.
    if parent is None or fields[0].name != parent.name or parent.code != gdb.TYPE_CODE_STRUCT:
        return []
    inner = _path(parent, name)
    return [0, *inner] if inner else []


class _Parts:
    """Components of all elements of one array."""

    def __init__(self, array: gdb.Value, numbers: Sequence[int]) -> None:
        """Find them.

        :raises gdb.GdbError: if they have no fixed place in the elements.
        """
        if array.address is None:
            raise gdb.GdbError("value has been optimized out")
        self.steps = Steps(array)
        if not self.steps.ranges:
            raise gdb.GdbError("the bounds of the array are not known")
        kind, offset, name = self.steps.element, 0, ""
        for number in numbers:
            field = kind.fields()[number]
            name += f"%{field.name}"
            kind, offset = field.type.strip_typedefs(), offset + field.bitpos // 8
        if kind.code == gdb.TYPE_CODE_ARRAY or kind.dynamic:
            index = ",".join(str(low) for low, _ in self.steps.ranges)
            raise gdb.GdbError(
                f"each element has an array, or a string of its own length, as {name}; "
                f"name one element, as in A({index}){name}"
            )
        self.kind = kind
        self.address = self.steps.address + offset
        # The address is the lowest one, that of the last element of a section that runs backwards.
        self.extents = [max(0, high - low + 1) for low, high in self.steps.ranges]
        self.count = 1
        for extent in self.extents:
            self.count *= extent

    def value(self) -> gdb.Value:
        """Return a copy of them.

        :raises gdb.GdbError: if they are more than GDB's limit.
        """
        size, limit = self.kind.sizeof, gdb.parameter("max-value-size")
        if limit is not None and self.count * size > limit >= 0:
            raise gdb.GdbError(
                f"value requires {self.count * size} bytes, which is more than max-value-size"
            )
        if not self.count:
            raise gdb.GdbError("the array has no elements")
        spans = [(extent - 1) * step for extent, step in zip(self.extents, self.steps.steps)]  # noqa: B905
        span = sum(map(abs, spans)) + size
        if span > _MOST_SPAN_BYTES:
            raise gdb.GdbError("the elements are too far apart; name a section of the array")
        memory = gdb.selected_inferior().read_memory(self.address, span)
        data = bytes(memory)
        first = -sum(each for each in spans if each < 0)
        copied = bytearray()
        # The index of the first dimension varies fastest.
        dimensions = [range(extent) for extent in reversed(self.extents)]
        for indices in itertools.product(*dimensions):
            at = first
            for index, step in zip(reversed(indices), self.steps.steps):  # noqa: B905
                at += index * step
            copied += data[at : at + size]
        kind = self.kind
        for low, high in self.steps.ranges:
            kind = kind.array(low, high)
        return gdb.Value(bytes(copied), kind)


class _PartsFunction(gdb.Function):  # type: ignore[misc]
    """A component of all elements of an array."""

    def invoke(self, array: gdb.Value, *numbers: gdb.Value) -> gdb.Value:
        """Return them as an array.

        :raises gdb.GdbError: if there are none, or they have no fixed place.
        """
        return _Parts(array, [*map(int, numbers)]).value()


def locate(expression: str) -> None:
    """Write where the elements of a call of the convenience function are, as JSON."""
    array, numbers = _arguments(expression)
    try:
        parts = _Parts(gdb.parse_and_eval(array), numbers)
    except (gdb.error, gdb.GdbError) as error:
        gdb.write(json.dumps({"error": str(error)}) + "\n")
        return
    found = {
        "type": str(parts.kind),
        "item_bytes": parts.kind.sizeof,
        "address": parts.address,
        "lower": [low for low, _ in parts.steps.ranges],
        "shape": parts.extents,
        "strides": [
            step or parts.kind.sizeof * (extent or 1)
            for step, extent in zip(parts.steps.steps, parts.extents)  # noqa: B905
        ],
    }
    gdb.write(json.dumps(found) + "\n")


def main() -> None:
    """Define the function; without it GDB has no components of all elements."""
    try:
        _PartsFunction("_pgdb_parts")
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: components of arrays are those of GDB: {error}\n")
