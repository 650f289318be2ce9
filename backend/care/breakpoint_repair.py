"""Take breakpoint instructions out of a process whose debugger died and left them in.

A GDB that is killed while its rank runs leaves its breakpoints in the program's text; the next
hit would kill the rank with SIGTRAP. What is to be there stands in the mapped files. Only single
breakpoint instructions are put right: libraries patch code themselves (UCX puts jumps into libc
to hear of memory being mapped), and must find it as they left it.
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
_LOOKS_S = (0.0, 0.01, 0.04, 0.1)
"""Pauses before each look."""
_INSTRUCTIONS = {
    "x86_64": b"\xcc",
    "i686": b"\xcc",
    "aarch64": b"\x00\x00\x20\xd4",
    "ppc64le": b"\x08\x00\xe0\x7f",
}
"""GDB's breakpoint instruction, by machine."""


def repair(pid: int) -> int:
    """Put back what breakpoint instructions have replaced in process *pid*; return how many.

    It need not be stopped. A process that has ended, or that may not be written to, is left.
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
    """Let process *pid* go on if its debugger has stopped it and died.

    GDB stops threads by SIGSTOP, and may have been killed before it has seen them stop. One that a
    thread has taken already and not heeded yet is seen neither as pending nor by its state, and
    stops the process as soon as the thread runs, which on a busy host is late. A SIGCONT has the
    kernel forget it, and is nothing to a process that goes on anyway. Where the program has a
    handler for SIGCONT, which would be called, the SIGSTOP is looked for some times instead.
    """
    status = procfs.read_stat(pid)
    is_free = status is not None and not status.tracer_pid
    if is_free and signal.SIGCONT not in (procfs.caught_signals(pid) or ()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    for pause_s in _LOOKS_S:
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
    """Yield where exactly one breakpoint instruction stands for something else."""
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
