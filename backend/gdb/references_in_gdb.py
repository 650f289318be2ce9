"""References to objects with virtual bases, which GDB prints wrong; runs inside GDB, in its Python.

GDB (13.1) reads the members of a virtual base from somewhere else in memory where it prints a
reference to a part of a larger object. The object itself it reads right, so that the printer here
prints that one.
"""

from __future__ import annotations

import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]

_REFERENCES = (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF)


def _has_virtual_base(kind: gdb.Type) -> bool:
    """Return whether a class, or one that it derives from, has a virtual base."""
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return False
    for field in kind.fields():
        # The place of a virtual base in the object is no constant.
        if field.is_base_class and (
            getattr(field, "bitpos", None) is None or _has_virtual_base(field.type.strip_typedefs())
        ):
            return True
    return False


class _Printer:
    """Printer of a reference as ``print`` shows it, with the members of the object.

    A printer cannot see whether the reference is a member of another object. Of that one GDB prints
    the address alone, and the printer here the object too.
    """

    is_printing = False
    """Whether a reference is being printed: those in its object have their address alone."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text of the reference; three dots in the list of a frame's arguments."""
        options = printers.options_for_parts(levels=0)
        if options is None:
            return "..."
        target = self._value.referenced_value()
        text = f"@{int(target.address):#x}"
        if _Printer.is_printing:
            return text
        _Printer.is_printing = True
        try:
            text = f"{text}: {target.format_string(**options)}"
        finally:
            _Printer.is_printing = False
        # "print" writes the type; "info locals" does not, and follows references.
        return text if options.get("deref_refs") else f"({self._value.type}) {text}"


def _printer_of(value: gdb.Value) -> _Printer | None:
    kind = value.type.strip_typedefs()
    if kind.code not in _REFERENCES:
        return None
    return _Printer(value) if _has_virtual_base(kind.target().strip_typedefs()) else None


def main() -> None:
    """Register the printer; without it such references show values from elsewhere."""
    printers.register(_printer_of, "references")
