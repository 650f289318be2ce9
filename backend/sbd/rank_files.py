"""The files of a rank: the paths that open them here, and the rank's own names for them.

A rank can see another file system than we do: in a container, or below a root of its own. The
kernel shows that file system as /proc/PID/root. GDB's own way there (``target:`` names) is
setns(2), which needs CAP_SYS_ADMIN and leads to the namespace's root, not to that of a process
that has called chroot(2) (GDB 13.1). So GDB gets names below /proc/PID/root, and its output is
translated back into the names that the rank has for its files: they are the same on all ranks.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from typing import IO

import msgspec

from pgdb.patterns import pattern
from pgdb.process_maps import DELETED

# proc_pid_maps(5). A name may contain any character that Python treats as the end of a line, except
# "\n".
_EXECUTABLE_MAPPING = pattern(r"^(\w+)-(\w+) ..x. (\w+) (\S+) (\d+) +(/[^\n]*)$", re.M | re.A)


class RankFiles(msgspec.Struct, frozen=True):
    """Locations of one rank's files; an empty one is left to GDB."""

    root: str
    """Directory that holds the rank's absolute paths."""
    executable: str
    name: str
    """The rank's name for its executable."""
    identity: tuple[int, int]
    """Device and inode of the executable."""
    replaced: tuple[str, ...]
    """Executable and libraries whose files have been deleted or replaced since they were mapped."""
    mapped: tuple[MappedFile, ...] = ()
    """Executable mappings of the rank at that time."""
    settings: tuple[tuple[str, str], ...] = ()
    """Further GDB settings: names and values, with ``{}`` for the current value."""

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for ranks with the same program."""
        return self.root, self.executable or self.name, self.identity

    @property
    def are_shared(self) -> bool:
        """Whether other ranks can open the same files by the same names.

        Files below a rank's own root, and deleted files, have other names for each rank.
        """
        return not self.root.startswith("/proc/") and not self.executable.startswith("/proc/")

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """Pairs of GDB's name and the rank's name, longest first."""
        pairs = ((self.executable, self.name), (f"{self.root}/", "/"))
        return tuple(pair for pair in pairs if pair[0] not in ("", "/"))


class MappedFile(msgspec.Struct, frozen=True):
    """An executable mapping of a file in a process."""

    start: int
    end: int
    offset_bytes: int
    """Offset of the mapping in the file."""
    path: str
    is_deleted: bool
    """Whether the file has gone, or another one has its name now."""
    file: tuple[str, int] = ("", 0)
    """Device (``MAJOR:MINOR`` in hexadecimal) and inode, as /proc/PID/maps shows them."""


def look_at(pid: int) -> RankFiles:
    """Return the locations of the files of the process *pid*.

    :raises OSError: if the process has ended, or belongs to another user.
    """
    identity = identity_of(pid)
    link = f"/proc/{pid}/exe"
    name = os.readlink(link)
    is_deleted = name.endswith(DELETED)
    name = name.removesuffix(DELETED)
    root = root_of(pid)
    # Memory that a program has made executable itself, such as libffi's /memfd:libffi, is left out.
    mappings = tuple(mapped(pid))
    replaced = [each.path for each in mappings if each.is_deleted and ".so" in each.path]
    return RankFiles(
        root=root,
        executable=_for_gdb(link) if root or is_deleted else "",
        name=_below_root(pid, name) if root else name,
        identity=identity,
        replaced=tuple(dict.fromkeys([name] * is_deleted + replaced)),
        mapped=mappings,
    )


def identity_of(pid: int) -> tuple[int, int]:
    """Return device and inode of the executable of the process *pid*.

    :raises OSError: if the process has ended, or belongs to another user.
    """
    status = os.stat(f"/proc/{pid}/exe")
    return status.st_dev, status.st_ino


def root_of(pid: int) -> str:
    """Return the root directory of *pid*, empty if it is our own root.

    :raises OSError: if the process has ended, or belongs to another user.
    """

    def sight(process: str) -> tuple[int, int, int]:
        root = os.stat(f"/proc/{process}/root")
        return os.stat(f"/proc/{process}/ns/mnt").st_ino, root.st_dev, root.st_ino

    return "" if sight(str(pid)) == sight("self") else f"/proc/{pid}/root"


def mapped(pid: int) -> Iterator[MappedFile]:
    """Yield every executable file mapping of *pid*; none if the mappings may not be read."""
    try:
        with open(f"/proc/{pid}/maps", errors="surrogateescape", newline="\n") as maps:
            text = maps.read()
    except OSError:
        return
    for start, end, offset, device, inode, path in _EXECUTABLE_MAPPING.findall(text):
        yield MappedFile(
            start=int(start, 16),
            end=int(end, 16),
            offset_bytes=int(offset, 16),
            path=path.removesuffix(DELETED),
            is_deleted=path.endswith(DELETED),
            file=(device, int(inode)),
        )


def open_mapped(pid: int, mapping: MappedFile) -> int:
    """Open the file of a mapping of *pid*; return the descriptor.

    :raises OSError: if it cannot be reached, or another file has its name now.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        # The very file, even if deleted; needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
        return os.open(_map_file(pid, mapping), flags)
    except OSError:
        if mapping.is_deleted:
            return _open_executable(pid, mapping)
    file = os.open(f"/proc/{pid}/root{_below_root(pid, mapping.path)}", flags)
    # The kernel shows a file below a mount that was removed or covered by the name of another one.
    if os.fstat(file).st_ino != mapping.file[1]:
        os.close(file)
        raise FileNotFoundError(errno.ENOENT, "another file has the name now", mapping.path)
    return file


