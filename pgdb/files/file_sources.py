"""Find a file that ranks have mapped on this host: at its path, by its debug link, or in the cache.

A file is used only if it has the requested build-id.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pgdb import elf
from pgdb.files.file_cache import FileCache, Version
from pgdb.overlay.messages import FileKey, WantedFile

DEBUG_DIRECTORY = "/usr/lib/debug"


def look_for(
    wanted: WantedFile, own_paths: Sequence[str], cache: FileCache | None
) -> tuple[Path, Version]:
    """Return the path and version of a file on this host; it is not read if the cache has that
    version.

    :raises OSError: if this host does not have it.
    """
    key = wanted.key
    why = OSError(errno.ENOENT, os.strerror(errno.ENOENT), wanted.path)
    for path in _candidates(wanted, own_paths, cache):
        try:
            version = Version.of(_regular(path))
            if cache is not None and (found := cache.find(key, version)) is not None:
                return found, version
            if (build_id := _build_id_of(path)) == key.build_id:
                return Path(path), version
            why = OSError(errno.ESTALE, f"it has the build-id {build_id or '(none)'} here", path)
        except (OSError, elf.ElfError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENOENT:
                why = error
    if cache is not None and (found := cache.find(key)) is not None:
        return found, Version.of(found.stat())
    raise why


def _candidates(
    wanted: WantedFile, own_paths: Sequence[str], cache: FileCache | None
) -> Iterable[str]:
    key = wanted.key
    if key.kind == "object":
        yield from dict.fromkeys((wanted.path, *own_paths))
        return
    yield f"{DEBUG_DIRECTORY}/.build-id/{key.build_id[:2]}/{key.build_id[2:]}.debug"
    if link := _debug_link(wanted, own_paths, cache):
        folder = os.path.dirname(wanted.path)
        yield from (
            f"{folder}/{link}",
            f"{folder}/.debug/{link}",
            f"{DEBUG_DIRECTORY}{folder}/{link}",
        )


def _debug_link(wanted: WantedFile, own_paths: Sequence[str], cache: FileCache | None) -> str:
    """Return the name of the debug file that the object contains."""
    object_key = FileKey(build_id=wanted.key.build_id)
    copy = cache.find(object_key) if cache is not None else None
    for path in (copy, wanted.path, *own_paths):
        try:
            if path is not None and _build_id_of(path) == wanted.key.build_id:
                return _read(path, elf.debug_link)
        except (OSError, elf.ElfError):
            continue
    return ""


def _build_id_of(path: str | Path) -> str:
    _regular(path)
    return _read(path, elf.build_id_of_file)


def _read(path: str | Path, what: Callable[[elf.Read], str]) -> str:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        return what(elf.reader(file))
    finally:
        os.close(file)


def _regular(path: str | Path) -> os.stat_result:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return status
