"""The interpreter's own account of its frames: ``_Py_DebugOffsets`` (Python 3.13 and later).

The first table in ``_PyRuntime`` says where the fields of the interpreter's structures are.
The entry frame of a run of Python frames, which this module finds, lies in the C frame of the
function that executes them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

import msgspec

from pgdb import elf
from pgdb.backend.python import glue
from pgdb.process_maps import Mapping

Memory = Callable[[int, int], bytes]
"""Function that reads at an address (first) so many bytes (second); fewer where it cannot."""

_COOKIE = b"xdebugpy"
_SECTION, _SYMBOL = b".PyRuntime", b"_PyRuntime"
_TASKS_SECTION = b".AsyncioDebug"
_SHT_DYNSYM = 11
_MOST_SYMBOL_BYTES = 1 << 24
_MOST_FRAMES = 20_000
_MOST_THREADS = 10_000
_OWNED_BY_INTERPRETER = 3
"""Least value of the field ``owner`` for an entry frame."""
_MOST_FIELDS = 128

_INTERPRETER = "size id next threads_head"
_STATE = "size prev next interp current_frame"
_TAIL = "thread_id native_thread_id datastack_chunk status"
_FRAME = "size previous executable instr_ptr localsplus owner"
_MODULES = "gc imports_modules sysdict builtins ceval_gil gil_runtime_state enabled locked holder"
_LAYOUTS = {
    (3, 13): (f"{_INTERPRETER} {_MODULES}", f"{_STATE} {_TAIL}", _FRAME),
    (3, 14): (
        f"{_INTERPRETER} threads_main {_MODULES} code_object_generation tlbc_generation",
        f"{_STATE} {_TAIL}",
        f"{_FRAME} stackpointer tlbc_index",
    ),
    (3, 15): (
        f"{_INTERPRETER} threads_main {_MODULES} code_object_generation tlbc_generation",
        f"{_STATE} base_frame last_profiled_frame last_profiled_frame_seq {_TAIL} holds_gil"
        " gil_requested current_exception exc_state",
        f"exc_value {_FRAME} stackpointer tlbc_index",
    ),
}
"""Names of the fields of the interpreter, of a thread and of a frame, by version."""
_RUNTIME_FIELDS = "size finalizing interpreters_head"
_FIRST_INTERPRETER = {7: 24, 8: 32, 9: 32, 10: 32, 11: 40, 12: 40}
"""Offset in ``_PyRuntime`` of the pointer to the first interpreter, by minor version, for versions
without a table of offsets. Source: their ``pycore_pystate.h`` and ``pycore_runtime.h``."""


class Offsets(msgspec.Struct, frozen=True):
    """Offsets of the fields of the interpreter's structures."""

    runtime: int
    """Address of ``_PyRuntime``."""
    version: tuple[int, int]
    fields: dict[str, int]
    """Offset by structure and field, such as ``frame.owner``."""
    is_free_threaded: bool = False
    """Whether the interpreter was built without the GIL: its objects have another layout."""


class Entry(msgspec.Struct, frozen=True):
    """The entry frame of a run."""

    address: int
    frame_count: int
    """Number of Python frames that it has called, up to the next entry frame."""


def runtime_address(mappings: Sequence[Mapping], opened: Callable[[str], str]) -> int:
    """Return the address of ``_PyRuntime``, 0 if no file of the interpreter's has it.

    :param opened: returns the path by which this process can open a file of the rank's.
    """
    return _address(mappings, opened, glue.is_interpreter, _SECTION, _SYMBOL)


def tasks_address(mappings: Sequence[Mapping], opened: Callable[[str], str]) -> int:
    """Return the address of asyncio's table of offsets (Python 3.14 and later), 0 for none."""

    def may_have(path: str) -> bool:
        return os.path.basename(path).startswith("_asyncio.") or glue.is_interpreter(path)

    return _address(mappings, opened, may_have, _TASKS_SECTION, b"")


