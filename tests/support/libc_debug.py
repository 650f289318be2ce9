"""The debug information of the C library, which the tests hide from their GDBs.

Debian's valgrind installs it, and every GDB of a launched rank decompresses it: a third of what a
session of two ranks computes (GDB 13.1). The row ``user`` of CI has it: only root may hide it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pgdb.backend.sbd.mapped_objects import mapped_objects

DEBUG_FILES = Path("/usr/lib/debug/.build-id")
KEEP_VARIABLE = "PGDB_TEST_LIBC_DEBUG"
_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_SLAVE = 0x4000, 0x80000


def folder_of_libc(debug_files: Path = DEBUG_FILES) -> Path | None:
    """Return the folder with the debug information of our C library; None if there is none.

    Debian has a folder for each first byte of a build-id. That of libc.so.6 is not that of the
    dynamic linker, without whose symbols valgrind does not start.
    """
    for each in mapped_objects(os.getpid()):
        if Path(each.path).name.startswith("libc.so"):
            folder = debug_files / each.build_id[:2]
            return folder if (folder / f"{each.build_id[2:]}.debug").exists() else None
    return None


def hide(debug_files: Path = DEBUG_FILES) -> bool:
    """Hide the folder from this thread and from the processes that it starts.

    They get a mount namespace of their own; nothing changes for the rest of the machine. Return
    whether the folder is hidden.
    """
    folder = folder_of_libc(debug_files)
    if folder is None or os.environ.get(KEEP_VARIABLE):
        return False
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNS):
        return False  # only root may
    # Without it the mount below would reach the namespace that we come from.
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None):
        return False
    return libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, None) == 0
