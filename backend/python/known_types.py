"""Texts of objects of the standard library that have no elements of their own."""

from __future__ import annotations

import struct
from collections.abc import Callable

from pgdb.backend.python.objects import Objects, UnknownError

_WORD_DIGITS = 19
"""Decimal digits in each word of a ``decimal.Decimal``."""
_MOST_WORDS = 64
_WEAK = {"weakref", "weakref.ReferenceType", "weakproxy", "weakref.ProxyType"}
_NEGATIVE, _INFINITE, _NAN, _SIGNALING = 1, 2, 4, 8


def text_of(objects: Objects, address: int, name: str) -> str | None:
    """Return the text of an object as Python writes it, None for one of another type.

    :param name: the name of its type.
    """
    known = _KNOWN.get(name)
    if known is not None:
        return known(objects, address)
    if objects.is_a_type(address):
        return f"<class '{objects.name_of_type(address)}'>"
    return None


def parts_of(objects: Objects, address: int, name: str) -> tuple[str, tuple[int, ...], str] | None:
    """Return what stands before the objects in an object, these objects, and what stands behind
    them; None for an object of another type."""
    match name:
        case "mappingproxy":
            return "mappingproxy(", (objects.word(address + 16),), ")"
        case "functools.partial":
            function, arguments, named = objects.words(address + 16, 3)
            return "functools.partial(", (function, arguments, named), ")"
        case "method":
            function, owner = objects.words(address + 16, 2)
            return f"<bound method {_function_name(objects, function)} of ", (owner,), ">"
        case "builtin_function_or_method" if owner := _owner(objects, address):
            return f"<built-in method {_builtin_name(objects, address)} of ", (owner,), ">"
        case "re.Pattern":
            return "re.compile(", (objects.word(address + 48),), ")"
        case "datetime.timezone":
            return "datetime.timezone(", (objects.word(address + 16),), ")"
        case "Fraction":
            held = [objects.slot(address, each) for each in ("_numerator", "_denominator")]
            found = tuple(each for each in held if each)
            return ("Fraction(", found, ")") if len(found) == len(held) else None
        case "ChainMap":
            maps = objects.attribute(address, "maps")
            return "ChainMap(", objects.elements(maps), ")"
    if _WEAK & {*objects.bases(address)}:
        referent = objects.word(address + 16)
        is_dead = objects.type_name(referent) == "NoneType"
        return (f"<{name}; dead>", (), "") if is_dead else (f"<{name} to ", (referent,), ">")
    return None


def decimal_of(objects: Objects, address: int) -> str:
    """Return the text of a ``decimal.Decimal``."""
    flags = objects.read(address + 24, 1)[0]
    exponent, _, count = struct.unpack("<3q", objects.read(address + 32, 24))
    if not 0 <= count <= _MOST_WORDS:
        raise UnknownError("the decimal number is too large")
    words = objects.words(objects.word(address + 64), count)
    digits = sum(each * 10 ** (_WORD_DIGITS * at) for at, each in enumerate(words))
    sign = "-" if flags & _NEGATIVE else ""
    if flags & _INFINITE:
        number = "Infinity"
    elif flags & (_NAN | _SIGNALING):
        number = ("s" if flags & _SIGNALING else "") + "NaN" + (str(digits) if digits else "")
    else:
        import decimal

        plain = decimal.Decimal((0, tuple(map(int, str(digits))), exponent))
        number = str(plain)
    return f"Decimal('{sign}{number}')"


def _uuid(objects: Objects, address: int) -> str | None:
    held = objects.slot(address, "int")
    if held is None:
        return None
    digits = f"{objects.integer(held):032x}"
    return (
        f"UUID('{'-'.join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))}')"
    )


def _path(objects: Objects, address: int) -> str | None:
    for name in ("_raw_paths", "_parts"):
        held = objects.slot(address, name)
        if held is None or not objects.is_a(held, "list"):
            continue
        texts = [objects.text(each) for each in objects.elements(held)]
        # The first of the parts may be the root.
        joined = "/".join(texts).replace("//", "/") if name == "_parts" else "/".join(texts)
        return f"{objects.type_name(address)}({joined or '.'!r})"
    return None


def _function_name(objects: Objects, address: int) -> str:
    if objects.type_name(address) != "function":
        return f"<{objects.type_name(address)}>"
    return objects.text(objects.word(address + (104 if objects.minor < 10 else 40)))


def _function(objects: Objects, address: int) -> str:
    return f"<function {_function_name(objects, address)} at {address:#x}>"


def _builtin_name(objects: Objects, address: int) -> str:
    return objects.c_text(objects.word(objects.word(address + 16)))


def _owner(objects: Objects, address: int) -> int:
    """Return the object of a built-in method, 0 for a function of a module."""
    owner = objects.word(address + 24)
    return 0 if not owner or objects.type_name(owner) == "module" else owner


def _builtin(objects: Objects, address: int) -> str | None:
    if _owner(objects, address):
        return None
    return f"<built-in function {_builtin_name(objects, address)}>"


def _module(objects: Objects, address: int) -> str | None:
    name = objects.find(objects.items(objects.word(address + 16)), "__name__")
    return None if name is None else f"<module '{objects.text(name)}'>"


_KNOWN: dict[str, Callable[[Objects, int], str | None]] = {
    "PosixPath": _path,
    "PurePosixPath": _path,
    "UUID": _uuid,
    "builtin_function_or_method": _builtin,
    "decimal.Decimal": decimal_of,
    "ellipsis": lambda objects, address: "Ellipsis",
    "NotImplementedType": lambda objects, address: "NotImplemented",
    "function": _function,
    "module": _module,
}
