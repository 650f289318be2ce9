"""The mappings and the memory of a rank, read without GDB: of a process, or of a core file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pgdb import elf
from pgdb.backend.sbd.rank_files import MappedFile, mapped
from pgdb.cores.core_file import CoreFile, CoreMemory
from pgdb.elf import Read, reader
from pgdb.process_maps import DELETED, Mapping, read_mappings
from pgdb.regular_files import open_regular

_PAGE_BYTES = 4096


class RankImage(Protocol):
    """The mappings and the memory of a rank."""

    @property
    def pid(self) -> int:
        """Process id, which is the number of the first thread."""

    @property
    def executable(self) -> str:
        """Path of the program, empty if unknown."""

    def mapped(self) -> Sequence[MappedFile]:
        """Return the executable mappings of files; none if they cannot be read."""

    def mappings(self) -> Sequence[Mapping]:
        """Return all mappings.

        :raises OSError: if they cannot be read.
        """

    def opened(self) -> AbstractContextManager[Read]:
        """Open the memory; what it reads is shorter where the memory ends.

        :raises OSError: if it cannot be opened.
        """


class ProcessImage:
    """A process of this host."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def executable(self) -> str:
        """Path of the program, empty if unknown."""
        try:
            return os.readlink(f"/proc/{self.pid}/exe").removesuffix(DELETED)
        except OSError:
            return ""

    def mapped(self) -> Sequence[MappedFile]:
        """Return the executable mappings of files; none if they cannot be read."""
        return tuple(mapped(self.pid))

    def mappings(self) -> Sequence[Mapping]:
        """Return all mappings.

        :raises OSError: if they cannot be read.
        """
        return read_mappings(self.pid)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        """Open the memory.

        :raises OSError: if it cannot be opened.
        """
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

        def read(address: int, size_bytes: int) -> bytes:
            try:
                return os.pread(memory, size_bytes, address)
            except (OSError, OverflowError, ValueError):
                return b""

        try:
            yield read
        finally:
            os.close(memory)


class CoreImage:
    """A core file; parts of files that it does not hold are read from the files."""

    def __init__(self, core: CoreFile) -> None:
        self._core = core
        self.pid = core.pid
        self.executable = core.program

    def mapped(self) -> Sequence[MappedFile]:
        """Return the mappings of files; a core does not say which of them are executable."""
        return tuple(
            MappedFile(
                start=each.start,
                end=each.end,
                offset_bytes=each.offset_bytes,
                path=each.path.removesuffix(DELETED),
                is_deleted=each.path.endswith(DELETED),
            )
            for each in self._core.mapped
        )

    def mappings(self) -> Sequence[Mapping]:
        """Return all mappings.

        :raises OSError: if the core cannot be read.
        """
        with open_regular(self._core.path) as file:
            memory = CoreMemory(reader(file.fileno()))
            code = self._code_of_files(memory)
        files = {each.start: each for each in self._core.mapped}
        found = []
        for each in memory.segments:
            of_file = files.pop(each.address, None)
            found.append(
                Mapping(
                    start=each.address,
                    end=each.address + each.memory_bytes,
                    permissions=each.permissions,
                    offset=of_file.offset_bytes if of_file is not None else 0,
                    path=of_file.path if of_file is not None else "",
                )
            )
        # GDB's own cores leave out what files have, code for one.
        for part in files.values():
            is_code = any(begin <= part.start < end for begin, end in code)
            permissions = "r-xp" if is_code else "r--p"
            found.append(Mapping(part.start, part.end, permissions, part.offset_bytes, part.path))
        return found

    def _code_of_files(self, memory: CoreMemory) -> list[tuple[int, int]]:
        """Return the addresses of code, by the headers of the objects in memory."""
        found = []
        for each in self._core.mapped:
            if each.offset_bytes:
                continue

            def read(offset: int, size_bytes: int, base: int = each.start) -> bytes:
                return memory.read(base + offset, size_bytes)

            with contextlib.suppress(elf.ElfError):
                head = elf.header(read)
                parts = [one for one in elf.segments_of(head, read) if one.kind == elf.PT_LOAD]
                for part in parts if parts else ():
                    begin = each.start + part.address - (parts[0].address - parts[0].offset)
                    if part.flags & elf.PF_X:
                        found.append((begin & -_PAGE_BYTES, begin + part.size_bytes))
        return found

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        """Open the memory.

        :raises OSError: if the core cannot be opened.
        """
        with contextlib.ExitStack() as stack:
            core = stack.enter_context(open_regular(self._core.path))
            memory = CoreMemory(reader(core.fileno()))
            files: dict[str, Read] = {}

            def of_file(path: str) -> Read:
                if path not in files:
                    try:
                        file = stack.enter_context(open_regular(path))
                    except OSError:
                        files[path] = lambda offset, size_bytes: b""
                    else:
                        files[path] = reader(file.fileno())
                return files[path]

            def read(address: int, size_bytes: int) -> bytes:
                data = memory.read(address, size_bytes) if address > 0 else b""
                if len(data) == size_bytes:
                    return data
                at = address + len(data)
                for each in self._core.mapped:
                    if each.start <= at < each.end:
                        rest = min(size_bytes - len(data), each.end - at)
                        return data + of_file(each.path)(each.offset_bytes + at - each.start, rest)
                return data

            yield read


ImageOf = Callable[[int], RankImage]
"""Function that returns the image of the rank with a process id."""
