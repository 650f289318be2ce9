"""Descriptors of arrays of strings; runs inside GDB, in its Python.

gfortran (12) describes a dummy argument ``character(len=*) :: names(:)``, and an allocatable or
pointer array of strings of deferred length, as a structure without members, so that GDB shows
``<incomplete type>``. The structure is the array's descriptor, whose layout gfortran has in
``libgfortran.h``.
"""

from __future__ import annotations

import struct

import gdb

_HEAD = struct.Struct("=QqQibbhq")
_DIMENSION = struct.Struct("=qqq")
_IS_CHARACTER = 6
"""Number of the type ``character`` in a descriptor."""
_MOST_DIMENSIONS = 15
_MOST_ELEMENTS = 1 << 40
LONGEST = 1 << 24
"""Length from which on the number is taken for one that is no length."""


class Strings:
    """An array of strings that a descriptor describes."""

    def __init__(
        self,
        address: int,
        length: int,
        lower: tuple[int, ...],
        extents: tuple[int, ...],
        steps: tuple[int, ...],
    ) -> None:
        self.address = address
        self.length = length
        self.lower = lower
        self.extents = extents
        self.steps = steps
        """Distance of neighbours along each dimension, in bytes."""

    @property
    def is_dense(self) -> bool:
        """Whether there are no gaps between the elements."""
        expected = self.length
        for extent, step in zip(self.extents, self.steps):  # noqa: B905  # GDB may have Python 3.7
            if extent > 1 and step != expected:
                return False
            expected *= extent
        return True

    def string(self) -> gdb.Type:
        """Return the type of an element."""
        return string_type(self.length)

    def type_name(self) -> str:
        """Return the name of the array's type, as GDB writes those of other arrays."""
        ranges = zip(self.lower, self.extents)  # noqa: B905
        bounds = [f"{low}:{low + n - 1}" if low != 1 else str(n) for low, n in ranges]
        return f"character*{self.length} ({','.join(bounds)})"

    def whole(self) -> gdb.Value:
        """Return the array, if its elements are dense."""
        kind = self.string()
        for low, extent in zip(self.lower, self.extents):  # noqa: B905
            kind = kind.array(low, low + extent - 1)
        return gdb.Value(self.address).cast(kind.pointer()).dereference()

    def element(self, *indices: int) -> gdb.Value:
        """Return an element.

        :raises gdb.GdbError: if there is none.
        """
        if len(indices) != len(self.extents):
            raise gdb.GdbError("Wrong number of subscripts")
        at = self.address
        bounds = zip(self.lower, self.extents)  # noqa: B905
        for index, (low, extent), step in zip(indices, bounds, self.steps):  # noqa: B905
            high = low + extent - 1
            if not low <= index <= high:
                raise gdb.GdbError(f"no such vector element: {index} is not in {low}:{high}")
            at += (index - low) * step
        return gdb.Value(at).cast(self.string().pointer()).dereference()


def string_type(length: int) -> gdb.Type:
    """Return the type of a string."""
    return gdb.lookup_type("character").array(1, length)


def is_bare(kind: gdb.Type) -> bool:
    """Return whether a type is the structure without name, size and members."""
    return bool(
        kind.code == gdb.TYPE_CODE_STRUCT
        and not kind.sizeof
        and not (kind.name or kind.tag)
        and not kind.fields()
    )


def strings_of(value: gdb.Value) -> Strings | None:
    """Return the array of strings at a structure without members; None if there is none."""
    # GDB knows a type "long" in a frame of Fortran only if some library has debug information of C.
    if value.address is None or gdb.Value(0).type.sizeof != 8:
        return None
    memory = gdb.selected_inferior()
    at = int(value.address)
    try:
        head = _HEAD.unpack(memory.read_memory(at, _HEAD.size).tobytes())
        address, _, length, _, rank, letter, _, span = head
        if letter != _IS_CHARACTER or not 0 < rank <= _MOST_DIMENSIONS or length > LONGEST:
            return None
        data = memory.read_memory(at + _HEAD.size, rank * _DIMENSION.size).tobytes()
    except (gdb.error, struct.error):
        return None
    if not address:
        return None
    has_own_bounds = not _is_assumed_shape(at)
    lower, extents, steps, count = [], [], [], 1
    for stride, low, high in _DIMENSION.iter_unpack(data):
        lower.append(low if has_own_bounds else 1)
        extents.append(max(0, high - low + 1))
        steps.append(stride * (span or length))
        count *= extents[-1]
    if count > _MOST_ELEMENTS:
        return None
    return Strings(address, length, tuple(lower), tuple(extents), tuple(steps))


def _is_assumed_shape(descriptor: int) -> bool:
    """Return whether the descriptor at an address is that of an assumed-shape dummy argument.

    Its lower bounds are not those of the descriptor, which is the caller's. gfortran marks these
    arguments as its own, without a line, unlike allocatable and pointer arguments.
    """
    try:
        frame = gdb.selected_frame()
        block = frame.block()
        while block is not None and not block.is_global:
            for symbol in block:
                if not symbol.is_argument or symbol.line or not is_bare(symbol.type):
                    continue
                if int(symbol.value(frame).address) == descriptor:
                    return True
            block = None if block.function is not None else block.superblock
    except (gdb.error, RuntimeError, TypeError):  # no frame, no block, no address
        return False
    return False
