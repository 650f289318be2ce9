"""Memory of a process: the kernel gives the bytes, or GDB where only a tracer may read."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import CommandError

_CHUNK_BYTES = 16 * 1024 * 1024


async def read_memory(gdb: GdbSession, pid: int, address: int, size_bytes: int) -> bytes:
    """Return the bytes at an address; where *pid* is 0, GDB reads them from the program's file.

    :raises CommandError: if they cannot be read.
    """
    if not pid:
        return await _memory_by_gdb(gdb, address, size_bytes)
    try:
        return await asyncio.to_thread(_memory_of_process, pid, address, size_bytes)
    except PermissionError:
        # Yama lets only the tracer read, and GDB is the tracer.
        return await _memory_by_gdb(gdb, address, size_bytes)


async def read_pieces(gdb: GdbSession, pid: int, pieces: Sequence[tuple[int, int]]) -> bytes:
    """Return the bytes of several pieces, each with its address and its size in bytes.

    :raises CommandError: if they cannot be read.
    """
    if pid and len(pieces) > 1:
        with contextlib.suppress(PermissionError):
            return await asyncio.to_thread(_pieces_of_process, pid, pieces)
    return b"".join([await read_memory(gdb, pid, *each) for each in pieces])


def _pieces_of_process(pid: int, pieces: Sequence[tuple[int, int]]) -> bytes:
    return b"".join([_memory_of_process(pid, *each) for each in pieces])


def read_some(pid: int, address: int, size_bytes: int) -> bytes:
    """Return the bytes at an address, fewer where the memory ends, none where there is none."""
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(memory, size_bytes, address) if address > 0 else b""
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(memory)


def _memory_of_process(pid: int, address: int, size_bytes: int) -> bytes:
    pieces = []
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = address + size_bytes
        while address < end:
            try:
                piece = os.pread(memory, min(_CHUNK_BYTES, end - address), address)
            except PermissionError:
                raise
            except OSError:
                piece = b""
            if not piece:
                raise CommandError(f"Cannot access memory at address {address:#x}")
            pieces.append(piece)
            address += len(piece)
    except OverflowError:
        raise CommandError(f"Cannot access memory at address {address:#x}") from None
    finally:
        os.close(memory)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _memory_by_gdb(gdb: GdbSession, address: int, size_bytes: int) -> bytes:
    """Read memory through GDB, which writes it to our memfd."""
    file = os.memfd_create("pgdb-block", os.MFD_CLOEXEC)
    try:
        path = f"/proc/{os.getpid()}/fd/{file}"
        result = await gdb.send(
            console(f"dump binary memory {path} {address} {address + size_bytes}")
        )
        if result.kind != "done":
            raise CommandError(failure(result).message)
        return await asyncio.to_thread(_whole_file, file, size_bytes)
    finally:
        os.close(file)


def _whole_file(file: int, size_bytes: int) -> bytes:
    pieces = []
    at = 0
    while at < size_bytes:
        piece = os.pread(file, min(_CHUNK_BYTES, size_bytes - at), at)
        if not piece:
            raise CommandError(f"GDB gave {at} of {size_bytes} bytes")
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
