"""Elements of Fortran arrays of strings whose length is a variable, which GDB 13.1 gets wrong.

GDB shows the first element whatever the index is, see ``fortran_elements_in_gdb.py``.
"""

from __future__ import annotations

from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern

_MAY_NAME_ONE = pattern(r"[A-Za-z]\w*\s*\(")


async def with_elements(gdb: GdbSession, text: str) -> str:
    """Return an expression or a command in which GDB finds the right elements.

    It is *text* itself unless the selected frame has such an array that *text* takes elements of.

    :raises GdbError: if GDB ends.
    """
    if _MAY_NAME_ONE.search(text) is None:
        return text
    result = await gdb.send(call("fortran_elements_in_gdb.rewrite", text))
    return result.text.strip() or text if result.kind == "done" else text
