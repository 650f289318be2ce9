"""Text of an object, as Python writes it; read from memory, so no ``__repr__`` is called."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pgdb.backend.python import coroutines, iterators, known_types, moments, numpy_scalars, scopes
from pgdb.backend.python.objects import Objects, UnknownError
from pgdb.patterns import pattern

_MOST_DEPTH = 6
_MOST_DEPTH_OF_WHOLE = 40
_MOST_OBJECTS = 5000
"""Most objects in one text: nested containers multiply."""
_EXCEPTION = 1 << 30
"""Bit in the flags of a type that says that it derives from ``BaseException``."""
_CUT = "..."
_ADDRESS = pattern(r"0x[0-9a-f]+")


Arrays = Callable[[int, int], "Shown | None"]
"""Function that returns the text of an array at an address, None for another object."""


class Shown(msgspec.Struct, frozen=True):
    """The text of an object."""

    text: str
    is_cut: bool = False
    """Whether elements are left out."""


def shown(
    objects: Objects,
    address: int,
    most: int,
    arrays: Arrays = lambda address, most: None,
    *,
    is_whole: bool = False,
) -> Shown:
    """Return the value of an object as Python writes it; ``<T at 0x…>`` of most types of C.

    An object of a class of the program's shows its attributes: ``<T a=1, b=[2]>``.

    :param most: most elements of each container.
    :param arrays: shows the arrays in containers.
    :param is_whole: whether containers far inside of others, and the attributes of objects in
        others, are shown as well.
    """
    text = _Text(objects, most, arrays, is_whole=is_whole)
    return Shown(text.of(address), text.is_cut)


class _Text:
    """Text of one object, with a bound for all objects in it."""

    def __init__(self, objects: Objects, most: int, arrays: Arrays, *, is_whole: bool) -> None:
        self._objects = objects
        self._most = most
        self._arrays = arrays
        self._is_whole = is_whole
        self._depth = _MOST_DEPTH_OF_WHOLE if is_whole else _MOST_DEPTH
        self.is_cut = False
        self._left = max(_MOST_OBJECTS, 3 * most)
        self._around: list[int] = []

    def of(self, address: int) -> str:
        """Return the text of an object."""
        self._left -= 1
        name = self._objects.type_name(address)
        try:
            text = self._plain(address, name)
            form = self._form(address, name) if text is None else None
        except UnknownError:
            # It is being changed, or a class has the name of a known one.
            text, form = None, None
        if text is not None:
            return text
        if form is None:
            derived = self._derived(address)
            form = self._object_form(address, name) if derived is None else None
            if form is None:
                return derived or self._bare(address, name)
        before, parts, after = form
        if address in self._around:
            return f"{before}{_CUT}{after}"
        if len(self._around) >= self._depth:
            self.is_cut = True
            return f"{before}{_CUT}{after}"
        self._around.append(address)
        try:
            inner = self._joined(parts)
        finally:
            self._around.pop()
        if name == "tuple" and len(self._objects.elements(address)) == 1:
            inner += ","
        return f"{before}{inner}{after}"

    def _bare(self, address: int, name: str) -> str:
        """Return the text of an object of which nothing else is known."""
        try:
            is_empty = self._objects.is_without_contents(address)
        except UnknownError:
            is_empty = False
        return f"<{name} {'object ' * is_empty}at {address:#x}>"

    def _joined(self, parts: Iterable[tuple[str, Sequence[int]]]) -> str:
        """Return parts, each a format and the objects in it, with commas between."""
        texts: list[str] = []
        for number, (form, addresses) in enumerate(parts):
            if number == self._most or self._left <= 0:
                self.is_cut = True
                return ", ".join(texts) + (f", {_CUT}" if ": " in form else _CUT)
            texts.append(form.format(*map(self.of, addresses)))
        return ", ".join(texts)

    def _derived(self, address: int) -> str | None:
        """Return the text of an array, or of a class derived from a plain type."""
        objects = self._objects
        try:
            found = self._arrays(address, self._most)
            if found is not None:
                self.is_cut = self.is_cut or found.is_cut
                return found.text
            if objects.is_a(address, "int"):
                return str(objects.integer(address))
            if objects.is_a(address, "str"):
                return repr(objects.text(address))
            if "float" in objects.bases(address):
                return _float(objects.number(address))
        except UnknownError:
            return None
        return None

    def _plain(self, address: int, name: str) -> str | None:
        """Return the text of an object that has no others in it."""
        objects = self._objects
        match name:
            case "NoneType":
                return "None"
            case "bool":
                return str(bool(objects.integer(address)))
            case "int":
                return str(objects.integer(address))
            case "float":
                return _float(objects.number(address))
            case "complex":
                return str(complex(objects.number(address), objects.number(address + 8)))
            case "str":
                return repr(objects.text(address))
            case "bytes":
                size = objects.word(address + 16)
                data = objects.read(address + 32, min(size, self._most))
                self.is_cut = self.is_cut or size > self._most
                return repr(data) + _CUT * (size > self._most)
            case "bytearray":
                size = objects.word(address + 16)
                data = objects.read(objects.word(address + 40), min(size, self._most))
                self.is_cut = self.is_cut or size > self._most
                return f"bytearray({data!r}{_CUT * (size > self._most)})"
        found = numpy_scalars.text_of(objects, address, name)
        return found or known_types.text_of(objects, address, name)

    def _form(self, address: int, name: str) -> tuple[str, _Parts, str] | None:
        """Return what stands before the parts of an object, the parts, and what stands behind
        them; None for an object of another kind."""
        objects = self._objects
        short = name.rpartition(".")[2]
        if objects.is_a(address, "list"):
            around = ("[", "]") if name == "list" else (f"{short}([", self._end("]", address))
            return around[0], _each(objects.elements(address)), around[1]
        if objects.is_a(address, "tuple"):
            return self._tuple_form(address, name, short)
        if objects.is_a(address, "dict"):
            around = ("{", "}") if name == "dict" else (f"{short}({{", self._end("}", address))
            parts = (("{}: {}", pair) for pair in objects.items(address))
            return around[0], parts, around[1]
        if objects.flags(address) & _EXCEPTION:
            # The attributes of the program's own classes are seldom among the arguments.
            named = _named(objects.own_attributes(address).items())
            arguments = _each(objects.elements(objects.word(address + 24)))
            return f"{short}(", itertools.chain(arguments, named), ")"
        bases = objects.bases(address)
        if kind := next((each for each in ("set", "frozenset") if each in bases), ""):
            return self._set_form(address, name, kind)
        if "collections.deque" in bases:
            elements = _each(objects.of_deque(address, self._most + 1))
            return f"{short}([", elements, self._end("]", address)
        if name in coroutines.WITH_FRAME:
            return self._coroutine_form(address, name)
        match name:
            case "range":
                first, last, step = objects.words(address + 16, 3)
                is_one = objects.type_name(step) == "int" and objects.integer(step) == 1
                return "range(", _each((first, last) if is_one else (first, last, step)), ")"
            case "slice":
                return "slice(", _each(objects.words(address + 16, 3)), ")"
        if (moment := moments.text_of(objects, address, name)) is not None:
            text, zone = moment
            return (text, (), "") if not zone else _zoned(text, zone)
        if (held := known_types.parts_of(objects, address, name)) is not None:
            return held[0], _each(held[1]), held[2]
        if (through := iterators.form_of(objects, address, name)) is not None:
            return through
        return self._attributes_form(address, short)

    def _coroutine_form(self, address: int, name: str) -> tuple[str, _Parts, str] | None:
        """Return the form of a generator or a coroutine: the line at which it waits, and its
        variables, which are in the whole text alone where it is in another object."""
        found = coroutines.waiting(self._objects, address)
        if found is None:
            function = coroutines.function_name(self._objects, address)
            return f"<{name} {function}, ended>", (), ""
        frame = found.frame
        before = f"<{name} {frame.name} at {os.path.basename(frame.filename)}:{frame.line}"
        own = {} if found.is_running else scopes.scope_of(self._objects, found.frame_at).own
        variables = {each: value for each, value in own.items() if value and each[:1] != "."}
        if not variables:
            return before, (), ">"
        if self._around and not self._is_whole:
            self.is_cut = True
            return before, (), ">"
        return f"{before}, ", _named(variables.items()), ">"

    def _tuple_form(self, address: int, name: str, short: str) -> tuple[str, _Parts, str]:
        objects = self._objects
        elements = objects.elements(address)
        if name == "tuple":
            return "(", _each(elements), ")"
        if name == "torch.Size":
            return "torch.Size([", _each(elements), "])"
        fields = objects.of_class(address, "_fields")
        if fields is not None and objects.type_name(fields) == "tuple":
            names = [objects.text(each) for each in objects.elements(fields)]
            if len(names) == len(elements):
                return f"{short}(", _named(zip(names, elements, strict=True)), ")"
        return f"{short}((", _each(elements), "))"

    def _end(self, bracket: str, address: int) -> str:
        """Return what stands behind the elements of a container of the program's own class: its
        attributes."""
        named = self._objects.own_attributes(address)
        return f"{bracket}{', ' * bool(named)}{self._joined(_named(named.items()))})"

    def _set_form(self, address: int, name: str, kind: str) -> tuple[str, _Parts, str]:
        """Return the form of a set, in an order that does not depend on the rank's hashes."""
        members = sorted(self._objects.members(address), key=self._order)
        if name == kind and not members:
            return f"{name}(", (), ")"
        if name == "set":
            return "{", _each(members), "}"
        return f"{name}({{", _each(members), self._end("}", address) if name != kind else "})"

    def _order(self, address: int) -> tuple[str, float, str]:
        """Return a key that is the same on each rank for equal members."""
        objects = self._objects
        name = objects.type_name(address)
        match name:
            case "int":
                return name, objects.integer(address), ""
            case "float":
                return name, objects.number(address), ""
            case "str":
                return name, 0, objects.text(address)
        return name, 0, _ADDRESS.sub("", self.of(address))

    def _attributes_form(self, address: int, short: str) -> tuple[str, _Parts, str] | None:
        """Return the form of an object that shows its attributes: of an enumeration, a dataclass
        or a namespace."""
        objects = self._objects
        bases = objects.bases(address)
        if "Enum" in bases:
            label, held = (objects.attribute(address, each) for each in ("_name_", "_value_"))
            return f"<{short}.{objects.text(label)}: ", _each((held,)), ">"
        if "types.SimpleNamespace" in bases or {"Namespace", "_AttributeHolder"} <= {*bases}:
            return f"{short}(", _named(objects.own_attributes(address).items()), ")"
        fields = objects.of_class(address, "__dataclass_fields__")
        if fields is None or not objects.is_a(fields, "dict"):
            return None
        own = objects.own_attributes(address)
        names = [objects.text(key) for key, _ in objects.items(fields)]
        found = []
        for name in names:
            value = own.get(name) or objects.slot(address, name)
            if value:
                found.append((name, value))
        return f"{short}(", _named(found), ")"

    def _object_form(self, address: int, name: str) -> tuple[str, _Parts, str] | None:
        """Return the form of an object of a class that is written in Python: its attributes.

        The text of an object in others would be long: its attributes are in the whole text alone.
        """
        objects = self._objects
        try:
            found = objects.members_of_object(address)
        except UnknownError:
            return None
        if not found:
            return None
        if self._around and not self._is_whole:
            self.is_cut = True
            return None
        if base := objects.hidden_base(address):
            # Its fields are not known.
            return f"<{name} ", _named(found.items()), f", super=<{base} at {address:#x}>>"
        return f"<{name} ", _named(found.items()), ">"


_Parts = Iterable[tuple[str, Sequence[int]]]
"""Formats, each with the addresses of the objects in it."""


def _zoned(text: str, zone: int) -> tuple[str, _Parts, str]:
    """Return the form of a time with its zone."""
    return f"{text[:-1]}, ", _named([("tzinfo", zone)]), ")"


def _each(addresses: Iterable[int]) -> _Parts:
    return (("{}", (each,)) for each in addresses)


def _named(pairs: Iterable[tuple[str, int]]) -> _Parts:
    return ((f"{name.replace('{', '').replace('}', '')}={{}}", (each,)) for name, each in pairs)


def _float(value: float) -> str:
    return "nan" if math.isnan(value) else repr(value)
