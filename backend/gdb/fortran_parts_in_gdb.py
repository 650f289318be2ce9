"""One component of all elements of a Fortran array, as in ``rows%id``; runs in GDB's Python.

GDB has no expression for it. The convenience function ``$_pgdb_parts(rows, 0)`` returns the first
component of all elements as an array, with the bounds of ``rows``: place (2) of ``rows%id`` is
``rows(2)%id``. It is a copy; :func:`locate` reports where its elements are in memory. Behind the
number of a component that is an array itself is the number of one of its elements, or 0:
``rows%many`` is ``$_pgdb_parts(rows, 6, 0)`` and has the dimensions of ``many``, then those of
``rows``. ``rows%many(2)`` is ``$_pgdb_parts(rows, 6, 2)``.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence

import fortran_arrays_in_gdb as arrays  # type: ignore[import-not-found]
import fortran_objects_in_gdb as objects  # type: ignore[import-not-found]
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
    element = arrays.element_type(kind)
    if element.code != gdb.TYPE_CODE_STRUCT:
        return ""
    found = _path(element, name.lower())
    if not found:
        # GDB's error is about the element then.
        return f"{chain}({','.join(map(str, _lows(kind)))})%{name}"
    if is_call(chain):
        array, numbers = _arguments(chain)
        return _call(array, [*numbers, *found])
    return _call(chain, found)


def with_indices(chain: str, indices: str) -> str:
    """Return the expression for elements of what :func:`with_component` has returned.

    With the indices of all dimensions, those of the component first, it is a place in memory:
    ``rows%id(2)`` is ``rows(2)%id``, and ``rows%many(1,2)`` is ``rows(2)%many(1)``. With those of
    the component alone it is one element of the component in all elements: ``rows%many(1)``. The
    result is empty for another expression.
    """
    if not is_call(chain) or ":" in indices:
        return ""
    array, numbers = _arguments(chain)
    try:
        parts = _Parts(gdb.parse_and_eval(array), numbers)
        steps, given = parts.components, _separated(indices)
    except (gdb.error, gdb.GdbError):
        return ""
    open_ranks = [len(each.dimensions) for each in steps if each.is_whole]
    if len(given) == len(parts.dimensions):
        names = ""
        # The last array of the chain has the first indices.
        for each in reversed(steps):
            own = each.indices
            if each.is_whole:
                own, given = given[: len(each.dimensions)], given[len(each.dimensions) :]
            names = f"%{each.name}({','.join(own)}){names}" if own else f"%{each.name}{names}"
        index = ",".join(given)
        # GDB looks for elements of a section that runs backwards in the wrong direction.
        is_backwards = any(each.step < 0 for each in parts.dimensions)
        return (f"$_element({array}, {index})" if is_backwards else f"{array}({index})") + names
    if open_ranks and len(given) == open_ranks[-1]:
        last = max(number for number, each in enumerate(steps) if each.is_whole)
        chosen = steps[last].number_of(given)
        if chosen is not None:
            flat = [each.numbers for each in steps]
            flat[last] = (flat[last][0], chosen)
            return _call(array, [number for each in flat for number in each])
    return ""


def typed(chain: str) -> gdb.Value | None:
    """Return a value of the type that a call of the convenience function has, without its data.

    :raises gdb.GdbError: if the components have no fixed place in the elements.
    """
    if not is_call(chain):
        return None
    array, numbers = _arguments(chain)
    kind = _Parts(gdb.parse_and_eval(array), numbers).whole_kind
    return gdb.Value(0).cast(kind.pointer()).dereference()


def is_call(chain: str) -> bool:
    """Return whether an expression is a call of the convenience function."""
    return chain.startswith(_CALL) and chain.endswith(")")


def _call(array: str, numbers: Sequence[int]) -> str:
    return f"{_CALL}{array}{''.join(f', {each}' for each in numbers)})"


def _arguments(call: str) -> tuple[str, list[int]]:
    """Return the array and the numbers of a call of the convenience function."""
    array = call[len(_CALL) : -1]
    numbers: list[int] = []
    while (head := array.rpartition(", "))[2].isdigit():
        array = head[0]
        numbers.insert(0, int(head[2]))
    return array, numbers


def _separated(indices: str) -> list[str]:
    """Return the indices between the commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in indices:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts]


def _lows(kind: gdb.Type) -> list[int]:
    """Return the lower bounds of an array, of the first dimension first."""
    lows: list[int] = []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        lows.insert(0, kind.range()[0])
        kind = kind.target().strip_typedefs()
    return lows


def _path(kind: gdb.Type, name: str) -> list[int]:
    """Return the numbers of the components that lead to a name: parents of a type, then itself.

    A component that is an array has a 0 behind its number, for all of its elements.
    """
    fields = kind.fields()
    names = [field.name for field in fields]
    if name in names:
        number = names.index(name)
        is_array = fields[number].type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY
        return [number, 0] if is_array else [number]
    parent = fields[0].type.strip_typedefs() if fields else None
    # gfortran names the component of an extended type after its parent.
    if parent is None or fields[0].name != parent.name or parent.code != gdb.TYPE_CODE_STRUCT:
        return []
    inner = _path(parent, name)
    return [0, *inner] if inner else []


