"""Traces: values that are collected at each hit of a place; runs inside GDB, in its Python.

A trace is an internal breakpoint that never stops the rank and whose hits GDB does not report. So a
hit costs about what a breakpoint costs whose condition is false, and the evaluation of the
expressions. The values stay in GDB until they are asked for.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from typing import Any

import gdb

MOST_VALUES = 1 << 22
"""Most values that a trace keeps; it collects no more then."""
_MOST_TEXT = 200
_MOST_ELEMENTS = 20
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_CHAR)
_REFERENCES = (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF))
_FLOAT_BYTES = (4, 8)
_ERRORS = (gdb.error, RuntimeError, ValueError, OverflowError)
_traces: dict[int, _Trace] = {}


class _Trace(gdb.Breakpoint):  # type: ignore[misc]  # only GDB has the base class
    """One place, and the values that were collected there."""

    def __init__(
        self, place: str, expressions: list[str], condition: str, every: int, first: int
    ) -> None:
        super().__init__(place, internal=True)
        self.expressions = expressions
        self.only_if = condition
        self.every = every
        room = MOST_VALUES // len(expressions)
        self.most = min(first or room, room)
        self.is_cut = not first or first > room
        self.hits = 0
        self.columns: list[list[Any]] = [[] for _ in expressions]

    @property
    def rows(self) -> int:
        """Number of collected rows."""
        return len(self.columns[0])

    def stop(self) -> bool:
        """Collect a row if it is time; let the rank run on."""
        if self.rows < self.most and self._is_meant():
            self.hits += 1
            if (self.hits - 1) % self.every == 0:
                for index, expression in enumerate(self.expressions):
                    self.columns[index].append(_value(expression))
        if self.rows >= self.most:
            # A breakpoint must not be changed while GDB judges its hit.
            gdb.post_event(self._disable)
        return False

    def _is_meant(self) -> bool:
        # GDB calls stop() before it judges the condition of a breakpoint, and allows only one.
        if not self.only_if:
            return True
        try:
            return bool(gdb.parse_and_eval(self.only_if))
        except _ERRORS:
            return True  # as a breakpoint stops whose condition has an error

    def _disable(self) -> None:
        if self.is_valid():
            self.enabled = False


def _value(expression: str) -> Any:
    """Return the value of an expression: a number if it is one, else GDB's text."""
    try:
        value = gdb.parse_and_eval(expression)
        plain = value.type.strip_typedefs()
        if plain.code in _REFERENCES:
            value = value.referenced_value()
            plain = value.type.strip_typedefs()
        if plain.code == gdb.TYPE_CODE_FLT and plain.sizeof in _FLOAT_BYTES:
            return float(value)
        if plain.code in _INTEGERS:
            return int(value)
        return str(value.format_string(max_elements=_MOST_ELEMENTS))[:_MOST_TEXT]
    except _ERRORS as error:
        return f"<error: {error}>"


def start(
    number: int, place: str, expressions: list[str], condition: str, every: int, first: int
) -> None:
    """Make a trace; write its locations as JSON: function, file, line and object of each."""
    try:
        # A breakpoint waits for a library that defines its place; a wrong place is an error here.
        decoded = gdb.decode_line(place)[1] or ()
        probe = gdb.Breakpoint(place, internal=True)
    except _ERRORS as error:
        _write({"error": str(error)})
        return
    try:
        # GDB reads a condition in the scope of the breakpoint, so that a wrong name is found now.
        for text in filter(None, (*expressions, condition)):
            probe.condition = text
        places = _places(probe, decoded)
    except _ERRORS as error:
        _write({"error": f"{text}: {error}"})
        return
    finally:
        probe.delete()
    stop(number)
    _traces[number] = _Trace(place, expressions, condition, every, first)
    _write({"places": places})


def _places(probe: Any, decoded: Any) -> list[tuple[str, str, int, str]]:
    """Return function, file, line and object file of each place at which a breakpoint stops.

    A function decodes to its first line, and a breakpoint stops behind the function's prologue. A
    place without line information has no file, and often no function.
    """
    if not hasattr(probe, "locations"):  # before GDB 13
        found = [
            (each.pc, (each.symtab.filename, each.line) if each.symtab else None)
            for each in decoded
        ]
    else:
        found = [(each.address, each.source) for each in probe.locations]
    return [(_function(at), *(source or ("", 0)), _object_file(at)) for at, source in found]


def _object_file(address: int | None) -> str:
    """Return the name of the library at an address, or else that of the program."""
    path = gdb.solib_name(address) if address else None
    return os.path.basename(path or gdb.current_progspace().filename or "")


def _function(address: int | None) -> str:
    block = gdb.block_for_pc(address) if address else None
    while block is not None and block.function is None:
        block = block.superblock
    return str(block.function) if block is not None else ""


def stop(number: int) -> None:
    """Delete a trace and its values."""
    old = _traces.pop(number, None)
    if old is not None and old.is_valid():
        old.delete()


def rows(number: int, begin: int, count: int) -> None:
    """Write *count* rows from *begin* on as JSON, a list for each column."""
    trace = _traces.get(number)
    if trace is None:
        _write({"error": _unknown(number)})
        return
    columns = [list(map(_text, column[begin : begin + count])) for column in trace.columns]
    is_full = trace.is_cut and trace.rows >= trace.most
    _write({"total": trace.rows, "is_full": is_full, "columns": columns})


def numbers(number: int, column: str) -> None:
    """Write all values of a column, in base64: integers of 64 bits, or doubles.

    *column* is the expression, its number from 1 on, or empty for the only one.
    """
    trace = _traces.get(number)
    try:
        if trace is None:
            raise LookupError(_unknown(number))
        values = trace.columns[_column(trace, number, column)]
        for row, each in enumerate(values, start=1):
            if isinstance(each, str):
                raise LookupError(f"row {row} of trace {number} has no number: {each}")
    except LookupError as error:
        _write({"error": str(error)})
        return
    are_integers = all(isinstance(each, int) and _LEAST <= each <= _GREATEST for each in values)
    letter = "q" if are_integers else "d"
    data = struct.pack(f"={len(values)}{letter}", *values)
    _write({"letter": letter, "data": base64.b64encode(data).decode("ascii")})


def _column(trace: _Trace, number: int, column: str) -> int:
    names = trace.expressions
    if column in names:
        return names.index(column)
    if not column and len(names) == 1:
        return 0
    if column.isdigit() and 1 <= int(column) <= len(names):
        return int(column) - 1
    raise LookupError(f"trace {number} collects {', '.join(names)}, not {column or 'one value'}")


def _unknown(number: int) -> str:
    return f"there is no trace {number} on this rank; 'traces' lists them"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _write(answer: object) -> None:
    gdb.write(json.dumps(answer) + "\n")
    gdb.flush()
