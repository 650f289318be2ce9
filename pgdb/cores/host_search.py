"""The search for core files, carried out on the host that has them."""

from __future__ import annotations

import hashlib
import os

import msgspec

from pgdb.cores.core_file import CoreFile
from pgdb.cores.core_set import build_id_of
from pgdb.cores.finding import Folder, ListedCores, list_cores, read_all
from pgdb.cores.policy import find_left_cores
from pgdb.cores.search import CoreSearch, HostCores, LeftBy, ListedCore
from pgdb.errors import PgdbError
from pgdb.regular_files import open_regular

_DIGEST_BYTES = 1 << 16


def search_host(search: CoreSearch, node: int, folder: Folder) -> HostCores:
    """List the core files that a search names, or read those of *node*.

    Expanded core files are put into *folder*.
    """
    try:
        if search.paths:
            return _read(search.paths.get(node, ()), folder)
        return _listed(search, folder)
    except (PgdbError, OSError) as error:
        return HostCores(error=str(error))


def _listed(search: CoreSearch, folder: Folder) -> HostCores:
    if search.executable and not os.path.isfile(search.executable):
        return HostCores(error=f"--exe {search.executable}: there is no such file on this host")
    if search.left_by is not None:
        found = _left(search.left_by)
    else:
        found = list_cores(search.targets, folder, from_systemd=search.from_systemd)
    listed: list[ListedCore] = []
    refused = [(_printable(path), why) for path, why in found.refused]
    for path in found.paths:
        if _printable(path) != path:
            refused.append((_printable(path), "has a name that is not UTF-8: rename it"))
            continue
        try:
            status = os.stat(path)
        except OSError as error:
            refused.append((path, f"cannot be read: {error.strerror}"))
            continue
        listed.append(
            ListedCore(
                path=path,
                size_bytes=status.st_size,
                mtime_ns=status.st_mtime_ns,
                digest=_digest(path),
            )
        )
    return HostCores(
        listed=tuple(listed),
        refused=tuple(refused),
        why_none=found.why_none,
        build_id=build_id_of(search.executable) if search.executable else "",
    )


def _left(by: LeftBy) -> ListedCores:
    found = find_left_cores(by.folders, by.since_s, pids=by.pids)
    return ListedCores(found.paths, why_none={"": found.why_none} if not found.paths else {})


def _read(paths: tuple[str, ...], folder: Folder) -> HostCores:
    found = read_all(paths, folder)
    return HostCores(cores=tuple(map(_for_message, found.cores)), refused=found.refused)


def _for_message(core: CoreFile) -> CoreFile:
    """Return a core file without what only its own host needs."""
    return msgspec.structs.replace(core, mapped=(), program=_printable(core.program))


def _digest(path: str) -> bytes:
    """Return the hash of the beginning of a file; empty if it cannot be read."""
    try:
        with open_regular(path) as file:
            return hashlib.sha256(file.read(_DIGEST_BYTES)).digest()
    except OSError:
        return b""


def _printable(name: str) -> str:
    """Return a name that messages can carry: bytes that are no UTF-8 are shown by number."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
