"""Parts of Fortran variables that GDB gets wrong, or has no expression for; runs in GDB's Python.

GDB (13.1 and 18.1) takes strings whose length is a variable for empty when it looks for an element,
as in ``words(2)`` of a ``character(len=n) :: words(m)``. It shows the first element, whatever the
index is. It looks in the wrong direction for elements of a section that runs backwards,
``a(5:1:-1)``. A class variable has no components but the address of its object. And names that are
words of GDB's own parser, such as ``rank``, ``size`` and ``kind``, are syntax errors. A component
that a type has from its parent is not found. So calls of convenience functions, which find the
part, take the place of such parts:

- ``words(2)``: ``$_element(words, 2)``;
- ``shape%radius``: ``$_pgdb_object(shape)%radius``;
- ``shapes(2)%id``: ``$_pgdb_object(shapes, 2)%id``;
- ``table%name``, of deferred length and the third component: ``$_pgdb_string(table, 2)``;
  ``text(2:3)``: ``(*text)(2:3)``;
- ``rank``: ``$_pgdb_variable(0)``, if it is the first word in a list here;
- ``team%rank``, the second component: ``$_pgdb_component(team, 1)``;
- ``circle%id``, of the parent ``shape``: ``circle%shape%id``;
- ``rows%place%x``, of an array: ``$_pgdb_parts(rows, 1, 0)``.

Where GDB does not evaluate an expression, as in ``ptype`` and ``sizeof``, it takes the result of a
convenience function for an integer. There convenience variables, which have the addresses of the
parts, take their place: ``sizeof(rank)`` is ``sizeof((*$_pgdb_part_1))``.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import fortran_arrays_in_gdb as arrays  # type: ignore[import-not-found]
import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import fortran_objects_in_gdb as objects  # type: ignore[import-not-found]
import fortran_parts_in_gdb as parts  # type: ignore[import-not-found]
import fortran_types_in_gdb as types  # type: ignore[import-not-found]
import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]
from parser_words_in_gdb import WORDS  # type: ignore[import-not-found]

# A text, or a name that is no component and no name of GDB's.
_NAME = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w%$.:])[A-Za-z]\w*(?:::\w+)?")
_COMPONENT = re.compile(r"\s*%\s*([A-Za-z_]\w*)")
_OPENING = re.compile(r"\s*\(")
_OF_CLASSES = frozenset(("_vptr", "_len"))
_EVALUATES = re.compile(
    r"(?:p|print|inspect|output|call|display|(?P<type>ptype|whatis)|x|set\s+var|set\s+variable)(?:/\w*)?\s+"
)
_PART = "_pgdb_part_"
"""Name of the variables that have the addresses of parts, without a number."""


def rewrite(text: str, is_command: bool = False) -> None:
    """Print an expression with which GDB finds the parts; nothing where it does by itself.

    A command is written anew as far as the expression in it goes.
    """
    if not printers.is_in_fortran():
        return
    word = _EVALUATES.match(text) if is_command else None
    begin = word.end() if word is not None else 0
    walk = _Walk(has_names=not is_command or begin > 0)
    is_evaluated = word is None or not word["type"]
    rewritten = text[:begin] + walk.rewritten(text[begin:], is_evaluated)
    if not is_evaluated:
        rewritten = types.with_names(text[:begin], rewritten[begin:])
    elif rewritten[begin:].lstrip().startswith("&"):
        rewritten = text[:begin] + types.address_of(rewritten[begin:])
    if rewritten != text:
        gdb.write(f"{rewritten}\n")


class _Walk:
    """A walk over the names in one expression."""

    def __init__(self, has_names: bool) -> None:
        self._has_names = has_names
        """Whether a word of GDB's parser can be a name there."""
        self._parts = 0

    def rewritten(self, expression: str, is_evaluated: bool) -> str:
        """Return the expression with which GDB finds all parts.

        :param is_evaluated: whether GDB evaluates it, or wants its type alone.
        """
        done, at = "", 0
        while (name := _NAME.search(expression, at)) is not None:
            done += expression[at : name.start()]
            at = name.end()
            if name[0][0] in "'\"":
                done += name[0]
                continue
            word = name[0].lower()
            start = name[0]
            if self._has_names and word in WORDS and _variable(word) is not None:
                start = f"$_pgdb_variable({WORDS.index(word)})"
            elif word == "sizeof" and (opening := _OPENING.match(expression, at)) is not None:
                end = _closing(expression, opening.end())
                at = end if end is not None else len(expression)
                done += name[0] + opening[0] + self.rewritten(expression[opening.end() : at], False)
                continue
            chain, end = self._chain(expression, start, at)
            is_new = chain != expression[name.start() : end]
            done += chain if is_evaluated or not is_new else self._held(chain)
            at = end
        return done + expression[at:]

    def _held(self, chain: str) -> str:
        """Return an expression for a part whose type GDB knows without evaluating it."""
        if (value := _value(chain)) is None:
            return chain
        self._parts += 1
        name = f"{_PART}{self._parts}"
        # The part itself may be an array that takes long to read.
        place = value.address
        gdb.set_convenience_variable(name, value if place is None else place)
        return f"${name}" if place is None else f"(*${name})"

    def _chain(self, expression: str, name: str, at: int) -> tuple[str, int]:
        """Return the rewritten form of a name with the indices and components behind it, and its
        end.

        The walk ends where the value so far is unknown: it may be a function, which must not be
        called.
        """
        chain = name
        while True:
            component = _COMPONENT.match(expression, at)
            opening = _OPENING.match(expression, at) if component is None else None
            if component is None and opening is None:
                return chain, at
            value = _value(chain)
            if value is None:
                return chain, at
            if component is not None:
                chain, at = _with_component(chain, value, component[1]), component.end()
                continue
            assert opening is not None
            end = _closing(expression, opening.end())
            if end is None:
                return chain, at
            indices = self.rewritten(expression[opening.end() : end], True)
            chain, at = _with_indices(chain, value, indices), end + 1


