"""Arrays and strings of Fortran that GDB prints wrong, or without end; runs in GDB's Python.

The bounds of a dummy array such as ``a(n, m)`` are not set at the entry of the procedure. If one
dimension has no elements and another has billions, GDB loops over these and takes no interrupt.

The length of a string such as ``character(len=*)`` is another variable. Where that one is optimized
out, or negative, GDB (13.1) has no byte of the string and prints one or more. It converts them from
a null pointer, which iconv takes for a request to reset its state: it succeeds, consumes nothing,
and GDB asks again, without end.

GDB (13.1) finds out once where the allocatable and pointer components of the elements of an array
are: for the first element. It prints the components of that one for all elements, or ``<not
allocated>`` for all. A single element it reads right, so the printer here goes through the
elements and writes them in the form of GDB.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]

_MOST_ELEMENTS = 1 << 20
"""Most elements that are printed where the user has no limit: bounds can be unset."""
_LARGEST = 1_000_000
"""Most elements along a dimension of an array without bytes that GDB is let print."""
_UNSET = "<its bounds are not set yet>"
_UNSET_LENGTH = "<its length is not set yet>"
_UNKNOWN_LENGTH = "<its length is not known>"
_WITH_GAPS = "<a section with gaps; name an element>"
_OPTIMIZED_OUT = "<optimized out>"
_MARKS = {True: ("(", ")", " ", ", ", ", ..."), False: ("{", "}", ", ", " ", "...")}
"""Of Fortran and of C: brackets, what separates rows, what precedes a repeat, the cut end."""

_OF_C = ("char8_t", "char16_t", "char32_t")
"""Characters of C and C++ that are characters to GDB; it takes ``char`` for an integer."""


def element_type(kind: gdb.Type) -> gdb.Type:
    """Return the type of an array's elements; a type that is no array is its own."""
    while kind.code == gdb.TYPE_CODE_ARRAY:
        kind = kind.target().strip_typedefs()
    return kind


def is_string(kind: gdb.Type) -> bool:
    """Return whether a type is of a string of Fortran.

    GDB makes an array of a string that it has the length of.
    """
    kind = kind.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_STRING:
        return True
    if kind.code != gdb.TYPE_CODE_ARRAY:
        return False
    element = kind.target().strip_typedefs()
    return bool(element.code == gdb.TYPE_CODE_CHAR and element.name not in _OF_C)


def _is_row(kind: gdb.Type) -> bool:
    return bool(kind.code == gdb.TYPE_CODE_ARRAY and not is_string(kind))


class _Elements:
    """The text of one array."""

    def __init__(
        self, options: dict[str, Any], is_fortran: bool, element: gdb.Type | None = None
    ) -> None:
        self._options = options
        self._kind = element
        self._left = options.get("max_elements") or _MOST_ELEMENTS
        self._threshold = options.get("repeat_threshold") or printers.UNLIMITED
        self._indexes = bool(options.get("array_indexes"))
        self._is_fortran = is_fortran
        self._is_cut = False

    def text(self, value: gdb.Value) -> str:
        """Return the text of an array, or of a row of it."""
        opening, closing, row_end, before_repeat, cut = _MARKS[self._is_fortran]
        low, high = value.type.strip_typedefs().range()
        is_row = _is_row(value.type.strip_typedefs().target().strip_typedefs())
        between = row_end if is_row else ", "
        parts = []
        index = low
        self._is_cut = False
        for text, run in itertools.groupby(self._texts(value, low, high)):
            count = len(list(run))
            # With indices no two elements are equal.
            if count > self._threshold and not self._indexes:
                parts.append(f"{text}{before_repeat}<repeats {count} times>")
            else:
                label = "({}) = " if self._is_fortran else "[{}] = "
                parts += [
                    f"{label.format(index + at)}{text}" if self._indexes else text
                    for at in range(count)
                ]
            index += count
        body = between.join(parts)
        if self._is_cut:
            body += " ..." if is_row else cut
        return f"{opening}{body}{closing}"

    def _texts(self, value: gdb.Value, low: int, high: int) -> Iterator[str]:
        for index in range(low, high + 1):
            if self._left <= 0:
                self._is_cut = True
                return
            yield self._element(value, index)

    def _element(self, value: gdb.Value, index: int) -> str:
        try:
            element = value[index]
            if _is_row(element.type.strip_typedefs()):
                return self.text(element)
            self._left -= 1
            if self._kind is not None:
                element = element.address.cast(self._kind.pointer()).dereference()
            return str(element.format_string(**self._options))
        except gdb.error as error:
            self._left -= 1
            return f"<error: {error}>"


