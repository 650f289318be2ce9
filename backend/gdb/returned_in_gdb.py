"""Returned numbers of 128 bits, which GDB reads from the wrong place; runs inside GDB, in its
Python.

``finish`` of GDB 13.1 to 18.1 on x86-64 takes ``__int128`` for a value in memory, and binary128
(``__float128``, ``real(16)``) for an ``long double``: it shows 0. The System V ABI returns an
integer of 16 bytes in RAX and RDX, binary128 in XMM0, and a complex number of binary128 in memory,
with its address in RAX. A structure with one such member, in C, is returned as its member.
"""

from __future__ import annotations

import gdb

_BYTES = 16
_HALF = (1 << 64) - 1
_QUADRUPLE = frozenset(
    ("__float128", "_float128", "float128", "real(kind=16)", "real(16)", "real*16")
)
"""Names of binary128; the other types of 16 bytes are ``long double``, ``real(10)`` …"""


def correct(name: str) -> None:
    """Print the number that a function has returned, and add it to GDB's history.

    Nothing is printed if GDB reads numbers of its type right.

    :param name: GDB's name of the returned value: ``$1``.
    """
    kind = gdb.history(int(name[1:])).type
    frame = gdb.newest_frame()
    if not frame.architecture().name().startswith("i386:x86-64"):
        return
    data = _data(kind.strip_typedefs(), frame)
    if data is None:
        return
    value = gdb.Value(data, kind)
    gdb.add_history(value)
    gdb.write(f"{value.format_string()}\n")


def _data(kind: gdb.Type, frame: gdb.Frame) -> bytes | None:
    """Return the bytes of a returned number; None for a type that GDB reads right."""
    if kind.code == gdb.TYPE_CODE_COMPLEX:
        part = kind.target().strip_typedefs()
        if part.code != gdb.TYPE_CODE_FLT or not _is_quadruple(part):
            return None
        address = _half(frame.read_register("rax"))
        return bytes(gdb.selected_inferior().read_memory(address, kind.sizeof))
    kind = _only_member(kind)
    if kind.sizeof != _BYTES:
        return None
    if kind.code == gdb.TYPE_CODE_INT:
        halves = frame.read_register("rax"), frame.read_register("rdx")
    elif kind.code == gdb.TYPE_CODE_FLT and _is_quadruple(kind):
        vector = frame.read_register("xmm0")["v2_int64"]
        halves = vector[0], vector[1]
    else:
        return None
    return b"".join(_half(each).to_bytes(8, "little") for each in halves)


def _half(value: gdb.Value) -> int:
    return int(value.cast(gdb.Value(0).type)) & _HALF


def _is_quadruple(kind: gdb.Type) -> bool:
    return kind.sizeof == _BYTES and (kind.name or "").lower() in _QUADRUPLE


def _only_member(kind: gdb.Type) -> gdb.Type:
    """Return the type of the only member of a structure of C, else *kind*.

    A class of C++ can be returned in memory for the sake of its constructors.
    """
    while kind.code == gdb.TYPE_CODE_STRUCT and len(kind.fields()) == 1 and _is_c():
        kind = kind.fields()[0].type.strip_typedefs()
    return kind


def _is_c() -> bool:
    said = gdb.execute("show language", to_string=True)
    return 'currently c"' in said or '"c"' in said
