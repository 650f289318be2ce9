"""Parts of values of C++ that GDB prints, but does not find; runs inside GDB, in its Python.

- GDB prints an iterator of the standard library as its element, so that places in it are shown
  behind the iterator's name: ``it.second``. The expression of that part is ``(*it).second``.
- With ``set print object on``, GDB prints the whole object behind a reference to its base, but
  looks for members in the base: ``shape.radius``. The expression is
  ``(*(Circle *)&(shape)).radius``.
- A value that a function has returned is not in memory, and GDB does not call the methods of a
  container that is not: ``$[4]``. The expression is ``$_pgdb_element($, 4)``.
"""

from __future__ import annotations

import re

import elements_in_gdb as containers  # type: ignore[import-not-found]
import gdb
import library_printers_in_gdb as library  # type: ignore[import-not-found]

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?<![\w.>:$])(?:[A-Za-z_]\w*|\$\w*)")
_STEP = re.compile(r"(?:\.|->)\s*~?[A-Za-z_]\w*(?:::\w+)*(?!\s*\()")
_OPENING = "["


def rewrite(expression: str) -> None:
    """Print an expression in which GDB finds all parts; nothing if that is the expression."""
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
    """Return a name with the members and indices behind it, rewritten, and its end."""
    chain = name
    while True:
        step = _STEP.match(expression, at)
        end = step.end() if step is not None else _closing(expression, at)
        if end is None:
            return chain, at
        is_arrow = expression.startswith("->", at)
        if not is_arrow and _is_iterator(chain):
            chain = f"(*{chain})"
        following = expression[at:end]
        if step is None and _is_outside_of_memory(chain):
            chain = f"$_pgdb_element({chain}, {following[1:-1]})"
        elif step is not None and (derived := _derived(f"*{chain}" if is_arrow else chain)):
            chain = f"{derived}.{following.lstrip('.->').lstrip()}"
        else:
            chain += following
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


def _is_outside_of_memory(expression: str) -> bool:
    """Return whether a container is not in memory."""
    try:
        value = gdb.parse_and_eval(expression)
        if value.type.strip_typedefs().code != gdb.TYPE_CODE_STRUCT or value.address is not None:
            return False
        return gdb.default_visualizer(value) is not None
    except gdb.error:
        return False


def _derived(expression: str) -> str:
    """Return the expression of the whole object of which *expression* is a base; empty otherwise.

    GDB prints the whole object with ``set print object on`` alone.
    """
    if not gdb.parameter("print object"):
        return ""
    try:
        value = gdb.parse_and_eval(expression)
        if value.type.strip_typedefs().code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
            value = value.referenced_value()
        static, dynamic = value.type.strip_typedefs(), value.dynamic_type.strip_typedefs()
    except gdb.error:
        return ""
    if static.code != gdb.TYPE_CODE_STRUCT or static.unqualified() == dynamic.unqualified():
        return ""
    name = dynamic.unqualified().name or ""
    quoted = f"'{name}'" if "(" in name else name
    return f"(*({quoted} *)&({expression}))" if name else ""


class _Element(gdb.Function):  # type: ignore[misc]
    """The element of a container that is not in memory."""

    def invoke(self, container: gdb.Value, key: gdb.Value) -> gdb.Value:
        """Return the element with an index or a key.

        :raises gdb.GdbError: if there is none.
        """
        found: gdb.Value = containers.element(container, key)
        return found


_Element("_pgdb_element")