def _value(expression: str) -> gdb.Value | None:
    """Return the value of an expression so far; None of an unknown name and of a function."""
    try:
        if parts.is_call(expression):  # it may be long, and its type does
            return parts.typed(expression)
        value = gdb.parse_and_eval(expression)
        kind = value.type.strip_typedefs().code
    except (gdb.error, gdb.GdbError):
        return None
    return None if kind in (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD) else value


def _variable(name: str) -> gdb.Value | None:
    """Return the variable of this name in the selected frame; None if there is none."""
    try:
        symbol = gdb.lookup_symbol(name)[0]
        if symbol is None or not (symbol.is_variable or symbol.is_argument):
            return None
        value = _read(name, symbol)
        # Arguments are references.
        is_reference = value.type.strip_typedefs().code == gdb.TYPE_CODE_REF
        return value.referenced_value() if is_reference else value
    except gdb.error:
        return None


def _read(name: str, symbol: gdb.Symbol) -> gdb.Value:
    """Return the value of a variable.

    For a variable of the procedure that contains the selected one, ``Symbol.value`` reads the
    wrong frame. Expressions of C have the right one, and no words of Fortran's.
    """
    try:
        return _in_c(name)
    except gdb.error:  # a word of C, such as "double"
        return symbol.value(gdb.selected_frame()) if symbol.needs_frame else symbol.value()


def _in_c(expression: str) -> gdb.Value:
    """Return the value of an expression of C."""
    # A command that a function executes makes GDB 18.1 lose the text before the value ("$1 = ").
    set_language = getattr(gdb, "set_parameter", None) or _set_by_command
    language = str(gdb.parameter("language"))
    set_language("language", "c")
    try:
        return gdb.parse_and_eval(expression)
    finally:
        set_language("language", language)


def _set_by_command(name: str, value: str) -> None:
    gdb.execute(f"set {name} {value}", to_string=True)


def _closing(expression: str, at: int) -> int | None:
    depth, quote = 1, ""
    for index in range(at, len(expression)):
        each = expression[index]
        if quote:
            quote = "" if each == quote else quote
        elif each in "'\"":
            quote = each
        else:
            depth += (each == "(") - (each == ")")
            if not depth:
                return index
    return None


def _with_component(chain: str, value: gdb.Value, name: str) -> str:
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return parts.with_component(chain, kind, name) or f"{chain}%{name}"
    if kind.code != gdb.TYPE_CODE_STRUCT or not (kind.name or kind.tag):
        return f"{chain}%{name}"
    if objects.is_class(kind):
        found = objects.object_of(value) if name not in _OF_CLASSES else None
        if found is None:
            return f"{chain}%{name}"
        whole = f"$_pgdb_object({chain})"
        return whole if name == "_data" else _with_component(whole, found, name)
    fields = kind.fields()
    names = [field.name for field in fields]
    word = name.lower()
    if word in WORDS and word in names:
        return f"$_pgdb_component({chain}, {names.index(word)})"
    if word in objects.strings_in(kind):
        # GDB's parser for Fortran has no texts that a function could be given.
        return f"$_pgdb_string({chain}, {names.index(word)})"
    parent = fields[0] if fields and word not in names else None
    if parent is not None and parent.name == parent.type.strip_typedefs().name:
        # gfortran names the component of an extended type after its parent.
        inner = _with_component(chain, value, parent.name)
        return _with_component(inner, value[parent], name)
    return f"{chain}%{name}"


def _with_indices(chain: str, value: gdb.Value, indices: str) -> str:
    kind = value.type.strip_typedefs()
    if descriptors.is_bare(kind):
        is_known = descriptors.strings_of(value) is not None
        return f"$_element({chain}, {indices})" if is_known else f"{chain}({indices})"
    if of_all := parts.with_indices(chain, indices):
        return str(of_all)
    is_section = ":" in indices
    of_class = _class_array(chain)
    if of_class is not None and not is_section:
        return f"$_pgdb_object({of_class}, {indices})"
    if objects.string_at(value) is not None:
        return f"(*{chain})({indices})"
    if kind.code == gdb.TYPE_CODE_ARRAY and not is_section:
        if _has_lengths(kind) or parts.Steps(value).run_backwards:
            return f"$_element({chain}, {indices})"
    return f"{chain}({indices})"


