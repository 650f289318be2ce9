"""Elements of Fortran arrays of strings whose length is a variable; runs in GDB's Python.

GDB (13.1 and 18.1) takes such strings for empty when it looks for an element, as in ``words(2)`` of
a ``character(len=n) :: words(m)``. It shows the first element, whatever the index is. So a call of
a convenience function, which finds the element, takes the place of ``words(2)``.
"""

from __future__ import annotations

import re
import sys

import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import gdb

_FUNCTION = "_element"
"""Name of the convenience function: of an array and indices it gives the element."""
# A text, or a name before a parenthesis that is no component and no name of GDB's.
_NAME = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w%$.:])[A-Za-z]\w*(?=\s*\()")


def rewrite(expression: str) -> None:
    """Print an expression with which GDB finds the elements; nothing where it does by itself."""
    if gdb.parameter("language") not in ("auto", "fortran"):
        return
    rewritten = _NAME.sub(_replaced, expression)
    if rewritten != expression:
        plain = re.sub(rf"(\${_FUNCTION}\(\w+, )\s*\(", r"\1", rewritten)
        gdb.write(f"{plain}\n")


def _replaced(match: re.Match[str]) -> str:
    name = match[0]
    if name[0] in "'\"" or not _is_array_of_strings(name):
        return name
    return f"${_FUNCTION}({name}, "


def _is_array_of_strings(name: str) -> bool:
    try:
        kind = gdb.parse_and_eval(name).type.strip_typedefs()
    except gdb.error:
        return False
    if descriptors.is_bare(kind):
        return descriptors.strings_of(gdb.parse_and_eval(name)) is not None
    if kind.code != gdb.TYPE_CODE_ARRAY or kind.sizeof:
        return False
    while kind.code == gdb.TYPE_CODE_ARRAY:
        kind = kind.target().strip_typedefs()
    return bool(kind.code == gdb.TYPE_CODE_STRING and kind.dynamic)


class _Element(gdb.Function):  # type: ignore[misc]
    """The element of an array of strings that has the given indices."""

    def invoke(self, array: gdb.Value, *indices: gdb.Value) -> gdb.Value:
        """Return the element.

        :raises gdb.GdbError: if there is none, or GDB does not know where it is.
        """
        kind = array.type.strip_typedefs()
        if descriptors.is_bare(kind):
            strings = descriptors.strings_of(array)
            if strings is None:
                raise gdb.GdbError("the bounds of the array are not known")
            return strings.element(*map(int, indices))
        ranges = []
        while kind.code == gdb.TYPE_CODE_ARRAY:
            ranges.append(kind.range())
            kind = kind.target().strip_typedefs()
        if len(indices) != len(ranges):
            raise gdb.GdbError("Wrong number of subscripts")
        if array.address is None:
            raise gdb.GdbError("value has been optimized out")
        offset, extent = 0, 1
        # The innermost type is that of the first dimension, whose index varies fastest.
        for index, (low, high) in zip(map(int, indices), reversed(ranges), strict=True):
            # The upper bound of the last dimension may be unknown, which GDB shows as none.
            if extent == 0:
                raise gdb.GdbError("the bounds of the array are not known")
            if index < low or low <= high < index:
                raise gdb.GdbError(f"no such vector element: {index} is not in {low}:{high}")
            offset += (index - low) * extent
            extent *= max(0, high - low + 1)
        first = array.address.cast(kind.pointer())
        string = first.dereference().type
        if not string.sizeof:
            raise gdb.GdbError("the length of the strings is not known")
        characters = first.cast(gdb.lookup_type("long")) + offset * string.sizeof
        return characters.cast(string.pointer()).dereference()


def main() -> None:
    """Define the convenience function; without it GDB's elements of such arrays are wrong."""
    try:
        _Element(_FUNCTION)
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: elements of arrays of strings are those of GDB: {error}\n")
