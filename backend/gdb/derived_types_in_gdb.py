"""Arrays of derived types with allocatable components; runs inside GDB, in its Python.

GDB (13.1) finds out once where the allocatable and pointer components of an array's
elements are: for the first element. It prints the components of that one for all elements, or
``<not allocated>`` for all. A single element it reads right, so these arrays are printed element by
element here, in the form of GDB.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import gdb

_UNLIMITED = (1 << 32) - 1
_MOST_ELEMENTS = 1 << 20
"""Most elements that are printed where the user has no limit: bounds can be unset."""
_MARKS = {True: ("(", ")", " ", ", ", ", ..."), False: ("{", "}", ", ", " ", "...")}
"""Of Fortran and of C: brackets, what separates rows, what precedes a repeat, the cut end."""


def _innermost(kind: gdb.Type) -> gdb.Type:
    while kind.code == gdb.TYPE_CODE_ARRAY:
        kind = kind.target().strip_typedefs()
    return kind


class _Elements:
    """The text of one array."""

    def __init__(self, options: dict[str, Any], is_fortran: bool) -> None:
        self._options = options
        self._left = options.get("max_elements") or _MOST_ELEMENTS
        self._threshold = options.get("repeat_threshold") or _UNLIMITED
        self._indexes = bool(options.get("array_indexes"))
        self._is_fortran = is_fortran
        self._is_cut = False

    def text(self, value: gdb.Value) -> str:
        """Return the text of an array, or of a row of it."""
        opening, closing, row_end, before_repeat, cut = _MARKS[self._is_fortran]
        low, high = value.type.strip_typedefs().range()
        is_row = value.type.strip_typedefs().target().strip_typedefs().code == gdb.TYPE_CODE_ARRAY
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
            if element.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
                return self.text(element)
            self._left -= 1
            return str(element.format_string(**self._options))
        except gdb.error as error:
            self._left -= 1
            return f"<error: {error}>"


class _Printer:
    """Prints an array element by element."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text of the array; three dots in the list of a frame's arguments."""
        options = dict(gdb.print_options())
        if options.get("summary"):
            return "..."
        for name in ("max_elements", "repeat_threshold"):
            if options.get(name) == _UNLIMITED:
                options[name] = 0
        depth = options.get("max_depth", _UNLIMITED)
        options["max_depth"] = -1 if depth == _UNLIMITED else max(0, depth - 1)
        language = gdb.execute("show language", to_string=True)
        return _Elements(options, "fortran" in language).text(self._value)


def _printer_of(value: gdb.Value) -> _Printer | None:
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_ARRAY:
        return None
    element = _innermost(kind)
    if element.code != gdb.TYPE_CODE_STRUCT or not element.dynamic:
        return None
    return _Printer(value)


_printer_of.name = "pgdb-derived-types"  # type: ignore[attr-defined]  # for "info pretty-printer"


def main() -> None:
    """Register the printer; without it all works, but GDB's texts of such arrays are wrong."""
    if not hasattr(gdb, "print_options"):
        return
    try:
        gdb.pretty_printers.append(_printer_of)
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: arrays of derived types are printed as GDB does: {error}\n")
