"""Removal of breakpoint instructions that a dead debugger left in a process.

A GDB that is killed while its rank runs leaves its breakpoints in the program's text; the next
hit would kill the rank with SIGTRAP. The mapped files hold the original bytes. Only single
breakpoint instructions are replaced: libraries patch code themselves (UCX puts jumps into libc
to observe memory mappings), and their patches must stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
from collections.abc import Iterator

from pgdb.backend.sbd.rank_files import MappedFile, mapped, open_mapped
from pgdb.jobs import procfs

_PAGE_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_PAUSES_S = (0.0, 0.01, 0.04, 0.1)
"""Pauses before each check of the process, in seconds."""
_INSTRUCTIONS = {
    "x86_64": b"\xcc",
    "i686": b"\xcc",
    "aarch64": b"\x00\x00\x20\xd4",
    "ppc64le": b"\x08\x00\xe0\x7f",
}
"""GDB's breakpoint instruction, by machine."""


def repair(pid: int) -> int:
    """Restore the bytes that breakpoint instructions replace in process *pid*; return their number.

    The process need not be stopped. A process that has ended, or whose memory may not be
    written, is left alone.
    """
    instruction = _INSTRUCTIONS.get(platform.machine())
    if instruction is None:
        return 0
    count = 0
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
    except OSError:
        return 0
    try:
        for mapping in mapped(pid):
            try:
                file = open_mapped(pid, mapping)
            except OSError:
                continue
            try:
                count += _repair_mapping(memory, file, mapping, instruction)
            except OSError:
                continue
            finally:
                os.close(file)
    finally:
        os.close(memory)
    return count


async def wake(pid: int) -> None:
    """Resume process *pid* if its debugger stopped it and died.

    GDB stops threads by SIGSTOP, and may have been killed before it saw them stop. A SIGSTOP that a
    thread has dequeued but not yet obeyed shows neither as pending nor in the thread's state; it
    stops the process as soon as the thread runs, which on a busy host is late. SIGCONT makes the
    kernel discard that SIGSTOP, and has no effect on a running process. If the program has a
    handler for SIGCONT, which the signal would call, the process is checked for a SIGSTOP several
    times instead.
    """
    status = procfs.read_stat(pid)
    is_free = status is not None and not status.tracer_pid
    if is_free and signal.SIGCONT not in (procfs.caught_signals(pid) or ()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    for pause_s in _PAUSES_S:
        await asyncio.sleep(pause_s)
        status = procfs.read_stat(pid)
        if status is None or status.tracer_pid:
            return  # it has ended, or is another debugger's, whose SIGSTOP it may be
        if status.state == "T" or signal.SIGSTOP in (procfs.pending_signals(pid) or ()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def _repair_mapping(memory: int, file: int, mapping: MappedFile, instruction: bytes) -> int:
    count = 0
    for at in range(mapping.start, mapping.end, _CHUNK_BYTES):
        length = min(_CHUNK_BYTES, mapping.end - at)
        there = os.pread(memory, length, at)
        wanted = os.pread(file, length, mapping.offset_bytes + at - mapping.start)
        if there == wanted:
            continue
        for page in range(0, min(len(there), len(wanted)), _PAGE_BYTES):
            one, other = there[page : page + _PAGE_BYTES], wanted[page : page + _PAGE_BYTES]
            if one != other:
                for place in _replaced(one, other, instruction):
                    original = other[place : place + len(instruction)]
                    os.pwrite(memory, original, at + page + place)
                    count += 1
    return count


def _replaced(there: bytes, wanted: bytes, instruction: bytes) -> Iterator[int]:
    """Yield each offset at which exactly one breakpoint instruction replaces other bytes."""
    size = len(instruction)
    length = min(len(there), len(wanted))
    at = 0
    while at < length:
        if there[at] == wanted[at]:
            at += 1
            continue
        begin = at - at % size
        run = begin + size
        while run < length and there[run] != wanted[run]:
            run += 1
        if there[begin : begin + size] == instruction and run == begin + size:
            yield begin
        at = max(run, at + 1)
