"""Parts of elements to which iterators point, see ``iterators_in_gdb.py``."""

from __future__ import annotations

from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Failure

_NO_MEMBER = ("There is no member or method named ", "The container has no such element")


async def dereferenced(gdb: GdbSession, expression: str, record: Failure) -> str | None:
    """Return an expression in which iterators are dereferenced.

    The result is None unless *record*, the answer to *expression*, is GDB's error for a member that
    the iterator does not have.

    :raises GdbError: if GDB ends.
    """
    if not record.message.startswith(_NO_MEMBER):
        return None
    result = await gdb.send(call("iterators_in_gdb.rewrite", expression))
    return (result.text.strip() or None) if result.kind == "done" else None
