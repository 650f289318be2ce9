"""Parts of Fortran variables that GDB gets wrong, or has no expression for; runs in GDB's Python.

GDB (13.1 and 18.1) takes strings whose length is a variable for empty when it looks for an element,
as in ``words(2)`` of a ``character(len=n) :: words(m)``. It shows the first element, whatever the
index is. Of a section that runs backwards, ``a(5:1:-1)``, it looks for elements in the wrong
direction. A class variable has no components but the address of its object. And names that are
words of GDB's own parser, such as ``rank``, ``size`` and ``kind``, are syntax errors. So calls of
convenience functions, which find the part, take the place of such parts:

- ``words(2)``: ``$_element(words, 2)``;
- ``shape%radius``: ``$_object(shape)%radius``; ``shapes(2)%id``: ``$_object(shapes, 2)%id``;
- ``table%name``, of deferred length and the third component: ``$_string(table, 2)``;
  ``text(2:3)``: ``(*text)(2:3)``;
- ``rank``: ``$_variable(0)``, if it is the first word in a list here; ``team%rank``, the second
  component: ``$_component(team, 1)``.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import fortran_objects_in_gdb as objects  # type: ignore[import-not-found]
import gdb

# A text, or a name that is no component and no name of GDB's.
_NAME = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w%$.:])[A-Za-z]\w*")
_COMPONENT = re.compile(r"\s*%\s*([A-Za-z_]\w*)")
_OPENING = re.compile(r"\s*\(")
_OF_CLASSES = frozenset(("_vptr", "_len"))
_WORDS = (
    *("rank", "size", "shape", "kind", "abs", "mod", "modulo", "floor", "ceiling", "cmplx"),
    *("lbound", "ubound", "allocated", "associated", "loc", "sizeof", "real", "integer", "logical"),
    *("character", "complex", "single", "double", "precision"),
)
"""Words of GDB's parser (13.1, a part of them in 18.1), which programs may use as names."""
_EVALUATES = re.compile(
    r"(?:p|print|inspect|output|call|ptype|whatis|x|set\s+var|set\s+variable)(?:/\w*)?\s+"
)


def rewrite(text: str, is_command: bool = False) -> None:
    """Print an expression with which GDB finds the parts; nothing where it does by itself.

    A command is written anew as far as the expression in it goes.
    """
    if gdb.parameter("language") not in ("auto", "fortran"):
        return
    word = _EVALUATES.match(text) if is_command else None
    begin = word.end() if word is not None else 0
    rewritten = text[:begin] + _rewritten(text[begin:], has_names=not is_command or begin > 0)
    if rewritten != text:
        gdb.write(f"{rewritten}\n")


def _rewritten(expression: str, has_names: bool = True) -> str:
    done, at = "", 0
    while (name := _NAME.search(expression, at)) is not None:
        done += expression[at : name.start()]
        if name[0][0] in "'\"":
            done, at = done + name[0], name.end()
            continue
        word = name[0].lower()
        start = name[0]
        if has_names and word in _WORDS and _variable(word) is not None:
            start = f"$_variable({_WORDS.index(word)})"
        chain, at = _chain(expression, start, name.end())
        done += chain
    return done + expression[at:]


