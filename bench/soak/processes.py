"""What the kernel says of processes, held against what PGDB shows of them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from tests.support.programs import status
from tests.support.terminal import foreign_code


def descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured() -> tuple[int, int]:
    """Return how many descriptors and bytes of memory we have."""
    return descriptors("self"), resident_bytes("self")


def objects() -> int:
    """Return how many objects we have, which tells what is kept from what malloc keeps."""
    gc.collect()
    return len(gc.get_objects())


def is_free(pid: int) -> bool:
    """Return whether a process runs with nobody at it and nothing in its code."""
    if status(pid, "TracerPid") != "0" or status(pid, "State")[0] not in "RSD":
        return False
    return not foreign_code(pid)


def words(pid: int) -> str:
    """Return what is to be told of a process that is not as it is shown."""
    try:
        return (
            f"{status(pid, 'State')}, TracerPid {status(pid, 'TracerPid')}, "
            f"foreign {foreign_code(pid)}"
        )
    except OSError as error:
        return str(error)