def _address(
    mappings: Sequence[Mapping],
    opened: Callable[[str], str],
    may_have: Callable[[str], bool],
    section: bytes,
    symbol: bytes,
) -> int:
    """Return the address of a section, or of a symbol, in the first file that has it."""
    seen = set()
    for each in mappings:
        if each.path in seen or not may_have(each.path) or each.offset:
            continue
        seen.add(each.path)
        try:
            file = os.open(opened(each.path), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            at = _linked_address(elf.reader(file), section, symbol)
        except elf.ElfError:
            continue
        finally:
            os.close(file)
        if at is not None:
            address, first = at
            # A program that is linked to fixed addresses has its first segment there.
            return address + each.start - first
    return 0


def _linked_address(read: elf.Read, section: bytes, symbol: bytes) -> tuple[int, int] | None:
    """Return the addresses of a section or symbol and of the first segment, as linked."""
    head = elf.header(read)
    first = next(
        (each.address for each in elf.segments_of(head, read) if each.kind == elf.PT_LOAD), None
    )
    if first is None or not head.is_64:
        return None
    count = min(head.section_count, elf.MAX_ENTRIES)
    table = read(head.sections_at, count * head.section_size)
    rows = []
    for index in range(count):
        try:
            rows.append(
                struct.unpack_from(f"{head.order}IIQQQQI", table, index * head.section_size)
            )
        except struct.error:
            return None
    if head.names_index >= len(rows):
        return None
    names = read(rows[head.names_index][4], min(rows[head.names_index][5], 1 << 16))
    for name_at, _, _, address, *_ in rows:
        if names[name_at:].partition(b"\0")[0] == section:
            return address, first
    # Before Python 3.11 it has no section of its own; its symbol is exported.
    for _, kind, _, _, offset, size_bytes, link in rows:
        if symbol and kind == _SHT_DYNSYM and link < len(rows) and size_bytes <= _MOST_SYMBOL_BYTES:
            texts = read(rows[link][4], min(rows[link][5], _MOST_SYMBOL_BYTES))
            symbols = read(offset, size_bytes)
            found = _symbol(symbols, texts, symbol, head.order)
            if found is not None:
                return found, first
    return None


def _symbol(symbols: bytes, texts: bytes, name: bytes, order: str) -> int | None:
    # The name stands behind the zero byte that ends another one.
    name_at = texts.find(b"\0" + name + b"\0") + 1
    if not name_at:
        return None
    for at, _, _, _, value, _ in struct.iter_unpack(
        f"{order}IBBHQQ", symbols[: len(symbols) // 24 * 24]
    ):
        if at == name_at and value:
            return int(value)
    return None


def offsets(memory: Memory, runtime: int) -> Offsets | None:
    """Return the offsets of the interpreter, None without a table of a known version."""
    data = memory(runtime, 8 * _MOST_FIELDS) if runtime else b""
    if len(data) < 8 * _MOST_FIELDS or data[:8] != _COOKIE:
        return None
    words = struct.unpack(f"<{_MOST_FIELDS}Q", data)
    version = (words[1] >> 24 & 0xFF, words[1] >> 16 & 0xFF)
    layout = _LAYOUTS.get(version)
    if layout is None:
        return None
    found: dict[str, int] = {}
    at = 3
    for prefix, names in zip(
        ("runtime", "interpreter", "thread", "frame"), (_RUNTIME_FIELDS, *layout), strict=True
    ):
        for name in names.split():
            found[f"{prefix}.{name}"] = words[at]
            at += 1
    sizes = [found[f"{each}.size"] for each in ("runtime", "interpreter", "thread", "frame")]
    is_sound = all(0 < size < 1 << 24 for size in sizes) and all(
        offset < 1 << 24 for offset in found.values()
    )
    return Offsets(runtime, version, found, bool(words[2])) if is_sound else None


def has_no_interpreter(memory: Memory, runtime: int, minor: int) -> bool:
    """Return whether a process is certain to have no interpreter now.

    It has none before ``Py_Initialize`` and after ``Py_Finalize``.

    :param runtime: address of ``_PyRuntime``, 0 if it is unknown.
    :param minor: minor version of Python, 0 if it is unknown; of no account from Python 3.13 on.
    """
    known = offsets(memory, runtime)
    at = known.fields["runtime.interpreters_head"] if known else _FIRST_INTERPRETER.get(minor)
    if not runtime or at is None:
        return False
    try:
        return not pointer(memory, runtime + at)
    except ValueError:
        return False


def thread_states(memory: Memory, known: Offsets) -> tuple[list[int], list[int]]:
    """Return the addresses of the states of all interpreters, and of all threads.

    :raises ValueError: if a structure cannot be read.
    """
    field = known.fields
    interpreters: list[int] = []
    threads: list[int] = []
    interpreter = pointer(memory, known.runtime + field["runtime.interpreters_head"])
    while interpreter and len(interpreters) + len(threads) < _MOST_THREADS:
        interpreters.append(interpreter)
        thread = pointer(memory, interpreter + field["interpreter.threads_head"])
        while thread and len(threads) < _MOST_THREADS:
            threads.append(thread)
            thread = pointer(memory, thread + field["thread.next"])
        interpreter = pointer(memory, interpreter + field["interpreter.next"])
    return interpreters, threads


def pointer(memory: Memory, address: int) -> int:
    """Return the pointer at an address.

    :raises ValueError: if it cannot be read.
    """
    data = memory(address, 8)
    if len(data) < 8:
        raise ValueError("not readable")
    return int(struct.unpack("<Q", data)[0])


def entries(memory: Memory, known: Offsets) -> dict[int, list[Entry]] | None:
    """Return the entry frames of each thread by its number for the kernel, innermost first.

    A thread that has states in several interpreters has the entry frames of all; the result is None
    if a structure cannot be read.
    """
    field = known.fields
    found: dict[int, list[Entry]] = {}
    try:
        for thread in thread_states(memory, known)[1]:
            number = pointer(memory, thread + field["thread.native_thread_id"])
            first = pointer(memory, thread + field["thread.current_frame"])
            entries = _entries_from(memory, known, first)
            if entries is None:
                return None
            found.setdefault(number, []).extend(entries)
    except ValueError:
        return None
    # The C stack grows downwards: the innermost entry frame has the least address.
    return {
        number: sorted(entries, key=lambda each: each.address) for number, entries in found.items()
    }


def _entries_from(memory: Memory, known: Offsets, frame: int) -> list[Entry] | None:
    previous, owner = known.fields["frame.previous"], known.fields["frame.owner"]
    size = max(previous + 8, owner + 1)
    found: list[Entry] = []
    count = 0
    for _ in range(_MOST_FRAMES):
        if not frame:
            return found if not count else None
        data = memory(frame, size)
        if len(data) < size:
            return None
        if data[owner] >= _OWNED_BY_INTERPRETER:
            found.append(Entry(frame, count))
            count = 0
        else:
            count += 1
        frame = int(struct.unpack_from("<Q", data, previous)[0])
    return None