def can_open_any(pid: int, mapping: MappedFile) -> bool:
    """Return whether the files of mappings of *pid* can be opened even when deleted.

    It takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
    """
    try:
        os.close(os.open(_map_file(pid, mapping), os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _map_file(pid: int, mapping: MappedFile) -> str:
    return f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"


def _open_executable(pid: int, mapping: MappedFile) -> int:
    """Open the executable of *pid*, which its owner may, even if it was deleted.

    :raises OSError: if the mapping is that of another file.
    """
    executable = os.open(f"/proc/{pid}/exe", os.O_RDONLY | os.O_CLOEXEC)
    # The inode alone: on some file systems the device in /proc/PID/maps is not that of stat(2).
    name = os.readlink(f"/proc/{pid}/exe").removesuffix(DELETED)
    if os.fstat(executable).st_ino == mapping.file[1] and name == mapping.path:
        return executable
    os.close(executable)
    raise FileNotFoundError(errno.ENOENT, "the mapped file was deleted", mapping.path)


def _below_root(pid: int, path: str) -> str:
    """Return the process's own name for a file that the kernel calls *path*.

    The two differ for a process that has called chroot(2) in its mount namespace.
    """
    root = os.readlink(f"/proc/{pid}/root").rstrip("/")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


def _for_gdb(link: str) -> str:
    """Return the name by which GDB reads the executable behind a link of /proc.

    GDB resolves the link as text, and reopens closed files by the resolved name (GDB 13.1). It
    keeps the link if no such file exists here, but would read another file of the same name
    (/usr/bin/python3 in a container) as the rank's. In that case GDB gets a copy, by a name that
    does not resolve either.
    """
    resolved = os.path.realpath(link)
    if not os.path.exists(resolved) or os.path.samefile(resolved, link):
        return link
    status = os.stat(link)
    copy = _copy_for((status.st_dev, status.st_ino, status.st_mtime_ns))
    if not os.fstat(copy.fileno()).st_size:
        with open(link, "rb") as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
    return f"/proc/{os.getpid()}/fd/{copy.fileno()}"


@cache
def _copy_for(identity: tuple[int, int, int]) -> IO[bytes]:
    """Return the unnamed file for the copy of an executable: one for all its ranks."""
    del identity
    return tempfile.TemporaryFile(prefix="pgdb-")
