"""The memory of the recorder of MPI calls: one block in each rank, ``struct memory`` of recorder.h.

The source of the recorder checks the sizes here when it is compiled. Numbers are those of the host.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator
from ctypes import c_char, c_int32, c_int64, c_uint32, c_uint64

from pgdb.mpi_calls import MOST_RECENT
from pgdb.mpi_functions import NUMBERED

LIBRARY = "libpgdb-mpi-recorder.so"
"""File name of the library."""
MAGIC = b"PGDBREC\0"
ALIGNMENT_BYTES = 4096
"""The block begins at such an address."""
MOST_CALLS = MOST_RECENT + 1
"""Calls of each thread that are kept; the oldest one may be half replaced by the next call."""
MOST_HANDLES = 128
"""Requests of one call that are kept."""
MOST_THREADS = 64
MOST_GROUPS = 1024
MOST_REQUESTS = 16384
PROBES = 64
"""Places of the table of requests, from the first one of a request on, at which it can be."""
_MOST_NAMES = 64
_REVISION = 3
"""Number of the layout, one higher whenever a field gets another meaning."""

VERSION = _REVISION << 32 | zlib.crc32(repr(NUMBERED).encode())
"""Number of this layout and this table of functions."""

COMMUNICATOR, WINDOW, FILE = 1, 2, 3
"""Kinds of a :class:`Group`."""
PERSISTENT = 1 << 31
"""Bit of the number of a function that makes a request which stays open when it is complete."""
BEFORE_INIT, READY, FINALIZED = 0, 1, 2
"""States of :class:`Memory`."""


class _SourceAndTag(ctypes.Structure):
    _fields_ = (("source", c_int32), ("receive_tag", c_int32))


class _Collective(ctypes.Union):
    _fields_ = (("group_calls", c_uint64), ("displacement", c_int64), ("_parts", _SourceAndTag))
    _anonymous_ = ("_parts",)


class _Receive(ctypes.Union):
    _fields_ = (("receive_count", c_int64), ("operation", c_uint64))


class Call(ctypes.Structure):
    """``struct call``: a call, or a request as the call that has made it."""

    _fields_ = (
        ("began", c_uint64),
        ("request", c_uint64),
        ("function", c_uint32),
        ("group", c_int32),
        ("peer", c_int32),
        ("tag", c_int32),
        ("count", c_int64),
        ("datatype", c_uint64),
        ("_collective", _Collective),
        ("_receive", _Receive),
    )
    _anonymous_ = ("_collective", "_receive")


class Thread(ctypes.Structure):
    """``struct thread``."""

    _fields_ = (
        ("calls", c_uint64),
        ("frame", c_uint64),
        ("second", c_uint64),
        ("now_ns", c_uint64),
        ("tid", c_int32),
        ("number", c_uint32),
        ("_to_the_line", c_uint64 * 3),
        ("requests", c_uint64 * MOST_HANDLES),
        ("ring", Call * MOST_CALLS),
    )


class Group(ctypes.Structure):
    """``struct group``."""

    _fields_ = (
        ("handle", c_uint64),
        ("identity", c_uint64),
        ("created", c_uint64),
        ("collectives", c_uint64),
        ("kind", c_int32),
        ("size", c_int32),
        ("remote_size", c_int32),
        ("rank", c_int32),
        ("members", c_uint64),
        ("remote", c_uint64),
        ("name", c_char * 64),
    )


class Name(ctypes.Structure):
    """``struct name``."""

    _fields_ = (("text", c_char * 32), ("handle", c_uint64))


class Memory(ctypes.Structure):
    """``struct memory``."""

    _fields_ = (
        ("magic", c_char * 8),
        ("version", c_uint64),
        ("any_source", c_int32),
        ("any_tag", c_int32),
        ("proc_null", c_int32),
        ("root", c_int32),
        ("lost_requests", c_uint64),
        ("lost_groups", c_uint64),
        ("lost_threads", c_uint64),
        ("displaced", c_uint64),
        ("state", c_int32),
        ("threads", c_uint32),
        ("datatypes", Name * _MOST_NAMES),
        ("operations", Name * _MOST_NAMES),
        ("_to_the_line", c_uint64 * 7),
        ("thread", Thread * MOST_THREADS),
        ("group", Group * MOST_GROUPS),
        ("request", Call * MOST_REQUESTS),
    )


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "call": Call,
    "thread": Thread,
    "group": Group,
    "name": Name,
    "memory": Memory,
}
"""The structures by their names in recorder.h."""


def request_place(handle: int) -> int:
    """Return the first place at which a request can be: ``hashed`` of recorder.h."""
    mixed = handle * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    return (mixed >> 40) & (MOST_REQUESTS - 1)


def offsets() -> Iterator[tuple[str, str, int]]:
    """Yield the structures and their fields in recorder.h, with the offsets of the fields."""
    for name, structure in STRUCTURES.items():
        for field, *_ in structure._fields_:
            if not field.startswith("_"):
                yield name, field, getattr(structure, field).offset
    both = ("source", "receive_tag", "group_calls", "displacement", "receive_count", "operation")
    for field in both:
        yield "call", field, getattr(Call, field).offset
