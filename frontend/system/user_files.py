"""Files of the user: written atomically, read without waiting."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pgdb.errors import CommandError, UsageError
from pgdb.regular_files import open_regular
from pgdb.sizes import whole_size

_LOCK_RETRY_S = 0.02
_UNFINISHED = ".pgdb-unfinished"
"""Suffix of unfinished files."""


def user_path(text: str | Path) -> Path:
    """Return the path that a user typed, with the home directory for ``~``.

    :raises UsageError: if the text is no path.
    """
    if "\0" in str(text):
        raise UsageError(f"{str(text)!r} is no name of a file: it has a NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = str(text).partition("/")[0]
        raise UsageError(f"{text}: there is no home directory for '{user}'") from None


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Read a file of the user; see :func:`open_regular`.

    :raises OSError: if the file cannot be read, is not regular, or is larger than *most_bytes*.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1) if os.fstat(file.fileno()).st_size <= most_bytes else None
    if data is None or len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {whole_size(most_bytes)}")
    return data


def check_place(path: Path) -> None:
    """Check that a file can be written, before ranks are asked.

    :raises CommandError: if it cannot; the message has the reason.
    """
    try:
        # Not exists(): since Python 3.14 it returns False where the path cannot be examined.
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            mode = 0
        target = path if mode else path.parent
        if mode and not stat.S_ISREG(mode):
            why = "it is a directory" if stat.S_ISDIR(mode) else "it is no regular file"
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
    """Write a file that only its user can read; an existing file stays until the new one is
    complete.

    With *exclusive*, no file may have the name.

    :raises OSError: if writing fails; then nothing has changed.
    """
    with in_place_of(path, mode=0o600, exclusive=exclusive) as out:
        out.write(data)
    with contextlib.suppress(OSError):  # some file systems have no directories to be synchronised
        _sync_directory(Path(os.path.realpath(path)).parent)


@contextlib.contextmanager
def in_place_of(path: Path, *, mode: int, exclusive: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to be written, which is renamed to *path* at the end.

    Until then the file has another name in the same directory. It is removed after a failure; the
    next writer removes the file of a killed writer.

    :raises OSError: if writing fails; then nothing has changed.
    """
    # A symbolic link stays; its target is replaced.
    target = _followed(path)
    prefix = f".{target.name[:100]}."
    _remove_left(target.parent, prefix)
    name, descriptor = _create_beside(target.parent, prefix, mode)
    try:
        with os.fdopen(descriptor, "w+b") as out:
            yield out
            out.flush()
            # Some file systems report missing space only here.
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


def check_suffix(path: Path, suffixes: tuple[str, ...]) -> None:
    """Check that the suffix of a file names a format.

    :raises UsageError: if the suffix is not in *suffixes*.
    """
    if path.suffix not in suffixes:
        *others, last = suffixes
        # An empty name and the current directory are one path.
        name = str(path) if path.name else "no file is named"
        raise UsageError(f"{name}: the file's name must end in {', '.join(others)} or {last}")


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file with *write*, and rename it to its place when it is complete.

    :raises CommandError: if writing fails; the old file stays.
    """
    check_place(path)
    try:
        with in_place_of(path, mode=0o666) as file:
            write(file)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {reason(error)}") from None


def _followed(path: Path) -> Path:
    """Return the target of a path.

    :raises OSError: if the path leads over a link of another user in a directory that all may write
        to.
        The kernel refuses such links (fs.protected_symlinks), but readlink(2) does not.
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
    """Create a file that is locked while it is open; return its name and descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        name = folder / f"{prefix}{secrets.token_hex(6)}{_UNFINISHED}"
        descriptor = os.open(name, flags, mode)
        # Before the lock, another writer may have removed it as the file of a killed writer.
        if _lock(descriptor) is not False and _has_name(descriptor, name):
            return name, descriptor
        os.close(descriptor)


def _remove_left(folder: Path, prefix: str) -> None:
    """Remove unfinished files without a writer."""
    for name in folder.glob(f"{glob.escape(prefix)}*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if _lock(descriptor) and _has_name(descriptor, name):
                    os.unlink(name)
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Return whether the lock of a file was acquired; None if the file system has no locks."""
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
    """Hold the lock file *path*, which other processes of the user lock as well.

    :raises OSError: if the lock is not free within *timeout_s*, or cannot be acquired.
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
                time.sleep(_LOCK_RETRY_S)  # flock(2) has no time limit
        yield
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """Return the text of a file error."""
    return error.strerror or str(error)
