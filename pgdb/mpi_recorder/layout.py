"""The memory of the flight recorder: one block in each rank, ``struct memory`` of recorder.h.

The source of the recorder checks the sizes here when it is compiled. Numbers are those of the host.
"""

from __future__ import annotations

import ctypes
import zlib
from ctypes import c_char, c_int32, c_int64, c_uint32, c_uint64

from pgdb.mpi_functions import NUMBERED

LIBRARY = "libpgdb-mpi-recorder.so"
"""File name of the library."""
SYMBOL = "pgdb_mpi_recorder"
MAGIC = b"PGDBREC\0"
ALIGNMENT_BYTES = 4096
"""The block begins at such an address."""
NONE = -(1 << 31)
"""Stands for a number that a call does not have."""
NO_COUNT = -(1 << 63)
MOST_CALLS = 64
"""Calls of each thread that are kept."""
MOST_HANDLES = 128
"""Requests of one call that are kept."""
_MOST_THREADS = 64
_MOST_GROUPS = 1024
_MOST_REQUESTS = 16384
_MOST_NAMES = 64
_REVISION = 1
"""Goes up whenever a field gets another meaning."""

VERSION = _REVISION << 32 | zlib.crc32(repr(NUMBERED).encode())
"""Number of this layout and this table of functions."""

COMMUNICATOR, WINDOW, FILE = 1, 2, 3
"""Kinds of a :class:`Group`."""
SEND, RECEIVE, COLLECTIVE, RMA, IO, GENERALIZED = 1, 2, 3, 4, 5, 6
"""Kinds of a :class:`Request`, which PERSISTENT and PARTITIONED can be added to."""
PERSISTENT, PARTITIONED = 16, 32
BEFORE_INIT, READY, FINALIZED = 0, 1, 2
"""States of :class:`Memory`."""


class Call(ctypes.Structure):
    """``struct call``."""

    _fields_ = (
        ("began", c_uint64),
        ("ended", c_uint64),
        ("count", c_int64),
        ("receive_count", c_int64),
        ("datatype", c_uint64),
        ("operation", c_uint64),
        ("dest", c_int32),
        ("source", c_int32),
        ("tag", c_int32),
        ("receive_tag", c_int32),
        ("root", c_int32),
        ("group", c_int32),
        ("function", c_uint32),
        ("requests", c_uint32),
        ("group_calls", c_uint64),
    )


class Thread(ctypes.Structure):
    """``struct thread``."""

    _fields_ = (
        ("calls", c_uint64),
        ("tid", c_int32),
        ("depth", c_int32),
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


class Request(ctypes.Structure):
    """``struct request``."""

    _fields_ = (
        ("handle", c_uint64),
        ("datatype", c_uint64),
        ("count", c_int64),
        ("group", c_int32),
        ("peer", c_int32),
        ("tag", c_int32),
        ("kind", c_int32),
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
        ("first_ticks", c_uint64),
        ("first_ns", c_uint64),
        ("last_ticks", c_uint64),
        ("last_ns", c_uint64),
        ("lost_requests", c_uint64),
        ("lost_groups", c_uint64),
        ("lost_threads", c_uint64),
        ("state", c_int32),
        ("threads", c_uint32),
        ("datatypes", Name * _MOST_NAMES),
        ("operations", Name * _MOST_NAMES),
        ("thread", Thread * _MOST_THREADS),
        ("group", Group * _MOST_GROUPS),
        ("request", Request * _MOST_REQUESTS),
    )


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "call": Call,
    "thread": Thread,
    "group": Group,
    "request": Request,
    "name": Name,
    "memory": Memory,
}
"""The structures by their names in recorder.h."""
