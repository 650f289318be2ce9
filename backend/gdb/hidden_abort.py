"""The place where MPICH ends a job, in a library that hides the names of its functions.

MPICH's MPID_Abort notifies the launcher, which kills the other ranks at once; no later place is
early enough. The wheels of MPICH 5.0 have no symbol for it. But the function is the only one that
uses the format of the message "Abort(%d) on node ...": the instruction that loads the format's
address is the place, found in the file. x86-64 only.
"""

from __future__ import annotations

import mmap
import platform

from pgdb import elf
from pgdb.backend.gdb.mapped_file_cache import MappedFileCache
from pgdb.backend.gdb.mpi_frames import Owner, owner_of
from pgdb.backend.sbd.rank_files import mapped

_FORMAT = b"\0Abort(%d)%s%s: %s%s"
_LEA_BYTES = 3
"""Bytes of ``lea disp32(%rip), REGISTER`` before the displacement."""
_LEA = (b"\x48\x8d", b"\x4c\x8d")


def find(pid: int) -> tuple[int, ...]:
    """Return the addresses of these instructions in process *pid*; empty if there are none."""
    if platform.machine() != "x86_64":
        return ()
    return tuple(
        mapping.start + offset - mapping.offset_bytes
        for mapping in mapped(pid)
        if owner_of(mapping.path) is Owner.MPI
        for offset in _OFFSETS.find(pid, mapping)
        if 0 <= offset - mapping.offset_bytes < mapping.end - mapping.start
    )


def offsets_in(file: int) -> tuple[int, ...]:
    """Return the offsets of the instructions in an open library.

    :raises ValueError: if it is no ELF file.
    """
    import numpy

    read = elf.reader(file)
    segments = [
        each
        for each in elf.segments_of(elf.header(read), read)
        if each.kind == elf.PT_LOAD and each.size_bytes
    ]
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as data:
        at = data.find(_FORMAT) + 1
        home = next((s for s in segments if s.offset <= at < s.offset + s.size_bytes), None)
        if at < 1 or home is None:
            return ()
        target = at - home.offset + home.address
        found = []
        for segment in segments:
            for shift in range(4):
                count = min((segment.size_bytes - shift), len(data) - segment.offset - shift) // 4
                if count <= 0:
                    continue
                words = numpy.frombuffer(
                    data, dtype="<i4", count=count, offset=segment.offset + shift
                )
                # A displacement counts from the next instruction.
                ends = numpy.arange(count, dtype=numpy.int64) * 4 + (segment.address + shift + 4)
                for index in numpy.nonzero(words + ends == target)[0].tolist():
                    begin = segment.offset + shift + 4 * index - _LEA_BYTES
                    if data[begin : begin + 2] in _LEA:
                        found.append(begin)
                del words
        return tuple(sorted(found))


_OFFSETS: MappedFileCache[tuple[int, ...]] = MappedFileCache(offsets_in, ())
"""The offsets of the instructions in the mapped files."""
