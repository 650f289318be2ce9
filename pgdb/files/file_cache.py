"""A bounded cache of executables, libraries and debug files, by build-id, on a node's own disk.

``DIR/.build-id/ab/cdef…`` is the object with that build-id, ``cdef….debug`` its debug file. GDB's
``debug-file-directory`` has the same layout. An incomplete file has a name that ends in ``.part``;
a later transfer resumes it. A file has the modification time of its source, and its access time is
that of the last use.

The cache trusts nothing that it finds: the directory must be the user's alone, no link is followed,
and a file is used only if it has the build-id of its name.
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
from pgdb.sizes import whole_size

DEFAULT_MAX_BYTES = 4 << 30
DEFAULT_MAX_AGE_S = 30 * 24 * 3600.0
LEAST_FREE_SHARE = 0.05
"""Share of the file system that is left to others: a full /tmp harms the job."""
_PIECE_BYTES = 1 << 20
_BUILD_ID = pattern(r"[0-9a-f]{6,128}\Z")
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


class DamagedError(OSError):
    """Received file that is not the requested one."""


def default_directory() -> str:
    """Return the default directory; it is not in the home directory, which all hosts may share."""
    return f"/tmp/pgdb-sbd-{os.geteuid()}"


def is_key(key: FileKey) -> bool:
    """Return whether *key*, which may come from a peer, can name a file."""
    return _BUILD_ID.match(key.build_id) is not None


class Version(msgspec.Struct, frozen=True):
    """Size and time of a file; they distinguish files with one build-id, such as a stripped one."""

    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """Return the version of a file."""
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
        """Make the directory if it does not exist.

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
        # GDB gets names below this directory, and shows them with all links resolved.
        self.directory = Path(os.path.realpath(path))
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._used: set[Path] = set()
        _make_directory(self.directory / ".build-id")
        # mkdir can succeed where files cannot be written, such as in a directory of root's.
        if not os.access(self.directory / ".build-id", os.W_OK | os.X_OK):
            is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
            number = errno.EROFS if is_read_only else errno.EACCES
            raise OSError(number, os.strerror(number), path)

    def path(self, key: FileKey) -> Path:
        """Return the name of a complete file.

        :raises DamagedError: if *key* cannot name a file. It may come from a peer, and must not
            lead out of
            the cache, where damaged files are removed.
        """
        if not is_key(key):
            raise DamagedError(errno.EINVAL, "no build-id", key.build_id)
        suffix = ".debug" if key.kind == "debug" else ""
        return self.directory / ".build-id" / key.build_id[:2] / f"{key.build_id[2:]}{suffix}"

    def find(self, key: FileKey, version: Version | None = None) -> Path | None:
        """Return the file if the cache has it whole and, if given, in that version.

        A file whose build-id differs from its name is removed.
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
        """Begin to write a file, or resume an interrupted transfer.

        :raises OSError: if there is no room, or no permission.
        """
        path = self.path(key)
        _make_directory(path.parent)
        self._used.add(path)
        # The part of another version is of no use, so the name holds the version.
        name = f"{path.name}.{version.size_bytes:x}-{version.mtime_ns:x}.part"
        partial = Partial(path, path.parent / name, key, version)
        try:
            self._make_room(version.size_bytes - partial.size_bytes)
        except BaseException:
            partial.close()
            raise
        return partial

    def clean(self, now_s: float | None = None, *, room_bytes: int = 0) -> None:
        """Remove old files, then the ones unused for longest until *room_bytes* more fit.

        Files that this process has used stay.
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
                f"more than the {whole_size(self._max_bytes)} of --sbd-cache-size are needed",
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
    """An incomplete file of the cache, which this process alone writes."""

    def __init__(self, path: Path, part: Path, key: FileKey, version: Version) -> None:
        self._path = path
        self._key = key
        self._version = version
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._part = part
        self._file = os.open(part, flags, _FILE_MODE)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have completed and renamed the file between the two calls.
            is_ours = os.path.samestat(os.fstat(self._file), os.lstat(part))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:
            # Another process of this host writes the file. This one uses a name that no process
            # resumes.
            os.close(self._file)
            self._part = part.with_name(f"{part.stem}.{os.getpid()}.part")
            self._file = os.open(self._part, flags | os.O_TRUNC, _FILE_MODE)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # One thread may write or read while another closes the file.
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        """Size so far; at the beginning the size that an earlier transfer left."""
        while piece := os.pread(self._file, _PIECE_BYTES, self.size_bytes):
            self._digest.update(piece)
            self.size_bytes += len(piece)
        if self.size_bytes > version.size_bytes:
            self.restart()
        self.resumed_bytes = self.size_bytes
        """Size that an earlier transfer left."""

    def append(self, data: bytes) -> None:
        """Append *data*.

        :raises OSError: if there is no room; the file stays for a later transfer.
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
        """Return the bytes from *offset* on, at most *size_bytes* and at most what was written."""
        with self._lock:
            length = min(size_bytes, max(0, self.size_bytes - offset))
            return os.pread(self._open_file, length, offset)

    def digest(self) -> bytes:
        """Return the SHA-256 of everything written so far."""
        return self._digest.digest()

    def restart(self) -> None:
        """Discard everything written so far."""
        with self._lock:
            os.ftruncate(self._open_file, 0)
            self._digest = hashlib.sha256()
            self.size_bytes = self.resumed_bytes = 0

    def finish(self, digest: bytes = b"") -> Path:
        """Check the file and give it its final name.

        :raises DamagedError: if it is not the requested file; its content is discarded.
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
            return "it was damaged in transit"
        if self.size_bytes != self._version.size_bytes:
            return f"it has {self.size_bytes} bytes instead of {self._version.size_bytes}"
        if not _has_build_id(self._open_file, self._key):
            return f"its build-id is not {self._key.build_id}"
        return ""

    def abandon(self) -> None:
        """Remove the file: it only takes room."""
        self._part.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the file, and keep it for a later transfer."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    @property
    def _open_file(self) -> int:
        """The descriptor while it is open; once closed, its number may be another file's."""
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