def _class_array(chain: str) -> str | None:
    """Return the class variable of an array expression: itself, or what has it as ``_data``."""
    name = chain[: -len("%_data")] if chain.endswith("%_data") else chain
    value = _value(name)
    if value is None or not objects.is_class(value.type.strip_typedefs()):
        return None
    return name if objects.array_of(value) is not None else None


def _has_lengths(kind: gdb.Type) -> bool:
    """Return whether an array is one of strings whose length is a variable."""
    if kind.sizeof:
        return False
    element = arrays.element_type(kind)
    return bool(element.code == gdb.TYPE_CODE_STRING and element.dynamic)


class _Element(gdb.Function):  # type: ignore[misc]
    """The element of an array that has the given indices."""

    def invoke(self, array: gdb.Value, *indices: gdb.Value) -> gdb.Value:
        """Return the element.

        :raises gdb.GdbError: if there is none, or GDB does not know where it is.
        """
        kind = array.type.strip_typedefs()
        if descriptors.is_bare(kind):
            strings = descriptors.strings_of(array)
            if strings is None:
                raise gdb.GdbError("the bounds of the array are not known")
            return strings.element(*map(int, indices))
        if array.address is None:
            raise gdb.GdbError("value has been optimized out")
        if not _has_lengths(kind):
            steps = parts.Steps(array)
            place = gdb.Value(steps.place_of([*map(int, indices)]))
            return place.cast(steps.element.pointer()).dereference()
        return _string_element(array, kind, [*map(int, indices)])


def _string_element(array: gdb.Value, kind: gdb.Type, indices: list[int]) -> gdb.Value:
    """Return an element of an array of strings whose length is a variable."""
    ranges = []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        ranges.append(kind.range())
        kind = kind.target().strip_typedefs()
    if len(indices) != len(ranges):
        raise gdb.GdbError("Wrong number of subscripts")
    offset, extent = 0, 1
    # The innermost type is that of the first dimension, whose index varies fastest.
    for index, (low, high) in zip(indices, reversed(ranges)):  # noqa: B905  # Python 3.7
        # The upper bound of the last dimension may be unknown, which GDB shows as none.
        if extent == 0:
            raise gdb.GdbError("the bounds of the array are not known")
        if index < low or low <= high < index:
            raise gdb.GdbError(f"no such vector element: {index} is not in {low}:{high}")
        offset += (index - low) * extent
        extent *= max(0, high - low + 1)
    first = array.address.cast(kind.pointer())
    string = first.dereference().type
    if not string.sizeof:
        raise gdb.GdbError("the length of the strings is not known")
    characters = int(first) + offset * string.sizeof
    return gdb.Value(characters).cast(string.pointer()).dereference()


class _Object(gdb.Function):  # type: ignore[misc]
    """The object of a class variable, or of an element of one."""

    def invoke(self, variable: gdb.Value, *indices: gdb.Value) -> gdb.Value:
        """Return the object in its dynamic type.

        :raises gdb.GdbError: if there is none.
        """
        found: Any = objects.object_of(variable) if not indices else None
        if found is None and (pair := objects.array_of(variable)) is not None and indices:
            array, kind = pair
            place = gdb.Value(parts.Steps(array).place_of([*map(int, indices)]))
            found = place.cast(kind.pointer()).dereference()
        if found is None:
            raise gdb.GdbError("the variable has no object of a known type")
        return found


class _String(gdb.Function):  # type: ignore[misc]
    """A component that is a string of deferred length."""

    def invoke(self, value: gdb.Value, number: gdb.Value) -> gdb.Value:
        """Return the string, or its address where it has no memory."""
        name = str(value.type.strip_typedefs().fields()[int(number)].name)
        string = objects.component_string(value, name)
        return value[name] if string is None else string


class _Variable(gdb.Function):  # type: ignore[misc]
    """A variable whose name is a word of GDB's parser."""

    def invoke(self, number: gdb.Value) -> gdb.Value:
        """Return the variable.

        :raises gdb.GdbError: if there is none here.
        """
        name = WORDS[int(number)]
        if (value := _variable(name)) is None:
            raise gdb.GdbError(f'No symbol "{name}" in current context.')
        return value


class _Component(gdb.Function):  # type: ignore[misc]
    """A component whose name is a word of GDB's parser."""

    def invoke(self, value: gdb.Value, number: gdb.Value) -> gdb.Value:
        """Return the component."""
        return value[value.type.strip_typedefs().fields()[int(number)]]


def main() -> None:
    """Define the functions; without them GDB's parts of such variables are wrong."""
    try:
        _Element("_element")
        _Object("_pgdb_object")
        _String("_pgdb_string")
        _Variable("_pgdb_variable")
        _Component("_pgdb_component")
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: parts of Fortran variables are those of GDB: {error}\n")
