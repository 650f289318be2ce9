"""A bounded cache of executables, libraries and debug files, by build-id, on a node's own disk.

``DIR/.build-id/ab/cdef…`` is the object with that build-id, ``cdef….debug`` its debug file: the
layout that GDB's ``debug-file-directory`` has. A file is complete or has another name: one that is
being written ends in ``.part``, and a later transfer goes on where that one was interrupted. Times
of last change are those of the source, times of last access those of the last use.

Nothing here trusts what it finds: the directory must be the user's alone, no link is followed, and
a file counts only with the build-id that its name says.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pgdb import elf
from pgdb.overlay.archive_bootstrap import is_safe_place
from pgdb.overlay.messages import FileKey
from pgdb.patterns import pattern

DEFAULT_MAX_BYTES = 4 << 30
DEFAULT_MAX_AGE_S = 30 * 24 * 3600.0
LEAST_FREE_SHARE = 0.05
"""This much of the file system is left to others: a full /tmp harms the job."""
_PIECE_BYTES = 1 << 20
_BUILD_ID = pattern(r"[0-9a-f]{6,128}\Z")
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


class DamagedError(OSError):
    """What was received is not the file that was asked for."""


def default_directory() -> str:
    """Return where the cache is by default: the home directory may be what all hosts share."""
    return f"/tmp/pgdb-sbd-{os.geteuid()}"


def is_key(key: FileKey) -> bool:
    """Return whether a key that came from elsewhere can name a file."""
    return _BUILD_ID.match(key.build_id) is not None


class Version(msgspec.Struct, frozen=True):
    """What tells a file from another one with the same build-id, such as one that is stripped."""

    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """Return that of a file."""
        return cls(status.st_size, status.st_mtime_ns)


class FileCache:
    """The cache of one host and user; several processes may use it at once."""

    def __init__(
        self,
        directory: str | Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_age_s: float = DEFAULT_MAX_AGE_S,
    ) -> None:
        """Make the directory if need be.

        :raises OSError: if it cannot be made, or is not this user's alone.
        """
        path = os.path.abspath(directory)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except FileExistsError as error:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), error.filename) from None
        if not is_safe_place(os.path.dirname(path)):
            raise OSError(errno.EPERM, "others could put another directory in its place", path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, _DIRECTORY_MODE)
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.EPERM, "it is a symbolic link; name the directory itself", path)
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if found.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user", path)
        if found.st_mode & 0o077:
            mode = stat.S_IMODE(found.st_mode)
            raise OSError(errno.EPERM, f"it is open to others (mode {mode:04o}, not 0700)", path)
        # GDB is given names below it, and shows them with all links resolved.
        self.directory = Path(os.path.realpath(path))
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._used: set[Path] = set()
        _make_directory(self.directory / ".build-id")
        # mkdir succeeds in a directory of root's that nobody may write files to, and the like.
        if not os.access(self.directory / ".build-id", os.W_OK | os.X_OK):
            is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number), path)

    def path(self, key: FileKey) -> Path:
        """Return the name of a complete file.

        :raises DamagedError: if the key can name none: it may come from a peer, and must not lead
            out of the cache, where files that are not what they should be are removed.
        """
        if not is_key(key):
            raise DamagedError(errno.EINVAL, "no build-id", key.build_id)
        suffix = ".debug" if key.kind == "debug" else ""
        return self.directory / ".build-id" / key.build_id[:2] / f"{key.build_id[2:]}{suffix}"

    def find(self, key: FileKey, version: Version | None = None) -> Path | None:
        """Return the file if it is here, whole, and (if given) of that version.

        One whose build-id is not what its name says is removed.
        """
        path = self.path(key)
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return None
            if not _has_build_id(file, key):
                path.unlink(missing_ok=True)
                return None
            if version is not None and Version.of(status) != version:
                return None
            os.utime(file, ns=(time.time_ns(), status.st_mtime_ns))
        except OSError:
            return None
        finally:
            os.close(file)
        self._used.add(path)
        return path

    def begin(self, key: FileKey, version: Version) -> Partial:
        """Begin to write a file, or go on with one that was interrupted.

        :raises OSError: if there is no room, or no permission.
        """
        path = self.path(key)
        _make_directory(path.parent)
        self._used.add(path)
        # Of another version nothing can be used.
        name = f"{path.name}.{version.size_bytes:x}-{version.mtime_ns:x}.part"
        partial = Partial(path, path.parent / name, key, version)
        try:
            self._make_room(version.size_bytes - partial.size_bytes)
        except BaseException:
            partial.close()
            raise
        return partial

    def clean(self, now_s: float | None = None, *, room_bytes: int = 0) -> None:
        """Remove what is too old, and of the rest the oldest until *room_bytes* more fit.

        What this process has used stays.
        """
        now_s = time.time() if now_s is None else now_s
        total = 0
        found = []
        for path, status in self._files():
            if path in self._used or _is_locked(path):
                total += status.st_size
            elif now_s - status.st_atime > self._max_age_s:
                path.unlink(missing_ok=True)
            else:
                total += status.st_size
                found.append((status.st_atime_ns, path, status.st_size))
        for _, path, size_bytes in sorted(found):
            if total + room_bytes <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size_bytes

    def _make_room(self, size_bytes: int) -> None:
        self.clean(room_bytes=size_bytes)
        total = sum(status.st_size for _, status in self._files())
        if total + size_bytes > self._max_bytes:
            raise OSError(
                errno.EDQUOT,
                f"more than the {self._max_bytes >> 20} MiB of --sbd-cache-size are needed",
                str(self.directory),
            )
        room = os.statvfs(self.directory)
        free = room.f_bavail * room.f_frsize - LEAST_FREE_SHARE * room.f_blocks * room.f_frsize
        if size_bytes > free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory))

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for folder in _entries(self.directory / ".build-id"):
            for entry in _entries(Path(folder.path)):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield Path(entry.path), status


class Partial:
    """A file of the cache that is being written, by this process alone."""

    def __init__(self, path: Path, part: Path, key: FileKey, version: Version) -> None:
        self._path = path
        self._key = key
        self._version = version
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._part = part
        self._file = os.open(part, flags, _FILE_MODE)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It can have been finished, and so renamed, between the two.
            is_ours = os.path.samestat(os.fstat(self._file), os.lstat(part))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            # Another process of this host writes it; ours is thrown away if it is interrupted.
            os.close(self._file)
            self._part = part.with_name(f"{part.stem}.{os.getpid()}.part")
            self._file = os.open(self._part, flags | os.O_TRUNC, _FILE_MODE)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Threads write and read; whoever gives up closes it.
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        """How much is there; when it was begun, from an earlier transfer."""
        while piece := os.pread(self._file, _PIECE_BYTES, self.size_bytes):
            self._digest.update(piece)
            self.size_bytes += len(piece)
        if self.size_bytes > version.size_bytes:
            self.restart()
        self.resumed_bytes = self.size_bytes
        """What an earlier transfer has brought."""

    def append(self, data: bytes) -> None:
        """Write what comes next.

        :raises OSError: if there is no room; what is there stays for a later transfer.
        """
        with self._lock:
            view = memoryview(data)
            at = self.size_bytes
            while view:
                written = os.pwrite(self._open_file, view, at)
                at += written
                view = view[written:]
            self._digest.update(data)
            self.size_bytes = at

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return what is there of a piece."""
        with self._lock:
            length = min(size_bytes, max(0, self.size_bytes - offset))
            return os.pread(self._open_file, length, offset)

    def digest(self) -> bytes:
        """Return the SHA-256 of all that is there."""
        return self._digest.digest()

    def restart(self) -> None:
        """Throw away what is there."""
        with self._lock:
            os.ftruncate(self._open_file, 0)
            self._digest = hashlib.sha256()
            self.size_bytes = self.resumed_bytes = 0

    def finish(self, digest: bytes = b"") -> Path:
        """Give the file its name, once it has been found to be what was asked for.

        :raises DamagedError: if it is not; what is there is thrown away.
        """
        with self._lock:
            why = self._fault(digest)
            if not why:
                os.utime(self._open_file, ns=(time.time_ns(), self._version.mtime_ns))
                os.rename(self._part, self._path)
        if why:
            self.restart()
            raise DamagedError(errno.EBADMSG, why)
        self.close()
        return self._path

    def _fault(self, digest: bytes) -> str:
        if digest and digest != self.digest():
            return "it was damaged on its way"
        if self.size_bytes != self._version.size_bytes:
            return f"it has {self.size_bytes} bytes instead of {self._version.size_bytes}"
        if not _has_build_id(self._open_file, self._key):
            return f"its build-id is not {self._key.build_id}"
        return ""

    def abandon(self) -> None:
        """Remove what is there: it only takes room."""
        self._part.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Leave what is there for a later transfer."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    @property
    def _open_file(self) -> int:
        """The descriptor, which must not be another file's by now."""
        if self._file < 0:
            raise OSError(errno.EBADF, "it has been closed", str(self._part))
        return self._file


def _has_build_id(file: int, key: FileKey) -> bool:
    try:
        return elf.build_id_of_file(elf.reader(file)) == key.build_id
    except elf.ElfError:
        return False


def _is_locked(path: Path) -> bool:
    """Return whether another process writes the file."""
    if path.suffix != ".part":
        return False
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(file)


def _make_directory(path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(_DIRECTORY_MODE)


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []
