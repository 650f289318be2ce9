"""Removal of breakpoint instructions that a dead debugger left in a process.

A GDB that is killed while its rank runs leaves its breakpoints in the program's text; the next
hit would kill the rank with SIGTRAP. The mapped files hold the original bytes. Only single
breakpoint instructions are replaced: libraries patch code themselves (UCX puts jumps into libc
to observe memory mappings), and their patches must stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import platform
import signal
import weakref
from collections.abc import Callable, Iterator
from typing import ClassVar

import msgspec

from pgdb.backend.sbd.rank_files import MappedFile, can_open_any, mapped, open_mapped
from pgdb.jobs import procfs
from pgdb.process_maps import Mapping, read_mappings

_PAGE_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_AROUND_BYTES = 16
"""Bytes before and behind a breakpoint that must be as they were."""
PAUSES_S = (0.0, 0.01, 0.04, 0.1)
"""Pauses before each check of the process, in seconds."""
_INSTRUCTIONS = {
    "x86_64": b"\xcc",
    "i686": b"\xcc",
    "aarch64": b"\x00\x00\x20\xd4",
    "ppc64le": b"\x08\x00\xe0\x7f",
}
"""GDB's breakpoint instruction, by machine."""


class Repair(msgspec.Struct, frozen=True):
    """Result of a repair."""

    restored: int = 0
    """Number of breakpoint instructions that were replaced by the original ones."""
    unknown: tuple[str, ...] = ()
    """Parts of the process that may still hold some: paths of mapped files, or a reason."""


