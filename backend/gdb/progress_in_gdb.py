"""Samples of a rank, which show whether it makes progress; runs inside GDB, in its Python.

See :class:`pgdb.rank_sample.RankSample`, which one sample becomes. The frame and the thread that
were selected stay so.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Callable, Sequence

import gdb

_MAINS = ("main", "MAIN__")
_BEGINS = ("_start", "__libc_start", "clone")
"""Beginnings of names of functions outside of a thread's first function."""
_KEPT = (
    *("rbx", "rbp", "r12", "r13", "r14", "r15"),
    *(f"x{number}" for number in range(19, 30)),
    *("r30", "r31"),
)
"""Registers that a function keeps across calls."""
_OTHERS = (
    *("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"),
    *(f"x{number}" for number in range(19)),
    *(f"xmm{number}" for number in range(16)),
    *(f"v{number}" for number in range(32)),
)
_MPI = re.compile(r"P?MPI_[A-Z]|p?mpi_\w+_$|ompi_|opal_|PMIx_")
_CALL = re.compile(r"P?MPI_[A-Z]|ompi_mpi_|MPI[A-Z]*_|p?mpi_\w+_$")
"""Functions of MPI that a user calls, and those that they call first."""
_WAITS = re.compile(r"_*(?:pthread_|lll_|sched_|clock_|vdso_|sem_|futex|time$|gettimeofday$)")
_WAITING = re.compile(
    r"/(?:lib(?:p?mpi|open-|pmix|prrte|event|uc[mpst]\b|fabric|psm|ibverbs|cuda|nccl|rccl|amdhip|"
    r"hsa|ze_|g?omp\b|iomp|tbb)|mca_|openmpi/|mpi4py/)"
)
"""Object files whose functions wait."""
_MEMORY = re.compile(r"_*(?:mmap|munmap|s?brk|mremap|madvise|mprotect)")
_LIBRARY = re.compile("/lib(mpi|mpich|pmpi)")
_SYSTEM_CALLS_X86 = (b"\x0f\x05", b"\xcd\x80")
_SYSTEM_CALL_ARM = b"\x01\x00\x00\xd4"
_MOST_STACK_BYTES = 1 << 22
_MOST_FRAMES, _MOST_OWN_FRAMES, _MOST_DEPTH = 64, 200, 8
_FIRST = 1
"""GDB's number of the first thread."""
_USER_TICKS, _CHILDREN_TICKS, _END_TICKS = 11, 13, 15
"""Places in /proc/PID/stat behind the name (proc(5)): utime, cutime, and the first behind both."""


def sample() -> None:
    """Write the sample of the process as JSON."""
    _write(_sample)


def select_caller() -> None:
    """Select the caller where a function of MPI is selected; write nothing as JSON."""
    _write(_select_caller)


def _write(function: Callable[[], object]) -> None:
    try:
        found = function()
    except gdb.error as error:
        found = {"error": str(error)}
    gdb.write(json.dumps(found) + "\n")


def _sample() -> dict[str, object]:
    chosen, kept = gdb.selected_thread(), gdb.selected_frame()
    places, threads = [], []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda each: each.num):
        try:
            thread.switch()
            user, place = _user_frame(is_first=thread.num == _FIRST)
            if user is not None:
                places.append(f"{place}:{_checksum(user):08x}")
            # An interpreter's main has no source.
            has_source = user is not None and user.find_sal().symtab
            own, is_outside = _own_data(user if has_source else None)
            if is_outside:
                word = "" if own is None else f"{own:08x}"
                threads.append({"thread": str(thread.num), "own": word, "cpu_s": _cpu_s(thread)})
        except (gdb.error, RuntimeError):
            pass
    if chosen is not None:
        chosen.switch()
    try:
        kept.select()
    except gdb.error:
        pass
    pid = gdb.selected_inferior().pid
    return {
        "stacks": "|".join(places),
        "threads": threads,
        "children_s": _ticks_s(pid, _CHILDREN_TICKS) + _children_s(pid),
        "time_s": time.monotonic(),
    }


def _select_caller() -> None:
    frame = gdb.selected_frame()
    while (caller := frame.older()) is not None and _CALL.match(frame.name() or ""):
        frame = caller
    frame.select()


