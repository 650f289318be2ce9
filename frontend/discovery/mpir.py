"""The table of ranks that a launcher keeps for debuggers, read from its memory.

The MPIR Process Acquisition Interface (MPI Forum, 2010) requires of every launcher an array
``MPIR_proctable`` of {char *host_name; char *executable_name; int pid;}, one entry per rank, and
its length ``MPIR_proctable_size``. Both are read through /proc/PID/mem, so that the launcher is
never stopped. All data is checked before use: a table is accepted only if its size, its strings
and its pids can be those of a job.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pgdb.elf_symbols import symbol_values
from pgdb.errors import DiscoveryError
from pgdb.jobs import procfs
from pgdb.jobs.tracing_rights import why_not_traceable
from pgdb.patterns import pattern
from pgdb.process_maps import DELETED, Mapping, read_mappings
from pgdb.proctable import RankProcess

MAX_RANKS = 1 << 22
"""Largest number of ranks accepted; the biggest machines have run about a million."""
MAX_STRING_BYTES = 4096
"""Longest host name or path accepted, in bytes: PATH_MAX."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names that every host has for itself."""

_TABLE = "MPIR_proctable"
_SIZE = "MPIR_proctable_size"
# Pointers to text in srun, added for the TotalView debugger and kept since (Slurm 22.05).
_SLURM_JOB = "totalview_jobid"
_SLURM_STEP = "totalview_stepid"
# char *, char *, int and the padding that aligns the next pointer.
_ENTRY = struct.Struct("<QQi4x")
_POINTER_BYTES = 8
# PID_MAX_LIMIT of include/linux/threads.h
_MAX_PID = 1 << 22
# The pointer and its size are two globals in one small file of hydra, at most a few words apart.
_NEIGHBOURHOOD_BYTES = 64
_MAX_SEARCHED_BYTES = 64 << 20
_ENTRIES_AT_ONCE = 4096
# Objects that belong to a launcher: libopen-rte, libprrte, libslurmfull.
_LAUNCHERS_OWN = pattern(r"rte|mpi|slurm|hydra|pals")
_HOST_NAME = pattern(r"[A-Za-z0-9_][A-Za-z0-9._:%-]{0,254}\Z")


class NoProctableError(DiscoveryError):
    """Process without a table there: no launcher, or one without a table."""


class EmptyProctableError(DiscoveryError):
    """Process whose table has no rank (yet)."""


class MpirTable(msgspec.Struct, frozen=True):
    """Contents of a launcher's MPIR_proctable."""

    processes: tuple[RankProcess, ...]
    """The filled entries, by rank; a launcher may still wait for the others."""
    size: int
    """Number of ranks of the job."""


def read_proctable(pid: int) -> MpirTable:
    """Read the table of launcher *pid* by the symbols of its executable and shared objects.

    :raises NoProctableError: if no mapped object has the symbols.
    :raises EmptyProctableError: if the table's size is 0 or all entries are blank.
    :raises DiscoveryError: if the memory may not be read, or holds something else.
    """
    name = _describe(pid)
    mappings = _read_mappings(pid, name)
    empty = False
    with _open_memory(pid, name) as memory:
        # An executable that refers to a variable of a shared object may have its own copy of it (a
        # copy relocation), and the object's then stays empty: so all objects are read.
        for table_address, size_address in _symbol_addresses(pid, mappings, (_TABLE, _SIZE)):
            empty = True
            if table := table_at(memory, table_address, size_address, name):
                return table
    if empty:
        raise EmptyProctableError(
            f"{_TABLE} of {name} is empty; Open MPI fills it in when all ranks have called MPI_Init"
        )
    raise NoProctableError(f"no object mapped by {name} has the symbol {_TABLE}")


def table_at(memory: Memory, table_address: int, size_address: int, name: str) -> MpirTable | None:
    """Return the table whose pointer and size are at two addresses, None if it has no ranks yet.

    :raises DiscoveryError: if there can be no table; the message calls the launcher *name*.
    """
    size = memory.integer(size_address)
    if size is None or size == 0:
        return None
    if not 0 < size <= MAX_RANKS:
        raise DiscoveryError(
            f"{_SIZE} of {name} is {size}, which is no number of ranks; "
            "its memory is damaged or it is no MPI launcher"
        )
    table = memory.table(memory.pointer(table_address), size)
    if table is None:
        raise DiscoveryError(
            f"{_TABLE} of {name} cannot be read as a table of {size} ranks; "
            "its memory is damaged or it is just being filled in: try again"
        )
    return table if table.processes else None