def _chain(expression: str, name: str, at: int) -> tuple[str, int]:
    """Return the rewritten form of a name with the indices and components behind it, and its end.

    The walk ends where the value so far is unknown: it may be a function, which must not be called.
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
        indices = _rewritten(expression[opening.end() : end])
        chain, at = _with_indices(chain, value, indices), end + 1


def _value(expression: str) -> gdb.Value | None:
    """Return the value of an expression so far; None of an unknown name and of a function."""
    try:
        value = gdb.parse_and_eval(expression)
        kind = value.type.strip_typedefs().code
    except gdb.error:
        return None
    return None if kind in (gdb.TYPE_CODE_FUNC, gdb.TYPE_CODE_METHOD) else value


def _variable(name: str) -> gdb.Value | None:
    """Return the variable of this name in the selected frame; None if there is none."""
    try:
        symbol = gdb.lookup_symbol(name)[0]
        if symbol is None or not (symbol.is_variable or symbol.is_argument):
            return None
        value = symbol.value(gdb.selected_frame()) if symbol.needs_frame else symbol.value()
        # Arguments are references.
        is_reference = value.type.strip_typedefs().code == gdb.TYPE_CODE_REF
        return value.referenced_value() if is_reference else value
    except gdb.error:
        return None


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
    if kind.code != gdb.TYPE_CODE_STRUCT or not (kind.name or kind.tag):
        return f"{chain}%{name}"
    if objects.is_class(kind):
        if name in _OF_CLASSES or (name == "_data" and objects.array_of(value) is not None):
            return f"{chain}%{name}"
        if objects.object_of(value) is None:
            return f"{chain}%{name}"
        if name == "_data":
            return f"$_object({chain})"
        found = objects.object_of(value)
        return _with_component(f"$_object({chain})", found, name)
    if name.lower() in _WORDS and name.lower() in [field.name for field in kind.fields()]:
        number = [field.name for field in kind.fields()].index(name.lower())
        return f"$_component({chain}, {number})"
    if name.lower() in objects.strings_in(kind):
        # GDB's parser for Fortran has no texts that a function could be given.
        number = [field.name for field in kind.fields()].index(name.lower())
        return f"$_string({chain}, {number})"
    return f"{chain}%{name}"


def _with_indices(chain: str, value: gdb.Value, indices: str) -> str:
    kind = value.type.strip_typedefs()
    if descriptors.is_bare(kind):
        is_known = descriptors.strings_of(value) is not None
        return f"$_element({chain}, {indices})" if is_known else f"{chain}({indices})"
    is_section = ":" in indices
    of_class = _class_array(chain)
    if of_class is not None and not is_section:
        return f"$_object({of_class}, {indices})"
    if objects.string_at(value) is not None:
        return f"(*{chain})({indices})"
    if kind.code == gdb.TYPE_CODE_ARRAY and not is_section:
        if _has_lengths(kind) or _Steps(value).run_backwards:
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
    while kind.code == gdb.TYPE_CODE_ARRAY:
        kind = kind.target().strip_typedefs()
    return bool(kind.code == gdb.TYPE_CODE_STRING and kind.dynamic)


class _Steps:
    """Bounds of an array, and the distances of neighbours, of the first dimension first."""

    def __init__(self, array: gdb.Value) -> None:
        self.ranges: list[tuple[int, int]] = []
        self.steps: list[int] = []
        self.address = int(array.address or 0)
        kind = array.type.strip_typedefs()
        try:
            while kind.code == gdb.TYPE_CODE_ARRAY:
                self.ranges.insert(0, kind.range())
                kind = kind.target().strip_typedefs()
        except gdb.error:  # the last dimension of a(5, *)
            self.ranges = []
        self.element = kind
        lows = [low for low, _ in self.ranges]
        for number, (low, high) in enumerate(self.ranges):
            index = [*lows]
            index[number] += 1
            is_long = high > low and self.address
            self.steps.append(_at(array, index) - _at(array, lows) if is_long else 0)

    @property
    def run_backwards(self) -> bool:
        """Whether a dimension runs backwards."""
        return any(step < 0 for step in self.steps)

    def place_of(self, indices: list[int]) -> int:
        """Return the address of an element.

        :raises gdb.GdbError: if there is none.
        """
        if len(indices) != len(self.ranges):
            raise gdb.GdbError("Wrong number of subscripts")
        address = self.address  # the lowest one of the array
        for index, (low, high), step in zip(indices, self.ranges, self.steps):  # noqa: B905
            if not low <= index <= high:
                raise gdb.GdbError(f"no such vector element: {index} is not in {low}:{high}")
            address += (index - low) * step if step >= 0 else (index - high) * step
        return address


def _at(array: gdb.Value, indices: list[int]) -> int:
    value = array
    for index in reversed(indices):
        value = value[index]
    return int(value.address)


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
            steps = _Steps(array)
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
    characters = first.cast(gdb.lookup_type("long")) + offset * string.sizeof
    return characters.cast(string.pointer()).dereference()


class _Object(gdb.Function):  # type: ignore[misc]
    """The object of a class variable, or of an element of one."""

    def invoke(self, variable: gdb.Value, *indices: gdb.Value) -> gdb.Value:
        """Return the object in its dynamic type.

        :raises gdb.GdbError: if there is none.
        """
        found: Any = objects.object_of(variable) if not indices else None
        if found is None and (pair := objects.array_of(variable)) is not None and indices:
            array, kind = pair
            place = gdb.Value(_Steps(array).place_of([*map(int, indices)]))
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
        name = _WORDS[int(number)]
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
        _Object("_object")
        _String("_string")
        _Variable("_variable")
        _Component("_component")
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: parts of Fortran variables are those of GDB: {error}\n")
