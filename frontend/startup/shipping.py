"""PGDB for hosts that have none: an archive of what runs here, and how it gets there.

An aggregator's place on such a host is taken by :mod:`pgdb.overlay.archive_bootstrap`, which says
for what Python, machine and C library it is, and gets an archive made for these: our own package as
it is imported here, and the distributions that the aggregators need. Where ours do not run
there, their wheels are fetched with pip. Equal content gives an equal archive, which is why both
sides keep it by its digest.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import hashlib
import importlib.util
import io
import json
import logging
import os
import re
import shlex
import socket
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from pgdb.errors import StartError
from pgdb.frontend.system.subprocesses import Program
from pgdb.overlay import archive_bootstrap
from pgdb.overlay.channel import BACKLOG, Listener
from pgdb.patterns import pattern
from pgdb.version import __version__

LOG = logging.getLogger(__name__)

DISTRIBUTIONS = ("mpi4py", "msgspec", "numpy", "pyroaring")
"""What the aggregators import besides the standard library; none of these requires others."""
PACKAGES = ("pgdb", "pgdb.frontend", "pgdb.backend")
"""Our packages whose folders need not lie in each other (see package_dir in setup.cfg)."""
PEER_TIMEOUT_S = 120.0
"""Longest time for all that one host says and is sent; wheels that are fetched come on top."""
PIP_TIMEOUT_S = 240.0
KEPT_ARCHIVE_COUNT = 5

_MAX_LINE_BYTES = 65536
# A shell that greets its user does so before our text runs.
_MAX_GREETING_LINES = 200
_LAST_WORDS_S = 5.0
_PIECE_BYTES = 1 << 18
_TIME_S = 315532800  # 1980-01-01: the oldest that every archive format can say
_OLD_PLATFORMS = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PLATFORM = pattern(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)\Z")
_PYTHON_TAG = pattern(r"cp3(\d+)(t?)\Z")


class Tags(msgspec.Struct, frozen=True):
    """For what an interpreter takes extension modules."""

    python: str
    """As in a wheel's name, with its ABI: ``cp311``, ``cp313t``."""
    machine: str
    """As uname(1) has it, e.g. ``x86_64``."""
    libc: str
    """``glibc 2.36``, or ``musl``."""

    @classmethod
    def parse(cls, told: object) -> Tags:
        """Read what a host has said of itself.

        :raises StartError: if it has said something else, or its Python is none of ours.
        """
        words = ("python", "machine", "libc")
        if not isinstance(told, Mapping) or not all(isinstance(told.get(w), str) for w in words):
            raise StartError(f"a host asks for PGDB in a way that is not known: {told!r:.80}")
        tags = cls(*(str(told[word]) for word in words))
        if not _PYTHON_TAG.match(tags.python) or not re.fullmatch(r"\w+", tags.machine):
            raise StartError(
                f"the Python there is {tags.python} on {tags.machine}, for which PGDB is not "
                "made; name a CPython from 3.11 on with --remote-python"
            )
        return tags

    @classmethod
    def here(cls) -> Tags:
        """Return the tags of our own interpreter."""
        return cls.parse(archive_bootstrap.identity())

    @property
    def glibc(self) -> tuple[int, int] | None:
        """Version of the C library, None for musl."""
        match = re.match(r"glibc (\d+)\.(\d+)", self.libc)
        return (int(match[1]), int(match[2])) if match else None

    def platforms(self) -> list[str]:
        """Return the platforms of the wheels that run there, in pip's words."""
        if self.glibc is None:
            return [f"musllinux_1_{minor}_{self.machine}" for minor in (2, 1)]
        newest = range(self.glibc[1], 4, -1)
        old = [f"{name}_{self.machine}" for name in reversed(_OLD_PLATFORMS)]
        return [f"manylinux_2_{minor}_{self.machine}" for minor in newest] + old


class Archive(msgspec.Struct, frozen=True):
    """PGDB and what it needs, packed for one kind of host."""

    data: bytes
    """A compressed tar file."""
    digest: str
    """SHA-256 of *data*, in hexadecimal."""


def remote_command(python: str = "python3", *, over_pipe: bool = False) -> tuple[str, ...]:
    """Return what to start on a host in place of ``python -m pgdb.backend``."""
    arguments = ("pipe",) if over_pipe else ()
    return (*carried_program(Path(archive_bootstrap.__file__), python), *arguments)


