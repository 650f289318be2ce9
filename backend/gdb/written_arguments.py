"""Values of the arguments of an MPI call as its source line has them, evaluated by GDB.

They serve where the machine code does not say the value: after a conditional move, for example, the
register of ``rank ? 0 : peer`` holds either.
"""

from __future__ import annotations

import asyncio

from pgdb.backend.gdb.mi import quote
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.mpi_calls.source_line import words_of
from pgdb.mpi_calls import CallSite, MpiCall
from pgdb.patterns import pattern

_ARGUMENTS = {
    "dest": "dest",
    "source": "source",
    "root": "root",
    "tag": "tag",
    "receive_tag": "tag2",
    "count": "count",
    "receive_count": "count2",
    "displacement": "displacement",
}
"""Fields of a call that are numbers, and the names of their arguments."""
# Neither a call of a function nor an assignment. A name in capitals is a constant of MPI.
_HARMLESS = pattern(r"(?!.*(?:\+\+|--))[A-Za-z_][\w\s.+\-*/%\[\]>]*\Z")
_NUMBER = pattern(r"-?\d+\Z")
_EVALUATE = "with may-call-functions off -- with language c -- output (long)({})"


async def written_arguments(
    gdb: GdbSession, thread: str, level: int, call: MpiCall, site: CallSite | None
) -> dict[str, int]:
    """Return the values of arguments that are unknown otherwise, by the names of the arguments.

    *level* is the frame of the call in the user's code, at *site*.

    :raises GdbError: if GDB ends.
    """
    if site is None or not site.line:
        return {}
    words = await asyncio.to_thread(words_of, site.fullname, site.line, call.function)
    wanted = {
        _ARGUMENTS[each.argument]: each.text
        for each in words
        if each.argument in _ARGUMENTS
        and getattr(call, each.argument) is None
        and _HARMLESS.match(each.text)
    }
    commands = (quote(_EVALUATE.format(text)) for text in wanted.values())
    asked = gdb.send_together(
        *(
            f"-interpreter-exec --thread {thread} --frame {level} console {command}"
            for command in commands
        )
    )
    answers = await asyncio.gather(*asked)
    return {
        name: int(answer.answer)
        for name, answer in zip(wanted, answers, strict=True)
        if answer.kind == "done" and _NUMBER.match(answer.answer.strip())
    }