class _Unset:
    """Printer of an array with nonsensical bounds, or of a string without a length."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def to_string(self) -> str:
        """Return the reason; three dots in the list of a frame's arguments."""
        return "..." if printers.is_left_out(gdb.print_options()) else self._reason


class _Printer:
    """Printer of an array, element by element."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text of the array; three dots in the list of a frame's arguments."""
        options = printers.options_for_parts()
        return "..." if options is None else text_of(self._value, options)


def text_of(value: gdb.Value, options: dict[str, Any], element: gdb.Type | None = None) -> str:
    """Return the text of an array; with *element* its elements are of this type."""
    return _Elements(options, printers.is_in_fortran(), element).text(value)


def _has_no_bounds(kind: gdb.Type) -> bool:
    """Return whether an array without bytes has a dimension of a nonsensical size."""
    has_bytes = kind.sizeof > 0
    extents = []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        try:
            low, high = kind.range()
        except gdb.error:  # the last dimension of a(5, *)
            return False
        extents.append(high - low + 1)
        kind = kind.target().strip_typedefs()
    # The elements may be strings without a length.
    is_empty = min(extents) <= 0 or not has_bytes
    return bool(is_empty and max(map(abs, extents)) > _LARGEST)


def _has_length(kind: gdb.Type) -> bool:
    """Return whether GDB has the length of a string, even if that is 0."""
    if kind.sizeof:
        return True
    if kind.dynamic:
        return False
    low, high = kind.range()
    return bool(high == low - 1)


def _why_without_length(kind: gdb.Type) -> str:
    # GDB leaves a length that is optimized out as it is, an expression.
    return _UNKNOWN_LENGTH if kind.dynamic else _UNSET_LENGTH


def _printer_of_strings(value: gdb.Value, kind: gdb.Type) -> _Printer | _Unset | None:
    """Return the printer of an array whose elements have the type of a string without a length.

    GDB (13.1) takes the elements for empty, and fails at an assertion as it compares two of them.
    """
    address = value.address
    if address is None:
        return _Unset(_OPTIMIZED_OUT)
    extents = []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        extents.append(kind.range())
        kind = kind.target().strip_typedefs()
    if any(high == low - 1 for low, high in extents):
        # It is empty, or GDB has no bounds either, and says so.
        return None
    # GDB sets the length of a string that is no element.
    whole = address.cast(kind.pointer()).dereference().type
    if not _has_length(whole):
        return _Unset(_why_without_length(whole))
    for low, high in reversed(extents):
        if high < low - 1:
            return _Unset(_UNSET)
        whole = whole.array(low, high)
    return _Printer(address.cast(whole.pointer()).dereference())


def _printer_of_descriptor(value: gdb.Value) -> _Printer | _Unset | None:
    """Return the printer of an assumed-shape array of strings; None of anything else."""
    strings = descriptors.strings_of(value)
    if strings is None:
        return None
    return _Printer(strings.whole()) if strings.is_dense else _Unset(_WITH_GAPS)


def _printer_of(value: gdb.Value) -> _Printer | _Unset | None:
    kind = value.type.strip_typedefs()
    if descriptors.is_bare(kind):
        return _printer_of_descriptor(value)
    if is_string(kind):
        if _has_length(kind):
            return None
        return _Unset(_OPTIMIZED_OUT if value.is_optimized_out else _why_without_length(kind))
    if kind.code != gdb.TYPE_CODE_ARRAY:
        return None
    if _has_no_bounds(kind):
        return _Unset(_UNSET)
    element = element_type(kind)
    if element.code == gdb.TYPE_CODE_STRING and not kind.sizeof:
        return _printer_of_strings(value, kind)
    if element.code != gdb.TYPE_CODE_STRUCT or not element.dynamic:
        return None
    return _Printer(value)


def main() -> None:
    """Register the printer; without it GDB's texts of such arrays are wrong, or GDB hangs."""
    printers.register(_printer_of, "fortran-arrays")