def search_proctable(pid: int) -> MpirTable:
    """Find the table of launcher *pid* without symbols, by its structure.

    MPICH's hydra has the table in its executable, which Debian and PyPI ship stripped. A match is a
    pointer in the executable's own variables to entries that are all valid, with their count in an
    integer beside it, and with a pid below the launcher if a host is this one.

    :raises NoProctableError: if nothing matches.
    :raises DiscoveryError: if the memory may not be read.
    """
    name = _describe(pid)
    mappings = _read_mappings(pid, name)
    below = set(procfs.descendants(pid))
    with _open_memory(pid, name) as memory:
        areas = list(_variable_areas(pid, mappings))
        if table := search(areas, mappings, memory, below):
            return table
    raise NoProctableError(f"nothing in the memory of {name} looks like a table of ranks")


def search(
    areas: Sequence[Mapping], mappings: Sequence[Mapping], memory: Memory, below: set[int]
) -> MpirTable | None:
    """Return a table that a pointer in *areas* leads to, found by its structure.

    *mappings* are all mappings of the process, *below* its descendants.
    """
    writable = [mapping for mapping in mappings if mapping.is_writable]
    starts = [mapping.start for mapping in writable]
    for area in areas:
        data = memory.read(area.start, min(area.end - area.start, _MAX_SEARCHED_BYTES))
        for offset in range(0, len(data) - _POINTER_BYTES + 1, _POINTER_BYTES):
            address = int.from_bytes(data[offset : offset + _POINTER_BYTES], "little")
            at = bisect_right(starts, address) - 1
            # malloc aligns to 16 bytes.
            if at < 0 or address % _POINTER_BYTES or address >= writable[at].end:
                continue
            most = min((writable[at].end - address) // _ENTRY.size, MAX_RANKS)
            if most == 0 or not memory.is_entry(address):
                continue
            for size in _sizes_beside(data, offset, most):
                table = memory.table(address, size, is_full=True)
                if table is not None and _belongs(table, size, below):
                    return table
    return None


def read_slurm_step(pid: int) -> str:
    """Return the step that srun *pid* has started, as ``JOB.STEP``; empty if unknown.

    If srun made the allocation itself, srun's host has no other source for it.
    """
    if os.path.basename(procfs.executable(pid) or "").partition("-")[0] != "srun":
        return ""
    name = _describe(pid)
    try:
        mappings = _read_mappings(pid, name)
        with _open_memory(pid, name) as memory:
            for addresses in _symbol_addresses(pid, mappings, (_SLURM_JOB, _SLURM_STEP)):
                job, step = (memory.string(memory.pointer(address)) for address in addresses)
                if job and step and job.isdecimal() and step.isdecimal():
                    return f"{job}.{step}"
    except DiscoveryError:
        pass
    return ""


def is_this_host(name: str) -> bool:
    """Return whether *name* is a name of this host, short or with its domain."""
    own = os.uname().nodename
    if name in (own, *LOOPBACK):
        return True
    # Two full names must be equal: node1.east and node1.west are different hosts.
    return name.partition(".")[0] == own.partition(".")[0] and not ("." in name and "." in own)


class Memory:
    """The memory of one process, read without a stop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Launchers share one host string between many ranks.
        self._strings: dict[int, str | None] = {}

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the mapped bytes of a range, from its start on."""
        if not 0 < address < 1 << 63:
            return b""
        try:
            return os.pread(self._descriptor, size_bytes, address)
        except OSError:
            return b""

    def integer(self, address: int) -> int | None:
        """Return the ``int`` at *address*, None if it is not mapped."""
        data = self.read(address, 4)
        return int.from_bytes(data, "little", signed=True) if len(data) == 4 else None

    def pointer(self, address: int) -> int:
        """Return the pointer at *address*, or its mapped part."""
        return int.from_bytes(self.read(address, _POINTER_BYTES), "little")

    def string(self, address: int) -> str | None:
        """Return the printable string at *address*, None if there is none."""
        if address not in self._strings:
            self._strings[address] = self._read_string(address)
        return self._strings[address]

    def _read_string(self, address: int) -> str | None:
        if address == 0:
            return None
        # Most strings fit into the first read; paths may be longer, up to the limit.
        for size_bytes in (256, MAX_STRING_BYTES):
            text, end, _ = self.read(address, size_bytes).partition(b"\0")
            if end:
                decoded = os.fsdecode(text)
                return decoded if decoded and not re.search(r"[\0-\x1f\x7f]", decoded) else None
        return None

    def is_entry(self, address: int) -> bool:
        """Return whether there is a valid entry at *address*."""
        table = self.table(address, 1)
        return table is not None and bool(table.processes)

    def table(self, address: int, size: int, *, is_full: bool = False) -> MpirTable | None:
        """Return the table of *size* entries at *address*, None if any entry is invalid.

        With *is_full* a blank entry is invalid as well.
        """
        processes: list[RankProcess] = []
        # In pieces: data that resembles a table only at its start is not read to an invented size.
        for first in range(0, size, _ENTRIES_AT_ONCE):
            count = min(_ENTRIES_AT_ONCE, size - first)
            data = self.read(address + first * _ENTRY.size, count * _ENTRY.size)
            if len(data) < count * _ENTRY.size:
                return None
            for rank, (host_at, executable_at, pid) in enumerate(_ENTRY.iter_unpack(data), first):
                if host_at == 0 or pid == 0:
                    # srun enters a rank only when its node has answered.
                    if is_full:
                        return None
                    continue
                host = self.string(host_at)
                executable = self.string(executable_at)
                if host is None or not _HOST_NAME.match(host) or not 0 < pid <= _MAX_PID:
                    return None
                if executable is None and executable_at != 0:
                    return None
                processes.append(
                    RankProcess(rank=rank, host=host, pid=pid, executable=executable or "")
                )
        return MpirTable(processes=tuple(processes), size=size)


@contextlib.contextmanager
def _open_memory(pid: int, name: str) -> Iterator[Memory]:
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(pid, name, error) from None
    try:
        yield Memory(descriptor)
    finally:
        os.close(descriptor)


def _describe(pid: int) -> str:
    stat = procfs.read_stat(pid)
    return f"{stat.comm} {pid}" if stat is not None else f"process {pid}"


def _refusal(pid: int, name: str, error: OSError) -> DiscoveryError:
    reason = why_not_traceable(pid) or error.strerror or "the kernel refuses"
    return DiscoveryError(f"the memory of {name} cannot be read: {reason}")


def _read_mappings(pid: int, name: str) -> list[Mapping]:
    try:
        return read_mappings(pid)
    except OSError as error:
        raise _refusal(pid, name, error) from None


def _symbol_addresses(
    pid: int, mappings: list[Mapping], variables: tuple[str, str]
) -> Iterator[tuple[int, int]]:
    """Yield the addresses of two variables for each object that has both, likely objects first."""
    executable = procfs.executable(pid)
    objects: dict[str, Mapping] = {}
    for mapping in mappings:
        path = mapping.path
        if path.endswith(DELETED):
            # A file that has the name now is another one, and any user may have created it.
            path = path.removesuffix(DELETED)
            if path != executable:
                continue
        if path.startswith("/") and not path.startswith(("/dev/", "/memfd:")):
            objects.setdefault(path, mapping)

    def is_unlikely(path: str) -> bool:
        return path != executable and not _LAUNCHERS_OWN.search(os.path.basename(path))

    for path in sorted(objects, key=is_unlikely):
        mapping = objects[path]
        # /proc/PID/exe opens even a file that was deleted or replaced, and /proc/PID/root opens
        # files of another mount namespace.
        file = Path(f"/proc/{pid}/exe" if path == executable else f"/proc/{pid}/root{path}")
        values = symbol_values(file, mapping, variables)
        if values is not None:
            yield values[0], values[1]


def _variable_areas(pid: int, mappings: list[Mapping]) -> Iterator[Mapping]:
    """Yield the mappings of the executable's variables: its .data, and the .bss after it."""
    executable = procfs.executable(pid)
    end = -1
    for mapping in mappings:
        is_file = mapping.path.removesuffix(DELETED) == executable
        if mapping.is_writable and (is_file or (mapping.start == end and not mapping.path)):
            yield mapping
            end = mapping.end
        elif is_file:
            end = mapping.end


def _sizes_beside(data: bytes, offset: int, most: int) -> list[int]:
    """Return the integers around *offset* that can be a table's size, largest first."""
    low = max(0, offset - _NEIGHBOURHOOD_BYTES)
    high = min(len(data) - 4, offset + _POINTER_BYTES + _NEIGHBOURHOOD_BYTES)
    found = {
        int.from_bytes(data[at : at + 4], "little", signed=True)
        for at in range(low, high + 1, 4)
        if not offset <= at < offset + _POINTER_BYTES
    }
    return sorted((size for size in found if 0 < size <= most), reverse=True)


def _belongs(table: MpirTable, size: int, below: set[int]) -> bool:
    """Return whether a table found by its structure can be that of the launcher's own job."""
    if len(table.processes) != size or not all(each.executable for each in table.processes):
        return False
    here = [each for each in table.processes if is_this_host(each.host)]
    return not here or any(each.pid in below for each in here)
