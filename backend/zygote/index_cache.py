"""Checks of GDB's index cache, where GDB keeps the indexes of programs that it has read.

GDB ignores a full disk and leaves a truncated index; the next GDB that reads the index crashes
(GDB 13.1). So the cache is used only if there is room, and a damaged index of a rank's program or
libraries is removed before a GDB reads it.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path

from pgdb.backend.sbd.mapped_objects import mapped_objects
from pgdb.sizes import whole_size

MIN_FREE_BYTES = 256 << 20
"""Free disk space that the index of a large program may need, in bytes."""


def directory(environment: Mapping[str, str]) -> str:
    """Return the directory of the index cache of a GDB with this environment, empty if none."""
    if base := environment.get("XDG_CACHE_HOME"):
        return os.path.join(base, "gdb")
    home = environment.get("HOME")
    return os.path.join(home, ".cache", "gdb") if home else ""


def why_not(environment: Mapping[str, str]) -> str:
    """Return the reason why the index cache cannot be used, empty if it can."""
    path = directory(environment)
    if not path:
        return "neither HOME nor XDG_CACHE_HOME is set"
    if not os.path.isabs(path):
        return f"{path}, by XDG_CACHE_HOME or HOME, does not begin with /"
    existing = path
    while not os.path.lexists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        return f"{existing} is no directory"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} may not be written to"
    try:
        free = os.statvfs(existing)
    except OSError as error:
        return f"{existing}: {error.strerror}"
    if free.f_bavail * free.f_frsize < MIN_FREE_BYTES:
        return f"less than {whole_size(MIN_FREE_BYTES)} are free in {existing}"
    return ""


class IndexCache:
    """The index cache that the GDBs of one aggregator use."""

    def __init__(self, environment: Mapping[str, str], notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._directory = Path(directory(environment))
        self._checked: set[str] = set()
        reason = why_not(environment)
        self._is_usable = not reason
        if reason:
            notice(f"GDB's index cache is not used, which takes longer: {reason}")

    async def is_sound_for(self, pid: int) -> bool:
        """Remove damaged indexes; return whether a GDB for process *pid* can use the cache."""
        return self._is_usable and await asyncio.to_thread(self._check, pid)

    def _check(self, pid: int) -> bool:
        try:
            found = {each.build_id for each in mapped_objects(pid) if each.build_id}
        except OSError:
            return False  # the attach that follows reports the reason
        for build_id in found - self._checked:
            path = self._directory / f"{build_id}.gdb-index"
            try:
                if not is_whole(path):
                    path.unlink()
                    self._notice(f"removed a damaged index of GDB's: {path}")
            except FileNotFoundError:
                pass
            except OSError as error:
                self._notice(f"GDB's index cache is not used: {path}: {error.strerror}")
                self._is_usable = False
                return False
            self._checked.add(build_id)
        return True


def is_whole(path: Path) -> bool:
    """Return whether an index contains everything that it refers to.

    The format is that of section .gdb_index (GDB manual, "Index Section Format"), versions 7 to 9;
    GDB itself rejects other versions.

    :raises OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            version = int.from_bytes(data[:4], "little")
            if not 7 <= version <= 9:
                return size >= 4
            count = 6 if version == 9 else 5
            if size < 4 + 4 * count:
                return False
            parts = struct.unpack_from(f"<{count}I", data, 4)
            symbols, after, pool = parts[3], parts[4], parts[-1]
            if [*parts] != sorted(parts) or pool > size or (after - symbols) % 8:
                return False
            slots = array("I", data[symbols:after])
            if sys.byteorder == "big":
                slots.byteswap()
            names, units = slots[0::2], slots[1::2]
            last = max(names, default=0)
            if not last:
                return True
            return pool + max(units) + 4 <= size and data.find(b"\0", pool + last) >= 0