def _user_frame(*, is_first: bool) -> tuple[gdb.Frame | None, str]:
    """Return the innermost frame of the user's code in the selected thread, and its place.

    The first thread has one in any case: its outermost frame.
    """
    last = frame = gdb.newest_frame()
    while frame is not None:
        if place := _place(frame):
            return frame, place
        if not (frame.name() or "").startswith(_BEGINS):
            last = frame
        frame = _older(frame)
    return (last, str(last.name())) if is_first else (None, "")


def _place(frame: gdb.Frame) -> str:
    try:
        place = frame.find_sal()
        if place.symtab is not None and place.line and os.path.exists(place.symtab.fullname()):
            return f"{frame.name()}:{os.path.basename(place.symtab.filename)}:{place.line}"
    except gdb.error:
        pass
    return str(frame.name()) if frame.name() in _MAINS else ""


def _older(frame: gdb.Frame) -> gdb.Frame | None:
    try:
        return frame.older()
    except gdb.error:
        return None


def _checksum(user: gdb.Frame) -> int:
    """Return a checksum of what the user's functions keep: registers, and the stack's memory."""
    total = _of_registers(user, _KEPT)
    try:
        outer, count = user, 0
        while outer.name() not in _MAINS and count < _MOST_FRAMES:
            if (older := _older(outer)) is None:
                break
            outer, count = older, count + 1
        return _of_stack(user, _older(outer) or outer, total)
    except (gdb.error, ValueError):
        return total


def _of_registers(frame: gdb.Frame, names: Sequence[str]) -> int:
    total = 0
    for name in names:
        try:
            value = frame.read_register(name)
        except (gdb.error, ValueError):
            continue
        try:
            text = str(int(value))
        except (gdb.error, ValueError):
            try:
                text = value.format_string(format="x")
            except (gdb.error, ValueError):
                continue
        total = zlib.crc32(text.encode(), total)
    return total


def _of_stack(newest: gdb.Frame, outer: gdb.Frame, total: int) -> int:
    """Return a checksum that goes on from *total* over the memory between two frames."""
    begin = int(newest.read_register("sp"))
    size_bytes = int(outer.read_register("sp")) - begin
    if 0 < size_bytes < _MOST_STACK_BYTES:
        memory = gdb.selected_inferior().read_memory(begin, size_bytes)
        return zlib.crc32(memory, total)
    return total


def _own_data(user: gdb.Frame | None) -> tuple[int | None, bool]:
    """Return a checksum of what the selected thread can change inside of *user*, None where it
    waits, for a change is no progress then; and whether it is outside MPI."""
    newest = gdb.newest_frame()
    frame: gdb.Frame | None = newest
    waits, outermost, count = _is_in_system_call(newest), newest, 0
    while frame is not None and frame != user and count < _MOST_OWN_FRAMES:
        name = frame.name() or ""
        if _MPI.match(name) or _WAITING.search(gdb.solib_name(frame.pc()) or ""):
            return None, False
        waits = waits or _WAITS.match(name) is not None
        outermost, frame, count = frame, _older(frame), count + 1
    if waits:
        return None, True
    total = _of_registers(newest, _KEPT + _OTHERS)
    try:
        return _of_stack(newest, frame or outermost, total), True
    except (gdb.error, ValueError):
        return total, True


def _is_in_system_call(frame: gdb.Frame) -> bool:
    if _MEMORY.match(frame.name() or ""):
        return False
    try:
        memory = gdb.selected_inferior().read_memory(frame.pc() - 4, 4).tobytes()
    except (gdb.error, ValueError):
        return True
    return memory[2:] in _SYSTEM_CALLS_X86 or memory == _SYSTEM_CALL_ARM


def _cpu_s(thread: gdb.InferiorThread) -> float:
    process, number = thread.ptid[:2]
    words = _read(f"/proc/{process}/task/{number}/schedstat").split()
    return int(words[0]) / 1e9 if words else 0.0


def _children_s(pid: int, depth: int = 0) -> float:
    """Return the CPU time of the processes that a process has started, besides ranks.

    Ranks that a rank has started, for example by MPI_Comm_spawn, spin while they wait.
    """
    total = 0.0
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        tasks = []
    for task in tasks:
        for child in _read(f"/proc/{pid}/task/{task}/children").split():
            if _LIBRARY.search(_read(f"/proc/{child}/maps")):
                continue
            total += _ticks_s(int(child), _USER_TICKS)
            if depth < _MOST_DEPTH:
                total += _children_s(int(child), depth + 1)
    return total


def _ticks_s(pid: int, first: int) -> float:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[first:_END_TICKS])) / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
