"""Readers of files, and of the memory of processes."""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from pgdb import elf, elf_symbols, process_maps
from pgdb.backend.zygote import index_cache
from pgdb.errors import DiscoveryError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery import mpir
from pgdb.frontend.store import recording_file, saved_files, settings


@contextlib.contextmanager
def scratch_file(data: bytes) -> Iterator[Path]:
    """Yield a file in memory with these bytes."""
    file = os.memfd_create("pgdb-fuzz")
    try:
        os.write(file, data)
        yield Path(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


def run_saved(data: bytes) -> None:
    """Read a file with an answer."""
    with scratch_file(data) as path:
        saved_files.read(path)


def run_recording(data: bytes) -> None:
    """Read the messages of a recorded session, and encode them again."""
    loaded = recording_file.decode(
        b"pgdb-recording %d\n%s" % (recording_file.VERSION, zlib.compress(data, 1))
    )
    assert loaded.file.table is not None


def run_settings(data: bytes) -> None:
    """Read a file of settings."""
    with scratch_file(data) as path:
        settings.read_settings(path).change(SessionOptions())


def image(data: bytes, base: int = 0) -> elf.Read:
    """Return a reader of *data* as memory from *base* on."""

    def read(at: int, size_bytes: int) -> bytes:
        at -= base
        return data[at : at + max(0, size_bytes)] if 0 <= at < len(data) else b""

    return read


def run_elf(data: bytes) -> None:
    """Read an object from a file and from memory, and the linker's list of loaded objects."""
    base = 0x10000
    with contextlib.suppress(elf.ElfError):
        assert len(elf.build_id_of_file(image(data))) <= 2 * elf.MAX_NOTES_BYTES
    with contextlib.suppress(elf.ElfError):
        elf.debug_link(image(data))
    with contextlib.suppress(elf.ElfError):
        elf.build_id_in_memory(image(data, base), base)
    head = elf.header(image(data))
    for is_64 in (True, False):
        elf.link_map(
            image(data, base),
            base + head.segments_at,
            head.segment_count,
            is_64=is_64,
            order=head.order,
        )


ELF_WORDS = (
    b"\x7fELF\2\1\1", b"\x7fELF\1\2\1", b"GNU\0", b".gnu_debuglink\0", b".symtab\0", b".dynsym\0",
    b"MPIR_proctable\0", b"MPIR_proctable_size\0", struct.pack("<III", 4, 20, 3),
    struct.pack("<QQ", 21, 0x10000), struct.pack("<IIQQ", 2, 6, 64, 64),
)  # fmt: skip


class _Image(mpir.Memory):
    """A made-up memory of a launcher."""

    def __init__(self, data: bytes, base: int) -> None:
        super().__init__(-1)
        self._read = image(data, base)

    def read(self, address: int, size_bytes: int) -> bytes:
        return self._read(address, size_bytes)


_IMAGE_BASE = 0x5555_5555_0000


def run_proctable(data: bytes) -> None:
    """Read the proctable of a launcher whose memory is *data*; it begins with pointer and size."""
    memory = _Image(data, _IMAGE_BASE)
    with contextlib.suppress(DiscoveryError):
        mpir.table_at(memory, _IMAGE_BASE, _IMAGE_BASE + 8, "mpirun 1")
    area = process_maps.Mapping(_IMAGE_BASE, _IMAGE_BASE + len(data), "rw-p", 0, "")
    mpir.search([area], [area], memory, {1, 2, 3, 4711})


TABLE_WORDS = (
    struct.pack("<QQi4x", _IMAGE_BASE + 64, _IMAGE_BASE + 80, 4711), b"node1\0", b"/bin/app\0",
    struct.pack("<Q", _IMAGE_BASE + 16), struct.pack("<i", 2), struct.pack("<i", -1),
)  # fmt: skip


def run_symbols(data: bytes) -> None:
    """Look for a launcher's symbols in an object that may be torn."""
    with scratch_file(data) as path:
        mapping = process_maps.Mapping(0x400000, 0x500000, "r-xp", 0, str(path))
        elf_symbols.symbol_values(path, mapping, ("MPIR_proctable", "MPIR_proctable_size"))


def run_maps(data: bytes) -> None:
    """Read /proc/PID/maps."""
    process_maps.parse_mappings(data)


MAPS_WORDS = tuple(
    b"7f00-7f10|r-xp|rw-p| |00000000|08:01|1234|/usr/bin/mpirun| (deleted)|\n|-|\xff".split(b"|")
)


def run_index(data: bytes) -> None:
    """Read an index of GDB's."""
    with scratch_file(data) as path:
        index_cache.is_whole(path)