def _has_fixed_bounds(kind: gdb.Type) -> bool:
    """Return whether a type is no array, or one whose bounds are the same in each object."""
    if kind.code != gdb.TYPE_CODE_ARRAY or not kind.dynamic:
        return True
    return bool(arrays.element_type(kind).dynamic and kind.sizeof)


class _Dimension:
    """One dimension of an array: its bounds, and the distance of neighbours in bytes."""

    def __init__(self, low: int, high: int, step: int) -> None:
        self.low = low
        self.high = high
        self.step = step
        self.extent = max(0, high - low + 1)


class _Component:
    """One step from an element to a part of it."""

    def __init__(self, field: gdb.Field, number: int, chosen: int | None) -> None:
        """Find it.

        :param number: number of the component.
        :param chosen: number of one element of it, from 1; 0 for all; None if it is no array.
        """
        self.name = str(field.name)
        self.numbers = (number,) if chosen is None else (number, chosen)
        self.kind = field.type.strip_typedefs()
        self.dimensions: list[_Dimension] = []
        if chosen is not None:
            ranges: list[tuple[int, int]] = []
            while self.kind.code == gdb.TYPE_CODE_ARRAY:
                ranges.insert(0, self.kind.range())
                self.kind = self.kind.target().strip_typedefs()
            step = self.kind.sizeof
            for low, high in ranges:
                self.dimensions.append(_Dimension(low, high, step))
                step *= self.dimensions[-1].extent
        self.is_whole = chosen == 0
        ahead = chosen - 1 if chosen else 0
        self.offset = field.bitpos // 8 + ahead * self.kind.sizeof

    @property
    def indices(self) -> list[str]:
        """The indices of the chosen element; none without one."""
        if len(self.numbers) < 2 or self.is_whole:
            return []
        left, found = self.numbers[1] - 1, []
        for each in self.dimensions:
            left, index = divmod(left, each.extent)
            found.append(str(index + each.low))
        return found

    def number_of(self, indices: Sequence[str]) -> int | None:
        """Return the number of the element with these indices, from 1; None if there is none."""
        number, count = 1, 1
        for text, each in zip(indices, self.dimensions):  # noqa: B905
            index = int(gdb.parse_and_eval(text))
            if not each.low <= index <= each.high:
                return None
            number += (index - each.low) * count
            count *= each.extent
        return number


class _Parts:
    """Components of all elements of one array."""

    def __init__(self, array: gdb.Value, numbers: Sequence[int]) -> None:
        """Find them.

        :raises gdb.GdbError: if they have no fixed place in the elements.
        """
        if array.address is None:
            raise gdb.GdbError("value has been optimized out")
        outer = Steps(array)
        if not outer.ranges:
            raise gdb.GdbError("the bounds of the array are not known")
        self.dimensions = [
            _Dimension(low, high, step)
            for (low, high), step in zip(outer.ranges, outer.steps)  # noqa: B905
        ]
        self.components: list[_Component] = []
        self.kind, offset = outer.element, 0
        left = [*numbers]
        while left:
            number = left.pop(0)
            field = self.kind.fields()[number]
            kind = field.type.strip_typedefs()
            is_string = field.name in objects.strings_in(self.kind)
            if is_string or not _has_fixed_bounds(kind) or (kind.dynamic and not left):
                index = ",".join(str(low) for low, _ in outer.ranges)
                name = "".join(f"%{each.name}" for each in self.components) + f"%{field.name}"
                raise gdb.GdbError(
                    f"each element has an array, or a string of its own length, as {name}; "
                    f"name one element, as in A({index}){name}"
                )
            is_array = kind.code == gdb.TYPE_CODE_ARRAY
            component = _Component(field, number, left.pop(0) if is_array else None)
            self.components.append(component)
            self.kind, offset = component.kind, offset + component.offset
            if component.is_whole:
                self.dimensions = [*component.dimensions, *self.dimensions]
        # The address is the lowest one, that of the last element of a section that runs backwards.
        self.address = outer.address + offset
        self.extents = [each.extent for each in self.dimensions]
        self.count = 1
        for extent in self.extents:
            self.count *= extent

    @property
    def whole_kind(self) -> gdb.Type:
        """The type of all of them."""
        kind = self.kind
        for each in self.dimensions:
            kind = kind.array(each.low, each.high)
        return kind

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
        spans = [(each.extent - 1) * each.step for each in self.dimensions]
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
            for index, each in zip(reversed(indices), self.dimensions):  # noqa: B905
                at += index * each.step
            copied += data[at : at + size]
        return gdb.Value(bytes(copied), self.whole_kind)


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
        "lower": [each.low for each in parts.dimensions],
        "shape": parts.extents,
        "strides": [
            each.step or parts.kind.sizeof * (each.extent or 1) for each in parts.dimensions
        ],
    }
    gdb.write(json.dumps(found) + "\n")


def main() -> None:
    """Define the function; without it GDB has no components of all elements."""
    try:
        _PartsFunction("_pgdb_parts")
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: components of arrays are those of GDB: {error}\n")
