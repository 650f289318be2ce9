"""Fetch PGDB to a host that does not have it: an archive from the front end, kept in a cache.

The text of this file is sent as ``PYTHON -c`` in place of ``python -m pgdb.backend``, and becomes
that (see ``remote_command`` in :mod:`pgdb.frontend.startup.shipping`). With the argument ``pipe``
it uses its standard input and output instead of TLS, prints the path of the archive, and ends. It
uses the standard library only. Both ends send lines of JSON: the identity of the host, the size and
digest of the archive, ``have`` or ``send``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import shutil
import socket
import ssl
import stat
import sys
import tarfile
import tempfile
import time
from typing import Any, BinaryIO

VARIABLE = "PGDB_SHIP"
"""Environment variable with the front end's address and the session's credentials."""
MANIFEST = ".manifest"
"""The first file of an archive: paths and sizes in bytes of the other files."""
KEPT_COUNT = 5
"""Number of entries that stay in the cache: the ones used last."""
_CONNECT_TIMEOUT_S = 20.0
# The front end may have to fetch wheels before it answers.
_SILENCE_S = 400.0
_LEFTOVER_S = 86400.0
_TRANSFER = ".new-"


def is_safe_place(path: str) -> bool:
    """Return whether only this user and root can replace files that this user puts into *path*.

    Every directory on the way must belong to one of them, and must not be writable by others unless
    it is sticky, as /tmp is.
    """
    trusted = {0, os.geteuid()}
    with contextlib.suppress(OSError), open("/proc/self/uid_map") as mapped:
        if mapped.read().split() != ["0", "0", "4294967295"]:
            # In a container, files of the root outside seem to belong to the overflow user.
            with open("/proc/sys/kernel/overflowuid") as overflow:
                trusted.add(int(overflow.read()))
    at = os.path.realpath(path)
    while True:
        try:
            status = os.stat(at)
        except OSError:
            return False
        shared = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in trusted or shared or not stat.S_ISDIR(status.st_mode):
            return False
        if at == "/":
            return True
        at = os.path.dirname(at)


def cache_directory() -> str:
    """Return the user's cache directory, which no other user can write to; make it if necessary.

    :raises OSError: if there is no safe place for it.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for path in (os.path.join(home, "pgdb"), f"/tmp/pgdb-cache-{os.geteuid()}"):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not is_safe_place(os.path.dirname(path)):
                continue  # others could put another one in its place
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
        except OSError:
            continue  # a home that is absent or read-only
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise PermissionError(
                f"{path} is a link, another user's, or writable by others; "
                "remove it, or set XDG_CACHE_HOME to a directory of your own"
            )
        if os.access(path, os.W_OK):
            os.chmod(path, 0o700)
            return path
    raise PermissionError(
        f"neither {home} nor /tmp can be written to by you alone; set XDG_CACHE_HOME"
    )


