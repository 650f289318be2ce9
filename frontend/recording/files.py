"""Files of the user's that are there as a whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK_RETRY_S = 0.02


def write_atomically(path: Path, data: bytes, *, exclusive: bool = False) -> None:
    """Write a file that only its user can read; what had the name before stays until it is whole.

    With *exclusive* nothing may have the name.

    :raises OSError: if that cannot be done; then nothing has changed.
    """
    # A link leads to where the user keeps the file, and stays one.
    target = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if exclusive:
            os.link(name, target)
            os.unlink(name)
        else:
            os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    with contextlib.suppress(OSError):  # some file systems have no directories to be synchronised
        _sync_directory(target.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold the lock file *path*, which other processes of the user's take as well.

    :raises OSError: if it is not to be had within *timeout_s*, or not at all.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(errno.ETIMEDOUT, "another session holds its lock") from None
                time.sleep(_LOCK_RETRY_S)
        yield
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Return in words why a file cannot be used."""
    return error.strerror or str(error)
