"""Calls of the functions that run inside GDB, in its Python: those of the modules ``*_in_gdb``."""

from __future__ import annotations

import json
from typing import Any

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Failure


def call(function: str, *arguments: object) -> str:
    r"""Return the MI command that calls a function.

    >>> call("explore_in_gdb.show", "x", [], 3)
    '-interpreter-exec console "python explore_in_gdb.show(\\"x\\", [], 3)"'
    """
    # Texts, numbers and lists as JSON are those of Python, too.
    words = [str(each) if isinstance(each, bool) else json.dumps(each) for each in arguments]
    return console(f"python {function}({', '.join(words)})")


async def ask(
    gdb: GdbSession, function: str, *arguments: object, needed_for: str, thread: str = ""
) -> Any:
    """Return the value that a function has written as JSON; a Failure if it has written an error.

    :param needed_for: the words for a GDB without Python.
    :param thread: GDB's number of the thread to select meanwhile; empty for the selected one.
    :raises GdbError: if GDB ends.
    """
    command = call(function, *arguments)
    if thread:
        command = command.replace("-interpreter-exec", f"-interpreter-exec --thread {thread}", 1)
    result = await gdb.send(command)
    if result.kind != "done":
        return failure(result)
    try:
        # Notices of GDB, such as one of a new thread, can stand before it.
        found = json.loads(result.text.rstrip().rpartition("\n")[2])
    except ValueError:
        return Failure(message=f"GDB has no Python, which {needed_for}")
    if isinstance(found, dict) and "error" in found:
        return Failure(message=str(found["error"]))
    return found
