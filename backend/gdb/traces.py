"""The traces of one rank: values that its GDB collects at each hit of a place.

GDB's Python collects and keeps them (:mod:`.tracing_in_gdb`); a running rank can be asked, too.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.breakpoint_operations import ListTrace, StartTrace, StopTrace
from pgdb.overlay.operations import ReadBlock, Reduce, trace_of
from pgdb.patterns import pattern
from pgdb.records import Block, Done, Failure, Record, Text, Variable, Variables

NO_VALUE = (
    "the values of a trace are numbers for 'stat', 'plot' and 'dump'; 'traces N' shows its rows"
)
_OF_PYTHON = pattern(r"\.py:\d+\Z")
_NOT_IN_PYTHON = (
    "a trace collects at places of compiled code, not at lines of Python; 'break FILE.py:LINE' "
    "stops there, and 'until-differ py:NAME --at FILE.py:LINE' compares values from hit to hit"
)
_ITEM_BYTES = 8
_LETTERS = {"q": "i", "d": "f"}
_ENDIAN = "<" if sys.byteorder == "little" else ">"
_MOST_PLACES = 3
_MOST_LOOKS = 100
"""Most looks whose number of rows is kept: the second look comes at once, or never."""


async def start(gdb: GdbSession, operation: StartTrace) -> Record:
    """Make a trace; answer with a Text of its place."""
    found = await _ask(
        gdb,
        "start",
        operation.number,
        operation.place,
        list(operation.expressions),
        operation.condition,
        operation.every,
        operation.first,
    )
    if isinstance(found, Failure):
        is_python = _OF_PYTHON.search(operation.place) and "No source file" in found.message
        return Failure(message=_NOT_IN_PYTHON) if is_python else found
    return Text(text=_places_text(found["places"], operation.place))


def _places_text(places: Sequence[tuple[str, str, int, str]], typed: str) -> str:
    """Return the places of a trace; those without a name are counted for each object file."""
    named = [text for each in places if (text := _place_text(*each))]
    nameless = Counter(library for *place, library in places if not any(place))
    if not named and len(places) == 1:
        return " in ".join(filter(None, (typed, *nameless)))
    # A text, with the number of places that it stands for.
    items = [(text, 1) for text in named]
    for library, count in nameless.items():
        where = f" in {library}" if library else " without line information"
        items.append((f"{count} place{'s' * (count != 1)}{where}", count))
    texts = [text for text, _ in items[:_MOST_PLACES]]
    if left := sum(count for _, count in items[_MOST_PLACES:]):
        texts.append(f"{left} more")
    return ", ".join(texts) or typed


def _place_text(function: str, file: str, line: int, library: str) -> str:
    """Return one place; empty if only its object file is known."""
    where = f" at {file}:{line}" if file else f" in {library}" if library else ""
    return f"{function}{where}" if function else f"{file}:{line}" if file else ""


async def stop(gdb: GdbSession, operation: StopTrace) -> Record:
    """Delete a trace and its values."""
    result = await gdb.send(python_calls.call("tracing_in_gdb.stop", operation.number))
    return failure(result) if result.kind == "error" else Done()


async def rows(gdb: GdbSession, operation: ListTrace) -> Record:
    """List rows of a trace; answer as :class:`ListTrace` says."""
    found = await _ask(gdb, "rows", operation.number, operation.begin, operation.count)
    if isinstance(found, Failure):
        return found
    items = [Variable(name="rows", value=str(found["total"]))]
    if found["is_full"]:
        items.append(Variable(name="full", value="1"))
    for column, values in enumerate(found["columns"]):
        for row, value in enumerate(values, start=operation.begin):
            items.append(Variable(name=f"{row}.{column}", value=value))
    return Variables(items=tuple(items))


async def block(gdb: GdbSession, operation: ReadBlock) -> Record:
    """Return the numbers of a column as those of an array; see :func:`trace_of`."""
    number, column = trace_of(operation.expression) or (0, "")
    found = await _ask(gdb, "numbers", number, column)
    if isinstance(found, Failure):
        return found
    try:
        data = base64.b64decode(found["data"])
    except binascii.Error as error:
        return Failure(message=f"the values of trace {number} are damaged: {error}")
    if len(data) > operation.limit_bytes:
        return Failure(
            message=f"trace {number} has {len(data)} bytes; 'set array-limit' is the limit"
        )
    end = operation.start + operation.count if operation.count else None
    return Block(
        dtype=f"{_ENDIAN}{_LETTERS[found['letter']]}{_ITEM_BYTES}",
        shape=(len(data) // _ITEM_BYTES,),
        data=data[operation.start * _ITEM_BYTES : end and end * _ITEM_BYTES],
        start=operation.start,
    )


class TraceLooks:
    """The latest looks at the numbers of traces, so that a second look finds no further rows.

    A histogram takes two looks, and a rank that runs collects rows between them.
    """

    def __init__(self, gdb: GdbSession) -> None:
        self._gdb = gdb
        self._rows: dict[int, int] = {}  # by the number of the request

    async def numbers(self, operation: Reduce, request_id: int) -> Record:
        """Return the numbers of a column, those of an earlier look if *operation* names one."""
        count = self._rows.get(operation.of_look, 0)
        wanted = ReadBlock(
            expression=operation.expression, limit_bytes=operation.limit_bytes, count=count
        )
        record = await block(self._gdb, wanted)
        if isinstance(record, Block) and operation.of_look in self._rows:
            # No count asks for all rows, and the first look may have found none.
            return replace(record, data=record.data[: count * _ITEM_BYTES])
        if isinstance(record, Block):
            self._rows[request_id] = record.shape[0]
            while len(self._rows) > _MOST_LOOKS:
                del self._rows[next(iter(self._rows))]
        return record


async def _ask(gdb: GdbSession, function: str, *arguments: object) -> Any:
    """Return the answer of a function of :mod:`.tracing_in_gdb`, or a Failure."""
    return await python_calls.ask(
        gdb, f"tracing_in_gdb.{function}", *arguments, needed_for="traces need"
    )