def identity() -> dict[str, str]:
    """Return the Python, machine and C library that extension modules must fit."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or "musl"
    except (ValueError, OSError):
        libc = "musl"
    name = {"cpython": "cp"}.get(sys.implementation.name, sys.implementation.name)
    python = f"{name}{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"
    host = socket.gethostname()
    return {"host": host, "python": python, "machine": platform.machine(), "libc": libc}


def is_complete(entry: str) -> bool:
    """Return whether all files of an entry exist: cleaners of /tmp remove single files."""
    try:
        with open(os.path.join(entry, MANIFEST), "rb") as file:
            sizes = json.load(file)
        return all(os.lstat(os.path.join(entry, path)).st_size == sizes[path] for path in sizes)
    except (OSError, ValueError):
        return False


def hold(entry: str) -> int | None:
    """Return a descriptor that prevents the removal of a complete entry while it is open."""
    if os.path.islink(entry):
        raise PermissionError(f"{entry} is a link; remove it")
    try:
        held = os.open(os.path.join(entry, MANIFEST), os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # some file systems have no locks; nothing is removed there
        fcntl.flock(held, fcntl.LOCK_SH)
    if is_complete(entry):
        os.utime(entry)
        return held
    os.close(held)
    return None


def fetch(reader: BinaryIO, writer: BinaryIO) -> tuple[str, int]:
    """Get the front end's archive into the cache; return its directory and the descriptor of its
    lock."""
    _say(writer, identity())
    offer = json.loads(reader.readline() or b'{"error": "the front end closed the connection"}')
    if "error" in offer:
        raise OSError(offer["error"])
    size, digest = offer["size"], offer["digest"]
    if len(digest) != 64 or digest.strip("0123456789abcdef"):
        raise ValueError(f"the front end names a digest that is none: {digest!r}")
    entry = os.path.join(cache_directory(), digest)
    held = hold(entry)
    _say(writer, "send" if held is None else "have")
    if held is None:
        data = reader.read(size)
        if len(data) != size:
            raise EOFError(f"the archive was cut off after {len(data)} of {size} bytes")
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("the archive is not the one that was announced (digest mismatch)")
        _unpack(data, entry)
        held = hold(entry)
    if held is None:
        raise OSError(f"{entry} is not complete after unpacking; is the disk full?")
    _remove_old(os.path.dirname(entry))
    return entry, held


def _say(writer: BinaryIO, data: object) -> None:
    writer.write(json.dumps(data).encode("ascii") + b"\n")
    writer.flush()


def _unpack(data: bytes, entry: str) -> None:
    fresh = tempfile.mkdtemp(prefix=_TRANSFER, dir=os.path.dirname(entry))
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            # Python 3.11 has filters from 3.11.4 on; without them the front end is trusted.
            safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(fresh, **safe)
        with open(os.path.join(os.path.dirname(entry), ".lock"), "ab") as lock:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            # Another aggregator of this host may have been faster; the existing entry may lack
            # files.
            if not is_complete(entry):
                with contextlib.suppress(FileNotFoundError):
                    os.rename(entry, fresh + "-old")
                os.rename(fresh, entry)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(fresh + "-old", ignore_errors=True)


def _remove_old(cache: str) -> None:
    """Remove broken transfers and the entries used least recently, except locked ones."""
    dated = []
    with os.scandir(cache) as found:
        for each in found:
            # Transfers of other processes appear and vanish meanwhile.
            with contextlib.suppress(FileNotFoundError):
                dated.append((each.stat(follow_symlinks=False).st_mtime, each.path))
    entries = sorted((each for each in dated if len(os.path.basename(each[1])) == 64), reverse=True)
    for _, entry in entries[KEPT_COUNT:]:
        with contextlib.suppress(OSError):
            held = os.open(os.path.join(entry, MANIFEST), os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                away = tempfile.mkdtemp(prefix=_TRANSFER, dir=cache)
                os.rename(entry, away)
                shutil.rmtree(away)
            finally:
                os.close(held)
    for modified_s, path in dated:
        if os.path.basename(path).startswith(_TRANSFER) and modified_s < time.time() - _LEFTOVER_S:
            shutil.rmtree(path, ignore_errors=True)


def _connect(address: str, credentials: str) -> ssl.SSLSocket:
    """Connect as :mod:`pgdb.overlay.credentials` does: both ends prove that they hold the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=credentials[credentials.index("-----BEGIN CERT") :])
    file = os.memfd_create("pgdb-credentials", os.MFD_CLOEXEC)
    try:
        os.write(file, credentials.encode("ascii"))
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S)
    link = context.wrap_socket(plain)
    link.settimeout(_SILENCE_S)
    return link


def main() -> None:
    """Fetch PGDB and become an aggregator's anchor; over pipes, print the path of the archive."""
    settings: dict[str, str] = {}
    try:
        if sys.argv[1:] == ["pipe"]:
            entry, _ = fetch(sys.stdin.buffer, sys.stdout.buffer)
            _say(sys.stdout.buffer, entry)
            return
        if VARIABLE not in os.environ:
            raise LookupError(f"its launcher did not pass {VARIABLE} on to it")
        settings = json.loads(os.environ.pop(VARIABLE))
        with _connect(settings["address"], settings["credentials"]) as link:
            entry, held = fetch(link.makefile("rb"), link.makefile("wb"))
    except (OSError, ValueError, EOFError, LookupError, tarfile.TarError) as error:
        towards = f" from the front end at {settings['address']}" if settings else ""
        raise SystemExit(f"pgdb: {socket.gethostname()} gets no PGDB{towards}: {error}") from None
    os.set_inheritable(held, True)
    environment = dict(os.environ, PYTHONPATH=entry)
    environment.setdefault("PGDB_USER_PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    command = [sys.executable, "-P", "-m", "pgdb.backend"]
    os.execve(sys.executable, command, environment)


if __name__ == "__main__":
    main()
