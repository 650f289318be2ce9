"""Parts of values of C++ that GDB prints, but does not find; see ``cpp_parts_in_gdb.py``."""

from __future__ import annotations

from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Failure

_NOT_FOUND = (
    "There is no member or method named ",
    "There is no member named ",
    "The container has no such element",
    "Attempt to take address of value not located in memory",
)


async def with_parts(gdb: GdbSession, expression: str, record: Failure) -> str | None:
    """Return an expression in which GDB finds the parts of iterators, objects and containers.

    The result is None unless *record*, the answer to *expression*, is GDB's error for a part that
    it does not find.

    :raises GdbError: if GDB ends.
    """
    if not record.message.startswith(_NOT_FOUND):
        return None
    result = await gdb.send(call("cpp_parts_in_gdb.rewrite", expression))
    return (result.text.strip() or None) if result.kind == "done" else None