class RankText:
    """Original text of one process, for a repair when its files cannot be opened any longer.

    An ordinary user cannot open a mapped file that was deleted or replaced: its name leads to
    another file, and /proc/PID/map_files needs a capability. So the file is opened while its name
    still leads to it, once for all ranks of this host. The text of a file that is gone by then is
    copied from memory, where no breakpoint is inserted yet. No file has the kernel's vDSO, and code
    that the program has made itself: there the code around each breakpoint is copied.
    """

    def __init__(self) -> None:
        self._held: dict[_Key, _Original] = {}
        self._is_outdated = False
        self._places: frozenset[int] = frozenset()
        self._around: dict[int, tuple[int, bytes]] = {}
        """By address of a breakpoint: the address and bytes of what is around it."""
        self._made: frozenset[int] = frozenset()
        """Addresses of the breakpoints in code that no file has."""
        weakref.finalize(self, _release, self._held)

    def outdate(self) -> None:
        """Note that the process has loaded code; :meth:`refresh` and :meth:`keep` hold it."""
        self._is_outdated = True

    def refresh(self, pid: int, places: frozenset[int] = frozenset()) -> None:
        """Hold the text that was loaded since the last call, and the code around *places*.

        Call it before the process runs on, while no breakpoint is inserted.

        :param places: addresses of breakpoints. The program may have changed its own code there
            since the last call.
        """
        is_known = places == self._places and not self._made and not self._is_outdated
        if self._is_outdated:
            self.keep(pid)
        if not is_known:
            self._places = places
            self._hold_places(pid)

    def _hold_places(self, pid: int) -> None:
        made = [*_made_code(pid)] if self._places else []
        self._made = frozenset(
            each for each in self._places if any(code.start <= each < code.end for code in made)
        )
        self._around = {each: (each, b"") for each in self._places}
        with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for place in self._places:
                # There may be no memory before the place, or behind it.
                for begin in (place, max(0, place - _AROUND_BYTES)):
                    with contextlib.suppress(OSError):
                        code = os.pread(memory.fileno(), place + _AROUND_BYTES - begin, begin)
                        self._around[place] = begin, code

    def must_keep(self, pid: int, mapping: MappedFile) -> bool:
        """Return whether :meth:`keep` has to hold text: files of mappings of the process, one of
        which is *mapping*, cannot be opened at any time."""
        if self._held or not can_open_any(pid, mapping):
            return True
        self._is_outdated = False
        return False

    def keep(self, pid: int, *, runs: bool = False) -> tuple[str, ...]:
        """Hold the text of each executable mapping; return the paths of what cannot be held.

        Call it while no breakpoint is inserted: when the process was acquired, and before it runs
        on with libraries that it has loaded since. Nothing is held where the files of mappings can
        be opened at any time.

        :param runs: the process runs, so that its memory may have breakpoints: only files are held.
        """
        failed = []
        for mapping in mapped(pid):
            if not self._held and can_open_any(pid, mapping):
                break
            key = (mapping.file, mapping.path, mapping.offset_bytes, mapping.end - mapping.start)
            if key in self._held:
                continue
            try:
                self._held[key] = _Original.of(pid, mapping, key, copies=not runs)
            except OSError:
                failed.append(mapping.path)
        self._is_outdated = runs and bool(failed)
        return tuple(dict.fromkeys(failed))

    def restore_places(self, pid: int) -> int:
        """Restore the breakpoints of the user's in process *pid*; return how many these were.

        This is fast: the next hit of one of them ends a process that has no debugger. The rest, and
        what cannot be restored in this way, is left to :meth:`repair`.
        """
        instruction = _INSTRUCTIONS.get(platform.machine())
        if not self._around or instruction is None:
            return 0
        restored = 0
        with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for address, (begin, original) in self._around.items():
                with contextlib.suppress(OSError):
                    restored += _repair_around(
                        memory.fileno(), address, begin, original, instruction
                    )
        return restored

    def repair(self, pid: int) -> Repair:
        """Restore the bytes that breakpoint instructions replace in process *pid*.

        The process need not be stopped. There is nothing to repair in a process that has ended.
        """
        instruction = _INSTRUCTIONS.get(platform.machine())
        if instruction is None:
            return Repair(unknown=(f"its text: a {platform.machine()} cannot be repaired",))
        try:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            stat = procfs.read_stat(pid)
            # One that ends has no memory any more, and another owner: opening it is not permitted.
            if stat is None or stat.is_exiting or stat.state in "ZX":
                return Repair()
            return Repair(unknown=(f"its text: {error.strerror}",))
        restored = 0
        unknown = []
        mappings = tuple(mapped(pid))
        try:
            if not mappings:
                unknown.append("its text: its mappings cannot be read")
            for mapping in mappings:
                try:
                    restored += self._repair_mapping(pid, memory, mapping, instruction)
                except OSError:
                    unknown.append(mapping.path)
            for address in self._made:
                begin, original = self._around[address]
                try:
                    restored += _repair_around(memory, address, begin, original, instruction)
                except OSError:
                    unknown.append(f"the program's own code at {address:#x}")
        finally:
            os.close(memory)
        if not procfs.is_alive(pid):
            unknown = []
        return Repair(restored=restored, unknown=tuple(dict.fromkeys(unknown)))

    def close(self) -> None:
        """Release all text."""
        _release(self._held)

    def _repair_mapping(
        self, pid: int, memory: int, mapping: MappedFile, instruction: bytes
    ) -> int:
        key = (mapping.file, mapping.path, mapping.offset_bytes, mapping.end - mapping.start)
        if (original := self._held.get(key)) is not None:
            return _repair_mapping(memory, original.read, mapping, instruction)
        file = open_mapped(pid, mapping)
        try:
            read = functools.partial(_read_file, file, mapping.offset_bytes)
            return _repair_mapping(memory, read, mapping, instruction)
        finally:
            os.close(file)


def _release(held: dict[_Key, _Original]) -> None:
    while held:
        held.popitem()[1].release()


def _made_code(pid: int) -> Iterator[Mapping]:
    """Yield the mappings with code of *pid* that no file has; none if they may not be read.

    Shared mappings are among them: a breakpoint is in their file, too.
    """
    with contextlib.suppress(OSError):
        for mapping in read_mappings(pid):
            has_file = mapping.path.startswith("/") and not mapping.permissions.endswith("s")
            if mapping.is_code and not has_file:
                yield mapping


def _repair_around(
    memory: int, address: int, begin: int, original: bytes, instruction: bytes
) -> int:
    """Restore one breakpoint from a copy of the code around it.

    :raises OSError: if the code is unknown, has gone, or the program has changed it since.
    """
    at, size = address - begin, len(instruction)
    there = os.pread(memory, max(len(original), at + size), begin)
    if there[at : at + size] != instruction:
        return 0
    if original[at : at + size] in (b"", instruction):
        raise OSError(errno.ENODATA, "the code could not be read")
    restored = bytearray(there)
    for place in replaced(there, original, instruction):
        restored[place : place + size] = original[place : place + size]
    if restored != original:
        raise OSError(errno.ESTALE, "the program has changed the code")
    os.pwrite(memory, original[at : at + size], address)
    return 1


