"""Types of numbers and of arrays of them, as GDB names them."""

from __future__ import annotations

import platform
import re
from typing import Literal

import msgspec

from pgdb.backend.gdb import quadruple, unset_bounds
from pgdb.errors import CommandError
from pgdb.patterns import pattern

_QUALIFIERS = pattern(r"\b(?:const|volatile|restrict|_Atomic)\b\s*")
_AGGREGATE = pattern(r"(?:struct|union|class|enum)\b[^{]*\{.*\}", re.S)
_DIMENSIONS = pattern(r"((?:\[\d*\])*)\Z")
_FORTRAN = pattern(
    r"(?P<name>[a-z ]+)(?:\(kind=(?P<kind>\d+)\)|\*(?P<bytes>\d+))"
    r"(?P<attributes>(?:, \w+)*)(?: \((?P<bounds>[^()]*)\))?\Z",
    re.I,
)
_FORTRAN_DERIVED = pattern(r"Type (?P<name>\w+)[^(]*(?:\((?P<bounds>.*)\))?\Z", re.S)
_VECTOR = pattern(r"\s*__attribute__ \(\(vector_size\((\d+)\)\)\)\Z")
_STD_COMPLEX = pattern(r"(?:class|struct) std::(?:\w+::)?complex<(?:float|double|long double)>")
_INTEGER_WORDS = frozenset({"char", "short", "int", "long", "signed", "unsigned"})
_UNSIGNED = frozenset({"unsigned", "char8_t", "char16_t", "char32_t"})
_OTHER_INTEGERS = frozenset({"wchar_t", "char8_t", "char16_t", "char32_t"})
_FLOATS = frozenset({"float", "double", "long double", "_Float16", "_Float32", "_Float64"})
_QUADRUPLES = {
    "_Float128": "q",
    "__float128": "q",
    "__int128": "I",
    "unsigned __int128": "U",
    "__int128 unsigned": "U",
}
_NAME_WIDTH = 40
_FORTRAN_LETTERS = {"real": "f", "integer": "i", "logical": "u", "complex": "c"}


class NumberType(msgspec.Struct, frozen=True):
    """A type as parsed from GDB's name for it."""

    letter: str
    """NumPy's letter: b, i, u, f or c."""
    shape: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    """Lower bound of each index, in Fortran."""
    order: Literal["C", "F"] = "C"
    is_fortran: bool = False
    item_bytes: int = 0
    """Size of an element in bytes, in Fortran."""
    extents: tuple[int, ...] = ()
    """Difference of the bounds of each index, in Fortran: an array without elements has one of 0 or
    below."""


def parse_type(name: str, base: str) -> NumberType:
    """Parse GDB's ``ptype``, or ``whatis`` in Fortran, of *base*.

    :raises CommandError: if that is no number or array of numbers; the message says what to write.
    """
    name = _QUALIFIERS.sub("", name).strip()
    name = re.sub(r"\s*&+\Z", "", name.replace("(&&)", "").replace("(&)", ""))
    fortran = _FORTRAN.match(name)
    if fortran is not None:
        return _fortran_type(fortran, base)
    if name.startswith("PTR TO"):
        raise CommandError(f"{base} is a pointer; leave the & out")
    derived = _FORTRAN_DERIVED.match(name)
    if derived is not None:
        bounds = derived["bounds"]
        element = f"{base}({','.join('1' for _ in bounds.split(','))})" if bounds else base
        raise CommandError(
            f"{base} is of type {derived['name']}; read a member, such as {element}%NAME"
        )
    # GDB writes an array of vectors as "double [2] __attribute__ ((vector_size(4)))".
    name = _VECTOR.sub(r"[\1]", name)
    aggregate = _AGGREGATE.match(name)
    rest = name[aggregate.end() :] if aggregate is not None else name
    if aggregate is None and rest.endswith(")") and "(*)(" not in rest:
        raise CommandError(f"{base} is a function, not a number")
    if "*" in rest:
        raise CommandError(_about_pointer(rest, base))
    dimensions = _DIMENSIONS.search(rest)
    assert dimensions is not None, "it matches the empty text"
    extents = re.findall(r"\[(\d*)\]", dimensions[1])
    if "" in extents:
        raise CommandError(f"{base} has no length of its own; write {base}[0]@COUNT")
    shape = tuple(int(each) for each in extents)
    what = aggregate[0] if aggregate is not None else rest[: dimensions.start()].strip()
    return NumberType(letter=_letter(what, base, shape), shape=shape)


