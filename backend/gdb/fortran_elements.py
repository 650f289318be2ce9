"""Parts of Fortran variables that GDB gets wrong, see ``fortran_elements_in_gdb.py``."""

from __future__ import annotations

import re

from msgspec.structs import replace

from pgdb.backend.gdb import queries
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.parser_words_in_gdb import WORDS
from pgdb.backend.gdb.python_calls import call
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern
from pgdb.records import Failure

# A name before a parenthesis, a component, a name that is a word of GDB's parser, or an address.
_MAY_NAME_ONE = pattern(rf"[A-Za-z]\w*\s*\(|%|&|\b(?:{'|'.join(WORDS)})\b", re.I)
_PARTS = pattern(r"\$_pgdb_parts\((?P<arguments>.*)\)\Z")
_WORD = pattern(rf"(?<![\w$%])(?:{'|'.join(WORDS)})\b", re.I)
_CONDITION = pattern(r"\sif\b(?P<text>.+)", re.S)
_WATCH = pattern(r"[ra]?watch\b(?:\s+-l\w*)?\s+(?P<expression>.*\S)", re.S)
_NO_PART = pattern(r"Attempt to extract a component|There is no member named")
_TOO_LARGE = "max-value-size"
_NO_SYNTAX = "syntax error in expression"
_IN_C, _RANK = "'with language c --", "$_rank"
# Commands whose arguments are text; "rows%id" in them is no part of a variable.
_TAKES_TEXT = pattern(
    r"\s*(?:ec(?:ho?)?|she(?:ll?)?|!|py(?:thon)?|python-interactive|pi|guile|gu|alias|apropos|cd"
    r"|define|document|file|h(?:elp)?|make|shell|so(?:u(?:r(?:ce?)?)?)?|tty|unalias)(?:\s|\Z|(?<=!))"
)
_NAMES_A_TYPE = pattern(r"\s*(?:ptype|whatis)\b")


async def with_elements(gdb: GdbSession, text: str, *, is_command: bool = False) -> str:
    """Return an expression or a command in which GDB finds the right parts.

    It is *text* itself unless the selected frame has such variables that *text* takes parts of.

    :raises GdbError: if GDB ends.
    """
    if is_command and _TAKES_TEXT.match(text):
        return text
    if _MAY_NAME_ONE.search(text) is None and not (is_command and _NAMES_A_TYPE.match(text)):
        return text
    result = await gdb.send(call("fortran_elements_in_gdb.rewrite", text, is_command))
    return result.text.strip() or text if result.kind == "done" else text


async def with_parser_words(gdb: GdbSession, command: str, record: Failure) -> Failure:
    """Return the error for a command with the word in its condition that is GDB's own.

    The condition is about another place than the selected frame, so that nothing else can take the
    place of the word.

    :raises GdbError: if GDB ends.
    """
    condition = _CONDITION.search(command)
    if condition is None or _NO_SYNTAX not in record.message:
        return record
    word = _WORD.search(condition["text"])
    if word is None:
        return record
    language = await gdb.send(console("show language"))
    if "fortran" not in language.text:
        return record
    words = (
        f"'{word[0]}' is a word of GDB's parser for Fortran; {_IN_C} {command}' takes it for a name"
    )
    number = f", and {_RANK} is the number of the rank" if word[0].lower() == "rank" else ""
    return replace(record, message=f"{record.message.rstrip('.')}: {words}{number}")


async def with_way_to_watch(gdb: GdbSession, command: str, record: Failure) -> Failure:
    """Return the error for a watchpoint on a part that GDB finds with PGDB's functions alone.

    :raises GdbError: if GDB ends.
    """
    watched = _WATCH.match(command)
    if watched is None or not _NO_PART.match(record.message):
        return record
    typed = watched["expression"]
    found = await with_elements(gdb, typed)
    if found == typed:
        return record
    tried = await gdb.send(console(f"output {found}"))
    if tried.kind != "done" and _TOO_LARGE not in tried.message:
        return record  # it is about the user's expression
    if is_component_of_all(found):
        array, _, component = typed.partition("%")
        return replace(
            record,
            message=f"'{typed}' is a component of all elements, which GDB cannot watch together; "
            f"watch one, as in 'watch {array}(INDEX)%{component}'",
        )
    if "$_" not in found:
        return replace(record, message=f"GDB knows '{typed}' as '{found}': 'watch {found}'")
    return replace(
        record,
        message=f"GDB cannot watch '{typed}', for which it has no expression; watch its address: "
        f"'print &({typed})', then {_IN_C} watch *(TYPE *) ADDRESS'",
    )


def is_component_of_all(expression: str) -> bool:
    """Return whether a rewritten expression is one component of all elements of an array.

    >>> is_component_of_all("$_pgdb_parts(rows(1:2), 0)"), is_component_of_all("rows(2)%id")
    (True, False)
    """
    call = _PARTS.match(expression)
    return call is not None and closes_at_end(call["arguments"])


def closes_at_end(text: str) -> bool:
    """Return whether the parentheses around a text belong together.

    >>> closes_at_end("z(1)"), closes_at_end("x) + abs(y"), closes_at_end("a, b")
    (True, False, True)
    """
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            return False
    return not depth


async def with_address(gdb: GdbSession, expression: str) -> str | Failure:
    """Return an expression whose type and address GDB knows without evaluating it.

    GDB takes the result of a convenience function for an integer until it evaluates the function,
    so that a value in its history stands for it.

    :raises GdbError: if GDB ends.
    """
    found = await with_elements(gdb, expression)
    if found == expression or is_component_of_all(found):
        return found
    record, number = await queries.numbered(gdb, f"with print elements 1 -- print {found}")
    if isinstance(record, Failure):
        return record
    return f"${number}" if number else expression