_Key = tuple[tuple[str, int], str, int, int]
"""File (device and inode), path, offset in the file and length of a mapping, both in bytes."""


class _Original:
    """The original text of a mapping: an open file, or a copy. All ranks of a host share it."""

    _shared: ClassVar[dict[_Key, _Original]] = {}

    def __init__(self, key: _Key, file: int | None, copy: bytes) -> None:
        self._key = key
        self._file = file
        self._copy = copy
        self._users = 0

    @classmethod
    def of(cls, pid: int, mapping: MappedFile, key: _Key, *, copies: bool) -> _Original:
        """Return the original of a mapping of *pid*.

        :param copies: the memory is copied where the file cannot be opened.

        :raises OSError: if neither its file nor its memory can be read.
        """
        original = cls._shared.get(key)
        if original is None:
            try:
                original = cls(key, open_mapped(pid, mapping), b"")
            except OSError:
                if not copies:
                    raise
                original = cls(key, None, _copy_of(pid, mapping))
            cls._shared[key] = original
        original._users += 1
        return original

    def read(self, offset_bytes: int, length: int) -> bytes:
        """Return *length* bytes from *offset_bytes* on, counted from the mapping's start."""
        if self._file is None:
            return self._copy[offset_bytes : offset_bytes + length]
        return _read_file(self._file, self._key[2], offset_bytes, length)

    def release(self) -> None:
        """Give up one use; the last one closes the file."""
        self._users -= 1
        if not self._users:
            del self._shared[self._key]
            if self._file is not None:
                os.close(self._file)


def _read_file(file: int, mapping_offset_bytes: int, offset_bytes: int, length: int) -> bytes:
    return os.pread(file, length, mapping_offset_bytes + offset_bytes)


def _copy_of(pid: int, mapping: MappedFile) -> bytes:
    """Return the memory of a mapping.

    :raises OSError: if it cannot be read, or not whole.
    """
    return _memory_of(pid, mapping.start, mapping.end - mapping.start)


def _memory_of(pid: int, start: int, length: int) -> bytes:
    """Return *length* bytes of memory from *start* on.

    :raises OSError: if they cannot be read, or not all.
    """
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start)
        copy = memory.read(length)
    if copy is None or len(copy) < length:
        raise OSError(errno.EIO, "the memory cannot be read whole")
    return copy


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
    for pause_s in PAUSES_S:
        await asyncio.sleep(pause_s)
        status = procfs.read_stat(pid)
        if status is None or status.tracer_pid:
            return  # it has ended, or is another debugger's, whose SIGSTOP it may be
        if status.state == "T" or signal.SIGSTOP in (procfs.pending_signals(pid) or ()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)


def _repair_mapping(
    memory: int,
    read: Callable[[int, int], bytes],
    mapping: MappedFile,
    instruction: bytes,
) -> int:
    count = 0
    for at in range(mapping.start, mapping.end, _CHUNK_BYTES):
        length = min(_CHUNK_BYTES, mapping.end - at)
        there = os.pread(memory, length, at)
        wanted = read(at - mapping.start, length)
        count += _put_back(memory, at, there, wanted, instruction)
    return count


def _put_back(memory: int, start: int, there: bytes, wanted: bytes, instruction: bytes) -> int:
    """Restore the breakpoint instructions in the memory from *start* on; return their number."""
    count = 0
    if there == wanted:
        return count
    for page in range(0, min(len(there), len(wanted)), _PAGE_BYTES):
        one, other = there[page : page + _PAGE_BYTES], wanted[page : page + _PAGE_BYTES]
        if one != other:
            for place in replaced(one, other, instruction):
                original = other[place : place + len(instruction)]
                os.pwrite(memory, original, start + page + place)
                count += 1
    return count


def replaced(there: bytes, wanted: bytes, instruction: bytes) -> Iterator[int]:
    """Yield the offset of each breakpoint instruction in *there* that replaces other bytes.

    Other changes next to one are somebody else's patch, which stays. Breakpoint instructions
    beside each other are all GDB's.
    """
    size = len(instruction)
    length = min(len(there), len(wanted))
    run: list[int] = []
    for at in range(0, length + size, size):
        if there[at : at + size] != wanted[at : at + size] and at + size <= length:
            run.append(at)
        elif run:
            if all(there[each : each + size] == instruction for each in run):
                yield from run
            run = []
