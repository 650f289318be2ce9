"""Text of an object, as Python writes it; read from memory, so no ``__repr__`` is called."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Iterable, Iterator, Sequence

from pgdb.backend.python.objects import Objects, UnknownError

_MOST_DEPTH = 6
_MOST_OBJECTS = 5000
"""Most objects in one text: nested containers multiply."""
_EXCEPTION = 1 << 30
"""Bit in the flags of a type that says that it derives from ``BaseException``."""
_BLOCK = 64
"""Elements in each block of a ``deque``."""
_CUT = "..."


def shown(objects: Objects, address: int, most: int) -> str:
    """Return the value of an object as Python writes it; ``<T at 0x…>`` of most types.

    :param most: most elements of each container.
    """
    return _Text(objects, most).of(address)


class _Text:
    """Text of one object, with a bound for all objects in it."""

    def __init__(self, objects: Objects, most: int) -> None:
        self._objects = objects
        self._most = most
        self._left = _MOST_OBJECTS
        self._around: list[int] = []

    def of(self, address: int) -> str:
        """Return the text of an object."""
        self._left -= 1
        name = self._objects.type_name(address)
        text = self._plain(address, name)
        if text is not None:
            return text
        try:
            form = self._form(address, name)
        except UnknownError:
            # It is being changed, or a class has the name of a known one.
            form = None
        if form is None:
            return f"<{name} at {address:#x}>"
        before, parts, after = form
        if address in self._around or len(self._around) >= _MOST_DEPTH:
            return f"{before}{_CUT}{after}"
        self._around.append(address)
        try:
            inner = self._joined(parts)
        finally:
            self._around.pop()
        if name == "tuple" and len(self._objects.elements(address)) == 1:
            inner += ","
        return f"{before}{inner}{after}"

    def _joined(self, parts: Iterable[tuple[str, Sequence[int]]]) -> str:
        """Return parts, each a format and the objects in it, with commas between."""
        texts: list[str] = []
        for number, (pattern, addresses) in enumerate(parts):
            if number == self._most or self._left <= 0:
                return ", ".join(texts) + (f", {_CUT}" if ": " in pattern else _CUT)
            texts.append(pattern.format(*map(self.of, addresses)))
        return ", ".join(texts)

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
                return repr(data) + _CUT * (size > self._most)
            case "bytearray":
                size = objects.word(address + 16)
                data = objects.read(objects.word(address + 40), min(size, self._most))
                return f"bytearray({data!r}{_CUT * (size > self._most)})"
            case "datetime.datetime" | "datetime.date" | "datetime.timedelta":
                return self._time(address, name)
        return None

    def _form(self, address: int, name: str) -> tuple[str, _Parts, str] | None:
        """Return what stands before the parts of an object, the parts, and what stands behind
        them; None for an object of another kind."""
        objects = self._objects
        short = name.rpartition(".")[2]
        if objects.is_a(address, "list"):
            around = ("[", "]") if name == "list" else (f"{short}([", "])")
            return around[0], _each(objects.elements(address)), around[1]
        if objects.is_a(address, "tuple"):
            return self._tuple_form(address, name, short)
        if objects.is_a(address, "dict"):
            around = ("{", "}") if name == "dict" else (f"{short}({{", "})")
            parts = (("{}: {}", pair) for pair in objects.items(address))
            return around[0], parts, around[1]
        if objects.flags(address) & _EXCEPTION:
            return f"{short}(", _each(objects.elements(objects.word(address + 24))), ")"
        match name:
            case "set" | "frozenset":
                return self._set_form(address, name)
            case "collections.deque":
                return "deque([", _each(self._deque(address)), "])"
            case "range":
                first, last, step = objects.words(address + 16, 3)
                is_one = objects.type_name(step) == "int" and objects.integer(step) == 1
                return "range(", _each((first, last) if is_one else (first, last, step)), ")"
            case "slice":
                return "slice(", _each(objects.words(address + 16, 3)), ")"
        return self._attributes_form(address, short)

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

    def _set_form(self, address: int, name: str) -> tuple[str, _Parts, str]:
        """Return the form of a set, in an order that does not depend on the rank's hashes."""
        members = sorted(self._objects.members(address), key=self._order)
        if not members:
            return f"{name}(", (), ")"
        around = ("{", "}") if name == "set" else ("frozenset({", "})")
        return around[0], _each(members), around[1]

    def _order(self, address: int) -> tuple[str, float, str]:
        objects = self._objects
        name = objects.type_name(address)
        if name == "int":
            return name, objects.integer(address), ""
        return name, 0, objects.text(address) if name == "str" else ""

    def _deque(self, address: int) -> Iterator[int]:
        objects = self._objects
        count, block, _, at = objects.words(address + 16, 4)
        at = objects.word(address + 40)
        for _ in range(min(count, self._most + 1)):
            yield objects.word(block + 8 + 8 * at)
            at += 1
            if at == _BLOCK:
                block, at = objects.word(block + 8 + 8 * _BLOCK), 0

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

    def _time(self, address: int, name: str) -> str | None:
        objects = self._objects
        try:
            if name == "datetime.timedelta":
                return repr(
                    datetime.timedelta(*struct.unpack("<3i", objects.read(address + 24, 12)))
                )
            has_zone, *data = objects.read(address + 24, 11 if name == "datetime.datetime" else 5)
            year, month, day, *rest = data[0] << 8 | data[1], *data[2:]
            if name == "datetime.date":
                return repr(datetime.date(year, month, day))
            if has_zone:
                return None
            hour, minute, second, *parts = rest
            micros = parts[0] << 16 | parts[1] << 8 | parts[2]
            return repr(datetime.datetime(year, month, day, hour, minute, second, micros))
        except (ValueError, OverflowError):
            return None


_Parts = Iterable[tuple[str, Sequence[int]]]
"""Formats, each with the addresses of the objects in it."""


def _each(addresses: Iterable[int]) -> _Parts:
    return (("{}", (each,)) for each in addresses)


def _named(pairs: Iterable[tuple[str, int]]) -> _Parts:
    return ((f"{name.replace('{', '').replace('}', '')}={{}}", (each,)) for name, each in pairs)


def _float(value: float) -> str:
    return "nan" if math.isnan(value) else repr(value)
