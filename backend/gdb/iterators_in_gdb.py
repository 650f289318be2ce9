"""Parts of elements to which iterators of C++ point; runs inside GDB, in its Python.

GDB prints an iterator of the standard library as its element, so that places in it are shown behind
the iterator's name: ``it.second``. The expression of that part is ``(*it).second``.
"""

from __future__ import annotations

import re

import gdb
import library_printers_in_gdb as library  # type: ignore[import-not-found]

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?<![\w.>:$])[A-Za-z_]\w*")
_STEP = re.compile(r"(?:\.|->)\s*~?[A-Za-z_]\w*(?:::\w+)*(?!\s*\()")
_OPENING = "["


def rewrite(expression: str) -> None:
    """Print an expression in which iterators are dereferenced; nothing if there are none."""
    done, at = "", 0
    while (token := _TOKEN.search(expression, at)) is not None:
        done += expression[at : token.start()]
        at = token.end()
        if token[0][0] in "\"'":
            done += token[0]
            continue
        chain, at = _chain(expression, token[0], at)
        done += chain
    done += expression[at:]
    if done != expression:
        gdb.write(f"{done}\n")


def _chain(expression: str, name: str, at: int) -> tuple[str, int]:
    """Return a name with the members and indices behind it, dereferenced, and its end."""
    chain = name
    while True:
        step = _STEP.match(expression, at)
        end = step.end() if step is not None else _closing(expression, at)
        if end is None:
            return chain, at
        if not expression.startswith("->", at) and _is_iterator(chain):
            chain = f"(*{chain})"
        chain += expression[at:end]
        at = end


def _closing(expression: str, at: int) -> int | None:
    """Return the end of the index that begins at *at*; None if none does."""
    if not expression.startswith(_OPENING, at):
        return None
    depth, quote, escaped = 0, "", False
    for index in range(at, len(expression)):
        each = expression[index]
        if quote:
            quote = "" if each == quote and not escaped else quote
            escaped = each == "\\" and not escaped
        elif each in "\"'":
            quote = each
        else:
            depth += (each == "[") - (each == "]")
            if not depth:
                return index + 1
    return None


def _is_iterator(expression: str) -> bool:
    try:
        return bool(library.is_iterator(gdb.parse_and_eval(expression).type))
    except gdb.error:
        return False
