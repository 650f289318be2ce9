"""Errors about names that the selected frame does not know, with the scopes that know them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb.python_calls import ask
from pgdb.backend.gdb.python_parts import is_python
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.operations import AboutExpression
from pgdb.patterns import pattern
from pgdb.records import Failure

_NO_SYMBOL = pattern(r"No symbol \"(\w+)\" in current context\.\Z")
_MOST_NAMES = 4
_OF_PYTHON = (
    "A value of Python has no type of GDB's: 'print', 'py-print', 'stat', 'plot', 'dump', "
    "'assert', 'compare' and 'save' take it."
)
# Commands whose expression is about the selected frame, with their shortest forms.
_OF_FRAME = pattern(
    r"\s*(?:disp(?:l(?:ay?)?)?|x|outp(?:ut?)?|printf|echo|call|pt(?:ype?)?|wha(?:t(?:is?)?)?"
    r"|wat(?:ch?)?|[ar]wat(?:ch?)?|pr(?:int?)?|inspect|set(?: var(?:iable)?)?)(?:/\w*)?(?=[\s(]|\Z)"
)


async def with_scopes(gdb: GdbSession, operation: Any, failure: Failure) -> Failure:
    """Return an error that names where the unknown name of *failure* is known, if GDB finds it.

    :raises GdbError: if GDB ends.
    """
    missing = _NO_SYMBOL.search(failure.message)
    if missing is None or not gdb.is_alive:
        return failure
    text = getattr(operation, "command", "")
    # A condition of a breakpoint may be about another frame than the selected one.
    has_frames = _OF_FRAME.match(text) is not None
    if isinstance(operation, AboutExpression):
        text, has_frames = operation.expression, True
    name = missing[1]
    if name == "py" and is_python(text):
        return replace(failure, message=f"{failure.message} {_OF_PYTHON}")
    found = await ask(gdb, "scopes_in_gdb.find", name, text, has_frames, needed_for="finds names")
    if isinstance(found, Failure):
        return failure
    words = in_words(found["names"], found["function"]) or about_macro(name, found["macro"])
    return replace(failure, message=f"{failure.message} {words}") if words else failure


def about_macro(name: str, value: str) -> str:
    """Return the sentence about a name that is a macro of C, by its value; ``?`` is an unknown one.

    >>> about_macro("NULL", "0"), about_macro("total", "")
    ('NULL is a macro, and GDB knows those of programs compiled with -g3 alone: write 0.', '')
    """
    of_macros = "GDB knows those of programs compiled with -g3 alone"
    if value == "?":
        return f"Names in capitals are usually macros, and {of_macros}."
    return f"{name} is a macro, and {of_macros}: write {value}." if value else ""


def in_words(names: list[str], function: str) -> str:
    """Return the sentence about the scopes that know a name.

    >>> in_words(["field::x", "grid::x"], ""), in_words([], "main")
    ('Other scopes have field::x, grid::x.', 'The frame of main has it: frame function main.')
    """
    if names:
        rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        some = ", ".join(names[:_MOST_NAMES])
        return f"{'Other scopes have' if len(names) > 1 else 'Another scope has'} {some}{rest}."
    return f"The frame of {function} has it: frame function {function}." if function else ""