def _fortran_type(match: re.Match[str], base: str) -> NumberType:
    name = match["name"].strip().lower()
    bytes_of_real = int(match["kind"] or match["bytes"])
    if name == "character":
        raise CommandError(f"{base} is text, not numbers; 'print' shows it")
    if name not in _FORTRAN_LETTERS:
        raise CommandError(f"{base} is of type {match[0]}, which is no number")
    if bytes_of_real == 16 and name == "complex":
        raise CommandError(about_quadruple(f"numbers of type {match[0]}", base))
    lower, extents = [], []
    for bounds in (match["bounds"] or "").split(",") if match["bounds"] else ():
        low, colon, high = bounds.strip().rpartition(":")
        try:
            lower.append(int(low) if colon else 1)
            extents.append(int(high) - lower[-1] + 1)
        except ValueError:
            if "allocatable" not in match["attributes"] and "pointer" not in match["attributes"]:
                raise CommandError(unset_bounds.about_unknown(base)) from None
            raise CommandError(f"{base} is not allocated or associated") from None
    return NumberType(
        item_bytes=bytes_of_real * (2 if name == "complex" else 1),
        letter=_fortran_letter(name, bytes_of_real),
        shape=tuple([max(0, each) for each in extents]),
        extents=tuple(extents),
        lower=tuple(lower),
        order="F" if len(extents) > 1 else "C",
        is_fortran=True,
    )


def _fortran_letter(name: str, size_bytes: int) -> str:
    if size_bytes == quadruple.ITEM_BYTES and name in ("real", "integer"):
        return "q" if name == "real" else "I"
    return _FORTRAN_LETTERS[name]


def _letter(what: str, base: str, shape: tuple[int, ...]) -> str:
    """Return NumPy's letter for an element type of C or C++."""
    words = what.split()
    if what.startswith("enum"):
        return "i" if re.search(r"= -\d", what) else "u"
    if _STD_COMPLEX.match(what) or {"complex", "_Complex"} & set(words):
        return "c"
    if "{" in what:
        name = re.split(r"\s*(?:\[with |\{)", what)[0].partition(" : ")[0]
        element = f"{base}{'[0]' * len(shape)}"
        raise CommandError(f"{base} is of type {_cut(name)}; read a member, such as {element}.NAME")
    if what in ("bool", "_Bool"):
        return "b"
    if what in _FLOATS:
        return "f"
    if what == "char":
        return "i" if platform.machine() in ("x86_64", "i686") else "u"
    if set(words) <= _INTEGER_WORDS or what in _OTHER_INTEGERS:
        return "u" if set(words) & _UNSIGNED else "i"
    if what in _QUADRUPLES:
        return _QUADRUPLES[what]
    if what.startswith("<"):
        raise CommandError(f"{base} has no debug information; name its type: *(double *)&{base}")
    raise CommandError(f"{base} is of type {_cut(what)}, which is no number")


def _cut(name: str) -> str:
    """Return the name of a type cut to fit a line; C++ names have no length limit."""
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _about_pointer(rest: str, base: str) -> str:
    if "(*)(" in rest:
        return f"{base} is a pointer to a function, not a number"
    if rest.endswith("]") and "(*)" not in rest:
        return f"{base} holds pointers, not numbers"
    if rest.endswith("**"):
        return f"{base} points to pointers; write {base}[0][0]@COUNT for what the first points to"
    return f"{base} is a pointer; write {base}[0]@COUNT for what it points to"


def about_quadruple(what: str, base: str) -> str:
    """Return why numbers of 128 bits cannot be read, with the commands that show them."""
    return f"{base} has {what}, which NumPy has no equal of; 'print' and 'stat' show them"
