"""Objects of the interpreter, read from the memory of a process; nothing is executed in it.

The layouts are those of CPython's releases for 64-bit processors, with the GIL.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from pgdb.backend.python.runtime import Memory
from pgdb.errors import CommandError

_MOST_TEXT_BYTES = 1 << 20
_MOST_ITEMS = 1 << 20
_MOST_BASES = 64
_TYPE, _SIZE = 8, 16
_NAME_AT, _BASIC_SIZE_AT, _FLAGS_AT, _DICT_AT = 24, 32, 168, 264
_GET_AT, _DICT_OFFSET_AT, _MRO_AT = 272, 288, 344
_MEMBERS_OF_OBJECTS = (6, 16)
"""Types of members that are objects: ``_Py_T_OBJECT`` and ``Py_T_OBJECT_EX``."""
_INLINE_VALUES, _MANAGED_DICT = 1 << 2, 1 << 4
_SUBCLASSES = {
    "int": 1 << 24,
    "list": 1 << 25,
    "tuple": 1 << 26,
    "bytes": 1 << 27,
    "str": 1 << 28,
    "dict": 1 << 29,
}
"""Bits in the flags of a type that say which built-in type it derives from."""
_TYPE_FLAG = 1 << 31
_HEAP_TYPE = 1 << 9
_BLOCK = 64
"""Elements in each block of a ``deque``."""
_TABLES_OF_TORCH = ("_parameters", "_buffers", "_modules")
_CACHED_KEYS = {8: 872, 9: 864, 10: 872, 11: 872, 12: 880, 13: 880, 14: 880, 15: 888}
"""Offset of the keys that instances share, by the minor version of Python 3."""
_DIGIT_BITS = 30
_BARE_BYTES = 16
"""Size of an object without contents."""
_SPLIT, _UNICODE = 2, 1


Key = str | int | float | bytes | slice | tuple["Key", ...] | None
"""A literal in brackets behind an expression."""


class UnknownError(CommandError):
    """Expression whose value cannot be read."""


class Objects:
    """Reader of the objects of one process.

    :param minor: the minor version of Python 3.
    """

    def __init__(self, memory: Memory, minor: int) -> None:
        if minor not in _CACHED_KEYS:
            raise UnknownError(
                "the objects of this Python are not known: it has no GIL, or is a new version"
            )
        self._memory = memory
        self.minor = minor
        self._types: dict[int, str] = {}

    # -- memory ------------------------------------------------------------------------------

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return bytes of memory.

        :raises UnknownError: if they cannot be read.
        """
        data = self._memory(address, size_bytes) if size_bytes else b""
        if len(data) < size_bytes:
            raise UnknownError(f"Cannot access memory at address {address:#x}")
        return data

    def word(self, address: int) -> int:
        """Return a word of memory."""
        return int(struct.unpack("<Q", self.read(address, 8))[0])

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words of memory."""
        if not 0 <= count <= _MOST_ITEMS:
            raise UnknownError(f"the object at {address:#x} is damaged, or is being changed")
        data = self.read(address, 8 * count)
        return tuple(map(int, struct.unpack(f"<{count}Q", data)))

    def integer32(self, address: int) -> int:
        """Return an integer of C of 32 bits."""
        return int(struct.unpack("<i", self.read(address, 4))[0])

    def _signed(self, address: int) -> int:
        return int(struct.unpack("<q", self.read(address, 8))[0])

    # -- types -------------------------------------------------------------------------------

    def type_name(self, address: int) -> str:
        """Return the name of an object's type: with its module, for a type written in C."""
        return self.name_of_type(self.word(address + _TYPE))

    def name_of_type(self, kind: int) -> str:
        """Return the name of a type."""
        name = self._types.get(kind)
        if name is None:
            name = self._types[kind] = self.c_text(self.word(kind + _NAME_AT))
        return name

    def c_text(self, address: int) -> str:
        """Return a short text of C."""
        data = self._memory(address, 200)
        return data.partition(b"\0")[0].decode("utf-8", "replace")

    def flags(self, address: int) -> int:
        """Return the flags of an object's type."""
        return self.word(self.word(address + _TYPE) + _FLAGS_AT)

    def is_a_type(self, address: int) -> bool:
        """Return whether an object is a type."""
        return bool(self.flags(address) & _TYPE_FLAG)

    def is_a(self, address: int, kind: str) -> bool:
        """Return whether an object is of a built-in type, or of a type derived from it."""
        return bool(self.flags(address) & _SUBCLASSES[kind])

    def bases(self, address: int) -> list[str]:
        """Return the names of an object's type and of all its bases."""
        return self.bases_of_type(self.word(address + _TYPE))

    def bases_of_type(self, kind: int) -> list[str]:
        """Return the names of a type and of all its bases."""
        return [self.name_of_type(each) for each in self.types_of(kind)]

    def types_of(self, kind: int) -> tuple[int, ...]:
        """Return the addresses of a type and of all its bases."""
        mro = self.word(kind + _MRO_AT)
        return self._tuple(mro)[:_MOST_BASES] if mro else (kind,)

    def in_type(self, kind: int, name: str) -> int | None:
        """Return what a type itself has by a name, None if nothing."""
        table = self.word(kind + _DICT_AT)
        # The tables of the interpreter's own static types are elsewhere.
        return self.find(self.items(table), name) if table else None

    # -- plain values ------------------------------------------------------------------------

    def text(self, address: int) -> str:
        """Return the value of a ``str``."""
        length, state = self.word(address + 16), self.word(address + 32)
        kind, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
        head = (48, 72) if self.minor < 12 else (40, 56)
        if kind not in (1, 2, 4):
            raise UnknownError("the text is not complete")
        if length * kind > _MOST_TEXT_BYTES:
            raise UnknownError(f"the text has {length} characters")
        if is_compact:
            at = address + (head[0] if is_ascii else head[1])
        else:  # of a class derived from str
            at = self.word(address + head[1])
        data = self.read(at, length * kind)
        encoding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind]
        return data.decode(encoding, "replace")

    def integer(self, address: int) -> int:
        """Return the value of an ``int``."""
        if self.minor < 12:
            size = self._signed(address + _SIZE)
            count, is_negative = abs(size), size < 0
        else:
            tag = self.word(address + 16)
            count, is_negative = tag >> 3, tag & 3 == 2
            count = 0 if tag & 3 == 1 else count
        if count > 1 << 16:
            raise UnknownError("the integer is too large")
        digits = struct.unpack(f"<{count}I", self.read(address + 24, 4 * count))
        value: int = sum(digit << _DIGIT_BITS * at for at, digit in enumerate(digits))
        return -value if is_negative else value

    def number(self, address: int) -> float:
        """Return the value of a ``float``."""
        return float(struct.unpack("<d", self.read(address + 16, 8))[0])

    # -- containers --------------------------------------------------------------------------

    def _tuple(self, address: int) -> tuple[int, ...]:
        return self.words(address + (32 if self.minor >= 14 else 24), self.word(address + _SIZE))

    def elements(self, address: int) -> tuple[int, ...]:
        """Return the addresses of the elements of a list or a tuple."""
        if self.is_a(address, "tuple"):
            return self._tuple(address)
        return self.words(self.word(address + 24), self.word(address + _SIZE))

    def items(self, dictionary: int) -> Iterator[tuple[int, int]]:
        """Yield the addresses of keys and values of a dictionary, in its order."""
        yield from self._items(self.word(dictionary + 32), self.word(dictionary + 40))

    def _items(self, keys: int, values: int) -> Iterator[tuple[int, int]]:
        if self.minor < 11:
            size, count = self.word(keys + 8), self.word(keys + 32)
            width = 1 if size <= 0xFF else 2 if size <= 0xFFFF else 4 if size <= 0xFFFFFFFF else 8
            begin, is_general = keys + 40 + size * width, True
        else:
            head = self.read(keys + 8, 3)
            count = self.word(keys + 24)
            begin, is_general = keys + 32 + (1 << head[1]), head[2] == 0
        step = 3 if is_general else 2
        entries = self.words(begin, step * count)
        held: tuple[int, ...] = ()
        if values:
            held = self.words(values + (8 if self.minor >= 13 else 0), count)
        for at in range(count):
            key, value = entries[step * at + step - 2 : step * at + step]
            value = held[at] if values else value
            if key and value:
                yield key, value

    def _attributes(self, address: int) -> Iterator[tuple[int, int]]:
        """Yield names and values of the attributes that an object itself has."""
        kind = self.word(address + _TYPE)
        flags = self.word(kind + _FLAGS_AT)
        if self.minor >= 11 and flags & _MANAGED_DICT:
            dictionary, values = self._managed(address, kind, flags)
            if dictionary:
                yield from self.items(dictionary)
            elif values:
                yield from self._items(self.word(kind + _CACHED_KEYS[self.minor]), values)
            return
        offset = self._signed(kind + _DICT_OFFSET_AT)
        if offset < 0:
            # Behind the items of an object that varies in size, such as an enumeration of int.
            basic, item = self.words(kind + _BASIC_SIZE_AT, 2)
            count = abs(self._signed(address + _SIZE))
            offset += basic + (item * count + 7) // 8 * 8 if count <= _MOST_ITEMS else 0
        if offset > 0 and (dictionary := self.word(address + offset)):
            yield from self.items(dictionary)

    def _managed(self, address: int, kind: int, flags: int) -> tuple[int, int]:
        """Return the dictionary of an object, or its values by the keys of its type."""
        if self.minor == 11:
            return self.word(address - 24), self.word(address - 32)
        place = self.word(address - 24)
        if self.minor == 12:
            return (0, place + 1) if place & 1 else (place, 0)
        if place or not flags & _INLINE_VALUES:
            return place, 0
        values = address + self.word(kind + _BASIC_SIZE_AT)
        is_valid = self.read(values, 4)[3]
        return 0, values if is_valid else 0

    def of_deque(self, address: int, most: int) -> Iterator[int]:
        """Yield the addresses of the first elements of a ``deque``."""
        count, block = self.words(address + 16, 2)
        at = self.word(address + 40)
        for _ in range(min(count, most)):
            yield self.word(block + 8 + 8 * at)
            at += 1
            if at == _BLOCK:
                block, at = self.word(block + 8 + 8 * _BLOCK), 0

    def members(self, address: int) -> Iterator[int]:
        """Yield the addresses of the elements of a set, in no order."""
        mask, table = self.word(address + 32), self.word(address + 40)
        entries = self.words(table, 2 * (mask + 1))
        # The hash of an entry that was removed is -1, which no key has.
        removed = (1 << 64) - 1
        pairs = zip(entries[::2], entries[1::2], strict=True)
        yield from (key for key, number in pairs if key and number != removed)

    def base_bytes(self, address: int) -> int:
        """Return the size of an object without what varies in size."""
        return self.word(self.word(address + _TYPE) + _BASIC_SIZE_AT)

    def find(self, pairs: Iterator[tuple[int, int]], name: str) -> int | None:
        """Return the value whose key is the text *name*."""
        for key, value in pairs:
            if (
                self.is_a(key, "str")
                and self.word(key + 16) == len(name)
                and self.text(key) == name
            ):
                return value
        return None

    def attribute(self, address: int, name: str) -> int:
        """Return the address of an attribute.

        :raises UnknownError: if the object itself has none of this name.
        """
        if self.type_name(address) == "module":
            found = self.find(self.items(self.word(address + 16)), name)
        else:
            found = self.find(self._attributes(address), name)
            if found is None and "Module" in self.bases(address):
                found = self._of_torch_module(address, name)
            if found is None:
                found = self._of_class(address, name)
        if found is None:
            raise UnknownError(
                f"{self.type_name(address)} has no attribute {name!r} in memory; properties have "
                "no value, since no code of the program is executed"
            )
        return found

    def _of_torch_module(self, address: int, name: str) -> int | None:
        """Return a parameter, a buffer or a part of a module of PyTorch."""
        for each in _TABLES_OF_TORCH:
            table = self.find(self._attributes(address), each)
            if table is not None and self.is_a(table, "dict"):
                if (found := self.find(self.items(table), name)) is not None:
                    return found
        return None

    def own_attributes(self, address: int) -> dict[str, int]:
        """Return the addresses of the attributes in the dictionary of an object, by their names."""
        return {
            self.text(key): value
            for key, value in self._attributes(address)
            if self.is_a(key, "str")
        }

    def _is_of_python_class(self, address: int) -> bool:
        """Return whether the class of an object is written in Python; those of C have the name of
        their module before their own."""
        flags = self.flags(address)
        return (
            bool(flags & _HEAP_TYPE)
            and not flags & _TYPE_FLAG
            and "." not in self.type_name(address)
        )

    def members_of_object(self, address: int) -> dict[str, int]:
        """Return the addresses of all attributes of an object by name, those of ``__slots__`` too;
        none for an object of a class of C.

        Those of a module of PyTorch are its parameters, buffers and parts, and what the program has
        added.
        """
        if not self._is_of_python_class(address):
            return {}
        found = {name: self.slot(address, name) or 0 for name in self._slots(address)}
        found |= self.own_attributes(address)
        tables = [found[each] for each in _TABLES_OF_TORCH if each in found]
        if len(tables) == len(_TABLES_OF_TORCH) and "Module" in self.bases(address):
            found = {name: each for name, each in found.items() if not name.startswith("_")}
            for table in tables:
                pairs = self.items(table) if self.is_a(table, "dict") else ()
                found |= {self.text(key): each for key, each in pairs}
        return {name: each for name, each in found.items() if each}

    def hidden_base(self, address: int) -> str:
        """Return the base in C of an object of a class of Python that has fields of its own; empty
        for an object all of whose contents are attributes."""
        kind = self.word(address + _TYPE)
        mro = self.word(kind + _MRO_AT)
        for each in self._tuple(mro)[:_MOST_BASES] if mro else ():
            name, flags = self.name_of_type(each), self.word(each + _FLAGS_AT)
            is_of_c = not flags & _HEAP_TYPE or "." in name
            if is_of_c and self.word(each + _BASIC_SIZE_AT) > _BARE_BYTES:
                return name
        return ""

    def is_without_contents(self, address: int) -> bool:
        """Return whether an object of a class of Python has neither attributes nor fields of C."""
        return (
            self._is_of_python_class(address)
            and not self.hidden_base(address)
            and not self.members_of_object(address)
        )

    def _slots(self, address: int) -> Iterator[str]:
        """Yield the names of ``__slots__`` of an object's class and its bases."""
        kind = self.word(address + _TYPE)
        mro = self.word(kind + _MRO_AT)
        for each in reversed(self._tuple(mro)[:_MOST_BASES] if mro else ()):
            table = self.word(each + _DICT_AT)
            if not table or "." in self.name_of_type(each):
                continue
            for key, value in self.items(table):
                if self.is_a(key, "str") and self.type_name(value) == "member_descriptor":
                    yield self.text(key)

    def of_class(self, address: int, name: str) -> int | None:
        """Return what the class of an object has by a name, or one of its bases."""
        for each in self.types_of(self.word(address + _TYPE)):
            found = self.in_type(each, name)
            if found is not None:
                return found
        return None

    def slot(self, address: int, name: str) -> int | None:
        """Return the value of an attribute of ``__slots__``; None if there is none."""
        found = self.of_class(address, name)
        if found is None or self.type_name(found) != "member_descriptor":
            return None
        member = self.word(found + 40)
        if self.integer32(member + 8) not in _MEMBERS_OF_OBJECTS:
            return None
        return self.word(address + self._signed(member + 16)) or None

    def _part_of_torch_module(self, address: int, table: int, key: int | str) -> int:
        """Return a part of a ``Sequential``, a ``ModuleList`` or a ``ModuleDict`` of PyTorch."""
        parts = {self.text(each): part for each, part in self.items(table)}
        place = str(key)
        if isinstance(key, int) and key < 0:
            place = str(len(parts) + key)
        if place not in parts:
            raise UnknownError(f"the {self.type_name(address)} has no part {key!r}")
        return parts[place]

    def _of_class(self, address: int, name: str) -> int | None:
        """Return a value that the class has, or one of its bases; the value of a slot."""
        found = self.of_class(address, name)
        if found is None:
            return None
        kind_name = self.type_name(found)
        if kind_name == "member_descriptor":
            return self.slot(address, name)
        if kind_name.endswith("._tuplegetter") and self.is_a(address, "tuple"):
            elements, at = self.elements(address), self.word(found + 16)
            return elements[at] if at < len(elements) else None
        # A descriptor computes the value: a property, a function, a cached property.
        return None if self.word(self.word(found + _TYPE) + _GET_AT) else found

    def _is_key(self, address: int, key: Key) -> bool:
        """Return whether a key of a dictionary is equal to a literal."""
        match key:
            case None:
                return self.type_name(address) == "NoneType"
            case str():
                return self.is_a(address, "str") and self.text(address) == key
            case bytes():
                if self.type_name(address) != "bytes" or self.word(address + _SIZE) != len(key):
                    return False
                return self.read(address + 32, len(key)) == key
            case tuple():
                if not self.is_a(address, "tuple") or self.word(address + _SIZE) != len(key):
                    return False
                return all(map(self._is_key, self.elements(address), key))
        if self.is_a(address, "int"):
            return self.integer(address) == key
        return self.type_name(address) == "float" and self.number(address) == key

    def element(self, address: int, key: Key) -> int:
        """Return the address of an element of a list, a tuple, a deque or a dictionary.

        :raises UnknownError: if there is none.
        """
        if self.is_a(address, "dict"):
            for at, value in self.items(address):
                if self._is_key(at, key):
                    return value
            raise UnknownError(f"the dict has no key {key!r}")
        if "Module" in self.bases(address):
            table = self.find(self._attributes(address), "_modules")
            if table is not None and self.is_a(table, "dict") and isinstance(key, int | str):
                return self._part_of_torch_module(address, table, key)
        if "collections.deque" in self.bases(address):
            elements = tuple(self.of_deque(address, _MOST_ITEMS))
        elif self.is_a(address, "list") or self.is_a(address, "tuple"):
            elements = self.elements(address)
        else:
            raise UnknownError(f"{self.type_name(address)} is no list, tuple or dict")
        if isinstance(key, slice):
            raise UnknownError(
                f"parts of a {self.type_name(address)} cannot be named; an index names an element"
            )
        if not isinstance(key, int):
            raise UnknownError(f"the index {key!r} of a {self.type_name(address)} is no number")
        if not -len(elements) <= key < len(elements):
            raise UnknownError(f"index {key} is outside of {len(elements)} elements")
        return elements[key]


class Module(msgspec.Struct, frozen=True):
    """A loaded module."""

    name: str
    globals: int
    """Address of the dictionary of its globals."""


def modules(objects: Objects, table: int) -> Iterator[Module]:
    """Yield the modules of ``sys.modules``, ``__main__`` first."""
    found = []
    for key, value in objects.items(table):
        if objects.is_a(key, "str") and objects.type_name(value) == "module":
            module = Module(objects.text(key), objects.word(value + 16))
            if module.name == "__main__":
                yield module
            else:
                found.append(module)
    yield from found