def carried_program(source: Path, python: str) -> tuple[str, ...]:
    """Return the line that runs one of our files, which needs no other, on a host without it.

    It has no line breaks and nothing that a quoting shell would touch, and any Python 3 can read
    its beginning, which tells when it is too old.
    """
    packed = base64.b64encode(zlib.compress(source.read_bytes(), 9)).decode("ascii")
    line = (
        "import sys;sys.version_info<(3,11)and sys.exit("
        '"pgdb: %s is Python %d.%d, and PGDB needs 3.11; name another with --remote-python"'
        "%((sys.executable,)+tuple(sys.version_info[:2])));"
        f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'
    )
    # -I -S: neither the user's directory, where a file may be named like a module, nor a
    # site-packages of theirs has a part in it.
    return (python, "-I", "-S", "-c", line)


class Shipper:
    """Gives PGDB to the hosts that ask for it with the session's credentials."""

    def __init__(self) -> None:
        self.problem = ""
        """Why the first host that got nothing got nothing; empty as long as all is well."""
        self._credentials = b""
        self._host = ""
        self._server: Listener | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._archives: dict[Tags, asyncio.Task[Archive]] = {}

    async def start(self, host: str, credentials: bytes) -> None:
        """Listen on a free port of *host*.

        :raises StartError: if that cannot be done.
        """
        try:
            listening = socket.create_server((host, 0), backlog=BACKLOG)
        except OSError as error:
            raise StartError(f"cannot listen on {host} to ship PGDB: {error}") from None
        self._server = Listener(listening, credentials, self._accepted)
        self._host, self._credentials = host, credentials

    @property
    def address(self) -> str:
        """``host:port`` at which we listen."""
        assert self._server is not None
        return f"{self._host}:{self._server.port}"

    def describe_environment(self, host: str = "") -> str:
        """Return the value of the variable PGDB_SHIP, which is secret.

        *host* is the name by which the others reach us, where that is not where we listen.
        """
        port = self.address.rpartition(":")[2]
        told = {
            "address": f"{host or self._host}:{port}",
            "credentials": self._credentials.decode(),
        }
        return json.dumps(told)

    async def close(self) -> None:
        """Stop, whatever is still being sent."""
        if self._server is not None:
            await self._server.close()
        tasks = [*self._serving, *self._archives.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await _serve(reader, writer, self._archive)
        except StartError as error:
            LOG.warning("a host gets no PGDB: %s", error)
            self.problem = self.problem or str(error)
        except asyncio.CancelledError:
            # The session ends; asyncio would report the cancelled task of a server as an error.
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _archive(self, tags: Tags) -> Archive:
        """Return the archive for *tags*, made once however many hosts ask for it."""
        if tags not in self._archives:
            self._archives[tags] = asyncio.create_task(archive_for(tags))
        return await asyncio.shield(self._archives[tags])


async def ship_by_ssh(
    host: str, ssh: Sequence[str] = ("ssh",), python: str = "python3", *, timeout_s: float = 400.0
) -> str:
    """Put PGDB into the cache of *host* and return the PYTHONPATH with which *python* has it there.

    :raises StartError: if *host* cannot be reached, or cannot take it.
    """
    command = shlex.join(remote_command(python, over_pipe=True))
    try:
        process = await Program.start(
            *ssh,
            host,
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
    except OSError as error:
        raise StartError(f"cannot run {ssh[0]}: {error.strerror}; is ssh installed?") from None
    assert process.stdin and process.stdout and process.stderr
    complaints = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(timeout_s):
            await _serve(process.stdout, process.stdin, archive_for)
            told = json.loads(await process.stdout.readline() or b"null")
            status = await process.wait()
        if isinstance(told, str) and status == 0:
            return told
        raise StartError("it took the archive and did not say where it is")
    except (StartError, ValueError, TimeoutError) as error:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await process.wait()
                await asyncio.wait((complaints,))
        await process.end()
        said = (await complaints).decode("utf-8", "replace").strip().splitlines()
        late = f"no end within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
        raise StartError(f"cannot ship PGDB to {host}: {said[-1] if said else late}") from None
    finally:
        await process.end()
        complaints.cancel()


async def _serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    archive_of: Callable[[Tags], Awaitable[Archive]],
) -> None:
    """Give one host what it needs.

    :raises StartError: if that fails; the host has been told.
    """
    try:
        async with asyncio.timeout(PEER_TIMEOUT_S):
            tags = Tags.parse(await _hear(reader))
        archive = await archive_of(tags)
        async with asyncio.timeout(PEER_TIMEOUT_S):
            size = len(archive.data)
            _tell(writer, {"digest": archive.digest, "size": size, "pgdb": __version__})
            await writer.drain()
            answer = json.loads(await reader.readline() or b"null")
            if answer not in ("have", "send"):
                raise EOFError("what it says itself is in the log of the aggregators")
            if answer == "send":
                for start in range(0, size, _PIECE_BYTES):
                    writer.write(archive.data[start : start + _PIECE_BYTES])
                    await writer.drain()
    except StartError as error:
        _tell(writer, {"error": str(error)})
        raise
    except TimeoutError:
        raise StartError(f"a host did not take PGDB within {PEER_TIMEOUT_S:g} s") from None
    except (OSError, ValueError, EOFError) as error:
        raise StartError(f"a host gave up taking PGDB: {error or type(error).__name__}") from None


async def _hear(reader: asyncio.StreamReader) -> object:
    """Read the line in which a host says what it is."""
    for _ in range(_MAX_GREETING_LINES):
        line = await reader.readline()
        if not line:
            raise EOFError("it closed the connection")
        if (start := line.find(b'{"host"')) >= 0:
            told: object = json.loads(line[start:])
            return told
    raise StartError("a host that should take PGDB says something else")


def _tell(writer: asyncio.StreamWriter, told: object) -> None:
    writer.write(json.dumps(told).encode("ascii") + b"\n")


# -- the archive -------------------------------------------------------------------------------


async def archive_for(tags: Tags) -> Archive:
    """Return the archive for hosts of *tags*.

    :raises StartError: if a distribution is neither installed here for *tags* nor to be had.
    """
    try:
        return await _make_archive(tags, Path(archive_bootstrap.cache_directory()))
    except OSError as error:
        raise StartError(f"what is to be shipped cannot be packed: {error}") from None


async def _make_archive(tags: Tags, cache: Path) -> Archive:
    files: dict[str, bytes] = await asyncio.to_thread(_own_files)
    wanted = []
    for name in DISTRIBUTIONS:
        found = await asyncio.to_thread(_installed_files, name, tags)
        if found is None:
            wanted.append(name)
        else:
            files.update(found)
    for wheel in await _wheels(wanted, tags, cache / "wheels"):
        files.update(await asyncio.to_thread(_wheel_files, wheel))
    return await asyncio.to_thread(_pack, files, cache)


def _own_files() -> dict[str, bytes]:
    """Return the files of PGDB as it is imported here, by their paths in an installation."""
    files = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise StartError(f"{package} has no folder, so it cannot be shipped; install PGDB anew")
        folder = Path(spec.submodule_search_locations[0])
        for directory, folders, names in os.walk(folder):  # the links in pgdb/ are not followed
            folders[:] = [each for each in folders if each[0] not in "._"]
            for name in names:
                path = Path(directory, name)
                if path.suffix != ".pyc":
                    inside = Path(*package.split("."), path.relative_to(folder))
                    files[inside.as_posix()] = path.read_bytes()
    return files


def _installed_files(name: str, tags: Tags) -> dict[str, bytes] | None:
    """Return the files of an installed distribution, None if they do not serve for *tags*."""
    # It brings half of the standard library, and few sessions ship anything.
    from importlib import metadata

    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    files = {}
    for path in distribution.files or ():
        # Scripts lie outside, compiled files are made there, and tests are half of NumPy's files.
        if {"..", "tests", "__pycache__"}.isdisjoint(path.parts) and path.suffix != ".pyc":
            with contextlib.suppress(FileNotFoundError):
                files[path.as_posix()] = Path(str(path.locate())).read_bytes()
    modules = [
        path for path in files if ".dist-info/" not in path and path.endswith((".py", ".so"))
    ]
    if not modules:
        return None  # installed as a link to somebody's sources, or by another packager
    is_pure = not any(path.endswith(".so") for path in files)
    wheel = distribution.read_text("WHEEL") or ""
    return files if is_pure or _runs_there(wheel, tags) else None


def _runs_there(wheel: str, tags: Tags) -> bool:
    """Return whether extension modules of ours, of a wheel with that WHEEL text, run there."""
    here = Tags.here()
    if (tags.python, tags.machine) != (here.python, here.machine):
        return False
    if (tags.glibc is None) != (here.glibc is None):
        return False
    if tags.glibc is None or here.glibc is None or tags.glibc >= here.glibc:
        return True
    for platform in re.findall(r"^Tag: .*-([\w.]+)$", wheel, re.MULTILINE):
        oldest = _OLD_PLATFORMS.get(platform.partition("_")[0])
        if match := _PLATFORM.match(platform):
            oldest = (int(match[2]), int(match[3]))
        if oldest is not None and oldest <= tags.glibc:
            return True
    return False


async def _wheels(names: Sequence[str], tags: Tags, directory: Path) -> list[Path]:
    """Return wheels of distributions for *tags*, kept in *directory* or fetched with pip."""
    if not names:
        return []
    kept = directory / f"{tags.python}-{tags.machine}-{tags.libc.replace(' ', '-')}"
    await asyncio.to_thread(kept.mkdir, parents=True, exist_ok=True)
    wheels = []
    for name in names:
        version = _version(name)
        pattern = f"{name}-{version}-*.whl"
        if not (found := sorted(kept.glob(pattern))):
            await _fetch(f"{name}=={version}", tags, kept)
            found = sorted(kept.glob(pattern))
        if not found:
            raise StartError(f"pip fetched no {pattern}; {_WAYS_OUT}")
        wheels.append(found[0])
    return wheels


_WAYS_OUT = (
    "install PGDB on that host (pip install pgdb-mpi), or name a Python there of "
    f"{sys.version_info[0]}.{sys.version_info[1]} with --remote-python"
)


def _version(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise StartError(f"{name} is not installed here; pip install pgdb-mpi brings it") from None


async def _fetch(requirement: str, tags: Tags, directory: Path) -> None:
    """Download one wheel for *tags* into *directory*; it appears there whole."""
    match = _PYTHON_TAG.match(tags.python)
    assert match is not None
    with tempfile.TemporaryDirectory(prefix=".new-", dir=directory) as fresh:
        line = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        line += ["--disable-pip-version-check", "--no-input", "--only-binary=:all:"]
        line += ["--implementation", "cp", "--python-version", f"3.{match[1]}", "--dest", fresh]
        for abi in (tags.python, "none") if match[2] else (tags.python, "abi3", "none"):
            line += ["--abi", abi]
        for platform in tags.platforms():
            line += ["--platform", platform]
        status, said = await _run(*line, requirement)
        if status:
            errors = [each for each in said.splitlines() if each.startswith("ERROR")] or [said]
            raise StartError(
                f"pip cannot fetch {requirement} for {tags.python} on {tags.machine}, {tags.libc}: "
                f"{errors[-1].removeprefix('ERROR: ').strip()[:200]}; {_WAYS_OUT}"
            )
        for wheel in Path(fresh).glob("*.whl"):
            wheel.rename(directory / wheel.name)


async def _run(*line: str) -> tuple[int, str]:
    """Run a program to its end; return its status and what it said."""
    process = await Program.start(
        *line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PIP_TIMEOUT_S):
            said, _ = await process.communicate()
        return process.returncode or 0, said.decode("utf-8", "replace")
    except TimeoutError:
        return 1, f"no end within {PIP_TIMEOUT_S:g} s; is there a network?"
    finally:
        await process.end()


def _wheel_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        return {name: archive.read(name) for name in names}


def _pack(files: Mapping[str, bytes], cache: Path) -> Archive:
    """Pack *files*; what was packed before is taken from *cache*."""
    manifest = json.dumps({path: len(files[path]) for path in sorted(files)}).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in [(archive_bootstrap.MANIFEST, manifest), *sorted(files.items())]:
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = len(data), _TIME_S, 0o644
            tar.addfile(member, io.BytesIO(data))
    key = hashlib.sha256(packed.getbuffer()).hexdigest()
    kept = cache / "archives" / f"{key}.tar.gz"
    try:
        data = kept.read_bytes()
        os.utime(kept)
    except OSError:
        # A second of work at level 9 for 5 % less; level 6 is what gzip(1) takes.
        data = gzip.compress(packed.getbuffer(), compresslevel=6, mtime=0)
        _keep(kept, data)
    return Archive(data=data, digest=hashlib.sha256(data).hexdigest())


def _keep(path: Path, data: bytes) -> None:
    """Write *path* so that it is never seen in part, and remove the oldest beside it."""
    try:
        path.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
        kept = sorted(path.parent.iterdir(), key=lambda each: each.stat().st_mtime)
        for old in kept[:-KEPT_ARCHIVE_COUNT]:
            old.unlink()
    except OSError as error:
        # The next session will pack it again. Another one may remove the same files just now.
        LOG.info("an archive is not kept: %s", error)
