"""The kernel's view of processes, compared with PGDB's."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from tests.support.processes import status
from tests.support.terminal import foreign_code


def descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured() -> tuple[int, int]:
    """Return the number of descriptors and the bytes of memory of this process."""
    return descriptors("self"), resident_bytes("self")


def objects() -> int:
    """Return the number of our objects; memory that malloc keeps is not in it."""
    gc.collect()
    return len(gc.get_objects())


def is_free(pid: int) -> bool:
    """Return whether a process runs untraced and without a breakpoint in its code."""
    if status(pid, "TracerPid") != "0" or status(pid, "State")[0] not in "RSD":
        return False
    return not foreign_code(pid)


def words(pid: int) -> str:
    """Return a description of a process that differs from PGDB's view."""
    try:
        return (
            f"{status(pid, 'State')}, TracerPid {status(pid, 'TracerPid')}, "
            f"foreign {foreign_code(pid)}"
        )
    except OSError as error:
        return str(error)
