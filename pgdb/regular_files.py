"""Open only regular files: a pipe would block, and a device may have no end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file for reading.

    :raises OSError: if it cannot be opened, or is not a regular file.
    """
    # O_NONBLOCK: a pipe or terminal that takes the name before the call must not block it.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "something else")
            raise OSError(errno.EINVAL, f"it is no file, but {kind}")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
