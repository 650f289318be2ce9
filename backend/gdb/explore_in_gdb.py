"""Structures to some depth, with the targets of pointers; runs inside GDB, in its Python."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]

_MOST_VALUES = 20_000
"""Most values in one answer."""
_TEXT = (gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_INT)
_STRUCTURES = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)
_REFERENCES = (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF))


def show(expression: str, path: list[str], depth: int, most: int) -> None:
    """Write the value at *path* below an expression, as JSON; of an error, its message.

    In Fortran the answer is a pair: the text, and the text with the indices of elements.
    """
    try:
        value = _at(expression, path)
        text = _Explorer(most).text(value, depth, "", ())
        if printers.is_in_fortran():
            _write([text, _Explorer(most, has_indexes=True).text(value, depth, "", ())])
        else:
            _write(text)
    except (gdb.error, LookupError, RuntimeError) as error:
        _write({"error": str(error.args[0] if error.args else error)})


def show_children(expression: str, path: list[str], start: int, most: int) -> None:
    """Write the names and the values of the children of the value at *path*, as JSON."""
    try:
        children = itertools.islice(_children(_at(expression, path)), start, start + most)
        _write([(name, _Explorer(0).text(child, 0, "", ())) for name, child in children])
    except (gdb.error, LookupError, RuntimeError) as error:
        _write({"error": str(error.args[0] if error.args else error)})


def _write(answer: object) -> None:
    """Write an answer before the end of the command."""
    gdb.write(json.dumps(answer) + "\n")
    gdb.flush()


def _at(expression: str, path: list[str]) -> gdb.Value:
    value = gdb.parse_and_eval(expression)
    for name in path:
        for other, child in _children(value):
            if other == name:
                value = child
                break
        else:
            raise LookupError(f"There is no child {name}.")
    return value


def _plain(value: gdb.Value) -> gdb.Value:
    """Return what a reference refers to, and any other value itself."""
    if value.type.strip_typedefs().code in _REFERENCES:
        return value.referenced_value()
    return value


def _is_followed(value: gdb.Value) -> bool:
    """Return whether the target of a pointer is shown: neither a function, a text nor void."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_PTR:
        return False
    target = kind.target().strip_typedefs()
    if target.code in (gdb.TYPE_CODE_VOID, gdb.TYPE_CODE_FUNC):
        return False
    return not (target.code in _TEXT and target.sizeof == 1)


def _printer(value: gdb.Value) -> Any:
    printer = gdb.default_visualizer(value)
    return printer if hasattr(printer, "children") else None


def _children(value: gdb.Value) -> Iterator[tuple[str, gdb.Value]]:
    """Yield the name and the value of each child; elements have their index as name."""
    value = _plain(value)
    if (printer := _printer(value)) is not None:
        is_map = getattr(printer, "display_hint", lambda: None)() == "map"
        key = ""
        for number, (label, child) in enumerate(printer.children()):
            child = child if isinstance(child, gdb.Value) else gdb.Value(child)
            if is_map and number % 2 == 0:
                key = child.format_string()
                continue
            yield f"[{key}]" if is_map else label, child
        return
    if gdb.default_visualizer(value) is not None:
        return
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        for index in range(low, high + 1):
            yield f"[{index}]", value[index]
    elif kind.code in _STRUCTURES:
        for field in kind.fields():
            if not hasattr(field, "bitpos"):
                continue  # a static member
            name = f"<{field.name}>" if field.is_base_class else field.name or "<anonymous>"
            yield name, value[field]
    elif _is_followed(value) and int(value):
        target = value.dereference()
        if target.type.strip_typedefs().code in _STRUCTURES:
            yield from _children(target)
        else:
            yield "*", target


class _Explorer:
    """Writer of the text of one value."""

    def __init__(self, most: int, *, has_indexes: bool = False) -> None:
        self._most = most
        self._left = _MOST_VALUES
        self._is_fortran = printers.is_in_fortran()
        self._options: dict[str, Any] = {"array_indexes": True} if has_indexes else {}

    def text(self, value: gdb.Value, depth: int, indent: str, seen: tuple[object, ...]) -> str:
        """Return the text of a value in GDB's form, with *depth* levels of children."""
        try:
            return self._text(_plain(value), depth, indent, seen)
        except (gdb.error, RuntimeError) as error:
            return f"<error: {error}>"

    def _text(self, value: gdb.Value, depth: int, indent: str, seen: tuple[object, ...]) -> str:
        self._left -= 1
        if _is_followed(value):
            return self._pointer(value, depth, indent, seen)
        printer = _printer(value)
        kind = value.type.strip_typedefs()
        if self._is_fortran and kind.code == gdb.TYPE_CODE_ARRAY:
            options = {**self._options, "max_elements": self._most}
            return str(value.format_string(**options))
        if printer is None:
            element = kind.target().strip_typedefs() if kind.code == gdb.TYPE_CODE_ARRAY else None
            is_text = element is not None and element.code in _TEXT and element.sizeof == 1
            is_compound = kind.code in (*_STRUCTURES, gdb.TYPE_CODE_ARRAY)
            if not is_compound or is_text or gdb.default_visualizer(value) is not None:
                return str(value.format_string(**self._options))
        head = ""
        if printer is not None and hasattr(printer, "to_string"):
            said = printer.to_string()
            head = said if isinstance(said, str) else "" if said is None else str(said)
            if next(iter(_children(value)), None) is None:
                return head or "{}"
        return (
            f"{head} = {self._group(value, depth, indent, seen)}"
            if head
            else self._group(value, depth, indent, seen)
        )

    def _pointer(self, value: gdb.Value, depth: int, indent: str, seen: tuple[object, ...]) -> str:
        address = int(value)
        key = (address, str(value.type))
        if not address:
            return "0x0"
        if key in seen:
            return f"{address:#x} <shown above>"
        value.dereference().fetch_lazy()  # an error names the address
        target = self._text(value.dereference(), depth, indent, (*seen, key))
        is_group = target.startswith("(\n" if self._is_fortran else "{")
        return f"{address:#x}: {target if is_group else f'{{{target}}}'}"

    def _group(self, value: gdb.Value, depth: int, indent: str, seen: tuple[object, ...]) -> str:
        if depth <= 0 or self._left <= 0:
            return "{...}"
        children = list(itertools.islice(_children(value), self._most + 1))
        is_cut = len(children) > self._most
        inner = f"{indent}  "
        kind = value.type.strip_typedefs()
        is_array = kind.code == gdb.TYPE_CODE_ARRAY or all(
            name == f"[{at}]" for at, (name, _) in enumerate(children)
        )
        shown = children[: self._most]
        parts = [(name, self.text(child, depth - 1, inner, seen)) for name, child in shown]
        if is_array and not any("\n" in text for _, text in parts):
            return f"{{{', '.join(text for _, text in parts)}{'...' * is_cut}}}"
        names = ["" if is_array else f"{name} = " for name, _ in parts]
        lines = [f"{inner}{name}{text}" for name, (_, text) in zip(names, parts)]  # noqa: B905
        end = "...\n" if is_cut else "\n"
        opening, closing = "()" if self._is_fortran else "{}"
        return f"{opening}\n" + ",\n".join(lines) + end + indent + closing
