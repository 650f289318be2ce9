"""The environment of a process as it is now, from its memory.

/proc/PID/environ shows the environment that the process was executed with. Python's os.environ
changes the one that getenv(3) reads: torch.multiprocessing.spawn and Ray's workers get their rank
that way, and setproctitle writes over what /proc shows. The C library's variable ``environ`` leads
to the strings.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from pgdb.elf_symbols import symbol_values
from pgdb.jobs import procfs
from pgdb.patterns import pattern
from pgdb.process_maps import DELETED, Mapping, read_mappings

_C_LIBRARY = pattern(r"/(?:libc[.-][\w.-]*so[\d.]*|ld-musl-[\w-]+\.so[\d.]*)\Z")
_VARIABLE = ("environ",)
_POINTER = struct.Struct("<Q")
_MOST_VARIABLES = 4096
_VARIABLE_BYTES = 4096
# Distance of the variable from the first mapping of its object, by the file and its version.
_known: dict[tuple[int, int, int, int], int | None] = {}


def live_environment(pid: int) -> dict[str, str]:
    """Return the environment that *pid* has now; empty if it cannot be read."""
    try:
        mappings = read_mappings(pid)
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:
        for address in _addresses(pid, mappings):
            if found := _environment_at(memory, address):
                return found
    finally:
        os.close(memory)
    return {}


def _addresses(pid: int, mappings: list[Mapping]) -> list[int]:
    """Return the addresses of ``environ``: the executable's copy comes first if it has one."""
    executable = procfs.executable(pid) or ""
    objects: dict[str, Mapping] = {}
    for each in mappings:
        path = each.path.removesuffix(DELETED)
        if path == executable or (path == each.path and _C_LIBRARY.search(path)):
            objects.setdefault(path, each)
    found = []
    for path in sorted(objects, key=lambda path: path != executable):
        file = f"/proc/{pid}/exe" if path == executable else f"/proc/{pid}/root{path}"
        distance = _distance(Path(file), objects[path])
        if distance is not None:
            found.append(objects[path].start + distance)
    return found


def _distance(file: Path, mapping: Mapping) -> int | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    key = status.st_dev, status.st_ino, status.st_ctime_ns, mapping.offset
    if key not in _known:
        values = symbol_values(file, mapping, _VARIABLE)
        _known[key] = None if values is None else values[0] - mapping.start
    return _known[key]


def _environment_at(memory: int, address: int) -> dict[str, str]:
    array = _pointer(memory, address)
    found: dict[str, str] = {}
    for index in range(_MOST_VARIABLES if array else 0):
        text = _pointer(memory, array + index * _POINTER.size)
        if not text:
            break
        entry, end, _ = _read(memory, text, _VARIABLE_BYTES).partition(b"\0")
        name, equals, value = entry.partition(b"=")
        # A longer text is no number of a rank, and no address.
        if end and equals:
            found.setdefault(os.fsdecode(name), os.fsdecode(value))
    return found


def _pointer(memory: int, address: int) -> int:
    data = _read(memory, address, _POINTER.size)
    return int(_POINTER.unpack(data)[0]) if len(data) == _POINTER.size else 0


def _read(memory: int, address: int, size_bytes: int) -> bytes:
    if not 0 < address < 1 << 63:
        return b""
    try:
        return os.pread(memory, size_bytes, address)
    except OSError:
        return b""
