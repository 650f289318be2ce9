"""Check of an expression before a rank runs to the place where it is evaluated."""

from __future__ import annotations

from pgdb.backend.gdb.python_calls import ask
from pgdb.backend.gdb.python_parts import PYTHON_PART
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.breakpoint_operations import CheckExpression
from pgdb.patterns import pattern
from pgdb.records import Done, Failure, Record

_SYNTAX = pattern(
    r"A (?:syntax|parse) error in expression|Unmatched single quote|Unterminated (?:string|char)"
    r"|Invalid (?:number|character) "
)
_NO_SYMBOL = pattern(r"No symbol \"(\w+)\" in current context\.")
_NO_MEMBER = pattern(
    r"There is no member named |Attempt to extract a component of a value that is "
)
_OPTIONS = pattern(r"\A\s*-.*?\s--\s")
"""Options of ``print`` before an expression."""


async def check(gdb: GdbSession, operation: CheckExpression, *, has_own_syntax: bool) -> Record:
    """Return a Failure for an expression that cannot have a value at a place, else Done.

    GDB's other errors about a condition, such as one about a comma, are none about a value.

    :param has_own_syntax: whether PGDB rewrites the expression before GDB evaluates it.
    :raises GdbError: if GDB ends.
    """
    text = _OPTIONS.sub("", PYTHON_PART.sub("0", operation.expression))
    found = await ask(
        gdb, "expression_check_in_gdb.check", operation.place, text, needed_for="checks need"
    )
    if isinstance(found, Failure):
        return Done()  # the first hit shows the error
    why = found["why"]
    if _SYNTAX.match(why):
        return Done() if has_own_syntax else Failure(message=why)
    is_final = _NO_SYMBOL.match(why) or (_NO_MEMBER.match(why) and not has_own_syntax)
    return Failure(message=why) if is_final and found["is_known"] else Done()
