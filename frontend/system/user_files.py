"""Files of the user's: whole or not there when they are written, and never waited for when read."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pgdb.errors import CommandError, UsageError
from pgdb.regular_files import open_regular

_LOCK_RETRY_S = 0.02
_UNFINISHED = ".pgdb-unfinished"
"""How the names of files end that are written."""


def user_path(text: str | Path) -> Path:
    """Return the path that a user means, with a home directory for ``~``.

    :raises UsageError: if it can be none.
    """
    if "\0" in str(text):
        raise UsageError(f"{str(text)!r} is no name of a file: it has a NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = str(text).partition("/")[0]
        raise UsageError(f"{text}: there is no home directory for '{user}'") from None


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Read a file of the user's as :func:`open_regular` opens it.

    :raises OSError: if it cannot be read, is no file, or is larger than *most_bytes*.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        size = f"{most_bytes >> 20} MiB" if most_bytes >> 20 else f"{most_bytes >> 10} KiB"
        raise OSError(errno.EFBIG, f"it is larger than {size}")
    return data


def check_place(path: Path) -> None:
    """Check that a file can be written, before the ranks are asked for anything.

    :raises CommandError: if it cannot; the message says why.
    """
    try:
        # Where it cannot be looked at, exists() raises that or says no, by Python's version.
        target = path if path.exists() else path.parent
        if path.exists() and not path.is_file():
            why = "it is a directory" if path.is_dir() else "it is no regular file"
        elif not path.parent.is_dir():
            why = f"there is no directory {path.parent}"
        elif not os.access(target, os.W_OK) or not os.access(path.parent, os.W_OK):
            why = "permission denied"
        else:
            return
    except OSError as error:
        why = reason(error)
    raise CommandError(f"{path}: cannot be written: {why}")


def write_atomically(path: Path, data: bytes, *, exclusive: bool = False) -> None:
    """Write a file that only its user can read; what had the name before stays until it is whole.

    With *exclusive* nothing may have the name.

    :raises OSError: if that cannot be done; then nothing has changed.
    """
    with in_place_of(path, mode=0o600, exclusive=exclusive) as out:
        out.write(data)
    with contextlib.suppress(OSError):  # some file systems have no directories to be synchronised
        _sync_directory(Path(os.path.realpath(path)).parent)


@contextlib.contextmanager
def in_place_of(path: Path, *, mode: int, exclusive: bool = False) -> Iterator[BinaryIO]:
    """Give a file to be written, which gets the name *path* at the end.

    It stands beside it till then, and is removed if anything fails; one whose writer was killed is
    removed by the next writer.

    :raises OSError: if that cannot be done; then nothing has changed.
    """
    # A link leads to where the user keeps the file, and stays one.
    target = _followed(path)
    prefix = f".{target.name[:100]}."
    _remove_left(target.parent, prefix)
    name, descriptor = _create_beside(target.parent, prefix, mode)
    try:
        with os.fdopen(descriptor, "w+b") as out:
            yield out
            out.flush()
            # Some file systems tell only here that there was no room.
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


def _followed(path: Path) -> Path:
    """Return what a path leads to.

    :raises OSError: if somebody else's link in a directory that all may write to leads there. The
        kernel refuses to follow those (fs.protected_symlinks), but readlink(2) does not follow.
    """
    at, most = Path.cwd() / path, 40  # as many links as the kernel follows
    while most and at.is_symlink():
        most -= 1
        folder, owner = at.parent.stat(), at.lstat().st_uid
        is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        if is_shared and owner not in (os.geteuid(), folder.st_uid):
            raise OSError(errno.EACCES, f"{at} is a link that another user has made")
        at = at.parent / os.readlink(at)
    return Path(os.path.realpath(at))


def _create_beside(folder: Path, prefix: str, mode: int) -> tuple[Path, int]:
    """Create a file that is locked for as long as it is open; return its name and descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        name = folder / f"{prefix}{secrets.token_hex(6)}{_UNFINISHED}"
        descriptor = os.open(name, flags, mode)
        # Another writer may have taken it for one that was left, in the moment before it is locked.
        if _lock(descriptor) is not False and _has_name(descriptor, name):
            return name, descriptor
        os.close(descriptor)


def _remove_left(folder: Path, prefix: str) -> None:
    """Remove files that nobody writes any longer."""
    for name in folder.glob(f"{glob.escape(prefix)}*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _lock(descriptor) and _has_name(descriptor, name):
                    os.unlink(name)
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Return whether the lock of a file is ours now; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _has_name(descriptor: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(name))
    except FileNotFoundError:
        return False


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
