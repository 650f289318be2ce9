"""Source files of Python, as a rank sees them."""

from __future__ import annotations

import os
from functools import cache

from pgdb.jobs import procfs
from pgdb.regular_files import open_regular

_MOST_BYTES = 16 << 20


def lines_of(pid: int, path: str) -> list[str]:
    """Return the lines of a source file, as the rank sees it.

    :raises OSError: if it cannot be read.
    :raises ValueError: if it is no file, or too large.
    """
    if not path.startswith("/"):
        raise ValueError("the code has no source file")
    with open_regular(f"/proc/{pid}/root{path}") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError("the file is too large")
    return data.decode("utf-8", "replace").splitlines()


def unchanged_source(pid: int, path: str) -> str | None:
    """Return the text of a source file as the rank sees it; None if it cannot be read, or was
    written after the rank began."""
    try:
        return None if has_changed(pid, path) else "\n".join(lines_of(pid, path))
    except (OSError, ValueError):
        return None


def has_changed(pid: int, path: str) -> bool:
    """Return whether a file was written after the process began."""
    try:
        status = procfs.read_stat(pid)
        if status is None:
            return False
        began_s = _booted_s() + status.start_time_ticks / os.sysconf("SC_CLK_TCK")
        return os.stat(f"/proc/{pid}/root{path}").st_mtime > began_s + 1
    except OSError:
        return False


@cache
def _booted_s() -> float:
    """Return the time of the host's boot, in seconds since 1970; 0 if the kernel does not say."""
    with open("/proc/stat", encoding="ascii") as file:
        words = next((line.split() for line in file if line.startswith("btime ")), ["", "0"])
    return float(words[1])
